// Terminals with the SDK for Node.
import { assert, e2b, sharedSandbox, subject } from './world.mjs'

const { CommandExitError, TimeoutError } = e2b
const test = subject('terminals')

// A terminal whose words can be waited for.
async function terminal(options = {}) {
  const { pty } = await sharedSandbox()
  const seen = { text: '' }
  let look = () => {}
  const onData = (data) => { seen.text += Buffer.from(data).toString(); look() }
  const handle = await pty.create({ rows: 24, cols: 80, onData, ...options })
  return {
    pty, handle, seen,
    type: (text) => pty.sendInput(handle.pid, new TextEncoder().encode(text)),
    says: (word) => new Promise((done) => {
      look = () => { if (seen.text.includes(word)) done(seen.text) }
      look()
    }),
  }
}

test('it_has_a_size_that_changes', async () => {
  const { pty, handle, type, says } = await terminal({ rows: 30, cols: 100 })
  await type('stty size\n')
  await says('30 100')
  await pty.resize(handle.pid, { rows: 40, cols: 120 })
  await type('stty size\n')
  await says('40 120')
  await type('exit\n')
  assert.equal((await handle.wait()).exitCode, 0)
})

test('it_has_a_directory_variables_and_a_user', async () => {
  const { handle, type, says } = await terminal({ cwd: '/tmp', envs: { MARK: 'm1' }, user: 'root' })
  await type("echo =$MARK=$TERM=$(pwd)=$(id -u)=; exit\n")
  await says('=m1=xterm-256color=/tmp=0=')
  await handle.wait()
})

test('control_characters_reach_the_program', async () => {
  const { handle, type, says } = await terminal()
  await type(`sh -c "trap 'exit 130' INT; echo re''ady; while :; do sleep 0.1; done"\n`)
  await says('ready')
  await type('\x03')
  await type('echo code=$?\n')
  await says('code=130')
  assert.equal(await handle.kill(), true)
})

test('its_code_is_that_of_the_shell', async () => {
  const { handle, type } = await terminal()
  await type('exit 9\n')
  await assert.rejects(handle.wait(), (error) => error instanceof CommandExitError && error.exitCode === 9)
})

test('it_is_left_and_found_again', async () => {
  const { pty, handle, type } = await terminal({ timeoutMs: 0 })
  await handle.disconnect()
  let seen = ''
  const again = await pty.connect(handle.pid, { onData: (data) => { seen += Buffer.from(data).toString() } })
  await type("echo ba''ck; exit\n")
  await again.wait()
  assert.match(seen, /back/)
})

test('it_is_listed_and_killed', async () => {
  const { pty, handle } = await terminal()
  const { commands } = await sharedSandbox()
  assert.ok((await commands.list()).some((one) => one.pid === handle.pid))
  assert.equal(await pty.kill(handle.pid), true)
  await assert.rejects(handle.wait(), CommandExitError)
  assert.equal(await handle.kill(), false)
})

test('it_has_a_time_limit', async () => {
  const { handle } = await terminal({ timeoutMs: 1000 })
  await assert.rejects(handle.wait(), TimeoutError)
})
