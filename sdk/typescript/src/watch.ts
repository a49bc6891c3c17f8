/// <reference lib="esnext.disposable" preserve="true" />
/** Events of files. */

import { decode, lines } from './bytes.js'
import { LONG_PATIENCE_MS, type Client } from './client.js'
import { UnavailableError, UnexpectedAnswerError } from './errors.js'
import type { FileEvent } from './models.js'
import { open, type Asked, type Schemas } from './routes.js'
import { pauseMs, sleep } from './retrying.js'
import { WireError, type WireAnswer } from './wire.js'

/** A watch is given up after so many lines in a row that should have said that the server lives. */
const LINES_MISSED = 3

/**
 * Iterates over events until it is closed: by `close`, by the end of `for await`, or by `await using`. Where events were lost, by
 * the kernel or because the connection broke off and was made again, one of kind `overflow` comes: list again. A server that says nothing for
 * 45 s counts as a connection that broke off; one that is older than that promise (it lacks the header) is waited for without an end.
 */
export class Watch implements AsyncIterableIterator<FileEvent>, AsyncDisposable {
  readonly #client: Client
  readonly #asked: Asked<'GET /v1/sandboxes/{id}/files/watch'>
  readonly #events: AsyncGenerator<FileEvent>
  #answer: WireAnswer | undefined
  #lines: AsyncGenerator<Uint8Array> | undefined
  #closed = false

  constructor(client: Client, asked: Asked<'GET /v1/sandboxes/{id}/files/watch'>) {
    this.#client = client
    this.#asked = asked
    this.#events = this.#follow()
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<IteratorResult<FileEvent>> {
    return this.#events.next()
  }

  async return(): Promise<IteratorResult<FileEvent>> {
    await this.close()
    return { done: true, value: undefined }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Nothing more comes; a `next` that waits is done. */
  async close(): Promise<void> {
    this.#closed = true
    this.#answer?.close()
  }

  /** Resolves when the watch is set. */
  async open(): Promise<void> {
    // The answer begins when all directories are watched, which takes a while for a large tree.
    const asked = { ...this.#asked, patienceMs: LONG_PATIENCE_MS }
    const answer = await open(this.#client, 'GET /v1/sandboxes/{id}/files/watch', asked)
    const aliveSeconds = Number(answer.header('x-paddock-alive-seconds') ?? 0)
    answer.waitAtMost(aliveSeconds > 0 ? LINES_MISSED * aliveSeconds * 1000 : null)
    this.#answer = answer
    this.#lines = lines(answer.pieces)
    // The first line says that the watch is set.
    for (let line = await this.#lines.next(); !line.done; line = await this.#lines.next()) {
      if (!eventOf(line.value)) return
    }
  }

  async *#follow(): AsyncGenerator<FileEvent> {
    let failures = 0
    while (!this.#closed) {
      let lost: unknown = new UnexpectedAnswerError('the watch broke off')
      try {
        if (!this.#lines) {
          await this.open()
          yield { kind: 'overflow', path: this.#asked.query.path }
        }
        for await (const line of this.#lines ?? []) {
          const event = eventOf(line)
          failures = 0
          if (event) yield event
          if (this.#closed) return
        }
      } catch (error) {
        if (this.#closed) return
        if (!(error instanceof WireError) && !(error instanceof UnavailableError)) throw error
        lost = error
      }
      if (this.#closed) return
      this.#lines = undefined
      if (failures >= this.#client.retry.retries) throw await this.#client.connectionFailed(lost)
      await sleep(pauseMs(this.#client.retry, failures++), this.#asked.signal)
    }
  }
}

/** Undefined for a line that is no event of a file. */
function eventOf(line: Uint8Array): FileEvent | undefined {
  const text = decode(line)
  if (text.trim() === '') return undefined
  try {
    // Two kinds of line are of no file: that the watch is set, and that the connection lives.
    const { kind, path }: { [K in keyof Schemas['FileEvent']]?: string } = JSON.parse(text)
    if (typeof kind !== 'string' || typeof path !== 'string') throw new TypeError('no kind or no path')
    return kind === 'watching' || kind === 'alive' ? undefined : { kind, path }
  } catch (error) {
    throw new UnexpectedAnswerError(`a line of the watch makes no sense: ${JSON.stringify(text.slice(0, 200))}`, { cause: error })
  }
}
