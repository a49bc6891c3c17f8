/** Volumes, jobs, best of, resources and secrets. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { InvalidRequestError, JobNotFoundError, Jobs, NameTakenError, ResourceNotFoundError, Resources, SecretNotFoundError, Secrets, VolumeBusyError, VolumeNotFoundError, Volumes, WaitTimeoutError } from 'paddock'
import { collect, sandbox } from './setup.js'

describe('volumes', () => {
  const volumes = new Volumes()
  test('outlive the sandbox that wrote them', async () => {
    const name = `ts-memory-${process.pid}`
    const box = await sandbox({ volumes: { [name]: '/data/memory' } })
    await box.commands.run('mkdir /data/memory/notes; echo remembered > /data/memory/notes/today')
    assert.match((await volumes.get(name)).writer ?? '', new RegExp(box.id))
    await assert.rejects(sandbox({ volumes: { [name]: '/data/memory' } }), VolumeBusyError)
    await box.kill()
    assert.deepEqual((await volumes.history(name)).map((version) => [version.version, version.kind, version.current]), [[1, 'commit', true]])
    assert.equal(Buffer.from(await volumes.read(name, 'notes/today')).toString(), 'remembered\n')
    assert.equal((await volumes.write(name, 'notes/more', 'put')).version, 2)
    const reader = await sandbox({ volumes: [{ name, path: '/data/memory', mode: 'ro' }] })
    assert.equal((await reader.commands.run('cat /data/memory/notes/*')).stdout, 'putremembered\n')
    assert.equal((await reader.commands.run('echo x > /data/memory/x')).ok, false)
    await reader.kill()
    assert.deepEqual((await volumes.files(name, { path: 'notes' })).map((file) => file.path), ['notes', 'notes/more', 'notes/today'])
    assert.equal((await volumes.delete(name, 'notes')).version, 3)
    assert.equal((await volumes.restore(name, 1)).version, 4)
    assert.ok((await volumes.list()).some((one) => one.name === name))
    await volumes.remove(name)
    await assert.rejects(volumes.get(name), VolumeNotFoundError)
  })
  test('are created empty, and shared', async () => {
    const name = `ts-empty-${process.pid}`
    const made = await volumes.create(name)
    assert.equal(made.version, undefined)
    assert.deepEqual({ ...(await volumes.share(name, 'team-b')).shared }, { 'team-b': 'ro' })
    assert.deepEqual({ ...(await volumes.share(name, 'team-b', null)).shared }, {})
    await volumes.remove(name)
  })
  test('binary content comes back as it went', async () => {
    const name = `ts-binary-${process.pid}`
    await volumes.create(name)
    const bytes = new Uint8Array(256).map((_, index) => index)
    await volumes.write(name, 'b', bytes)
    assert.equal(Buffer.compare(await volumes.read(name, 'b'), bytes), 0)
    await volumes.write(name, 'b', 'second')
    assert.equal(Buffer.compare(await volumes.read(name, 'b', { version: 1 }), bytes), 0)
    await volumes.remove(name)
  })
  test('a failed sandbox keeps the last version', async () => {
    const name = `ts-failed-${process.pid}`
    const box = await sandbox({ volumes: { [name]: '/data/x' } })
    await box.commands.run('echo x > /data/x/file')
    await box.kill({ failed: true })
    assert.deepEqual((await volumes.history(name)).map((version) => [version.kind, version.current]), [['kept', false]])
    await volumes.remove(name)
  })
  test('a checkpoint is a version while the sandbox runs', async () => {
    const name = `ts-checkpoint-${process.pid}`
    const box = await sandbox({ volumes: { [name]: '/data/x' } })
    await box.commands.run('echo x > /data/x/file')
    await box.checkpointVolume(name)
    assert.equal((await volumes.history(name))[0]?.kind, 'checkpoint')
    await box.kill()
    await volumes.remove(name)
  })
  test('have directories, modes and links, each change as a version', async () => {
    const name = `ts-modes-${process.pid}`
    await volumes.create(name)
    assert.equal((await volumes.write(name, 'run.sh', 'true', { mode: 0o750 })).version, 1)
    assert.equal((await volumes.makeDirectory(name, 'a/b', { parents: true, mode: 0o700 })).version, 2)
    await assert.rejects(volumes.makeDirectory(name, 'x/y/z'), (error: { status?: number }) => (error.status ?? 0) >= 400)
    assert.deepEqual([(await volumes.stat(name, 'run.sh')).mode, (await volumes.stat(name, 'a/b')).mode], [0o750, 0o700])
    assert.equal((await volumes.changeMode(name, 'run.sh', 0o600)).version, 3)
    const file = await volumes.stat(name, 'run.sh')
    assert.deepEqual([file.path, file.kind, file.size, file.mode, file.target], ['run.sh', 'file', 4, 0o600, undefined])
    assert.ok(file.modifiedAt.getTime() > 0)
    assert.equal((await volumes.stat(name, 'run.sh', { version: 2 })).mode, 0o750)
    assert.equal((await volumes.stat(name)).kind, 'directory')
    assert.deepEqual((await volumes.files(name, { depth: 1 })).map((one) => one.path), ['a', 'run.sh'])
    await assert.rejects(volumes.stat(name, 'nothing'), (error: { status?: number }) => error.status === 404)
    await volumes.remove(name)
  })
  test('are read and written while a sandbox has them, with `live`', async () => {
    const name = `ts-live-${process.pid}`
    const box = await sandbox({ volumes: { [name]: '/data/x' } })
    await box.commands.run('mkdir /data/x/d; printf inside > /data/x/d/file')
    await assert.rejects(volumes.write(name, 'outside', 'x'), VolumeBusyError)
    assert.equal(Buffer.from(await volumes.read(name, 'd/file', { live: true })).toString(), 'inside')
    assert.equal((await volumes.stat(name, 'd/file', { live: true })).size, 6)
    assert.ok((await volumes.files(name, { live: true })).some((one) => one.path === 'd/file'))
    await volumes.write(name, 'outside', 'from outside', { live: true, mode: 0o640 })
    await volumes.makeDirectory(name, 'made', { live: true })
    await volumes.changeMode(name, 'd/file', 0o600, { live: true })
    await volumes.delete(name, 'd/file', { live: true })
    const { stdout } = await box.commands.run('cat /data/x/outside; stat -c " %a" /data/x/outside; ls /data/x/d | wc -l; test -d /data/x/made && echo made')
    assert.equal(stdout, 'from outside 640\n0\nmade\n')
    await box.kill()
    await volumes.remove(name)
  })
  for (const name of ['no-such-volume', 'other/no-such-volume']) {
    test(`${name} is told`, async () => {
      await assert.rejects(volumes.get(name), (error: { status?: number }) => error.status === 404 || error.status === 403)
    })
  }
  test('a path that leads outside is refused', async () => {
    const name = `ts-outside-${process.pid}`
    await volumes.create(name)
    await assert.rejects(volumes.write(name, '../../etc/passwd', 'x'))
    await volumes.remove(name)
  })
})

describe('jobs', () => {
  const jobs = new Jobs()
  test('an array runs and leaves files', async () => {
    const job = await jobs.run({
      command: 'echo task $1; mkdir out; echo $1 > out/$1.txt', args: ['{index}'], outputs: ['out/*.txt'], array: 3, timeout_seconds: 60,
    })
    assert.deepEqual([job.state, job.tasks.succeeded, job.ended], ['succeeded', 3, true])
    assert.deepEqual((await collect(jobs.tasks(job.id))).map((task) => task.stdout), ['task 0\n', 'task 1\n', 'task 2\n'])
    assert.deepEqual((await jobs.artifacts(job.id, { task: 1 })).map((file) => [file.task, file.path]), [[1, 'out/1.txt']])
    assert.equal(Buffer.from(await jobs.readArtifact(job.id, 'out/2.txt', { task: 2 })).toString(), '2\n')
    const events = await collect(jobs.logs(job.id, { task: 1 }))
    assert.equal(events[0]?.type === 'output' && events[0].text, 'task 1\n')
    assert.equal(events.at(-1)?.type, 'ended')
    assert.ok((await collect(jobs.list({ state: 'succeeded' }))).some((one) => one.id === job.id))
    await jobs.remove(job.id)
    await assert.rejects(jobs.get(job.id), JobNotFoundError)
  })
  test('code has a result, and a failure a reason', async () => {
    const done = await jobs.run({ code: '6 * 7', timeout_seconds: 60 })
    assert.deepEqual([done.state, (await jobs.task(done.id)).result], ['succeeded', '42'])
    const failed = await jobs.run({ code: '1 / 0', timeout_seconds: 60 })
    assert.equal(failed.state, 'failed')
    assert.match(failed.reason ?? '', /ZeroDivisionError/)
    await jobs.remove(done.id)
    await jobs.remove(failed.id)
  })
  test('one that waits is cancelled', async () => {
    const job = await jobs.submit({ command: 'sleep 600', array: 20, timeout_seconds: 700 })
    await assert.rejects(jobs.wait(job.id, { timeoutMs: 200 }), WaitTimeoutError)
    await assert.rejects(jobs.wait(job.id, { signal: AbortSignal.timeout(50) }), { name: 'TimeoutError' })
    assert.equal((await jobs.cancel(job.id)).state, 'cancelled')
    await jobs.remove(job.id)
  })
  test('a wrong field is named', async () => {
    await assert.rejects(jobs.submit({ command: 'true', priority: 1000 }), (error: Error) => error instanceof InvalidRequestError && /priority/.test(error.message))
    await assert.rejects(jobs.submit({ comand: 'true' } as never), InvalidRequestError)
    await assert.rejects(jobs.submit({}), InvalidRequestError)
  })
  test('one that is not there', async () => {
    await assert.rejects(jobs.get('job-0000000000000000'), JobNotFoundError)
  })
  test('bestOf chooses the best score', async () => {
    const parent = await sandbox()
    await parent.files.write('/workspace/base', '1')
    const job = await jobs.bestOf([{ command: 'echo 2 > score' }, { command: 'echo 9 > score' }, { code: 'open("score", "w").write("5")' }], {
      sandbox: parent,
      verifier: { command: 'test -f base && cat score', score: 'json' },
      rule: 'best_score',
      timeoutMs: 60_000,
    })
    assert.equal(job.state, 'succeeded', job.reason)
    assert.deepEqual([job.best?.index, job.best?.score], [1, 9])
    assert.ok(job.best?.changes.some((change) => change.path.endsWith('/score')))
    assert.match(Buffer.from(await jobs.readArtifact(job.id, 'changes.patch', { task: 1 })).toString(), /\+9/)
    await jobs.remove(job.id)
  })
  test('bestOf without a winner has failed', async () => {
    const job = await jobs.bestOf([{ command: 'true' }, { command: 'true' }], { verifier: { command: 'exit 1' }, timeoutMs: 60_000 })
    assert.equal(job.state, 'failed')
    assert.equal(job.best, undefined)
    await jobs.remove(job.id)
  })
})

describe('resources', () => {
  const resources = new Resources()
  test('are kept, and bound fields are not shown', async () => {
    const name = `ts/api-${process.pid}`
    await resources.set(name, { apiKey: 'sk-never-shown-again', days: 7 }, { type: 'api', secrets: { apiKey: ['api.example.com'] } })
    const found = await resources.get(name)
    assert.equal(found.type, 'api')
    assert.deepEqual(found.value, { apiKey: '(bound to api.example.com)', days: 7 })
    const listed = (await resources.list()).find((one) => one.name === name)
    assert.equal(listed?.value, undefined)
    await resources.remove(name)
    await assert.rejects(resources.get(name), ResourceNotFoundError)
  })
})

describe('kept secrets', () => {
  const secrets = new Secrets()
  const name = `ts/key-${process.pid}`
  test('are kept, changed, used and removed, and never shown', async () => {
    const made = await secrets.create(name, 'sk-a-kept-value', { metadata: { team: 'a' }, hosts: ['api.example.com'] })
    try {
      assert.deepEqual([made.version, { ...made.metadata }, made.hosts], [1, { team: 'a' }, ['api.example.com']])
      await assert.rejects(secrets.create(name, 'sk-a-kept-value'), NameTakenError)
      const changed = await secrets.update(name, 'sk-another-value')
      assert.deepEqual([changed.version, changed.hosts], [2, ['api.example.com']])
      assert.ok(changed.updatedAt >= changed.createdAt)
      assert.equal((await secrets.get(made.id)).name, name)
      const all = await secrets.list()
      assert.ok(all.some((one) => one.id === made.id))
      assert.doesNotMatch(JSON.stringify(all), /sk-an?/)
      const box = await sandbox({ secrets: { KEY: { from: `secret:${name}`, hosts: ['api.example.com'] } } })
      assert.match((await box.commands.run('echo $KEY')).stdout, /^paddock-secret-/)
      await assert.rejects(sandbox({ secrets: { KEY: { from: `secret:${name}`, hosts: ['evil.example.com'] } } }), { code: 'forbidden', message: /not bound/ })
    } finally {
      await secrets.remove(name)
    }
    await assert.rejects(secrets.get(name), SecretNotFoundError)
  })
  test('one that is too short is refused', async () => {
    await assert.rejects(secrets.create(`${name}-short`, 'short'), InvalidRequestError)
  })
  test('a wrong origin is told with those that there are', async () => {
    await assert.rejects(sandbox({ secrets: { KEY: { from: 'vault:x', hosts: ['api.example.com'] } } }), { message: /env:NAME, file:PATH, secret:NAME or resource:NAME\.FIELD/ })
  })
})

describe('secrets', () => {
  test('never enter', async () => {
    process.env['TS_TEST_SECRET'] = 'sk-live-value'
    const box = await sandbox({ network: { allow: ['api.example.com'] }, secrets: { API_KEY: { from: 'env:TS_TEST_SECRET', hosts: ['api.example.com'] } } })
    const { stdout } = await box.commands.run('echo $API_KEY; env')
    assert.ok(!stdout.includes('sk-live-value'))
    assert.deepEqual({ ...(await box.info()).secrets }, { API_KEY: ['api.example.com:443'] })
  })

  test('that the gate sets come and go while it lives', async () => {
    const hosts = ['api.invalid']
    const box = await sandbox({ secrets: { API_KEY: { value: 'sk-live-value', hosts } } })
    const rule = (value: string) => ({ RULE: { value, hosts, inject: { authorization: 'Bearer {}' } } })
    for (const value of ['sk-of-the-day', 'sk-of-the-night']) {
      const changed = await box.update({ network: {}, secrets: rule(value) })
      assert.deepEqual({ ...changed.secrets }, { API_KEY: ['api.invalid:443'], RULE: ['api.invalid:443'] })
      assert.equal((await box.commands.run(`echo ${value} $RULE`)).stdout, `${'*'.repeat(value.length)}\n`)
    }
    const left = await box.update({ network: {}, secrets: { RULE: null } })
    assert.deepEqual({ ...left.secrets }, { API_KEY: ['api.invalid:443'] })
    await assert.rejects(box.update({ network: {}, secrets: { API_KEY: null } }), { message: /placeholder/ })
    await assert.rejects(box.update({ secrets: rule('sk-of-the-day') }), (error: Error) =>
      /without `network`/.test(error.message) && !error.message.includes('sk-of-the-day'))
  })
})
