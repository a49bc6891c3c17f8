// The server's work and its host, right now.

import { useEffect, useRef, useState } from "preact/hooks";
import { type Schema, Failure, get, query } from "../api";
import { bytes, clock, length, millis, name, shown } from "../format";
import { events, useLive } from "../live";
import { Card, Empty, Facts, Problem, State, Waiting, When } from "../parts/basics";
import { type Bar, Bars, Line } from "../parts/charts";
import { to } from "../route";

type ServerLoad = Schema["ServerLoad"];

// What an open overview asks for: the server's counters, and pages of a few rows. Nothing that looks at all sandboxes.
const COUNTERS_MS = 5000;
const NEWEST_MS = 3000;
const ENDED_MS = 10_000;
const POOLS_MS = 15_000;
const SELDOM_MS = 60_000;
const KEPT = 100;
const DRAWN_MS = 250;
const FINE = new Set(["killed", "time_to_live", "idle"]);

export function Overview() {
  const load = useLive((signal) => get<ServerLoad>("/v1/server/load", signal), [], { everyMs: COUNTERS_MS });
  const newest = useLive((signal) => get<Schema["SandboxPage"]>(`/v1/sandboxes${query({ limit: 8 })}`, signal), [], {
    on: (event) => !event.kind.startsWith("exec_"),
    leastMs: NEWEST_MS,
    everyMs: SELDOM_MS,
  });
  const ended = useLive((signal) => get<Schema["SandboxPage"]>(`/v1/sandboxes${query({ state: "ended", limit: 50 })}`, signal), [], {
    on: (event) => event.kind === "ended",
    leastMs: ENDED_MS,
    everyMs: SELDOM_MS,
  });
  const pools = useLive((signal) => get<{ pools: Schema["Pool"][] }>("/v1/pools", signal), [], { everyMs: POOLS_MS });
  const failed = ended.data?.sandboxes.filter((one) => one.end && !FINE.has(one.end.cause.kind)).slice(0, 8);
  const forbidden = load.error instanceof Failure && load.error.status === 403;
  return (
    <div class="page">
      <h1>Overview</h1>
      {forbidden ? (
        <p class="note">The numbers of the whole server are for its owner: an admin token of the tenant <code>owner</code>, or <code>paddock ui</code>.</p>
      ) : (
        <Problem error={load.data ? undefined : load.error} retry={load.reload} />
      )}
      {load.data && <Numbers load={load.data} />}
      <div class="grid">
        {load.data && <Creates load={load.data} />}
        {load.data && <Host load={load.data} />}
        <Card title="Newest sandboxes" extra={<a href="#/sandboxes">All</a>}>
          <Problem error={newest.error} retry={newest.reload} />
          {!newest.data && !newest.error && <Waiting what="Loading" />}
          {newest.data?.sandboxes.length === 0 && (
            <Empty>
              None lives. <a href="#/sandboxes?new=1">Create one</a>
            </Empty>
          )}
          <ul class="lines">
            {newest.data?.sandboxes.map((one) => (
              <li key={one.id}>
                <a href={to("sandboxes", one.id)}>{name(one.name ?? one.id)}</a>
                <State state={one.state} />
                <When ms={one.created_at_ms} />
              </li>
            ))}
          </ul>
        </Card>
        <Card title="Failed lately">
          {failed?.length === 0 && <Empty>Nothing failed among the last that ended.</Empty>}
          <ul class="lines">
            {failed?.map((one) => (
              <li key={one.id}>
                <a href={to("sandboxes", one.id)}>{name(one.name ?? one.id)}</a>
                <span class="bad" title={shown(one.end?.reason ?? "")}>
                  {name(one.end?.reason ?? "")}
                </span>
                {one.end && <When ms={one.end.at_ms} />}
              </li>
            ))}
          </ul>
        </Card>
        <Card title="Pools" extra={<a href="#/pools">All</a>}>
          {pools.data?.pools.length === 0 && <Empty>No pool is kept ready.</Empty>}
          <ul class="lines kept">
            {pools.data?.pools.map((pool) => (
              <li key={`${pool.template}-${pool.made_by}`}>
                <span>{name(pool.template)}</span>
                <span>
                  {pool.ready} ready, {pool.in_use} in use
                </span>
                <span class={pool.error ? "bad" : "quiet"}>{pool.error ? name(pool.error) : hits(pool)}</span>
              </li>
            ))}
          </ul>
        </Card>
        <Happening />
      </div>
    </div>
  );
}

function hits(pool: Schema["Pool"]): string {
  const all = pool.hits + pool.misses;
  return all ? `${Math.round((100 * pool.hits) / all)} % of ${all} creates at once` : "not asked yet";
}

function Numbers({ load }: { load: ServerLoad }) {
  const { creating, running, paused, hibernated } = load.sandboxes;
  const tiles: [string, string | number, string][] = [
    ["Running", running, "running"],
    ["Creating", creating, "creating"],
    ["Paused", paused, "paused"],
    ["Hibernated", hibernated, "hibernated"],
    ["Half of the creates within", millis(load.creates.median_ms), ""],
    ["95 % within", millis(load.creates.p95_ms), ""],
  ];
  return (
    <div class="tiles">
      {tiles.map(([label, value, state]) => (
        <a key={label} class="tile" href={state ? `#/sandboxes?state=${state}` : "#/sandboxes"}>
          <strong>{value}</strong>
          <span>{label}</span>
        </a>
      ))}
    </div>
  );
}

function Creates({ load }: { load: ServerLoad }) {
  const minute = 60_000;
  const end = load.at_ms - (load.at_ms % minute);
  const found = new Map(load.creates.minutes.map((one) => [one.at_ms, one]));
  const bars: Bar[] = Array.from({ length: 30 }, (_, index) => {
    const at = end - (29 - index) * minute;
    const one = found.get(at);
    return { label: clock(at), good: one?.created ?? 0, bad: one?.failed ?? 0 };
  });
  return (
    <Card title="Creates">
      <Bars bars={bars} label="Per minute, the last 30" total={`${bars.at(-1)?.good ?? 0} this minute`} />
      <Facts
        facts={[
          ["Since it began", `${load.creates.created_total} created, ${load.creates.failed_total} failed`],
          ["Waiting for room", load.creates.waiting],
          ["Commands", load.execs_total],
          ["Server runs for", length(Math.round((load.at_ms - load.started_at_ms) / 1000))],
        ]}
      />
    </Card>
  );
}

function Host({ load }: { load: ServerLoad }) {
  const past = useRef<{ at: number; busy: number; used: number }[]>([]);
  const [, draw] = useState(0);
  const { host } = load;
  useEffect(() => {
    const used = (host.memory_bytes ?? 0) - (host.memory_available_bytes ?? 0);
    past.current = [...past.current, { at: load.at_ms, busy: host.processor_busy_ms ?? 0, used }].slice(-KEPT);
    draw((count) => count + 1);
  }, [load]);
  const percent = past.current.slice(1).map((one, index) => {
    const before = past.current[index];
    if (!before || one.at <= before.at) return 0;
    return Math.min(100, (100 * (one.busy - before.busy)) / (one.at - before.at) / host.processors);
  });
  return (
    <Card title="Host">
      <Line values={percent} label={`Processors (${host.processors})`} format={(value) => `${Math.round(value)} %`} most={100} />
      <Line values={past.current.map((one) => one.used)} label="Memory in use" format={bytes} most={host.memory_bytes ?? undefined} />
      <Facts
        facts={[
          ["Memory available", `${bytes(host.memory_available_bytes)} of ${bytes(host.memory_bytes)}`],
          ["Load is shed below", host.memory_keep_free_bytes ? bytes(host.memory_keep_free_bytes) : "never"],
          ["Server's own memory", bytes(load.server.memory_bytes)],
        ]}
      />
    </Card>
  );
}

function Happening() {
  const [, draw] = useState(0);
  useEffect(() => {
    // A busy server has thousands of events a second, and a person reads none of them faster.
    let timer: ReturnType<typeof setTimeout> | undefined;
    const forget = events.listen(() => {
      timer ??= setTimeout(() => {
        timer = undefined;
        draw((count) => count + 1);
      }, DRAWN_MS);
    });
    return () => {
      forget();
      clearTimeout(timer);
    };
  }, []);
  return (
    <Card title="Happening now">
      {events.recent.length === 0 && <Empty>What happens to sandboxes shows here as it happens.</Empty>}
      <ul class="lines events">
        {events.recent.slice(0, 12).map((event, index) => (
          <li key={`${event.at_ms}-${index}`}>
            <time>{clock(event.at_ms)}</time>
            <span>{event.kind.replace(/_/g, " ")}</span>
            <a href={to("sandboxes", event.sandbox)}>{event.sandbox}</a>
            {event.detail && <span class="quiet cut">{name(event.detail)}</span>}
          </li>
        ))}
      </ul>
    </Card>
  );
}
