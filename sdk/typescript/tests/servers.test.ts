/** Servers that die under open calls, and servers that are started by the first program that needs one. */

import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { Client, ConnectionFailedError, Sandbox, ServerNotStartedError } from 'paddock'
import { BINARY, collect, OwnServer, removeState, temporaryDirectory, withCode } from './setup.js'

describe('a server that dies', () => {
  const server = new OwnServer()
  before(() => server.start())
  after(() => server.remove())

  test('output goes on where it was when it comes back', async () => {
    const box = await Sandbox.create({ ttlMs: 300_000, client: server.client })
    const process = await box.commands.start('for i in 1 2 3; do read line; echo $i; done')
    await process.writeStdin('\n')
    let text = ''
    for await (const event of process) {
      if (event.type !== 'output') continue
      text += event.text
      if (event.text.includes('1')) {
        await server.end('SIGKILL')
        await server.start()
        await process.writeStdin('\n')
        await process.writeStdin('\n')
      }
    }
    assert.equal(text, '1\n2\n3\n')
    await box.kill()
  })
  test('a wait goes on', async () => {
    const box = await Sandbox.create({ ttlMs: 300_000, client: server.client })
    const process = await box.commands.start('read line; echo $line')
    const waiting = process.wait()
    await server.end('SIGKILL')
    await server.start()
    await process.writeStdin('after\n')
    assert.equal((await waiting).stdout, 'after\n')
    await box.kill()
  })
  test('a watch begins anew and says so', async () => {
    const box = await Sandbox.create({ ttlMs: 300_000, client: server.client })
    await box.files.makeDirectory('w')
    const watch = await box.files.watch('w')
    const first = watch.next()
    await server.end('SIGKILL')
    await server.start()
    assert.equal((await first).value?.kind, 'overflow')
    await watch.close()
    await box.kill()
  })
  test('one that stays away is told', async () => {
    const client = new Client({ url: server.url, retry: { retries: 2, firstMs: 1, longestMs: 2 } })
    const box = await Sandbox.create({ ttlMs: 300_000, client })
    const process = await box.commands.start('sleep 600')
    const told = assert.rejects(collect(process), ConnectionFailedError)
    await server.end('SIGKILL')
    await told
    await assert.rejects(box.info(), withCode('nobody_listens'))
    await server.start()
    assert.equal((await box.kill()).state, 'ended')
  })
  test('contexts remember over it', async () => {
    const box = await Sandbox.create({ ttlMs: 300_000, client: server.client })
    await box.runCode('kept = 9')
    await server.end('SIGKILL')
    await server.start()
    assert.equal((await box.runCode('kept')).text, '9')
    await box.kill()
  })
})

describe('a server that nobody started', () => {
  const directory = mkdtempSync(join(tmpdir(), 'paddock-ts-start-'))
  const socket = join(directory, 'state', 'run', 'api.sock')
  const program = join(directory, 'program.mjs')
  const environment = (): NodeJS.ProcessEnv => {
    const { PADDOCK_URL: _url, PADDOCK_TOKEN: _token, ...rest } = process.env
    return { ...rest, PADDOCK_STATE_DIR: join(directory, 'state') }
  }

  before(async () => {
    const { writeFileSync } = await import('node:fs')
    const entry = pathToFileURL(join(process.cwd(), 'dist', 'esm', 'index.js')).href
    writeFileSync(program, `import { Sandbox } from '${entry}'
const sandbox = await Sandbox.create({ ttlMs: 60000 })
console.log((await sandbox.runCode('print(sum(range(101)))')).stdout.trim())
await sandbox.kill()
`)
  })
  after(() => {
    for (const id of servers(socket)) process.kill(id, 'SIGTERM')
    for (let tries = 0; servers(socket).length && tries < 500; tries++) spawnSync('sleep', ['0.02'])
    removeState(directory)
  })

  test('several programs start one, and share it', async () => {
    const runs = Array.from({ length: 3 }, () => output(program, environment()))
    assert.deepEqual(await Promise.all(runs), ['5050\n', '5050\n', '5050\n'])
    assert.equal(servers(socket).length, 1)
  })
  test('it outlives those who started it', async () => {
    const [before] = servers(socket)
    assert.equal(await output(program, environment()), '5050\n')
    assert.deepEqual(servers(socket), [before])
  })
  test('one whose executable is not there is told', async () => {
    const empty = temporaryDirectory()
    const failed = spawnSync(process.execPath, [program], {
      env: { ...environment(), PADDOCK_STATE_DIR: join(empty, 'state'), PADDOCK_BIN: '/no/such/paddock' }, encoding: 'utf8',
    })
    assert.match(failed.stderr, /PADDOCK_BIN is '\/no\/such\/paddock', which is no executable file/)
  })
  test('one that ends at once is told with its words', async () => {
    const empty = temporaryDirectory()
    mkdirSync(join(empty, 'bin'))
    symlinkSync('/bin/false', join(empty, 'bin', 'paddock'))
    const failed = spawnSync(process.execPath, [program], {
      env: { ...environment(), PADDOCK_STATE_DIR: join(empty, 'state'), PADDOCK_BIN: join(empty, 'bin', 'paddock') }, encoding: 'utf8',
    })
    assert.match(failed.stderr, /ended with exit code 1 while it started/)
  })
  test('a directory that others may write to is refused', async () => {
    const open = temporaryDirectory()
    mkdirSync(join(open, 'run'), { mode: 0o777 })
    spawnSync('chmod', ['777', join(open, 'run')])
    const client = new Client({ url: `unix:${join(open, 'run', 'api.sock')}`, start: true, retry: { retries: 1 } })
    await assert.rejects(client.whoami(), ServerNotStartedError)
  })
  test('a named server is never started', async () => {
    const empty = temporaryDirectory()
    const client = new Client({ url: `unix:${join(empty, 'api.sock')}`, retry: { retries: 1, firstMs: 1 } })
    await assert.rejects(client.whoami(), withCode('nobody_listens'))
    assert.deepEqual(readdirSync(empty), [])
  })
  test('the executable of the tests is used', () => {
    assert.ok(BINARY)
  })
})

/** Processes that serve this socket. */
function servers(socket: string): number[] {
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map(Number).filter((id) => {
    try {
      const words = readFileSync(`/proc/${id}/cmdline`, 'utf8').split('\0')
      return words.includes('serve') && words.includes(socket)
    } catch {
      return false
    }
  })
}

async function output(program: string, env: NodeJS.ProcessEnv): Promise<string> {
  const child = spawn(process.execPath, [program], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let text = ''
  child.stdout.on('data', (piece: Buffer) => (text += piece))
  child.stderr.on('data', (piece: Buffer) => (text += piece))
  await new Promise((resolve) => child.once('close', resolve))
  return text
}
