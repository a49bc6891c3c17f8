/** Claude Code of the Claude Agent SDK in a sandbox: `query({ prompt, options: { spawnClaudeCodeProcess: inSandbox({ create: { ... } }) } })`. */

import { EventEmitter } from 'node:events'
import { Readable, Writable } from 'node:stream'
import { defaultClient, type Client } from '../client.js'
import type { CreateOptions } from '../create.js'
import { ConnectionFailedError, InvalidRequestError, SandboxEndedError } from '../errors.js'
import { firstLifeMs, Lease, LEASE_MS } from '../leases.js'
import type { CommandResult } from '../models.js'
import type { Process } from '../process.js'
import { Sandbox } from '../sandbox.js'

export interface ClaudeCodeOptions {
  /** Where Claude Code runs; it stays when the conversation ends. Default: a new sandbox, which ends with it. */
  sandbox?: Sandbox | undefined
  /** How a new one is made: a template with Claude Code, limits, ... */
  create?: CreateOptions | undefined
  /**
   * Of a new sandbox: it ends so long after this program, should that be killed. While the program lives, it renews the lease. Null: there is none,
   * and a sandbox whose program was killed stays for the `ttlMs` of `create`. Default: two minutes. A program that stands still for longer, such
   * as one on a computer that sleeps, loses its sandbox.
   */
  leaseMs?: number | null | undefined
  /** The program inside. Default: `claude`, on the path of the sandbox. */
  command?: string | undefined
  /** More variables inside, beside those that the SDK sets. */
  env?: Readonly<Record<string, string>> | undefined
  /** Then Claude Code is killed. */
  timeoutMs?: number | undefined
  onStderr?: ((text: string) => void) | undefined
  /** Default: the server of the environment, started if need be. */
  client?: Client | undefined
}

/** `SpawnOptions` of the SDK, which brings 240 MB of Claude Code along and is no dependency for that. */
export interface SpawnRequest {
  command: string
  args: string[]
  cwd?: string
  env: Record<string, string | undefined>
  signal: AbortSignal
}

/** Variables that hold a key: they are bound to the host of the model, and never handed in as they are. */
const KEYS = ['ANTHROPIC_API_KEY', 'ANTHROPIC_AUTH_TOKEN', 'CLAUDE_CODE_OAUTH_TOKEN']
const MODEL_URL = 'https://api.anthropic.com'
/** The whole life of a sandbox, where `create` says no other. */
const DEFAULT_TTL_MS = 3_600_000
/** Exit code of a command after its time limit, as in a shell. */
const TIMED_OUT = 124

/** The value of the option `spawnClaudeCodeProcess`. */
export function inSandbox(options: ClaudeCodeOptions = {}): (asked: SpawnRequest) => ClaudeCodeProcess {
  if (options.sandbox && options.create) throw new InvalidRequestError('give either the sandbox, or how to create one')
  if (options.create?.persistent) {
    const hint = 'make it with Sandbox.create, and give it as `sandbox`'
    throw new InvalidRequestError('`persistent` would leave the sandbox behind when this program is killed', { hint })
  }
  return (asked) => new ClaudeCodeProcess(options, asked)
}

/** Claude Code as the SDK sees it: a `SpawnedProcess`. */
export class ClaudeCodeProcess extends EventEmitter {
  readonly stdin: Writable
  readonly stdout: Readable
  killed = false
  exitCode: number | null = null
  readonly signalCode: NodeJS.Signals | null = null
  /** The sandbox, once it is there. */
  sandbox: Sandbox | undefined
  readonly #options: ClaudeCodeOptions
  readonly #started: Promise<Process>
  #lease: Lease | undefined
  #wanted: () => void = () => {}

  constructor(options: ClaudeCodeOptions, asked: SpawnRequest) {
    super()
    this.#options = options
    this.#started = this.#start(asked)
    this.stdin = new Writable({
      write: (chunk: Uint8Array, _encoding, done) => void this.#started.then((process) => process.writeStdin(chunk)).then(() => done(), done),
      // A program that has ended needs no end of its input.
      final: (done) => void this.#started.then((process) => process.closeStdin()).then(() => done(), () => done()),
    })
    this.stdout = new Readable({ read: () => this.#wanted() })
    asked.signal.addEventListener('abort', () => this.kill('SIGTERM'), { once: true })
    void this.#follow()
  }

  kill(signal: NodeJS.Signals): boolean {
    if (this.exitCode !== null) return false
    this.killed = true
    void this.#started.then((process) => (signal === 'SIGKILL' ? process.kill() : process.signal(signal))).catch(() => {})
    return true
  }

  async #start(asked: SpawnRequest): Promise<Process> {
    const { env, secrets } = variables(asked, this.#options)
    this.sandbox = this.#options.sandbox ?? (await this.#create(secrets))
    const process = await this.sandbox.commands.start([this.#options.command ?? 'claude', ...words(asked)], {
      env, cwd: directory(asked), timeoutMs: this.#options.timeoutMs,
    })
    if (this.killed) await process.kill()
    return process
  }

  async #create(secrets: CreateOptions['secrets']): Promise<Sandbox> {
    const asked = creation(this.#options, secrets)
    // A sandbox that sleeps at the end of its time is to be found again.
    const leaseMs = (asked.ttlAction ?? 'kill') === 'kill' ? this.#options.leaseMs === undefined ? LEASE_MS : this.#options.leaseMs : null
    const sandbox = await Sandbox.create({ ...asked, ttlMs: firstLifeMs(asked.ttlMs, leaseMs) })
    // It is known from here on, so that it is ended where the lease cannot be had.
    this.sandbox = sandbox
    this.#lease = await Lease.hold(sandbox, asked.ttlMs, leaseMs)
    return sandbox
  }

  /** Hands the output on until the end; then there is no sandbox left that was made for this. */
  async #follow(): Promise<void> {
    let ended: CommandResult | undefined
    let failure: unknown
    try {
      ended = await this.#read(await this.#started)
    } catch (error) {
      failure = error
    }
    this.#lease?.end()
    if (!this.#options.sandbox) await this.sandbox?.kill().catch(() => {})
    this.exitCode = ended?.exitCode ?? 1
    this.stdout.push(null)
    if (ended) this.emit('exit', this.exitCode, null)
    else this.emit('error', failure)
  }

  async #read(process: Process): Promise<CommandResult> {
    for await (const event of process.stream()) {
      if (event.type === 'output' && event.stream === 'stderr') this.#options.onStderr?.(event.text)
      else if (event.type === 'output') await this.#hand(event.data)
      else if (event.type === 'gap' && event.stream === 'stdout') throw new ConnectionFailedError(`${event.bytes} bytes of Claude Code's messages were lost`)
      else if (event.type === 'ended') return this.#judged(event.result)
    }
    throw new ConnectionFailedError('the output of Claude Code broke off')
  }

  #judged(result: CommandResult): CommandResult {
    const { kind, details } = result.cause
    if (kind === 'sandbox_ended' || kind === 'guest_lost') throw new SandboxEndedError('the sandbox of Claude Code ended')
    if (kind === 'not_started') throw new InvalidRequestError(`Claude Code does not start in the sandbox: ${String(details['detail'] ?? kind)}`)
    if (result.exitCode === TIMED_OUT && result.timedOut) this.#options.onStderr?.(`killed after its time limit of ${this.#options.timeoutMs} ms\n`)
    return result
  }

  async #hand(data: Uint8Array): Promise<void> {
    const wanted = new Promise<void>((resolve) => {
      this.#wanted = resolve
    })
    if (!this.stdout.push(data)) await wanted
  }
}

function creation(options: ClaudeCodeOptions, secrets: CreateOptions['secrets']): CreateOptions & { client: Client; ttlMs: number } {
  const create = options.create ?? {}
  const metadata = { framework: 'claude-agent-sdk', ...create.metadata }
  return { ...create, ttlMs: create.ttlMs ?? DEFAULT_TTL_MS, secrets: create.secrets ?? secrets, metadata, client: options.client ?? defaultClient() }
}

/** Those that the host has too stay outside, since keys are among them; the rest was set for Claude Code. */
function variables(asked: SpawnRequest, options: ClaudeCodeOptions): { env: Record<string, string>; secrets: CreateOptions['secrets'] } {
  const env: Record<string, string> = { ...options.env }
  for (const [name, value] of Object.entries(asked.env)) {
    if (value !== undefined && value !== process.env[name]) env[name] ??= value
  }
  const base = asked.env['ANTHROPIC_BASE_URL']
  if (base) env['ANTHROPIC_BASE_URL'] ??= base
  const given = KEYS.filter((name) => name in env)
  if (given.length > 0) {
    const hint = 'set it in the environment of this program, or give `secrets` in `create`, and it stays at the gate'
    throw new InvalidRequestError(`env would carry ${given.join(', ')} into the sandbox`, { hint })
  }
  const hosts = [new URL(env['ANTHROPIC_BASE_URL'] ?? MODEL_URL).host]
  const here = KEYS.filter((name) => process.env[name])
  return { env, secrets: Object.fromEntries(here.map((name) => [name, { from: `env:${name}`, hosts }])) }
}

/** Its arguments, without the script where the SDK would start it by an interpreter of the host. */
function words(asked: SpawnRequest): string[] {
  if (!/(^|\/)(node|bun|deno)$/.test(asked.command)) return asked.args
  return asked.args.slice(asked.args.findIndex((word) => !word.startsWith('-')) + 1)
}

/** A directory inside. The SDK names the one of this program where none was asked for. */
function directory(asked: SpawnRequest): string | undefined {
  return asked.cwd === process.cwd() ? undefined : asked.cwd
}
