/** Commands of a sandbox: in the foreground, in the background, on a terminal. */

import type { Data } from './bytes.js'
import { LONG_PATIENCE_MS, type CallOptions, type Client } from './client.js'
import { InvalidRequestError, PaddockError } from './errors.js'
import { parseResult, type CommandResult, type Execution } from './models.js'
import { hasCallbacks, type CodeCallbacks, type OutputCallbacks } from './output.js'
import { Process } from './process.js'
import { call, type Loose, type Schemas } from './routes.js'
import { checkAborted } from './wire.js'

/** Text for `/bin/sh -c`, or a list of arguments. */
export type Command = string | readonly string[]

/** More than this of standard input does not belong into the body of a request. */
const LARGEST_INLINE_INPUT = 1 << 18

export interface CommandOptions extends CallOptions {
  env?: Readonly<Record<string, string>> | undefined
  cwd?: string | undefined
  user?: string | undefined
  /** All of its input. Without it the command reads nothing. */
  stdin?: Data | undefined
  /** Then the command and all that it started are killed; `timedOut` says so, and its output is there. */
  timeoutMs?: number | undefined
}

export interface RunOptions extends CommandOptions, OutputCallbacks {}

export interface StartOptions extends CommandOptions {
  /** Keep its input open for `writeStdin`. Default: where no `stdin` is given. */
  openStdin?: boolean | undefined
  /** Run it on a terminal, with stdout and stderr as one stream. */
  terminal?: boolean | TerminalSize | undefined
}

export interface TerminalSize {
  rows: number
  columns: number
}

export interface PtyOptions extends CallOptions, Partial<TerminalSize> {
  /** Default: a login shell, `/bin/sh -l`. */
  command?: Command | undefined
  env?: Readonly<Record<string, string>> | undefined
  cwd?: string | undefined
  user?: string | undefined
  timeoutMs?: number | undefined
}

/** The commands of one sandbox. */
export class Commands {
  readonly #client: Client
  readonly #sandbox: string

  constructor(client: Client, sandbox: string) {
    this.#client = client
    this.#sandbox = sandbox
  }

  /**
   * Runs a command to its end. One that fails is no exception: look at `exitCode`, `ok` and `cause`. When the signal is aborted,
   * the command is killed.
   */
  async run(command: Command, options: RunOptions = {}): Promise<CommandResult> {
    checkAborted(options.signal)
    if (hasCallbacks(options) || options.signal || !isInline(options.stdin)) {
      return toItsEnd(this.#start(command, { ...options, openStdin: false }), options)
    }
    const json: StartBody = { ...startBody(command, options), stdin: options.stdin }
    // The server answers when the command has ended: only the command's own time limit counts.
    const asked = { at: { id: this.#sandbox }, json, idempotent: true, patienceMs: null }
    const started = await call(this.#client, 'POST /v1/sandboxes/{id}/execs', asked)
    if (started.state === 'ended') return parseResult(started)
    return this.connect(started.exec).wait()
  }

  /** Starts a command and returns at once. */
  async start(command: Command, options: StartOptions = {}): Promise<Process> {
    checkAborted(options.signal)
    return this.#start(command, options)
  }

  /** Starts a shell, or another command, on a terminal. Read it by `for await`, write to it by `writeStdin`. */
  async pty(options: PtyOptions = {}): Promise<Process> {
    const { command = ['/bin/sh', '-l'], rows = 24, columns = 80, ...rest } = options
    return this.start(command, { ...rest, env: { TERM: 'xterm-256color', ...options.env }, terminal: { rows, columns } })
  }

  /** A command that was started before, by its number; from another program too. */
  connect(exec: number): Process {
    if (!Number.isSafeInteger(exec) || exec < 0) throw new InvalidRequestError(`${String(exec)} is no number of a command`)
    return new Process(this.#client, this.#sandbox, exec)
  }

  /** All commands, running and ended. */
  async list(options: CallOptions = {}): Promise<Process[]> {
    const body = await call(this.#client, 'GET /v1/sandboxes/{id}/execs', { at: { id: this.#sandbox }, signal: options.signal })
    return body.execs.map(({ exec }) => this.connect(exec))
  }

  async #start(command: Command, options: StartOptions): Promise<Process> {
    const openStdin = options.openStdin ?? options.stdin === undefined
    const streamed = isInline(options.stdin) ? undefined : options.stdin
    const more: StartBody = {
      stdin: isInline(options.stdin) ? options.stdin : undefined,
      open_stdin: openStdin || streamed !== undefined || undefined,
      terminal: terminalSize(options.terminal),
      background: true,
    }
    // Not ended by the signal: a command that began needs its number, by which it is killed.
    const json: StartBody = { ...startBody(command, options), ...more }
    const asked = { at: { id: this.#sandbox }, json, idempotent: true, patienceMs: LONG_PATIENCE_MS }
    const started = await call(this.#client, 'POST /v1/sandboxes/{id}/execs', asked)
    const process = new Process(this.#client, this.#sandbox, started.exec, 0)
    if (streamed !== undefined) await feed(process, streamed, options)
    return process
  }
}

/** Waits for a process, with callbacks. Nobody waits for it any more after a failure or an abort, so it is killed then. */
export async function toItsEnd(
  starting: Promise<Process>, options: CallOptions & CodeCallbacks,
): Promise<CommandResult | Execution> {
  const { signal } = options
  let aborted: (() => void) | undefined
  const abort = new Promise<never>((_, reject) => {
    aborted = () => reject(signal?.reason)
    signal?.addEventListener('abort', aborted, { once: true })
  })
  abort.catch(() => {})
  try {
    return await Promise.race([abort, followed(starting, options)])
  } catch (error) {
    const killing = starting.then((process) => process.kill())
    // The error of the caller counts; the sandbox's time to live ends what could not be killed.
    if (signal?.aborted) killing.catch(() => {})
    else await killing.catch(() => {})
    throw error
  } finally {
    if (aborted) signal?.removeEventListener('abort', aborted)
  }
}

async function followed(starting: Promise<Process>, options: CallOptions & CodeCallbacks): Promise<CommandResult | Execution> {
  const { onStdout, onStderr, onResult, onError, signal } = options
  return (await starting).wait({ onStdout, onStderr, onResult, onError, signal })
}

/** All of its input. A command that ends before it has read all is no failure. */
async function feed(process: Process, stdin: Data, options: CallOptions): Promise<void> {
  try {
    await process.writeStdin(stdin, { signal: options.signal })
    await process.closeStdin({ signal: options.signal })
  } catch (error) {
    if (!(error instanceof PaddockError) || !(await process.poll())) {
      await process.kill().catch(() => {})
      throw error
    }
  }
}

function isInline(stdin: Data | undefined): stdin is string | undefined {
  return stdin === undefined || (typeof stdin === 'string' && stdin.length <= LARGEST_INLINE_INPUT)
}

type StartBody = Loose<Schemas['StartExec']>

function startBody(command: Command, options: CommandOptions): StartBody {
  if (typeof command !== 'string' && !Array.isArray(command)) {
    throw new InvalidRequestError(`the command is ${typeof command}, not text or a list of arguments`)
  }
  return {
    command: typeof command === 'string' ? command : undefined,
    argv: typeof command === 'string' ? undefined : [...command],
    env: options.env,
    cwd: options.cwd,
    user: options.user,
    timeout_seconds: secondsOf('timeoutMs', options.timeoutMs),
  }
}

function terminalSize(terminal: StartOptions['terminal']): TerminalSize | undefined {
  if (!terminal) return undefined
  return terminal === true ? { rows: 24, columns: 80 } : { rows: terminal.rows, columns: terminal.columns }
}

/** The API counts in seconds. */
export function secondsOf(name: string, ms: number): number
export function secondsOf(name: string, ms: number | undefined): number | undefined
export function secondsOf(name: string, ms: number | undefined): number | undefined {
  if (ms === undefined) return undefined
  if (typeof ms !== 'number' || !Number.isFinite(ms)) throw new InvalidRequestError(`${name} is ${String(ms)}, not a number of milliseconds`)
  return ms / 1000
}
