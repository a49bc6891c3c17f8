// The changes of a sandbox since its beginning: the paths, and the text side by side.

import { useState } from "preact/hooks";
import { type Schema, ask, get, path, query } from "../api";
import { bytes, name } from "../format";
import { useLive } from "../live";
import { Card, Empty, Problem, Shown, Waiting } from "../parts/basics";
import { type PatchedFile, parsePatch } from "./patch";

const MOST_PATCH = 4 << 20;
const SHOWN = 500;

async function patchOf(id: string, signal: AbortSignal): Promise<{ files: PatchedFile[]; cut: boolean }> {
  const response = await ask(path`/v1/sandboxes/${id}/changes/patch` + query({ since: "start" }), { signal });
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let cut = false;
  while (reader) {
    const { done, value } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
    if (text.length > MOST_PATCH) {
      cut = true;
      await reader.cancel();
      break;
    }
  }
  return { files: parsePatch(text), cut };
}

export function Changes({ sandbox }: { sandbox: Schema["Sandbox"] }) {
  const lives = sandbox.state !== "ended";
  const changes = useLive(async (signal) => (lives ? get<Schema["Changes"]>(path`/v1/sandboxes/${sandbox.id}/changes` + query({ since: "start" }), signal) : undefined), [sandbox.id, lives]);
  const patch = useLive(async (signal) => (lives ? patchOf(sandbox.id, signal) : undefined), [sandbox.id, lives]);
  const [chosen, setChosen] = useState<string>();
  if (!lives) return <Empty>The sandbox has ended, and its files are gone.</Empty>;
  const list = changes.data?.changes ?? [];
  const files = patch.data?.files ?? [];
  const shown = files.filter((file) => chosen === undefined || file.path === chosen);
  return (
    <div class="split">
      <div class="side">
        <div class="bar">
          <span class="quiet">{changes.data && `${list.length} changed since its beginning`}</span>
          <div class="spring" />
          <button
            onClick={() => {
              changes.reload();
              patch.reload();
            }}
          >
            Look again
          </button>
        </div>
        <Problem error={changes.error} retry={changes.reload} />
        {!changes.data && !changes.error && <Waiting what="Comparing" />}
        {changes.data && list.length === 0 && <Empty>Nothing was changed.</Empty>}
        <ul class="choices" aria-label="Changed paths">
          {list.slice(0, SHOWN).map((one) => (
            <li key={one.path}>
              <button class={chosen === one.path ? "choice on" : "choice"} aria-pressed={chosen === one.path} onClick={() => setChosen(chosen === one.path ? undefined : one.path)}>
                <span class={`sign ${one.kind}`} title={one.kind}>
                  {one.kind === "added" ? "+" : one.kind === "deleted" ? "−" : "~"}
                </span>
                <code>{name(one.path)}</code>
                {one.entry?.kind === "file" && <small>{bytes(one.entry.size)}</small>}
              </button>
            </li>
          ))}
        </ul>
        {list.length > SHOWN && <p class="quiet">The first {SHOWN} of {list.length}.</p>}
      </div>
      <div class="detail">
        <Problem error={patch.error} retry={patch.reload} />
        {patch.data?.cut && <p class="note">The patch is large: only its beginning is shown. `paddock diff --patch` has all of it.</p>}
        {chosen && shown.length === 0 && patch.data && <Empty>There is no text to compare: a directory, a link, or bytes that are no text.</Empty>}
        {shown.slice(0, 50).map((file, index) => (
          <Card key={`${index} ${file.path}`} title={<code>{name(file.path)}</code>}>
            <SideBySide file={file} />
          </Card>
        ))}
      </div>
    </div>
  );
}

function SideBySide({ file }: { file: PatchedFile }) {
  return (
    <>
      {file.notes.map((note, index) => (
        <p key={index} class="quiet">
          {name(note)}
        </p>
      ))}
      <div class="scroll">
        <table class="patch" aria-label={`Changes of ${name(file.path)}`}>
          <tbody>
            {file.rows.map((row, index) =>
              row.kind === "skip" ? (
                <tr key={index} class="skip">
                  <td colSpan={4}>
                    <Shown text={row.text} />
                  </td>
                </tr>
              ) : (
                <tr key={index}>
                  <td class="at">{row.oldLine}</td>
                  <td class={row.old === undefined ? "none" : row.same ? "" : "deleted"}>{row.old !== undefined && <Shown text={row.old} />}</td>
                  <td class="at">{row.newLine}</td>
                  <td class={row.new === undefined ? "none" : row.same ? "" : "added"}>{row.new !== undefined && <Shown text={row.new} />}</td>
                </tr>
              ),
            )}
          </tbody>
        </table>
      </div>
    </>
  );
}
