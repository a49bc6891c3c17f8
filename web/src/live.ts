// Data that stays as it is on the server: asked for again after events and from time to time, never while the tab is hidden.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Failure, type Schema, lines, onChange, session } from "./api";

export interface Live<T> {
  data?: T;
  error?: Failure;
  reload: () => void;
}

interface Options {
  everyMs?: number;
  /** Asked again after an event that passes. */
  on?: (event: Schema["Event"]) => boolean;
  /** However many events there are, so much time lies between two questions. */
  leastMs?: number;
}

const SOON_MS = 250;
const FIRST_AGAIN_MS = 300;
const LONGEST_AGAIN_MS = 5000;

export function useLive<T>(load: (signal: AbortSignal) => Promise<T>, inputs: unknown[], options: Options = {}): Live<T> {
  const [state, setState] = useState<{ data?: T; error?: Failure }>({});
  const again = useRef<() => void>(() => undefined);
  const latest = useRef(options);
  latest.current = options;
  useEffect(() => {
    setState({});
    let ended = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let running: AbortController | undefined;
    let asked = 0;
    let due = Infinity;
    // The earliest question that is planned stays: a stream of events never puts it off.
    const later = (ms: number) => {
      const at = performance.now() + ms;
      if (ended || at >= due) return;
      clearTimeout(timer);
      due = at;
      timer = setTimeout(run, ms);
    };
    const soon = () => later(Math.max(SOON_MS, asked + (latest.current.leastMs ?? 0) - performance.now()));
    const run = async () => {
      clearTimeout(timer);
      due = Infinity;
      if (ended || document.hidden) return;
      if (running) return later(SOON_MS);
      const own = (running = new AbortController());
      asked = performance.now();
      try {
        const data = await load(own.signal);
        if (!ended) setState({ data });
      } catch (error) {
        if (!ended && !own.signal.aborted) setState((before) => ({ ...before, error: error as Failure }));
      } finally {
        running = undefined;
        if (latest.current.everyMs) later(latest.current.everyMs);
      }
    };
    const shown = () => {
      clearTimeout(timer);
      due = Infinity;
      if (!document.hidden) void run();
    };
    again.current = () => later(0);
    const forget = events.listen((event) => {
      if (latest.current.on?.(event)) soon();
    });
    document.addEventListener("visibilitychange", shown);
    void run();
    return () => {
      ended = true;
      running?.abort();
      clearTimeout(timer);
      forget();
      document.removeEventListener("visibilitychange", shown);
    };
  }, inputs);
  return { ...state, reload: useCallback(() => again.current(), []) };
}

/**
 * A stream of lines, from where `target` says, until `take` says that it is over: opened again when it broke off, and closed while the tab
 * is hidden, which would else hold one of the few connections that a browser gives a server. Returns what ends it.
 */
export function follow<T>(target: () => string, take: (line: T) => void, over: (ended: boolean) => boolean, fail: (error: Failure) => void): () => void {
  const ended = new AbortController();
  let connection: AbortController | undefined;
  let shown: () => void = () => undefined;
  const turned = () => (document.hidden ? connection?.abort() : shown());
  document.addEventListener("visibilitychange", turned);
  const run = async () => {
    for (let pause = FIRST_AGAIN_MS; !ended.signal.aborted; ) {
      if (document.hidden) await new Promise<void>((done) => (shown = done));
      connection = new AbortController();
      const signal = AbortSignal.any([ended.signal, connection.signal]);
      let whole = false;
      try {
        for await (const line of lines<T>(target(), { signal })) {
          pause = FIRST_AGAIN_MS;
          take(line);
        }
        whole = true;
      } catch (error) {
        if (!signal.aborted && error instanceof Failure && error.status !== 0 && error.status < 500) return fail(error);
      }
      if (ended.signal.aborted || over(whole)) return;
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(pause * 2, LONGEST_AGAIN_MS);
    }
  };
  void run().finally(() => document.removeEventListener("visibilitychange", turned));
  return () => {
    ended.abort();
    shown();
  };
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 8000;

/** One stream of events for the whole page: a browser gives one server six connections, for all its tabs. */
class Events {
  private readonly listeners = new Set<(event: Schema["Event"]) => void>();
  private controller?: AbortController;
  readonly recent: Schema["Event"][] = [];

  constructor() {
    document.addEventListener("visibilitychange", () => this.adapt());
    onChange(() => this.adapt());
  }

  listen(listener: (event: Schema["Event"]) => void): () => void {
    this.listeners.add(listener);
    this.adapt();
    return () => {
      this.listeners.delete(listener);
    };
  }

  private adapt(): void {
    const wanted = !document.hidden && this.listeners.size > 0 && session.token() !== null;
    if (wanted && !this.controller) void this.follow((this.controller = new AbortController()));
    if (!wanted && this.controller) {
      this.controller.abort();
      this.controller = undefined;
    }
  }

  private async follow(controller: AbortController): Promise<void> {
    let pause = FIRST_PAUSE_MS;
    while (!controller.signal.aborted) {
      try {
        for await (const event of lines<Schema["Event"]>("/v1/events", { signal: controller.signal })) {
          pause = FIRST_PAUSE_MS;
          if (!event.sandbox) continue;
          this.recent.unshift(event);
          this.recent.length = Math.min(this.recent.length, 50);
          for (const listener of this.listeners) listener(event);
        }
      } catch {
        // The banner tells of it.
      }
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
    }
  }
}

export const events = new Events();

/** Draws again when the session or the connection changes. */
export function useChanges(): void {
  const [, draw] = useState(0);
  useEffect(() => onChange(() => draw((count) => count + 1)), []);
}
