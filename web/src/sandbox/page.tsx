// One sandbox: what it is, what it does, what it may.

import type { ComponentChildren } from "preact";
import { type Schema, get, path } from "../api";
import { bytes, length, name, plain } from "../format";
import { type Live, useLive } from "../live";
import { Buttons } from "../pages/sandboxes";
import { Card, Facts, Problem, State, Waiting, When, inSight } from "../parts/basics";
import { to } from "../route";
import { Changes } from "./changes";
import { Code } from "./code";
import { Commands } from "./commands";
import { Files } from "./files";
import { Forks } from "./forks";
import { Guarantees } from "./guarantees";
import { Network } from "./network";
import { Ports } from "./ports";
import { TerminalTab } from "./terminal";
import { Timeline } from "./timeline";
import { Usage } from "./usage";

export type Sandbox = Schema["Sandbox"];

const TABS: [string, string, (sandbox: Sandbox, query: URLSearchParams) => ComponentChildren][] = [
  ["", "Summary", (sandbox) => <Summary sandbox={sandbox} />],
  ["terminal", "Terminal", (sandbox) => <TerminalTab sandbox={sandbox} />],
  ["commands", "Commands", (sandbox, query) => <Commands sandbox={sandbox} query={query} />],
  ["files", "Files", (sandbox, query) => <Files sandbox={sandbox} query={query} />],
  ["code", "Code", (sandbox) => <Code sandbox={sandbox} />],
  ["usage", "Usage", (sandbox) => <Usage sandbox={sandbox} />],
  ["network", "Network", (sandbox) => <Network sandbox={sandbox} />],
  ["ports", "Ports", (sandbox) => <Ports sandbox={sandbox} />],
  ["changes", "Changes", (sandbox) => <Changes sandbox={sandbox} />],
  ["forks", "Forks", (sandbox) => <Forks sandbox={sandbox} />],
  ["timeline", "Timeline", (sandbox) => <Timeline sandbox={sandbox} />],
  ["guarantees", "Guarantees", (sandbox) => <Guarantees sandbox={sandbox} />],
];

export function OneSandbox({ id, tab, query }: { id: string; tab: string; query: URLSearchParams }) {
  const live: Live<Sandbox> = useLive((signal) => get<Sandbox>(path`/v1/sandboxes/${id}`, signal), [id], {
    on: (event) => event.sandbox === id || event.sandbox === live.data?.id,
    leastMs: 1000,
    everyMs: 30_000,
  });
  const sandbox = live.data;
  if (!sandbox) {
    return (
      <div class="page">
        <p>
          <a href="#/sandboxes">← Sandboxes</a>
        </p>
        {live.error ? <Problem error={live.error} retry={live.reload} /> : <Waiting what="Loading" />}
      </div>
    );
  }
  const shown = TABS.find(([key]) => key === tab) ?? TABS[0];
  return (
    <div class="page tall">
      <header class="head">
        <a class="back" href="#/sandboxes" aria-label="All sandboxes">
          ←
        </a>
        <h1>{name(sandbox.name ?? sandbox.id)}</h1>
        <State state={sandbox.state} />
        <div class="spring" />
        <Buttons one={sandbox} done={live.reload} />
      </header>
      <div class="tabs" role="tablist" aria-label="Parts of the sandbox">
        {TABS.map(([key, label]) => (
          <a
            key={key}
            role="tab"
            aria-selected={shown?.[0] === key}
            ref={shown?.[0] === key ? inSight : undefined}
            href={key ? to("sandboxes", id, key) : to("sandboxes", id)}
            onKeyDown={(event) => {
              const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
              const next = TABS[(TABS.findIndex(([one]) => one === key) + step + TABS.length) % TABS.length];
              if (!step || !next) return;
              event.preventDefault();
              (event.currentTarget.parentElement?.children[TABS.indexOf(next)] as HTMLElement).focus();
            }}
          >
            {label}
          </a>
        ))}
      </div>
      <div class="tab" role="tabpanel" aria-label={`${shown?.[1]} of the sandbox`}>
        {shown?.[2](sandbox, query)}
      </div>
    </div>
  );
}

function Summary({ sandbox }: { sandbox: Sandbox }) {
  const limits = sandbox.limits as { memory?: number; cpus?: number; pids?: number; disk?: number };
  const guarantees = sandbox.guarantees as { backend?: string; network?: string };
  const pairs = Object.entries(sandbox.metadata);
  return (
    <div class="grid">
      {sandbox.end && (
        <Card title="How it ended" wide>
          <p class={sandbox.end.cause.kind === "killed" ? "" : "bad"}>{name(sandbox.end.reason)}</p>
          {sandbox.end.last_output && <pre class="output">{plain(sandbox.end.last_output)}</pre>}
        </Card>
      )}
      <Card title="What it is">
        <Facts
          facts={[
            ["Id", <code>{sandbox.id}</code>],
            ["Template", name(sandbox.template ?? "default")],
            ["Image", sandbox.image && name(sandbox.image)],
            ["Backend", guarantees.backend],
            ["Tenant", sandbox.tenant],
            ["Forked from", sandbox.parent && <a href={to("sandboxes", sandbox.parent)}>{sandbox.parent}</a>],
            ["Began with snapshot", sandbox.snapshot],
            ["Workspace", sandbox.workspace && <code>{name(sandbox.workspace)}</code>],
          ].filter(([, value]) => value) as [string, ComponentChildren][]}
        />
      </Card>
      <Card title="How long">
        <Facts
          facts={sandbox.end ? [
            ["Created", <When ms={sandbox.created_at_ms} />],
            ["Ended", <When ms={sandbox.end.at_ms} />],
            ["Lived for", length(Math.round((sandbox.end.at_ms - sandbox.created_at_ms) / 1000))],
          ] : [
            ["Created", <When ms={sandbox.created_at_ms} />],
            ["Time to live ends", sandbox.expires_at_ms ? <When ms={sandbox.expires_at_ms} /> : "never"],
            ["Then it", sandbox.ttl_action === "kill" ? "ends" : `is ${sandbox.ttl_action}d`],
            ["When idle", sandbox.idle ? `${sandbox.idle.action} after ${sandbox.idle.seconds} s` : "nothing"],
            ["Commands running", sandbox.running_execs],
          ]}
        />
      </Card>
      <Card title={sandbox.end ? "What it might use" : "What it may use"}>
        <Facts
          facts={[
            ["Memory", bytes(limits.memory)],
            ["Processors", limits.cpus ?? "no limit"],
            ["Processes", limits.pids ?? "no limit"],
            ["Disk", bytes(limits.disk)],
            ["Network", guarantees.network === "none" ? "none" : guarantees.network === "gate" ? "what its rules allow" : "the host's"],
          ]}
        />
      </Card>
      {pairs.length > 0 && (
        <Card title="Metadata">
          <Facts facts={pairs.map(([key, value]) => [name(key), name(value)])} />
        </Card>
      )}
    </div>
  );
}
