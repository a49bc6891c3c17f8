/** Paddock as a provider of ComputeSDK: `compute.setConfig({ provider: paddock() })`. */

import { defineProvider, type CommandResult, type Provider, type RunCommandOptions } from '@computesdk/provider'
import { Client, type ClientOptions } from '../client.js'
import { SandboxEndedError, SandboxNotFoundError, UnsupportedError } from '../errors.js'
import type { Snapshot } from '../models.js'
import { Sandbox } from '../sandbox.js'
import type { CreateOptions } from '../create.js'
import { createOptions, MARK } from './computesdk-create.js'
import { templatesOf, type ComputeTemplate } from './computesdk-templates.js'

export type { ComputeTemplate, PaddockTemplateOptions } from './computesdk-templates.js'

export interface PaddockConfig extends ClientOptions {
  /** A client that exists already, instead of an address and a token. */
  client?: Client | undefined
  /** Of all its sandboxes; what a call of `create` says comes before. */
  defaults?: CreateOptions | undefined
}

const clients = new WeakMap<PaddockConfig, Client>()

function clientOf(config: PaddockConfig): Client {
  const known = config.client ?? clients.get(config)
  if (known) return known
  const { client: _client, defaults: _defaults, ...options } = config
  const made = new Client(options)
  clients.set(config, made)
  return made
}

/** A snapshot as ComputeSDK expects one. */
export interface ComputeSnapshot extends Snapshot {
  readonly provider: 'paddock'
}

const define = defineProvider<Sandbox, PaddockConfig, ComputeTemplate, ComputeSnapshot>({
  name: 'paddock',
  methods: {
    sandbox: {
      async create(config, options) {
        const sandbox = await Sandbox.create({ ...createOptions(config.defaults, options), client: clientOf(config), signal: options?.signal })
        return { sandbox, sandboxId: sandbox.id }
      },
      async getById(config, sandboxId) {
        try {
          const sandbox = await Sandbox.connect(sandboxId, { client: clientOf(config) })
          return sandbox.state === 'ended' ? null : { sandbox, sandboxId: sandbox.id }
        } catch (error) {
          if (error instanceof SandboxNotFoundError) return null
          throw error
        }
      },
      async list(config) {
        const found: { sandbox: Sandbox; sandboxId: string }[] = []
        for await (const sandbox of Sandbox.list({ client: clientOf(config), metadata: MARK })) {
          if (sandbox.state !== 'ended') found.push({ sandbox, sandboxId: sandbox.id })
        }
        return found
      },
      async destroy(config, sandboxId) {
        try {
          await (await Sandbox.connect(sandboxId, { client: clientOf(config) })).kill()
        } catch (error) {
          if (!(error instanceof SandboxNotFoundError) && !(error instanceof SandboxEndedError)) throw error
        }
      },
      runCommand: run,
      streamCommand: run,
      async getInfo(sandbox) {
        const info = await sandbox.info()
        const lasts = info.expiresAt ? info.expiresAt.getTime() - info.createdAt.getTime() : 0
        const status = info.state === 'ended' ? 'stopped' : 'running'
        return { id: info.id, provider: 'paddock', status, createdAt: info.createdAt, timeout: lasts, metadata: { ...info.metadata, state: info.state } }
      },
      async getUrl(sandbox, { port, protocol }) {
        const url = await sandbox.portUrl(port)
        return protocol ? url.replace(/^https?/, protocol) : url
      },
      getInstance: (sandbox) => sandbox,
      filesystem: {
        readFile: async (sandbox, path) => sandbox.files.read(path),
        writeFile: async (sandbox, path, content) => void (await sandbox.files.write(path, content)),
        mkdir: async (sandbox, path) => void (await sandbox.files.makeDirectory(path)),
        readdir: async (sandbox, path) =>
          (await sandbox.files.list(path)).map(({ name, kind, size, modifiedAt }) => ({
            name, type: kind === 'directory' ? 'directory' : 'file', size, modified: modifiedAt,
          })),
        exists: async (sandbox, path) => sandbox.files.exists(path),
        remove: async (sandbox, path) => sandbox.files.remove(path, { recursive: true }),
      },
    },
    template: templatesOf(clientOf),
    snapshot: {
      async create(config, sandboxId, options) {
        if (options?.metadata !== undefined) {
          throw new UnsupportedError('a snapshot of Paddock has no metadata', { hint: 'leave it out, or say it in the name' })
        }
        const sandbox = await Sandbox.connect(sandboxId, { client: clientOf(config) })
        return withProvider(await sandbox.snapshot({ name: options?.name }))
      },
      async list(config, options) {
        const all = await clientOf(config).snapshots()
        const fitting = options?.sandboxId ? all.filter((one) => one.sandbox === options.sandboxId) : all
        return fitting.slice(0, options?.limit).map(withProvider)
      },
      delete: async (config, snapshotId) => clientOf(config).deleteSnapshot(snapshotId),
    },
  },
})

/** A provider for ComputeSDK. Without an address it uses the server of the environment, started if need be. */
export function paddock(config: PaddockConfig = {}): Provider<Sandbox, ComputeTemplate, ComputeSnapshot> {
  return define(config)
}

function withProvider(snapshot: Snapshot): ComputeSnapshot {
  return { ...snapshot, provider: 'paddock' }
}

async function run(sandbox: Sandbox, command: string, options: RunCommandOptions = {}): Promise<CommandResult> {
  const began = Date.now()
  const { cwd, env, timeout: timeoutMs, background, onStdout, onStderr } = options
  if (background) {
    await sandbox.commands.start(command, { cwd, env, timeoutMs, openStdin: false })
    return { stdout: '', stderr: '', exitCode: 0, durationMs: Date.now() - began }
  }
  const { stdout, stderr, exitCode } = await sandbox.commands.run(command, { cwd, env, timeoutMs, onStdout, onStderr })
  return { stdout, stderr, exitCode, durationMs: Date.now() - began }
}
