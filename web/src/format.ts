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

/** Text without the sequences that colour it on a terminal, and without what a line's later text replaced (a bar of progress). */
export function plain(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g, "").split("\n").map(written).join("\n");
}

/** What stands in a line after all of it was written. */
function written(line: string): string {
  let end = line.length;
  while (line[end - 1] === "\r") end -= 1;
  return line.slice(end > 0 ? line.lastIndexOf("\r", end - 1) + 1 : 0, end);
}

/** The text, without characters that would turn the order of what stands beside it. */
export function name(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

export function unbase64(text: string): Uint8Array {
  const binary = atob(text);
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}
