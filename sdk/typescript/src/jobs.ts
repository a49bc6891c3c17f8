/** Work that is described once, queued, and outlives its sender. */

import { defaultClient, LONG_PATIENCE_MS, type CallOptions, type Client } from './client.js'
import { secondsOf, type Command } from './commands.js'
import { WaitTimeoutError } from './errors.js'
import { dateOf, parseChange, type Change, type Snapshot } from './models.js'
import { parseOutputLine, type OutputEvent } from './output.js'
import { call, lines, pages, request, type Loose, type Schemas } from './routes.js'
import type { Sandbox } from './sandbox.js'

/** The fields of a job's file, in the same words. */
export type JobSpec = Schemas['JobSpec']
export type JobArtifact = Schemas['JobArtifact']
export type JobState = Schemas['JobState']

/** The longest wait of the server within one request. */
const WAIT_MS = 30_000
/** The server says a word on a silent stream every 15 s. */
const SILENCE_MS = 60_000

export interface JobInfo {
  readonly id: string
  readonly name: string | undefined
  readonly tenant: string
  readonly state: JobState
  /** It stays as it is. */
  readonly ended: boolean
  /** Why it failed or was cancelled. */
  readonly reason: string | undefined
  readonly createdAt: Date
  readonly endedAt: Date | undefined
  /** How many tasks: `total`, and those in each state. */
  readonly tasks: Schemas['JobCounts']
  /** Of all attempts together: `attempts`, `wall_ms`, `cpu_ms`, `peak_memory_bytes`. */
  readonly cost: Schemas['JobCost']
  /** The winner of a `bestOf`. */
  readonly best: JobBest | undefined
  readonly raw: Schemas['Job']
}

export interface JobBest {
  /** The candidate's number, from 0. */
  readonly index: number
  readonly score: number
  /** Its changes; the patch is the artifact `changes.patch` of its task. */
  readonly changes: readonly Change[]
}

export interface JobTask {
  readonly job: string
  readonly index: number
  readonly state: JobState
  readonly reason: string | undefined
  readonly exitCode: number | undefined
  /** The answer of a script, or the value of the code's last expression. */
  readonly result: unknown
  /** Of a candidate: its verifier's word. */
  readonly score: number | undefined
  /** The last 4 KiB that the last attempt printed. */
  readonly stdout: string
  readonly stderr: string
  readonly attempts: readonly Schemas['JobAttempt'][]
  readonly artifacts: readonly JobArtifact[]
  readonly raw: Schemas['JobTask']
}

/** One try of `bestOf`: a command or code. */
export type Candidate = { command: Command } | { code: string; language?: string | undefined }

export interface BestOfOptions extends CallOptions {
  /** The state that all candidates begin with: a sandbox (as it is now), a snapshot, a template or an image. */
  sandbox?: Sandbox | string | undefined
  snapshot?: Snapshot | string | undefined
  template?: string | undefined
  image?: string | undefined
  /** Runs in the sandbox of each candidate, when that has ended. */
  verifier: { command: Command; score?: 'exit' | 'json' | undefined; timeoutMs?: number | undefined }
  /** `first_pass` (default): the first that passes wins; `best_score`: all run, the highest score wins. */
  rule?: 'first_pass' | 'best_score' | undefined
  /** With `best_score`: one that has so much wins at once. */
  enough?: number | undefined
  /** Of one candidate. */
  timeoutMs?: number | undefined
  parallelism?: number | undefined
  name?: string | undefined
}

/** The jobs of a server. */
export class Jobs {
  readonly #client: Client

  constructor(client: Client = defaultClient()) {
    this.#client = client
  }

  /** Sends a job; from then on it runs, whatever becomes of this program. */
  async submit(spec: Loose<JobSpec>, options: CallOptions = {}): Promise<JobInfo> {
    return parseJob(await call(this.#client, 'POST /v1/jobs', { json: spec, idempotent: true, signal: options.signal }))
  }

  /** Sends a job and waits for its end. */
  async run(spec: Loose<JobSpec>, options: CallOptions & { timeoutMs?: number | undefined } = {}): Promise<JobInfo> {
    return this.wait((await this.submit(spec, options)).id, options)
  }

  /** Sends several candidates that begin with one state, and waits until the best is known: `best` of the answer. */
  async bestOf(candidates: readonly Candidate[], options: BestOfOptions): Promise<JobInfo> {
    const { verifier, sandbox, snapshot } = options
    const spec: Loose<JobSpec> = {
      name: options.name,
      template: options.template,
      image: options.image,
      snapshot: typeof snapshot === 'object' ? snapshot.id : snapshot,
      parallelism: options.parallelism,
      timeout_seconds: secondsOf('timeoutMs', options.timeoutMs),
      best_of: {
        sandbox: typeof sandbox === 'object' ? sandbox.id : sandbox,
        candidates,
        rule: options.rule,
        enough: options.enough,
        verifier: { command: verifier.command, score: verifier.score, timeout_seconds: secondsOf('timeoutMs', verifier.timeoutMs) },
      },
    }
    return this.run(spec, { signal: options.signal })
  }

  /** As it is now. */
  async get(job: string, options: CallOptions = {}): Promise<JobInfo> {
    return parseJob(await call(this.#client, 'GET /v1/jobs/{job}', { at: { job }, signal: options.signal }))
  }

  /** All of one's own, the newest first. */
  async *list(options: CallOptions & { state?: JobState | undefined } = {}): AsyncGenerator<JobInfo> {
    const { state, signal } = options
    for await (const item of pages(this.#client, 'GET /v1/jobs', 'jobs', { query: { limit: 200, state }, signal })) yield parseJob(item)
  }

  /** As it is when it has ended; throws `WaitTimeoutError` where that takes longer than the given time. */
  async wait(job: string, options: CallOptions & { timeoutMs?: number | undefined } = {}): Promise<JobInfo> {
    const { timeoutMs, signal } = options
    const deadline = timeoutMs === undefined ? Number.POSITIVE_INFINITY : Date.now() + timeoutMs
    while (true) {
      const left = Math.max(0, Math.min(WAIT_MS, deadline - Date.now()))
      const info = parseJob(await call(this.#client, 'GET /v1/jobs/{job}', {
        at: { job }, query: { wait_seconds: Math.round(left) / 1000 }, patienceMs: left + SILENCE_MS, signal,
      }))
      if (info.ended) return info
      if (Date.now() >= deadline) {
        throw new WaitTimeoutError(`job ${job} is ${info.state} after ${timeoutMs} ms`, { hint: 'wait again, or cancel() it' })
      }
    }
  }

  /** Its tasks in their order, with their attempts. */
  async *tasks(job: string, options: CallOptions & { state?: JobState | undefined } = {}): AsyncGenerator<JobTask> {
    for (let from: number | undefined = 0; from !== undefined; ) {
      const page: Schemas['JobTaskPage'] = await call(this.#client, 'GET /v1/jobs/{job}/tasks', {
        at: { job }, query: { limit: 1000, from, state: options.state }, signal: options.signal,
      })
      yield* page.tasks.map(parseTask)
      from = page.next ?? undefined
    }
  }

  async task(job: string, index = 0, options: CallOptions = {}): Promise<JobTask> {
    return parseTask(await call(this.#client, 'GET /v1/jobs/{job}/tasks/{index}', { at: { job, index }, signal: options.signal }))
  }

  /** The output of a task, in its order; with `follow` until its end. */
  async *logs(
    job: string, options: CallOptions & { task?: number; attempt?: number | undefined; follow?: boolean } = {},
  ): AsyncGenerator<OutputEvent> {
    const { task = 0, attempt, follow = false, signal } = options
    const output = lines(this.#client, 'GET /v1/jobs/{job}/logs', {
      at: { job }, query: { task, attempt, follow }, patienceMs: SILENCE_MS, signal,
    })
    for await (const line of output) {
      const event = parseOutputLine(line)
      if (event) yield event
    }
  }

  /** The files that its tasks left. */
  async artifacts(job: string, options: CallOptions & { task?: number | undefined } = {}): Promise<JobArtifact[]> {
    const { task, signal } = options
    return (await call(this.#client, 'GET /v1/jobs/{job}/artifacts', { at: { job }, query: { task }, signal })).artifacts
  }

  /** The content of one of them. */
  async readArtifact(job: string, path: string, options: CallOptions & { task?: number } = {}): Promise<Uint8Array> {
    const { task = 0, signal } = options
    const answer = await request(this.#client, 'GET /v1/jobs/{job}/artifacts/content', {
      at: { job }, query: { path, task }, patienceMs: LONG_PATIENCE_MS, signal,
    })
    return answer.bytes
  }

  /** Waiting tasks are not begun, running ones are stopped. */
  async cancel(job: string, options: CallOptions = {}): Promise<JobInfo> {
    const asked = { at: { job }, repeatable: true, patienceMs: LONG_PATIENCE_MS, signal: options.signal }
    return parseJob(await call(this.#client, 'POST /v1/jobs/{job}/cancel', asked))
  }

  /** Forgets one that has ended, with its artifacts. */
  async remove(job: string, options: CallOptions = {}): Promise<void> {
    await request(this.#client, 'DELETE /v1/jobs/{job}', { at: { job }, signal: options.signal })
  }
}

function parseJob(body: Schemas['Job']): JobInfo {
  const best = body.best
  return {
    id: body.id,
    name: body.name ?? undefined,
    tenant: body.tenant,
    state: body.state,
    ended: ['succeeded', 'failed', 'cancelled'].includes(body.state),
    reason: body.reason ?? undefined,
    createdAt: new Date(body.created_at_ms),
    endedAt: dateOf(body.ended_at_ms),
    tasks: body.tasks,
    cost: body.cost,
    best: best ? { index: best.index, score: best.score, changes: best.changes.map(parseChange) } : undefined,
    raw: body,
  }
}

function parseTask(body: Schemas['JobTask']): JobTask {
  return {
    job: body.job,
    index: body.index,
    state: body.state,
    reason: body.reason ?? undefined,
    exitCode: body.exit_code ?? undefined,
    result: body.result ?? undefined,
    score: body.score ?? undefined,
    stdout: body.stdout,
    stderr: body.stderr,
    attempts: body.attempts,
    artifacts: body.artifacts,
    raw: body,
  }
}
