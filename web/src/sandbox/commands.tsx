// The commands of a sandbox, with their output as it comes.

import { useRef, useState } from "preact/hooks";
import { type Failure, type Schema, get, path, send } from "../api";
import { length, name } from "../format";
import { useLive } from "../live";
import { Action, Empty, Problem, When } from "../parts/basics";
import { to } from "../route";
import { Output, cause, useOutput } from "./output";

const SHOWN = 200;
/** The list has all of them, and is asked for the more seldom the longer it is. */
const LEAST_MS = 1000;
const LEAST_MS_FOR_ONE = 5;
const SELDOM_MS = 15_000;

export function Commands({ sandbox, query }: { sandbox: Schema["Sandbox"]; query: URLSearchParams }) {
  const count = useRef(0);
  const least = Math.max(LEAST_MS, count.current * LEAST_MS_FOR_ONE);
  const list = useLive((signal) => get<{ execs: Schema["Exec"][] }>(path`/v1/sandboxes/${sandbox.id}/execs`, signal), [sandbox.id], {
    on: (event) => event.sandbox === sandbox.id && event.kind.startsWith("exec_"),
    leastMs: least,
    everyMs: Math.max(SELDOM_MS, least),
  });
  count.current = list.data?.execs.length ?? 0;
  const [command, setCommand] = useState("");
  const [error, setError] = useState<Failure>();
  const execs = [...(list.data?.execs ?? [])].sort((a, b) => b.exec - a.exec);
  const chosen = Number(query.get("exec")) || execs[0]?.exec;
  const choose = (exec: number) => (location.hash = `${to("sandboxes", sandbox.id, "commands")}?exec=${exec}`);
  const run = async (event: Event) => {
    event.preventDefault();
    setError(undefined);
    try {
      const started = await send<Schema["Exec"]>("POST", path`/v1/sandboxes/${sandbox.id}/execs`, { command, background: true });
      setCommand("");
      choose(started.exec);
      list.reload();
    } catch (failure) {
      setError(failure as Failure);
    }
  };
  return (
    <div class="split">
      <div class="side">
        {sandbox.state !== "ended" && (
          <form class="line" onSubmit={run}>
            <input aria-label="Command" class="mono" placeholder="Command for sh -c" value={command} onInput={(event) => setCommand(event.currentTarget.value)} />
            <button class="primary" disabled={!command.trim()}>
              Run
            </button>
          </form>
        )}
        <Problem error={error ?? list.error} />
        {execs.length === 0 && list.data && <Empty>Nothing has run here yet.</Empty>}
        <ul class="choices" aria-label="Commands">
          {execs.slice(0, SHOWN).map((exec) => (
            <li key={exec.exec}>
              <button class={exec.exec === chosen ? "choice on" : "choice"} aria-pressed={exec.exec === chosen} onClick={() => choose(exec.exec)}>
                <code>{name(exec.command)}</code>
                <small>
                  {exec.exec} · <span class={exec.cause && exec.exit_code !== 0 ? "bad" : ""}>{name(cause(exec))}</span> · <When ms={exec.started_at_ms} />
                </small>
              </button>
            </li>
          ))}
        </ul>
        {execs.length > SHOWN && <p class="quiet">The newest {SHOWN} of {execs.length}.</p>}
      </div>
      {chosen !== undefined && <One key={chosen} sandbox={sandbox.id} exec={chosen} />}
    </div>
  );
}

function One({ sandbox, exec }: { sandbox: string; exec: number }) {
  const { collected, error } = useOutput(sandbox, exec);
  const known = useLive((signal) => get<Schema["Exec"]>(path`/v1/sandboxes/${sandbox}/execs/${exec}`, signal), [sandbox, exec]);
  const shown = collected.exec ?? known.data;
  return (
    <section class="detail" aria-label={`Command ${exec}`}>
      <header class="bar">
        <code class="cut">{name(known.data?.command ?? `command ${exec}`)}</code>
        <div class="spring" />
        {shown && (
          <span class={shown.cause && shown.exit_code !== 0 ? "bad" : "quiet"}>
            {name(cause(shown))}
            {shown.ended_at_ms ? `, ${length(Math.round((shown.ended_at_ms - shown.started_at_ms) / 1000))}` : ""}
          </span>
        )}
        {!collected.exec && shown?.state === "running" && (
          <Action kind="danger" run={() => send("DELETE", path`/v1/sandboxes/${sandbox}/execs/${exec}`)}>
            Kill
          </Action>
        )}
      </header>
      <Problem error={error} />
      <Output collected={collected} />
    </section>
  );
}
