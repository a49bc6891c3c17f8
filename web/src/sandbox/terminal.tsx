// A real terminal inside the sandbox. What it prints is hostile: terminal-filter.ts drops what could reach further than its screen.

import { FitAddon } from "@xterm/addon-fit";
import { type ITheme, Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { Failure, type Schema, ask, lines, path, query, send } from "../api";
import { unbase64 } from "../format";
import { Empty, Problem, State } from "../parts/basics";
import { dropWhatReachesFurther } from "./terminal-filter";
import { openWithoutInlineStyles } from "./terminal-styles";

type Sandbox = Schema["Sandbox"];

const SHELL = "command -v bash >/dev/null && exec bash -i; exec sh -i";
const LONGEST_PASTE = 1 << 20;

/** The terminal's exec goes on while another tab is shown; here is which one it is. */
const running = new Map<string, number>();

export function TerminalTab({ sandbox }: { sandbox: Sandbox }) {
  const [round, setRound] = useState(0);
  if (sandbox.state === "ended") return <Empty>The sandbox has ended; no command runs in it any more.</Empty>;
  const anew = () => {
    running.delete(sandbox.id);
    setRound(round + 1);
  };
  return <Screen key={`${sandbox.id}-${round}`} id={sandbox.id} anew={anew} />;
}

function Screen({ id, anew }: { id: string; anew: () => void }) {
  const place = useRef<HTMLDivElement>(null);
  const [state, setState] = useState("connecting");
  const [error, setError] = useState<Failure>();
  useEffect(() => {
    if (!place.current) return;
    const view = new View(id, place.current, setState, setError);
    return () => view.close();
  }, [id]);
  return (
    <div class="terminal">
      <div class="bar">
        <State state={state} />
        <span class="quiet">Shift+Esc leaves the terminal by keyboard</span>
        <div class="spring" />
        <button onClick={anew}>New terminal</button>
      </div>
      <Problem error={error} retry={anew} />
      <div class="screen" ref={place} />
    </div>
  );
}

class View {
  private readonly terminal: Terminal;
  private readonly fit = new FitAddon();
  private readonly ended = new AbortController();
  private readonly observer: ResizeObserver;
  private exec?: number;
  private waiting = "";
  private sending = false;
  private offset?: number;

  constructor(
    private readonly id: string,
    place: HTMLElement,
    private readonly tell: (state: string) => void,
    private readonly fail: (error: Failure) => void,
  ) {
    this.terminal = new Terminal({
      cursorBlink: true,
      fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace",
      fontSize: 13,
      scrollback: 5000,
      screenReaderMode: false,
      allowProposedApi: false,
      windowOptions: {},
      theme: theme(),
    });
    dropWhatReachesFurther(this.terminal);
    this.terminal.loadAddon(this.fit);
    openWithoutInlineStyles(this.terminal, place);
    this.fit.fit();
    this.terminal.attachCustomKeyEventHandler((event) => {
      if (event.key !== "Escape" || !event.shiftKey) return true;
      this.terminal.blur();
      document.querySelector<HTMLElement>('[role="tab"][aria-selected="true"]')?.focus();
      return false;
    });
    this.terminal.onData((text) => this.type(text));
    this.terminal.onBinary((text) => this.type(text));
    this.terminal.onResize(({ cols, rows }) => this.resize(rows, cols));
    this.observer = new ResizeObserver(() => this.fit.fit());
    this.observer.observe(place);
    addEventListener("themechange", this.themed);
    this.terminal.focus();
    void this.run();
  }

  close(): void {
    this.ended.abort();
    this.observer.disconnect();
    removeEventListener("themechange", this.themed);
    this.terminal.dispose();
  }

  private readonly themed = () => {
    this.terminal.options.theme = theme();
  };

  private async run(): Promise<void> {
    try {
      this.exec = running.get(this.id) ?? (await this.start());
      running.set(this.id, this.exec);
      await this.follow(this.exec);
    } catch (error) {
      if (this.ended.signal.aborted) return;
      this.tell("failed");
      this.fail(error as Failure);
    }
  }

  private async start(): Promise<number> {
    const { rows, cols } = this.terminal;
    const exec = await send<Schema["Exec"]>("POST", path`/v1/sandboxes/${this.id}/execs`, {
      command: SHELL,
      terminal: { rows, columns: cols },
      open_stdin: true,
      background: true,
      env: { TERM: "xterm-256color" },
    });
    return exec.exec;
  }

  /** Output from where this view is, again and again until the shell has ended. */
  private async follow(exec: number): Promise<void> {
    let at = 0;
    for (let pause = 300; ; pause = Math.min(pause * 2, 5000)) {
      const target = path`/v1/sandboxes/${this.id}/execs/${exec}/output` + query({ stdout_offset: at, follow: true });
      try {
        this.tell("connected");
        for await (const event of lines<Schema["OutputEvent"]>(target, { signal: this.ended.signal })) {
          pause = 300;
          if (event.type === "output") {
            const data = unbase64(event.data);
            at = event.offset + data.length;
            await new Promise<void>((done) => this.terminal.write(data, done));
          } else if (event.type === "gap") {
            at = event.offset + event.bytes;
            this.terminal.write(`\r\n[${event.bytes} bytes were not kept]\r\n`);
          } else if (event.type === "ended") {
            running.delete(this.id);
            this.tell("ended");
            this.terminal.write("\r\n[the shell has ended]\r\n");
            return;
          }
        }
      } catch (error) {
        if (this.ended.signal.aborted) return;
        if (error instanceof Failure && error.status !== 0 && error.status < 500) throw error;
      }
      this.tell("reconnecting");
      await new Promise((done) => setTimeout(done, pause));
      if (this.ended.signal.aborted) return;
    }
  }

  private type(text: string): void {
    if (this.waiting.length + text.length > LONGEST_PASTE) return;
    this.waiting += text;
    if (!this.sending) void this.send();
  }

  /** One request at a time, in order; what is typed meanwhile goes with the next. */
  private async send(): Promise<void> {
    this.sending = true;
    while (this.waiting && this.exec !== undefined && !this.ended.signal.aborted) {
      const body = new TextEncoder().encode(this.waiting);
      this.waiting = "";
      try {
        const target = path`/v1/sandboxes/${this.id}/execs/${this.exec}/stdin` + query({ offset: this.offset });
        const answer = (await (await ask(target, { method: "POST", body })).json()) as Schema["StdinReceived"];
        this.offset = answer.offset;
      } catch (error) {
        if ((error as Failure).status !== 0) this.fail(error as Failure);
        break;
      }
    }
    this.sending = false;
  }

  private resize(rows: number, columns: number): void {
    if (this.exec === undefined) return;
    send("POST", path`/v1/sandboxes/${this.id}/execs/${this.exec}/resize`, { rows, columns }).catch(() => undefined);
  }
}

function theme(): ITheme {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  return {
    background: colour("--terminal"),
    foreground: colour("--terminal-text"),
    cursor: colour("--terminal-text"),
    selectionBackground: colour("--selection"),
  };
}
