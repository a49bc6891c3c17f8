/** Directories that outlive sandboxes. */

import type { Data } from './bytes.js'
import { defaultClient, LONG_PATIENCE_MS, type CallOptions, type Client } from './client.js'
import { call, request, type Schemas } from './routes.js'

export interface VolumeInfo {
  readonly name: string
  readonly tenant: string
  readonly createdAt: Date
  /** The version that a sandbox gets; undefined while it is empty. */
  readonly version: number | undefined
  readonly files: number
  readonly bytes: number
  /** The size of all its versions in the store. */
  readonly storedBytes: number
  /** The sandbox that writes to it now. */
  readonly writer: string | undefined
  /** Tenants that have it too: `ro` or `rw`. */
  readonly shared: Readonly<Record<string, string>>
  readonly encrypted: boolean
  /** No other volume of the same name had it or will have it. */
  readonly id: string
  readonly raw: Schemas['Volume']
}

export interface VolumeVersion {
  readonly version: number
  /** `commit`, `checkpoint`, `kept` (after a failure) or `restore`. */
  readonly kind: string
  readonly at: Date
  readonly by: string
  readonly current: boolean
  readonly files: number
  readonly bytes: number
  /** Its part of the store. */
  readonly storedBytes: number
}

export interface VolumeFile {
  readonly path: string
  /** `file`, `directory` or `symlink`. */
  readonly kind: string
  readonly size: number
  readonly mode: number
  readonly modifiedAt: Date
  readonly target: string | undefined
}

export interface LiveOptions extends CallOptions {
  /** Through the sandbox that has it to write, if there is one; without this a change of such a volume is refused. */
  live?: boolean | undefined
}

export interface VolumeReadOptions extends CallOptions {
  version?: number | undefined
  /** As the sandbox that has it to write has it now; a version of that is made first. */
  live?: boolean | undefined
}

/** The volumes of a server. A name is one's own volume, TENANT/NAME one that was shared. */
export class Volumes {
  readonly #client: Client

  constructor(client: Client = defaultClient()) {
    this.#client = client
  }

  /** An empty one. Mounting one to write makes it too. */
  async create(name: string, options: CallOptions = {}): Promise<VolumeInfo> {
    return parseVolume(await call(this.#client, 'POST /v1/volumes', { json: { name }, signal: options.signal }))
  }

  /** All of one's own. */
  async list(options: CallOptions = {}): Promise<VolumeInfo[]> {
    return (await call(this.#client, 'GET /v1/volumes', { signal: options.signal })).volumes.map(parseVolume)
  }

  async get(name: string, options: CallOptions = {}): Promise<VolumeInfo> {
    const { at, tenant } = placeOf(name)
    const asked = { at, query: { tenant }, ...patient(options) }
    return parseVolume(await call(this.#client, 'GET /v1/volumes/{volume}', asked))
  }

  /** With all its versions; refused while a sandbox writes to it. */
  async remove(name: string, options: CallOptions = {}): Promise<void> {
    const { at, tenant } = placeOf(name)
    await call(this.#client, 'DELETE /v1/volumes/{volume}', { at, query: { tenant }, ...patient(options) })
  }

  /** Versions that are kept, the newest first. */
  async history(name: string, options: CallOptions = {}): Promise<VolumeVersion[]> {
    const { at, tenant } = placeOf(name)
    const body = await call(this.#client, 'GET /v1/volumes/{volume}/history', { at, query: { tenant }, ...patient(options) })
    return body.versions.map(parseVersion)
  }

  /** An earlier version again, as a new one. */
  async restore(name: string, version: number, options: CallOptions = {}): Promise<VolumeVersion> {
    const { at, tenant } = placeOf(name)
    return parseVersion(await call(this.#client, 'POST /v1/volumes/{volume}/restore', {
      at, query: { tenant }, json: { version }, ...patient(options),
    }))
  }

  /** Another tenant has it too, `ro` or `rw`; `null` takes that back. */
  async share(name: string, tenant: string, mode: 'ro' | 'rw' | null = 'ro', options: CallOptions = {}): Promise<VolumeInfo> {
    const { at, tenant: owner } = placeOf(name)
    return parseVolume(await call(this.#client, 'POST /v1/volumes/{volume}/share', {
      at, query: { tenant: owner }, json: { tenant, mode }, ...patient(options),
    }))
  }

  /** Its content at or below a path, so many levels deep; at most 10,000 entries. */
  async files(
    name: string, options: VolumeReadOptions & { path?: string | undefined; depth?: number | undefined } = {},
  ): Promise<VolumeFile[]> {
    const { path, version, depth, live } = options
    const { at, tenant } = placeOf(name)
    const body = await call(this.#client, 'GET /v1/volumes/{volume}/files', {
      at, query: { path, version, depth, live: live || undefined, tenant }, ...patient(options),
    })
    return body.files.map(parseFile)
  }

  /** What a path is; the empty one is the volume itself. Links are not followed. */
  async stat(name: string, path = '', options: VolumeReadOptions = {}): Promise<VolumeFile> {
    const { version, live } = options
    const { at, tenant } = placeOf(name)
    return parseFile(await call(this.#client, 'GET /v1/volumes/{volume}/files/stat', {
      at, query: { path, version, live: live || undefined, tenant }, ...patient(options),
    }))
  }

  /** The content of a file. */
  async read(name: string, path: string, options: VolumeReadOptions = {}): Promise<Uint8Array> {
    const { version, live } = options
    const { at, tenant } = placeOf(name)
    const answer = await request(this.#client, 'GET /v1/volumes/{volume}/files/content', {
      at, query: { path, version, live: live || undefined, tenant }, ...patient(options),
    })
    return answer.bytes
  }

  /** Puts a file into it, as a new version. `mode` is such as 0o755. */
  async write(name: string, path: string, content: Data, options: LiveOptions & { mode?: number | undefined } = {}): Promise<VolumeVersion> {
    const { mode, live } = options
    const { at, tenant } = placeOf(name)
    return parseVersion(await call(this.#client, 'PUT /v1/volumes/{volume}/files/content', {
      at, query: { path, mode: mode?.toString(8), live: live || undefined, tenant }, body: content, ...patient(options),
    }))
  }

  /** Makes a directory in it, as a new version. */
  async makeDirectory(
    name: string, path: string, options: LiveOptions & { mode?: number | undefined; parents?: boolean | undefined } = {},
  ): Promise<VolumeVersion> {
    const { mode, parents, live } = options
    const { at, tenant } = placeOf(name)
    return parseVersion(await call(this.#client, 'POST /v1/volumes/{volume}/files/directory', {
      at, query: { live: live || undefined, tenant }, json: { path, mode, parents }, ...patient(options),
    }))
  }

  /** Other permission bits, as a new version. */
  async changeMode(name: string, path: string, mode: number, options: LiveOptions = {}): Promise<VolumeVersion> {
    const { at, tenant } = placeOf(name)
    return parseVersion(await call(this.#client, 'POST /v1/volumes/{volume}/files/mode', {
      at, query: { live: options.live || undefined, tenant }, json: { path, mode }, ...patient(options),
    }))
  }

  /** Takes a file, or a directory with its content, out of it, as a new version. */
  async delete(name: string, path: string, options: LiveOptions = {}): Promise<VolumeVersion> {
    const { at, tenant } = placeOf(name)
    return parseVersion(await call(this.#client, 'DELETE /v1/volumes/{volume}/files', {
      at, query: { path, live: options.live || undefined, tenant }, ...patient(options),
    }))
  }
}

function placeOf(name: string): { at: { volume: string }; tenant: string | undefined } {
  const slash = name.lastIndexOf('/')
  return { at: { volume: name.slice(slash + 1) }, tenant: slash < 0 ? undefined : name.slice(0, slash) }
}

function patient({ signal }: CallOptions): { patienceMs: number; signal: AbortSignal | undefined } {
  return { patienceMs: LONG_PATIENCE_MS, signal }
}

function parseFile(body: Schemas['VolumeFile']): VolumeFile {
  const { path, kind, size, mode, target } = body
  return { path, kind, size, mode, modifiedAt: new Date(body.modified_at_ms), target: target ?? undefined }
}

function parseVolume(body: Schemas['Volume']): VolumeInfo {
  return {
    name: body.name,
    tenant: body.tenant,
    createdAt: new Date(body.created_at_ms),
    version: body.version ?? undefined,
    files: body.files,
    bytes: body.bytes,
    storedBytes: body.stored_bytes,
    writer: body.writer ?? undefined,
    shared: body.shared ?? {},
    encrypted: Boolean(body.encrypted),
    id: body.id,
    raw: body,
  }
}

function parseVersion(body: Schemas['VolumeVersion']): VolumeVersion {
  return {
    version: body.version,
    kind: body.kind,
    at: new Date(body.at_ms),
    by: body.by,
    current: Boolean(body.current),
    files: body.files,
    bytes: body.bytes,
    storedBytes: body.stored_bytes,
  }
}
