/** Requests by `fetch`: browsers, edge runtimes, and whoever brings a `fetch` of their own. */

import { Patience, WireError, type Wire, type WireAnswer, type WireRequest } from './wire.js'
import { joined } from './bytes.js'

export type Fetch = (input: string, init: RequestInit) => Promise<Response>

export class FetchWire implements Wire {
  readonly #base: string
  readonly #fetch: Fetch

  constructor(base: string, fetch: Fetch = globalThis.fetch.bind(globalThis)) {
    this.#base = base
    this.#fetch = fetch
  }

  async send(request: WireRequest): Promise<WireAnswer> {
    const patience = new Patience(request.patienceMs, request.signal)
    try {
      // Few runtimes send a stream as a body, and none says so before it fails.
      const body = request.body === undefined || request.body instanceof Uint8Array ? request.body : await joined(request.body)
      const response = await this.#fetch(this.#base + request.target, {
        method: request.method,
        headers: request.headers,
        signal: patience.signal,
        // The token is for this server alone. `error` is what workerd does not know.
        redirect: 'manual',
        ...(body === undefined ? {} : { body: body as BodyInit }),
      })
      return new FetchAnswer(response, patience)
    } catch (error) {
      patience.end()
      // `fetch` does not tell whether the request left.
      throw patience.explain(error, 'broken')
    }
  }

  close(): void {}
}

class FetchAnswer implements WireAnswer {
  readonly status: number
  readonly pieces: AsyncIterable<Uint8Array>
  readonly #response: Response
  readonly #patience: Patience
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  #closed = false

  constructor(response: Response, patience: Patience) {
    this.#response = response
    this.#patience = patience
    // A browser tells that there is a redirect, and nothing more of it.
    this.status = response.type === 'opaqueredirect' ? 302 : response.status
    this.pieces = this.#read()
    if (!response.body) patience.end()
  }

  header(name: string): string | undefined {
    return this.#response.headers.get(name) ?? undefined
  }

  headers(): [string, string][] {
    return [...this.#response.headers]
  }

  waitAtMost(patienceMs: number | null): void {
    this.#patience.change(patienceMs)
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#patience.end()
    const body = this.#reader ?? this.#response.body
    body?.cancel().catch(() => {})
  }

  async *#read(): AsyncGenerator<Uint8Array> {
    if (!this.#response.body) return
    this.#reader = this.#response.body.getReader()
    try {
      while (true) {
        this.#patience.touch()
        const { done, value } = await this.#reader.read()
        if (this.#closed) throw new WireError('broken', 'the answer was closed while it was read')
        if (done) return
        this.#patience.rest()
        yield value
      }
    } catch (error) {
      throw this.#patience.explain(error, 'broken')
    } finally {
      this.close()
    }
  }
}
