/** Paddock as the sandbox of a Mastra workspace: `new Workspace({ sandbox: new PaddockSandbox() })`. */

import {
  MastraSandbox, ProcessHandle, SandboxNotReadyError, SandboxProcessManager, validateSandboxFileMode, type CommandResult, type MastraSandboxOptions,
  type ProcessInfo, type ProviderStatus, type SandboxFileInput, type SandboxInfo, type SandboxNetworking, type SandboxStartOptions,
  type SandboxCloneOptions, type SandboxStartResult, type SpawnProcessOptions, type WriteFilesOptions,
} from '@mastra/core/workspace'
import { defaultClient, type Client } from '../client.js'
import type { CreateOptions } from '../create.js'
import { ExecNotFoundError, SandboxNotFoundError, UnsupportedError } from '../errors.js'
import { awake, findLiving, isGone, unlessGone } from '../living.js'
import type { Snapshot } from '../models.js'
import { nameFor } from '../names.js'
import type { Process } from '../process.js'
import { call } from '../routes.js'
import { Sandbox } from '../sandbox.js'

export interface PaddockSandboxOptions extends Omit<MastraSandboxOptions, 'processes'> {
  /** The sandbox that was made for this id is used again if it is there. Default: a new one. */
  id?: string | undefined
  /** A sandbox that exists, by Paddock's own id; it is used, and none is made in its place. */
  sandboxId?: string | undefined
  /** What `snapshot()` writes, and what a new sandbox begins with where it was written. Default: `snapshot()` keeps one without a name. */
  checkpoint?: string | undefined
  /** What a new sandbox begins with as long as `checkpoint` was never written. It is never written here. */
  seedCheckpoint?: string | undefined
  /** How a new sandbox is made. */
  create?: Omit<CreateOptions, 'name'> | undefined
  /** Default: the server of the environment, started if need be. */
  client?: Client | undefined
}

/** What a sandbox may be called. */
const NAME = /^(?!sb-)[a-z0-9][a-z0-9._-]{0,63}$/

/**
 * A sandbox of Mastra. `stop` hibernates it, so that the next `start` finds its files; `destroy` ends it. Where it was ended by others, or by
 * its time to live, the next command starts a new one, which `onStart` is told.
 */
export class PaddockSandbox extends MastraSandbox {
  readonly id: string
  readonly name = 'PaddockSandbox'
  readonly provider = 'paddock'
  status: ProviderStatus = 'pending'
  /** `snapshot()` writes what a later sandbox can begin with. */
  override readonly supportsCheckpoints = true
  declare readonly processes: PaddockProcesses
  override readonly networking: SandboxNetworking = { getPortUrl: (port) => this.#portUrl(port) }
  readonly #client: Client
  readonly #create: Omit<CreateOptions, 'name'>
  readonly #sandboxId: string | undefined
  readonly #checkpoint: string | undefined
  readonly #seedCheckpoint: string | undefined
  #sandbox: Sandbox | undefined

  constructor(options: PaddockSandboxOptions = {}) {
    const { id, sandboxId, checkpoint, seedCheckpoint, create, client, ...rest } = options
    super({ ...rest, name: 'PaddockSandbox', processes: new PaddockProcesses() })
    this.id = id ?? `mastra-${crypto.randomUUID()}`
    this.#client = client ?? defaultClient()
    this.#create = create ?? {}
    this.#sandboxId = sandboxId
    this.#checkpoint = checkpoint
    this.#seedCheckpoint = seedCheckpoint
  }

  /** The sandbox of this package, once it has started. */
  get paddock(): Sandbox {
    if (!this.#sandbox) throw new SandboxNotReadyError(this.id)
    return this.#sandbox
  }

  override async start(options: SandboxStartOptions = {}): Promise<SandboxStartResult> {
    const signal = options.abortSignal
    const found = await this.#find(signal)
    if (found) {
      await awake(found, signal)
      this.#sandbox = found
      return { outcome: 'connected' }
    }
    if (this.#sandboxId !== undefined) {
      throw new SandboxNotFoundError(`the sandbox ${this.#sandboxId} is not there any more`, { hint: 'leave `sandboxId` out to make a new one' })
    }
    const snapshot = (await this.#lastOf(this.#checkpoint, signal)) ?? (await this.#lastOf(this.#seedCheckpoint, signal))
    const begin = snapshot === undefined ? {} : { snapshot }
    this.#sandbox = await Sandbox.create({ ...this.#create, ...begin, name: await nameFor(this.id, NAME), client: this.#client, signal })
    return { outcome: 'created' }
  }

  /** Another sandbox of the same settings. Nothing is made before its `start`. */
  clone(options: SandboxCloneOptions = {}): PaddockSandbox {
    const { id, sandboxId, env, workingDirectory, idleTimeoutMinutes, checkpointName, seedCheckpointName, actingUserId } = options
    const create = { ...this.#create }
    if (idleTimeoutMinutes !== undefined) create.idleMs = idleTimeoutMinutes * 60_000
    if (actingUserId !== undefined) create.metadata = { ...create.metadata, 'mastra.acting-user': actingUserId }
    return new PaddockSandbox({
      id,
      sandboxId,
      checkpoint: checkpointName,
      seedCheckpoint: seedCheckpointName ?? this.#seedCheckpoint,
      create,
      client: this.#client,
      env: { ...this.getEnv(), ...env },
      ...(workingDirectory ?? this.workingDirectory ? { workingDirectory: workingDirectory ?? this.workingDirectory } : {}),
    } as PaddockSandboxOptions)
  }

  override async stop(): Promise<void> {
    const sandbox = this.#sandbox
    if (sandbox) await unlessGone(sandbox.hibernate())
  }

  override async destroy(): Promise<void> {
    const sandbox = this.#sandbox ?? (await this.#find())
    this.#sandbox = undefined
    if (sandbox) await unlessGone(sandbox.kill())
  }

  override async writeFiles(files: SandboxFileInput[], options: WriteFilesOptions = {}): Promise<void> {
    for (const { mode } of files) if (mode !== undefined) validateSandboxFileMode(mode)
    await this.ensureRunning()
    await this.revived(async () => {
      for (const { path, content, mode } of files) await this.paddock.files.write(path, content, { mode, signal: options.abortSignal })
    })
  }

  override async snapshot(): Promise<void> {
    await this.ensureRunning()
    if (this.#checkpoint === undefined) return void (await this.paddock.snapshot())
    // The new one is there before the old ones go.
    const name = `${this.#checkpoint}.${Date.now()}`
    await this.paddock.snapshot({ name })
    for (const old of await this.#writtenAs(this.#checkpoint)) if (old.name !== name) await this.#client.deleteSnapshot(old)
  }

  /** Does it again with a new sandbox where the one that this object had is gone. */
  async revived<T>(action: () => Promise<T>): Promise<T> {
    const used = this.#sandbox
    try {
      return await action()
    } catch (error) {
      if (!isGone(error) || this.status === 'destroying' || this.status === 'destroyed') throw error
      // Another command may have begun to start one.
      if (used && this.#sandbox === used) {
        this.#sandbox = undefined
        this.status = 'stopped'
      }
      await this.ensureRunning()
      return action()
    }
  }

  override getInstructions(): string {
    const network = this.#sandbox?.lastInfo.guarantees['network']
    const reach = network === 'none' ? ' It has no network.' : network === 'gate' ? ' Only some hosts can be reached.' : ''
    return `Commands run in an isolated Linux sandbox, in ${this.workingDirectory ?? '/workspace'}. Files there stay between commands.${reach}`
  }

  override async getInfo(): Promise<SandboxInfo> {
    const info = await this.#sandbox?.info()
    return {
      id: this.id,
      name: this.name,
      provider: this.provider,
      status: this.status,
      createdAt: info?.createdAt ?? new Date(0),
      ...(info?.expiresAt ? { timeoutAt: info.expiresAt } : {}),
      metadata: info ? { sandboxId: info.id, state: info.state, ...info.metadata } : {},
    }
  }

  async #find(signal?: AbortSignal): Promise<Sandbox | undefined> {
    return findLiving(this.#sandboxId ?? (await nameFor(this.id, NAME)), { client: this.#client, signal })
  }

  async #lastOf(checkpoint: string | undefined, signal?: AbortSignal): Promise<Snapshot | undefined> {
    if (checkpoint === undefined) return undefined
    const written = await this.#writtenAs(checkpoint, signal)
    return written.sort((a, b) => a.createdAt.getTime() - b.createdAt.getTime()).at(-1)
  }

  /** Each carries its time behind the name, because names are unique. */
  async #writtenAs(checkpoint: string, signal?: AbortSignal): Promise<Snapshot[]> {
    const all = await this.#client.snapshots({ signal })
    return all.filter(({ name }) => name === checkpoint || (name?.startsWith(`${checkpoint}.`) && /^\d+$/.test(name.slice(checkpoint.length + 1))))
  }

  async #portUrl(port: number): Promise<string | null> {
    try {
      return await this.paddock.portUrl(port)
    } catch (error) {
      // A server that listens on a unix socket only has no address for others.
      if (error instanceof UnsupportedError) return null
      throw error
    }
  }
}

/** Processes of a sandbox; a process that is not known here is looked for in the sandbox. */
export class PaddockProcesses extends SandboxProcessManager<PaddockSandbox> {
  override async spawn(command: string, options: SpawnProcessOptions = {}): Promise<ProcessHandle> {
    const env = { ...this.env, ...options.env }
    // A signal, also one that is aborted already, ends the process: the caller gets a result that says so.
    const process = await this.sandbox.revived(() => this.sandbox.paddock.commands.start(command, {
      env: Object.fromEntries(Object.entries(env).filter((pair): pair is [string, string] => pair[1] !== undefined)),
      cwd: options.cwd ?? this.sandbox.workingDirectory,
      timeoutMs: options.timeout,
      openStdin: options.stdinMode !== 'ignore',
    }))
    const handle = new PaddockProcess(process, command, options)
    this._tracked.set(handle.pid, handle)
    return handle
  }

  override async list(): Promise<ProcessInfo[]> {
    const { execs } = await this.sandbox.revived(async () => {
      const { client, id } = this.sandbox.paddock
      return call(client, 'GET /v1/sandboxes/{id}/execs', { at: { id } })
    })
    return execs.map(({ exec, command, state, exit_code: exitCode }) => ({
      pid: String(exec), command, running: state !== 'ended', ...(typeof exitCode === 'number' ? { exitCode } : {}),
    }))
  }

  override async get(pid: string): Promise<ProcessHandle | undefined> {
    const tracked = this._tracked.get(pid)
    if (tracked || this._dismissed.has(pid) || !/^\d+$/.test(pid)) return tracked
    const process = this.sandbox.paddock.commands.connect(Number(pid))
    try {
      await process.poll()
    } catch (error) {
      // Of a sandbox that is gone all processes are.
      if (error instanceof ExecNotFoundError || isGone(error)) return undefined
      throw error
    }
    const handle = new PaddockProcess(process, undefined, {})
    this._tracked.set(pid, handle)
    return handle
  }
}

class PaddockProcess extends ProcessHandle {
  readonly pid: string
  exitCode: number | undefined
  readonly #process: Process
  readonly #done: Promise<CommandResult>
  #killed = false

  constructor(process: Process, command: string | undefined, options: SpawnProcessOptions) {
    super(options)
    this.#process = process
    this.pid = String(process.exec)
    if (command !== undefined) this.command = command
    this.#done = this.#follow()
    // A caller need not wait; an error is told to those who do.
    this.#done.catch(() => {})
    options.abortSignal?.addEventListener('abort', () => void this.kill().catch(() => {}), { once: true })
    if (options.abortSignal?.aborted) void this.kill().catch(() => {})
  }

  override async wait(options: Parameters<ProcessHandle['wait']>[0] = {}): Promise<CommandResult> {
    const { abortSignal } = options
    const stop = (): void => void this.kill().catch(() => {})
    abortSignal?.addEventListener('abort', stop, { once: true })
    if (abortSignal?.aborted) stop()
    try {
      return await this.#done
    } finally {
      abortSignal?.removeEventListener('abort', stop)
    }
  }

  async kill(): Promise<boolean> {
    if (this.exitCode !== undefined) return false
    this.#killed = true
    await this.#process.kill()
    return true
  }

  async sendStdin(data: string): Promise<void> {
    await this.#process.writeStdin(data)
  }

  override async closeStdin(): Promise<void> {
    await this.#process.closeStdin()
  }

  async #follow(): Promise<CommandResult> {
    const result = await this.#process.wait({ onStdout: (text) => this.emitStdout(text), onStderr: (text) => this.emitStderr(text) })
    this.exitCode = result.exitCode
    return {
      success: result.ok,
      exitCode: result.exitCode,
      stdout: this.stdout,
      stderr: this.stderr,
      executionTimeMs: (result.endedAt ?? new Date()).getTime() - result.startedAt.getTime(),
      timedOut: result.timedOut,
      killed: this.#killed || result.timedOut,
      stdoutTruncated: this.stdoutTruncated,
      stderrTruncated: this.stderrTruncated,
      stdoutDroppedBytes: this.stdoutDroppedBytes,
      stderrDroppedBytes: this.stderrDroppedBytes,
      ...(this.command === undefined ? {} : { command: this.command }),
    }
  }
}
