/** Paddock under ComputeSDK, Mastra and the Vercel AI SDK, with their own packages. */

import { paddockSandbox } from 'paddock/ai-harness'
import { aiTools } from 'paddock/ai'
import { paddock } from 'paddock/computesdk'
import { PaddockSandbox } from 'paddock/mastra'
import { HarnessSandboxAuthenticationError } from '@ai-sdk/harness'
import { SandboxNotReadyError, Workspace } from '@mastra/core/workspace'
import { generateText, stepCountIs } from 'ai'
import { MockLanguageModelV4 } from 'ai/test'
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, Sandbox, type PaddockError } from 'paddock'
import { baseTemplate, OwnServer, sandbox, TCP_URL } from './setup.js'

const tcp = new Client({ url: TCP_URL, token: process.env['PADDOCK_TEST_TOKEN'] })

/** An HTTP server inside that says what it was asked. It listens when this resolves. */
async function serving(box: Sandbox, port: number): Promise<void> {
  const code = `
import http.server, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        said = f'{self.command} {self.path}'.encode()
        self.send_response(200); self.send_header('content-length', str(len(said))); self.end_headers(); self.wfile.write(said)
    def log_message(self, *_): pass
threading.Thread(target=http.server.HTTPServer(('127.0.0.1', ${port}), Handler).serve_forever, daemon=True).start()`
  assert.equal((await box.runCode(code)).error, undefined)
}

const fetched = async (url: string): Promise<string> => (await fetch(url, { headers: tcp.authorization() ?? {} })).text()

describe('ComputeSDK', () => {
  const provider = paddock({ defaults: { ttlMs: 120_000 } })
  let box: Awaited<ReturnType<typeof provider.sandbox.create>>
  before(async () => {
    box = await provider.sandbox.create({ envs: { A: 'b' }, metadata: { team: 'x', n: 3 }, memoryMiB: 256 })
  })
  after(() => box.destroy())

  test('create gives a sandbox with an id and its provider', () => {
    assert.match(box.sandboxId, /^sb-/)
    assert.equal(box.provider, 'paddock')
    assert.equal(box.getProvider().name, 'paddock')
    assert.ok(box.getInstance() instanceof Sandbox)
  })
  test('runCommand gives output, exit code and duration', async () => {
    const result = await box.runCommand('echo out; echo err >&2; exit 3')
    assert.deepEqual([result.stdout, result.stderr, result.exitCode], ['out\n', 'err\n', 3])
    assert.ok(result.durationMs >= 0)
  })
  test('runCommand takes cwd, env and a timeout', async () => {
    assert.equal((await box.runCommand('pwd; echo $A$B', { cwd: '/tmp', env: { B: 'c' } })).stdout, '/tmp\nbc\n')
    assert.equal((await box.runCommand('sleep 600', { timeout: 200 })).exitCode, 124)
  })
  test('runCommand streams while it runs', async () => {
    const pieces: string[] = []
    await box.runCommand('echo a; sleep 0.1; echo b', { onStdout: (text) => pieces.push(text) })
    assert.equal(pieces.join(''), 'a\nb\n')
  })
  test('runCommand in the background returns at once', async () => {
    const result = await box.runCommand('sleep 600', { background: true })
    assert.equal(result.exitCode, 0)
  })
  test('a command that is not there exits with 127', async () => {
    assert.equal((await box.runCommand('no-such-command')).exitCode, 127)
  })
  test('the file system', async () => {
    const files = box.filesystem
    await files.mkdir('/tmp/c/d')
    await files.writeFile('/tmp/c/f', 'grüß')
    assert.equal(await files.readFile('/tmp/c/f'), 'grüß')
    assert.deepEqual((await files.readdir('/tmp/c')).map((entry) => [entry.name, entry.type]).sort(), [['d', 'directory'], ['f', 'file']])
    assert.equal(await files.exists('/tmp/c/f'), true)
    await files.remove('/tmp/c')
    assert.equal(await files.exists('/tmp/c'), false)
    await assert.rejects(files.readFile('/tmp/c/f'))
  })
  test('getInfo', async () => {
    const info = await box.getInfo()
    assert.deepEqual([info.id, info.provider, info.status, info.timeout], [box.sandboxId, 'paddock', 'running', 120_000])
    assert.equal(info.metadata?.['n'], '3')
  })
  test('getById finds it, and null for another', async () => {
    assert.equal((await provider.sandbox.getById(box.sandboxId))?.sandboxId, box.sandboxId)
    assert.equal(await provider.sandbox.getById('sb-0000000000000000'), null)
  })
  test('list has it, and not those of others', async () => {
    const other = await sandbox()
    const ids = (await provider.sandbox.list()).map((one) => one.sandboxId)
    assert.ok(ids.includes(box.sandboxId))
    assert.ok(!ids.includes(other.id))
  })
  test('getUrl leads to a server inside, for who has the token', async () => {
    const made = await paddock({ client: tcp }).sandbox.create()
    try {
      await serving(made.getInstance(), 8080)
      const url = await made.getUrl({ port: 8080 })
      assert.equal(await fetched(`${url}some/page`), 'GET /some/page')
      assert.equal((await fetch(url)).status, 401)
      assert.match(await made.getUrl({ port: 8080, protocol: 'ws' }), /^ws:/)
    } finally {
      await made.destroy()
    }
  })
  test('destroy, twice', async () => {
    const made = await provider.sandbox.create()
    await made.destroy()
    await provider.sandbox.destroy(made.sandboxId)
    assert.equal(await provider.sandbox.getById(made.sandboxId), null)
    await provider.sandbox.destroy('sb-0000000000000000')
  })
  test('snapshots', async () => {
    await box.filesystem.writeFile('/tmp/state', 'kept')
    const snapshot = await provider.snapshot!.create(box.sandboxId, { name: `compute-${process.pid}` })
    const again = await provider.sandbox.create({ snapshotId: snapshot.id })
    assert.equal(await again.filesystem.readFile('/tmp/state'), 'kept')
    await again.destroy()
    assert.ok((await provider.snapshot!.list({ sandboxId: box.sandboxId })).some((one) => one.id === snapshot.id))
    await provider.snapshot!.delete(snapshot.id)
  })
  test('a snapshot names its provider, and the list is bounded', async () => {
    const made = await Promise.all([1, 2].map(() => provider.snapshot!.create(box.sandboxId)))
    assert.deepEqual(made.map((one) => one.provider), ['paddock', 'paddock'])
    assert.ok(made[0]!.createdAt instanceof Date)
    assert.equal((await provider.snapshot!.list({ sandboxId: box.sandboxId, limit: 1 })).length, 1)
    for (const one of made) await provider.snapshot!.delete(one.id)
    assert.deepEqual(await provider.snapshot!.list({ sandboxId: box.sandboxId }), [])
  })
  test('what Paddock has not is refused in words', async () => {
    await assert.rejects(provider.snapshot!.create(box.sandboxId, { metadata: { a: 'b' } }), { name: 'UnsupportedError', message: /no metadata/ })
    await assert.rejects(provider.sandbox.create({ runtime: 'cobol' }), { name: 'UnsupportedError', message: /"cobol"/ })
    await assert.rejects(provider.template!.create({ name: 'x', description: 'd' }), { name: 'UnsupportedError', message: /no description/ })
    await assert.rejects(provider.template!.create({ name: 'x' }), { name: 'UnsupportedError', message: /nothing to begin with/ })
  })
  for (const [name, value] of Object.entries({
    namespace: 'n', size: 'small', vmTier: 'Pico', deploymentPlan: 'nf-compute-50', launch_parameters: { keep_alive_time_seconds: 9 }, gpu: 'A100', sise: 1,
  })) {
    test(`the option ${name} is refused by its name, and makes nothing`, async () => {
      const unique = `refused-${name}-${process.pid}`.toLowerCase().replace('_', '-')
      await assert.rejects(provider.sandbox.create({ name: unique, [name]: value }), { name: 'UnsupportedError', message: new RegExp(`"${name}"`) })
      await assert.rejects(Sandbox.connect(unique), { status: 404 })
    })
  }
  test('of `resources` there is a number of processors, and nothing else', async () => {
    await assert.rejects(provider.sandbox.create({ resources: { vcpus: 1, gpus: 1 } }), { name: 'UnsupportedError', message: /"resources\.gpus"/ })
  })
  test('limits in the words of any vendor arrive', async () => {
    for (const asked of [{ cpuLimit: 0.5, memoryMb: 200 }, { resources: { vcpus: 0.5 }, memMiB: 200 }, { cpu: 0.5, cpus: 0.5, memory: 200 }]) {
      const made = await provider.sandbox.create({ ...asked, diskMiB: 64 })
      try {
        const { cpus, memory, disk } = (await made.getInstance().info()).limits
        assert.deepEqual({ cpus, memory, disk }, { cpus: 0.5, memory: 200 << 20, disk: 64 << 20 })
      } finally {
        await made.destroy()
      }
    }
  })
  test('a limit that is named twice has to be the same, and a number', async () => {
    await assert.rejects(provider.sandbox.create({ cpu: 1, cpuLimit: 2 }), { name: 'InvalidRequestError', message: /cpu is 1 and cpuLimit is 2|cpuLimit is 2/ })
    await assert.rejects(provider.sandbox.create({ memory: '1GB' as never }), { name: 'InvalidRequestError', message: /memory is "1GB"/ })
  })
  test('a runtime that every template has is none that is missing', async () => {
    const made = await provider.sandbox.create({ runtime: 'python' })
    assert.equal((await made.runCommand('python3 -c "print(1)"')).stdout, '1\n')
    await made.destroy()
  })
  test('templates are listed, built and deleted', async () => {
    const all = await provider.template!.list()
    assert.ok(all.some((one) => one.id === 'code-interpreter' && one.provider === 'paddock'))
    assert.equal((await provider.template!.list({ limit: 1 })).length, 1)
    // No registry is at an address that a tenant may reach here; the build says so, and its template can be deleted.
    const options = { name: `compute-${process.pid}`, image: '127.0.0.1:1/none', commands: ['true'] }
    await assert.rejects(provider.template!.create(options), { name: 'TemplateBuildFailedError', code: 'template_build_failed' })
    await provider.template!.delete(options.name)
    await assert.rejects(provider.template!.delete(options.name), { status: 404 })
  })
  const busybox = existsSync('/bin/busybox') ? false : 'busybox: there is none for the base of a template'
  test('a template is built on another one, and a sandbox begins with it', { skip: busybox }, async () => {
    // A server of its own, because a base without a registry is built in the server's own state directory.
    const own = new OwnServer()
    await own.start()
    try {
      baseTemplate(own)
      const local = paddock({ client: own.client })
      const building = { name: 'compute-built', template: 'smallbase', commands: ['mkdir /opt/made', 'echo built > /opt/made/proof'] }
      const template = await local.template!.create(building)
      assert.deepEqual(template, { id: 'compute-built', name: 'compute-built', provider: 'paddock' })
      assert.ok((await local.template!.list()).some((one) => one.id === template.id))
      const made = await local.sandbox.create({ templateId: template.id })
      assert.equal((await made.runCommand('cat /opt/made/proof')).stdout, 'built\n')
      await made.destroy()
      // The end of the log of a step that fails is in the error.
      const failing = { name: 'compute-failed', template: 'smallbase', commands: ['echo before the end', 'false'] }
      const error = await local.template!.create(failing).then(() => undefined, (one: PaddockError) => one)
      assert.equal(error?.code, 'template_build_failed')
      assert.match(error?.message ?? '', /at step 2(.|\n)*before the end/)
      for (const name of ['compute-built', 'compute-failed']) await local.template!.delete(name)
      assert.ok(!(await local.template!.list()).some((one) => one.id === 'compute-built'))
    } finally {
      await own.remove()
    }
  })
})

describe('Mastra', () => {
  const box = new PaddockSandbox({ create: { ttlMs: 120_000 }, env: { A: 'b' } })
  before(() => box._start())
  after(() => box._destroy())

  test('it runs after start', async () => {
    assert.equal(box.status, 'running')
    assert.equal(box.provider, 'paddock')
    const info = await box.getInfo()
    assert.equal(info.status, 'running')
    assert.match(String(info.metadata?.['sandboxId']), /^sb-/)
  })
  test('executeCommand', async () => {
    const result = await box.executeCommand!('echo', ['a b', '$HOME'])
    assert.deepEqual([result.success, result.exitCode, result.stdout], [true, 0, 'a b $HOME\n'])
    const failed = await box.executeCommand!('sh', ['-c', 'echo e >&2; exit 4'])
    assert.deepEqual([failed.success, failed.exitCode, failed.stderr], [false, 4, 'e\n'])
  })
  test('executeCommand takes cwd, env, callbacks and a timeout', async () => {
    const seen: string[] = []
    const result = await box.executeCommand!('sh', ['-c', 'pwd; echo $A$B'], { cwd: '/tmp', env: { B: 'c' }, onStdout: (text) => seen.push(text) })
    assert.equal(result.stdout, '/tmp\nbc\n')
    assert.equal(seen.join(''), result.stdout)
    const late = await box.executeCommand!('sleep', ['600'], { timeout: 200 })
    assert.deepEqual([late.timedOut, late.success], [true, false])
  })
  test('executeCommand ends by its signal', async () => {
    const result = await box.executeCommand!('sleep', ['600'], { abortSignal: AbortSignal.timeout(200) })
    assert.equal(result.success, false)
  })
  test('spawn, stdin, wait', async () => {
    const handle = await box.processes.spawn('while read line; do echo got $line; done')
    await handle.sendStdin('one\n')
    await handle.sendStdin('two\n')
    await handle.closeStdin()
    const result = await handle.wait()
    assert.equal(result.stdout, 'got one\ngot two\n')
    assert.equal(handle.exitCode, 0)
  })
  test('a process has streams', async () => {
    const handle = await box.processes.spawn('cat')
    handle.writer.end('through streams')
    let text = ''
    for await (const piece of handle.reader) text += piece
    assert.equal(text, 'through streams')
  })
  test('list and get know it, also from another object', async () => {
    const handle = await box.processes.spawn('sleep 600')
    assert.ok((await box.processes.list()).some((one) => one.pid === handle.pid && one.running))
    assert.equal(await box.processes.get(handle.pid), handle)
    const other = new PaddockSandbox({ id: box.id })
    assert.deepEqual(await other.start(), { outcome: 'connected' })
    const found = await other.processes.get(handle.pid)
    assert.equal(await found?.kill(), true)
    assert.equal((await handle.wait()).success, false)
    assert.equal(await handle.kill(), false)
  })
  test('a process that is not there is undefined', async () => {
    assert.equal(await box.processes.get('999999'), undefined)
    assert.equal(await box.processes.get('no-number'), undefined)
  })
  test('writeFiles, with modes', async () => {
    await box.writeFiles([{ path: '/tmp/m/run.sh', content: '#!/bin/sh\necho ran', mode: 0o755 }, { path: '/tmp/m/b', content: Buffer.from([0, 255]) }])
    assert.equal((await box.executeCommand!('/tmp/m/run.sh')).stdout, 'ran\n')
    assert.deepEqual([...(await box.paddock.files.read('/tmp/m/b', { format: 'bytes' }))], [0, 255])
    await assert.rejects(box.writeFiles([{ path: '/tmp/x', content: '', mode: 0o7777 }]))
  })
  test('stop keeps files, and start finds them', async () => {
    const one = new PaddockSandbox({ create: { ttlMs: 120_000 } })
    await one._start()
    await one.paddock.files.write('/workspace/kept', 'x')
    await one._stop()
    assert.equal(one.status, 'stopped')
    await one._start()
    assert.equal(await one.paddock.files.read('/workspace/kept'), 'x')
    await one._destroy()
    assert.equal(one.status, 'destroyed')
  })
  test('before start it is not ready, and destroy is fine', async () => {
    const one = new PaddockSandbox()
    assert.throws(() => one.paddock, SandboxNotReadyError)
    await one._destroy()
  })
  test('hooks are called with the outcome', async () => {
    const outcomes: unknown[] = []
    const one = new PaddockSandbox({ create: { ttlMs: 60_000 }, onStart: ({ outcome }) => void outcomes.push(outcome) })
    await one._start()
    await one._destroy()
    assert.deepEqual(outcomes, ['created'])
  })
  test('a snapshot is a checkpoint that a sandbox of the same name begins with', async () => {
    const checkpoint = `mastra-${process.pid}`
    const one = new PaddockSandbox({ checkpoint, create: { ttlMs: 120_000 } })
    assert.equal(one.supportsCheckpoints, true)
    await one._start()
    for (const state of ['first', 'second']) {
      await one.paddock.files.write('/workspace/state', state)
      await one.snapshot()
    }
    const { id } = one
    await one._destroy()
    const again = new PaddockSandbox({ id, checkpoint, create: { ttlMs: 120_000 } })
    assert.deepEqual(await again.start(), { outcome: 'created' })
    assert.equal(await again.paddock.files.read('/workspace/state'), 'second')
    const { client } = again.paddock
    const written = (await client.snapshots()).filter((snapshot) => snapshot.name?.startsWith(`${checkpoint}.`))
    assert.equal(written.length, 1, 'an older one goes')
    // Another name begins with the seed, and writes to its own.
    const seeded = again.clone({ checkpointName: `${checkpoint}-other`, seedCheckpointName: checkpoint })
    await seeded._start()
    assert.equal(await seeded.paddock.files.read('/workspace/state'), 'second')
    await seeded._destroy()
    await again._destroy()
    for (const snapshot of written) await client.deleteSnapshot(snapshot)
  })
  test('a clone has the same settings, and goes its own way', async () => {
    const one = box.clone({ env: { C: 'd' }, workingDirectory: '/tmp', idleTimeoutMinutes: 5, actingUserId: 'user-1' })
    assert.notEqual(one.id, box.id)
    assert.equal(one.status, 'pending')
    await one._start()
    assert.equal((await one.executeCommand!('sh', ['-c', 'pwd; echo $A$C'])).stdout, '/tmp\nbd\n')
    const info = await one.paddock.info()
    assert.equal(info.metadata['mastra.acting-user'], 'user-1')
    await one._destroy()
    assert.equal(box.status, 'running')
  })
  test('a clone takes a sandbox that is there, and makes none in its place', async () => {
    const made = await sandbox()
    const one = box.clone({ sandboxId: made.id })
    assert.deepEqual(await one.start(), { outcome: 'connected' })
    assert.equal(one.paddock.id, made.id)
    await made.kill()
    await assert.rejects(box.clone({ sandboxId: made.id }).start(), { name: 'SandboxNotFoundError', message: /not there any more/ })
  })
  test('networking has an address only where the server has one', async () => {
    assert.equal(await box.networking.getPortUrl(80), null)
    const one = new PaddockSandbox({ client: tcp, create: { ttlMs: 60_000 } })
    await one._start()
    try {
      await serving(one.paddock, 8080)
      assert.equal(await fetched(`${(await one.networking.getPortUrl(8080)) ?? ''}mastra`), 'GET /mastra')
    } finally {
      await one._destroy()
    }
  })
  test('instructions tell of the network', () => {
    assert.match(box.getInstructions(), /no network/)
  })
  test('a workspace uses it', async () => {
    const workspace = new Workspace({ sandbox: new PaddockSandbox({ create: { ttlMs: 60_000 } }) })
    await workspace.init()
    const result = await workspace.sandbox!.executeCommand!('echo', ['in a workspace'])
    assert.equal(result.stdout, 'in a workspace\n')
    await workspace.destroy()
  })
})

describe('AI SDK', () => {
  test('tools have the words of the sandbox', async () => {
    const box = await sandbox()
    const tools = aiTools(box, { only: ['run_code', 'read_file'] })
    assert.deepEqual(Object.keys(tools), ['run_code', 'read_file'])
    assert.match(String(tools['run_code']?.description), /no network/)
  })
  test('generateText runs a tool and goes on', async () => {
    const box = await sandbox()
    let turn = 0
    const usage = { inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 }, outputTokens: { total: 1, text: 1, reasoning: 0 } }
    const model = new MockLanguageModelV4({
      doGenerate: async () =>
        ({
          warnings: [], usage,
          ...(turn++ === 0
            ? { finishReason: { unified: 'tool-calls', raw: 'x' }, content: [{ type: 'tool-call', toolCallId: 't', toolName: 'run_code', input: '{"code": "print(6 * 7)"}' }] }
            : { finishReason: { unified: 'stop', raw: 'x' }, content: [{ type: 'text', text: 'done' }] }),
        }) as never,
    })
    const result = await generateText({ model, tools: aiTools(box), prompt: 'six times seven', stopWhen: stepCountIs(3) })
    assert.equal(result.text, 'done')
    assert.equal(result.steps[0]?.toolResults[0]?.output, '42')
  })
  test('bad arguments of a model are told, not run', async () => {
    const box = await sandbox()
    const { execute } = aiTools(box)['read_file']!
    const told = await (execute as (input: unknown, options: unknown) => Promise<string>)({ path: 7 }, {})
    assert.match(told, /^error: path of read_file is 7/)
  })
})

describe('AI SDK harness', () => {
  const provider = paddockSandbox({ create: { ttlMs: 120_000 }, ports: [8080] })
  let session: Awaited<ReturnType<typeof provider.createSession>>
  before(async () => {
    session = await provider.createSession({ sessionId: `s-${process.pid}` })
  })
  after(() => session.destroy())

  test('it is a provider of this version', () => {
    assert.equal(provider.specificationVersion, 'harness-sandbox-v1')
    assert.equal(provider.providerId, 'paddock')
    assert.equal(session.defaultWorkingDirectory, '/workspace')
    assert.deepEqual([...session.ports], [8080])
  })
  test('run', async () => {
    assert.deepEqual(await session.run({ command: 'pwd; echo $A >&2; exit 3', env: { A: 'b' } }), { exitCode: 3, stdout: '/workspace\n', stderr: 'b\n' })
  })
  test('run ends by its signal', async () => {
    await assert.rejects(async () => session.run({ command: 'sleep 600', abortSignal: AbortSignal.timeout(200) }), { name: 'TimeoutError' })
  })
  test('spawn has both streams and an exit code', async () => {
    const process = await session.spawn({ command: 'echo out; echo err >&2; exit 5', workingDirectory: '/tmp' })
    assert.equal(await new Response(process.stdout).text(), 'out\n')
    assert.equal(await new Response(process.stderr).text(), 'err\n')
    assert.deepEqual(await process.wait(), { exitCode: 5 })
  })
  test('spawn is killed, twice', async () => {
    const process = await session.spawn({ command: 'sleep 600' })
    await process.kill()
    await process.kill()
    assert.notEqual((await process.wait()).exitCode, 0)
  })
  test('spawn ends by its signal, and wait rejects', async () => {
    const controller = new AbortController()
    const process = await session.spawn({ command: 'sleep 600', abortSignal: controller.signal })
    const waiting = process.wait()
    controller.abort(new RangeError('mine'))
    await assert.rejects(async () => waiting, RangeError)
  })
  test('files, as text, bytes and streams', async () => {
    await session.writeTextFile({ path: 'd/t', content: 'one\ntwo\nthree' })
    assert.equal(await session.readTextFile({ path: 'd/t' }), 'one\ntwo\nthree')
    assert.equal(await session.readTextFile({ path: 'd/t', startLine: 2, endLine: 9 }), 'two\nthree')
    await session.writeBinaryFile({ path: 'b', content: new Uint8Array([0, 255]) })
    assert.deepEqual([...((await session.readBinaryFile({ path: 'b' })) ?? [])], [0, 255])
    await session.writeFile({ path: 's', content: new Blob(['streamed']).stream() as ReadableStream<Uint8Array> })
    assert.equal(await new Response(await session.readFile({ path: 's' })).text(), 'streamed')
  })
  test('a file that is not there is null', async () => {
    assert.equal(await session.readTextFile({ path: 'nothing' }), null)
    assert.equal(await session.readFile({ path: 'nothing' }), null)
    assert.equal(await session.readBinaryFile({ path: 'nothing' }), null)
  })
  test('another encoding is refused for writing', async () => {
    await assert.rejects(async () => session.writeTextFile({ path: 'x', content: 'ä', encoding: 'latin1' }), TypeError)
  })
  test('resume finds it by the session', async () => {
    await session.writeTextFile({ path: 'kept', content: 'x' })
    await session.stop()
    const again = await provider.resumeSession!({ sessionId: `s-${process.pid}` })
    assert.equal(again.id, session.id)
    assert.equal(await again.readTextFile({ path: 'kept' }), 'x')
    await (await Sandbox.connect(session.id)).pause()
    assert.equal(await (await provider.resumeSession!({ sessionId: `s-${process.pid}` })).readTextFile({ path: 'kept' }), 'x')
    await assert.rejects(async () => provider.resumeSession!({ sessionId: 'never-was' }))
  })
  test('ids of any kind name different sandboxes', async () => {
    const [one, two] = await Promise.all([provider.createSession({ sessionId: 'A/../b' }), provider.createSession({ sessionId: 'A/../c' })])
    assert.notEqual(one.id, two.id)
    await Promise.all([one.destroy(), two.destroy()])
  })
  test('the first creation is kept for the next of the same identity', async () => {
    const identity = `template-${process.pid}`
    let calls = 0
    const onFirstCreate: NonNullable<NonNullable<Parameters<typeof provider.createSession>[0]>['onFirstCreate']> = async (inner) => {
      calls++
      await inner.writeTextFile({ path: '/workspace/installed', content: 'yes' })
    }
    const first = await provider.createSession({ identity, onFirstCreate })
    const second = await provider.createSession({ identity, onFirstCreate })
    assert.equal(calls, 1)
    assert.equal(await second.readTextFile({ path: '/workspace/installed' }), 'yes')
    await Promise.all([first.destroy(), second.destroy()])
    await new Client().deleteSnapshot(`harness-template-${identity}`)
  })
  test('a preparation that fails leaves no sandbox', async () => {
    const sessionId = `broken-${process.pid}`
    const failing = async (): Promise<void> => {
      throw new RangeError('mine')
    }
    await assert.rejects(async () => provider.createSession({ sessionId, onFirstCreate: failing }), RangeError)
    await assert.rejects(async () => provider.resumeSession!({ sessionId }))
  })
  test('the network policy changes rules', async () => {
    const gated = await paddockSandbox({ create: { ttlMs: 60_000, network: { allow: ['a.example.org'] } } }).createSession()
    await gated.setNetworkPolicy!({ mode: 'custom', allowedHosts: ['b.example.org'], deniedCIDRs: ['10.0.0.0/8'] })
    const network = await (await Sandbox.connect(gated.id)).network()
    assert.deepEqual((network.rules as { allow: string[] }).allow, ['b.example.org'])
    await gated.setNetworkPolicy!({ mode: 'allow-all' })
    await gated.setNetworkPolicy!({ mode: 'deny-all' })
    await gated.destroy()
  })
  test('a port has an address and the headers for it', async () => {
    const made = await paddockSandbox({ client: tcp, create: { ttlMs: 60_000 } }).createSession()
    const { url, headers } = await made.getPortEndpoint({ port: 8080, protocol: 'ws' })
    assert.match(url, /^ws:.*\/ports\/8080\/$/)
    assert.match(headers?.['authorization'] ?? '', /^Bearer /)
    await serving(await Sandbox.connect(made.id, { client: tcp }), 8080)
    const plain = await made.getPortEndpoint({ port: 8080 })
    assert.equal(await (await fetch(`${plain.url}endpoint`, { headers: plain.headers ?? {} })).text(), 'GET /endpoint')
    await made.destroy()
    await made.destroy()
  })
  test('an adapter gets a right to its port and to nothing else, which ends with its time', { timeout: 60_000 }, async () => {
    const made = await paddockSandbox({ client: tcp, create: { ttlMs: 60_000 } }).createSession()
    const box = await Sandbox.connect(made.id, { client: tcp })
    await serving(box, 8080)
    const { url, headers } = await made.getPortEndpoint({ port: 8080 })
    const asked = async (target: string): Promise<number> => (await fetch(target, { headers: { ...headers } })).status
    assert.equal(await asked(`${url}x`), 200)
    const api = `${TCP_URL}/v1/sandboxes/${box.id}`
    for (const target of [api, `${TCP_URL}/v1/sandboxes`, `${api}/files/content?path=/etc/hostname`, url.replace('8080', '8081')]) {
      const status = await asked(target)
      assert.ok([401, 403].includes(status), `${target}: ${status}`)
    }
    await made.destroy()
    const short = await paddockSandbox({ client: tcp, endpointMs: 1_000, create: { ttlMs: 60_000 } }).createSession()
    const brief = await short.getPortEndpoint({ port: 8080 })
    const status = async (): Promise<number> => (await fetch(brief.url, { headers: { ...brief.headers } })).status
    for (let turn = 0; turn < 300 && (await status()) !== 403; turn++) await sleep(100)
    assert.equal(await status(), 403)
    // The next one is as good as the first one was.
    assert.notEqual((await short.getPortEndpoint({ port: 8080 })).headers?.['authorization'], brief.headers?.['authorization'])
    await short.destroy()
  })
  test('the restricted view has nothing of the infrastructure', () => {
    const restricted = session.restricted()
    for (const name of ['stop', 'destroy', 'setNetworkPolicy', 'getPortEndpoint']) assert.equal(name in restricted, false)
  })
  test('a wrong token is an error of authentication', async () => {
    const wrong = paddockSandbox({ client: new Client({ url: TCP_URL, token: 'pdk_wrong' }) })
    await assert.rejects(async () => wrong.createSession(), (error) => HarnessSandboxAuthenticationError.isInstance(error))
  })
})
