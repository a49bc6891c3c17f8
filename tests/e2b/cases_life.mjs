// Sandboxes with the SDK for Node: create, look, connect, list, pause, copy, end.
import { address, assert, e2b, keys, Sandbox, sharedSandbox, subject, until, withSandbox } from './world.mjs'

const { AuthenticationError, NotFoundError, SandboxError, SandboxNotFoundError, TimeoutError } = e2b
const GONE = 'sb-0000000000000000'
const test = subject('life')
const listed = async (query) => (await Sandbox.list({ query }).nextItems()).map((one) => one.sandboxId)
const secondsLeft = (info) => (info.endAt - Date.now()) / 1000

test('a_sandbox_is_made_used_and_ended', async () => {
  const sandbox = await Sandbox.create()
  assert.equal(await sandbox.isRunning(), true)
  assert.equal((await sandbox.commands.run('echo hi')).stdout, 'hi\n')
  assert.equal(await sandbox.kill(), true)
  assert.equal(await sandbox.isRunning(), false)
  assert.equal(await Sandbox.kill(sandbox.sandboxId), false)
})

test('what_is_asked_of_a_new_one_holds', () =>
  withSandbox({ timeoutMs: 77_000, metadata: { flavour: 'a b' }, envs: { ONE: '1' } }, async (sandbox) => {
    assert.equal((await sandbox.commands.run('echo $ONE')).stdout, '1\n')
    const info = await sandbox.getInfo()
    assert.deepEqual([info.sandboxId, info.templateId, info.metadata, info.state], [sandbox.sandboxId, 'base', { flavour: 'a b' }, 'running'])
    assert.ok(info.cpuCount >= 1 && info.memoryMB > 0)
    assert.ok(secondsLeft(info) > 60 && secondsLeft(info) < 80)
  }))

test('wrong_keys', async () => {
  await assert.rejects(Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(64) }), AuthenticationError)
  await assert.rejects(Sandbox.getInfo((await sharedSandbox()).sandboxId, { apiKey: 'e2b_' + '0'.repeat(64) }), AuthenticationError)
})

test('another_tenant_sees_nothing', async () => {
  const { sandboxId } = await sharedSandbox()
  const other = { apiKey: keys.other }
  await assert.rejects(Sandbox.connect(sandboxId, other), NotFoundError)
  await assert.rejects(Sandbox.getInfo(sandboxId, other), NotFoundError)
  await assert.rejects(Sandbox.setTimeout(sandboxId, 1000, other), NotFoundError)
  assert.equal(await Sandbox.kill(sandboxId, other), false)
  assert.ok(!(await Sandbox.list(other).nextItems()).some((one) => one.sandboxId === sandboxId))
})

test('a_key_that_only_reads', async () => {
  const { sandboxId } = await sharedSandbox()
  assert.equal((await Sandbox.getInfo(sandboxId, { apiKey: keys.reading })).sandboxId, sandboxId)
  await assert.rejects(Sandbox.create({ apiKey: keys.reading }), SandboxError)
  await assert.rejects(Sandbox.kill(sandboxId, { apiKey: keys.reading }), SandboxError)
})

test('an_unknown_template_is_named', async () => {
  await assert.rejects(Sandbox.create('no-such-template'), /no-such-template/)
})

test('what_is_gone_is_not_found', async () => {
  await assert.rejects(Sandbox.connect(GONE), SandboxNotFoundError)
  await assert.rejects(Sandbox.getInfo(GONE), SandboxNotFoundError)
  await assert.rejects(Sandbox.setTimeout(GONE, 1000), NotFoundError)
  await assert.rejects(Sandbox.pause(GONE), NotFoundError)
  assert.equal(await Sandbox.kill(GONE), false)
})

test('connect_extends_and_never_shortens', () => withSandbox({ timeoutMs: 500_000 }, async (sandbox) => {
  const before = (await sandbox.getInfo()).endAt
  const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 5000 })
  assert.ok((await again.getInfo()).endAt >= before)
  await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 900_000 })
  assert.ok((await sandbox.getInfo()).endAt - before > 300_000)
  assert.equal((await again.commands.run('echo again')).stdout, 'again\n')
}))

test('a_timeout_is_set_both_ways', () => withSandbox({ timeoutMs: 60_000 }, async (sandbox) => {
  await sandbox.setTimeout(600_000)
  assert.ok(secondsLeft(await sandbox.getInfo()) > 500)
  await Sandbox.setTimeout(sandbox.sandboxId, 50_000)
  assert.ok(secondsLeft(await sandbox.getInfo()) < 55)
}))

test('a_timeout_ends_it', async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 1000 })
  assert.equal(await until(() => sandbox.isRunning(), (running) => !running, 20_000), false)
  await assert.rejects(sandbox.commands.run('true'), SandboxNotFoundError)
})

test('lists_have_pages', async () => {
  const made = await Promise.all([1, 2, 3].map(() => Sandbox.create({ metadata: { pages: 'js' } })))
  try {
    const pages = Sandbox.list({ query: { metadata: { pages: 'js' } }, limit: 2 })
    const first = await pages.nextItems()
    assert.deepEqual([first.length, pages.hasNext], [2, true])
    const rest = await Sandbox.list({ query: { metadata: { pages: 'js' } }, limit: 2, nextToken: pages.nextToken }).nextItems()
    assert.deepEqual([...first, ...rest].map((one) => one.sandboxId).sort(), made.map((one) => one.sandboxId).sort())
    await pages.nextItems()
    assert.equal(pages.hasNext, false)
  } finally {
    await Promise.all(made.map((one) => one.kill()))
  }
})

test('lists_with_the_oldest_first', async () => {
  const metadata = { order: 'js' }
  const made = []
  try {
    for (let number = 0; number < 3; number++) made.push((await Sandbox.create({ metadata })).sandboxId)
    const pages = Sandbox.list({ query: { metadata }, order: 'asc', limit: 2 })
    const seen = [...(await pages.nextItems()), ...(await pages.nextItems())].map((one) => one.sandboxId)
    assert.deepEqual(seen, made)
    assert.deepEqual(await listed({ metadata }), [...made].reverse())
  } finally {
    await Promise.all(made.map((id) => Sandbox.kill(id)))
  }
})

test('a_port_is_public_by_the_owners_word_alone', async () => {
  await assert.rejects(Sandbox.create({ network: { allowPublicTraffic: true } }), /--public-ports/)
  await withSandbox({ network: { allowPublicTraffic: false } }, async (sandbox) => assert.ok(sandbox.trafficAccessToken))
})

test('lists_by_metadata_state_template_and_time', () => withSandbox({ metadata: { 'by js': 'ü&=' } }, async (sandbox) => {
  const metadata = { 'by js': 'ü&=' }
  assert.deepEqual(await listed({ metadata }), [sandbox.sandboxId])
  assert.deepEqual(await listed({ metadata: { 'by js': 'x' } }), [])
  assert.deepEqual(await listed({ metadata, template: 'base' }), [sandbox.sandboxId])
  assert.deepEqual(await listed({ metadata, template: 'code-interpreter-v1' }), [])
  assert.deepEqual(await listed({ metadata, startedAfter: new Date(Date.now() + 3_600_000) }), [])
  await sandbox.pause()
  assert.deepEqual(await listed({ metadata, state: ['running'] }), [])
  assert.deepEqual(await listed({ metadata, state: ['paused'] }), [sandbox.sandboxId])
  assert.deepEqual(await listed({ metadata, state: ['paused', 'running'] }), [sandbox.sandboxId])
}))

test('paused_and_resumed_with_its_memory', async () => {
  const sandbox = await Sandbox.create()
  await sandbox.files.write('kept.txt', 'kept')
  const handle = await sandbox.commands.run('read line; echo $line > woken', { background: true, stdin: true, timeoutMs: 0 })
  handle.wait().catch(() => {})
  assert.equal(await sandbox.pause(), true)
  assert.equal(await sandbox.pause(), false)
  assert.equal(await sandbox.isRunning(), false)
  assert.equal((await sandbox.getInfo()).state, 'paused')
  await assert.rejects(sandbox.commands.run('true'), SandboxNotFoundError)
  const resumed = await sandbox.connect()
  assert.equal(await resumed.files.read('kept.txt'), 'kept')
  await resumed.commands.sendStdin(handle.pid, 'went on\n')
  assert.equal(await until(() => resumed.files.read('woken').catch(() => ''), (text) => text !== ''), 'went on\n')
  await resumed.kill()
})

test('paused_by_id_and_ended_asleep', async () => {
  const sandbox = await Sandbox.create()
  assert.equal(await Sandbox.pause(sandbox.sandboxId), true)
  assert.equal(await Sandbox.kill(sandbox.sandboxId), true)
  await assert.rejects(sandbox.connect(), NotFoundError)
})

test('metrics', async () => {
  const sandbox = await sharedSandbox()
  // A sandbox in which nothing has run uses no memory.
  const running = await sandbox.commands.run('sleep 60', { background: true })
  const now = (await sandbox.getMetrics()).at(-1)
  await running.kill()
  assert.ok(now.memTotal > 0 && now.cpuCount >= 1 && now.diskTotal > 0 && now.memUsed > 0)
  assert.ok(Math.abs(now.timestamp - Date.now()) < 60_000)
  assert.equal((await Sandbox.getMetrics(sandbox.sandboxId)).at(-1).memTotal, now.memTotal)
})

test('snapshots_are_templates', () => withSandbox({}, async (sandbox) => {
  await sandbox.files.write('state', 'before')
  const { snapshotId } = await sandbox.createSnapshot()
  await sandbox.files.write('state', 'after')
  const copy = await Sandbox.create(snapshotId)
  assert.equal(await copy.files.read('state'), 'before')
  await copy.kill()
  assert.deepEqual((await sandbox.listSnapshots().nextItems()).map((one) => one.snapshotId), [snapshotId])
  assert.equal(await Sandbox.deleteSnapshot(snapshotId, { apiKey: keys.other }), false)
  assert.equal(await Sandbox.deleteSnapshot(snapshotId), true)
  assert.equal(await Sandbox.deleteSnapshot(snapshotId), false)
  await assert.rejects(Sandbox.create(snapshotId), SandboxError)
}))

test('forks_begin_with_the_files', () => withSandbox({}, async (sandbox) => {
  await sandbox.files.write('one', '1')
  const children = await sandbox.fork({ count: 2 })
  assert.equal(children.length, 2)
  for (const child of children) {
    assert.equal(await child.files.read('one'), '1')
    await child.files.write('one', child.sandboxId)
  }
  assert.equal(await sandbox.files.read('one'), '1')
  await Promise.all(children.map((child) => child.kill()))
  await assert.rejects(Sandbox.fork(sandbox.sandboxId, { apiKey: keys.other }), Error)
}))

test('the_end_of_a_sandbox_breaks_its_streams', async () => {
  const sandbox = await Sandbox.create()
  const handle = await sandbox.commands.run('sleep 100', { background: true, timeoutMs: 0 })
  const again = await sandbox.commands.connect(handle.pid, { timeoutMs: 0 })
  const ended = Promise.all([assert.rejects(handle.wait(), TimeoutError), assert.rejects(again.wait(), TimeoutError)])
  await sandbox.kill()
  await ended
  await assert.rejects(sandbox.commands.run('true'), SandboxNotFoundError)
  await assert.rejects(sandbox.files.read('/etc/hostname'))
})

test('ten_at_once', async () => {
  const made = await Promise.all(Array.from({ length: 10 }, () => Sandbox.create()))
  try {
    const said = await Promise.all(made.map((one, n) => one.commands.run(`echo ${n}`)))
    assert.deepEqual(said.map((one) => one.stdout), made.map((_, n) => `${n}\n`))
  } finally {
    await Promise.all(made.map((one) => one.kill()))
  }
})

test('a_port_inside_is_reached_with_its_token', async () => {
  const sandbox = await sharedSandbox()
  const server = "require('http').createServer((q, a) => a.end(q.url + JSON.stringify(q.headers))).listen(3457, '127.0.0.1')"
  const running = await sandbox.commands.run(`node -e "${server}"`, { background: true, timeoutMs: 0 })
  const headers = { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '3457', 'X-Mine': '1' }
  const ask = (more) => fetch(`${address}/a?b=c`, { headers: { ...headers, ...more } })
  const token = { 'E2B-Traffic-Access-Token': sandbox.trafficAccessToken }
  const answer = await until(() => ask(token), (one) => one.status === 200)
  const text = await answer.text()
  assert.ok(text.startsWith('/a?b=c') && text.includes('x-mine') && !text.includes(sandbox.trafficAccessToken), text)
  assert.equal((await ask({})).status, 401)
  assert.match((await (await ask({ ...token, 'E2b-Sandbox-Port': '3999' })).json()).message, /port is not open/)
  assert.ok(sandbox.getHost(3457).startsWith(`3457-${sandbox.sandboxId}.`))
  const ended = assert.rejects(running.wait())
  assert.equal(await running.kill(), true)
  await ended
})

test('git_helpers_run', async () => {
  const { git, files } = await sharedSandbox()
  const place = '/tmp/js-repository'
  await git.init(place, { initialBranch: 'main' })
  await files.write(`${place}/a.txt`, 'a')
  assert.deepEqual((await git.status(place)).fileStatus.map((one) => [one.name, one.status]), [['a.txt', 'untracked']])
  await git.add(place)
  await git.commit(place, 'first', { authorName: 'Ann', authorEmail: 'ann@example.com' })
  await git.createBranch(place, 'side')
  assert.equal((await git.status(place)).currentBranch, 'side')
  assert.deepEqual((await git.branches(place)).branches.sort(), ['main', 'side'])
  await git.checkoutBranch(place, 'main')
  await git.deleteBranch(place, 'side')
  assert.deepEqual((await git.branches(place)).branches, ['main'])
})
