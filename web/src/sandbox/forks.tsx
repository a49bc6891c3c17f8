// The tree of a sandbox's forks, with a button that merges one back.

import { type Schema, get, path, query, send } from "../api";
import { name } from "../format";
import { useLive } from "../live";
import { Action, Card, Empty, Problem, State, Waiting, When, toast } from "../parts/basics";
import { to } from "../route";

type Sandbox = Schema["Sandbox"];

const MOST_PAGES = 10;
/** A tree is looked for among all sandboxes, so it is not done often, however much happens. */
const LEAST_MS = 10_000;

/** All that live and have a parent, and those that ended but belong to the tree. */
async function family(signal: AbortSignal): Promise<Sandbox[]> {
  const found: Sandbox[] = [];
  for (const state of [[], ["ended"]] as string[][]) {
    let cursor: string | undefined;
    for (let page = 0; page < MOST_PAGES; page += 1) {
      const part = await get<Schema["SandboxPage"]>(`/v1/sandboxes${query({ state, limit: 1000, cursor })}`, signal);
      found.push(...part.sandboxes);
      cursor = part.next_cursor ?? undefined;
      if (!cursor) break;
    }
  }
  return found;
}

export function Forks({ sandbox }: { sandbox: Sandbox }) {
  const live = useLive(family, [sandbox.id], {
    // What runs inside changes no tree.
    on: (event) => !event.kind.startsWith("exec_") && (event.kind === "forked" || event.sandbox === sandbox.id),
    leastMs: LEAST_MS,
  });
  if (!live.data) return live.error ? <Problem error={live.error} retry={live.reload} /> : <Waiting what="Loading" />;
  const byId = new Map(live.data.map((one) => [one.id, one]));
  const children = new Map<string, Sandbox[]>();
  for (const one of live.data) if (one.parent) children.set(one.parent, [...(children.get(one.parent) ?? []), one]);
  let root: Sandbox = sandbox;
  const seen = new Set([root.id]);
  for (let above = root.parent && byId.get(root.parent); above && !seen.has(above.id); above = root.parent && byId.get(root.parent)) {
    root = above;
    seen.add(root.id);
  }
  return (
    <Card title="Forks" wide>
      <ul class="tree" role="tree">
        <Branch one={root} children={children} here={sandbox.id} merged={live.reload} depth={0} />
      </ul>
      {!children.has(root.id) && <Empty>It has no forks. A fork begins with its files as they are now, and can be merged back.</Empty>}
    </Card>
  );
}

function Branch({ one, children, here, merged, depth }: { one: Sandbox; children: Map<string, Sandbox[]>; here: string; merged: () => void; depth: number }) {
  const below = depth < 50 ? (children.get(one.id) ?? []) : [];
  const merge = async () => {
    const report = await send<Schema["MergeReport"]>("POST", path`/v1/sandboxes/${one.parent ?? ""}/merge`, { from: one.id });
    const conflict = report.conflicts[0];
    if (conflict) toast(`${report.conflicts.length} conflicts: nothing was merged`, `${name(conflict.path)}: ${name(conflict.reason)}`, true);
    else toast(`${report.merged.length} paths merged`, report.skipped?.length ? `${report.skipped.length} left out: pipes, sockets and devices` : undefined);
    merged();
  };
  return (
    <li role="treeitem" aria-current={one.id === here ? "true" : undefined}>
      <div class="leaf">
        <a href={to("sandboxes", one.id)}>{name(one.name ?? one.id)}</a>
        <State state={one.state} />
        <span class="quiet">
          <When ms={one.created_at_ms} />
        </span>
        {one.parent && one.state !== "ended" && (
          <Action run={merge} title="Bring its changes back into the sandbox that it was forked from">
            Merge into parent
          </Action>
        )}
      </div>
      {below.length > 0 && (
        <ul role="group">
          {below.map((child) => (
            <Branch key={child.id} one={child} children={children} here={here} merged={merged} depth={depth + 1} />
          ))}
        </ul>
      )}
    </li>
  );
}
