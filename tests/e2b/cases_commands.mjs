// Commands with the SDK for Node.
import { address, assert, e2b, sharedSandbox, subject, until, wait, withSandbox } from './world.mjs'

const { CommandExitError, InvalidArgumentError, NotFoundError, SandboxError, TimeoutError } = e2b
const NO_SUCH_PID = 4_000_000
const test = subject('commands')
const run = async (command, options) => (await sharedSandbox()).commands.run(command, options)
const failure = async (command, options) => {
  try {
    await run(command, options)
  } catch (error) {
    return error
  }
  throw new Error(`${command} did not fail`)
}

test('output_and_code', async () => {
  const result = await run('echo out; echo err >&2')
  assert.deepEqual([result.stdout, result.stderr, result.exitCode, result.error], ['out\n', 'err\n', 0, undefined])
})

test('a_command_that_fails', async () => {
  const error = await failure('echo some; echo more >&2; exit 7')
  assert.ok(error instanceof CommandExitError && error instanceof SandboxError)
  assert.deepEqual([error.exitCode, error.stdout, error.stderr, error.error], [7, 'some\n', 'more\n', 'exit status 7'])
})

test('a_program_that_is_not_there', async () => {
  const error = await failure('no-such-program-here')
  assert.deepEqual([error.exitCode, error.stderr.includes('no-such-program-here')], [127, true])
})

test('too_long_is_a_timeout', async () => {
  assert.ok(await failure('echo begun; sleep 60', { timeoutMs: 1000 }) instanceof TimeoutError)
})

test('a_time_limit_holds_in_the_background', async () => {
  const handle = await run('sleep 60', { background: true, timeoutMs: 1000 })
  await assert.rejects(handle.wait(), TimeoutError)
  const { commands } = await sharedSandbox()
  const gone = (list) => !list.some((one) => one.pid === handle.pid)
  assert.ok(gone(await until(() => commands.list(), gone)))
})

test('no_time_limit_is_zero', async () => {
  const handle = await run('read line; echo $line', { background: true, stdin: true, timeoutMs: 0 })
  await handle.sendStdin('late\n')
  assert.equal((await handle.wait()).stdout, 'late\n')
})

test('callbacks_get_each_stream_apart', async () => {
  const out = [], err = []
  const result = await run('for n in 1 2 3; do echo o$n; echo e$n >&2; done', {
    onStdout: (text) => { out.push(text) }, onStderr: async (text) => { err.push(text) },
  })
  assert.deepEqual([out.join(''), err.join('')], [result.stdout, result.stderr])
  assert.deepEqual([result.stdout, result.stderr], ['o1\no2\no3\n', 'e1\ne2\ne3\n'])
})

test('output_comes_while_the_command_still_runs', async () => {
  let begun
  const first = new Promise((done) => { begun = done })
  const handle = await run('echo begun; read line; echo $line', { background: true, stdin: true, onStdout: (text) => begun(text) })
  assert.equal(await first, 'begun\n')
  await handle.sendStdin('went on\n')
  assert.equal((await handle.wait()).stdout, 'begun\nwent on\n')
})

test('large_output_comes_whole', async () => {
  const { stdout } = await run('seq 1 200000')
  assert.ok(stdout.endsWith('\n200000\n'))
  assert.equal(stdout.split('\n').length, 200001)
})

test('text_of_other_scripts', async () => {
  assert.equal((await run("printf 'gr\\303\\274n \\360\\237\\230\\200'")).stdout, 'grün 😀')
  assert.equal((await run("printf 'a\\377b'")).stdout, 'a\ufffdb')
})

test('quotes_and_newlines', async () => {
  assert.equal((await run(`echo "a 'b'" 'c "d"'\necho e`)).stdout, `a 'b' c "d"\ne\n`)
})

test('variables_of_a_command', async () => {
  assert.equal((await run('echo "$A-$B"', { envs: { A: '1', B: 'x y' } })).stdout, '1-x y\n')
  assert.equal((await run('echo "$A"')).stdout, '\n')
})

test('variables_of_the_sandbox', () => withSandbox({ envs: { A: 'sandbox', B: 'both' } }, async (sandbox) => {
  assert.equal((await sandbox.commands.run('echo $A $B', { envs: { A: 'command' } })).stdout, 'command both\n')
  assert.equal((await sandbox.commands.run('echo $A')).stdout, 'sandbox\n')
}))

test('directory', async () => {
  assert.equal((await run('pwd')).stdout, '/home/user\n')
  assert.equal((await run('pwd', { cwd: '/tmp' })).stdout, '/tmp\n')
  assert.ok(await failure('true', { cwd: '/no/such/place' }) instanceof InvalidArgumentError)
})

test('user', async () => {
  assert.equal((await run('id -u; echo $HOME $USER')).stdout, '1000\n/home/user user\n')
  assert.equal((await run('id -u; echo $HOME $USER; pwd', { user: 'root' })).stdout, '0\n/root root\n/root\n')
  assert.ok(await failure('true', { user: 'nobody-knows' }) instanceof Error)
})

test('a_listed_command_has_its_details', async () => {
  const handle = await run('sleep 60', { background: true, envs: { MARK: '1' }, cwd: '/tmp', timeoutMs: 0 })
  const { commands } = await sharedSandbox()
  const one = (await commands.list()).find((listed) => listed.pid === handle.pid)
  assert.deepEqual([one.cmd, one.args, one.envs, one.cwd], ['/bin/bash', ['-l', '-c', 'sleep 60'], { MARK: '1' }, '/tmp'])
  assert.equal(await handle.kill(), true)
  assert.ok(!(await commands.list()).some((listed) => listed.pid === handle.pid))
})

test('connect_and_kill', async () => {
  const { commands } = await sharedSandbox()
  const handle = await run('sleep 60', { background: true })
  const again = await commands.connect(handle.pid)
  assert.equal(again.pid, handle.pid)
  assert.equal(await commands.kill(handle.pid), true)
  await assert.rejects(again.wait(), (error) => error instanceof CommandExitError && /killed/.test(error.error))
  assert.equal(await commands.kill(handle.pid), false)
})

test('input_and_its_end', async () => {
  const { commands } = await sharedSandbox()
  const handle = await run('cat; echo end', { background: true, stdin: true })
  await commands.sendStdin(handle.pid, 'one\n')
  await handle.sendStdin(new TextEncoder().encode('two\n'))
  await handle.closeStdin()
  assert.equal((await handle.wait()).stdout, 'one\ntwo\nend\n')
})

test('much_input_goes_in_whole', async () => {
  const handle = await run('wc -c', { background: true, stdin: true })
  for (let n = 0; n < 4; n++) await handle.sendStdin('x'.repeat(500_000))
  await handle.closeStdin()
  assert.equal((await handle.wait()).stdout.trim(), '2000000')
})

test('without_input_a_command_reads_nothing', async () => {
  assert.equal((await run('cat; echo end')).stdout, 'end\n')
})

test('a_reader_that_goes_away_ends_nothing', async () => {
  const { commands } = await sharedSandbox()
  const handle = await run('read line; echo $line', { background: true, stdin: true, timeoutMs: 0 })
  await handle.disconnect()
  const again = await commands.connect(handle.pid)
  await commands.sendStdin(handle.pid, 'survived\n')
  assert.equal((await again.wait()).stdout, 'survived\n')
})

test('two_readers_see_the_same', async () => {
  const { commands } = await sharedSandbox()
  const first = await run('read line; echo out; exit 5', { background: true, stdin: true })
  const second = await commands.connect(first.pid)
  await first.sendStdin('\n')
  for (const reader of [first, second]) {
    await assert.rejects(reader.wait(), (error) => error.exitCode === 5 && error.stdout === 'out\n')
  }
})

test('processes_that_are_not_there', async () => {
  const { commands, pty } = await sharedSandbox()
  assert.equal(await commands.kill(NO_SUCH_PID), false)
  assert.equal(await pty.kill(NO_SUCH_PID), false)
  await assert.rejects(commands.connect(NO_SUCH_PID), NotFoundError)
  await assert.rejects(commands.sendStdin(NO_SUCH_PID, 'x'), NotFoundError)
  await assert.rejects(commands.closeStdin(NO_SUCH_PID), NotFoundError)
  await assert.rejects(pty.resize(NO_SUCH_PID, { rows: 1, cols: 1 }), NotFoundError)
})

test('many_at_once', async () => {
  const said = await Promise.all(Array.from({ length: 20 }, (_, n) => run(`echo ${n}`)))
  assert.deepEqual(said.map((one) => one.stdout), Array.from({ length: 20 }, (_, n) => `${n}\n`))
})

test('a_caller_that_gives_up', async () => {
  const giving = new AbortController()
  const running = run('echo begun; sleep 60', { signal: giving.signal, onStdout: () => giving.abort() })
  await assert.rejects(running)
  assert.equal((await run('echo well')).stdout, 'well\n')
})

test('a_handle_tells_its_state', async () => {
  const handle = await run('echo out; exit 3', { background: true })
  await assert.rejects(handle.wait(), CommandExitError)
  assert.deepEqual([handle.exitCode, handle.stdout, handle.stderr, handle.error], [3, 'out\n', '', 'exit status 3'])
})

// The SDK for Node has no method for it; its protocol has the call, and a program may send the parts one after the other.
test('input_as_a_stream_of_messages', async () => {
  const sandbox = await sharedSandbox()
  const handle = await run('cat; echo end', { background: true, stdin: true })
  const message = (value) => {
    const text = Buffer.from(JSON.stringify(value))
    const head = Buffer.alloc(5)
    head.writeUInt32BE(text.length, 1)
    return Buffer.concat([head, text])
  }
  async function * messages() {
    yield message({ start: { process: { pid: handle.pid } } })
    for (let n = 0; n < 100; n++) {
      yield message({ data: { input: { stdin: Buffer.from(`line ${n}\n`).toString('base64') } } })
      if (n === 50) await wait(50)
    }
  }
  const headers = {
    'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '49983', 'X-Access-Token': sandbox.envdAccessToken,
    'Content-Type': 'application/connect+json', 'Connect-Protocol-Version': '1',
  }
  const answer = await fetch(`${address}/process.Process/StreamInput`, { method: 'POST', headers, body: messages(), duplex: 'half' })
  const said = Buffer.from(await answer.arrayBuffer())
  assert.deepEqual([answer.status, said.toString('latin1')], [200, '\0\0\0\0\x02{}\x02\0\0\0\x02{}'])
  await handle.closeStdin()
  const lines = Array.from({ length: 100 }, (_, n) => `line ${n}\n`).join('')
  assert.equal((await handle.wait()).stdout, `${lines}end\n`)
})
