/** The files of a sandbox. Everything is done inside, by the sandbox's own user unless another is named. */

import { decode, toStream, type Data } from './bytes.js'
import { LONG_PATIENCE_MS, type CallOptions, type Client } from './client.js'
import { InvalidRequestError } from './errors.js'
import { parseEntry, parseResolved, type FileEntry, type ResolvedPath } from './models.js'
import { nodePlatform } from './platform.js'
import { call, open, pages, request, type QueryOf } from './routes.js'
import { Watch } from './watch.js'

/** A download may unpack so much unless the caller says more: a sparse file of a few bytes can claim terabytes. */
const DEFAULT_MAXIMUM = 2 ** 34

export interface FileOptions extends CallOptions {
  /** As whom; default is the sandbox's own user. */
  user?: string | undefined
}

export type ReadFormat = 'text' | 'bytes' | 'stream' | 'blob'

export interface ReadOptions extends FileOptions {
  /** Default: `text`, as UTF-8. */
  format?: ReadFormat | undefined
  /** Bytes to leave out at the beginning, and the most to read. */
  offset?: number | undefined
  length?: number | undefined
  /** With `text`: throw a TypeError where a byte is not UTF-8, instead of replacing it. */
  fatal?: boolean | undefined
}

export interface WriteOptions extends FileOptions {
  /** Such as 0o755. */
  mode?: number | undefined
  /** Make missing directories. Default: true. */
  parents?: boolean | undefined
}

export interface WriteFileOptions extends WriteOptions {
  /** Extended attributes of the user's namespace, by their names without `user.`. */
  attributes?: Readonly<Record<string, string>> | undefined
  /** Write the file that a link leads to, as an editor does, and refuse one that the user may not write. Default: replace the link. */
  followLinks?: boolean | undefined
}

export interface DownloadOptions extends FileOptions {
  /** `error` (default) refuses a directory with a link that may lead outside, `skip` leaves it out. */
  unsafeLinks?: 'error' | 'skip' | undefined
  /** More than this is refused. */
  maxBytes?: number | undefined
}

/** Paths are absolute, or relative to the sandbox's working directory. */
export class Files {
  readonly #client: Client
  readonly #at: { readonly id: string }

  constructor(client: Client, sandbox: string) {
    this.#client = client
    this.#at = { id: sandbox }
  }

  /** A file as text, bytes, a stream or a Blob. */
  async read(path: string, options?: ReadOptions & { format?: 'text' | undefined }): Promise<string>
  async read(path: string, options: ReadOptions & { format: 'bytes' }): Promise<Uint8Array>
  async read(path: string, options: ReadOptions & { format: 'stream' }): Promise<ReadableStream<Uint8Array>>
  async read(path: string, options: ReadOptions & { format: 'blob' }): Promise<Blob>
  async read(path: string, options: ReadOptions = {}): Promise<string | Uint8Array | ReadableStream<Uint8Array> | Blob> {
    const { format = 'text', offset, length, user, signal } = options
    const route = 'GET /v1/sandboxes/{id}/files/content'
    const query: QueryOf<typeof route> = { path, offset: offset || undefined, length, user }
    const asked = { at: this.#at, query, signal, patienceMs: LONG_PATIENCE_MS }
    if (format === 'stream') {
      const answer = await open(this.#client, route, asked)
      return toStream(answer.pieces, () => answer.close())
    }
    if (!['text', 'bytes', 'blob'].includes(format)) {
      throw new InvalidRequestError(`format is '${String(format)}', not 'text', 'bytes', 'stream' or 'blob'`)
    }
    const { bytes } = await request(this.#client, route, asked)
    if (format === 'bytes') return bytes
    return format === 'blob' ? new Blob([bytes as BlobPart]) : decode(bytes, { fatal: options.fatal })
  }

  /** Readers inside see the old file or the new one, never half of it. */
  async write(path: string, data: Data, options: WriteFileOptions = {}): Promise<FileEntry> {
    const { mode, parents = true, user, attributes, followLinks, signal } = options
    return parseEntry(await call(this.#client, 'PUT /v1/sandboxes/{id}/files/content', {
      at: this.#at,
      query: {
        path, mode: mode?.toString(8), parents: parents || undefined, user, attributes: attributes && JSON.stringify(attributes),
        follow_links: followLinks || undefined,
      },
      body: data,
      repeatable: true,
      patienceMs: LONG_PATIENCE_MS,
      signal,
    }))
  }

  /** The entries of a directory. */
  async list(path = '.', options: FileOptions & { recursive?: boolean | undefined } = {}): Promise<FileEntry[]> {
    const entries: FileEntry[] = []
    for await (const entry of this.walk(path, { recursive: false, ...options })) entries.push(entry)
    return entries
  }

  /** The same one by one and with all below, for directories too large to hold. */
  async *walk(path = '.', options: FileOptions & { recursive?: boolean | undefined } = {}): AsyncGenerator<FileEntry> {
    const { recursive = true, user, signal } = options
    const entries = pages(this.#client, 'GET /v1/sandboxes/{id}/files', 'entries', {
      at: this.#at, query: { path, limit: 1000, recursive: recursive || undefined, user }, signal,
    })
    for await (const entry of entries) yield parseEntry(entry)
  }

  async stat(path: string, options: FileOptions = {}): Promise<FileEntry> {
    const { user, signal } = options
    return parseEntry(await call(this.#client, 'GET /v1/sandboxes/{id}/files/stat', { at: this.#at, query: { path, user }, signal }))
  }

  async exists(path: string, options: FileOptions = {}): Promise<boolean> {
    const { user, signal } = options
    return (await call(this.#client, 'GET /v1/sandboxes/{id}/files/exists', { at: this.#at, query: { path, user }, signal })).exists
  }

  /** Where a path leads, through all links. Nothing has to be there: missing parts stay as they are written. */
  async resolve(path: string, options: FileOptions = {}): Promise<ResolvedPath> {
    const { user, signal } = options
    return parseResolved(await call(this.#client, 'GET /v1/sandboxes/{id}/files/resolve', { at: this.#at, query: { path, user }, signal }))
  }

  /** With `parents` (the default) also missing directories above it, and content if it exists. */
  async makeDirectory(path: string, options: WriteOptions = {}): Promise<FileEntry> {
    const { mode, parents = true, user, signal } = options
    return parseEntry(await call(this.#client, 'POST /v1/sandboxes/{id}/files/directory', {
      at: this.#at, query: { user }, json: { path, mode, parents: parents || undefined }, repeatable: parents, signal,
    }))
  }

  async move(from: string, to: string, options: FileOptions & { overwrite?: boolean | undefined } = {}): Promise<FileEntry> {
    const { overwrite, user, signal } = options
    return parseEntry(await call(this.#client, 'POST /v1/sandboxes/{id}/files/move', {
      at: this.#at, query: { user }, json: { from, to, overwrite: overwrite || undefined }, signal,
    }))
  }

  /** A file, an empty directory, or with `recursive` everything below it. */
  async remove(path: string, options: FileOptions & { recursive?: boolean | undefined } = {}): Promise<void> {
    const { recursive, user, signal } = options
    await request(this.#client, 'DELETE /v1/sandboxes/{id}/files', {
      at: this.#at, query: { path, recursive: recursive || undefined, user }, signal,
    })
  }

  async chmod(path: string, mode: number, options: FileOptions = {}): Promise<FileEntry> {
    const { user, signal } = options
    return parseEntry(await call(this.#client, 'POST /v1/sandboxes/{id}/files/mode', {
      at: this.#at, query: { user }, json: { path, mode }, repeatable: true, signal,
    }))
  }

  /** Events of files from now on, by `for await`: all that happens after this has resolved is seen. */
  async watch(path: string, options: FileOptions & { recursive?: boolean | undefined } = {}): Promise<Watch> {
    const { recursive, user, signal } = options
    const watch = new Watch(this.#client, { at: this.#at, query: { path, recursive: recursive || undefined, user }, signal })
    await watch.open()
    return watch
  }

  /** A file of this host to the path `remote`, or the content of a directory into the directory `remote`. Needs Node. */
  async upload(local: string, remote: string, options: FileOptions = {}): Promise<void> {
    const { upload } = await nodePlatform('an upload from a path')
    const { user, signal } = options
    await upload(local, { client: this.#client, at: this.#at, remote, user, signal }, () => this.makeDirectory(remote, options))
  }

  /**
   * The file `remote` to the path `local`, or the content of the directory `remote` into the directory `local`. Needs Node.
   *
   * The content of a sandbox is not to be trusted: nothing is written outside `local`, and no owner, set-id bit, device or link
   * that leads outside is taken over.
   */
  async download(remote: string, local: string, options: DownloadOptions = {}): Promise<void> {
    const { unsafeLinks = 'error', maxBytes = DEFAULT_MAXIMUM, user, signal } = options
    if (unsafeLinks !== 'error' && unsafeLinks !== 'skip') {
      throw new InvalidRequestError(`unsafeLinks is '${String(unsafeLinks)}', not 'error' or 'skip'`)
    }
    const { download } = await nodePlatform('a download to a path')
    const isDirectory = (await this.stat(remote, options)).kind === 'directory'
    const place = { client: this.#client, at: this.#at, remote, user, signal }
    await download(local, place, { isDirectory, skipUnsafeLinks: unsafeLinks === 'skip', maxBytes })
  }

  /**
   * An address that reads (or `write`s, by PUT) one file for a while, without a token. On a unix socket there is no host to name:
   * it is then the path to ask for on that socket.
   */
  async signedUrl(path: string, options: CallOptions & { operation?: 'read' | 'write'; expiresMs?: number } = {}): Promise<string> {
    const { operation = 'read', expiresMs = 3_600_000, signal } = options
    const { url } = await call(this.#client, 'POST /v1/sandboxes/{id}/files/sign', {
      at: this.#at, json: { path, operation, expires_seconds: expiresMs / 1000 }, signal,
    })
    const { socket } = await this.#client.location()
    return socket !== undefined || !url.startsWith('/') ? url : this.#client.urlOf(url)
  }
}
