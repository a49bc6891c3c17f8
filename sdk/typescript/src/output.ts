/** Output of a command, event by event, and the place of a reader in it, so that a lost connection is taken up exactly there. */

import { decode, fromBase64 } from './bytes.js'
import { UnexpectedAnswerError } from './errors.js'
import { parseCodeError, parseCodeResult, parseResult, type CodeError, type CodeResult, type CommandResult } from './models.js'
import type { QueryOf, Schemas } from './routes.js'

export type StreamName = 'stdout' | 'stderr'

export type OutputEvent =
  /** Bytes that a command printed; `offset` is that of the first byte, in its stream. */
  | { readonly type: 'output'; readonly stream: StreamName; readonly offset: number; readonly data: Uint8Array; readonly text: string }
  /** Bytes in the middle that were not kept. */
  | { readonly type: 'gap'; readonly stream: StreamName; readonly offset: number; readonly bytes: number }
  /** Code displayed something, or this is the value of its last expression. */
  | { readonly type: 'result'; readonly result: CodeResult }
  /** Code did not come to its end. */
  | { readonly type: 'error'; readonly error: CodeError }
  /** The last event. `result` is without the output, which the events before it had. */
  | { readonly type: 'ended'; readonly result: CommandResult }

function outputEvent(stream: StreamName, offset: number, data: Uint8Array): OutputEvent {
  return { type: 'output', stream, offset, data, text: decode(data) }
}

/** Undefined for a line that only says that the connection lives, and for kinds of a newer server. */
export function parseOutputLine(line: Uint8Array): OutputEvent | undefined {
  const text = decode(line)
  if (text.trim() === '') return undefined
  try {
    const body: Schemas['OutputEvent'] = JSON.parse(text)
    switch (body.type) {
      case 'output':
        return outputEvent(streamOf(body.stream), numberOf(body.offset), fromBase64(body.data))
      case 'gap':
        return { type: 'gap', stream: streamOf(body.stream), offset: numberOf(body.offset), bytes: numberOf(body.bytes) }
      case 'result':
        return { type: 'result', result: parseCodeResult(body.result) }
      case 'error':
        return { type: 'error', error: parseCodeError(body.error) }
      case 'ended':
        return { type: 'ended', result: parseResult(body.exec) }
      default:
        return undefined
    }
  } catch (error) {
    throw new UnexpectedAnswerError(`a line of output makes no sense: ${JSON.stringify(text.slice(0, 200))}`, { cause: error })
  }
}

function streamOf(value: unknown): StreamName {
  if (value === 'stdout' || value === 'stderr') return value
  throw new TypeError(`output of an unknown stream ${String(value)}`)
}

function numberOf(value: unknown): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
  throw new TypeError(`${String(value)} is no offset`)
}

/** Offsets of the next byte of each stream; `take` turns a line into the part that is new. */
export class Position {
  readonly offsets: Record<StreamName, number>
  #results = 0
  ended = false

  constructor(stdout = 0, stderr = 0) {
    this.offsets = { stdout, stderr }
  }

  get query(): QueryOf<'GET /v1/sandboxes/{id}/execs/{exec}/output'> {
    return {
      stdout_offset: this.offsets.stdout,
      stderr_offset: this.offsets.stderr,
      results_offset: this.#results || undefined,
      follow: true,
    }
  }

  take(line: Uint8Array): OutputEvent | undefined {
    const event = parseOutputLine(line)
    if (event?.type === 'output') return this.#output(event.stream, event.offset, event.data)
    if (event?.type === 'gap') return this.#gap(event.stream, event.offset, event.bytes)
    if (event?.type === 'result' || event?.type === 'error') this.#results++
    if (event?.type === 'ended') this.ended = true
    return event
  }

  #output(stream: StreamName, offset: number, data: Uint8Array): OutputEvent | undefined {
    const known = this.#known(stream, offset)
    const fresh = data.subarray(known - offset)
    if (fresh.length === 0) return undefined
    this.offsets[stream] = known + fresh.length
    return outputEvent(stream, known, fresh)
  }

  #gap(stream: StreamName, offset: number, bytes: number): OutputEvent | undefined {
    const known = this.#known(stream, offset)
    const end = offset + bytes
    if (end <= known) return undefined
    this.offsets[stream] = end
    return { type: 'gap', stream, offset: known, bytes: end - known }
  }

  #known(stream: StreamName, offset: number): number {
    const known = this.offsets[stream]
    if (offset <= known) return known
    throw new UnexpectedAnswerError(`${offset - known} bytes of ${stream} before offset ${offset} are missing from the stream`, {
      hint: 'this is a bug of the server: output may only be left out by a gap that says so',
    })
  }
}

export interface OutputCallbacks {
  /** Called with text as soon as it is printed, and awaited. */
  onStdout?: ((text: string) => unknown) | undefined
  onStderr?: ((text: string) => unknown) | undefined
}

export interface CodeCallbacks extends OutputCallbacks {
  /** Called with each displayed value and with the value of the last expression. */
  onResult?: ((result: CodeResult) => unknown) | undefined
  onError?: ((error: CodeError) => unknown) | undefined
}

export function hasCallbacks(callbacks: CodeCallbacks): boolean {
  return Boolean(callbacks.onStdout ?? callbacks.onStderr ?? callbacks.onResult ?? callbacks.onError)
}

/** Hands text to the caller's functions; a character that comes in two pieces is handed over whole. */
export class Dispatcher {
  readonly #callbacks: CodeCallbacks
  #decoders: Record<StreamName, TextDecoder>

  constructor(callbacks: CodeCallbacks) {
    this.#callbacks = callbacks
    this.#decoders = { stdout: newDecoder(), stderr: newDecoder() }
  }

  async feed(event: OutputEvent): Promise<void> {
    switch (event.type) {
      case 'output':
        return this.#text(event.stream, this.#decoders[event.stream].decode(event.data, { stream: true }))
      case 'gap':
        return this.#flush(event.stream)
      case 'result':
        await this.#callbacks.onResult?.(event.result)
        return
      case 'error':
        await this.#callbacks.onError?.(event.error)
        return
      case 'ended':
        await this.#flush('stdout')
        await this.#flush('stderr')
    }
  }

  async #flush(stream: StreamName): Promise<void> {
    const rest = this.#decoders[stream].decode()
    this.#decoders[stream] = newDecoder()
    await this.#text(stream, rest)
  }

  async #text(stream: StreamName, text: string): Promise<void> {
    if (text === '') return
    await (stream === 'stdout' ? this.#callbacks.onStdout?.(text) : this.#callbacks.onStderr?.(text))
  }
}

function newDecoder(): TextDecoder {
  return new TextDecoder('utf-8', { ignoreBOM: true })
}
