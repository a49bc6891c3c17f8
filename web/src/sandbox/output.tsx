// The output of a command, as it comes. It is shown as text and nothing else.

import { useEffect, useState } from "preact/hooks";
import { type Failure, type Schema, path, query } from "../api";
import { plain, unbase64 } from "../format";
import { follow } from "../live";

export interface Piece {
  stream: "stdout" | "stderr" | "note";
  text: string;
}

/** So many characters are kept in the page; the server has the rest. */
const KEPT = 200_000;
const DRAWN_MS = 50;

export class Collected {
  pieces: Piece[] = [];
  left = 0;
  results: Schema["CodeResult"][] = [];
  error?: Schema["CodeError"];
  exec?: Schema["Exec"];
  readonly offsets = { stdout: 0, stderr: 0, results: 0 };
  private length = 0;
  private readonly decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };

  take(event: Schema["OutputEvent"]): void {
    if (event.type === "output") {
      const data = unbase64(event.data);
      this.offsets[event.stream] = event.offset + data.length;
      this.add({ stream: event.stream, text: this.decoders[event.stream].decode(data, { stream: true }) });
    } else if (event.type === "gap") {
      this.offsets[event.stream] = event.offset + event.bytes;
      this.add({ stream: "note", text: `\n[${event.bytes} bytes were not kept]\n` });
    } else if (event.type === "result") {
      this.offsets.results += 1;
      this.results.push(event.result);
    } else if (event.type === "error") {
      this.offsets.results += 1;
      this.error = event.error;
    } else if (event.type === "ended") this.exec = event.exec;
  }

  private add(piece: Piece): void {
    const last = this.pieces.at(-1);
    if (last?.stream === piece.stream && last.text.length < 16_384) last.text += piece.text;
    else this.pieces.push(piece);
    this.length += piece.text.length;
    while (this.length > KEPT && this.pieces.length > 1) {
      const gone = this.pieces.shift()?.text.length ?? 0;
      this.length -= gone;
      this.left += gone;
    }
    if (this.length > KEPT && this.pieces[0]) {
      const gone = this.length - KEPT;
      this.pieces[0].text = this.pieces[0].text.slice(gone);
      this.length -= gone;
      this.left += gone;
    }
  }
}

interface Followed {
  collected: Collected;
  error?: Failure;
}

/** Follows an exec until it has ended, also over a server that dies and comes back. */
export function useOutput(sandbox: string, exec?: number): Followed {
  const target = ({ stdout, stderr, results }: Collected["offsets"]) =>
    path`/v1/sandboxes/${sandbox}/execs/${exec ?? 0}/output` + query({ stdout_offset: stdout, stderr_offset: stderr, results_offset: results, follow: true });
  return useFollowed(exec !== undefined, target, (collected) => collected.exec !== undefined, [sandbox, exec]);
}

/** Follows a task of a job until it is over. Its stream has no places: after a break all of it comes again. */
export function useTaskOutput(job: string, task: number): Followed {
  return useFollowed(true, () => path`/v1/jobs/${job}/logs` + query({ task, follow: true }), undefined, [job, task]);
}

/** `over`: nothing more comes. Without it, the end of the stream says so, and a stream that broke off is read anew. */
function useFollowed(wanted: boolean, target: (offsets: Collected["offsets"]) => string, over: ((collected: Collected) => boolean) | undefined, inputs: unknown[]): Followed {
  const [state, setState] = useState<Followed>({ collected: new Collected() });
  useEffect(() => {
    let collected = new Collected();
    setState({ collected });
    if (!wanted) return;
    let ended = false;
    let drawing = false;
    const draw = () => {
      if (drawing) return;
      drawing = true;
      setTimeout(() => {
        drawing = false;
        if (!ended) setState({ collected });
      }, DRAWN_MS);
    };
    const from = () => {
      if (!over) collected = new Collected();
      return target(collected.offsets);
    };
    const take = (event: Schema["OutputEvent"]) => {
      collected.take(event);
      draw();
    };
    const end = follow(from, take, (whole) => (over ? over(collected) : whole), (error) => setState({ collected, error }));
    return () => {
      ended = true;
      end();
    };
  }, inputs);
  return state;
}

export function Output({ collected }: { collected: Collected }) {
  return (
    <pre class="output" tabIndex={0} aria-label="Output">
      {collected.left > 0 && <span class="note">[{collected.left} characters before this are not shown]{"\n"}</span>}
      {collected.pieces.map((piece, index) => (
        <span key={index} class={piece.stream}>
          {plain(piece.text)}
        </span>
      ))}
    </pre>
  );
}

export function cause(exec: Schema["Exec"]): string {
  const why = exec.cause;
  if (!why) return "runs";
  switch (why.kind) {
    case "exited":
      return exec.exit_code === 0 ? "done" : `exit code ${exec.exit_code}`;
    case "signaled":
      return `ended by signal ${why.signal}`;
    case "time_limit":
      return `time limit of ${why.limit_ms / 1000} s reached`;
    case "out_of_memory":
      return "out of memory";
    case "killed":
      return "killed";
    case "not_started":
      return `not started: ${why.detail}`;
    default:
      return "its sandbox ended";
  }
}
