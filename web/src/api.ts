// The server's public /v1, asked with the token of this tab. No cookie is used: another site cannot use the session.

import type { components } from "../../sdk/typescript/src/generated/openapi";

export type Schema = components["schemas"];

/** Whose token this tab has. */
export interface Who {
  tenant: string;
  role: Schema["Role"];
  owner: boolean;
}

const TOKEN = "paddock.token";
const OWN = "paddock.token.id";

/** An answer that is not a success, or none at all. */
export class Failure extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint?: string,
    readonly requestId?: string,
  ) {
    super(message);
  }
}

export const session = {
  token: (): string | null => sessionStorage.getItem(TOKEN),
  /** `id`: of a token that was made for this tab, and that ends with it. */
  begin(token: string, id?: string): void {
    sessionStorage.setItem(TOKEN, token);
    if (id) sessionStorage.setItem(OWN, id);
    tell();
  },
  end(): void {
    sessionStorage.removeItem(TOKEN);
    sessionStorage.removeItem(OWN);
    tell();
  },
  /** Ends it on the server too, where it was made for this tab and may do that. */
  async leave(): Promise<void> {
    const own = sessionStorage.getItem(OWN);
    if (own) await ask(path`/v1/tokens/${own}`, { method: "DELETE" }).catch(() => undefined);
    for (const listener of leaving) listener();
    session.end();
  },
};

/** Told when the person signs out: what is kept for that person is forgotten. A session that runs out takes nothing with it. */
export const leaving = new Set<() => void>();

/** Whether the server answers, for the banner. */
export const connection = { lost: false };

const listeners = new Set<() => void>();
export function onChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
function tell(): void {
  for (const listener of listeners) listener();
}
function reached(answered: boolean): void {
  if (connection.lost !== answered) return;
  connection.lost = !answered;
  tell();
}

export interface Asking {
  method?: string;
  json?: unknown;
  body?: BodyInit;
  signal?: AbortSignal;
  token?: string;
}

export type Query = Record<string, string | number | boolean | string[] | undefined>;

export function path(parts: TemplateStringsArray, ...values: (string | number)[]): string {
  return parts.reduce((made, part, index) => made + encodeURIComponent(String(values[index - 1])) + part);
}

export function query(values: Query): string {
  const made = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (Array.isArray(value)) for (const one of value) made.append(name, one);
    else if (value !== undefined) made.set(name, String(value));
  }
  const text = made.toString();
  return text && `?${text}`;
}

/** The answer, whatever it holds; a failure is thrown. */
export async function ask(target: string, asking: Asking = {}): Promise<Response> {
  const headers = new Headers();
  const token = asking.token ?? session.token();
  if (token) headers.set("authorization", `Bearer ${token}`);
  let body = asking.body;
  if (asking.json !== undefined) {
    headers.set("content-type", "application/json");
    body = JSON.stringify(asking.json);
  } else if (body !== undefined) headers.set("content-type", "application/octet-stream");
  let response: Response;
  try {
    response = await fetch(target, {
      method: asking.method ?? "GET",
      headers,
      body,
      signal: asking.signal,
      credentials: "omit",
      cache: "no-store",
      redirect: "error",
    });
  } catch (error) {
    if (asking.signal?.aborted) throw error;
    reached(false);
    throw new Failure(0, "unreachable", "the server does not answer", "It is asked again until it does. Sandboxes go on without it.");
  }
  reached(true);
  if (response.ok) return response;
  throw await failure(response, asking.token === undefined);
}

/** What to do in this page, where the server says no more than what was wrong. */
const HINTS: Record<string, string> = {
  file_not_found: "It may have been moved or deleted since: the directory above shows what is there.",
  build_not_found: "It may be of another tenant, or older than what is kept: the list below has those that there are.",
};

async function failure(response: Response, endsSession: boolean): Promise<Failure> {
  const requestId = response.headers.get("x-request-id") ?? undefined;
  let told: { error?: { code?: string; message?: string; hint?: string }; code?: string; message?: string; hint?: string } = {};
  try {
    told = await response.json();
  } catch {
    // Not every failure has a body of ours.
  }
  const { code, message, hint } = told.error ?? told;
  if (response.status === 401 && endsSession && session.token()) session.end();
  return new Failure(response.status, code ?? "failed", message ?? `the server answered ${response.status}`, hint ?? HINTS[code ?? ""], requestId);
}

export async function get<T>(target: string, signal?: AbortSignal): Promise<T> {
  return (await ask(target, { signal })).json();
}

export async function send<T>(method: string, target: string, json?: unknown, signal?: AbortSignal): Promise<T> {
  const response = await ask(target, { method, json, signal });
  const text = await response.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

/** Lines of JSON as they come. */
export async function* lines<T>(target: string, asking: Asking): AsyncGenerator<T> {
  yield* linesOf<T>(await ask(target, asking), asking);
}

/** The same of an answer whose headers say something too. */
export async function* linesOf<T>(response: Response, asking: Asking): AsyncGenerator<T> {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      rest += value;
      let end: number;
      while ((end = rest.indexOf("\n")) >= 0) {
        const line = rest.slice(0, end);
        rest = rest.slice(end + 1);
        if (line.trim()) yield JSON.parse(line) as T;
      }
    }
    if (rest.trim()) yield JSON.parse(rest) as T;
  } catch (error) {
    if (asking.signal?.aborted || error instanceof Failure) throw error;
    throw new Failure(0, "unreachable", "the stream broke off", "It is taken up again when the server answers.");
  } finally {
    reader.cancel().catch(() => undefined);
  }
}
