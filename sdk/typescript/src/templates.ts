/** Templates, and their builds by the server. */

import { defaultClient, LONG_PATIENCE_MS, type CallOptions, type Client } from './client.js'
import { TemplateBuildFailedError, WaitTimeoutError } from './errors.js'
import { nodePlatform } from './platform.js'
import { sleep } from './retrying.js'
import { call, pages, request, type Loose, type Schemas } from './routes.js'

/** Between two questions to a build that goes on. */
const ASKED_EVERY_MS = 200
/** Entries of a log in one answer; the server gives no more. */
const ENTRIES_OF_A_PAGE = 1000
/** The last lines of a failed build's log that its error shows. */
const SHOWN_LINES = 20

/** As the API has it: `{ kind: 'run', command: 'pip install numpy' }`, ... Steps that copy files come from `copy`. */
export type BuildStep = Loose<Schemas['BuildStep']>

export interface TemplateInfo {
  readonly name: string
  /** Of a template that the tenant built; undefined for those of the owner of the host. */
  readonly id: string | undefined
  /** By the tag the id of its build. */
  readonly tags: Readonly<Record<string, string>>
  readonly raw: Schemas['Template']
}

export interface TemplateBuild {
  readonly id: string
  /** The id of the template. */
  readonly template: string
  readonly name: string
  /** Those that it gets when it is ready. */
  readonly tags: readonly string[]
  readonly state: Schemas['TemplateBuild']['state']
  readonly createdAt: Date
  readonly finishedAt: Date | undefined
  /** Of a build that failed: the reason, and the step (`base`, its number from 1 on, or `finalize`). */
  readonly reason: string | undefined
  readonly step: string | undefined
  readonly sizeBytes: number | undefined
  /** True if it stays as it is. */
  readonly finished: boolean
  readonly raw: Schemas['TemplateBuild']
}

export interface BuildLogEntry {
  readonly at: Date
  readonly level: Schemas['BuildLogEntry']['level']
  readonly message: string
  readonly step: string | undefined
}

export interface BuildOptions extends CallOptions {
  /** The image of a registry that it begins with, or another `template`. */
  image?: string | undefined
  /** For the registry of `image`; the server does not keep them. */
  registry?: { username: string; password: string } | undefined
  template?: string | undefined
  steps?: readonly BuildStep[] | undefined
  tags?: readonly string[] | undefined
  /** A line for the shell that runs in each of its sandboxes, and one that succeeds when it is up. */
  start?: string | undefined
  ready?: string | undefined
  cpus?: number | undefined
  memoryBytes?: number | undefined
  /** What each of its sandboxes can write at least; their disk has this limit where it were smaller. */
  minFreeDiskBytes?: number | undefined
  /** Do every step again. */
  noCache?: boolean | undefined
}

export interface WaitForBuildOptions extends CallOptions {
  /** Is called with each entry of the log as it comes. */
  onLog?: ((entry: BuildLogEntry) => unknown) | undefined
  /** After this `wait` fails; the build goes on. */
  timeoutMs?: number | undefined
}

export interface CopyOptions extends CallOptions {
  /** The owner, as `user` or `user:group`; default is the user of the steps. */
  user?: string | undefined
  /** Other permission bits for all of it. */
  mode?: number | undefined
}

export interface BuildLogOptions extends CallOptions {
  /** The first entry that is wanted. */
  offset?: number | undefined
  /** This level and above. */
  level?: BuildLogEntry['level'] | undefined
}

/** The templates of a server, and builds of new ones. */
export class Templates {
  readonly #client: Client

  constructor(client: Client = defaultClient()) {
    this.#client = client
  }

  /** Builds a template and waits for it; fails with `TemplateBuildFailedError`, which has the reason and the end of the log. */
  async build(name: string, options: BuildOptions & WaitForBuildOptions = {}): Promise<TemplateBuild> {
    const { onLog, timeoutMs, signal, ...wanted } = options
    const build = await this.startBuild(name, { ...wanted, signal })
    return this.wait(build.id, { onLog, timeoutMs, signal })
  }

  /** Begins a build, and does not wait. `name`: among one's own; `NAME:TAG` names a tag too. */
  async startBuild(name: string, options: BuildOptions = {}): Promise<TemplateBuild> {
    const { image, registry, template, steps = [], tags, start, ready, cpus, memoryBytes, minFreeDiskBytes, noCache, signal } = options
    return parseBuild(await call(this.#client, 'POST /v1/template-builds', {
      json: {
        name, image, registry, template, steps, tags, start, ready, cpus, memory_bytes: memoryBytes, min_free_disk_bytes: minFreeDiskBytes, no_cache: noCache,
      },
      signal,
    }))
  }

  /** A build when it is ready; fails as `build` does. */
  async wait(build: string, options: WaitForBuildOptions = {}): Promise<TemplateBuild> {
    const { onLog, timeoutMs, signal } = options
    const deadline = timeoutMs === undefined ? Infinity : Date.now() + timeoutMs
    for (let seen = 0; ;) {
      const now = await this.getBuild(build, { signal })
      if (onLog) {
        // After the state: a finished build has its whole log.
        for await (const entry of this.log(build, { offset: seen, signal })) {
          seen += 1
          onLog(entry)
        }
      }
      if (now.state === 'failed') throw await this.#failed(now, signal)
      if (now.finished) return now
      if (Date.now() >= deadline) {
        throw new WaitTimeoutError(`build ${build} of template ${now.name} is ${now.state} after ${timeoutMs} ms`, { hint: 'it goes on: wait again' })
      }
      await sleep(ASKED_EVERY_MS, signal)
    }
  }

  async #failed(build: TemplateBuild, signal: AbortSignal | undefined): Promise<TemplateBuildFailedError> {
    const lines: string[] = []
    for await (const entry of this.log(build.id, { signal })) lines.push(`\n    ${entry.message}`)
    const where = build.step ? ` at step ${build.step}` : ''
    const reason = build.reason ?? 'no reason is known'
    return new TemplateBuildFailedError(`the build ${build.id} of template ${build.name} failed${where}: ${reason}${lines.slice(-SHOWN_LINES).join('')}`, {
      code: 'template_build_failed', details: { build: build.id, step: build.step, reason: build.reason },
    })
  }

  /** Uploads a file, or what is in a directory, and returns the step that copies it to the path `to`. With a slash at its end `to` is a directory. */
  async copy(local: string, to: string, options: CopyOptions = {}): Promise<BuildStep> {
    const { user, mode, signal } = options
    const { packForCopy } = await nodePlatform('copying files of this host into a template')
    const { name, archive } = await packForCopy(local)
    const files = await this.upload(archive, { signal })
    return { kind: 'copy', files, from: name, to, user, mode: mode?.toString(8).padStart(4, '0') }
  }

  /** Sends a tar archive for steps that copy, and returns the hash by which they name it. */
  async upload(archive: Uint8Array, options: CallOptions = {}): Promise<string> {
    const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', archive as Uint8Array<ArrayBuffer>))
    const hash = Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('')
    await request(this.#client, 'PUT /v1/template-files/{hash}', {
      at: { hash }, body: archive, repeatable: true, patienceMs: LONG_PATIENCE_MS, signal: options.signal,
    })
    return hash
  }

  /** One's own, and those of the owner of the host. */
  async list(options: CallOptions = {}): Promise<TemplateInfo[]> {
    const { templates } = await call(this.#client, 'GET /v1/templates', { signal: options.signal })
    return templates.map(parseTemplate)
  }

  /** One of one's own, by name or id. */
  async get(template: string, options: CallOptions = {}): Promise<TemplateInfo> {
    return parseTemplate(await call(this.#client, 'GET /v1/templates/{template}', { at: { template }, signal: options.signal }))
  }

  /** Deletes one of one's own with its builds. */
  async delete(template: string, options: CallOptions = {}): Promise<void> {
    const asked = { at: { template }, patienceMs: LONG_PATIENCE_MS, signal: options.signal }
    await request(this.#client, 'DELETE /v1/templates/{template}', asked)
  }

  /** All that are kept, the newest first. */
  async builds(options: CallOptions = {}): Promise<TemplateBuild[]> {
    const found: TemplateBuild[] = []
    const asked = { query: { limit: 1000 }, signal: options.signal }
    for await (const item of pages(this.#client, 'GET /v1/template-builds', 'builds', asked)) found.push(parseBuild(item))
    return found
  }

  /** As it is now. */
  async getBuild(build: string, options: CallOptions = {}): Promise<TemplateBuild> {
    return parseBuild(await call(this.#client, 'GET /v1/template-builds/{build}', { at: { build }, signal: options.signal }))
  }

  /** The log of a build so far. */
  async *log(build: string, options: BuildLogOptions = {}): AsyncGenerator<BuildLogEntry> {
    const { level, signal } = options
    for (let offset = options.offset ?? 0; ; offset += ENTRIES_OF_A_PAGE) {
      const asked = { at: { build }, query: { offset, limit: ENTRIES_OF_A_PAGE, level }, signal }
      const { entries } = await call(this.#client, 'GET /v1/template-builds/{build}/log', asked)
      for (const entry of entries) yield { at: new Date(entry.at_ms), level: entry.level, message: entry.message, step: entry.step ?? undefined }
      if (entries.length < ENTRIES_OF_A_PAGE) return
    }
  }
}

function parseTemplate(body: Schemas['Template']): TemplateInfo {
  const tags = Object.fromEntries((body.tags ?? []).map(({ tag, build }) => [tag, build]))
  return { name: body.name, id: body.id ?? undefined, tags, raw: body }
}

function parseBuild(body: Schemas['TemplateBuild']): TemplateBuild {
  return {
    id: body.id,
    template: body.template,
    name: body.name,
    tags: body.tags,
    state: body.state,
    createdAt: new Date(body.created_at_ms),
    finishedAt: typeof body.finished_at_ms === 'number' ? new Date(body.finished_at_ms) : undefined,
    reason: body.failure?.message,
    step: body.failure?.step ?? undefined,
    sizeBytes: body.size_bytes ?? undefined,
    finished: body.state === 'ready' || body.state === 'failed',
    raw: body,
  }
}
