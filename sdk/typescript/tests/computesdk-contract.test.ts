/** What ComputeSDK's own tests ask of a provider, of a sandbox for each: with two ports named, files, and output while it comes. */

import { paddock } from 'paddock/computesdk'
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { compute } from 'computesdk'
import { Client } from 'paddock'
import { TCP_URL } from './setup.js'

const PORTS = [3000, 8080]

describe('a provider of ComputeSDK', () => {
  const client = new Client({ url: TCP_URL, token: process.env['PADDOCK_TEST_TOKEN'] })
  const provider = paddock({ client, defaults: { ttlMs: 120_000 } })
  let box: Awaited<ReturnType<typeof provider.sandbox.create>>
  beforeEach(async () => {
    box = await provider.sandbox.create({ ports: PORTS })
  })
  afterEach(() => box.destroy())

  test('a sandbox has an id, and the name of its provider', () => {
    assert.match(box.sandboxId, /^sb-/)
    assert.equal(box.provider, 'paddock')
    assert.equal(box.getProvider(), provider)
  })
  test('a line for the shell', async () => {
    const { stdout, exitCode } = await box.runCommand('echo "Hello there"')
    assert.deepEqual([stdout, exitCode], ['Hello there\n', 0])
  })
  test('in the background', async () => {
    assert.equal((await box.runCommand('sleep 1', { background: true })).exitCode, 0)
  })
  test('what it is', async () => {
    const info = await box.getInfo()
    assert.deepEqual([info.id, info.provider, info.status], [box.sandboxId, 'paddock', 'running'])
    assert.ok(info.createdAt instanceof Date && info.timeout === 120_000)
  })
  test('each port has an address, in the protocol that is asked for', async () => {
    assert.match(await box.getUrl({ port: PORTS[0]! }), /^http:\/\/.+\/ports\/3000\//)
    assert.match(await box.getUrl({ port: PORTS[1]!, protocol: 'wss' }), /^wss:\/\/.+\/ports\/8080\//)
  })
  test('a command that is not there fails, and throws nothing', async () => {
    assert.notEqual((await box.runCommand('no-such-command-here')).exitCode, 0)
  })
  test('files', async () => {
    const { filesystem } = box
    await filesystem.writeFile('/tmp/a file', 'content ü')
    assert.equal(await filesystem.readFile('/tmp/a file'), 'content ü')
    assert.equal(await filesystem.exists('/tmp/a file'), true)
    await filesystem.mkdir('/tmp/made')
    await filesystem.mkdir('/tmp/made')
    assert.equal(await filesystem.exists('/tmp/made'), true)
    await filesystem.writeFile('/tmp/made/1.txt', 'one')
    await filesystem.writeFile('/tmp/made/2.txt', 'two')
    const entries = await filesystem.readdir('/tmp/made')
    assert.deepEqual(entries.map(({ name, type }) => [name, type]).sort(), [['1.txt', 'file'], ['2.txt', 'file']])
    for (const path of ['/tmp/a file', '/tmp/made']) {
      await filesystem.remove(path)
      assert.equal(await filesystem.exists(path), false)
    }
    await assert.rejects(filesystem.readFile('/nowhere/at-all'))
  })
  test('output comes while the command runs, each piece once', async () => {
    const pieces: string[] = []
    // It ends only when what it printed was seen outside.
    const result = await box.runCommand('echo first; while [ ! -e /tmp/seen ]; do sleep 0.02; done; echo second', {
      onStdout: async (text: string) => {
        pieces.push(text)
        await box.filesystem.writeFile('/tmp/seen', '')
      },
    })
    assert.deepEqual([pieces.join(''), result.stdout, result.exitCode], ['first\nsecond\n', 'first\nsecond\n', 0])
    assert.ok(pieces.length > 1)
  })
  test('both streams come apart, with the exit code', async () => {
    const seen = { out: '', err: '' }
    const { exitCode } = await box.runCommand("sh -c 'echo out; echo err >&2; exit 3'", {
      onStdout: (text: string) => void (seen.out += text),
      onStderr: (text: string) => void (seen.err += text),
    })
    assert.deepEqual([exitCode, seen.out, seen.err], [3, 'out\n', 'err\n'])
  })
  test('a command that is late is no success', async () => {
    const result = await box.runCommand('echo begun; sleep 600', { timeout: 500, onStdout: () => {} })
    assert.notEqual(result.exitCode, 0)
    assert.equal(result.stdout, 'begun\n')
  })
  test('quotes are the shell’s', async () => {
    assert.equal((await box.runCommand(`sh -c 'echo "hello world"'`)).stdout, 'hello world\n')
    assert.match((await box.runCommand(`sh -c 'echo "$HOME"'`)).stdout, /\S/)
    assert.equal((await box.runCommand(`sh -c 'echo "kept" > /tmp/q && cat /tmp/q | tr k K'`)).stdout, 'Kept\n')
  })
  test('found again, listed, and gone', async () => {
    assert.equal((await provider.sandbox.getById(box.sandboxId))?.sandboxId, box.sandboxId)
    assert.ok((await provider.sandbox.list()).some((one) => one.sandboxId === box.sandboxId))
    await provider.sandbox.destroy(box.sandboxId)
    assert.equal(await provider.sandbox.getById(box.sandboxId), null)
    assert.ok(!(await provider.sandbox.list()).some((one) => one.sandboxId === box.sandboxId))
  })
  test('through the compute of its package, with a snapshot', async () => {
    compute.setConfig({ provider })
    const one = await compute.sandbox.create({ provider: 'paddock', ports: PORTS })
    await one.filesystem.writeFile('/tmp/kept', 'x')
    const snapshot = await compute.snapshot.create(one.sandboxId)
    assert.equal(snapshot.provider, 'paddock')
    assert.ok((await compute.snapshot.list()).some(({ id }) => id === snapshot.id))
    const two = await compute.sandbox.create({ snapshotId: snapshot.id })
    assert.equal(await two.filesystem.readFile('/tmp/kept'), 'x')
    await compute.sandbox.destroy(one.sandboxId)
    await two.destroy()
    await compute.snapshot.delete(snapshot.id)
  })
  for (const [said, ports] of [['a text', '3000'], ['a port beyond all', [3000, 70_000]], ['no whole number', [80.5]]] as const) {
    test(`ports that are ${said} are refused`, async () => {
      await assert.rejects(provider.sandbox.create({ ports }), { name: 'InvalidRequestError', message: /is not a port/ })
    })
  }
})
