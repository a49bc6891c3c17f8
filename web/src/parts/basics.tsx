// The small pieces that every page is made of.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Failure } from "../api";
import { ago, moment, shown, shownInParts } from "../format";

export function Problem({ error, retry }: { error?: Failure; retry?: () => void }) {
  if (!error) return null;
  return (
    <div class="problem" role="alert">
      <strong>{shown(error.message || String(error))}</strong>
      {error.hint && (
        <p>
          <Words text={error.hint} />
        </p>
      )}
      <p class="quiet">
        {error.code}
        {error.requestId && ` · request ${error.requestId}`}
        {retry && (
          <button class="link" onClick={retry}>
            Try again
          </button>
        )}
      </p>
    </div>
  );
}

/** Text of which the parts in backticks are code. */
export function Words({ text }: { text: string }) {
  return <>{shown(text).split(/`([^`]+)`/).map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part))}</>;
}

/** Text of others, in which nothing is hidden. */
export function Shown({ text }: { text: string }) {
  return (
    <>
      {shownInParts(text).map((part, index) =>
        index % 2 ? (
          <span key={index} class="unseen" title="A character that is not seen, or that turns the order of the text">
            {part}
          </span>
        ) : (
          part
        ),
      )}
    </>
  );
}

export function Card({ title, extra, children, wide }: { title?: ComponentChildren; extra?: ComponentChildren; children: ComponentChildren; wide?: boolean }) {
  return (
    <section class={wide ? "card wide" : "card"}>
      {title && (
        <header>
          <h2>{title}</h2>
          {extra}
        </header>
      )}
      {children}
    </section>
  );
}

/** On a narrow screen the chosen tab may be outside of its row. */
export function inSight(element: HTMLElement | null): void {
  element?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

export function State({ state }: { state: string }) {
  return <span class={`state ${state.replace(/[^a-z_-]/g, "")}`}>{state.replace(/_/g, " ")}</span>;
}

export function When({ ms }: { ms: number }) {
  const [, draw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => draw((count) => count + 1), 10_000);
    return () => clearInterval(timer);
  }, []);
  return <time title={moment(ms)}>{ago(ms)}</time>;
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

export function Waiting({ what }: { what: string }) {
  return (
    <p class="waiting" role="status">
      <span class="spinner" aria-hidden="true" /> {what}
    </p>
  );
}

interface ActionProps {
  children: ComponentChildren;
  run: () => Promise<unknown> | unknown;
  kind?: "primary" | "danger" | "plain";
  disabled?: boolean;
  title?: string;
  /** Asked before it is done. */
  sure?: string;
}

/** A button that is busy while its work runs, and says what went wrong. */
export function Action({ children, run, kind, disabled, title, sure }: ActionProps) {
  const [busy, setBusy] = useState(false);
  const alive = useRef(true);
  useEffect(() => () => void (alive.current = false), []);
  const click = async (event: Event) => {
    event.stopPropagation();
    event.preventDefault();
    if (sure && !(await confirmed(sure))) return;
    setBusy(true);
    try {
      await run();
    } catch (error) {
      toast((error as Failure).message, (error as Failure).hint, true);
    } finally {
      if (alive.current) setBusy(false);
    }
  };
  return (
    <button type="button" class={kind ?? ""} disabled={disabled || busy} aria-busy={busy} title={title} onClick={click}>
      {children}
    </button>
  );
}

interface Told {
  number: number;
  text: string;
  hint?: string;
  bad: boolean;
}
let told: Told[] = [];
let drawTold: () => void = () => undefined;
let numbers = 0;

export function toast(text: string, hint?: string, bad = false): void {
  const one = { number: (numbers += 1), text, hint, bad };
  told = [...told.slice(-3), one];
  drawTold();
  setTimeout(() => dismiss(one.number), bad ? 12_000 : 4000);
}
function dismiss(number: number): void {
  told = told.filter((one) => one.number !== number);
  drawTold();
}

export function Toasts() {
  const [, draw] = useState(0);
  drawTold = () => draw((count) => count + 1);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {told.map((one) => (
        <div key={one.number} class={one.bad ? "toast bad" : "toast"}>
          <div>
            <strong>{shown(one.text)}</strong>
            {one.hint && (
              <p>
                <Words text={one.hint} />
              </p>
            )}
          </div>
          <button class="plain" aria-label="Close" onClick={() => dismiss(one.number)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}

export function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => element.current?.showModal(), []);
  return (
    <dialog ref={element} aria-label={title} onClose={close} onClick={(event) => event.target === element.current && close()}>
      <header>
        <h2>{title}</h2>
        <button class="plain" aria-label="Close" onClick={close}>
          ×
        </button>
      </header>
      {children}
    </dialog>
  );
}

let drawQuestion: (question?: { text: string; answer: (yes: boolean) => void }) => void = () => undefined;
export function confirmed(text: string): Promise<boolean> {
  return new Promise((answer) => drawQuestion({ text, answer }));
}

export function Question() {
  const [question, setQuestion] = useState<{ text: string; answer: (yes: boolean) => void }>();
  drawQuestion = setQuestion;
  if (!question) return null;
  const answer = (yes: boolean) => {
    setQuestion(undefined);
    question.answer(yes);
  };
  return (
    <Dialog title="Are you sure?" close={() => answer(false)}>
      <p>{question.text}</p>
      <footer>
        <button onClick={() => answer(false)}>No</button>
        <button class="danger" autofocus onClick={() => answer(true)}>
          Yes
        </button>
      </footer>
    </Dialog>
  );
}

export function Facts({ facts }: { facts: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {facts.map(([label, value]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{value ?? "–"}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Rows of a table that scrolls sideways where it is too wide. */
export function Table({ head, children, label }: { head: string[]; children: ComponentChildren; label: string }) {
  return (
    <div class="scroll">
      <table aria-label={label}>
        <thead>
          <tr>
            {head.map((text) => (
              <th key={text} scope="col">
                {text}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
