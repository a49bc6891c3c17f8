/** Paddock as a provider of ComputeSDK: `compute.setConfig({ provider: paddock() })`. */

import {
  defineProvider, type CommandResult, type CreateSandboxOptions, type CreateTemplateOptions, type Provider, type RunCommandOptions,
} from '@computesdk/provider'
import { Client, type ClientOptions } from '../client.js'
import type { CreateOptions, Limits } from '../create.js'
import { InvalidRequestError, UnsupportedError } from '../errors.js'
import { findLiving, unlessGone } from '../living.js'
import type { Snapshot } from '../models.js'
import { Sandbox } from '../sandbox.js'
import { Templates } from '../templates.js'

export interface PaddockConfig extends ClientOptions {
  /** A client that exists already, instead of an address and a token. */
  client?: Client | undefined
  /** Of all its sandboxes; what a call of `create` says comes before. */
  defaults?: CreateOptions | undefined
}

/** Sandboxes end after so long where neither the call nor the defaults say otherwise. */
const TIMEOUT_MS = 300_000
const MEBIBYTE = 1024 * 1024
/** By this the sandboxes of ComputeSDK are told from others of the same server. */
const MARK = { 'computesdk.provider': 'paddock' }

/** The templates that every server has come with these. */
const RUNTIMES = new Set(['node', 'nodejs', 'javascript', 'typescript', 'python', 'python3', 'bash', 'sh', 'shell'])

/** One limit, in the words of several vendors. Of two that are named with different values neither is taken. */
const CPUS = ['cpus', 'vcpus', 'cpu', 'cpuLimit'] as const
const MEBIBYTES = ['memoryMiB', 'memMiB', 'memoryMb', 'memory'] as const

/**
 * `provider` and `signal` are for ComputeSDK and for the request, and no part of the sandbox. Of `ports` nothing has to be said: `getUrl` has
 * an address for every port.
 */
const TAKEN: ReadonlySet<string> = new Set([
  ...CPUS, ...MEBIBYTES, 'diskMiB', 'resources', 'timeout', 'templateId', 'image', 'snapshotId', 'name', 'directory', 'envs', 'metadata', 'runtime',
  'ports', 'provider', 'signal',
])

/** Why another vendor's option has no meaning here. */
const REFUSED: Readonly<Record<string, string>> = {
  namespace: 'a token of another tenant has sandboxes of its own; `metadata` tells them apart within one',
  size: 'say it in numbers: `cpus`, `memoryMiB`, `diskMiB`',
  vmTier: 'say it in numbers: `cpus`, `memoryMiB`, `diskMiB`',
  deploymentPlan: 'say it in numbers: `cpus`, `memoryMiB`, `diskMiB`',
  launch_parameters: 'say it in numbers: `cpus`, `memoryMiB`, `diskMiB`',
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

/** How a template is built: from an image of a registry, or from another template. */
export interface PaddockTemplateOptions extends CreateTemplateOptions {
  image?: string | undefined
  template?: string | undefined
  /** Lines for the shell, one after the other. */
  commands?: readonly string[] | undefined
  signal?: AbortSignal | undefined
}

export interface ComputeTemplate {
  /** For `templateId` of a create. */
  readonly id: string
  readonly name: string
  readonly provider: 'paddock'
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
        const sandbox = await findLiving(sandboxId, { client: clientOf(config) })
        return sandbox ? { sandbox, sandboxId: sandbox.id } : null
      },
      async list(config) {
        const found: { sandbox: Sandbox; sandboxId: string }[] = []
        for await (const sandbox of Sandbox.list({ client: clientOf(config), metadata: MARK })) {
          if (sandbox.state !== 'ended') found.push({ sandbox, sandboxId: sandbox.id })
        }
        return found
      },
      async destroy(config, sandboxId) {
        const sandbox = await findLiving(sandboxId, { client: clientOf(config) })
        if (sandbox) await unlessGone(sandbox.kill())
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
    template: {
      create: async (config, options) => buildTemplate(clientOf(config), options),
      async list(config, options) {
        const all = (await clientOf(config).templates()).map(templateOf)
        return options?.limit === undefined ? all : all.slice(0, options.limit)
      },
      delete: async (config, id) => new Templates(clientOf(config)).delete(id),
    },
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

async function buildTemplate(client: Client, options: PaddockTemplateOptions): Promise<ComputeTemplate> {
  const { name, image, template, commands = [], signal } = options
  if (options.description !== undefined || options.metadata !== undefined) {
    throw new UnsupportedError('a template of Paddock has no description and no metadata', { hint: 'leave both out; the name says what it is' })
  }
  if ((image === undefined) === (template === undefined)) {
    throw new UnsupportedError(`the template ${name} has nothing to begin with`, { hint: 'name either an `image` of a registry or another `template`' })
  }
  await new Templates(client).build(name, { image, template, steps: commands.map((command) => ({ kind: 'run', command })), signal })
  return templateOf(name)
}

function templateOf(name: string): ComputeTemplate {
  return { id: name, name, provider: 'paddock' }
}

/** What a create asks for, as Paddock says it. An option that Paddock cannot keep is refused by its name. */
function createOptions(defaults: CreateOptions | undefined, options: CreateSandboxOptions = {}): CreateOptions {
  check(options)
  const metadata = Object.entries(options.metadata ?? {}).map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)])
  return {
    ttlMs: TIMEOUT_MS,
    ...defaults,
    ...(options.timeout === undefined ? {} : { ttlMs: options.timeout }),
    ...(options.templateId === undefined ? {} : { template: options.templateId }),
    ...(options.image === undefined ? {} : { image: options.image }),
    ...(options.snapshotId === undefined ? {} : { snapshot: options.snapshotId }),
    ...(options.name === undefined ? {} : { name: options.name }),
    ...(options.directory === undefined ? {} : { cwd: options.directory }),
    env: { ...defaults?.env, ...options.envs },
    metadata: { ...defaults?.metadata, ...Object.fromEntries(metadata), ...MARK },
    limits: { ...defaults?.limits, ...limitsOf(options) },
  }
}

/** What would be left out without a word is refused. */
function check(options: CreateSandboxOptions): void {
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || TAKEN.has(name)) continue
    const hint = REFUSED[name] ?? `it takes ${[...TAKEN].join(', ')}; \`defaults\` of the provider takes all that Sandbox.create does`
    throw new UnsupportedError(`a sandbox of Paddock has no option ${JSON.stringify(name)}`, { hint })
  }
  checkPorts(options['ports'])
  const begins = options.image ?? options.templateId ?? options.snapshotId
  if (options.runtime !== undefined && begins === undefined && !RUNTIMES.has(String(options.runtime).toLowerCase())) {
    throw new UnsupportedError(`no template comes with the runtime ${JSON.stringify(options.runtime)}`, { hint: 'name an `image` or a `templateId` that has it' })
  }
}

function checkPorts(ports: unknown): void {
  if (ports === undefined) return
  const wrong = Array.isArray(ports) ? ports.find((port) => !Number.isInteger(port) || port < 1 || port > 65535) : ports
  if (wrong !== undefined) throw new InvalidRequestError(`ports has ${JSON.stringify(wrong)}, which is not a port`, { hint: 'give a list of numbers from 1 to 65535' })
}

function limitsOf(options: CreateSandboxOptions): Limits {
  const { vcpus: ofResources, ...others } = options.resources ?? {}
  const unknown = Object.entries(others).find(([, value]) => value !== undefined)
  if (unknown) throw new UnsupportedError(`a sandbox of Paddock has no option ${JSON.stringify(`resources.${unknown[0]}`)}`, { hint: 'of `resources` it takes `vcpus`' })
  const cpus = oneOf([...CPUS.map((name): [string, unknown] => [name, options[name]]), ['resources.vcpus', ofResources]])
  const mebibytes = oneOf(MEBIBYTES.map((name) => [name, options[name]]))
  const disk = oneOf([['diskMiB', options.diskMiB]])
  return {
    ...(cpus === undefined ? {} : { cpus }),
    ...(mebibytes === undefined ? {} : { memory: mebibytes * MEBIBYTE }),
    ...(disk === undefined ? {} : { disk: disk * MEBIBYTE }),
  }
}

function oneOf(named: readonly (readonly [string, unknown])[]): number | undefined {
  const given = named.filter(([, value]) => value !== undefined)
  for (const [name, value] of given) {
    if (typeof value !== 'number' || !(value > 0)) throw new InvalidRequestError(`${name} is ${JSON.stringify(value)}, not a number above 0`)
    const [first, amount] = given[0] as [string, number]
    if (value !== amount) throw new InvalidRequestError(`${first} is ${amount} and ${name} is ${value}, which are the same limit`, { hint: 'give one of them' })
  }
  return given[0]?.[1] as number | undefined
}
