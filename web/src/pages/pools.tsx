// Pools: sandboxes that are ready before anybody asks.

import { type Schema, get, path, send } from "../api";
import { name } from "../format";
import { useLive } from "../live";
import { Action, Empty, Problem, State, Table, Waiting, toast } from "../parts/basics";

export function Pools() {
  const live = useLive((signal) => get<{ pools: Schema["Pool"][] }>("/v1/pools", signal), [], { everyMs: 3000 });
  const templates = useLive((signal) => get<{ templates: Schema["Template"][] }>("/v1/templates", signal), []);
  const set = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    try {
      await send("PUT", path`/v1/pools/${String(form.get("template"))}`, { min: Number(form.get("min")), max: Number(form.get("max")) });
      toast("The pool is set");
      live.reload();
    } catch (error) {
      toast((error as Error).message, (error as { hint?: string }).hint, true);
    }
  };
  return (
    <div class="page">
      <h1>Pools</h1>
      <Problem error={live.error} retry={live.reload} />
      {!live.data && !live.error && <Waiting what="Loading" />}
      <form class="line" onSubmit={set}>
        <select name="template" aria-label="Template" required>
          {templates.data?.templates.map((one) => (
            <option key={one.name} value={one.name}>
              {name(one.name)}
            </option>
          ))}
        </select>
        <label class="inline">
          at least <input name="min" type="number" min="0" max="1000" required value="1" />
        </label>
        <label class="inline">
          at most <input name="max" type="number" min="1" max="1000" required value="4" />
        </label>
        <button class="primary">Keep ready</button>
      </form>
      {live.data?.pools.length === 0 && <Empty>No pool is kept ready. With one, a create takes milliseconds.</Empty>}
      {live.data && live.data.pools.length > 0 && (
        <Table label="Pools" head={["Template", "Made by", "Ready", "Being made", "In use", "Wanted", "Found one ready", "Interpreter", ""]}>
          {live.data.pools.map((pool) => (
            <tr key={`${pool.template}-${pool.made_by}`}>
              <td>
                {name(pool.template)}
                {pool.error && <p class="bad">{name(pool.error)}</p>}
              </td>
              <td>{pool.made_by}</td>
              <td class="number">{pool.ready}</td>
              <td class="number">{pool.making}</td>
              <td class="number">{pool.in_use}</td>
              <td class="number">
                {pool.wanted} <small class="quiet">({pool.min}–{pool.max})</small>
              </td>
              <td class="number">
                {pool.hits} of {pool.hits + pool.misses}
              </td>
              <td>
                <State state={pool.zygote} />
              </td>
              <td class="actions">
                {pool.made_by === "owner" && (
                  <Action kind="danger" sure={`The pool of ${name(pool.template)} goes; sandboxes that were made stay.`} run={() => send("DELETE", path`/v1/pools/${pool.template}`).then(live.reload)}>
                    Remove
                  </Action>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </div>
  );
}
