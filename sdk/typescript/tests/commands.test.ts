import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { ExecEndedError, InvalidRequestError, WaitTimeoutError, type Sandbox } from 'paddock'
import { collect, sandbox, withCode } from './setup.js'

let box: Sandbox
before(async () => {
  box = await sandbox()
})

describe('run', () => {
  test('gives both streams and the exit code', async () => {
    const result = await box.commands.run('echo out; echo err >&2; exit 3')
    assert.deepEqual([result.stdout, result.stderr, result.exitCode, result.ok], ['out\n', 'err\n', 3, false])
  })
  test('a command that succeeds is ok', async () => {
    const result = await box.commands.run('true')
    assert.equal(result.ok, true)
    assert.equal(result.cause.kind, 'exited')
    assert.ok(result.endedAt && result.endedAt >= result.startedAt)
  })
  test('takes a list of arguments without a shell', async () => {
    assert.equal((await box.commands.run(['printf', '%s|', 'a b', '$HOME', '*'])).stdout, 'a b|$HOME|*|')
  })
  test('a command that is not there exits with 127', async () => {
    assert.equal((await box.commands.run('no-such-command-here')).exitCode, 127)
  })
  test('an argument list with a program that is not there is no success', async () => {
    const result = await box.commands.run(['/no/such/program'])
    assert.equal(result.ok, false)
  })
  test('a signal is told as 128 and its number', async () => {
    assert.equal((await box.commands.run('kill -TERM $$')).exitCode, 143)
  })
  for (const [name, options, command, expected] of [
    ['env', { env: { GREETING: 'grüß "dich"' } }, 'printf %s "$GREETING"', 'grüß "dich"'],
    ['cwd', { cwd: '/tmp' }, 'pwd', '/tmp\n'],
    ['user', { user: 'root' }, 'id -u', '0\n'],
    ['stdin as text', { stdin: 'one\ntwo\n' }, 'wc -l', '2\n'],
    ['stdin as bytes', { stdin: new Uint8Array([0, 255, 0]) }, 'wc -c', '3\n'],
    ['stdin as a Blob', { stdin: new Blob(['abc']) }, 'cat', 'abc'],
    ['empty stdin', { stdin: '' }, 'cat; echo end', 'end\n'],
    ['no stdin', {}, 'cat; echo end', 'end\n'],
  ] as const) {
    test(`takes ${name}`, async () => {
      assert.equal((await box.commands.run(command, options)).stdout, expected)
    })
  }
  test('takes stdin as an async iterable', async () => {
    async function* pieces(): AsyncGenerator<string> {
      yield 'a'
      yield 'b'
    }
    assert.equal((await box.commands.run('cat', { stdin: pieces() })).stdout, 'ab')
  })
  test('takes stdin as a web stream', async () => {
    const stream = new Blob(['streamed']).stream() as ReadableStream<Uint8Array>
    assert.equal((await box.commands.run('cat', { stdin: stream })).stdout, 'streamed')
  })
  test('a large stdin arrives whole', async () => {
    const stdin = 'x'.repeat(1_000_000)
    assert.equal((await box.commands.run('wc -c', { stdin })).stdout.trim(), '1000000')
  })
  test('a command that does not read its stdin is no failure', async () => {
    assert.equal((await box.commands.run('exit 4', { stdin: new Uint8Array(500_000) })).exitCode, 4)
  })
  test('a stdin stream that fails fails the call', async () => {
    async function* broken(): AsyncGenerator<string> {
      yield 'a'
      throw new RangeError('my own')
    }
    await assert.rejects(box.commands.run('cat', { stdin: broken() }), RangeError)
  })
  test('timeoutMs kills it and keeps its output', async () => {
    const result = await box.commands.run('echo begun; sleep 600', { timeoutMs: 300 })
    assert.deepEqual([result.timedOut, result.stdout, result.exitCode], [true, 'begun\n', 124])
  })
  test('callbacks get the text of both streams', async () => {
    const [out, err]: [string[], string[]] = [[], []]
    const command = 'for i in 1 2 3; do echo $i; echo e$i >&2; done'
    const result = await box.commands.run(command, { onStdout: (text) => out.push(text), onStderr: (text) => err.push(text) })
    assert.equal(out.join(''), '1\n2\n3\n')
    assert.equal(err.join(''), 'e1\ne2\ne3\n')
    assert.equal(result.stdout, '1\n2\n3\n')
  })
  test('callbacks are awaited in order', async () => {
    const seen: string[] = []
    await box.commands.run('echo a; echo b', {
      onStdout: async (text) => {
        await new Promise((resolve) => setImmediate(resolve))
        seen.push(text)
      },
    })
    assert.equal(seen.join(''), 'a\nb\n')
  })
  test('an exception of a callback kills the command and is thrown', async () => {
    const mine = new RangeError('enough')
    const failing = box.commands.run('echo $$ > /tmp/callback.pid; echo go; sleep 600', {
      onStdout: () => {
        throw mine
      },
    })
    await assert.rejects(failing, mine)
    const gone = 'for i in $(seq 100); do kill -0 $(cat /tmp/callback.pid) 2>/dev/null || exit 0; sleep 0.1; done; exit 1'
    assert.equal((await box.commands.run(gone)).exitCode, 0)
  })
  test('a character in two pieces is handed over whole', async () => {
    const pieces: string[] = []
    await box.commands.run("printf '\\303'; sleep 0.2; printf '\\244'", { onStdout: (text) => pieces.push(text) })
    assert.equal(pieces.join(''), 'ä')
  })
  test('bytes that are not UTF-8 are replaced in the text', async () => {
    assert.equal((await box.commands.run("printf 'a\\377b'")).stdout, 'a\ufffdb')
  })
  test('unicode comes back as it went', async () => {
    const text = 'žluťoučký 🐎 \u2028 عربى'
    assert.equal((await box.commands.run(['printf', '%s', text])).stdout, text)
  })
  test('many at a time keep their outputs apart', async () => {
    const results = await Promise.all(Array.from({ length: 12 }, (_, index) => box.commands.run(`echo ${index}`)))
    assert.deepEqual(results.map((result) => result.stdout), Array.from({ length: 12 }, (_, index) => `${index}\n`))
  })
  test('something else than a command is refused here', async () => {
    await assert.rejects(box.commands.run(7 as never), InvalidRequestError)
  })
  test('a NUL in an argument is refused', async () => {
    await assert.rejects(box.commands.run(['echo', 'a\0b']), InvalidRequestError)
  })
  test('an empty list of arguments is refused', async () => {
    await assert.rejects(box.commands.run([]), InvalidRequestError)
  })
  test('timeoutMs that is no number is refused here', async () => {
    await assert.rejects(box.commands.run('true', { timeoutMs: Number.NaN }), InvalidRequestError)
  })
})

describe('start', () => {
  test('returns at once, and wait gives the result', async () => {
    const process = await box.commands.start('read line; echo got $line')
    assert.equal(await process.poll(), undefined)
    await process.writeStdin('it\n')
    assert.equal((await process.wait()).stdout, 'got it\n')
  })
  test('stdin can be written in turns and closed', async () => {
    const process = await box.commands.start('while read name; do echo hello $name; done')
    await Promise.all([process.writeStdin('a\n'), process.writeStdin('b\n'), process.writeStdin('c\n')])
    await process.closeStdin()
    assert.equal((await process.wait()).stdout, 'hello a\nhello b\nhello c\n')
  })
  test('connect finds it again and can write on', async () => {
    const process = await box.commands.start('cat')
    await process.writeStdin('first ')
    const again = box.commands.connect(process.exec)
    await again.writeStdin('second')
    await again.closeStdin()
    assert.equal((await again.wait()).stdout, 'first second')
  })
  test('the stream has output in its order and ends', async () => {
    const process = await box.commands.start('echo a; echo b >&2; echo c')
    const events = await collect(process)
    assert.equal(events.at(-1)?.type, 'ended')
    const text = events.map((event) => (event.type === 'output' && event.stream === 'stdout' ? event.text : '')).join('')
    assert.equal(text, 'a\nc\n')
  })
  test('the stream can begin at an offset', async () => {
    const process = await box.commands.start('printf 0123456789')
    await process.wait()
    const events = await collect(process.stream({ stdoutOffset: 7 }))
    assert.equal(events.map((event) => (event.type === 'output' ? event.text : '')).join(''), '789')
  })
  test('leaving the stream early leaves the command alone', async () => {
    const process = await box.commands.start('echo a; read line; echo $line')
    for await (const event of process) if (event.type === 'output') break
    await process.writeStdin('on\n')
    assert.equal((await process.wait()).stdout, 'a\non\n')
  })
  test('outputBytes are exact', async () => {
    const process = await box.commands.start("printf 'a\\377\\000b'")
    await process.wait()
    assert.deepEqual([...(await process.outputBytes())], [97, 255, 0, 98])
    assert.deepEqual([...(await process.outputBytes('stdout', { offset: 3 }))], [98])
  })
  test('outputBytes of another stream than two is refused', async () => {
    const process = await box.commands.start('true')
    await assert.rejects(process.outputBytes('stdin' as never), InvalidRequestError)
  })
  test('kill ends it, twice', async () => {
    const process = await box.commands.start('sleep 600')
    await process.kill()
    await process.kill()
    assert.equal((await process.wait()).ok, false)
  })
  test('signals arrive by name and by number', async () => {
    for (const signal of ['USR1', 10]) {
      const process = await box.commands.start("trap 'echo got; exit 0' USR1; echo ready; while true; do sleep 0.05; done")
      for await (const event of process) {
        if (event.type !== 'output') continue
        if (event.text.includes('ready')) await process.signal(signal)
      }
      assert.match((await process.wait()).stdout, /got/)
    }
  })
  test('a signal that does not exist is refused', async () => {
    const process = await box.commands.start('sleep 600')
    await assert.rejects(process.signal('NOSUCH'), InvalidRequestError)
    await process.kill()
  })
  test('input for a command that has ended is refused', async () => {
    const process = await box.commands.start('true')
    await process.wait()
    await assert.rejects(process.writeStdin('x'), ExecEndedError)
  })
  test('wait with timeoutMs throws and the command runs on', async () => {
    const process = await box.commands.start('read line; echo $line')
    await assert.rejects(process.wait({ timeoutMs: 50 }), WaitTimeoutError)
    await process.writeStdin('later\n')
    assert.equal((await process.wait()).stdout, 'later\n')
  })
  test('wait with callbacks gives output from the beginning', async () => {
    const process = await box.commands.start('echo early')
    await process.wait()
    const seen: string[] = []
    await process.wait({ onStdout: (text) => seen.push(text) })
    assert.equal(seen.join(''), 'early\n')
  })
  test('wait with callbacks and timeoutMs is refused', async () => {
    const process = await box.commands.start('true')
    await assert.rejects(process.wait({ timeoutMs: 5, onStdout: () => {} }), InvalidRequestError)
  })
  test('list has it', async () => {
    const process = await box.commands.start('true')
    await process.wait()
    assert.ok((await box.commands.list()).some((one) => one.exec === process.exec))
  })
  test('a number that no command has is told', async () => {
    await assert.rejects(box.commands.connect(999_999).poll(), withCode('exec_not_found'))
  })
  for (const bad of [-1, 1.5, Number.NaN, '1' as never]) {
    test(`connect refuses ${String(bad)}`, () => {
      assert.throws(() => box.commands.connect(bad), InvalidRequestError)
    })
  }
  test('output beyond the limit has a gap in the middle', async () => {
    const small = await sandbox({ limits: { output: '64KiB' } })
    const process = await small.commands.start('head -c 300000 /dev/zero')
    const events = await collect(process)
    const gap = events.find((event) => event.type === 'gap')
    assert.ok(gap)
    const result = await process.wait()
    assert.equal(result.stdoutBytes, 300_000)
    assert.ok(result.stdoutMissingBytes > 0)
  })
})

describe('pty', () => {
  test('is a terminal of the given size', async () => {
    const process = await box.commands.pty({ rows: 33, columns: 111 })
    await process.writeStdin('stty size; exit\n')
    let text = ''
    for await (const event of process) if (event.type === 'output') text += event.text
    assert.match(text, /33 111/)
  })
  test('can be resized', async () => {
    const process = await box.commands.pty({ command: 'read line; stty size' })
    await process.resize({ rows: 40, columns: 120 })
    await process.writeStdin('\n')
    assert.match((await process.wait()).stdout, /40 120/)
  })
  test('the environment names its kind', async () => {
    const process = await box.commands.pty({ command: 'echo $TERM', env: { LANG: 'C' } })
    assert.match((await process.wait()).stdout, /xterm-256color/)
  })
  test('Ctrl-C interrupts', async () => {
    // The trap is set before it is ready. Without one, a shell that is about to start its next command may take the signal for both.
    const process = await box.commands.pty({ command: "trap 'exit 3' INT; echo ready; while :; do sleep 0.1; done" })
    for await (const event of process) if (event.type === 'output' && event.text.includes('ready')) break
    await process.writeStdin('\x03')
    assert.equal((await process.wait()).exitCode, 3)
  })
  test('terminal: true is 24 by 80', async () => {
    const process = await box.commands.start('stty size', { terminal: true })
    assert.match((await process.wait()).stdout, /24 80/)
  })
  test('a size of nothing is refused', async () => {
    await assert.rejects(box.commands.pty({ rows: -1, columns: 80 }), InvalidRequestError)
  })
})

describe('abort', () => {
  test('a signal that is aborted before throws its reason', async () => {
    await assert.rejects(box.commands.run('true', { signal: AbortSignal.abort(new RangeError('mine')) }), RangeError)
  })
  test('an abort while it runs kills the command', async () => {
    const controller = new AbortController()
    const running = box.commands.run('echo $$ > /tmp/abort.pid; echo go; sleep 600', {
      signal: controller.signal,
      onStdout: () => controller.abort(),
    })
    await assert.rejects(running, { name: 'AbortError' })
    const gone = 'for i in $(seq 100); do kill -0 $(cat /tmp/abort.pid) 2>/dev/null || exit 0; sleep 0.1; done; exit 1'
    assert.equal((await box.commands.run(gone)).exitCode, 0)
  })
  test('AbortSignal.timeout is a TimeoutError', async () => {
    await assert.rejects(box.commands.run('sleep 600', { signal: AbortSignal.timeout(100) }), { name: 'TimeoutError' })
  })
  test('a signal that is never aborted changes nothing', async () => {
    assert.equal((await box.commands.run('echo a', { signal: new AbortController().signal })).stdout, 'a\n')
  })
  test('a stream ends by its signal', async () => {
    const controller = new AbortController()
    const process = await box.commands.start('echo a; sleep 600')
    await assert.rejects(async () => {
      for await (const event of process.stream({ signal: controller.signal })) if (event.type === 'output') controller.abort()
    }, { name: 'AbortError' })
    await process.kill()
  })
  test('wait ends by its signal, and the command runs on', async () => {
    const process = await box.commands.start('read line; echo $line')
    await assert.rejects(process.wait({ signal: AbortSignal.timeout(50) }), { name: 'TimeoutError' })
    await process.writeStdin('still\n')
    assert.equal((await process.wait()).stdout, 'still\n')
  })
})
