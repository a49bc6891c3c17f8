/** What Mastra's own tests ask of a sandbox: commands, processes, a life of many starts and stops, and the end by others. */

import { PaddockSandbox } from 'paddock/mastra'
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Sandbox } from 'paddock'

const create = { ttlMs: 300_000 }
const box = new PaddockSandbox({ create })
const { processes } = box
const execute = box.executeCommand!.bind(box)
const shell = (script: string, options?: Parameters<typeof execute>[2]) => execute('sh', ['-c', script], options)

/** A sandbox of one test's own. */
async function other(options: ConstructorParameters<typeof PaddockSandbox>[0], work: (one: PaddockSandbox) => Promise<void>): Promise<void> {
  const one = new PaddockSandbox({ create, ...options })
  await one._start()
  try {
    await work(one)
  } finally {
    await one._destroy()
  }
}

/** As somebody else does it, of whom this object learns nothing. */
async function endedByOthers(one: PaddockSandbox): Promise<void> {
  await (await Sandbox.connect(one.paddock.id)).kill()
}

before(() => box._start())
after(() => box._destroy())

describe('commands of Mastra', () => {
  test('arguments are no words of the shell', async () => {
    assert.equal((await execute('echo', ['hello world', '$HOME', '`x`', "it's"])).stdout, "hello world $HOME `x` it's\n")
  })
  test('values of the environment with blanks and quotes', async () => {
    const result = await execute('printenv', ['SPECIAL'], { env: { SPECIAL: 'has blanks & "quotes"' } })
    assert.equal(result.stdout, 'has blanks & "quotes"\n')
  })
  test('a pipeline, a here document, both streams, an exit code of its own', async () => {
    assert.equal((await shell('echo "cherry banana apple" | tr " " "\\n" | sort | head -1')).stdout, 'apple\n')
    assert.equal((await shell("cat > /tmp/here << 'EOF'\nline one\nline two\nEOF\ncat /tmp/here")).stdout, 'line one\nline two\n')
    const both = await shell('echo out && echo err >&2; exit 42')
    assert.deepEqual([both.stdout, both.stderr, both.exitCode, both.success], ['out\n', 'err\n', 42, false])
  })
  test('5,000 lines are kept whole', async () => {
    const lines = (await shell('seq 1 5000')).stdout.trim().split('\n')
    assert.deepEqual([lines.length, lines[0], lines.at(-1)], [5000, '1', '5000'])
  })
  test('a time limit, with the output before it', async () => {
    const pieces: string[] = []
    const result = await shell('echo begun; sleep 600', { timeout: 500, onStdout: (text) => pieces.push(text) })
    assert.deepEqual([result.success, result.timedOut, pieces.join('')], [false, true, 'begun\n'])
    assert.equal((await execute('echo', ['fast'], { timeout: 10_000 })).success, true)
  })
  test('a signal ends it, and the output before is there', async () => {
    const controller = new AbortController()
    const result = await shell('echo before; exec sleep 600', { abortSignal: controller.signal, onStdout: () => controller.abort() })
    assert.deepEqual([result.success, result.killed, result.stdout], [false, true, 'before\n'])
  })
  test('a signal that was aborted before is a result as well', async () => {
    const result = await execute('sleep', ['600'], { abortSignal: AbortSignal.abort() })
    assert.deepEqual([result.success, result.killed], [false, true])
  })
  test('at the same time, each with an environment of its own', async () => {
    const results = await Promise.all(['1', '2', '3'].map((value) => shell('echo $VALUE', { env: { VALUE: value } })))
    assert.deepEqual(results.map(({ stdout }) => stdout), ['1\n', '2\n', '3\n'])
  })
  test('the environment of the sandbox, and that of a command over it', async () => {
    await other({ env: { A: '1', B: '2' } }, async (one) => {
      const say = async (env?: Record<string, string>) => (await one.executeCommand!('sh', ['-c', 'echo $A $B $C'], env ? { env } : {})).stdout
      assert.equal(await say(), '1 2\n')
      assert.equal(await say({ B: 'over', C: '3' }), '1 over 3\n')
      assert.equal(await say(), '1 2\n')
      one.setEnv((env) => ({ ...env, C: 'set' }))
      assert.equal(await say(), '1 2 set\n')
      assert.equal((await (await one.processes.spawn('printenv A')).wait()).stdout, '1\n')
    })
  })
})

describe('processes of Mastra', () => {
  test('a process that ended has a result that does not change', async () => {
    const handle = await processes.spawn('echo one; echo two >&2; exit 42')
    const [first, second] = [await handle.wait(), await handle.wait()]
    assert.deepEqual([first.stdout, first.stderr, first.exitCode, first.success], ['one\n', 'two\n', 42, false])
    assert.deepEqual(second, first)
    assert.deepEqual([handle.stdout, handle.stderr, handle.exitCode], ['one\n', 'two\n', 42])
    assert.equal(await handle.kill(), false)
    await assert.rejects(handle.sendStdin('late'))
  })
  test('output comes before it has ended', async () => {
    const seen: string[] = []
    const handle = await processes.spawn('echo out; echo err >&2; read line; echo $line', { onStdout: (text) => seen.push(text), onStderr: (text) => seen.push(text) })
    while (seen.length < 2) await sleep(5)
    assert.equal(handle.exitCode, undefined)
    await handle.sendStdin('go on\n')
    assert.equal((await handle.wait()).stdout, 'out\ngo on\n')
    assert.deepEqual(seen.sort(), ['err\n', 'go on\n', 'out\n'])
  })
  test('its streams: what is written arrives, and the reader ends', async () => {
    const handle = await processes.spawn('head -1')
    const pieces: string[] = []
    handle.reader.on('data', (piece: Buffer) => pieces.push(piece.toString()))
    const ended = new Promise((resolve) => handle.reader.on('end', resolve))
    await new Promise<void>((resolve, reject) => handle.writer.write('through\n', (error) => (error ? reject(error) : resolve())))
    await handle.wait()
    await ended
    assert.equal(pieces.join(''), 'through\n')
  })
  test('a signal that was aborted before kills it', async () => {
    const handle = await processes.spawn('sleep 600', { abortSignal: AbortSignal.abort() })
    assert.equal((await handle.wait()).success, false)
  })
  test('the list has commands that run and that ended', async () => {
    const [running, ended] = [await processes.spawn('sleep 600'), await processes.spawn('exit 7')]
    await ended.wait()
    const all = await processes.list()
    const of = (pid: string) => all.find((one) => one.pid === pid)
    assert.deepEqual(of(running.pid), { pid: running.pid, command: 'sleep 600', running: true })
    assert.deepEqual(of(ended.pid), { pid: ended.pid, command: 'exit 7', running: false, exitCode: 7 })
    await running.kill()
    assert.equal((await running.wait()).success, false)
  })
  test('found by its number while it runs, with its output, and killed so', async () => {
    const handle = await processes.spawn('echo there; exec sleep 600')
    while (handle.stdout === '') await sleep(5)
    assert.equal((await processes.get(handle.pid))?.stdout, 'there\n')
    assert.equal(await processes.kill(handle.pid), true)
    assert.equal((await handle.wait()).success, false)
    assert.equal(await processes.get(handle.pid), undefined)
  })
  test('one that ended by itself is read once more, and is then forgotten', async () => {
    const handle = await processes.spawn('echo read me')
    while (handle.exitCode === undefined) await sleep(5)
    const first = await processes.get(handle.pid)
    assert.deepEqual([first?.stdout, first?.exitCode], ['read me\n', 0])
    assert.equal(await processes.get(handle.pid), undefined)
  })
  test('numbers that no process has', async () => {
    assert.equal(await processes.get('99999'), undefined)
    assert.equal(await processes.kill('99999'), false)
  })
})

describe('the life of a sandbox of Mastra', () => {
  test('it says what it is, also before it begins', async () => {
    const fresh = new PaddockSandbox({ create })
    assert.notEqual(fresh.id, box.id)
    assert.equal(fresh.status, 'pending')
    assert.deepEqual([fresh.name, fresh.provider], ['PaddockSandbox', 'paddock'])
    await fresh._destroy()
    const info = await box.getInfo()
    assert.deepEqual([info.id, info.name, info.provider, info.status], [box.id, box.name, box.provider, 'running'])
    await box._start()
    assert.equal(box.status, 'running')
  })
  test('files and the id outlive stops and starts', async () => {
    const { id } = box
    await shell('echo kept > /tmp/kept')
    for (let cycle = 0; cycle < 3; cycle++) {
      await box._stop()
      assert.equal(box.status, 'stopped')
      await box._start()
      assert.equal((await execute('cat', ['/tmp/kept'])).stdout, 'kept\n')
    }
    assert.equal(box.id, id)
  })
  test('a command starts one that was stopped', async () => {
    await box._stop()
    assert.equal((await execute('echo', ['awake'])).stdout, 'awake\n')
    assert.equal(box.status, 'running')
  })
  test('many stops and many starts at the same time are one', async () => {
    await Promise.all([box._stop(), box._stop(), box._stop()])
    assert.equal(box.status, 'stopped')
    await Promise.all([box._start(), box._start(), box._start()])
    assert.equal((await execute('echo', ['one'])).stdout, 'one\n')
  })
  test('where others end it, the next command has a new one, and the hook is told', async () => {
    const outcomes: unknown[] = []
    await other({ onStart: ({ outcome }) => void outcomes.push(outcome) }, async (one) => {
      const first = one.paddock.id
      await endedByOthers(one)
      assert.equal((await one.executeCommand!('echo', ['recovered'])).stdout, 'recovered\n')
      assert.equal(one.status, 'running')
      assert.notEqual(one.paddock.id, first)
      await endedByOthers(one)
      const handles = await Promise.all(['a', 'b', 'c'].map((word) => one.processes.spawn(`echo ${word}`)))
      const results = await Promise.all(handles.map((handle) => handle.wait()))
      assert.deepEqual(results.map(({ stdout }) => stdout), ['a\n', 'b\n', 'c\n'])
      await endedByOthers(one)
      await one.writeFiles([{ path: '/tmp/again', content: 'x' }])
      assert.equal((await one.executeCommand!('cat', ['/tmp/again'])).stdout, 'x')
      assert.deepEqual(outcomes, ['created', 'created', 'created', 'created'])
    })
  })
  test('a sandbox that was named by its own id is not replaced', async () => {
    const made = await Sandbox.create(create)
    const one = new PaddockSandbox({ sandboxId: made.id })
    await one._start()
    await made.kill()
    await assert.rejects(one.executeCommand!('true'), { name: 'SandboxNotFoundError', message: /not there any more/ })
  })
  test('an id of any letters names one sandbox', async () => {
    const id = `User:42/Größe ${process.pid}`
    await other({ id }, async (one) => {
      assert.equal(one.id, id)
      const again = new PaddockSandbox({ id })
      assert.deepEqual(await again.start(), { outcome: 'connected' })
      assert.equal(again.paddock.id, one.paddock.id)
    })
  })
  test('what cannot be made is refused, and the next one works', async () => {
    const bad = new PaddockSandbox({ create: { template: 'no-such-template' } })
    await assert.rejects(bad._start(), { name: 'TemplateNotFoundError' })
    assert.equal(bad.status, 'error')
    await bad._destroy()
    await other({}, async (one) => assert.equal((await one.executeCommand!('echo', ['fine'])).stdout, 'fine\n'))
  })
})
