/** Bytes and text, with nothing but what every JavaScript runtime has. */

import { UnexpectedAnswerError } from './errors.js'

const encoder = new TextEncoder()

export function encode(text: string): Uint8Array {
  return encoder.encode(text)
}

/** Bytes that are not UTF-8 are replaced; a byte order mark stays. */
export function decode(bytes: Uint8Array, options: { fatal?: boolean | undefined } = {}): string {
  return new TextDecoder('utf-8', { ignoreBOM: true, fatal: options.fatal ?? false }).decode(bytes)
}

export function concat(pieces: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(pieces.reduce((size, piece) => size + piece.length, 0))
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.length
  }
  return whole
}

export async function joined(pieces: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const all: Uint8Array[] = []
  for await (const piece of pieces) all.push(piece)
  return concat(all)
}

export function fromBase64(text: string): Uint8Array {
  let binary: string
  try {
    binary = atob(text)
  } catch (error) {
    throw new UnexpectedAnswerError('the server sent something that is no Base64', { cause: error })
  }
  const bytes = new Uint8Array(binary.length)
  for (let index = 0; index < binary.length; index++) bytes[index] = binary.charCodeAt(index)
  return bytes
}

/** Whole lines of JSON. A rest without a line end broke off, and is left out. Only a line feed ends a line. */
export async function* lines(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let rest: Uint8Array[] = []
  for await (const piece of pieces) {
    let from = 0
    for (let at = piece.indexOf(10); at >= 0; at = piece.indexOf(10, from)) {
      rest.push(piece.subarray(from, at))
      yield concat(rest)
      rest = []
      from = at + 1
    }
    if (from < piece.length) rest.push(piece.subarray(from))
  }
}

/** Bodies that callers may hand in. */
export type Data = string | Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array | string>

export interface Body {
  /** Makes the body anew for each try. */
  readonly make: () => Uint8Array | AsyncIterable<Uint8Array>
  /** There can be a second try. */
  readonly repeatable: boolean
}

export function bodyOf(data: Data | (() => AsyncIterable<Uint8Array>)): Body {
  if (typeof data === 'function') return { make: data, repeatable: true }
  if (typeof data === 'string') return fixed(encode(data))
  if (data instanceof Uint8Array) return fixed(data)
  if (data instanceof ArrayBuffer) return fixed(new Uint8Array(data))
  if (typeof Blob !== 'undefined' && data instanceof Blob) {
    return { make: () => streamed(data.stream() as ReadableStream<Uint8Array>), repeatable: true }
  }
  if (typeof ReadableStream !== 'undefined' && data instanceof ReadableStream) {
    return { make: () => streamed(data), repeatable: false }
  }
  if (typeof data === 'object' && data !== null && Symbol.asyncIterator in data) {
    return { make: () => encoded(data as AsyncIterable<Uint8Array | string>), repeatable: false }
  }
  throw new TypeError(`cannot send ${typeof data}: expected text, bytes, a Blob, a stream or an async iterable`)
}

function fixed(bytes: Uint8Array): Body {
  return { make: () => bytes, repeatable: true }
}

/** Not every runtime can iterate over a stream. */
async function* streamed(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader()
  try {
    while (true) {
      const { done, value } = await reader.read()
      if (done) return
      yield typeof value === 'string' ? encode(value) : value
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}

async function* encoded(pieces: AsyncIterable<Uint8Array | string>): AsyncGenerator<Uint8Array> {
  for await (const piece of pieces) yield typeof piece === 'string' ? encode(piece) : piece
}

const READ_AHEAD = 1 << 16

/** A web stream of an answer's pieces; cancelling it closes the answer. */
export function toStream(pieces: AsyncIterable<Uint8Array>, close: () => void): ReadableStream<Uint8Array> {
  const iterator = pieces[Symbol.asyncIterator]()
  const source: UnderlyingDefaultSource<Uint8Array> = {
    async pull(controller) {
      try {
        const { done, value } = await iterator.next()
        if (done) controller.close()
        else controller.enqueue(value)
      } catch (error) {
        controller.error(error)
      }
    },
    cancel() {
      close()
    },
  }
  // So much is read ahead: the connection of a small answer is free again, even if its body is never read.
  return new ReadableStream(source, { highWaterMark: READ_AHEAD, size: (piece) => piece?.length ?? 0 })
}
