// A real terminal inside the sandbox. What it prints is hostile: terminal-filter.ts drops what could reach further than its screen.

import { FitAddon } from "@xterm/addon-fit";
import { type ITheme, Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { Failure, type Schema, leaving, lines, path, query, send } from "../api";
import { unbase64 } from "../format";
import { Empty, Problem, State } from "../parts/basics";
import { dropWhatReachesFurther } from "./terminal-filter";
import { openWithoutInlineStyles } from "./terminal-styles";
import { Typing } from "./typing";

type Sandbox = Schema["Sandbox"];

const SHELL = "command -v bash >/dev/null && exec bash -i; exec sh -i";

interface Shell {
  exec: number;
  typing: Typing;
}

/** By sandbox: a terminal's shell goes on while another tab is shown, and so does what was typed into it. */
const running = new Map<string, Shell>();

function forget(sandbox: string): void {
  running.get(sandbox)?.typing.end();
  running.delete(sandbox);
}

leaving.add(() => [...running.keys()].forEach(forget));

export function TerminalTab({ sandbox }: { sandbox: Sandbox }) {
  const [round, setRound] = useState(0);
  if (sandbox.state === "ended") return <Empty>The sandbox has ended; no command runs in it any more.</Empty>;
  const anew = () => {
    forget(sandbox.id);
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
  private shell?: Shell;
  /** Typed before there is a shell. */
  private early = "";

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
      let shell = running.get(this.id);
      if (!shell) {
        shell = await this.start();
        running.set(this.id, shell);
      }
      this.shell = shell;
      shell.typing.fail = this.fail;
      if (this.early) shell.typing.type(this.early);
      await this.follow(shell.exec);
    } catch (error) {
      if (this.ended.signal.aborted) return;
      this.tell("failed");
      this.fail(error as Failure);
    }
  }

  private async start(): Promise<Shell> {
    const { rows, cols } = this.terminal;
    const exec = await send<Schema["Exec"]>("POST", path`/v1/sandboxes/${this.id}/execs`, {
      command: SHELL,
      terminal: { rows, columns: cols },
      open_stdin: true,
      background: true,
      env: { TERM: "xterm-256color" },
    });
    return { exec: exec.exec, typing: new Typing(this.id, exec.exec) };
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
            forget(this.id);
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
    if (this.shell) this.shell.typing.type(text);
    else this.early += text;
  }

  private resize(rows: number, columns: number): void {
    if (!this.shell) return;
    send("POST", path`/v1/sandboxes/${this.id}/execs/${this.shell.exec}/resize`, { rows, columns }).catch(() => undefined);
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
