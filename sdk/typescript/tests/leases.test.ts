/** Sandboxes that a provider makes for a process end with it, also where it is killed. */

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Sandbox } from 'paddock'
import { inSandbox } from 'paddock/claude-agent-sdk'

const LEASE_MS = 6_000
/** Prints the id of its sandbox when the program in it runs, and lives until it is killed. */
const PROGRAM = `
import { inSandbox } from 'paddock/claude-agent-sdk'
const asked = { command: 'claude', args: [], env: {}, signal: new AbortController().signal }
const one = inSandbox({ command: '/bin/cat', leaseMs: ${LEASE_MS} })(asked)
one.stdout.once('data', () => console.log(one.sandbox.id))
one.stdin.write('there')
`

async function stateOf(id: string): Promise<string> {
  const found = await Sandbox.connect(id).catch((error: { code: string }) => error.code)
  return found instanceof Sandbox ? found.state : found
}

describe('a lease', () => {
  test('is renewed while the program lives, and ends with it when it is killed', { timeout: 120_000 }, async () => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', PROGRAM], { cwd: process.cwd(), stdio: ['ignore', 'pipe', 'inherit'] })
    const { value: id } = await createInterface(child.stdout)[Symbol.asyncIterator]().next()
    await sleep(2 * LEASE_MS)
    assert.equal(await stateOf(String(id)), 'running', 'it was renewed')
    child.kill('SIGKILL')
    await once(child, 'exit')
    for (let turn = 0; turn < 600 && (await stateOf(String(id))) === 'running'; turn++) await sleep(100)
    assert.notEqual(await stateOf(String(id)), 'running')
  })
  test('does not keep a program that has nothing else to do, and a sandbox that sleeps at its end has none', async () => {
    const program = `
import { Sandbox } from 'paddock'
import { Lease } from './dist/esm/leases.js'
const sandbox = await Sandbox.create({ ttlMs: 60_000 })
await Lease.hold(sandbox, 60_000, 30_000)
console.log(sandbox.id)
`
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], { cwd: process.cwd(), stdio: ['ignore', 'pipe', 'inherit'] })
    let id = ''
    child.stdout.on('data', (text) => (id += String(text)))
    assert.deepEqual(await once(child, 'exit'), [0, null])
    await (await Sandbox.connect(id.trim())).kill()
    const asked = { command: 'claude', args: ['-c', 'read line'], env: {}, signal: new AbortController().signal }
    const one = inSandbox({ command: '/bin/sh', create: { ttlMs: 3_600_000, ttlAction: 'hibernate' } })(asked)
    one.stdin.write('x')
    while (!one.sandbox) await sleep(20)
    assert.ok(Number(one.sandbox.lastInfo.expiresAt) - Date.now() > 3_000_000)
    const ended = once(one, 'exit')
    one.stdin.end('\n')
    await ended
  })
  test('has to be a number above 0, and what a program extends stays', async () => {
    const { firstLifeMs, Lease } = await import(join(process.cwd(), 'dist/esm/leases.js'))
    for (const wrong of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) assert.throws(() => firstLifeMs(1, wrong), /leaseMs is/)
    await using sandbox = await Sandbox.create({ ttlMs: 600_000 })
    const lease = await Lease.hold(sandbox, 600_000, 3_000)
    await sandbox.extend(300_000)
    await sleep(4_000)
    assert.ok(Number((await sandbox.info()).expiresAt) - Date.now() > 200_000)
    lease?.end()
  })
})
