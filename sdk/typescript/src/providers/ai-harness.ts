/** Paddock as the sandbox of the Vercel AI SDK's harness: `new HarnessAgent({ sandbox: paddockSandbox(), ... })`. */

import {
  HarnessSandboxAuthenticationError, type HarnessV1NetworkPolicy, type HarnessV1NetworkSandboxSession, type HarnessV1PortEndpoint,
  type HarnessV1SandboxProvider,
} from '@ai-sdk/harness'
import type { Experimental_SandboxSession as AiSandboxSession } from 'ai'
import { defaultClient, type Client } from '../client.js'
import type { CreateOptions, NetworkRules } from '../create.js'
import {
  FileNotFoundError, ForbiddenError, NotADirectoryError, NotAFileError, SandboxEndedError, SnapshotNotFoundError,
  UnauthorizedError, UnsupportedError,
} from '../errors.js'
import { awake, unlessGone } from '../living.js'
import { nameFor } from '../names.js'
import type { Process } from '../process.js'
import { Sandbox } from '../sandbox.js'

export interface PaddockHarnessOptions {
  /** How sandboxes are made; `name` and `snapshot` are the harness's. */
  create?: Omit<CreateOptions, 'name' | 'snapshot'> | undefined
  /** Ports inside that adapters may connect to. */
  ports?: readonly number[] | undefined
  /**
   * How long the right to a port lasts that `getPortEndpoint` hands to an adapter. It opens that port of that sandbox and nothing else. At its end
   * the server closes what was opened by it, and refuses it with 403: the adapter asks `getPortEndpoint` for a new one. Default: a day, which is
   * the most that a server gives.
   */
  endpointMs?: number | undefined
  /** Default: the server of the environment, started if need be. */
  client?: Client | undefined
}

/**
 * What tools get as `experimental_sandbox`: by the types of `ai` 7, which have files looked at, listed and deleted and a process
 * with an input, and by those of the harness, which is pinned to an older version of them.
 */
export type PaddockRestrictedSession = AiSandboxSession & ReturnType<HarnessV1NetworkSandboxSession['restricted']>

/** A session of the harness that `generateText({ experimental_sandbox: session })` takes as well. */
export type PaddockSession = Omit<HarnessV1NetworkSandboxSession, 'restricted'> & PaddockRestrictedSession & {
  readonly restricted: () => PaddockRestrictedSession
}

export interface PaddockHarnessProvider extends HarnessV1SandboxProvider {
  readonly createSession: (options?: CreateSession) => Promise<PaddockSession>
  readonly resumeSession: (options: { sessionId: string; abortSignal?: AbortSignal }) => Promise<PaddockSession>
}

type CreateSession = NonNullable<Parameters<HarnessV1SandboxProvider['createSession']>[0]>

const PROVIDER = 'paddock'
const WORKING_DIRECTORY = '/workspace'
const DAY_MS = 86_400_000
/** So long that a name stays one with the beginning that it gets. */
const READABLE = /^[a-z0-9][a-z0-9-]{0,39}$/

/** A provider of sandboxes for the harness. What a template of the harness installs once is kept as a snapshot. */
export function paddockSandbox(options: PaddockHarnessOptions = {}): PaddockHarnessProvider {
  const client = (): Client => options.client ?? defaultClient()
  return {
    specificationVersion: 'harness-sandbox-v1',
    providerId: PROVIDER,
    createSession: async (asked = {}) => authenticated(() => create(client(), options, asked)),
    resumeSession: async ({ sessionId, abortSignal }) =>
      authenticated(async () => {
        const sandbox = await Sandbox.connect(await nameOf(sessionId), { client: client(), signal: abortSignal })
        if (sandbox.state === 'ended') throw new SandboxEndedError(`the sandbox of the session ${sessionId} has ended`)
        await awake(sandbox, abortSignal)
        return sessionOf(sandbox, options)
      }),
  }
}

async function create(client: Client, options: PaddockHarnessOptions, asked: CreateSession): Promise<PaddockSession> {
  const { sessionId, identity, onFirstCreate, abortSignal: signal } = asked
  const plain: CreateOptions = { ...options.create, cwd: options.create?.cwd ?? WORKING_DIRECTORY }
  const named: CreateOptions = sessionId === undefined ? plain : { ...plain, name: await nameOf(sessionId) }
  if (identity === undefined || !onFirstCreate) {
    const sandbox = await Sandbox.create({ ...named, client, signal })
    if (onFirstCreate) await prepared(sandbox, onFirstCreate, signal)
    return sessionOf(sandbox, options)
  }
  const snapshot = await snapshotOf(identity)
  try {
    return sessionOf(await Sandbox.create({ ...named, snapshot, client, signal }), options)
  } catch (error) {
    if (!(error instanceof SnapshotNotFoundError)) throw error
  }
  const sandbox = await Sandbox.create({ ...named, client, signal })
  await prepared(sandbox, onFirstCreate, signal)
  // Another session may have been quicker with the same snapshot; then its one serves.
  await sandbox.snapshot({ name: snapshot, signal }).catch((error: { code?: string }) => {
    if (error.code !== 'name_taken') throw error
  })
  return sessionOf(sandbox, options)
}

/** A sandbox whose preparation fails is of no use to anybody. */
async function prepared(sandbox: Sandbox, action: NonNullable<CreateSession['onFirstCreate']>, signal: AbortSignal | undefined): Promise<void> {
  try {
    await action(restrictedOf(sandbox), signal ? { abortSignal: signal } : {})
  } catch (error) {
    await sandbox.kill().catch(() => {})
    throw error
  }
}

function sessionOf(sandbox: Sandbox, { ports = [], endpointMs = DAY_MS }: PaddockHarnessOptions): PaddockSession {
  let exposed = [...ports]
  const urlOf = async ({ port, protocol }: { port: number; protocol?: string }): Promise<string> => {
    const url = await sandbox.portUrl(port)
    return protocol === 'ws' ? url.replace(/^http/, 'ws') : url
  }
  return {
    ...restrictedOf(sandbox),
    id: sandbox.name ?? sandbox.id,
    defaultWorkingDirectory: WORKING_DIRECTORY,
    get ports() {
      return exposed
    },
    getPortEndpoint: async (asked): Promise<HarnessV1PortEndpoint> => {
      const url = await urlOf(asked)
      // The token of this program would open all sandboxes of its tenant to the adapter.
      const { token } = await sandbox.signPort(asked.port, { expiresMs: endpointMs })
      return { url, headers: { authorization: `Bearer ${token}` } }
    },
    getPortUrl: urlOf,
    stop: async () => unlessGone(sandbox.hibernate()),
    destroy: async () => unlessGone(sandbox.kill()),
    setNetworkPolicy: async (policy) => setRules(sandbox, policy),
    setPorts: async (chosen) => {
      exposed = [...chosen]
    },
    restricted: () => restrictedOf(sandbox),
  }
}

/** A sandbox has its link to the gate from its creation, or never. Without a link all is denied already. */
async function setRules(sandbox: Sandbox, policy: HarnessV1NetworkPolicy): Promise<void> {
  const { network } = sandbox.lastInfo.guarantees
  if (network === 'gate') return void (await sandbox.update({ network: rulesOf(policy) }))
  if (network === 'none' && policy.mode === 'deny-all') return
  const made = network === 'none' ? 'without a network' : 'with the network of its host'
  throw new UnsupportedError(`the sandbox ${sandbox.id} was made ${made}, so that the policy ${policy.mode} cannot be set`, {
    hint: 'make it with rules, which can be changed: paddockSandbox({ create: { network: { allow: [] } } }) denies all at first',
  })
}

function restrictedOf(sandbox: Sandbox): PaddockRestrictedSession {
  const { files, commands } = sandbox
  return {
    description: `An isolated Linux sandbox of Paddock. Commands run in ${WORKING_DIRECTORY} with /bin/sh.`,
    readFile: async ({ path, abortSignal: signal }) => orNull(files.read(path, { format: 'stream', signal })),
    readBinaryFile: async ({ path, abortSignal: signal }) => orNull(files.read(path, { format: 'bytes', signal })),
    readTextFile: async ({ path, abortSignal: signal, encoding = 'utf-8', startLine, endLine }) => {
      const bytes = await orNull(files.read(path, { format: 'bytes', signal }))
      return bytes && linesOf(new TextDecoder(encoding).decode(bytes), startLine, endLine)
    },
    writeFile: async ({ path, content, abortSignal: signal }) => void (await files.write(path, content, { signal })),
    writeBinaryFile: async ({ path, content, abortSignal: signal }) => void (await files.write(path, content, { signal })),
    writeTextFile: async ({ path, content, encoding, abortSignal: signal }) => {
      if (encoding !== undefined && !/^utf-?8$/i.test(encoding)) throw new TypeError(`cannot write as ${encoding}, only as utf-8`)
      await files.write(path, content, { signal })
    },
    stat: async ({ path, abortSignal: signal }) => statOf(sandbox, path, signal),
    listDirectory: async ({ path, abortSignal: signal }) => {
      const entries = await orNull(files.list(path, { signal }))
      // A file is no directory, and not nothing.
      if (!entries && (await files.exists(path, { signal }))) throw new NotADirectoryError(`${path} is no directory`)
      return entries && entries.map(({ name, kind }) => ({ name, type: kind === 'link' ? 'symlink' : kind }))
    },
    deleteFile: async ({ path, abortSignal: signal }) => {
      const entry = await orNull(files.stat(path, { signal }))
      if (!entry) return false
      // An empty directory would be removed as well.
      if (entry.kind === 'directory') throw new NotAFileError(`${path} is a directory`)
      return (await orNull(files.remove(path, { signal }))) !== null
    },
    spawn: spawnIn(sandbox),
    run: async ({ command, workingDirectory: cwd, env, abortSignal: signal }) => {
      const { exitCode, stdout, stderr } = await commands.run(command, { cwd, env, signal })
      return { exitCode, stdout, stderr }
    },
  }
}

/** What a link leads to is looked up inside, where it may lead to any place. */
async function statOf(sandbox: Sandbox, path: string, signal: AbortSignal | undefined): Promise<Awaited<ReturnType<AiSandboxSession['stat']>>> {
  const entry = await orNull(sandbox.files.stat(path, { signal }))
  if (!entry) return null
  if (entry.kind !== 'link') return { type: entry.kind, size: entry.size }
  const { exitCode, stdout } = await sandbox.commands.run(['stat', '-L', '-c', '%s %F', '--', path], { signal })
  if (exitCode === 127) throw new UnsupportedError(`${path} is a link, and the sandbox has no \`stat\` that follows it`)
  const found = exitCode === 0 ? /^(\d+) (.*)$/m.exec(stdout) : null
  if (!found) return null
  const [, size, kind] = found as unknown as [string, string, string]
  return { type: kind.startsWith('regular') ? 'file' : kind === 'directory' ? 'directory' : 'other', size: Number(size) }
}

type SpawnedProcess = Awaited<ReturnType<AiSandboxSession['spawn']>>
type SpawnOptions = Parameters<AiSandboxSession['run']>[0] & { stdin?: boolean }

/** With `stdin` it is a process that can be written to, else its input is at its end at once. */
function spawnIn({ commands }: Sandbox): PaddockRestrictedSession['spawn'] {
  const spawn = async ({ command, workingDirectory: cwd, env, stdin = false, abortSignal: signal }: SpawnOptions): Promise<SpawnedProcess> => {
    const process = await commands.start(command, { cwd, env, signal, openStdin: stdin })
    return stdin ? { ...spawned(process, signal), stdin: inputOf(process) } : spawned(process, signal)
  }
  return spawn as PaddockRestrictedSession['spawn']
}

function inputOf(process: Process): WritableStream<Uint8Array> {
  return new WritableStream<Uint8Array>({
    write: (piece) => process.writeStdin(piece),
    close: () => process.closeStdin(),
    abort: () => process.kill(),
  })
}

/** Each stream is followed by itself, so that one that is not read does not hold the other back. */
function spawned(process: Process, signal: AbortSignal | undefined): SpawnedProcess {
  const kill = (): Promise<void> => process.kill()
  const stop = (): void => void kill().catch(() => {})
  signal?.addEventListener('abort', stop, { once: true })
  if (signal?.aborted) stop()
  return {
    pid: process.exec,
    stdout: outputOf(process, 'stdout'),
    stderr: outputOf(process, 'stderr'),
    wait: async () => {
      const { exitCode } = await process.wait({ signal })
      signal?.removeEventListener('abort', stop)
      return { exitCode }
    },
    kill,
  }
}

function outputOf(process: Process, stream: 'stdout' | 'stderr'): ReadableStream<Uint8Array> {
  const events = process.stream()
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      for (let next = await events.next(); !next.done; next = await events.next()) {
        if (next.value.type === 'output' && next.value.stream === stream) return controller.enqueue(next.value.data)
      }
      controller.close()
    },
    async cancel() {
      await events.return(undefined)
    },
  })
}

/** Lines count from 1, both ends included. */
function linesOf(text: string, first = 1, last?: number): string {
  if (first <= 1 && last === undefined) return text
  return text.split('\n').slice(Math.max(first, 1) - 1, last).join('\n')
}

function rulesOf(policy: HarnessV1NetworkPolicy): NetworkRules {
  if (policy.mode === 'deny-all') return 'none'
  if (policy.mode === 'allow-all') return { allow_public: ['*:*', '0.0.0.0/0:*', '[::]/0:*'] }
  const { allowedHosts = [], allowedCIDRs = [], deniedCIDRs = [] } = policy
  return { allow: [...allowedHosts, ...allowedCIDRs], deny: [...deniedCIDRs] }
}

async function nameOf(sessionId: string): Promise<string> {
  return `harness-${await nameFor(sessionId, READABLE)}`
}

async function snapshotOf(identity: string): Promise<string> {
  return `harness-template-${await nameFor(identity, READABLE)}`
}

async function orNull<T>(reading: Promise<T>): Promise<T | null> {
  try {
    return await reading
  } catch (error) {
    // Below a file there is nothing.
    if (error instanceof FileNotFoundError || error instanceof NotADirectoryError) return null
    throw error
  }
}

async function authenticated<T>(action: () => Promise<T>): Promise<T> {
  try {
    return await action()
  } catch (error) {
    if (!(error instanceof UnauthorizedError) && !(error instanceof ForbiddenError)) throw error
    const message = `Paddock refused the request: ${error.message}. Set PADDOCK_URL and PADDOCK_TOKEN, or give a client.`
    throw new HarnessSandboxAuthenticationError({ message, sandboxProviderId: PROVIDER, cause: error })
  }
}
