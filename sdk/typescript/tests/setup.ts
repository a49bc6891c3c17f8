/** The server of all test files, which run_tests.py starts, and servers of a test's own. */

import assert from 'node:assert/strict'
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, Sandbox, type CreateOptions, type PaddockError } from 'paddock'

export const BINARY = process.env['PADDOCK_BIN'] ?? ''
/** The same server by TCP, for what needs a token. */
export const TCP_URL = process.env['PADDOCK_TEST_TCP_URL'] ?? ''

const made: Sandbox[] = []

/** A sandbox that is killed when the test file is done. */
export async function sandbox(options: CreateOptions & { client?: Client } = {}): Promise<Sandbox> {
  const one = await Sandbox.create({ ttlMs: 300_000, ...options })
  made.push(one)
  return one
}

after(async () => {
  await Promise.all(made.map((one) => one.kill().catch(() => {})))
})

/** For `assert.rejects`: an error of this package with this code. */
export function withCode(code: string): (error: unknown) => boolean {
  return (error) => {
    if ((error as PaddockError).code === code) return true
    throw error
  }
}

export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'paddock-ts-'))
  after(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** A server of one test's own, which may die. */
export class OwnServer {
  readonly directory = mkdtempSync(join(tmpdir(), 'paddock-ts-own-'))
  readonly url = `unix:${join(this.directory, 'api.sock')}`
  readonly client = new Client({ url: this.url })
  #process: ChildProcess | undefined

  constructor(readonly options: readonly string[] = []) {}

  async start(): Promise<void> {
    const log = openSync(join(this.directory, 'serve.log'), 'a')
    const { PADDOCK_URL: _url, PADDOCK_TOKEN: _token, ...env } = process.env
    const state = join(this.directory, 'state')
    const command = ['serve', '--socket', join(this.directory, 'api.sock'), ...this.options]
    this.#process = spawn(BINARY, command, { env: { ...env, PADDOCK_STATE_DIR: state }, stdio: ['ignore', log, log] })
    const client = new Client({ url: this.url, retry: { retries: 0 } })
    for (let failure: unknown; ; ) {
      try {
        await client.request('GET', '/healthz')
        return
      } catch (error) {
        failure = error
      }
      if (this.#process.exitCode !== null) throw new Error(`the server ended: ${readFileSync(join(this.directory, 'serve.log'), 'utf8')}`, { cause: failure })
      await sleep(20)
    }
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    const process = this.#process
    this.#process = undefined
    if (!process || process.exitCode !== null) return
    const ended = new Promise((resolve) => process.once('exit', resolve))
    process.kill(signal)
    await ended
  }

  /** Ends its sandboxes and the server, and leaves nothing. */
  async remove(): Promise<void> {
    if (!this.#process) await this.start()
    for await (const one of Sandbox.list({ client: this.client })) if (one.state !== 'ended') await one.kill()
    await this.end('SIGTERM')
    removeState(this.directory)
  }
}

/** The storage of a server as root may be a mounted image. */
export function removeState(directory: string): void {
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n').map((line) => line.split(' ')[4] ?? '')
  for (const mount of mounts.filter((one) => one.startsWith(`${directory}/`)).sort((a, b) => b.length - a.length)) spawnSync('umount', [mount])
  rmSync(directory, { recursive: true, force: true })
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}

/** The template `smallbase`, whose root is a busybox. */
export function baseTemplate(own: OwnServer): void {
  const directory = temporaryDirectory()
  for (const part of ['root/bin', 'root/etc', 'root/tmp', 'root/home']) mkdirSync(join(directory, part), { recursive: true })
  copyFileSync('/bin/busybox', join(directory, 'root/bin/busybox'))
  const applets = spawnSync('/bin/busybox', ['--list'], { encoding: 'utf8' }).stdout.split('\n')
  for (const applet of applets.filter((name) => name && name !== 'busybox')) symlinkSync('busybox', join(directory, 'root/bin', applet))
  writeFileSync(join(directory, 'smallbase.toml'), 'base = "./root"\nrun = ["mkdir -m 777 /opt"]\n')
  const env = { ...process.env, PADDOCK_URL: own.url, PADDOCK_STATE_DIR: join(own.directory, 'state') }
  const done = spawnSync(BINARY, ['template', 'build', join(directory, 'smallbase.toml')], { env, encoding: 'utf8' })
  assert.equal(done.status, 0, done.stderr)
}
