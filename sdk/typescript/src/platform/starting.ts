/** Starts `paddock serve` where no server is configured: one for all processes of the user, ended when idle. */

import { spawn, type ChildProcess } from 'node:child_process'
import { accessSync, constants, existsSync, mkdirSync, openSync, closeSync, readFileSync, fstatSync, statSync } from 'node:fs'
import { request } from 'node:http'
import { dirname, delimiter, join, resolve } from 'node:path'
import { ServerNotStartedError } from '../errors.js'
import { sleep } from '../retrying.js'
import { stateDirectory } from './location.js'
import { serverOf, takeLock, type Holder } from './locks.js'

const IDLE_SECONDS = 300
/** A first start may have to make the storage, and a server before it may have to end. */
const PATIENCE_MS = 60_000
/** A server that serves and is not found at the socket within this time listens elsewhere. */
const ELSEWHERE_MS = 5_000
const POLL_MS = 10

const starting = new Map<string, Promise<void>>()

/** Returns when a server answers at the socket; starts one if none does, at most one at a time. */
export async function ensureRunning(path: string, signal?: AbortSignal): Promise<void> {
  let running = starting.get(path)
  if (!running) {
    running = startOnce(path).finally(() => starting.delete(path))
    starting.set(path, running)
  }
  if (!signal) return running
  // The start goes on for the others that wait for it.
  await Promise.race([running, new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))])
}

export function findExecutable(): string {
  const named = process.env['PADDOCK_BIN']
  const found = which(named || 'paddock')
  if (found) return found
  if (named) {
    throw new ServerNotStartedError(`PADDOCK_BIN is '${named}', which is no executable file`, {
      hint: 'set it to the path of the paddock executable, or unset it to use the one on PATH',
    })
  }
  throw new ServerNotStartedError('no Paddock server is configured, and there is no paddock executable on PATH to start one', {
    hint:
      "build it with `make build` in Paddock's repository and put it on PATH or name it in PADDOCK_BIN; " +
      'or set PADDOCK_URL (and PADDOCK_TOKEN) to a server that runs elsewhere',
  })
}

async function startOnce(path: string): Promise<void> {
  if ((await notReady(path)) === '') return
  makePrivateDirectory(dirname(path))
  const lock = await takeLock(`${path}.lock`, async () => (await notReady(path)) === '')
  if (!lock) return
  try {
    await waitOrStart(path)
  } finally {
    lock.release()
  }
}

/** A server that has the state directory already is waited for: it starts just now, or a person started it. */
async function waitOrStart(path: string): Promise<void> {
  const state = stateDirectory()
  const began = Date.now()
  let servingSince: number | undefined
  let started: Started | undefined
  while (true) {
    const reason = await notReady(path)
    const holder = serverOf(state)
    if (reason === '') {
      // Another server was quicker: one that waits for its turn would serve when nobody expects it.
      if (started && holder?.process !== undefined && holder.process !== started.process.pid) started.process.kill()
      return
    }
    if (started?.ended) {
      if (!holder && (await notReady(path)) !== '') throw started.failure()
      started = undefined
    }
    if (!holder || holder.phase === 'ending') {
      // One that ends needs a successor, which waits for it.
      servingSince = undefined
      started ??= start(path, state)
    } else if (holder.phase === 'starting') {
      servingSince = undefined
    } else {
      servingSince ??= Date.now()
      if (Date.now() - servingSince > ELSEWHERE_MS) throw elsewhere(path, holder)
    }
    if (Date.now() - began > PATIENCE_MS) {
      throw new ServerNotStartedError(`the server at ${path} is not ready after ${PATIENCE_MS / 1000} s: ${reason}`, {
        hint: `its output is in ${join(state, 'serve.log')}`,
      })
    }
    await sleep(POLL_MS)
  }
}

function elsewhere(path: string, holder: Holder): ServerNotStartedError {
  const which = holder.process === undefined ? '' : ` (process ${holder.process})`
  return new ServerNotStartedError(`the server of this state directory${which} does not listen on ${path}`, {
    hint: holder.addresses[0] ? `set PADDOCK_URL=${holder.addresses[0]}` : 'name its address with PADDOCK_URL',
  })
}

/** A server that this process started, and where its output begins. */
class Started {
  ended = false
  constructor(
    readonly process: ChildProcess,
    readonly log: string,
    readonly begin: number,
  ) {
    process.once('exit', () => (this.ended = true))
    process.once('error', () => (this.ended = true))
  }

  failure(): ServerNotStartedError {
    const said = this.#said()
    return new ServerNotStartedError(
      `\`paddock serve\` ended with exit code ${this.process.exitCode} while it started${said ? `: ${said}` : ''}`,
      { hint: `its output is in ${this.log}; \`paddock doctor\` says what this host lacks` },
    )
  }

  #said(): string {
    try {
      const all = readFileSync(this.log)
      return all.subarray(Math.max(this.begin, all.length - 2000)).toString('utf8').trim()
    } catch (error) {
      return String(error)
    }
  }
}

function start(path: string, state: string): Started {
  const executable = findExecutable()
  makePrivateDirectory(state)
  const log = join(state, 'serve.log')
  const output = openSync(log, 'a')
  try {
    const begin = fstatSync(output).size
    // The server serves all of the user's processes: an address or token of this one is not its own.
    const { PADDOCK_URL: _url, PADDOCK_TOKEN: _token, ...environment } = process.env
    const child = spawn(executable, ['serve', '--socket', path, '--idle-exit', String(IDLE_SECONDS)], {
      cwd: '/',
      env: environment,
      stdio: ['ignore', output, output],
      // Not ended by a Ctrl-C or a hang-up that was meant for us.
      detached: true,
    })
    child.unref()
    return new Started(child, log, begin)
  } finally {
    closeSync(output)
  }
}

/** Empty when the server answers, else the obstacle. One that starts answers when it has its sandboxes. */
async function notReady(path: string): Promise<string> {
  return new Promise((resolved, reject) => {
    const asked = request({ socketPath: path, path: '/healthz', agent: false, timeout: PATIENCE_MS }, (answer) => {
      let text = ''
      answer.setEncoding('utf8')
      answer.on('data', (piece: string) => (text = (text + piece).slice(0, 500)))
      answer.on('end', () => resolved(answer.statusCode === 200 ? '' : `${answer.statusCode} ${text.trim()}`))
      answer.on('error', (error) => resolved(error.message))
    })
    asked.on('timeout', () => asked.destroy(new Error('it is silent')))
    asked.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EACCES' && error.code !== 'EPERM') return resolved(error.message || error.code || 'no answer')
      return reject(
        new ServerNotStartedError(`the server's socket ${path} belongs to somebody else: ${error.message}`, {
          hint: "set PADDOCK_URL and PADDOCK_TOKEN to use another user's server",
        }),
      )
    })
    asked.end()
  })
}

function makePrivateDirectory(directory: string): void {
  try {
    // 0700 for each that is made, as far as the umask does not take more away.
    if (!existsSync(directory)) mkdirSync(directory, { recursive: true, mode: 0o700 })
    const found = statSync(directory)
    const own = process.geteuid?.() ?? found.uid
    if ((found.uid === own || found.uid === 0) && (found.mode & 0o022) === 0) return
    const mode = (found.mode & 0o7777).toString(8)
    throw new ServerNotStartedError(
      `${directory} is not safe for a socket: others may write to it (owner ${found.uid}, mode ${mode})`,
      { hint: `chmod go-w ${directory}, or set PADDOCK_STATE_DIR or XDG_RUNTIME_DIR to a directory of yours` },
    )
  } catch (error) {
    if (error instanceof ServerNotStartedError) throw error
    throw new ServerNotStartedError(`cannot make the directory ${directory}: ${(error as Error).message}`, {
      hint: 'set PADDOCK_STATE_DIR or XDG_RUNTIME_DIR to a directory of yours, or PADDOCK_URL to a server',
      cause: error,
    })
  }
}

export function which(name: string): string | undefined {
  const places = name.includes('/') ? [name] : (process.env['PATH'] ?? '').split(delimiter).filter(Boolean).map((place) => join(place, name))
  return places.map((place) => resolve(place)).find((place) => {
    try {
      accessSync(place, constants.X_OK)
      return statSync(place).isFile()
    } catch {
      return false
    }
  })
}
