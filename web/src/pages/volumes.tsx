// Volumes: directories that outlive sandboxes, with their versions.

import { type Schema, get, path, send } from "../api";
import { bytes, name } from "../format";
import { useLive } from "../live";
import { Action, Card, Empty, Problem, Table, Waiting, When, toast } from "../parts/basics";
import { to } from "../route";

export function Volumes({ id }: { id?: string }) {
  const live = useLive((signal) => get<{ volumes: Schema["Volume"][] }>("/v1/volumes", signal), [], { everyMs: 15_000 });
  const make = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    try {
      await send("POST", "/v1/volumes", { name: String(new FormData(form).get("name")) });
      form.reset();
      live.reload();
    } catch (error) {
      toast((error as Error).message, (error as { hint?: string }).hint, true);
    }
  };
  return (
    <div class="page">
      <h1>Volumes</h1>
      <Problem error={live.error} retry={live.reload} />
      {!live.data && !live.error && <Waiting what="Loading" />}
      {id && <History key={id} id={id} changed={live.reload} />}
      <form class="line" onSubmit={make}>
        <input name="name" aria-label="Name of a new volume" placeholder="Name" required />
        <button class="primary">Make a volume</button>
      </form>
      {live.data?.volumes.length === 0 && <Empty>There is no volume. A volume keeps a directory over the end of its sandboxes.</Empty>}
      {live.data && live.data.volumes.length > 0 && (
        <Table label="Volumes" head={["Name", "Version", "Files", "Size", "Stored", "Writer", "Made"]}>
          {live.data.volumes.map((one) => (
            <tr key={one.id}>
              <td>
                <a href={to("volumes", one.name)}>{name(one.name)}</a>
              </td>
              <td class="number">{one.version ?? "–"}</td>
              <td class="number">{one.files}</td>
              <td class="number">{bytes(one.bytes)}</td>
              <td class="number">{bytes(one.stored_bytes)}</td>
              <td>{one.writer ? <a href={to("sandboxes", one.writer)}>{name(one.writer)}</a> : <span class="quiet">none</span>}</td>
              <td>
                <When ms={one.created_at_ms} />
              </td>
            </tr>
          ))}
        </Table>
      )}
    </div>
  );
}

function History({ id, changed }: { id: string; changed: () => void }) {
  const live = useLive((signal) => get<{ versions: Schema["VolumeVersion"][] }>(path`/v1/volumes/${id}/history`, signal), [id], { everyMs: 15_000 });
  const restore = async (version: number) => {
    await send("POST", path`/v1/volumes/${id}/restore`, { version });
    toast(`Version ${version} is the current one again`);
    live.reload();
    changed();
  };
  return (
    <Card title={`History of ${name(id)}`} wide extra={<a href="#/volumes">Close</a>}>
      <Problem error={live.error} retry={live.reload} />
      {live.data?.versions.length === 0 && <Empty>It has no version yet: the first sandbox that writes to it makes one.</Empty>}
      {live.data && live.data.versions.length > 0 && (
        <Table label="Versions" head={["Version", "How", "By", "When", "Files", "Size", ""]}>
          {live.data.versions.map((one) => (
            <tr key={one.version}>
              <td class="number">{one.version}</td>
              <td>
                {name(one.kind)}
                {one.from !== undefined && one.from !== null && <small> from {one.from}</small>}
              </td>
              <td>{name(one.by)}</td>
              <td>
                <When ms={one.at_ms} />
              </td>
              <td class="number">{one.files}</td>
              <td class="number">{bytes(one.bytes)}</td>
              <td class="actions">{one.current ? <span class="state running">current</span> : <Action run={() => restore(one.version)}>Restore</Action>}</td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  );
}
