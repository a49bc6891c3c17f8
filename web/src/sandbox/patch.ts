// A unified patch, as rows of two columns.

export type PatchRow =
  | { kind: "line"; oldLine?: number; newLine?: number; old?: string; new?: string; same: boolean }
  | { kind: "skip"; text: string };

export interface PatchedFile {
  path: string;
  notes: string[];
  rows: PatchRow[];
}

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)$/;
const MOST_ROWS = 5000;
const HEAD = "diff --git ";

export function parsePatch(text: string): PatchedFile[] {
  const files: PatchedFile[] = [];
  let file: PatchedFile | undefined;
  let removed: { line: number; text: string }[] = [];
  let oldLine = 0;
  let newLine = 0;
  let inside = false;
  const flush = () => {
    for (const one of removed) file?.rows.push({ kind: "line", oldLine: one.line, old: one.text, same: false });
    removed = [];
  };
  for (const line of text.split("\n")) {
    if (line.startsWith(HEAD)) {
      flush();
      file = { path: pathOf(line), notes: [], rows: [] };
      files.push(file);
      inside = false;
      continue;
    }
    if (!file || file.rows.length > MOST_ROWS) continue;
    const hunk = HUNK.exec(line);
    if (hunk) {
      flush();
      oldLine = Number(hunk[1]);
      newLine = Number(hunk[2]);
      inside = true;
      if (file.rows.length > 0 || oldLine > 1) file.rows.push({ kind: "skip", text: `line ${newLine}${hunk[3] ?? ""}` });
    } else if (!inside) {
      if (/^(new|deleted|old) |^rename |^Binary |^GIT binary/.test(line)) file.notes.push(line);
    } else if (line.startsWith("-")) {
      removed.push({ line: oldLine, text: line.slice(1) });
      oldLine += 1;
    } else if (line.startsWith("+")) {
      const before = removed.shift();
      file.rows.push({ kind: "line", oldLine: before?.line, old: before?.text, newLine, new: line.slice(1), same: false });
      newLine += 1;
    } else if (line.startsWith(" ")) {
      flush();
      file.rows.push({ kind: "line", oldLine, old: line.slice(1), newLine, new: line.slice(1), same: true });
      oldLine += 1;
      newLine += 1;
    } else if (line.startsWith("\\")) file.notes.push(line.slice(2));
  }
  flush();
  return files;
}

/** Both names of the line are of one path, so one half of it is the name: a path may hold ` b/` itself. */
function pathOf(line: string): string {
  const names = line.slice(HEAD.length);
  const name = unquoted(names.slice((names.length + 1) / 2));
  return name.replace(/^b\//, "/");
}

/** Git's quotes: of bytes, in octal numbers (`\303\251`), and of `"` and `\`. */
function unquoted(name: string): string {
  if (!name.startsWith('"')) return name;
  const bytes: number[] = [];
  for (const [piece, octal, escaped] of name.slice(1, -1).matchAll(/\\([0-7]{3})|\\(["\\])|[^\\]/gu)) {
    if (octal) bytes.push(Number.parseInt(octal, 8));
    else bytes.push(...new TextEncoder().encode(escaped ?? piece));
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
}
