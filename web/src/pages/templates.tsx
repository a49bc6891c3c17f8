// Templates, and their builds with the logs.

import { useState } from "preact/hooks";
import { type Schema, get, path, query } from "../api";
import { bytes, clock, length, name, plain, shown } from "../format";
import { useLive } from "../live";
import { Card, Empty, Problem, State, Table, Waiting, When } from "../parts/basics";
import { to } from "../route";

type Build = Schema["TemplateBuild"];
type Level = Schema["LogLevel"];

const PAGE = 50;
const LOG_LINES = 1000;
const OFTEN_MS = 2000;
const SELDOM_MS = 15_000;
const LEVELS: [Level, string][] = [
  ["debug", "everything"],
  ["info", "output and steps"],
  ["warn", "warnings and errors"],
  ["error", "errors"],
];

export function Templates({ build }: { build?: string }) {
  const live = useLive((signal) => get<{ templates: Schema["Template"][] }>("/v1/templates", signal), [], { everyMs: 20_000 });
  return (
    <div class="page">
      <h1>Templates</h1>
      <Problem error={live.error} retry={live.reload} />
      {!live.data && !live.error && <Waiting what="Loading" />}
      {build && <OneBuild key={build} id={build} />}
      {live.data && (
        <Table label="Templates" head={["Name", "Of", "Builds", ""]}>
          {live.data.templates.map((one) => (
            <tr key={one.name}>
              <td>{name(one.name)}</td>
              <td class="quiet">{one.id ? "your own" : "the server's"}</td>
              <td>
                {one.tags?.map((tag) => (
                  <a key={tag.tag} class="chip" href={to("templates", tag.build)}>
                    {name(tag.tag)}
                  </a>
                ))}
              </td>
              <td class="actions">
                <a href={`#/sandboxes${query({ new: "1", template: one.name })}`}>Create a sandbox</a>
              </td>
            </tr>
          ))}
        </Table>
      )}
      <Builds chosen={build} />
    </div>
  );
}

/** The newest builds, and older ones page by page. */
function Builds({ chosen }: { chosen?: string }) {
  const [older, setOlder] = useState<string[]>([]);
  const cursor = older.at(-1);
  const live = useLive((signal) => get<Schema["TemplateBuildPage"]>(`/v1/template-builds${query({ limit: PAGE, cursor })}`, signal), [cursor], {
    everyMs: cursor ? SELDOM_MS : OFTEN_MS * 2,
  });
  const next = live.data?.next_cursor;
  return (
    <Card title="Builds" wide>
      <Problem error={live.error} retry={live.reload} />
      {!live.data && !live.error && <Waiting what="Loading" />}
      {live.data?.builds.length === 0 && (
        <Empty>
          Nothing was built yet. <code>paddock template build code-interpreter</code> builds a template for all, <code>POST /v1/template-builds</code> one of your own.
        </Empty>
      )}
      {live.data && live.data.builds.length > 0 && (
        <Table label="Builds" head={["Template", "State", "Began", "Took", "Size", "By", ""]}>
          {live.data.builds.map((one) => (
            <tr key={one.id} aria-current={one.id === chosen ? "true" : undefined}>
              <td>
                <a href={to("templates", one.id)}>{name(one.name)}</a> {one.tags.map((tag) => <span key={tag} class="chip">{name(tag)}</span>)}
              </td>
              <td>
                <State state={one.state} />
              </td>
              <td>
                <When ms={one.created_at_ms} />
              </td>
              <td>{took(one)}</td>
              <td>{one.size_bytes ? bytes(one.size_bytes) : ""}</td>
              <td class="quiet">{one.made_by === "command" ? "paddock template build" : "the server"}</td>
              <td class="bad cut" title={shown(one.failure?.message ?? "")}>
                {name(one.failure?.message ?? "")}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {(older.length > 0 || next) && (
        <div class="bar">
          <button disabled={!older.length} onClick={() => setOlder(older.slice(0, -1))}>
            Newer
          </button>
          <button disabled={!next} onClick={() => next && setOlder([...older, next])}>
            Older
          </button>
        </div>
      )}
    </Card>
  );
}

function took(one: Build): string {
  return one.finished_at_ms ? length(Math.round((one.finished_at_ms - one.created_at_ms) / 1000)) : "";
}

function OneBuild({ id }: { id: string }) {
  const [level, setLevel] = useState<Level>("debug");
  const build = useLive((signal) => get<Build>(path`/v1/template-builds/${id}`, signal), [id], { everyMs: OFTEN_MS });
  const over = build.data?.state === "ready" || build.data?.state === "failed";
  // Once more when it is over: the last lines come with the end.
  const log = useLive(
    (signal) => get<Schema["BuildLog"]>(path`/v1/template-builds/${id}/log` + query({ limit: LOG_LINES, level }), signal),
    [id, level, over],
    { everyMs: over ? undefined : OFTEN_MS },
  );
  const one = build.data;
  const entries = log.data?.entries ?? [];
  return (
    <Card title="Build" wide extra={<a href="#/templates">Close</a>}>
      <Problem error={build.error ?? log.error} />
      {one && (
        <p>
          <code>{one.id}</code> of {name(one.name)} <State state={one.state} /> <When ms={one.created_at_ms} /> {took(one)} {one.size_bytes ? bytes(one.size_bytes) : ""}
        </p>
      )}
      {one?.failure && (
        <p class="bad">
          {one.failure.step && `Step ${name(one.failure.step)}: `}
          {name(one.failure.message)}
        </p>
      )}
      {one && (
        <>
          <div class="bar">
            <select aria-label="Level" value={level} onChange={(event) => setLevel(event.currentTarget.value as Level)}>
              {LEVELS.map(([value, label]) => (
                <option key={value} value={value}>
                  {label}
                </option>
              ))}
            </select>
            {entries.length === LOG_LINES && <span class="quiet">the first {LOG_LINES} lines</span>}
          </div>
          {log.data && entries.length === 0 && <Empty>Nothing was logged.</Empty>}
          <pre class="output" aria-label="Log">
            {entries.map((entry, index) => (
              <span key={index} class={`level ${entry.level.replace(/[^a-z]/g, "")}`}>
                {`${clock(entry.at_ms)} ${entry.level === "info" ? "" : `${entry.level}: `}${plain(entry.message)}\n`}
              </span>
            ))}
          </pre>
        </>
      )}
    </Card>
  );
}
