/** How a request travels: by `fetch` everywhere, and by node:http on Node, which knows unix sockets and waits as long as asked. */

export interface WireRequest {
  readonly method: string
  /** Path and query, beginning with a slash. */
  readonly target: string
  readonly headers: Record<string, string>
  readonly body?: Uint8Array | AsyncIterable<Uint8Array> | undefined
  /** The longest time in which nothing comes or goes; null waits for ever. */
  readonly patienceMs: number | null
  readonly signal?: AbortSignal | undefined
}

export interface WireAnswer {
  readonly status: number
  header(name: string): string | undefined
  headers(): [string, string][]
  /** The body, piece by piece; it can be read once. */
  readonly pieces: AsyncIterable<Uint8Array>
  /** Takes the place of the request's `patienceMs` for what is still to come. */
  waitAtMost(patienceMs: number | null): void
  /** The rest is not wanted. */
  close(): void
}

export interface Wire {
  send(request: WireRequest): Promise<WireAnswer>
  close(): void
}

/** For a connection, before anything is sent. */
export const CONNECT_MS = 10_000

export type WireFailure =
  /** There was no connection: the server cannot have seen the request. */
  | 'never-reached'
  /** The connection was lost, or the peer did not speak HTTP. */
  | 'broken'
  /** Nothing came or went for the whole patience. */
  | 'silent'

/** No whole answer came. */
export class WireError extends Error {
  constructor(
    readonly failure: WireFailure,
    message: string,
    override readonly cause?: unknown,
  ) {
    super(message)
    this.name = 'WireError'
  }
}

/** Like `signal.throwIfAborted`, for a signal that need not be there. */
export function checkAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw signal.reason
}

/**
 * The result of an action that has to come to its end, because only then it can be undone. An abort is told at once; `undo` gets a
 * result that came later.
 */
export async function orUndone<T>(action: () => Promise<T>, signal: AbortSignal | undefined, undo: (result: T) => Promise<unknown>): Promise<T> {
  if (!signal) return action()
  checkAborted(signal)
  const acting = action()
  let aborted: (() => void) | undefined
  const abort = new Promise<never>((_, reject) => {
    aborted = () => reject(signal.reason)
    signal.addEventListener('abort', aborted, { once: true })
  })
  try {
    return await Promise.race([acting, abort])
  } catch (error) {
    if (signal.aborted) acting.then(undo).catch(() => {})
    throw error
  } finally {
    if (aborted) signal.removeEventListener('abort', aborted)
  }
}

/** Runs an action with a signal that also fires when `arm`ed patience has passed. */
export class Patience {
  readonly #controller = new AbortController()
  readonly #outer: AbortSignal | undefined
  #ms: number | null
  #timer: ReturnType<typeof setTimeout> | undefined
  silent = false

  constructor(ms: number | null, outer: AbortSignal | undefined) {
    this.#ms = ms
    this.#outer = outer
    outer?.addEventListener('abort', this.#forward, { once: true })
    if (outer?.aborted) this.#forward()
    this.touch()
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  change(ms: number | null): void {
    this.#ms = ms
    if (this.#timer !== undefined) this.touch()
  }

  /** What came is with the caller, who may take as long as it likes; the next `touch` begins anew. */
  rest(): void {
    if (this.#timer !== undefined) clearTimeout(this.#timer)
    this.#timer = undefined
  }

  /** Something came: the patience begins anew. */
  touch(): void {
    this.rest()
    if (this.#ms === null) return
    this.#timer = setTimeout(() => {
      this.silent = true
      this.#controller.abort(new WireError('silent', `nothing happened for ${this.#ms} ms`))
    }, this.#ms)
    // The connection keeps a program alive, not the watch over it.
    ;(this.#timer as { unref?: () => void }).unref?.()
  }

  end(): void {
    this.rest()
    this.#outer?.removeEventListener('abort', this.#forward)
  }

  /** The error to throw for one that came while this waited. */
  explain(error: unknown, failure: WireFailure): unknown {
    if (this.#outer?.aborted) return this.#outer.reason
    if (this.silent) return this.signal.reason
    if (error instanceof WireError) return error
    return new WireError(failure, error instanceof Error && error.message ? error.message : String(error), error)
  }

  readonly #forward = (): void => this.#controller.abort(this.#outer?.reason)
}
