// One file of a sandbox: shown, and edited. What a person wrote stays until it is saved or given up, whatever happens to the file meanwhile.

import { useEffect, useState } from "preact/hooks";
import { type Schema, Failure, ask, get, leaving, path, query as encoded } from "../api";
import { bytes, name } from "../format";
import { type Live, useLive } from "../live";
import { Action, Dialog, Empty, Problem, Waiting, toast } from "../parts/basics";
import { Crumbs, above, address, download, last } from "./paths";

const MOST_EDITED = 1 << 20;
const FIRST_PART = 64 << 10;
const MOST_PICTURE = 10 << 20;
const PICTURES: Record<string, string> = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp" };

interface Loaded {
  entry: Schema["FileEntry"];
  text?: string;
  picture?: string;
  /** Only the beginning is here. */
  part: boolean;
}

/** What was written and not saved, and the file as it was when the writing began. */
interface Draft {
  text: string;
  base: Loaded;
}

/** By sandbox and path: they outlive the look at another tab or another file, and not the session. */
const drafts = new Map<string, Draft>();

leaving.add(() => drafts.clear());
addEventListener("beforeunload", (event) => {
  if (drafts.size > 0) event.preventDefault();
});

async function read(id: string, at: string, signal?: AbortSignal): Promise<Loaded> {
  const entry = await get<Schema["FileEntry"]>(path`/v1/sandboxes/${id}/files/stat` + encoded({ path: at }), signal);
  const kind = PICTURES[at.split(".").at(-1)?.toLowerCase() ?? ""];
  const content = (length?: number) => ask(path`/v1/sandboxes/${id}/files/content` + encoded({ path: at, length }), { signal });
  if (kind && entry.size <= MOST_PICTURE) {
    const data = await (await content()).arrayBuffer();
    return { entry, picture: URL.createObjectURL(new Blob([data], { type: kind })), part: false };
  }
  const part = entry.size > MOST_EDITED;
  const data = await (await content(part ? FIRST_PART : MOST_EDITED)).arrayBuffer();
  try {
    return { entry, text: new TextDecoder("utf-8", { fatal: !part, ignoreBOM: true }).decode(data), part };
  } catch {
    return { entry, part };
  }
}

/** By content: a time of a file is told in milliseconds, and two writes may share one. */
const differs = (one: Loaded, other: Loaded) => one.text !== other.text || one.part !== other.part;

/** A field of a page has lines that end with a line feed alone, whatever was put into it. */
function endsLinesAs(base: string, value: string): string {
  const all = base.split("\n").length - 1;
  return all > 0 && base.split("\r\n").length - 1 === all ? value.replace(/\r?\n/g, "\r\n") : value;
}

export function OneFile({ id, at }: { id: string; at: string }) {
  const key = `${id} ${at}`;
  const live = useLive((signal) => read(id, at, signal), [id, at]);
  const [draft, setDraft] = useState<Draft | undefined>(() => drafts.get(key));
  const [asks, setAsks] = useState<"changed" | "deleted">();
  const found = live.data;
  // What was saved and is not asked for again yet.
  const [saved, setSaved] = useState<Loaded>();
  useEffect(() => setSaved(undefined), [found]);
  useEffect(() => () => void (found?.picture && URL.revokeObjectURL(found.picture)), [found]);
  const loaded = saved ?? found;
  const write = (value: string) => {
    const base = draft?.base ?? loaded;
    if (!base) return;
    const text = endsLinesAs(base.text ?? "", value);
    const next = text === base.text ? undefined : { text, base };
    if (next) drafts.set(key, next);
    else drafts.delete(key);
    setDraft(next);
  };
  const drop = () => {
    drafts.delete(key);
    setDraft(undefined);
  };
  const put = async ({ text, base }: Draft) => {
    const mode = ((found ?? base).entry.mode & 0o7777).toString(8);
    await ask(path`/v1/sandboxes/${id}/files/content` + encoded({ path: at, mode }), { method: "PUT", body: text });
    setSaved({ ...base, text });
    // What was typed while it was on its way is not saved yet.
    const now = drafts.get(key);
    if (now && now.text !== text) write(now.text);
    else drop();
    toast("Saved", name(at));
    live.reload();
  };
  const save = async () => {
    const mine = drafts.get(key);
    if (!mine) return;
    try {
      if (differs(await read(id, at), mine.base)) {
        live.reload();
        return setAsks("changed");
      }
    } catch (error) {
      if (!(error instanceof Failure) || error.status !== 404) throw error;
      return setAsks("deleted");
    }
    await put(mine);
  };
  const editable = draft ?? loaded;
  const shown = draft?.text ?? loaded?.text;
  const meanwhile = draft !== undefined && found !== undefined && differs(found, draft.base);
  return (
    <div class="files">
      <div class="bar">
        <Crumbs id={id} at={at} />
        <div class="spring" />
        {draft && <span class="quiet">edited</span>}
        {loaded && <span class="quiet">{bytes(loaded.entry.size)}</span>}
        <Action run={() => download(id, at)}>Download</Action>
        {shown !== undefined && (draft !== undefined || !loaded?.part) && (
          <Action kind="primary" disabled={!draft} run={save}>
            Save
          </Action>
        )}
        <a class="button" href={address(id, "path", above(at))}>
          Close
        </a>
      </div>
      <Problem error={live.error} retry={live.reload} />
      {meanwhile && (
        <div class="note" role="status">
          The file was changed after you began to edit it. Yours is below.{" "}
          <Action kind="danger" sure={`What you wrote in ${name(last(at))} is gone then.`} run={drop}>
            Take what is there now
          </Action>
        </div>
      )}
      {!loaded && !live.error && <Waiting what="Loading" />}
      {loaded?.picture && <img class="picture" alt={name(last(at))} src={loaded.picture} />}
      {loaded?.part && !draft && <p class="note">The file has {bytes(loaded.entry.size)}: only its first {bytes(FIRST_PART)} are shown. Download has all of it.</p>}
      {loaded && shown === undefined && !loaded.picture && <Empty>This is no text. Download has all of it.</Empty>}
      {editable && shown !== undefined && (
        <textarea
          class="mono content"
          aria-label="Content"
          spellcheck={false}
          readOnly={loaded?.part && !draft}
          value={shown}
          onInput={(event) => write(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "s" || !(event.ctrlKey || event.metaKey)) return;
            event.preventDefault();
            save().catch((error: Failure) => toast(error.message, error.hint, true));
          }}
        />
      )}
      {asks && <Choice at={at} why={asks} close={() => setAsks(undefined)} live={live} put={() => put(drafts.get(key) as Draft)} drop={drop} />}
    </div>
  );
}

/** Somebody else wrote or deleted the file: whose content stays is for the person to say. */
function Choice({ at, why, close, live, put, drop }: { at: string; why: "changed" | "deleted"; close: () => void; live: Live<Loaded>; put: () => Promise<void>; drop: () => void }) {
  const theirs = live.data?.text;
  return (
    <Dialog title={why === "changed" ? "The file was changed" : "The file was deleted"} close={close}>
      <p>
        <code>{name(at)}</code> was {why} after you began to edit it: by a command, or by somebody else. {why === "changed" ? "Save yours, and what is there now is gone." : "Save yours, and it is there again."}
      </p>
      {why === "changed" && theirs !== undefined && (
        <textarea class="mono" rows={8} readOnly aria-label="What is there now" value={theirs} />
      )}
      <footer>
        <button autofocus onClick={close}>
          Go on editing
        </button>
        {why === "changed" && (
          <button
            onClick={() => {
              drop();
              close();
            }}
          >
            Take what is there now
          </button>
        )}
        <Action kind="danger" run={() => put().then(close)}>
          Save mine
        </Action>
      </footer>
    </Dialog>
  );
}
