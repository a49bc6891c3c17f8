// What listens inside, as a page: at a name of its own where the server has a domain, else by its path, without an origin.

import { useState } from "preact/hooks";
import { Failure, type Schema, get, path, send, session } from "../api";
import { name, shown } from "../format";
import { useLive } from "../live";
import { Action, Card, Empty, Problem } from "../parts/basics";

const LAST_PORT = 65_535;
const USUAL = [3000, 5173, 8000, 8080, 8888];
const KEPT = 8;
const MOST_READ = 64 << 10;
/** The one by which the server takes a right to a port, once; it is a cookie of the port alone from then on. */
const PARAMETER = "paddock_token";
/** A right ends with the token of this tab too, and that ends by itself after so long, where `paddock ui` made it. */
const RIGHT_SECONDS = 8 * 3600;

interface Seen {
  port: number;
  said?: string;
  error?: Failure;
}

export function Ports({ sandbox }: { sandbox: Schema["Sandbox"] }) {
  const server = useLive((signal) => get<Schema["ServerStatus"]>("/v1/server", signal), []);
  const [port, setPort] = useState("");
  const [seen, setSeen] = useState<Seen[]>([]);
  const domain = server.data?.ports_domain;
  const number = Number(port);
  const valid = /^\d+$/.test(port) && number >= 1 && number <= LAST_PORT;
  if (sandbox.state === "ended") return <Empty>The sandbox has ended; nothing listens in it any more.</Empty>;
  const look = async (asked: number) => {
    const one = await answers(sandbox.id, asked);
    setSeen((before) => [one, ...before.filter((other) => other.port !== asked)].slice(0, KEPT));
  };
  return (
    <div class="stack">
      <Card title="Ports">
        <form
          class="line"
          onSubmit={(event) => {
            event.preventDefault();
            if (valid) void look(number);
          }}
        >
          <input type="number" min="1" max={LAST_PORT} aria-label="Port" placeholder="8000" value={port} onInput={(event) => setPort(event.currentTarget.value)} />
          <Action kind="primary" disabled={!valid} run={() => look(number)}>
            Ask what answers
          </Action>
          <Action run={async () => void (await Promise.all(USUAL.map(look)))} title={USUAL.join(", ")}>
            Try the usual ones
          </Action>
        </form>
        <Problem error={server.error} retry={server.reload} />
        {seen.length === 0 && <Empty>A port shows here when it was asked. Programs inside have to listen on 0.0.0.0 or 127.0.0.1.</Empty>}
        <ul class="lines">
          {seen.map((one) => (
            <li key={one.port}>
              <strong>{one.port}</strong>
              <span class={one.error ? "bad" : "quiet"} title={shown(one.error?.hint ?? "")}>
                {one.error ? one.error.message : one.said}
              </span>
              <Action kind="primary" disabled={one.error !== undefined || server.data === undefined} run={() => open(sandbox.id, one.port, domain)}>
                Open
              </Action>
            </li>
          ))}
        </ul>
      </Card>
      {server.data && <How id={sandbox.id} domain={domain} />}
    </div>
  );
}

function How({ id, domain }: { id: string; domain?: string | null }) {
  if (domain) {
    return (
      <Card title="Where it opens">
        <p>
          At <code>{address(id, "PORT", domain)}</code>, in a tab of its own. That is an origin that neither this page nor another port has: cookies and
          storage work as anywhere, and nothing there can reach this session.
        </p>
        <p class="quiet">The name has to lead to this server: names below `localhost` do in most browsers, others need a wildcard in DNS.</p>
      </Card>
    );
  }
  return (
    <Card title="Where it opens">
      <p class="note">
        This server has no domain for ports. A page opens by its path, with an origin that nothing else has: <strong>one document is shown as it is sent, and what it
        loads of its own address (scripts, styles, calls) is refused</strong>.
      </p>
      <p>
        For apps, start the server with a domain: <code>paddock serve --listen {location.host} --domain ports.localhost</code>. Each port is then at{" "}
        <code>PORT-{id}.ports.localhost</code>, an origin of its own.
      </p>
    </Card>
  );
}

/** What stands at the port. A program inside answers what it likes, so that no answer of one ends the session or is read far. */
async function answers(id: string, port: number): Promise<Seen> {
  const looked = new AbortController();
  try {
    const answer = await fetch(path`/v1/sandboxes/${id}/ports/${port}/`, {
      headers: { authorization: `Bearer ${session.token()}` },
      credentials: "omit",
      cache: "no-store",
      redirect: "manual",
      signal: looked.signal,
    });
    if (answer.type === "opaqueredirect") return { port, said: "answers with another address" };
    const error = await ownFailure(answer);
    if (error) return { port, error };
    const kind = answer.headers.get("content-type")?.split(";")[0];
    return { port, said: `answers ${answer.status}${kind ? `, ${name(kind)}` : ""}` };
  } catch {
    return { port, error: new Failure(0, "unreachable", "the server does not answer", "Ask again when it does.") };
  } finally {
    looked.abort();
  }
}

/** The server's own refusal names its request. No program inside knows that name. */
async function ownFailure(answer: Response): Promise<Failure | undefined> {
  if (answer.status < 400 || !answer.headers.get("content-type")?.startsWith("application/json")) return undefined;
  try {
    const told = JSON.parse(await beginning(answer)) as Partial<Schema["ApiError"]>;
    const requestId = answer.headers.get("x-request-id");
    if (!requestId || told.request_id !== requestId) return undefined;
    return new Failure(answer.status, told.code ?? "failed", told.message ?? "the server refused", told.hint ?? undefined, requestId);
  } catch {
    return undefined;
  }
}

async function beginning(answer: Response): Promise<string> {
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (reader && text.length < MOST_READ) {
    const { done, value } = await reader.read();
    if (done) break;
    text += value;
  }
  return text;
}

function address(id: string, port: number | string, domain?: string | null): string {
  if (!domain) return `${location.origin}${path`/v1/sandboxes/${id}/ports/${port}/`}`;
  const own = location.port && `:${location.port}`;
  return `${location.protocol}//${port}-${id}.${domain}${own}/`;
}

/**
 * In a tab that knows nothing of this one, and with a right to this port alone. A page that was there before may have left a service
 * worker, which reads every address of its origin before the server does: a token of this session in it would be the program's.
 */
async function open(id: string, port: number, domain?: string | null): Promise<void> {
  const right = await send<Schema["SignedPort"]>("POST", path`/v1/sandboxes/${id}/ports/sign`, { port, expires_seconds: RIGHT_SECONDS });
  window.open(`${address(id, port, domain)}?${PARAMETER}=${encodeURIComponent(right.token)}`, "_blank", "noopener,noreferrer");
}
