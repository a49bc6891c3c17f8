// Tokens; tenants and their quotas are below them.

import { useState } from "preact/hooks";
import { type Failure, type Schema, type Who, get, path, send } from "../api";
import { name } from "../format";
import { useLive } from "../live";
import { Action, Card, Dialog, Empty, Facts, Problem, Table, When } from "../parts/basics";
import { Tenants } from "./tenants";

export function Access({ who }: { who?: Who }) {
  const admin = who?.role === "admin";
  const tokens = useLive(async (signal) => (admin ? get<{ tokens: Schema["Token"][] }>("/v1/tokens", signal) : undefined), [admin], { everyMs: 20_000 });
  const [making, setMaking] = useState(false);
  return (
    <div class="page">
      <h1>Access</h1>
      <div class="stack">
        <Card title="Tokens" wide extra={admin && <button onClick={() => setMaking(true)}>New token</button>}>
          {who && !admin && <Empty>Tokens are managed by an admin of the tenant; this tab has a token with the role {who.role}.</Empty>}
          <Problem error={tokens.error} retry={tokens.reload} />
          {tokens.data && (
            <Table label="Tokens" head={["Id", "Tenant", "Role", "Label", "Made", "Ends", ""]}>
              {tokens.data.tokens.map((one) => (
                <tr key={one.id}>
                  <td class="mono">{one.id}</td>
                  <td>{name(one.tenant)}</td>
                  <td>{one.role}</td>
                  <td>{name(one.label ?? "")}</td>
                  <td>
                    <When ms={one.created_at_ms} />
                  </td>
                  <td>{one.expires_at_ms ? <When ms={one.expires_at_ms} /> : "never"}</td>
                  <td class="actions">
                    <Action kind="danger" sure={`The next call with ${one.id} is refused, and what it has open ends. It may be the token of this tab.`} run={() => send("DELETE", path`/v1/tokens/${one.id}`).then(tokens.reload)}>
                      Revoke
                    </Action>
                  </td>
                </tr>
              ))}
            </Table>
          )}
        </Card>
        <Tenants who={who} />
      </div>
      {making && <Make close={() => setMaking(false)} done={tokens.reload} />}
    </div>
  );
}

function Make({ close, done }: { close: () => void; done: () => void }) {
  const [error, setError] = useState<Failure>();
  const [made, setMade] = useState<Schema["CreatedToken"]>();
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const days = Number(form.get("days"));
    try {
      setMade(
        await send<Schema["CreatedToken"]>("POST", "/v1/tokens", {
          role: form.get("role"),
          label: String(form.get("label")) || undefined,
          ttl_seconds: days ? days * 86_400 : undefined,
        }),
      );
      done();
    } catch (failure) {
      setError(failure as Failure);
    }
  };
  return (
    <Dialog title="New token" close={close}>
      {made ? (
        <>
          <Facts facts={[["Id", <code>{made.id}</code>]]} />
          <p>Its secret is shown this once:</p>
          <input class="mono" readOnly aria-label="Secret" value={made.secret} onFocus={(event) => event.currentTarget.select()} />
        </>
      ) : (
        <form onSubmit={submit}>
          <label>
            Role
            <select name="role">
              <option value="user">user: everything but tokens</option>
              <option value="read-only">read-only: looks, and changes nothing</option>
              <option value="admin">admin: everything of its tenant</option>
            </select>
          </label>
          <label>
            Label
            <input name="label" maxLength={200} />
          </label>
          <label>
            Ends after days
            <input name="days" type="number" min="1" max="366" placeholder="never" />
          </label>
          <Problem error={error} />
          <footer>
            <button class="primary">Make</button>
          </footer>
        </form>
      )}
    </Dialog>
  );
}
