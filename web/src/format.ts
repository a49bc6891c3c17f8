// Numbers and times as people read them.

export function bytes(count: number | undefined | null): string {
  if (count === undefined || count === null) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let value = count;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export function ago(ms: number, now = Date.now()): string {
  const seconds = Math.round((now - ms) / 1000);
  return seconds < 0 ? `in ${length(-seconds)}` : seconds < 5 ? "now" : `${length(seconds)} ago`;
}

export function length(seconds: number): string {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
}

export function millis(value: number | undefined | null): string {
  if (value === undefined || value === null) return "–";
  if (value < 10) return `${value.toFixed(1)} ms`;
  return value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(value < 10_000 ? 2 : 1)} s`;
}

export function clock(ms: number): string {
  return new Date(ms).toLocaleTimeString(undefined, { hour12: false });
}

export function moment(ms: number): string {
  return new Date(ms).toLocaleString(undefined, { hour12: false });
}

/**
 * Characters that turn the order of what stands beside them, that show nothing, or that control a terminal: between the words of a text
 * they make a person read something else than what is there. Tabs and ends of lines are no such; nor are the joiners that scripts need.
 */
// eslint-disable-next-line no-control-regex
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

const escaped = (character: string) => `<U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}>`;

/** The text, with a name in the place of each such character. */
export function shown(text: string): string {
  return text.replace(UNSEEN, escaped);
}

/** The same in parts: every second one is the name of a character. */
export function shownInParts(text: string): string[] {
  const parts: string[] = [];
  let end = 0;
  for (const found of text.matchAll(UNSEEN)) {
    parts.push(text.slice(end, found.index), escaped(found[0]));
    end = found.index + found[0].length;
  }
  return [...parts, text.slice(end)];
}

/** Text without the sequences that colour it on a terminal, and without what a line's later text replaced (a bar of progress). */
export function plain(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[ -/]+[0-~]|[0-Z\\-_])/g, "").split("\n").map(written).map(shown).join("\n");
}

/** What stands in a line after all of it was written. */
function written(line: string): string {
  let end = line.length;
  while (line[end - 1] === "\r") end -= 1;
  return line.slice(end > 0 ? line.lastIndexOf("\r", end - 1) + 1 : 0, end);
}

/** The text in one line, without such characters. */
export function name(text: string): string {
  return text.replace(/[\t\n]/g, "\ufffd").replace(UNSEEN, "\ufffd");
}

export function unbase64(text: string): Uint8Array {
  const binary = atob(text);
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}
