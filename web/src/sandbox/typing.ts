// Typed text is kept until the server has it: in order, and each byte once, also over a connection that breaks.

import { Failure, type Schema, ask, path, query } from "../api";
import { bytes } from "../format";
import { toast } from "../parts/basics";

/** Characters that go with one request. A program that does not read holds the request up, and all that comes behind it. */
const PIECE = 128 << 10;
const MOST_WAITING = 16 << 20;
const FIRST_PAUSE_MS = 300;
const LONGEST_PAUSE_MS = 5000;
/** The server was busy, or the connection too slow: the same may be answered later. */
const LATER = [408, 429];

export class Typing {
  /** Told when the server refuses what was typed. */
  fail: (error: Failure) => void = () => undefined;
  private waiting = "";
  private sending = false;
  private ended = false;
  /** Bytes that the shell has got. The server leaves out what stands before: so nothing comes twice that is sent twice. */
  private offset = 0;

  constructor(
    private readonly sandbox: string,
    private readonly exec: number,
  ) {}

  type(text: string): void {
    if (this.ended) return;
    if (this.waiting.length + text.length > MOST_WAITING) {
      const most = `The terminal holds ${bytes(MOST_WAITING)} that the program inside has not read yet. Files takes an upload of any size.`;
      return toast(`Not pasted: ${bytes(text.length)} are too much at one time`, most, true);
    }
    this.waiting += text;
    if (!this.sending) void this.send();
  }

  end(): void {
    this.ended = true;
    this.waiting = "";
  }

  /** One request at a time. A piece is kept until it is answered, and sent again with its place; what is typed meanwhile goes along. */
  private async send(): Promise<void> {
    this.sending = true;
    let pause = FIRST_PAUSE_MS;
    while (this.waiting) {
      const piece = first(this.waiting);
      const target = path`/v1/sandboxes/${this.sandbox}/execs/${this.exec}/stdin` + query({ offset: this.offset });
      try {
        const answer = (await (await ask(target, { method: "POST", body: new TextEncoder().encode(piece) })).json()) as Schema["StdinReceived"];
        this.offset = answer.offset;
        this.waiting = this.waiting.slice(piece.length);
        pause = FIRST_PAUSE_MS;
      } catch (error) {
        // Anything but an answer of the server is as if the connection broke.
        if (error instanceof Failure && error.status >= 400 && error.status < 500 && !LATER.includes(error.status)) {
          this.waiting = "";
          this.fail(error);
          break;
        }
        await new Promise((done) => setTimeout(done, pause));
        pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
      }
    }
    this.sending = false;
  }
}

/** As much as goes at one time, with both halves of its last character. */
function first(text: string): string {
  if (text.length <= PIECE) return text;
  const last = text.charCodeAt(PIECE - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? PIECE - 1 : PIECE);
}
