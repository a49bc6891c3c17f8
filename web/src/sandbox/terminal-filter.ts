// Sequences that a program inside may print, and that the terminal drops: those that reach the clipboard, the title or links, and every
// question. An answer would be typed into the shell as if the person had typed it, and again each time the output is shown anew.
// Made for xterm.js 5.5.0; web/tests/terminal.test.mjs tries every form of sequence, and fails if any of them is answered.

import type { IFunctionIdentifier, Terminal } from "@xterm/xterm";

/** Title and icon (0, 1, 2), colours by number (4, 5), working directory (7), links (8), notifications (9, 99, 777), colours of the
 *  screen (10 to 19), font (50), clipboard (52), the reset of colours (104, 105, 110 to 119), a program's own (1337). Queries of colours
 *  and of the clipboard have the same numbers as what sets them. */
const OSC = [0, 1, 2, 4, 5, 7, 8, 9, ...from(10, 19), 50, 52, 99, 104, 105, ...from(110, 119), 777, 1337];

/** Questions: what the terminal is (c), its state and its cursor (n), its modes ($p), its parameters (x), the window (t), its version
 *  (>q), the form of its keys (?u). */
const CSI: IFunctionIdentifier[] = [
  ...["", ">", "="].map((prefix) => ({ prefix, final: "c" })),
  ...["", "?", ">"].map((prefix) => ({ prefix, final: "n" })),
  ...["", "?"].map((prefix) => ({ prefix, intermediates: "$", final: "p" })),
  { final: "x" },
  { final: "t" },
  { prefix: ">", final: "q" },
  { prefix: "?", final: "u" },
];

/** Settings (DECRQSS), and what the terminal can do (XTGETTCAP). */
const DCS: IFunctionIdentifier[] = [
  { intermediates: "$", final: "q" },
  { intermediates: "+", final: "q" },
];

/** With this mode the terminal types a sequence whenever the page gains or loses the focus, and one at once. */
const TELL_FOCUS = 1004;

export function dropWhatReachesFurther(terminal: Terminal): void {
  const { parser } = terminal;
  for (const number of OSC) parser.registerOscHandler(number, () => true);
  for (const id of CSI) parser.registerCsiHandler(id, () => true);
  for (const id of DCS) parser.registerDcsHandler(id, () => true);
  parser.registerCsiHandler({ prefix: "?", final: "h" }, (parameters) => parameters.includes(TELL_FOCUS));
  for (const prefix of ["", "?"]) parser.registerCsiHandler({ prefix, final: "J" }, ([what]) => what === 1 && isInTheLastCell(terminal));
}

/** There xterm.js 5.5.0 fails at "erase all above" (`CSI 1 J`), because it looks at a line below; and after an error it shows nothing more. */
function isInTheLastCell({ buffer, rows, cols }: Terminal): boolean {
  return buffer.active.cursorY >= rows - 1 && buffer.active.cursorX >= cols - 1;
}

function from(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}
