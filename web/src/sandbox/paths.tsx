// Paths inside a sandbox: where they lead in this page, and to the disk of the person.

import { type Schema, path, query, send } from "../api";
import { name } from "../format";
import { to } from "../route";

const LINK_SECONDS = 300;

export const address = (id: string, kind: "path" | "file", at: string) => `${to("sandboxes", id, "files")}${query({ [kind]: at })}`;
export const above = (at: string) => at.replace(/\/[^/]*\/?$/, "") || "/";
export const last = (at: string) => at.split("/").filter(Boolean).at(-1) ?? "/";
export const below = (at: string, part: string) => `${at.replace(/\/$/, "")}/${part}`;

export function Crumbs({ id, at }: { id: string; at: string }) {
  const parts = at.split("/").filter(Boolean);
  return (
    <nav class="crumbs" aria-label="Path">
      <a href={address(id, "path", "/")}>/</a>
      {parts.map((part, index) => (
        <>
          <a href={address(id, "path", `/${parts.slice(0, index + 1).join("/")}`)}>{name(part)}</a>
          {index < parts.length - 1 && <span>/</span>}
        </>
      ))}
    </nav>
  );
}

/** By an address that needs no token and is good for some minutes: the browser writes it to the disk as it comes, whatever its size. */
export async function download(id: string, at: string): Promise<void> {
  const signed = await send<Schema["SignedUrl"]>("POST", path`/v1/sandboxes/${id}/files/sign`, { path: at, operation: "read", expires_seconds: LINK_SECONDS });
  const target = new URL(signed.url, location.origin);
  if (target.origin !== location.origin) throw new Error("the server signed an address of another server");
  const link = document.createElement("a");
  link.href = target.href;
  link.download = last(at);
  link.rel = "noreferrer";
  link.click();
}
