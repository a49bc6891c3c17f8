// A sandbox that is paused when its time is over, and comes back: by a call of the program, or by itself.
import { assert, e2b, Sandbox, subject, until } from './world.mjs'

const { InvalidArgumentError, SandboxError } = e2b
const test = subject('sleep')
const TIMEOUT_MS = 600_000

async function withSleeper(lifecycle, use) {
  const sandbox = await Sandbox.create({ timeoutMs: TIMEOUT_MS, lifecycle })
  try {
    await use(sandbox)
  } finally {
    await Sandbox.kill(sandbox.sandboxId)
  }
}

async function timeIsOver(sandbox) {
  await sandbox.setTimeout(1000)
  const info = await until(() => sandbox.getInfo(), (one) => one.state === 'paused', 30_000)
  assert.equal(info.state, 'paused')
}

const secondsLeft = async (sandbox) => ((await sandbox.getInfo()).endAt.getTime() - Date.now()) / 1000

test('paused_when_its_time_is_over_until_connect', () => withSleeper({ onTimeout: 'pause' }, async (sandbox) => {
  assert.deepEqual((await sandbox.getInfo()).lifecycle, { onTimeout: 'pause', autoResume: false })
  const process = await sandbox.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
  const broken = process.wait().then(() => 'ended', () => 'ended')
  await sandbox.files.write('kept', 'x')
  await timeIsOver(sandbox)
  assert.equal(await sandbox.isRunning(), false)
  await assert.rejects(sandbox.commands.run('true'))
  assert.equal((await sandbox.getInfo()).state, 'paused', 'a look resumes nothing')
  const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 300_000 })
  assert.equal(await again.files.read('kept'), 'x')
  assert.ok((await again.commands.list()).some((one) => one.pid === process.pid), 'its processes went on')
  const left = await secondsLeft(again)
  assert.ok(left > 200 && left <= 301, `${left}`)
  await again.commands.kill(process.pid)
  await broken
}))

test('auto_resume_answers_the_next_call', () => withSleeper({ onTimeout: 'pause', autoResume: true }, async (sandbox) => {
  assert.deepEqual((await sandbox.getInfo()).lifecycle, { onTimeout: 'pause', autoResume: true })
  await timeIsOver(sandbox)
  assert.equal((await sandbox.commands.run('echo back')).stdout, 'back\n')
  const left = await secondsLeft(sandbox)
  assert.ok(left > 500 && left <= 601, `its time begins anew: ${left}`)
  await sandbox.pause()
  assert.equal(await sandbox.files.exists('/home/user'), true)
}))

test('files_alone_where_memory_is_not_kept', () => withSleeper({ onTimeout: { action: 'pause', keepMemory: false } }, async (sandbox) => {
  await sandbox.files.write('kept', 'y')
  await timeIsOver(sandbox)
  const again = await Sandbox.connect(sandbox.sandboxId)
  assert.equal(await again.files.read('kept'), 'y')
}))

test('auto_resume_wants_memory', async () => {
  const lifecycle = { onTimeout: { action: 'pause', keepMemory: false }, autoResume: true }
  await assert.rejects(Sandbox.create({ lifecycle }), (error) => error instanceof InvalidArgumentError || error instanceof SandboxError)
})

test('killed_where_that_is_said', async () => {
  const sandbox = await Sandbox.create({ timeoutMs: TIMEOUT_MS, lifecycle: { onTimeout: 'kill' } })
  assert.equal((await sandbox.getInfo()).lifecycle?.onTimeout, 'kill')
  await sandbox.setTimeout(1000)
  const running = await until(() => sandbox.isRunning(), (one) => !one, 30_000)
  assert.equal(running, false)
})
