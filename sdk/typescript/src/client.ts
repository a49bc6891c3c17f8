/// <reference lib="esnext.disposable" preserve="true" />
/** One server: requests, tried again where that is safe. */

import { bodyOf, decode, joined, lines, toStream, type Data } from './bytes.js'
import { connectionFailed, isFinal } from './connecting.js'
import { errorOfAnswer, InvalidRequestError, isObject, UnexpectedAnswerError, UnsupportedError } from './errors.js'
import { locate, onSocket, type Location } from './location.js'
import { parseSnapshot, type Snapshot } from './models.js'
import { environment, hasNode, nodePlatform } from './platform.js'
import { call, pages, request } from './routes.js'
import { DEFAULT_RETRY, mayRepeat, pauseMs, sleep, type RetryPolicy } from './retrying.js'
import { percent } from './segment.js'
import { VERSION } from './version.js'
import { checkAborted, WireError, type Wire, type WireAnswer } from './wire.js'
import { FetchWire, type Fetch } from './wire-fetch.js'

/** For requests that should answer at once, and for those that may pull an image or copy a disk. */
export const PATIENCE_MS = 120_000
export const LONG_PATIENCE_MS = 900_000

export type Query = Readonly<Record<string, string | number | boolean | undefined | readonly string[]>>
export type Json = Record<string, any>

/** Every call takes a signal. */
export interface CallOptions {
  /** Ends the waiting for an answer; the call then throws the signal's reason. */
  signal?: AbortSignal | undefined
}

/** Calls that do not belong to a sandbox take the server to use. */
export interface SnapshotListOptions extends CallOptions {
  name?: string | undefined
  /** The id of the sandbox that they were made of. */
  sandbox?: string | undefined
}

export interface ServerOptions extends CallOptions {
  /** Default: the server of the environment, started if need be. */
  client?: Client | undefined
}

export interface ClientOptions {
  /** `http://HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`. Default: PADDOCK_URL, else the socket of this user. */
  url?: string | undefined
  /** As `paddock token create` printed it; the owner's socket needs none. Default: PADDOCK_TOKEN, where no `url` is given. */
  token?: string | undefined
  /** Start a server on the socket if none answers. Default: only where no address was configured. */
  start?: boolean | undefined
  /** How often and how fast to try again. */
  retry?: Partial<RetryPolicy> | undefined
  /** A `fetch` of one's own (a proxy, an edge runtime, tests); not for unix sockets. */
  fetch?: Fetch | undefined
}

export interface RequestOptions extends CallOptions {
  query?: Query | undefined
  json?: unknown
  /** A function makes the body anew for each try. */
  body?: Data | (() => AsyncIterable<Uint8Array>) | undefined
  headers?: Record<string, string> | undefined
  /** Doing it twice is as good as once. Default: GET and HEAD. */
  repeatable?: boolean | undefined
  /** Makes it so, by a key that the server knows again. */
  idempotent?: boolean | undefined
  patienceMs?: number | null | undefined
}

/** An answer that was read whole. */
export interface Answer {
  readonly status: number
  readonly bytes: Uint8Array
  header(name: string): string | undefined
}

/** A connection to a Paddock server, shared by any number of sandboxes. */
export class Client implements AsyncDisposable {
  /** How often and how fast requests are tried again. */
  readonly retry: RetryPolicy
  readonly #configured: string | undefined
  readonly #token: string | undefined
  readonly #start: boolean | undefined
  readonly #fetch: Fetch | undefined
  #location: Promise<Location> | undefined
  #wire: Promise<Wire> | undefined

  constructor(options: ClientOptions = {}) {
    this.#configured = options.url ?? environment('PADDOCK_URL')
    // A wrong address is told at once, not by the first request.
    if (this.#configured !== undefined) locate(this.#configured)
    // A token is for the server that it was configured with.
    this.#token = options.token ?? (options.url === undefined ? environment('PADDOCK_TOKEN') : undefined)
    // As a header it would be refused, with the token in the message.
    if (this.#token !== undefined && !/^[\x21-\x7e]+$/.test(this.#token)) {
      throw new InvalidRequestError('the token has characters that no token has', { hint: 'copy it again as it was printed' })
    }
    this.#start = options.start
    this.#fetch = options.fetch
    this.retry = { ...DEFAULT_RETRY, ...options.retry }
  }

  /** The headers by which the server knows this client; undefined without a token. For programs that make requests of their own. */
  authorization(): Record<string, string> | undefined {
    return this.#token ? { authorization: `Bearer ${this.#token}` } : undefined
  }

  /** Where the server is. */
  async location(): Promise<Location> {
    this.#location ??= this.#locate()
    return this.#location
  }

  /** Closes the connections; the next request opens new ones. */
  async close(): Promise<void> {
    const wire = this.#wire
    this.#wire = undefined
    ;(await wire)?.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** The answer, if it is a success; else throws the server's error. */
  async request(method: string, path: string, options: RequestOptions = {}): Promise<Answer> {
    const headers = this.#headers(options)
    const body = options.body === undefined ? undefined : bodyOf(options.body)
    const json = options.json === undefined ? undefined : jsonBytes(options.json)
    const safe = options.repeatable ?? (options.idempotent === true || method === 'GET' || method === 'HEAD')
    const repeatable = safe && (body?.repeatable ?? true)
    const target = targetOf(path, options.query)
    const patienceMs = options.patienceMs === undefined ? PATIENCE_MS : options.patienceMs
    for (let attempt = 0; ; attempt++) {
      checkAborted(options.signal)
      try {
        const wire = await this.#open()
        const answer = await wire.send({
          method, target, headers, body: json ?? body?.make(), patienceMs, signal: options.signal,
        })
        const bytes = await joined(answer.pieces)
        if (isSuccess(answer)) return { status: answer.status, bytes, header: (name) => answer.header(name) }
        const failure = failureOf(answer, bytes)
        if (answer.status !== 503 || !repeatable || attempt >= this.retry.retries) throw failure
        await sleep(pauseMs(this.retry, attempt, failure.retryAfterMs), options.signal)
      } catch (error) {
        if (!(error instanceof WireError)) throw error
        // A stream that was begun is used up, even where the server never saw it.
        await this.#recover(error, attempt, repeatable, body?.repeatable ?? true, options.signal)
      }
    }
  }

  /** The JSON object of an answer. */
  async call(method: string, path: string, options: RequestOptions = {}): Promise<Json> {
    const answer = await this.request(method, path, options)
    const text = decode(answer.bytes)
    let body: unknown
    try {
      body = JSON.parse(text)
    } catch {
      body = undefined
    }
    if (isObject(body)) return body
    throw new UnexpectedAnswerError(
      `${method} ${path} was answered with something else than a JSON object: ${JSON.stringify(text.slice(0, 200))}`,
      { status: answer.status, hint: 'is PADDOCK_URL the address of a Paddock server?' },
    )
  }

  /** An answer that is read piece by piece; only its beginning is tried again here. The caller closes it. */
  async open(path: string, options: RequestOptions & { method?: string } = {}): Promise<WireAnswer> {
    const answer = await this.#openAny(options.method ?? 'GET', path, options)
    if (isSuccess(answer)) return answer
    throw failureOf(answer, await joined(answer.pieces))
  }

  /** Lines of JSON of an answer, until it ends or the caller has enough. */
  async *lines(path: string, options: RequestOptions = {}): AsyncGenerator<Uint8Array> {
    const answer = await this.open(path, options)
    try {
      yield* lines(answer.pieces)
    } finally {
      answer.close()
    }
  }

  /** All objects of a list, page after page. */
  async *pages(path: string, name: string, query: Query, options: CallOptions = {}): AsyncGenerator<Json> {
    let cursor: string | undefined
    do {
      const page = await this.call('GET', path, { query: { ...query, cursor }, signal: options.signal })
      yield* page[name] as Json[]
      cursor = page['next_cursor'] ?? undefined
    } while (cursor)
  }

  /** A request to `path` on the server, with this client's token, answered as `fetch` answers. */
  async fetch(path: string, init: RequestInit & { patienceMs?: number | null } = {}): Promise<Response> {
    const method = (init.method ?? 'GET').toUpperCase()
    const sent = new Request('http://localhost/', { ...init, method, ...(init.body ? { duplex: 'half' } : {}) } as RequestInit)
    const headers: Record<string, string> = {}
    sent.headers.forEach((value, name) => {
      headers[name] = value
    })
    const content = init.body ? new Uint8Array(await sent.arrayBuffer()) : undefined
    const answer = await this.#openAny(method, path, {
      headers,
      body: content,
      signal: init.signal ?? undefined,
      patienceMs: init.patienceMs === undefined ? LONG_PATIENCE_MS : init.patienceMs,
    })
    const empty = method === 'HEAD' || [101, 204, 205, 304].includes(answer.status)
    if (empty) answer.close()
    return new Response(empty ? null : toStream(answer.pieces, () => answer.close()), {
      status: answer.status,
      headers: answer.headers(),
    })
  }

  /** Tenant and role of the caller, and whether it is the owner of the host. */
  async whoami(options: CallOptions = {}): Promise<{ tenant: string; role: string; owner: boolean }> {
    const { tenant, role, owner } = await call(this, 'GET /v1/whoami', { signal: options.signal })
    return { tenant, role, owner }
  }

  /** Names of the server's templates. */
  async templates(options: CallOptions = {}): Promise<string[]> {
    const body = await call(this, 'GET /v1/templates', { signal: options.signal })
    return body.templates.map((template) => template.name)
  }

  /** All snapshots of one's own; the one of a name, or those of the sandbox with an id. */
  async snapshots(options: SnapshotListOptions = {}): Promise<Snapshot[]> {
    const found: Snapshot[] = []
    const query = { name: options.name, sandbox: options.sandbox }
    for await (const item of pages(this, 'GET /v1/snapshots', 'snapshots', { query, signal: options.signal })) found.push(parseSnapshot(item))
    return found
  }

  async deleteSnapshot(snapshot: string | Snapshot, options: CallOptions = {}): Promise<void> {
    const named = typeof snapshot === 'string' ? snapshot : snapshot.id
    await request(this, 'DELETE /v1/snapshots/{snapshot}', { at: { snapshot: named }, signal: options.signal })
  }

  /** The address of a path for programs that know nothing of this package. */
  async urlOf(path: string): Promise<string> {
    const location = await this.location()
    if (location.socket === undefined) return location.baseUrl + path
    throw new UnsupportedError(`the server listens only on ${location.shown}, which has no URL for others`, {
      hint: 'run `paddock serve --listen 127.0.0.1:7777` and set PADDOCK_URL to it; from JavaScript, sandbox.fetch() works on the socket too',
    })
  }

  /** The error for a loss of the connection. */
  async connectionFailed(error: unknown): Promise<Error> {
    return connectionFailed(error, await this.location())
  }

  async #openAny(method: string, path: string, options: RequestOptions): Promise<WireAnswer> {
    const target = targetOf(path, options.query)
    const headers = this.#headers(options)
    const body = options.body === undefined ? undefined : bodyOf(options.body)
    const repeatable = method === 'GET' || method === 'HEAD'
    const patienceMs = options.patienceMs === undefined ? PATIENCE_MS : options.patienceMs
    for (let attempt = 0; ; attempt++) {
      checkAborted(options.signal)
      try {
        const wire = await this.#open()
        return await wire.send({ method, target, headers, body: body?.make(), patienceMs, signal: options.signal })
      } catch (error) {
        if (!(error instanceof WireError)) throw error
        await this.#recover(error, attempt, repeatable, body?.repeatable ?? true, options.signal)
      }
    }
  }

  #headers(options: RequestOptions): Record<string, string> {
    const headers: Record<string, string> = { ...options.headers }
    // Browsers set this one themselves.
    if (hasNode()) headers['user-agent'] ??= `paddock-typescript/${VERSION}`
    Object.assign(headers, this.authorization())
    if (options.idempotent) headers['idempotency-key'] = randomKey()
    if (options.json !== undefined) headers['content-type'] = 'application/json'
    else if (options.body !== undefined) headers['content-type'] ??= 'application/octet-stream'
    return headers
  }

  /** Returns when it makes sense to try again, else throws. */
  async #recover(
    error: WireError, attempt: number, repeatable: boolean, again: boolean, signal: AbortSignal | undefined,
  ): Promise<void> {
    const location = await this.location()
    if (!again || attempt >= this.retry.retries || isFinal(error) || !mayRepeat(error, repeatable)) {
      throw connectionFailed(error, location)
    }
    if (error.failure === 'never-reached' && location.socket !== undefined && (this.#start ?? location.mayStart)) {
      const { ensureRunning } = await nodePlatform('starting a server')
      await ensureRunning(location.socket, signal)
      if (attempt === 0) return
    }
    await sleep(pauseMs(this.retry, attempt), signal)
  }

  async #locate(): Promise<Location> {
    if (this.#configured !== undefined) return locate(this.#configured)
    const { defaultSocket } = await nodePlatform('a server without a URL')
    return onSocket(defaultSocket(), true)
  }

  async #open(): Promise<Wire> {
    this.#wire ??= this.#makeWire()
    return this.#wire
  }

  async #makeWire(): Promise<Wire> {
    const location = await this.location()
    if (this.#fetch && location.socket === undefined) return new FetchWire(location.baseUrl, this.#fetch)
    if (location.socket === undefined && !hasNode()) return new FetchWire(location.baseUrl)
    return (await nodePlatform('a unix socket')).makeWire(location)
  }
}

function isSuccess(answer: WireAnswer): boolean {
  return answer.status >= 200 && answer.status < 300
}

function failureOf(answer: WireAnswer, bytes: Uint8Array): ReturnType<typeof errorOfAnswer> {
  const text = decode(bytes)
  let body: unknown = text
  try {
    body = JSON.parse(text)
  } catch {
    // No JSON: its text is shown.
  }
  return errorOfAnswer(answer.status, body, (name) => answer.header(name))
}

function jsonBytes(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value, refuseNumbers))
}

/** JSON would turn them into null, which means something else. */
function refuseNumbers(key: string, value: unknown): unknown {
  if (typeof value === 'number' && !Number.isFinite(value)) throw new InvalidRequestError(`${key || 'a value'} is ${value}, not a number`)
  return value
}

function targetOf(path: string, query: Query | undefined): string {
  const pairs: string[] = []
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value === undefined) continue
    for (const one of Array.isArray(value) ? value : [value]) pairs.push(`${percent(name)}=${percent(String(one))}`)
  }
  if (!pairs.length) return path
  return `${path}${path.includes('?') ? '&' : '?'}${pairs.join('&')}`
}

function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

const defaults = new Map<string, Client>()

/** The client that is used where none is given: one for each server of the environment. */
export function defaultClient(): Client {
  const names = ['PADDOCK_URL', 'PADDOCK_TOKEN', 'PADDOCK_STATE_DIR', 'XDG_RUNTIME_DIR']
  const key = JSON.stringify(names.map((name) => environment(name) ?? null))
  let client = defaults.get(key)
  if (!client) defaults.set(key, (client = new Client()))
  return client
}
