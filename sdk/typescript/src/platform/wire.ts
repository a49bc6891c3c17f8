/** Requests by node:http, over unix sockets, TCP and TLS. `fetch` of Node knows no unix sockets, and gives up after five minutes. */

import { Agent, request as plainRequest, type ClientRequest, type IncomingMessage } from 'node:http'
import { Agent as TlsAgent, request as tlsRequest } from 'node:https'
import type { Location } from '../location.js'
import { CONNECT_MS, Patience, WireError, type Wire, type WireAnswer, type WireRequest } from '../wire.js'

const KEEP_ALIVE_MS = 30_000

export function makeWire(location: Location): Wire {
  return new NodeWire(location)
}

class NodeWire implements Wire {
  readonly #location: Location
  readonly #base: URL
  readonly #tls: boolean
  readonly #agent: Agent

  constructor(location: Location) {
    this.#location = location
    this.#base = new URL(location.baseUrl)
    this.#tls = this.#base.protocol === 'https:'
    const options = { keepAlive: true, keepAliveMsecs: KEEP_ALIVE_MS, maxFreeSockets: 20, timeout: 0 }
    this.#agent = this.#tls ? new TlsAgent(options) : new Agent(options)
  }

  async send(request: WireRequest): Promise<WireAnswer> {
    const patience = new Patience(request.patienceMs, request.signal)
    const sent = new Sent(this.#start(request), patience)
    try {
      patience.signal.throwIfAborted()
      await sent.write(request.body)
      return new NodeAnswer(await sent.answer, sent.outgoing, patience)
    } catch (error) {
      sent.outgoing.destroy()
      patience.end()
      if (sent.bodyFailure) throw sent.bodyFailure.error
      throw patience.explain(error, sent.connected ? 'broken' : 'never-reached')
    }
  }

  close(): void {
    this.#agent.destroy()
  }

  #start(request: WireRequest): ClientRequest {
    const length = request.body instanceof Uint8Array ? { 'content-length': String(request.body.length) } : {}
    const bodyless = request.body === undefined && request.method !== 'GET' && request.method !== 'HEAD'
    const options = {
      agent: this.#agent,
      method: request.method,
      path: this.#base.pathname.replace(/\/$/, '') + request.target,
      headers: { ...request.headers, ...length, ...(bodyless ? { 'content-length': '0' } : {}) },
      ...(this.#location.socket === undefined
        ? { host: this.#base.hostname.replace(/^\[|\]$/g, ''), port: this.#base.port || (this.#tls ? 443 : 80) }
        : { socketPath: this.#location.socket, host: 'localhost' }),
    }
    return this.#tls ? tlsRequest(options) : plainRequest(options)
  }
}

/** One request on its way. */
class Sent {
  connected = false
  /** The caller's own stream failed, which is no fault of the connection. */
  bodyFailure: { error: unknown } | undefined
  readonly answer: Promise<IncomingMessage>
  readonly outgoing: ClientRequest
  readonly #patience: Patience

  constructor(outgoing: ClientRequest, patience: Patience) {
    this.outgoing = outgoing
    this.#patience = patience
    this.answer = new Promise((resolve, reject) => {
      let timer: ReturnType<typeof setTimeout> | undefined
      const connected = (): void => {
        this.connected = true
        clearTimeout(timer)
      }
      outgoing.on('socket', (socket) => {
        // A command may be silent for hours, but a peer that is gone must be noticed all the same.
        socket.setKeepAlive(true, KEEP_ALIVE_MS)
        socket.setNoDelay(true)
        if (!socket.connecting) return connected()
        timer = setTimeout(() => {
          const error = Object.assign(new Error(`no connection within ${CONNECT_MS} ms`), { code: 'ETIMEDOUT' })
          outgoing.destroy(error)
        }, CONNECT_MS)
        socket.once('authorized' in socket ? 'secureConnect' : 'connect', connected)
        socket.once('close', () => clearTimeout(timer))
        return undefined
      })
      outgoing.on('response', resolve)
      outgoing.on('error', reject)
      outgoing.on('close', () => reject(new WireError(this.connected ? 'broken' : 'never-reached', 'the connection was closed')))
      patience.signal.addEventListener('abort', () => reject(patience.signal.reason), { once: true })
    })
    // It may fail while the body is still on its way, where nothing waits for it.
    this.answer.catch(() => {})
  }

  async write(body: WireRequest['body']): Promise<void> {
    if (body === undefined || body instanceof Uint8Array) {
      this.outgoing.end(body)
      return
    }
    const pieces = body[Symbol.asyncIterator]()
    try {
      while (!this.outgoing.destroyed) {
        const { done, value } = await this.#next(pieces)
        if (done || (!this.outgoing.write(value) && !(await this.#drained()))) break
        this.#patience.touch()
      }
    } finally {
      await pieces.return?.()
    }
    this.outgoing.end()
  }

  async #next(pieces: AsyncIterator<Uint8Array>): Promise<IteratorResult<Uint8Array>> {
    const next = pieces.next().catch((error: unknown) => {
      this.bodyFailure = { error }
      throw error
    })
    // A server that answers before it has read all is not kept waiting for the rest.
    return Promise.race([next, this.answer.then(() => ({ done: true as const, value: undefined }))])
  }

  /** False where the server answered, or went, before it had read all. */
  async #drained(): Promise<boolean> {
    let listener: (() => void) | undefined
    const drained = new Promise<boolean>((resolve) => this.outgoing.once('drain', (listener = () => resolve(true))))
    const answered = this.answer.then(() => false)
    try {
      return await Promise.race([drained, answered])
    } finally {
      if (listener) this.outgoing.off('drain', listener)
    }
  }
}

class NodeAnswer implements WireAnswer {
  readonly status: number
  readonly pieces: AsyncIterable<Uint8Array>
  readonly #incoming: IncomingMessage
  readonly #outgoing: ClientRequest
  readonly #patience: Patience
  #done = false

  constructor(incoming: IncomingMessage, outgoing: ClientRequest, patience: Patience) {
    this.#incoming = incoming
    this.#outgoing = outgoing
    this.#patience = patience
    this.status = incoming.statusCode ?? 0
    this.pieces = this.#read()
    // An error before the first read is told by that read.
    incoming.on('error', () => {})
    patience.signal.addEventListener('abort', () => this.#outgoing.destroy(patience.signal.reason as Error), { once: true })
  }

  header(name: string): string | undefined {
    const value = this.#incoming.headers[name.toLowerCase()]
    return Array.isArray(value) ? value.join(', ') : value
  }

  headers(): [string, string][] {
    const raw = this.#incoming.rawHeaders
    const pairs: [string, string][] = []
    for (let index = 0; index + 1 < raw.length; index += 2) pairs.push([raw[index] as string, raw[index + 1] as string])
    return pairs
  }

  waitAtMost(patienceMs: number | null): void {
    this.#patience.change(patienceMs)
  }

  close(): void {
    this.#patience.end()
    if (this.#done) return
    this.#done = true
    this.#outgoing.destroy()
    this.#incoming.destroy()
  }

  async *#read(): AsyncGenerator<Uint8Array> {
    try {
      this.#patience.touch()
      for await (const piece of this.#incoming) {
        this.#patience.rest()
        yield piece as Uint8Array
        this.#patience.touch()
      }
      if (!this.#incoming.complete) throw new WireError('broken', 'the answer broke off')
      this.#done = true
    } catch (error) {
      throw this.#patience.explain(error, 'broken')
    } finally {
      this.close()
    }
  }
}
