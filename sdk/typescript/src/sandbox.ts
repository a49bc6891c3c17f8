/// <reference lib="esnext.disposable" preserve="true" />
/** A sandbox, from its creation to its end. */

import { Commands, secondsOf, toItsEnd } from './commands.js'
import { defaultClient, LONG_PATIENCE_MS, type CallOptions, type Client, type ServerOptions } from './client.js'
import { Contexts } from './contexts.js'
import {
  changedSecretsOf, checkNames, createBody, idleOf, limitsOf, listOf, portsOf, type CreateOptions, type Limits, type NetworkRules, type PortSettings,
  type Secret, type SecretLayer,
} from './create.js'
import { errorsInTheirPlaces, InvalidRequestError, SandboxEndedError, SandboxNotFoundError, type PaddockError } from './errors.js'
import { Files } from './files.js'
import {
  parseChange, parseExecution, parseMergeReport, parseNetwork, parsePortRight, parseSample, parseSandbox, parseSnapshot, parseUsage,
  type Change, type CodeContext, type CommandResult, type Execution, type IdleAction, type MergeReport, type Network, type PortRight, type SandboxInfo,
  type SandboxState, type Snapshot, type UnderPressure, type Usage, type UsageSample,
} from './models.js'
import { hasCallbacks, type CodeCallbacks } from './output.js'
import { Process } from './process.js'
import { call, pages, request, type Loose, type Schemas } from './routes.js'
import { segment } from './segment.js'
import { Tools } from './tools.js'
import { checkAborted, orUndone } from './wire.js'

export interface ListOptions extends ServerOptions {
  state?: SandboxState | undefined
  name?: string | undefined
  template?: string | undefined
  metadata?: Readonly<Record<string, string>> | undefined
  createdAfter?: Date | undefined
  /** Default: the newest first. */
  oldestFirst?: boolean | undefined
  pageSize?: number | undefined
}

export interface RunCodeOptions extends CallOptions, CodeCallbacks {
  /** `python` (default), `javascript`, `typescript`, `bash`, or a language of the template; `sh` remembers nothing. */
  language?: string | undefined
  /** Default: the default one of the language. */
  context?: string | CodeContext | undefined
  env?: Readonly<Record<string, string>> | undefined
  cwd?: string | undefined
  stdin?: string | undefined
  /** Then the code is interrupted; its output comes back. */
  timeoutMs?: number | undefined
}

export interface ForkOptions extends CallOptions {
  ttlMs?: number | undefined
  metadata?: Readonly<Record<string, string>> | undefined
  /** The forks have its secrets too. Default: none of them. */
  secrets?: boolean | undefined
  /** `true` throws where a context cannot go along as it stands, `false` leaves all of them out. */
  live?: boolean | undefined
}

export interface PartialForkOptions extends ForkOptions {
  /** Each is made or fails by itself, and none waits for room. */
  partial: true
}

export type Since = 'start' | 'snapshot' | 'parent'

export interface UpdateOptions extends CallOptions {
  /** Replaced as a whole, as is `env`. */
  metadata?: Readonly<Record<string, string>> | undefined
  env?: Readonly<Record<string, string>> | undefined
  idleMs?: number | undefined
  idleAction?: IdleAction | undefined
  persistent?: boolean | undefined
  underPressure?: UnderPressure | undefined
  limits?: Limits | undefined
  cwd?: string | undefined
  user?: string | undefined
  /** Other rules in the place of the present ones; forbidden connections are cut. */
  network?: NetworkRules | undefined
  /** These settings take the place of the present ones: `{ public: [] }` closes the ports, and cuts the connections of visitors. */
  ports?: PortSettings | undefined
  /** With `network`: adds and replaces secrets with `inject`, and removes those that are null. Others stay. */
  secrets?: Readonly<Record<string, Secret | null>> | undefined
}

export interface HibernateOptions extends CallOptions {
  /**
   * Whether its memory is kept, so that it goes on where it stood. Default: where the backend keeps memory. `true`: it is an error where
   * the backend does not. `false`: the files alone are kept.
   */
  memory?: boolean | undefined
  /** Its time to live while it sleeps; awake it has what is left of the present one. */
  ttlMs?: number | undefined
}

export interface PauseOptions extends CallOptions {
  /** Its time to live while it is paused; resumed it has what is left of the present one. */
  ttlMs?: number | undefined
  /** The next request that needs its processes resumes it. */
  autoResume?: boolean | undefined
}

export interface ResumeOptions extends CallOptions {
  /** Its time to live from then on. */
  ttlMs?: number | undefined
}

export interface SnapshotOptions extends CallOptions {
  /** As of `hibernate`. */
  memory?: boolean | undefined
  name?: string | undefined
  live?: boolean | undefined
}

const UPDATES: ReadonlySet<string> = new Set([
  'metadata', 'env', 'idleMs', 'idleAction', 'persistent', 'underPressure', 'limits', 'cwd', 'user', 'network', 'ports', 'secrets', 'signal',
])

/**
 * A place to run code that nobody has read. Made by `create`, found again by `connect`. With `await using` it is killed at the end
 * of the block, also when an exception passes, unless it is persistent.
 */
export class Sandbox implements AsyncDisposable {
  readonly id: string
  readonly commands: Commands
  readonly files: Files
  /** Interpreters inside that remember. */
  readonly contexts: Contexts
  readonly client: Client
  readonly #at: { readonly id: string }
  #info: SandboxInfo
  #tools: Tools | undefined

  /** Use `Sandbox.create` or `Sandbox.connect`. */
  constructor(client: Client, info: SandboxInfo) {
    this.client = client
    this.id = info.id
    this.#info = info
    this.#at = { id: info.id }
    this.commands = new Commands(client, info.id)
    this.files = new Files(client, info.id)
    this.contexts = new Contexts(client, info.id)
  }

  /** A new sandbox, ready to run something. */
  static async create(options: CreateOptions & ServerOptions = {}): Promise<Sandbox> {
    const client = options.client ?? defaultClient()
    const json = await createBody(options)
    const create = async (): Promise<Sandbox> => {
      const made = await call(client, 'POST /v1/sandboxes', { json, idempotent: true, patienceMs: LONG_PATIENCE_MS })
      return new Sandbox(client, parseSandbox(made))
    }
    // A create that is aborted leaves no sandbox behind.
    return orUndone(create, options.signal, (made) => made.kill())
  }

  /** A sandbox that exists, in any state. */
  static async connect(idOrName: string, options: ServerOptions = {}): Promise<Sandbox> {
    const client = options.client ?? defaultClient()
    const found = await call(client, 'GET /v1/sandboxes/{id}', { at: { id: idOrName }, signal: options.signal })
    return new Sandbox(client, parseSandbox(found))
  }

  /** All sandboxes that fit; those that ended within a day only with `state: 'ended'`. Asks for page after page. */
  static async *list(options: ListOptions = {}): AsyncGenerator<Sandbox> {
    const client = options.client ?? defaultClient()
    const metadata = Object.entries(options.metadata ?? {}).map(([key, value]) => `${key}=${value}`)
    const { state, name, template, pageSize: limit, oldestFirst, signal } = options
    const found = pages(client, 'GET /v1/sandboxes', 'sandboxes', {
      query: {
        state: state === undefined ? undefined : [state], name, template, limit, metadata, order: oldestFirst ? 'asc' : undefined,
        created_after_ms: options.createdAfter?.getTime(),
      },
      signal,
    })
    for await (const body of found) {
      yield new Sandbox(client, parseSandbox(body))
    }
  }

  /** As the server last described it; `info()` asks. */
  get lastInfo(): SandboxInfo {
    return this.#info
  }

  get name(): string | undefined {
    return this.#info.name
  }

  get state(): SandboxState {
    return this.#info.state
  }

  /** This sandbox as tools of a model. */
  get tools(): Tools {
    this.#tools ??= new Tools(this)
    return this.#tools
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#info.persistent) return
    try {
      await this.kill()
    } catch (error) {
      if (!(error instanceof SandboxNotFoundError) && !(error instanceof SandboxEndedError)) throw error
    }
  }

  /** Asks the server for its state now. */
  async info(options: CallOptions = {}): Promise<SandboxInfo> {
    return this.#take(call(this.client, 'GET /v1/sandboxes/{id}', { at: this.#at, signal: options.signal }))
  }

  /**
   * Runs code in a context, which remembers earlier calls. An exception of the code is not thrown here: it is the `error` of the
   * answer. When the signal is aborted, the code is interrupted.
   */
  async runCode(code: string, options: RunCodeOptions = {}): Promise<Execution> {
    checkAborted(options.signal)
    const json: RunCode = {
      code,
      language: options.language,
      context: typeof options.context === 'object' ? options.context.id : options.context,
      env: options.env,
      cwd: options.cwd,
      stdin: options.stdin,
      timeout_seconds: secondsOf('timeoutMs', options.timeoutMs),
    }
    if (hasCallbacks(options) || options.signal) return asExecution(await toItsEnd(this.#startCode(json), options))
    // The server answers when the code has ended: only the code's own time limit counts.
    const ran = await call(this.client, 'POST /v1/sandboxes/{id}/code', { at: this.#at, json, idempotent: true, patienceMs: null })
    if (ran.state === 'ended') return parseExecution(ran)
    return asExecution(await new Process(this.client, this.id, ran.exec).wait())
  }

  /** It ends so long from now instead. */
  async extend(ttlMs: number, options: CallOptions = {}): Promise<SandboxInfo> {
    return this.#take(call(this.client, 'POST /v1/sandboxes/{id}/extend', {
      at: this.#at, json: { ttl_seconds: secondsOf('ttlMs', ttlMs) }, repeatable: true, signal: options.signal,
    }))
  }

  /** Freezes it: no processor time, memory kept. */
  async pause(options: PauseOptions = {}): Promise<SandboxInfo> {
    const json = { ttl_seconds: secondsOf('ttlMs', options.ttlMs), auto_resume: options.autoResume }
    return this.#take(call(this.client, 'POST /v1/sandboxes/{id}/pause', { at: this.#at, json: unlessEmpty(json), signal: options.signal }))
  }

  async resume(options: ResumeOptions = {}): Promise<SandboxInfo> {
    const json = { ttl_seconds: secondsOf('ttlMs', options.ttlMs) }
    return this.#take(call(this.client, 'POST /v1/sandboxes/{id}/resume', { at: this.#at, json: unlessEmpty(json), signal: options.signal }))
  }

  /** Ends its processes and frees its memory; files stay, and any request wakes it. */
  async hibernate(options: HibernateOptions = {}): Promise<SandboxInfo> {
    const json = { memory: options.memory, ttl_seconds: secondsOf('ttlMs', options.ttlMs) }
    return this.#take(call(this.client, 'POST /v1/sandboxes/{id}/hibernate', { json: unlessEmpty(json), ...this.#patient(options) }))
  }

  async wake(options: ResumeOptions = {}): Promise<SandboxInfo> {
    const json = { ttl_seconds: secondsOf('ttlMs', options.ttlMs) }
    return this.#take(call(this.client, 'POST /v1/sandboxes/{id}/wake', { json: unlessEmpty(json), ...this.#patient(options) }))
  }

  /** Keeps its files, and if `live` its code contexts, in memory; `Sandbox.create({snapshot})` begins with it. */
  async snapshot(options: SnapshotOptions = {}): Promise<Snapshot> {
    return parseSnapshot(await call(this.client, 'POST /v1/sandboxes/{id}/snapshots', {
      json: { name: options.name, live: options.live || undefined, memory: options.memory }, ...this.#patient(options),
    }))
  }

  /**
   * New sandboxes that begin with the state of this one, which goes on running: its files, and the Python and bash contexts that can
   * be forked as they stand; others begin anew. `fork()` is one sandbox; `fork(3)` is a list of three. 100 at most. All are made or none;
   * with `partial` the list has an error in the place of each that was not made.
   */
  async fork(options?: ForkOptions): Promise<Sandbox>
  async fork(count: number, options: PartialForkOptions): Promise<(Sandbox | PaddockError)[]>
  async fork(count: number, options?: ForkOptions): Promise<Sandbox[]>
  async fork(
    first: number | ForkOptions = {}, second: ForkOptions & { partial?: boolean | undefined } = {},
  ): Promise<Sandbox | (Sandbox | PaddockError)[]> {
    const count = typeof first === 'number' ? first : undefined
    const options: ForkOptions & { partial?: boolean | undefined } = typeof first === 'number' ? second : first
    if (options.partial && count === undefined) {
      throw new InvalidRequestError('partial is for several forks', { hint: 'say how many: fork(3, { partial: true })' })
    }
    const json: Loose<Schemas['Fork']> = {
      count,
      ttl_seconds: secondsOf('ttlMs', options.ttlMs),
      metadata: options.metadata,
      secrets: options.secrets || undefined,
      live: options.live,
      partial: options.partial || undefined,
    }
    const fork = async (): Promise<(Sandbox | PaddockError)[]> => {
      const asked = { at: this.#at, json, idempotent: true, patienceMs: LONG_PATIENCE_MS }
      const forked = await call(this.client, 'POST /v1/sandboxes/{id}/fork', asked)
      const made = forked.sandboxes.map((item) => new Sandbox(this.client, parseSandbox(item)))
      return errorsInTheirPlaces(made, forked.failed ?? [])
    }
    const undo = (made: (Sandbox | PaddockError)[]): Promise<unknown> =>
      Promise.all(made.map((child) => child instanceof Sandbox ? child.kill() : undefined))
    const children = await orUndone(fork, options.signal, undo)
    return count === undefined ? (children[0] as Sandbox) : children
  }

  /** Its changes since its `start` (default), its `snapshot` or its `parent`, sorted by path. */
  async changes(options: CallOptions & { since?: Since | undefined } = {}): Promise<Change[]> {
    const { since = 'start' } = options
    const body = await call(this.client, 'GET /v1/sandboxes/{id}/changes', { query: { since }, ...this.#patient(options) })
    return body.changes.map(parseChange)
  }

  /** The same as a patch for `patch -p1` and `git apply`; binary files are only named in it. */
  async diff(options: CallOptions & { since?: Since | undefined } = {}): Promise<string> {
    const { since = 'start' } = options
    const answer = await request(this.client, 'GET /v1/sandboxes/{id}/changes/patch', { query: { since }, ...this.#patient(options) })
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(answer.bytes)
  }

  /**
   * Brings the changes of a fork into this, its parent: all of them, or only the given paths. Where both changed the same path
   * nothing at all is merged, and `conflicts` says where.
   */
  async merge(from: Sandbox | string, options: CallOptions & { paths?: readonly string[] | undefined } = {}): Promise<MergeReport> {
    return parseMergeReport(await call(this.client, 'POST /v1/sandboxes/{id}/merge', {
      json: { from: typeof from === 'string' ? from : from.id, paths: listOf('paths', options.paths) ?? [] }, ...this.#patient(options),
    }))
  }

  /** The rules of its network, its traffic, and the decisions after number `after`. */
  async network(options: CallOptions & { after?: number | undefined } = {}): Promise<Network> {
    const { after = 0, signal } = options
    return parseNetwork(await call(this.client, 'GET /v1/sandboxes/{id}/network', { at: this.#at, query: { after }, signal }))
  }

  async usage(options: CallOptions = {}): Promise<Usage> {
    return parseUsage(await call(this.client, 'GET /v1/sandboxes/{id}/usage', { at: this.#at, signal: options.signal }))
  }

  /** What it used over the last minutes, the oldest first, and now: a sample every five seconds of work. */
  async metrics(options: CallOptions & { start?: Date | undefined; end?: Date | undefined } = {}): Promise<UsageSample[]> {
    const { start, end, signal } = options
    const body = await call(this.client, 'GET /v1/sandboxes/{id}/metrics', {
      at: this.#at, query: { start_ms: start?.getTime(), end_ms: end?.getTime() }, signal,
    })
    return body.samples.map(parseSample)
  }

  /** Replaces all metadata. */
  async setMetadata(metadata: Readonly<Record<string, string>>, options: CallOptions = {}): Promise<SandboxInfo> {
    return this.update({ metadata, signal: options.signal })
  }

  /** Changes what is given, all of it or nothing. Where a limit cannot be changed while it runs, hibernate it first. */
  async update(options: UpdateOptions): Promise<SandboxInfo> {
    checkNames('update', options, UPDATES)
    const json: Loose<Schemas['UpdateSandbox']> = {
      metadata: options.metadata,
      env: options.env,
      idle: idleOf(options.idleMs, options.idleAction),
      persistent: options.persistent,
      under_pressure: options.underPressure,
      limits: limitsOf(options.limits),
      cwd: options.cwd,
      user: options.user,
      network: options.network,
      ports: portsOf(options.ports),
      // The schema has no word for null within a map.
      secrets: await changedSecretsOf(options.secrets) as Record<string, SecretLayer> | undefined,
    }
    const asked = { at: this.#at, json, repeatable: true, signal: options.signal }
    return this.#take(call(this.client, 'PATCH /v1/sandboxes/{id}', asked))
  }

  /** The address of an HTTP server inside. Requests to it need the token that requests to Paddock need. */
  async portUrl(port: number, path = '/'): Promise<string> {
    return this.client.urlOf(this.#portPath(port, path))
  }

  /**
   * A right to this port and nothing else, for somebody who gets no token, such as a browser or another service. It ends with its
   * time (a day at most; an hour by default), with the sandbox, and with the token that this client has.
   */
  async signPort(port: number, options: CallOptions & { expiresMs?: number | undefined } = {}): Promise<PortRight> {
    const { expiresMs = 3_600_000, signal } = options
    this.#portPath(port, '/')
    const json = { port, expires_seconds: expiresMs / 1000 }
    const signed = await call(this.client, 'POST /v1/sandboxes/{id}/ports/sign', { at: this.#at, json, repeatable: true, signal })
    const { socket, baseUrl } = await this.client.location()
    return parsePortRight(signed, socket === undefined ? baseUrl : undefined)
  }

  /** A request to an HTTP server inside, answered as `fetch` answers; works on a unix socket too. */
  async fetch(port: number, path = '/', init: RequestInit = {}): Promise<Response> {
    return this.client.fetch(this.#portPath(port, path), init)
  }

  /** Makes a version of a volume that it has mounted, while it runs on. */
  async checkpointVolume(volume: string, options: CallOptions = {}): Promise<void> {
    const asked = { ...this.#patient(options), at: { id: this.id, volume } }
    await request(this.client, 'POST /v1/sandboxes/{id}/volumes/{volume}/checkpoint', asked)
  }

  /** Ends it at once. Ending it twice is fine. With `failed` its volumes are treated as their `onFailure` says. */
  async kill(options: CallOptions & { failed?: boolean | undefined } = {}): Promise<SandboxInfo> {
    return this.#take(call(this.client, 'DELETE /v1/sandboxes/{id}', {
      at: this.#at, query: { failed: options.failed || undefined }, repeatable: true, signal: options.signal,
    }))
  }

  #portPath(port: number, path: string): string {
    if (!Number.isInteger(port) || port < 1 || port > 65535) throw new InvalidRequestError(`port ${port} is not between 1 and 65535`)
    // Resolved here, so that no `..` leads from the port to another resource of the server.
    const { pathname, search } = new URL(path.replace(/^\/*/, '/'), 'http://localhost')
    return `/v1/sandboxes/${segment(this.id)}/ports/${port}${pathname}${search}`
  }

  async #startCode(code: RunCode): Promise<Process> {
    const json: RunCode = { ...code, background: true }
    const asked = { at: this.#at, json, idempotent: true, patienceMs: LONG_PATIENCE_MS }
    const started = await call(this.client, 'POST /v1/sandboxes/{id}/code', asked)
    return new Process(this.client, this.id, started.exec)
  }

  #patient({ signal }: CallOptions): { at: { readonly id: string }; patienceMs: number; signal: AbortSignal | undefined } {
    return { at: this.#at, patienceMs: LONG_PATIENCE_MS, signal }
  }

  async #take(answer: Promise<Schemas['Sandbox']>): Promise<SandboxInfo> {
    this.#info = parseSandbox(await answer)
    return this.#info
  }
}

/** A body with something in it, or none: a server that knows no body of this call is asked without. */
function unlessEmpty<T extends object>(body: T): T | undefined {
  return Object.values(body).some((value) => value !== undefined) ? body : undefined
}

type RunCode = Loose<Schemas['RunCode']>

/** The same, of a language without contexts. */
function asExecution(result: CommandResult | Execution): Execution {
  if ('results' in result) return result
  return {
    ...result,
    results: [], error: undefined, text: undefined, context: undefined, contextRestarted: undefined, resultsMissing: 0, findings: [],
    findingsMissing: 0,
  }
}
