// The rules for connections out of a sandbox, its attempts, and a button that writes the rule.

import { useEffect, useRef, useState } from "preact/hooks";
import { Failure, type Schema, get, path, query, send } from "../api";
import { bytes, clock, name } from "../format";
import { Action, Card, Empty, Facts, Problem, Table, Waiting, toast } from "../parts/basics";

type View = Schema["NetworkView"];
type Decision = Schema["NetworkDecision"];

/** As the server tells them. */
interface Rules {
  allow?: unknown[];
  allow_public?: unknown[];
  deny?: unknown[];
  methods?: string[] | null;
  rate?: number | null;
  bytes?: number | null;
  mode?: string;
}

const WAIT_SECONDS = 20;
const KEPT = 500;

/** Held open until something is decided, so that it shows as it happens. */
function useNetwork(id: string, state: string) {
  const [view, setView] = useState<View>();
  const [decisions, setDecisions] = useState<Decision[]>([]);
  const [error, setError] = useState<Failure>();
  const [round, setRound] = useState(0);
  useEffect(() => {
    const ended = new AbortController();
    setDecisions([]);
    const follow = async () => {
      let after = 0;
      let first = true;
      while (!ended.signal.aborted) {
        if (document.hidden) {
          await new Promise((done) => setTimeout(done, 1000));
          continue;
        }
        try {
          const found = await get<View>(path`/v1/sandboxes/${id}/network` + query({ after, wait_seconds: first ? 0 : WAIT_SECONDS }), ended.signal);
          first = false;
          after = found.last;
          setView(found);
          setError(undefined);
          setDecisions((before) => [...[...found.decisions].reverse(), ...before].slice(0, KEPT));
          if (found.network !== "gate") return;
        } catch (failure) {
          if (ended.signal.aborted) return;
          setError(failure as Failure);
          if (failure instanceof Failure && failure.status >= 400 && failure.status < 500) return;
          await new Promise((done) => setTimeout(done, 2000));
        }
      }
    };
    void follow();
    return () => ended.abort();
  }, [id, state, round]);
  return { view, decisions, error, reload: () => setRound((count) => count + 1) };
}

function written(rules: Rules, more: string[], less?: string) {
  const texts = (list?: unknown[]) => (list ?? []).map(String);
  return {
    allow: [...texts(rules.allow).filter((one) => one !== less), ...more],
    allow_public: texts(rules.allow_public),
    deny: texts(rules.deny),
    methods: rules.methods ?? [],
    ...(rules.rate ? { rate: `${rules.rate}B` } : {}),
    ...(rules.bytes ? { bytes: `${rules.bytes}B` } : {}),
    ...(rules.mode ? { mode: rules.mode } : {}),
  };
}

/** `example.org:443`; without a port, the two that rules have by themselves. */
function ruleFor(one: Decision): string | undefined {
  const host = one.name ?? one.address;
  if (!host) return undefined;
  const quoted = !one.name && host.includes(":") ? `[${host}]` : host;
  return one.port && one.way !== "dns" ? `${quoted}:${one.port}` : quoted;
}

export function Network({ sandbox }: { sandbox: Schema["Sandbox"] }) {
  if (sandbox.state === "ended") return <Empty>The sandbox has ended, and nothing leaves it any more. Its timeline has what was decided.</Empty>;
  return <Traffic sandbox={sandbox} />;
}

function Traffic({ sandbox }: { sandbox: Schema["Sandbox"] }) {
  const { view, decisions, error, reload } = useNetwork(sandbox.id, sandbox.state);
  const [rule, setRule] = useState("");
  // One after the other, and from the rules as they are: those on the page may be older than the change before, which would be lost.
  const changes = useRef<Promise<void>>(Promise.resolve());
  if (!view) return error ? <Problem error={error} retry={reload} /> : <Waiting what="Loading" />;
  const rules = view.rules as Rules | undefined;
  const write = async (more: string[], less?: string) => {
    const present = await get<View>(path`/v1/sandboxes/${sandbox.id}/network` + query({ after: view.last }));
    await send("PATCH", path`/v1/sandboxes/${sandbox.id}`, { network: written((present.rules ?? {}) as Rules, more, less) });
  };
  const change = async (more: string[], less?: string) => {
    const done = changes.current.then(() => write(more, less));
    changes.current = done.catch(() => undefined);
    await done;
    toast(less ? "Rule removed" : "Allowed from now on", less ?? more.join(", "));
    reload();
  };
  const allowed = (rules?.allow ?? []).map(String);
  const open = (rules?.allow_public ?? []).map(String);
  return (
    <div class="grid">
      <Card title="What may leave">
        {view.network === "none" && <p>Nothing. It has no network, and was made without rules, so that none can be added: make one with “Network by rules”.</p>}
        {view.network === "host" && <p class="bad">Everything: it has the host's own network, with no fence for traffic.</p>}
        {rules && (
          <>
            {rules.mode === "learn-allow" && <p class="bad">Everything that is not denied: the rules are being learned (learn-allow).</p>}
            {rules.mode === "learn-deny" && <p>The rules are being learned (learn-deny): what no rule allows is denied, and noted below.</p>}
            {allowed.length === 0 && open.length === 0 && rules.mode !== "learn-allow" && <Empty>No rule: everything is denied, and shown here.</Empty>}
            <ul class="lines">
              {allowed.map((one) => (
                <li key={one}>
                  <code>{name(one)}</code>
                  <Action run={() => change([], one)}>Remove</Action>
                </li>
              ))}
              {open.map((one) => (
                <li key={`public ${one}`}>
                  <code>{name(one)}</code>
                  <span class="quiet">public addresses</span>
                </li>
              ))}
              {(rules.deny ?? []).map((one) => (
                <li key={`deny ${String(one)}`}>
                  <code>{name(String(one))}</code>
                  <span class="bad">denied</span>
                </li>
              ))}
            </ul>
            <form
              class="line"
              onSubmit={(event) => {
                event.preventDefault();
                change([rule.trim()]).then(
                  () => setRule(""),
                  (failure: Failure) => toast(failure.message, failure.hint, true),
                );
              }}
            >
              <input aria-label="New rule" placeholder="api.example.com, *.example.org:443" value={rule} onInput={(event) => setRule(event.currentTarget.value)} />
              <button disabled={!rule.trim()}>Allow</button>
            </form>
          </>
        )}
      </Card>
      <Card title="Traffic">
        <Facts
          facts={[
            ["Sent", bytes(view.sent_bytes)],
            ["Received", bytes(view.received_bytes)],
            ["Open now", view.connections],
            ["At most, in its life", rules?.bytes ? bytes(rules.bytes) : undefined],
            ["At most, per second", rules?.rate ? bytes(rules.rate) : undefined],
            ["Methods of HTTP", rules?.methods?.length ? rules.methods.map(name).join(", ") : undefined],
          ].filter(([, value]) => value !== undefined) as [string, string | number][]}
        />
        {view.needed.length > 0 && rules && (
          <>
            <p>What was tried would need:</p>
            <ul class="lines">
              {view.needed
                .filter((one) => !allowed.includes(one))
                .map((one) => (
                  <li key={one}>
                    <code>{name(one)}</code>
                    <Action run={() => change([one])}>Allow</Action>
                  </li>
                ))}
            </ul>
          </>
        )}
      </Card>
      {rules && (
        <Card title="Decisions" wide extra={<span class="quiet">as they happen</span>}>
          <Problem error={error} />
          {decisions.length === 0 && <Empty>Nothing was tried yet.</Empty>}
          {decisions.length > 0 && (
            <Table label="Decisions" head={["When", "Verdict", "Way", "Where to", "Why", ""]}>
              {decisions.map((one) => {
                const wanted = one.verdict === "denied" ? ruleFor(one) : undefined;
                return (
                  <tr key={one.number}>
                    <td>{clock(one.at_ms)}</td>
                    <td>
                      <span class={`verdict ${one.verdict === "denied" ? "denied" : one.verdict === "allowed" ? "allowed" : "closed"}`}>{name(one.verdict)}</span>
                      {one.count > 1 && <small> × {one.count}</small>}
                    </td>
                    <td>{name(one.way)}</td>
                    <td class="mono">
                      {name(one.name ?? one.address ?? "")}
                      {one.port ? `:${one.port}` : ""}
                    </td>
                    <td class="quiet">
                      {name(one.reason)}
                      {one.sent_bytes !== undefined && ` (${bytes(one.sent_bytes)} out, ${bytes(one.received_bytes)} in)`}
                    </td>
                    <td class="actions">{wanted && !allowed.includes(wanted) && <Action run={() => change([wanted])}>Allow</Action>}</td>
                  </tr>
                );
              })}
            </Table>
          )}
        </Card>
      )}
    </div>
  );
}
