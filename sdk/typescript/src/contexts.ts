/** The code contexts of a sandbox: interpreters that remember earlier calls. */

import type { CallOptions, Client } from './client.js'
import { parseContext, type CodeContext } from './models.js'
import { call, request } from './routes.js'

export interface CreateContextOptions extends CallOptions {
  /** Default: `python`. */
  language?: string | undefined
  /** A name of your own for it. */
  id?: string | undefined
  cwd?: string | undefined
  env?: Readonly<Record<string, string>> | undefined
}

/** Each language has a default context, made at its first use; others are made here. */
export class Contexts {
  readonly #client: Client
  readonly #id: string

  constructor(client: Client, sandbox: string) {
    this.#client = client
    this.#id = sandbox
  }

  /** A new interpreter. */
  async create(options: CreateContextOptions = {}): Promise<CodeContext> {
    const { signal, language, id, cwd, env } = options
    const asked = { at: { id: this.#id }, signal }
    return parseContext(await call(this.#client, 'POST /v1/sandboxes/{id}/contexts', { ...asked, json: { language, id, cwd, env } }))
  }

  /** All of them, those that have ended too. */
  async list(options: CallOptions = {}): Promise<CodeContext[]> {
    const body = await call(this.#client, 'GET /v1/sandboxes/{id}/contexts', { at: { id: this.#id }, signal: options.signal })
    return body.contexts.map(parseContext)
  }

  /** As it is now. */
  async get(context: string | CodeContext, options: CallOptions = {}): Promise<CodeContext> {
    const asked = { at: this.#at(context), signal: options.signal }
    return parseContext(await call(this.#client, 'GET /v1/sandboxes/{id}/contexts/{context}', asked))
  }

  /** Begins anew: its running code ends, and its variables are gone. */
  async restart(context: string | CodeContext, options: CallOptions = {}): Promise<CodeContext> {
    const asked = { at: this.#at(context), signal: options.signal }
    return parseContext(await call(this.#client, 'POST /v1/sandboxes/{id}/contexts/{context}/restart', asked))
  }

  /** As Ctrl-C: running code is interrupted, and the context keeps its variables. Tells whether something ran. */
  async interrupt(context: string | CodeContext, options: CallOptions = {}): Promise<boolean> {
    const asked = { at: this.#at(context), signal: options.signal }
    return (await call(this.#client, 'POST /v1/sandboxes/{id}/contexts/{context}/interrupt', asked)).interrupted
  }

  /** Ends it, with its running code. */
  async delete(context: string | CodeContext, options: CallOptions = {}): Promise<void> {
    const asked = { at: this.#at(context), repeatable: true, signal: options.signal }
    await request(this.#client, 'DELETE /v1/sandboxes/{id}/contexts/{context}', asked)
  }

  #at(context: string | CodeContext): { id: string; context: string } {
    return { id: this.#id, context: typeof context === 'string' ? context : context.id }
  }
}
