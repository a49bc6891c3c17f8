// The signed timeline: every line holds the hash of the one before.

import { useRef, useState } from "preact/hooks";
import { type Schema, ask, linesOf, path } from "../api";
import { clock, moment, name, shown } from "../format";
import { useLive } from "../live";
import { Card, Empty, Problem, Waiting } from "../parts/basics";

type Line = Record<string, unknown> & { seq?: number; prev?: string; hash?: string };

const KEPT = 2000;
/** The whole timeline is read each time: the longer it is, the more seldom. */
const LEAST_MS = 3000;
const LEAST_MS_FOR_LINE = 5;
const SELDOM_MS = 30_000;

/** The header in which the server says at which line the timeline is not as it was written. */
const DAMAGED = "paddock-damaged";

interface Read {
  entries: Line[];
  all: number;
  damage?: string;
}

async function read(id: string, signal: AbortSignal): Promise<Read> {
  const response = await ask(path`/v1/sandboxes/${id}/audit`, { signal });
  const damage = response.headers.get(DAMAGED) ?? undefined;
  const found: Read = { entries: [], all: 0, damage };
  try {
    for await (const line of linesOf<Line>(response, { signal })) {
      found.all += 1;
      found.entries.push(line);
      if (found.entries.length > KEPT) found.entries.shift();
    }
  } catch (error) {
    // What was changed may be no JSON any more; the lines before it are shown all the same.
    if (signal.aborted || damage === undefined) throw error;
  }
  return found;
}

export function Timeline({ sandbox }: { sandbox: Schema["Sandbox"] }) {
  const lines = useRef(0);
  const least = Math.max(LEAST_MS, lines.current * LEAST_MS_FOR_LINE);
  const live = useLive((signal) => read(sandbox.id, signal), [sandbox.id], {
    on: (event) => event.sandbox === sandbox.id,
    leastMs: least,
    everyMs: Math.max(SELDOM_MS, least),
  });
  lines.current = live.data?.all ?? 0;
  const [open, setOpen] = useState<number>();
  return (
    <Card title="Timeline" wide extra={<span class="quiet">{live.data && `${live.data.all} lines`}</span>}>
      <Problem error={live.error} retry={live.reload} />
      {live.data?.damage !== undefined && (
        <div class="problem" role="alert">
          <strong>This timeline is not as it was written: {name(live.data.damage)}.</strong>
          <p>
            What stands here is what is there now, and proves nothing from that line on. Keep it as evidence: <code>{`paddock audit export ${sandbox.id} -o ${sandbox.id}.audit`}</code>.
          </p>
        </div>
      )}
      {!live.data && !live.error && <Waiting what="Loading" />}
      {live.data?.entries.length === 0 && <Empty>Nothing is in it.</Empty>}
      <ol class="timeline" reversed>
        {live.data?.entries
          .map((line, index) => ({ line, index }))
          .reverse()
          .map(({ line, index }) => (
            <li key={index}>
              <button class="plain" aria-expanded={open === index} onClick={() => setOpen(open === index ? undefined : index)}>
                <time title={moment(time(line))}>{time(line) ? clock(time(line)) : ""}</time>
                <strong>{name(title(line))}</strong>
                <span class="quiet cut">{name(summary(line))}</span>
              </button>
              {open === index && <pre class="output">{shown(JSON.stringify(line, null, 2))}</pre>}
            </li>
          ))}
      </ol>
      <p class="quiet">
        Each line holds the hash of the one before, and is signed. <code>paddock audit verify {sandbox.id}</code> checks them without this server.
      </p>
    </Card>
  );
}

const time = (line: Line): number => Number(line.at_ms ?? 0);
const title = (line: Line): string => String(line.kind ?? (line.head ? "head" : "entry")).replace(/_/g, " ");

/** By whom, and the detail without what is empty. */
function summary(line: Line): string {
  if (line.head) return `says, signed, that there are ${Number(line.seq ?? 0) + 1} lines before it · last ${String(line.last ?? "")}`;
  const actor = line.actor as { token?: string } | undefined;
  const detail = typeof line.detail === "object" && line.detail !== null ? Object.entries(line.detail) : [];
  const parts = detail.filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && value.length === 0));
  const said = parts.map(([key, value]) => `${key.replace(/_/g, " ")} ${typeof value === "object" ? JSON.stringify(value) : String(value)}`);
  return [actor?.token && `by ${actor.token}`, ...said].filter(Boolean).join(" · ").slice(0, 400);
}
