/** Secrets that are kept under a name. */

import { defaultClient, type CallOptions, type Client } from './client.js'
import { call, pages, request, type Schemas } from './routes.js'

/** A secret without its value, which no call shows again. */
export interface SecretInfo {
  readonly id: string
  readonly name: string
  /** 1 for the first value; each new value is one more. */
  readonly version: number
  readonly createdAt: Date
  readonly updatedAt: Date
  readonly metadata: Readonly<Record<string, string>>
  /** The hosts that it may be sent to. */
  readonly hosts: readonly string[]
  readonly raw: Schemas['Secret']
}

export interface SecretOptions extends CallOptions {
  /** Words about it, which are shown. */
  metadata?: Readonly<Record<string, string>> | undefined
  /** Those that it may be sent to. */
  hosts?: readonly string[] | undefined
}

/**
 * The secrets of a server, encrypted at rest. No call shows a value again. A sandbox has one with
 * `secrets: { VARIABLE: { from: 'secret:NAME', hosts: [...] } }`, for hosts that it is bound to.
 */
export class Secrets {
  readonly #client: Client

  constructor(client: Client = defaultClient()) {
    this.#client = client
  }

  /** Keeps one. `name` has 1 to 256 characters, `value` 8 to 16,384 printable ones. */
  async create(name: string, value: string, options: SecretOptions = {}): Promise<SecretInfo> {
    const { metadata, hosts, signal } = options
    return parseSecret(await call(this.#client, 'POST /v1/secrets', { json: { name, value, metadata, hosts }, signal }))
  }

  /** A new value, as the next version; metadata and hosts stay where they are not given. */
  async update(name: string, value: string, options: SecretOptions = {}): Promise<SecretInfo> {
    const { metadata, hosts, signal } = options
    const asked = { at: { secret: name }, signal }
    return parseSecret(await call(this.#client, 'PUT /v1/secrets/{secret}', { ...asked, json: { value, metadata, hosts } }))
  }

  /** One of them, by its name or id. */
  async get(name: string, options: CallOptions = {}): Promise<SecretInfo> {
    return parseSecret(await call(this.#client, 'GET /v1/secrets/{secret}', { at: { secret: name }, signal: options.signal }))
  }

  /** All of one's own, the newest first. */
  async list(options: CallOptions = {}): Promise<SecretInfo[]> {
    const found: SecretInfo[] = []
    const asked = { query: { limit: 1000 }, signal: options.signal }
    for await (const item of pages(this.#client, 'GET /v1/secrets', 'secrets', asked)) found.push(parseSecret(item))
    return found
  }

  /** Forgets it. */
  async remove(name: string, options: CallOptions = {}): Promise<void> {
    await request(this.#client, 'DELETE /v1/secrets/{secret}', { at: { secret: name }, signal: options.signal })
  }
}

function parseSecret(body: Schemas['Secret']): SecretInfo {
  return {
    id: body.id,
    name: body.name,
    version: body.version,
    createdAt: new Date(body.created_at_ms),
    updatedAt: new Date(body.updated_at_ms),
    metadata: body.metadata,
    hosts: body.hosts,
    raw: body,
  }
}
