/** File locks (flock) of others. Node cannot take one itself: /proc/locks tells of them, and util-linux's `flock` takes them. */

import { spawn } from 'node:child_process'
import { chmodSync, closeSync, openSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { ServerNotStartedError } from '../errors.js'
import { sleep } from '../retrying.js'

/** The server that has a state directory, as far as its note says. */
export interface Holder {
  readonly process: number | undefined
  /** `starting`, `serving`, `ending`; empty in the note of an older server. */
  readonly phase: string
  readonly addresses: readonly string[]
}

const LOCK_MS = 120_000
const POLL_MS = 20

/** Undefined: no server has this state directory. The lock counts, the note only helps. */
export function serverOf(state: string): Holder | undefined {
  const lock = join(state, 'server.lock')
  const writer = readText(lock, 32).trim()
  if (!/^\d+$/.test(writer) || !holds(Number(writer), lock)) return undefined
  const [noted = '', phase = '', ...addresses] = readText(join(state, 'server.note'), 16384).split('\n')
  const known = noted === writer && ['starting', 'serving', 'ending'].includes(phase)
  return {
    process: Number(writer),
    phase: known ? phase : '',
    addresses: known ? addresses.filter(Boolean) : [],
  }
}

/** True if a process has the lock of a file. Where /proc/locks cannot be read, a process that lives is believed to have it. */
function holds(process: number, path: string): boolean {
  const locks = readText('/proc/locks', 1 << 20)
  if (locks === '') return lives(process)
  let inode: bigint
  try {
    inode = statSync(path, { bigint: true }).ino
  } catch {
    return false
  }
  return locks.split('\n').some((line) => {
    const found = /^\d+: FLOCK\s+\w+\s+\w+\s+(\d+) [0-9a-f]+:[0-9a-f]+:(\d+) /.exec(line)
    return found !== null && Number(found[1]) === process && BigInt(found[2] as string) === inode
  })
}

function lives(id: number): boolean {
  try {
    process.kill(id, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

function readText(path: string, most: number): string {
  try {
    return readFileSync(path).subarray(0, most).toString('utf8')
  } catch {
    return ''
  }
}

export interface Lock {
  release(): void
}

/**
 * The lock that programs of a user take before they start a server; the Python SDK takes the same one. Undefined where
 * `done` says that another program has it running meanwhile. Without a `flock` command there is no lock: then two programs
 * may start two servers at once, of which the second ends by itself.
 */
export async function takeLock(path: string, done: () => Promise<boolean>): Promise<Lock | undefined> {
  closeSync(openSync(path, 'a', 0o600))
  chmodSync(path, 0o600)
  const deadline = Date.now() + LOCK_MS
  while (true) {
    const taken = await tryLock(path)
    if (taken !== 'held') return taken
    if (await done()) return undefined
    if (Date.now() > deadline) {
      throw new ServerNotStartedError(`another process holds ${path} and no server became ready`, {
        hint: 'end the process that holds it (`fuser` names it) and try again',
      })
    }
    await sleep(POLL_MS)
  }
}

/** The lock lasts as long as the helper's input is open, so it ends with this process at the latest. */
async function tryLock(path: string): Promise<Lock | 'held'> {
  return new Promise((resolve) => {
    const helper = spawn('flock', ['-n', path, '/bin/sh', '-c', 'echo taken; exec cat >/dev/null'], {
      stdio: ['pipe', 'pipe', 'ignore'],
    })
    const none: Lock = { release: () => {} }
    helper.on('error', () => resolve(none))
    helper.stdin.on('error', () => {})
    helper.stdout.once('data', () => resolve({ release: () => helper.stdin.end() }))
    helper.once('exit', (code) => resolve(code === 1 ? 'held' : none))
  })
}
