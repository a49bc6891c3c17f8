/** Tar archives as a stream of bytes: ustar with pax records, and GNU's long names when reading. */

import { UnsafeArchiveError } from '../errors.js'

const BLOCK = 512
/** Records of a header are names and numbers; a real one is far below this. */
const LARGEST_RECORD = 1 << 20

export type MemberKind = 'file' | 'directory' | 'symlink' | 'hardlink' | 'other'

export interface Member {
  readonly kind: MemberKind
  readonly name: string
  readonly linkName: string
  readonly size: number
  readonly mode: number
}

export function header(member: Member): Uint8Array {
  const pieces: Uint8Array[] = []
  const records = paxRecords(member)
  if (records.length > 0) pieces.push(plainHeader('x', 'pax', '', records.length, 0o644), padded(records))
  const type = { file: '0', directory: '5', symlink: '2', hardlink: '1', other: '0' }[member.kind]
  pieces.push(plainHeader(type, member.name, member.linkName, Math.min(member.size, 0o77777777777), member.mode))
  return Buffer.concat(pieces)
}

/** Zeros that fill the last block of a file. */
export function fillOf(size: number): Uint8Array {
  return new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK)
}

export function endOfArchive(): Uint8Array {
  return new Uint8Array(2 * BLOCK)
}

function paxRecords(member: Member): Uint8Array {
  const records: string[] = []
  const add = (key: string, value: string): void => {
    const body = ` ${key}=${value}\n`
    let length = Buffer.byteLength(body)
    // The length counts its own digits.
    length += String(length + String(length).length).length
    records.push(`${length}${body}`)
  }
  if (Buffer.byteLength(member.name) > 100) add('path', member.name)
  if (Buffer.byteLength(member.linkName) > 100) add('linkpath', member.linkName)
  if (member.size > 0o77777777777) add('size', String(member.size))
  return Buffer.from(records.join(''))
}

function plainHeader(type: string, name: string, linkName: string, size: number, mode: number): Uint8Array {
  const block = Buffer.alloc(BLOCK)
  Buffer.from(name).copy(block, 0, 0, 100)
  block.write(`${(mode & 0o7777).toString(8).padStart(7, '0')}\0`, 100, 'latin1')
  block.write('0000000\0', 108, 'latin1')
  block.write('0000000\0', 116, 'latin1')
  block.write(`${size.toString(8).padStart(11, '0')}\0`, 124, 'latin1')
  block.write('00000000000\0', 136, 'latin1')
  block.write('        ', 148, 'latin1')
  block.write(type, 156, 'latin1')
  Buffer.from(linkName).copy(block, 157, 0, 100)
  block.write('ustar\x0000', 257, 'latin1')
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return block
}

function padded(bytes: Uint8Array): Uint8Array {
  return Buffer.concat([bytes, fillOf(bytes.length)])
}

/** Reads members one after the other; the content of each has to be read or skipped before the next. */
export class TarReader {
  readonly #pieces: AsyncIterator<Uint8Array>
  #rest: Uint8Array = new Uint8Array(0)
  #left = 0
  #fill = 0

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#pieces = source[Symbol.asyncIterator]()
  }

  async next(): Promise<Member | undefined> {
    for await (const _ of this.content()) continue
    await this.#skip(this.#fill)
    this.#fill = 0
    let pax: Map<string, string> = new Map()
    while (true) {
      const block = await this.#take(BLOCK)
      if (!block || block.every((byte) => byte === 0)) return undefined
      checkSum(block)
      const type = String.fromCharCode(block[156] as number)
      const size = numberOf(block.subarray(124, 136))
      if ('xgLK'.includes(type)) {
        pax = new Map([...pax, ...(await this.#extended(type, size))])
        continue
      }
      return this.#member(block, type, size, pax)
    }
  }

  /** The rest is not wanted. */
  async close(): Promise<void> {
    await this.#pieces.return?.()
  }

  /** The content of the member that `next` gave last. */
  async *content(): AsyncGenerator<Uint8Array> {
    while (this.#left > 0) {
      const piece = await this.#some(this.#left)
      if (!piece) throw broken('it ends within a file')
      this.#left -= piece.length
      yield piece
    }
  }

  #member(block: Uint8Array, type: string, plainSize: number, pax: Map<string, string>): Member {
    const size = pax.has('size') ? Number(pax.get('size')) : plainSize
    if (!Number.isSafeInteger(size) || size < 0) throw broken(`a size of ${size}`)
    const isUstar = textOf(block.subarray(257, 262)) === 'ustar' && block[262] === 0
    const prefix = isUstar ? textOf(block.subarray(345, 500)) : ''
    const short = textOf(block.subarray(0, 100))
    const name = pax.get('path') ?? (prefix ? `${prefix}/${short}` : short)
    const kinds: Record<string, MemberKind> = { '0': 'file', '\0': 'file', '7': 'file', '5': 'directory', '2': 'symlink', '1': 'hardlink' }
    const kind = kinds[type] ?? 'other'
    // Links and directories have no content, whatever they say of their size.
    this.#left = kind === 'file' ? size : 0
    this.#fill = kind === 'file' ? fillOf(size).length : 0
    const linkName = pax.get('linkpath') ?? textOf(block.subarray(157, 257))
    return { kind, name, linkName, size: this.#left, mode: numberOf(block.subarray(100, 108)) }
  }

  async #extended(type: string, size: number): Promise<Map<string, string>> {
    if (size > LARGEST_RECORD) throw broken(`a header of ${size} bytes`)
    const bytes = await this.#take(size)
    await this.#skip(fillOf(size).length)
    if (!bytes) throw broken('it ends within a header')
    if (type === 'L') return new Map([['path', textOf(bytes)]])
    if (type === 'K') return new Map([['linkpath', textOf(bytes)]])
    // A global header would speak for all that follows; nothing here needs one.
    return type === 'g' ? new Map() : recordsOf(bytes)
  }

  async #take(count: number): Promise<Uint8Array | undefined> {
    const pieces: Uint8Array[] = []
    let have = 0
    while (have < count) {
      const piece = await this.#some(count - have)
      if (!piece) {
        if (have > 0) throw broken('it ends within a block')
        return undefined
      }
      pieces.push(piece)
      have += piece.length
    }
    return Buffer.concat(pieces)
  }

  async #skip(count: number): Promise<void> {
    for (let left = count; left > 0; ) {
      const piece = await this.#some(left)
      if (!piece) return
      left -= piece.length
    }
  }

  async #some(most: number): Promise<Uint8Array | undefined> {
    while (this.#rest.length === 0) {
      const { done, value } = await this.#pieces.next()
      if (done) return undefined
      this.#rest = value
    }
    const piece = this.#rest.subarray(0, most)
    this.#rest = this.#rest.subarray(piece.length)
    return piece
  }
}

function recordsOf(bytes: Uint8Array): Map<string, string> {
  const records = new Map<string, string>()
  for (let at = 0; at < bytes.length; ) {
    const space = bytes.indexOf(0x20, at)
    const length = space < 0 ? Number.NaN : Number(textOf(bytes.subarray(at, space)))
    if (!Number.isSafeInteger(length) || length <= space - at || at + length > bytes.length) throw broken('a record makes no sense')
    const record = Buffer.from(bytes.subarray(space + 1, at + length - 1)).toString('utf8')
    const equals = record.indexOf('=')
    if (equals > 0) records.set(record.slice(0, equals), record.slice(equals + 1))
    at += length
  }
  return records
}

function checkSum(block: Uint8Array): void {
  const told = numberOf(block.subarray(148, 156))
  const sum = block.reduce((total, byte, index) => total + (index >= 148 && index < 156 ? 32 : byte), 0)
  if (told !== sum) throw broken('a check sum is wrong')
}

function numberOf(field: Uint8Array): number {
  if ((field[0] as number) & 0x80) {
    // Binary, for numbers that octal digits have no room for.
    return field.subarray(1).reduce((total, byte) => total * 256 + byte, (field[0] as number) & 0x7f)
  }
  const text = textOf(field).trim()
  return text === '' ? 0 : /^[0-7]+$/.test(text) ? Number.parseInt(text, 8) : Number.NaN
}

function textOf(field: Uint8Array): string {
  const end = field.indexOf(0)
  return Buffer.from(end < 0 ? field : field.subarray(0, end)).toString('utf8')
}

function broken(reason: string): UnsafeArchiveError {
  return new UnsafeArchiveError(`the archive cannot be read: ${reason}`)
}
