/** A command that runs in a sandbox, seen from outside. */

import { bodyOf, concat, encode, type Data } from './bytes.js'
import { LONG_PATIENCE_MS, type CallOptions, type Client } from './client.js'
import { ConnectionFailedError, InvalidRequestError, UnavailableError, WaitTimeoutError } from './errors.js'
import { parseExecution, parseResult, type CommandResult, type Execution } from './models.js'
import { Dispatcher, hasCallbacks, Position, type CodeCallbacks, type OutputEvent, type StreamName } from './output.js'
import { pauseMs, sleep } from './retrying.js'
import { call, lines, request, type Schemas } from './routes.js'
import { checkAborted, WireError } from './wire.js'

/** The server answers a wait at the latest after this, and says a word on a silent stream every 15 s. */
const WAIT_SLICE_MS = 30_000
const SILENCE_MS = 45_000

export interface WaitOptions extends CallOptions, CodeCallbacks {
  /** Then `WaitTimeoutError` is thrown, and the command runs on. */
  timeoutMs?: number | undefined
}

export interface StreamOptions extends CallOptions {
  stdoutOffset?: number | undefined
  stderrOffset?: number | undefined
}

/** A background command. It goes on whatever happens to this object, and `sandbox.commands.connect` finds it again. */
export class Process implements AsyncIterable<OutputEvent> {
  /** Id of the sandbox, and the command's number in it. */
  readonly sandboxId: string
  readonly exec: number
  readonly #client: Client
  #stdinOffset: number | undefined
  #stdinTurn: Promise<unknown> = Promise.resolve()

  constructor(client: Client, sandboxId: string, exec: number, stdinOffset?: number) {
    this.#client = client
    this.sandboxId = sandboxId
    this.exec = exec
    this.#stdinOffset = stdinOffset
  }

  /** The result if it has ended, else undefined; does not wait. */
  async poll(options: CallOptions = {}): Promise<CommandResult | Execution | undefined> {
    return resultOf(await this.#now(options))
  }

  /** The result, once it has ended. Output so far and to come goes to the callbacks. */
  async wait(options: WaitOptions = {}): Promise<CommandResult | Execution> {
    const { timeoutMs, signal } = options
    if (hasCallbacks(options)) {
      if (timeoutMs !== undefined) {
        throw new InvalidRequestError('wait takes either timeoutMs or callbacks', { hint: 'give a signal: AbortSignal.timeout(ms)' })
      }
      return this.#follow(options)
    }
    const deadline = timeoutMs === undefined ? Number.POSITIVE_INFINITY : Date.now() + timeoutMs
    while (true) {
      const left = Math.max(0, Math.min(WAIT_SLICE_MS, deadline - Date.now()))
      const answer = await call(this.#client, 'GET /v1/sandboxes/{id}/execs/{exec}/wait', {
        at: this.#at, query: { timeout_seconds: Math.round(left) / 1000 }, patienceMs: left + SILENCE_MS, signal,
      })
      const result = resultOf(answer)
      if (result) return result
      if (Date.now() >= deadline) {
        throw new WaitTimeoutError(`command ${this.exec} of ${this.sandboxId} still runs after ${timeoutMs} ms`, {
          hint: 'wait again, or kill() it; a time limit of its own is the timeoutMs of its start',
        })
      }
    }
  }

  [Symbol.asyncIterator](): AsyncIterator<OutputEvent> {
    return this.stream()
  }

  /**
   * Output in the order in which it was printed, from the given offsets on, until `ended`. A lost connection, also by a restart
   * of the server, is taken up exactly where it was: no byte is missing and none comes twice. Bytes that the server did not keep
   * are told as a `gap`.
   */
  async *stream(options: StreamOptions = {}): AsyncGenerator<OutputEvent> {
    const position = new Position(options.stdoutOffset, options.stderrOffset)
    let failures = 0
    while (true) {
      let lost: unknown = new ConnectionFailedError(`the output of command ${this.exec} of ${this.sandboxId} broke off`)
      try {
        const asked = { at: this.#at, query: position.query, patienceMs: SILENCE_MS, signal: options.signal }
        for await (const line of lines(this.#client, 'GET /v1/sandboxes/{id}/execs/{exec}/output', asked)) {
          failures = 0
          const event = position.take(line)
          if (event) yield event
          if (position.ended) return
        }
      } catch (error) {
        if (!(error instanceof WireError) && !(error instanceof UnavailableError)) throw error
        lost = error
      }
      checkAborted(options.signal)
      if (failures >= this.#client.retry.retries) throw await this.#client.connectionFailed(lost)
      await sleep(pauseMs(this.#client.retry, failures++), options.signal)
    }
  }

  /** The exact bytes that were printed so far, from `offset` on. Bytes in the middle that were not kept are left out. */
  async outputBytes(stream: StreamName = 'stdout', options: CallOptions & { offset?: number | undefined } = {}): Promise<Uint8Array> {
    if (stream !== 'stdout' && stream !== 'stderr') throw new InvalidRequestError(`stream is '${String(stream)}', not 'stdout' or 'stderr'`)
    const { signal } = options
    const printed = (await this.#now({ signal }))[`${stream}_bytes`]
    const pieces: Uint8Array[] = []
    for (let offset = options.offset ?? 0; offset < printed; ) {
      // An answer ends where something is missing; the next one begins behind it.
      const answer = await request(this.#client, `GET /v1/sandboxes/{id}/execs/{exec}/${stream}`, {
        at: this.#at, query: { offset, follow: false }, signal, patienceMs: LONG_PATIENCE_MS,
      })
      if (answer.bytes.length === 0) break
      pieces.push(answer.bytes)
      offset = Number(answer.header('x-paddock-offset') ?? offset) + answer.bytes.length
    }
    return concat(pieces)
  }

  /** Ends it, and all that it started, at once. Nothing happens if it has ended already. */
  async kill(options: CallOptions = {}): Promise<void> {
    const asked = { at: this.#at, repeatable: true, signal: options.signal }
    await request(this.#client, 'DELETE /v1/sandboxes/{id}/execs/{exec}', asked)
  }

  /** `TERM`, `SIGINT`, 10, ... */
  async signal(signal: string | number, options: CallOptions = {}): Promise<void> {
    await request(this.#client, 'POST /v1/sandboxes/{id}/execs/{exec}/signal', {
      at: this.#at, json: { signal: String(signal) }, signal: options.signal,
    })
  }

  /** Hands bytes to the command; they arrive once, also when the connection is lost meanwhile. */
  async writeStdin(data: Data, options: CallOptions = {}): Promise<void> {
    const body = typeof data === 'string' ? encode(data) : bodyOf(data).make()
    if (body instanceof Uint8Array) return this.#send(body, false, options)
    for await (const piece of body) await this.#send(piece, false, options)
  }

  /** The command sees the end of its input. */
  async closeStdin(options: CallOptions = {}): Promise<void> {
    await this.#send(new Uint8Array(0), true, options)
  }

  /** Of the command's terminal. */
  async resize(size: { rows: number; columns: number }, options: CallOptions = {}): Promise<void> {
    const { rows, columns } = size
    await request(this.#client, 'POST /v1/sandboxes/{id}/execs/{exec}/resize', {
      at: this.#at, json: { rows, columns }, repeatable: true, signal: options.signal,
    })
  }

  get #at(): { id: string; exec: number } {
    return { id: this.sandboxId, exec: this.exec }
  }

  async #now(options: CallOptions): Promise<Schemas['Exec']> {
    return call(this.#client, 'GET /v1/sandboxes/{id}/execs/{exec}', { at: this.#at, signal: options.signal })
  }

  /** Follows it to its end. */
  async #follow(options: CallOptions & CodeCallbacks): Promise<CommandResult | Execution> {
    const dispatcher = new Dispatcher(options)
    for await (const event of this.stream({ signal: options.signal })) await dispatcher.feed(event)
    return (await this.poll({ signal: options.signal })) ?? this.wait({ signal: options.signal })
  }

  /** One piece after the other: its offset in the stream is what makes a second try safe. */
  async #send(data: Uint8Array, close: boolean, options: CallOptions): Promise<void> {
    const turn = this.#stdinTurn.then(() => this.#sendNow(data, close, options))
    this.#stdinTurn = turn.catch(() => {})
    return turn
  }

  async #sendNow(body: Uint8Array, close: boolean, options: CallOptions): Promise<void> {
    const { signal } = options
    const route = 'POST /v1/sandboxes/{id}/execs/{exec}/stdin'
    // Found again: the server knows how much it has.
    this.#stdinOffset ??= (await call(this.#client, route, { at: this.#at, body: new Uint8Array(0), repeatable: true, signal })).offset
    try {
      const received = await call(this.#client, route, {
        at: this.#at,
        query: { offset: this.#stdinOffset, close: close || undefined },
        body,
        repeatable: true,
        // The command takes it when it likes.
        patienceMs: null,
        signal,
      })
      this.#stdinOffset = received.offset
    } catch (error) {
      // Some of it may have arrived: the next write asks how much.
      this.#stdinOffset = undefined
      throw error
    }
  }
}

function resultOf(body: Schemas['Exec']): CommandResult | Execution | undefined {
  if (body.state !== 'ended') return undefined
  // Code in a context has more to say than a command.
  return body.context || body.findings ? parseExecution(body) : parseResult(body)
}
