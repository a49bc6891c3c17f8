// The list of sandboxes. It holds all that live and draws those in sight.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Failure, type Schema, get, path, query as encoded, send } from "../api";
import { bytes, name } from "../format";
import { events, useLive } from "../live";
import { Action, Dialog, Empty, Problem, State, Waiting, When, toast } from "../parts/basics";
import { Virtual } from "../parts/virtual";
import { go, to } from "../route";

type Sandbox = Schema["Sandbox"];

const PAGE = 1000;
const MOST = 20_000;
/** So many changed ones are asked for one by one; with more the list is. */
const FEW = 12;
/** The list is not asked for more often, however much changes. */
const LIST_MS = 5000;
const STATES = ["running", "creating", "paused", "hibernated", "ended"];

async function all(states: string[], signal: AbortSignal): Promise<Map<string, Sandbox>> {
  const found = new Map<string, Sandbox>();
  let cursor: string | undefined;
  do {
    const page = await get<Schema["SandboxPage"]>(`/v1/sandboxes${encoded({ state: states, limit: PAGE, cursor })}`, signal);
    for (const one of page.sandboxes) found.set(one.id, one);
    cursor = page.next_cursor ?? undefined;
  } while (cursor && found.size < MOST);
  return found;
}

/** All of these states, and what happens to them. */
function useSandboxes(state: string): { list?: Sandbox[]; error?: Failure; reload: () => void } {
  const states = state === "" ? [] : [state];
  const live = useLive((signal) => all(states, signal), [state], { everyMs: 60_000 });
  const [list, setList] = useState<Map<string, Sandbox>>();
  const changed = useRef(new Set<string>());
  useEffect(() => setList(live.data), [live.data]);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let listed = performance.now();
    const look = async () => {
      timer = undefined;
      if (changed.current.size > FEW) {
        const wait = listed + LIST_MS - performance.now();
        if (wait > 0) {
          timer = setTimeout(look, wait);
          return;
        }
        changed.current.clear();
        listed = performance.now();
        return live.reload();
      }
      const ids = [...changed.current];
      changed.current.clear();
      const found = await Promise.all(ids.map((id) => get<Sandbox>(path`/v1/sandboxes/${id}`).catch(() => undefined)));
      setList((before) => {
        if (!before) return before;
        const next = new Map<string, Sandbox>();
        const fits = (one?: Sandbox): one is Sandbox => one !== undefined && (state === "" ? one.state !== "ended" : one.state === state);
        for (const one of found) if (fits(one) && !before.has(one.id)) next.set(one.id, one);
        for (const [id, one] of before) {
          const index = ids.indexOf(id);
          const now = index < 0 ? one : found[index];
          if (fits(now)) next.set(id, now);
        }
        return next;
      });
    };
    const forget = events.listen((event) => {
      if (event.kind.startsWith("exec_") && !changed.current.has(event.sandbox)) return;
      changed.current.add(event.sandbox);
      timer ??= setTimeout(look, 300);
    });
    return () => {
      forget();
      clearTimeout(timer);
    };
  }, [state]);
  return { list: list && [...list.values()], error: live.error, reload: live.reload };
}

export function Sandboxes({ query }: { query: URLSearchParams }) {
  const state = STATES.includes(query.get("state") ?? "") ? (query.get("state") ?? "") : "";
  const { list, error, reload } = useSandboxes(state);
  const [text, setText] = useState("");
  const asked = query.get("new") === "1";
  const [making, setMaking] = useState(asked);
  useEffect(() => setMaking(asked), [asked]);
  const made = () => {
    setMaking(false);
    if (asked) go("sandboxes");
  };
  const shown = useMemo(() => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    return list?.filter((one) => words.every((word) => about(one).includes(word)));
  }, [list, text]);
  return (
    <div class="page tall">
      <header class="head">
        <h1>Sandboxes</h1>
        <span class="quiet" role="status">
          {shown && list && (shown.length === list.length ? `${list.length}` : `${shown.length} of ${list.length}`)}
        </span>
        <div class="spring" />
        <input
          type="search"
          placeholder="Filter: name, template, key=value"
          aria-label="Filter"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <select aria-label="State" value={state} onChange={(event) => (location.hash = event.currentTarget.value ? `#/sandboxes?state=${event.currentTarget.value}` : "#/sandboxes")}>
          <option value="">living</option>
          {STATES.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
        <button class="primary" onClick={() => setMaking(true)}>
          Create
        </button>
      </header>
      <Problem error={error} retry={reload} />
      {!list && !error && <Waiting what="Loading sandboxes" />}
      {shown?.length === 0 && <Empty>
          {list?.length ? "No sandbox fits the filter." : state ? `No sandbox is ${state}.` : <>No sandbox here yet. Create one, or run <code>paddock create</code>.</>}
        </Empty>}
      {shown && shown.length > 0 && (
        <Virtual items={shown} rowHeight={60} label="Sandboxes" keyOf={(one) => one.id} open={(one) => go("sandboxes", one.id)}>
          {(one) => <Row one={one} />}
        </Virtual>
      )}
      {making && <Create template={query.get("template") ?? ""} close={made} />}
    </div>
  );
}

function about(one: Sandbox): string {
  const pairs = Object.entries(one.metadata).map(([key, value]) => `${key}=${value}`);
  return [one.id, one.name, one.template, one.image, one.tenant, one.state, ...pairs].filter(Boolean).join(" ").toLowerCase();
}

function Row({ one }: { one: Sandbox }) {
  const limits = one.limits as { memory?: number };
  const guarantees = one.guarantees as { backend?: string };
  return (
    <>
      <div class="who">
        <a href={to("sandboxes", one.id)} tabIndex={-1}>
          {name(one.name ?? one.id)}
        </a>
        <small>
          {one.id} · {name(one.template ?? one.image ?? "default")} · {guarantees.backend}
        </small>
      </div>
      <State state={one.state} />
      <span class="wide-only">{one.running_execs ? `${one.running_execs} running` : ""}</span>
      <span class="wide-only">{bytes(limits.memory)}</span>
      <span class="wide-only">
        <When ms={one.created_at_ms} />
      </span>
      <Buttons one={one} />
    </>
  );
}

/** Pause, fork and end, as far as its state allows. */
export function Buttons({ one, done }: { one: Sandbox; done?: () => void }) {
  const post = (what: string) => async () => {
    await send("POST", `${path`/v1/sandboxes/${one.id}`}/${what}`);
    done?.();
  };
  const fork = async () => {
    const made = await send<Schema["Forked"]>("POST", path`/v1/sandboxes/${one.id}/fork`, {});
    const first = made.sandboxes[0];
    toast(`Forked: ${made.kind === "filesystem" ? "its files" : made.kind === "memory" ? "all of its memory" : "its files and interpreters"}`, made.reason ?? undefined);
    if (first) go("sandboxes", first.id);
  };
  const end = async () => {
    await send("DELETE", path`/v1/sandboxes/${one.id}`);
    toast("Ended", name(one.name ?? one.id));
    done?.();
  };
  if (one.state === "ended") return <span class="buttons" />;
  return (
    <span class="buttons">
      {one.state === "running" && <Action run={post("pause")}>Pause</Action>}
      {one.state === "paused" && <Action run={post("resume")}>Resume</Action>}
      {one.state === "hibernated" && <Action run={post("wake")}>Wake</Action>}
      {one.state === "running" && <Action run={fork}>Fork</Action>}
      <Action kind="danger" run={end} sure={`${name(one.name ?? one.id)} ends, and what is in it is gone.`}>
        Kill
      </Action>
    </span>
  );
}

function Create({ template, close }: { template: string; close: () => void }) {
  const [chosen, setChosen] = useState(template);
  const templates = useLive((signal) => get<{ templates: Schema["Template"][] }>("/v1/templates", signal), []);
  const [error, setError] = useState<Failure>();
  const [busy, setBusy] = useState(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const text = (field: string) => String(form.get(field) ?? "").trim();
    const words = (field: string) => text(field).split(/[\s,]+/).filter(Boolean);
    setBusy(true);
    setError(undefined);
    try {
      const made = await send<Sandbox>("POST", "/v1/sandboxes", {
        name: text("name") || undefined,
        template: text("template") || undefined,
        backend: text("backend") || undefined,
        ttl_seconds: Number(text("ttl")) * 60,
        limits: text("memory") ? { memory_bytes: Number(text("memory")) * 1024 * 1024 } : undefined,
        network: form.get("network") ? { allow: words("allow") } : undefined,
      });
      close();
      go("sandboxes", made.id);
    } catch (failure) {
      setError(failure as Failure);
    } finally {
      setBusy(false);
    }
  };
  const [network, setNetwork] = useState(false);
  return (
    <Dialog title="Create a sandbox" close={close}>
      <form onSubmit={submit}>
        <label>
          Name
          <input name="name" placeholder="one is made up" autofocus />
        </label>
        <label>
          Template
          <select name="template" value={chosen} onChange={(event) => setChosen(event.currentTarget.value)}>
            <option value="">default</option>
            {/* Chosen before the list is here. */}
            {chosen && !templates.data && <option value={chosen}>{name(chosen)}</option>}
            {templates.data?.templates.map((one) => (
              <option key={one.name} value={one.name}>
                {name(one.name)}
              </option>
            ))}
          </select>
        </label>
        <div class="pair">
          <label>
            Backend
            <select name="backend">
              <option value="">as the server chooses</option>
              <option>process</option>
              <option>gvisor</option>
              <option>microvm</option>
            </select>
          </label>
          <label>
            Lives for, minutes
            <input name="ttl" type="number" min="1" max="10080" required value="60" />
          </label>
        </div>
        <label>
          Memory, MiB
          <input name="memory" type="number" min="16" placeholder="as the template has it" />
        </label>
        <label class="check">
          <input type="checkbox" name="network" checked={network} onChange={(event) => setNetwork(event.currentTarget.checked)} />
          Network by rules
        </label>
        {network && (
          <label>
            Allowed
            <input name="allow" placeholder="pypi.org, *.example.org:443 (none: everything is denied and shown)" />
          </label>
        )}
        <Problem error={error} />
        <footer>
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button class="primary" disabled={busy} aria-busy={busy}>
            Create
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

