// The files of a sandbox: look, bring in, take out.

import { useRef, useState } from "preact/hooks";
import { type Failure, type Schema, ask, get, path, query as encoded, send } from "../api";
import { bytes, name } from "../format";
import { useLive } from "../live";
import { Action, Dialog, Empty, Problem, Waiting, When, toast } from "../parts/basics";
import { OneFile } from "./file";
import { Crumbs, address, below, download, last } from "./paths";

type Entry = Schema["FileEntry"];
type Sandbox = Schema["Sandbox"];

const PAGE = 500;

export function Files({ sandbox, query }: { sandbox: Sandbox; query: URLSearchParams }) {
  if (sandbox.state === "ended") return <Empty>The sandbox has ended, and its files are gone.</Empty>;
  const file = query.get("file");
  if (file) return <OneFile key={file} id={sandbox.id} at={file} />;
  return <Directory id={sandbox.id} at={query.get("path") ?? "/workspace"} />;
}

function Directory({ id, at }: { id: string; at: string }) {
  const [pages, setPages] = useState(1);
  const live = useLive(
    async (signal) => {
      const entries: Entry[] = [];
      let cursor: string | undefined;
      for (let page = 0; page < pages; page += 1) {
        const found = await get<Schema["FilePage"]>(path`/v1/sandboxes/${id}/files` + encoded({ path: at, limit: PAGE, cursor }), signal);
        entries.push(...found.entries);
        cursor = found.next_cursor ?? undefined;
        if (!cursor) break;
      }
      return { entries, more: cursor !== undefined };
    },
    [id, at, pages],
    { everyMs: 10_000 },
  );
  const [asks, setAsks] = useState<"directory" | "file">();
  const [over, setOver] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  const upload = async (files: FileList | File[] | null | undefined) => {
    for (const file of files ?? []) {
      try {
        await ask(path`/v1/sandboxes/${id}/files/content` + encoded({ path: below(at, file.name) }), { method: "PUT", body: file });
        toast(`${name(file.name)} is there`, bytes(file.size));
      } catch (error) {
        toast((error as Failure).message, (error as Failure).hint, true);
      }
    }
    live.reload();
  };
  const sorted = [...(live.data?.entries ?? [])].sort((a, b) => Number(b.kind === "directory") - Number(a.kind === "directory") || a.path.localeCompare(b.path));
  return (
    <div
      class={over ? "files over" : "files"}
      onDragOver={(event) => (event.preventDefault(), setOver(true))}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        void upload(event.dataTransfer?.files);
      }}
    >
      <div class="bar">
        <Crumbs id={id} at={at} />
        <div class="spring" />
        <button onClick={() => setAsks("file")}>New file</button>
        <button onClick={() => setAsks("directory")}>New directory</button>
        <button class="primary" onClick={() => input.current?.click()}>
          Upload
        </button>
        <input ref={input} type="file" multiple hidden aria-label="Files to upload" onChange={(event) => void upload(event.currentTarget.files)} />
      </div>
      <Problem error={live.error} retry={live.reload} />
      {!live.data && !live.error && <Waiting what="Loading" />}
      {live.data && sorted.length === 0 && <Empty>Nothing is here. Drop files to upload them.</Empty>}
      {sorted.length > 0 && (
        <div class="scroll">
          <table aria-label="Files">
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">Size</th>
                <th scope="col">Changed</th>
                <th scope="col">Mode</th>
                <th scope="col" aria-label="What to do" />
              </tr>
            </thead>
            <tbody>
              {sorted.map((entry) => (
                <tr key={entry.path}>
                  <td class={entry.kind}>
                    <a href={address(id, entry.kind === "directory" ? "path" : "file", entry.path)}>{name(last(entry.path))}</a>
                    {entry.target && <small> → {name(entry.target)}</small>}
                  </td>
                  <td class="number">{entry.kind === "file" ? bytes(entry.size) : ""}</td>
                  <td>
                    <When ms={entry.modified_at_ms} />
                  </td>
                  <td class="mono">{(entry.mode & 0o7777).toString(8).padStart(4, "0")}</td>
                  <td class="actions">
                    {entry.kind === "file" && <Action run={() => download(id, entry.path)}>Download</Action>}
                    <Action
                      kind="danger"
                      sure={`${name(entry.path)} is deleted${entry.kind === "directory" ? " with all that is in it" : ""}.`}
                      run={() => send("DELETE", path`/v1/sandboxes/${id}/files` + encoded({ path: entry.path, recursive: entry.kind === "directory" })).then(live.reload)}
                    >
                      Delete
                    </Action>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {live.data?.more && <button onClick={() => setPages(pages + 1)}>More</button>}
      {asks && <NewEntry id={id} at={at} kind={asks} close={() => setAsks(undefined)} done={live.reload} />}
    </div>
  );
}

function NewEntry({ id, at, kind, close, done }: { id: string; at: string; kind: "directory" | "file"; close: () => void; done: () => void }) {
  const [error, setError] = useState<Failure>();
  const [text, setText] = useState("");
  const make = async (event: Event) => {
    event.preventDefault();
    const made = below(at, text);
    try {
      if (kind === "directory") await send("POST", path`/v1/sandboxes/${id}/files/directory`, { path: made });
      else await ask(path`/v1/sandboxes/${id}/files/content` + encoded({ path: made }), { method: "PUT", body: "" });
      close();
      done();
      if (kind === "file") location.hash = address(id, "file", made);
    } catch (failure) {
      setError(failure as Failure);
    }
  };
  return (
    <Dialog title={`New ${kind}`} close={close}>
      <form onSubmit={make}>
        <label>
          Name
          <input autofocus required value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <Problem error={error} />
        <footer>
          <button class="primary">Make</button>
        </footer>
      </form>
    </Dialog>
  );
}
