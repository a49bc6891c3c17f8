/** Values that are kept for scripts. */

import { defaultClient, type CallOptions, type Client } from './client.js'
import { call, request, type Schemas } from './routes.js'

export interface ResourceInfo {
  readonly name: string
  /** Its kind, in its owner's word. */
  readonly type: string
  readonly updatedAt: Date
  /** By the field: the hosts that its text is bound to. It enters no sandbox, and is not shown again. */
  readonly secrets: Readonly<Record<string, readonly string[]>>
  /** Undefined in lists, and for a read-only token. */
  readonly value: unknown
  readonly raw: Schemas['Resource']
}

export class Resources {
  readonly #client: Client

  constructor(client: Client = defaultClient()) {
    this.#client = client
  }

  /**
   * Keeps a value, or another in its place. `name` has letters, digits, `_` and `-`, with `/` between parts. `secrets` has by the
   * field (`apiKey`, `auth.token`; empty for the value itself) the hosts its text is bound to: a placeholder stands for it inside.
   */
  async set(
    name: string, value: unknown,
    options: CallOptions & { type?: string | undefined; secrets?: Readonly<Record<string, readonly string[]>> | undefined } = {},
  ): Promise<ResourceInfo> {
    const { type, secrets, signal } = options
    return parseResource(await call(this.#client, 'PUT /v1/resources/{resource}', {
      at: { resource: name }, json: { value, type, secrets }, repeatable: true, signal,
    }))
  }

  /** One of them; a field that is bound to hosts is not shown. */
  async get(name: string, options: CallOptions = {}): Promise<ResourceInfo> {
    return parseResource(await call(this.#client, 'GET /v1/resources/{resource}', { at: { resource: name }, signal: options.signal }))
  }

  /** All of one's own, without their values. */
  async list(options: CallOptions = {}): Promise<ResourceInfo[]> {
    const body = await call(this.#client, 'GET /v1/resources', { signal: options.signal })
    return body.resources.map(parseResource)
  }

  async remove(name: string, options: CallOptions = {}): Promise<void> {
    await request(this.#client, 'DELETE /v1/resources/{resource}', { at: { resource: name }, signal: options.signal })
  }
}

function parseResource(body: Schemas['Resource']): ResourceInfo {
  return {
    name: body.name,
    type: body.type,
    updatedAt: new Date(body.updated_at_ms),
    secrets: body.secrets ?? {},
    value: body.value ?? undefined,
    raw: body,
  }
}
