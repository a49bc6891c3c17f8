// The SDK for JavaScript, unmodified. One line of JSON for each case.
import assert from 'node:assert/strict'
import path from 'node:path'
import { createRequire } from 'node:module'

const place = process.env.PADDOCK_TEST_E2B_NODE
const require = createRequire(path.join(place, 'x.js'))
const e2b = require(path.join(place, 'e2b'))
const { Sandbox, CommandExitError, TimeoutError, NotFoundError, AuthenticationError, FilesystemEventType } = e2b
const wait = (ms) => new Promise((done) => setTimeout(done, ms))

const cases = []
const test = (name, run) => cases.push([name, run])
let shared

test('a_sandbox_is_made_used_and_ended', async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 60_000, metadata: { flavour: 'a b' }, envs: { ONE: '1' } })
  assert.equal(await sandbox.isRunning(), true)
  assert.equal((await sandbox.commands.run('echo $ONE')).stdout, '1\n')
  const info = await sandbox.getInfo()
  assert.deepEqual([info.templateId, info.metadata, info.state], ['base', { flavour: 'a b' }, 'running'])
  const listed = await Sandbox.list({ query: { metadata: { flavour: 'a b' } } }).nextItems()
  assert.deepEqual(listed.map((one) => one.sandboxId), [sandbox.sandboxId])
  await sandbox.setTimeout(120_000)
  const again = await Sandbox.connect(sandbox.sandboxId)
  assert.equal((await again.commands.run('echo again')).stdout, 'again\n')
  assert.equal(await sandbox.kill(), true)
  assert.equal(await sandbox.isRunning(), false)
  assert.equal(await Sandbox.kill(sandbox.sandboxId), false)
})

test('wrong_keys_and_other_tenants', async () => {
  await assert.rejects(Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(64) }), AuthenticationError)
  await assert.rejects(Sandbox.connect(shared.sandboxId, { apiKey: process.env.OTHER_KEY }))
  await assert.rejects(Sandbox.create('no-such-template'), /no-such-template/)
})

test('output_codes_and_times', async () => {
  const result = await shared.commands.run('echo out; echo err >&2')
  assert.deepEqual([result.stdout, result.stderr, result.exitCode], ['out\n', 'err\n', 0])
  await assert.rejects(shared.commands.run('exit 3'), (error) => error instanceof CommandExitError && error.exitCode === 3)
  await assert.rejects(shared.commands.run('sleep 30', { timeoutMs: 1000 }), TimeoutError)
  const seen = []
  await shared.commands.run('echo streamed', { onStdout: (text) => { seen.push(text) } })
  assert.equal(seen.join(''), 'streamed\n')
  assert.equal((await shared.commands.run('pwd; id -u', { user: 'root', cwd: '/tmp' })).stdout, '/tmp\n0\n')
})

test('background_list_connect_input_and_kill', async () => {
  const handle = await shared.commands.run('cat', { background: true, stdin: true })
  assert.ok((await shared.commands.list()).some((one) => one.pid === handle.pid && one.cmd === '/bin/bash'))
  await shared.commands.sendStdin(handle.pid, 'typed\n')
  await shared.commands.closeStdin(handle.pid)
  assert.equal((await handle.wait()).stdout, 'typed\n')
  const sleeping = await shared.commands.run('sleep 60', { background: true })
  const again = await shared.commands.connect(sleeping.pid)
  assert.equal(await sleeping.kill(), true)
  await assert.rejects(again.wait(), CommandExitError)
  assert.equal(await shared.commands.kill(sleeping.pid), false)
})

test('a_reader_that_goes_away_ends_nothing', async () => {
  const handle = await shared.commands.run('sleep 0.5; echo survived > /tmp/survived', { background: true })
  await handle.disconnect()
  await wait(1200)
  assert.equal(await shared.files.read('/tmp/survived'), 'survived\n')
})

test('a_terminal', async () => {
  let seen = ''
  const handle = await shared.pty.create({ rows: 30, cols: 100, onData: (data) => { seen += Buffer.from(data).toString() } })
  await shared.pty.resize(handle.pid, { rows: 40, cols: 120 })
  await shared.pty.sendInput(handle.pid, new TextEncoder().encode('stty size; exit\n'))
  await handle.wait()
  assert.match(seen, /40 120/)
})

test('files_in_all_forms', async () => {
  const info = await shared.files.write('a/b.txt', 'grün')
  assert.equal(info.path, '/home/user/a/b.txt')
  assert.equal(await shared.files.read('a/b.txt'), 'grün')
  const bytes = new Uint8Array(300_000).map((_, at) => at % 251)
  await shared.files.write('/tmp/bytes', bytes.buffer)
  assert.deepEqual(Buffer.from(await shared.files.read('/tmp/bytes', { format: 'bytes' })), Buffer.from(bytes))
  const several = await shared.files.write([{ path: '/tmp/s/1', data: '1' }, { path: '/tmp/s/2', data: '2' }])
  assert.deepEqual(several.map((one) => one.path), ['/tmp/s/1', '/tmp/s/2'])
  await shared.files.write('/tmp/blob', new Blob(['blob']))
  assert.equal(await shared.files.read('/tmp/blob'), 'blob')
  await assert.rejects(shared.files.read('/no/such'), NotFoundError)
})

test('directories', async () => {
  assert.equal(await shared.files.makeDir('/tmp/made/deep'), true)
  assert.equal(await shared.files.makeDir('/tmp/made/deep'), false)
  await shared.files.write('/tmp/made/one', '1')
  assert.deepEqual((await shared.files.list('/tmp/made')).map((one) => [one.name, one.type]).sort(), [['deep', 'dir'], ['one', 'file']])
  assert.equal((await shared.files.getInfo('/tmp/made/one')).size, 1)
  assert.equal((await shared.files.rename('/tmp/made/one', '/tmp/made/two')).path, '/tmp/made/two')
  assert.equal(await shared.files.exists('/tmp/made/one'), false)
  await shared.files.remove('/tmp/made')
  assert.equal(await shared.files.exists('/tmp/made'), false)
})

test('a_watch_tells_events_as_they_come', async () => {
  await shared.files.makeDir('/tmp/watched')
  const seen = []
  const handle = await shared.files.watchDir('/tmp/watched', (event) => { seen.push([event.type, event.name]) })
  await shared.files.write('/tmp/watched/new.txt', 'x')
  for (let n = 0; n < 100 && seen.length < 3; n++) await wait(50)
  const { CREATE, CHMOD, WRITE } = FilesystemEventType
  assert.deepEqual(seen, [[CREATE, 'new.txt'], [CHMOD, 'new.txt'], [WRITE, 'new.txt']])
  await handle.stop()
})

test('signed_addresses', async () => {
  await shared.files.write('/tmp/signed.txt', 'signed')
  const read = await fetch(await shared.downloadUrl('/tmp/signed.txt', { useSignatureExpiration: 60_000 }))
  assert.equal(await read.text(), 'signed')
  const form = new FormData()
  form.append('file', new Blob(['formed']), '/tmp/formed.txt')
  const written = await fetch(await shared.uploadUrl(), { method: 'POST', body: form })
  assert.equal(written.status, 200, await written.clone().text())
  assert.equal(await shared.files.read('/tmp/formed.txt'), 'formed')
  assert.equal((await fetch((await shared.downloadUrl('/tmp/signed.txt')).replace('signed.txt', 'other'))).status, 401)
})

test('paused_and_resumed', async () => {
  const sandbox = await Sandbox.create()
  await sandbox.files.write('kept.txt', 'kept')
  assert.equal(await sandbox.pause(), true)
  assert.equal(await sandbox.isRunning(), false)
  const resumed = await sandbox.connect()
  assert.equal(await resumed.files.read('kept.txt'), 'kept')
  await resumed.kill()
})

test('the_end_of_a_sandbox_breaks_its_streams', async () => {
  const sandbox = await Sandbox.create()
  const handle = await sandbox.commands.run('sleep 100', { background: true })
  const ended = assert.rejects(handle.wait())
  await wait(200)
  await sandbox.kill()
  await ended
  await assert.rejects(sandbox.commands.run('true'))
})

test('metrics_and_snapshots', async () => {
  const [now] = await shared.getMetrics()
  assert.ok(now.memTotal > 0 && now.cpuCount >= 1)
  const snapshot = await shared.createSnapshot()
  const copy = await Sandbox.create(snapshot.snapshotId)
  assert.equal(await copy.isRunning(), true)
  await copy.kill()
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true)
})

test('code_runs_and_remembers', async () => {
  const { Sandbox: Interpreter } = require(path.join(place, '@e2b/code-interpreter'))
  const sandbox = await Interpreter.create()
  try {
    await sandbox.runCode('x = 41')
    const out = []
    const execution = await sandbox.runCode('print("hi"); x + 1', { onStdout: (one) => { out.push(one.line) } })
    assert.equal(execution.text, '42')
    assert.equal(out.join(''), 'hi\n')
    assert.equal((await sandbox.runCode('1 / 0')).error.name, 'ZeroDivisionError')
    const context = await sandbox.createCodeContext({ language: 'javascript' })
    assert.equal((await sandbox.runCode('6 * 7', { context })).text, '42')
  } finally {
    await sandbox.kill()
  }
})

shared = await Sandbox.create({ timeoutMs: 300_000 })
let failed = 0
for (const [name, run] of cases) {
  try {
    await run()
    console.log(JSON.stringify({ name, ok: true }))
  } catch (error) {
    failed += 1
    console.log(JSON.stringify({ name, ok: false, error: String(error?.stack ?? error) }))
  }
}
await shared.kill()
process.exit(failed ? 1 : 0)
