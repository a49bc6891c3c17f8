// Tenants, what they use, and the quotas that bound them.

import { useState } from "preact/hooks";
import { type Failure, type Schema, type Who, get, path, send } from "../api";
import { bytes, name } from "../format";
import { useLive } from "../live";
import { Card, Dialog, Problem, Table, Waiting, toast } from "../parts/basics";

type Tenant = Schema["Tenant"];
type Quota = Schema["Quota"];

const MIB = 1 << 20;

/** The fields of a quota; `of`: how many of the API's units one of the shown is. */
const FIELDS: { key: keyof Quota; label: string; step: string; of: number }[] = [
  { key: "live_sandboxes", label: "Living sandboxes", step: "1", of: 1 },
  { key: "cpus", label: "Processors", step: "any", of: 1 },
  { key: "memory_bytes", label: "Memory, MiB", step: "1", of: MIB },
  { key: "creates_per_minute", label: "Creates per minute", step: "1", of: 1 },
  { key: "volumes", label: "Volumes", step: "1", of: 1 },
  { key: "volume_bytes", label: "Bytes of volumes, MiB", step: "1", of: MIB },
];

export function Tenants({ who }: { who?: Who }) {
  const live = useLive((signal) => get<{ tenants: Tenant[] }>("/v1/tenants", signal), [], { everyMs: 5000 });
  const [changed, setChanged] = useState<Tenant | "new">();
  const sets = who?.role === "admin" && who.tenant === "owner";
  const done = () => {
    setChanged(undefined);
    live.reload();
  };
  return (
    <Card title="Tenants and quotas" wide extra={sets && <button onClick={() => setChanged("new")}>Quota of another tenant</button>}>
      <Problem error={live.error} retry={live.reload} />
      {!live.data && !live.error && <Waiting what="Loading" />}
      {live.data && (
        <Table label="Tenants" head={["Tenant", "Sandboxes", "Processors", "Memory", "Creates per minute", "Volumes", "Waiting", ""]}>
          {live.data.tenants.map((tenant) => (
            <tr key={tenant.name}>
              <td>{name(tenant.name)}</td>
              <td>{within(tenant.usage.live_sandboxes, tenant.quota.live_sandboxes)}</td>
              <td>{within(tenant.usage.cpus, tenant.quota.cpus)}</td>
              <td>
                {bytes(tenant.usage.memory_bytes)}
                {tenant.quota.memory_bytes ? ` of ${bytes(tenant.quota.memory_bytes)}` : ""}
              </td>
              <td>{tenant.quota.creates_per_minute ?? "no limit"}</td>
              <td>
                {tenant.quota.volumes ?? "no limit"}
                {tenant.quota.volume_bytes ? `, ${bytes(tenant.quota.volume_bytes)}` : ""}
              </td>
              <td>{tenant.usage.waiting}</td>
              <td class="actions">{sets && <button onClick={() => setChanged(tenant)}>Set quota</button>}</td>
            </tr>
          ))}
        </Table>
      )}
      {!sets && (
        <p class="quiet">
          Quotas are set by the owner of the host: an admin token of the tenant <code>owner</code>, or <code>paddock quota TENANT --sandboxes 20</code>.
        </p>
      )}
      {changed && <SetQuota tenant={changed === "new" ? undefined : changed} close={() => setChanged(undefined)} done={done} />}
    </Card>
  );
}

function within(used: number, limit?: number | null): string {
  return limit === undefined || limit === null ? `${used}` : `${used} of ${limit}`;
}

function SetQuota({ tenant, close, done }: { tenant?: Tenant; close: () => void; done: () => void }) {
  const [error, setError] = useState<Failure>();
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const named = tenant?.name ?? String(form.get("tenant"));
    // The call replaces the whole quota: what is empty here has no limit afterwards.
    const quota: Record<string, number> = {};
    for (const { key, of } of FIELDS) {
      const given = String(form.get(key) ?? "").trim();
      if (given !== "") quota[key] = Number(given) * of;
    }
    try {
      await send<Tenant>("PUT", path`/v1/tenants/${named}/quota`, quota);
      toast(`The quota of ${name(named)} is set.`);
      done();
    } catch (failure) {
      setError(failure as Failure);
    }
  };
  return (
    <Dialog title={tenant ? `Quota of ${name(tenant.name)}` : "Quota of a tenant"} close={close}>
      <form onSubmit={submit}>
        {!tenant && (
          <label>
            Tenant
            <input name="tenant" required maxLength={64} />
          </label>
        )}
        {FIELDS.map(({ key, label, step, of }) => {
          const limit = tenant?.quota[key];
          return (
            <label key={key}>
              {label}
              <input name={key} type="number" min="0" step={step} placeholder="no limit" defaultValue={limit === undefined || limit === null ? "" : String(limit / of)} />
            </label>
          );
        })}
        <p class="quiet">Empty: no limit. What lives already goes on; creates beyond the quota wait or are refused.</p>
        <Problem error={error} />
        <footer>
          <button class="primary">Set</button>
        </footer>
      </form>
    </Dialog>
  );
}
