/** Bodies made of what callers hand in. Nothing is sent for an option that is not there: the server's defaults hold. */

import { secondsOf } from './commands.js'
import { InvalidRequestError } from './errors.js'
import type { IdleAction, Snapshot, TtlAction, UnderPressure } from './models.js'
import { environment, nodePlatform } from './platform.js'
import type { Loose, Schemas } from './routes.js'

export interface Limits {
  /** A number of bytes, or text such as `256MiB`. */
  memory?: number | string | undefined
  disk?: number | string | undefined
  /** Kept of each output stream of each command, half from its head and half from its tail. */
  output?: number | string | undefined
  cpus?: number | undefined
  pids?: number | undefined
  openFiles?: number | undefined
  /** The longest time of a command. */
  execTimeoutMs?: number | undefined
}

/** `none` (default), `host`, or rules. */
export type NetworkRules = 'none' | 'host' | Loose<Schemas['NetLayer']>

/** Each of the two by itself. */
export interface PortSettings {
  /**
   * Ports that answer everybody who knows the sandbox's id, at `PORT-ID.DOMAIN` and without a token: `all`, or their numbers. Default: none.
   * Only where the server has `--public-ports`.
   */
  public?: 'all' | readonly number[] | undefined
  /** The `Host` that programs at ports are asked as, with `${PORT}` for the number. Default: `localhost:${PORT}`. */
  requestHost?: string | undefined
}

export interface Secret {
  /**
   * The value itself; or `from`: `env:NAME` and `file:PATH` are read here, `secret:NAME` and `resource:NAME.FIELD` are kept by the
   * server, which finds them itself.
   */
  value?: string | undefined
  from?: string | undefined
  /** Requests to these get the value. */
  hosts: readonly string[]
  /** The only header that carries it, or more headers than the usual ones for credentials. */
  header?: string | undefined
  headers?: readonly string[] | undefined
  /** Headers that the gate adds to requests to the hosts: `{ Authorization: 'Bearer {}' }`, where `{}` stands for the value. */
  inject?: Readonly<Record<string, string>> | undefined
}

export interface VolumeMount {
  name: string
  path: string
  mode?: 'ro' | 'rw' | undefined
  onFailure?: Schemas['OnFailure'] | undefined
  checkpointMs?: number | undefined
  version?: number | undefined
}

export interface CreateOptions {
  /** Named settings of the server; `code-interpreter` always exists. */
  template?: string | undefined
  /** A directory, an archive or a registry reference. */
  image?: string | undefined
  /** Begin with the files of a snapshot. */
  snapshot?: string | Snapshot | undefined
  /** With `snapshot`: begin with the contexts that it keeps. Default: where it can. */
  live?: boolean | undefined
  /** It ends so long from now, whatever happens. Default: an hour, and never with `persistent`. */
  ttlMs?: number | undefined
  /** What comes then: `kill` (default); or `pause` or `hibernate`: it then sleeps for 30 days, or until a call. */
  ttlAction?: TtlAction | undefined
  /** After so long without a running command, a stream and use of the processor comes `idleAction`. */
  idleMs?: number | undefined
  /** Default: `kill`. */
  idleAction?: IdleAction | undefined
  /** Left alone by the idle reaper and by `await using`. */
  persistent?: boolean | undefined
  /** It may, or may not, be hibernated when idle while the host is short of memory. */
  underPressure?: UnderPressure | undefined
  /** Of one's own, usable wherever an id is. */
  name?: string | undefined
  env?: Readonly<Record<string, string>> | undefined
  metadata?: Readonly<Record<string, string>> | undefined
  limits?: Limits | undefined
  network?: NetworkRules | undefined
  ports?: PortSettings | undefined
  /** Values that never enter: inside, the variable holds a placeholder. */
  secrets?: Readonly<Record<string, Secret>> | undefined
  /** Clients inside believe the certificates that the server's host believes. */
  hostCerts?: boolean | undefined
  /** As whom commands run: `agent` (default), `root`, a name of the image, UID or UID:GID. */
  user?: string | undefined
  cwd?: string | undefined
  /** A directory of this host, at /workspace. */
  workspace?: string | undefined
  /** Guarantees without which nothing is created, such as `memory-limit` or `own-kernel`. */
  require?: readonly string[] | undefined
  backend?: string | undefined
  hostname?: string | undefined
  /** Names in the workspace that stay read-only besides the built-in ones; `unprotect` lets go of those. */
  protect?: readonly string[] | undefined
  unprotect?: readonly string[] | undefined
  /** HOST[:INSIDE] paths of this host to show read-only; `write` those to show writable. */
  read?: readonly string[] | undefined
  write?: readonly string[] | undefined
  tmpfs?: readonly string[] | undefined
  /** Directories that outlive it: `{memory: '/data/memory', models: '/data/models:ro'}`, or a list. */
  volumes?: Readonly<Record<string, string>> | readonly VolumeMount[] | undefined
  /** Look at code before it runs; never weaker than the template's. */
  scan?: 'off' | 'warn' | 'deny' | undefined
  /** Modules that code may import, with those below them. Needs `scan`. */
  allowedImports?: readonly string[] | undefined
  /** Its code contexts can be forked as they stand. Default: where that is possible. */
  liveForks?: boolean | undefined
  /** Root inside may install packages and manage users, by capabilities over the sandbox's own files. Default: it has none. */
  rootMayInstall?: boolean | undefined
  /** The ordinary user inside may become root by `sudo`, without a password. Default: no process becomes another user. */
  becomeRoot?: boolean | undefined
  /** The audit keeps the output of commands and code, encrypted (default); with false only digests. */
  auditOutputs?: boolean | undefined
}

const KNOWN: ReadonlySet<string> = new Set([
  'template', 'image', 'snapshot', 'live', 'ttlMs', 'ttlAction', 'idleMs', 'idleAction', 'persistent', 'underPressure', 'name', 'env',
  'metadata', 'limits', 'network', 'ports', 'secrets', 'hostCerts', 'user', 'cwd', 'workspace', 'require', 'backend', 'hostname', 'protect', 'unprotect',
  'read', 'write', 'tmpfs', 'volumes', 'scan', 'allowedImports', 'liveForks', 'rootMayInstall', 'becomeRoot', 'auditOutputs', 'client',
  'signal',
])

export async function createBody(options: CreateOptions): Promise<Loose<Schemas['CreateSandbox']>> {
  // A misspelled `ttlMs` or `network` must not give a sandbox with other bounds than meant.
  checkNames('Sandbox.create', options, KNOWN)
  return {
    name: options.name,
    template: options.template,
    image: await imageOf(options.image),
    snapshot: typeof options.snapshot === 'object' ? options.snapshot.id : options.snapshot,
    backend: options.backend,
    require: listOf('require', options.require),
    ttl_seconds: secondsOf('ttlMs', options.ttlMs),
    ttl_action: options.ttlAction,
    idle: idleOf(options.idleMs, options.idleAction),
    persistent: options.persistent || undefined,
    under_pressure: options.underPressure,
    env: options.env,
    metadata: options.metadata,
    limits: limitsOf(options.limits),
    network: options.network,
    ports: portsOf(options.ports),
    secrets: await secretsOf(options.secrets),
    host_certs: options.hostCerts,
    user: options.user,
    cwd: options.cwd,
    hostname: options.hostname,
    workspace: options.workspace === undefined ? undefined : await absolute(options.workspace),
    protect: listOf('protect', options.protect),
    unprotect: listOf('unprotect', options.unprotect),
    read: await mountsOf('read', options.read),
    write: await mountsOf('write', options.write),
    tmpfs: listOf('tmpfs', options.tmpfs),
    volumes: volumesOf(options.volumes),
    scan: options.scan,
    allowed_imports: listOf('allowedImports', options.allowedImports),
    live_forks: options.liveForks,
    root_may_install: options.rootMayInstall,
    become_root: options.becomeRoot,
    audit_outputs: options.auditOutputs,
    live: options.live,
  }
}

export function checkNames(where: string, options: object, known: ReadonlySet<string>): void {
  for (const name of Object.keys(options)) {
    if (known.has(name)) continue
    const close = [...known].find((one) => one.toLowerCase().replace('ms', '') === name.toLowerCase().replace(/_|seconds|ms/g, ''))
    throw new InvalidRequestError(`${where} has no option '${name}'`, {
      hint: close ? `it is called ${close}` : `its options are ${[...known].join(', ')}`,
    })
  }
}

export function idleOf(ms: number | undefined, action: IdleAction | undefined): Schemas['Idle'] | undefined {
  return ms === undefined ? undefined : { seconds: secondsOf('idleMs', ms), action: action ?? 'kill' }
}

const LIMITS: ReadonlySet<string> = new Set(['memory', 'disk', 'output', 'cpus', 'pids', 'openFiles', 'execTimeoutMs'])

export function limitsOf(limits: Limits | undefined): Loose<Schemas['LimitsRequest']> | undefined {
  if (!limits) return undefined
  checkNames('limits', limits, LIMITS)
  return {
    memory_bytes: bytesOf('memory', limits.memory),
    disk_bytes: bytesOf('disk', limits.disk),
    output_bytes: bytesOf('output', limits.output),
    cpus: limits.cpus,
    pids: limits.pids,
    open_files: limits.openFiles,
    exec_timeout_seconds: secondsOf('execTimeoutMs', limits.execTimeoutMs),
  }
}

const PORTS: ReadonlySet<string> = new Set(['public', 'requestHost'])

export function portsOf(ports: PortSettings | undefined): Loose<Schemas['PortSettings']> | undefined {
  if (!ports) return undefined
  checkNames('ports', ports, PORTS)
  return { public: ports.public === 'all' ? 'all' : listOf('ports.public', ports.public), request_host: ports.requestHost }
}

/** As the command line reads sizes: k, m, g and t count in 1024, with or without `i` and `B`. */
function bytesOf(name: string, amount: number | string | undefined): number | undefined {
  if (typeof amount !== 'string') return amount
  const found = /^\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*$/i.exec(amount)
  if (!found) {
    throw new InvalidRequestError(`limits: ${name} is '${amount}', which is not a size`, {
      hint: "write a number of bytes, or text such as '256MiB' or '2G'",
    })
  }
  return Math.floor(Number(found[1]) * 1024 ** ' kmgt'.indexOf((found[2] as string).toLowerCase() || ' '))
}

export type SecretLayer = Loose<Schemas['SecretLayer']>

/** Values are read here: the server's environment and disk are not the caller's. */
async function secretsOf(secrets: CreateOptions['secrets']): Promise<Record<string, SecretLayer> | undefined> {
  if (!secrets) return undefined
  const made: Record<string, SecretLayer> = {}
  for (const [name, secret] of Object.entries(secrets)) made[name] = await secretOf(name, secret)
  return made
}

/** By name; null takes one away. */
export async function changedSecretsOf(
  secrets: Readonly<Record<string, Secret | null>> | undefined,
): Promise<Record<string, SecretLayer | null> | undefined> {
  if (!secrets) return undefined
  const made: Record<string, SecretLayer | null> = {}
  for (const [name, secret] of Object.entries(secrets)) made[name] = secret === null ? null : await secretOf(name, secret)
  return made
}

const SECRET: ReadonlySet<string> = new Set(['value', 'from', 'hosts', 'header', 'headers', 'inject'])

async function secretOf(name: string, secret: Secret): Promise<SecretLayer> {
  checkNames(`the secret ${name}`, secret, SECRET)
  const { value, from, hosts, header, headers, inject } = secret
  const kept = from !== undefined && /^(secret|resource):/.test(from)
  return { value: from === undefined || kept ? value : await valueOf(name, from), from: kept ? from : undefined, hosts, header, headers, inject }
}

async function valueOf(name: string, from: string): Promise<string> {
  const colon = from.indexOf(':')
  const [kind, where] = [from.slice(0, Math.max(colon, 0)), from.slice(colon + 1)]
  if (kind === 'file') return (await nodePlatform('a secret of a file')).readSecretFile(where)
  if (kind !== 'env') {
    throw new InvalidRequestError(`secret ${name}: 'from' is '${from}', and has to be env:NAME, file:PATH, secret:NAME or resource:NAME.FIELD`)
  }
  const value = environment(where)
  if (value === undefined) throw new InvalidRequestError(`secret ${name}: there is no variable '${where}'`)
  return value
}

function volumesOf(volumes: CreateOptions['volumes']): Loose<Schemas['VolumeMount']>[] | undefined {
  if (!volumes) return undefined
  if (Array.isArray(volumes)) return (volumes as readonly VolumeMount[]).map(mountOf)
  return Object.entries(volumes as Readonly<Record<string, string>>).map(([name, place]) => {
    const colon = place.lastIndexOf(':')
    const [path, mode] = colon < 0 ? [place, 'rw'] : [place.slice(0, colon), place.slice(colon + 1)]
    if (mode === 'ro' || mode === 'rw') return { name, path, mode }
    throw new InvalidRequestError(`volume ${name}: '${mode}' is no mode`, { hint: 'write PATH, PATH:ro or PATH:rw' })
  })
}

function mountOf(mount: VolumeMount): Loose<Schemas['VolumeMount']> {
  return {
    name: mount.name,
    path: mount.path,
    mode: mount.mode,
    on_failure: mount.onFailure,
    checkpoint_seconds: secondsOf('checkpointMs', mount.checkpointMs),
    version: mount.version,
  }
}

async function absolute(path: string): Promise<string> {
  return (await nodePlatform('a path of this host')).absolutePath(path)
}

/** HOST[:INSIDE] with an absolute HOST. */
async function mountsOf(name: string, mounts: readonly string[] | undefined): Promise<string[] | undefined> {
  const made: string[] = []
  for (const mount of listOf(name, mounts) ?? []) {
    const [host, ...inside] = mount.split(':')
    made.push([await absolute(host as string), ...inside].join(':'))
  }
  return mounts && made
}

/** A registry reference as it is; text that is spelled as a path becomes absolute. */
async function imageOf(image: string | undefined): Promise<string | undefined> {
  return image !== undefined && /^(\.{0,2}\/|~|\.{1,2}$)/.test(image) ? absolute(image) : image
}

/** A single text where a list belongs would be taken apart into letters. */
export function listOf<T extends string | number>(name: string, values: readonly T[] | undefined): T[] | undefined {
  if (values === undefined) return undefined
  if (Array.isArray(values)) return [...values]
  throw new InvalidRequestError(`${name} is ${JSON.stringify(values)}, not a list`, { hint: `write ${name}: [${JSON.stringify(values)}]` })
}
