/** What a create of ComputeSDK asks for, as Paddock says it. An option that Paddock cannot keep is refused by its name. */

import type { CreateSandboxOptions } from '@computesdk/provider'
import type { CreateOptions, Limits } from '../create.js'
import { InvalidRequestError, UnsupportedError } from '../errors.js'

/** Sandboxes end after so long where neither the call nor the defaults say otherwise. */
const TIMEOUT_MS = 300_000
const MEBIBYTE = 1024 * 1024
/** By this the sandboxes of ComputeSDK are told from others of the same server. */
export const MARK = { 'computesdk.provider': 'paddock' }

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

export function createOptions(defaults: CreateOptions | undefined, options: CreateSandboxOptions = {}): CreateOptions {
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
