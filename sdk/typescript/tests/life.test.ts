import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  Client, InvalidRequestError, NameTakenError, RequirementNotMetError, Sandbox, SandboxEndedError, SandboxNotFoundError, SnapshotNotFoundError,
  TemplateNotFoundError, UnsupportedError,
} from 'paddock'
import { collect, sandbox, TCP_URL, withCode } from './setup.js'

describe('create', () => {
  test('await using kills it', async () => {
    let id = ''
    {
      await using box = await Sandbox.create({ ttlMs: 60_000 })
      id = box.id
      assert.equal(box.state, 'running')
    }
    assert.equal((await Sandbox.connect(id)).state, 'ended')
  })
  test('await using kills it when an exception passes', async () => {
    let id = ''
    await assert.rejects(async () => {
      await using box = await Sandbox.create({ ttlMs: 60_000 })
      id = box.id
      throw new RangeError('mine')
    }, RangeError)
    assert.equal((await Sandbox.connect(id)).state, 'ended')
  })
  test('await using leaves a persistent one', async () => {
    let id = ''
    {
      await using box = await Sandbox.create({ persistent: true })
      id = box.id
    }
    const again = await Sandbox.connect(id)
    assert.equal(again.state, 'running')
    await again.kill()
  })
  test('await using is content with one that has ended', async () => {
    await using box = await Sandbox.create({ ttlMs: 60_000 })
    await box.kill()
  })
  test('name, metadata, env, cwd and limits arrive', async () => {
    const name = `ts-${process.pid}-named`
    const box = await sandbox({ name, metadata: { team: 'ä' }, env: { A: 'b' }, cwd: '/tmp', limits: { memory: '256MiB', pids: 64 } })
    assert.equal(box.name, name)
    const info = await box.info()
    assert.deepEqual({ ...info.metadata }, { team: 'ä' })
    assert.equal(info.limits['memory'], 256 << 20)
    assert.equal((await box.commands.run('echo $A; pwd')).stdout, 'b\n/tmp\n')
    assert.equal((await Sandbox.connect(name)).id, box.id)
    await assert.rejects(Sandbox.create({ name }), NameTakenError)
  })
  test('root may install where that is asked for, and the server can', async () => {
    const give = 'touch /tmp/x && chown 7 /tmp/x && stat -c %u /tmp/x'
    const plain = await sandbox()
    assert.equal((await plain.commands.run(give, { user: 'root' })).ok, false)
    try {
      const box = await sandbox({ rootMayInstall: true })
      assert.equal((await box.commands.run(give, { user: 'root' })).stdout, '7\n')
    } catch (error) {
      // A server that is not root has too few ids.
      assert.ok(error instanceof RequirementNotMetError && process.getuid?.() !== 0, String(error))
    }
  })
  test('the user becomes root where that is asked for, and the server can', async () => {
    try {
      const box = await sandbox({ becomeRoot: true })
      assert.equal((await box.commands.run('sudo whoami')).stdout, 'root\n')
    } catch (error) {
      // A server that is not root has too few ids.
      assert.ok(error instanceof RequirementNotMetError && process.getuid?.() !== 0, String(error))
    }
  })
  test('ttlMs and idleMs are counted in milliseconds', async () => {
    const box = await sandbox({ ttlMs: 100_000, idleMs: 50_000, idleAction: 'pause' })
    const info = await box.info()
    assert.equal(info.idle?.ms, 50_000)
    assert.equal(info.idle?.action, 'pause')
    assert.ok(info.expiresAt)
    assert.equal(Math.round((info.expiresAt.getTime() - info.createdAt.getTime()) / 1000), 100)
  })
  test('with ttlAction it sleeps when its time to live is over, and a call wakes it', async () => {
    assert.equal((await sandbox()).lastInfo.ttlAction, 'kill')
    const box = await sandbox({ ttlMs: 1000, ttlAction: 'pause' })
    assert.equal(box.lastInfo.ttlAction, 'pause')
    while ((await box.info()).state === 'running') await new Promise((resolve) => setTimeout(resolve, 100))
    assert.equal(box.state, 'paused')
    await box.resume()
    assert.equal((await box.commands.run('echo awake')).stdout, 'awake\n')
    await assert.rejects(Sandbox.create({ ttlAction: 'sleep' as never }), InvalidRequestError)
  })
  test('metrics are samples of what it used', async () => {
    const box = await sandbox()
    await box.commands.run('head -c 1000000 /dev/zero > /tmp/f')
    const began = new Date(Date.now() - 3_600_000)
    const samples = await box.metrics({ start: began })
    assert.ok(samples.length >= 1)
    for (const { at, cpuPercent, memoryBytes, diskBytes } of samples) {
      assert.ok(at > began && cpuPercent >= 0 && memoryBytes > 0 && diskBytes >= 0)
    }
    assert.deepEqual(await box.metrics({ end: began }), [])
  })
  test('extended attributes of a file are written with it', async () => {
    const box = await sandbox()
    const written = await box.files.write('/tmp/tagged', 'x', { attributes: { origin: 'a test' } })
    assert.deepEqual({ ...written.attributes }, { origin: 'a test' })
    assert.deepEqual({ ...(await box.files.stat('/tmp/tagged')).attributes }, { origin: 'a test' })
    assert.deepEqual({ ...(await box.files.write('/tmp/plain', 'x')).attributes }, {})
  })
  test('lists come the newest first, or the oldest', async () => {
    const metadata = { order: `ts-${process.pid}` }
    const ids = [(await sandbox({ metadata })).id, (await sandbox({ metadata })).id]
    assert.deepEqual((await collect(Sandbox.list({ metadata, oldestFirst: true }))).map((one) => one.id), ids)
    assert.deepEqual((await collect(Sandbox.list({ metadata, pageSize: 1 }))).map((one) => one.id), ids.reverse())
  })
  test('a template that is not there', async () => {
    await assert.rejects(Sandbox.create({ template: 'no-such-template' }), TemplateNotFoundError)
  })
  test('a guarantee that the host cannot give', async () => {
    await assert.rejects(Sandbox.create({ require: ['no-such-guarantee'] }), (error: Error) => error instanceof RequirementNotMetError || error instanceof InvalidRequestError)
  })
  for (const [name, options, code] of [
    ['a misspelled option', { ttl: 5 }, 'invalid_request'],
    ['seconds instead of milliseconds', { ttl_seconds: 5 }, 'invalid_request'],
    ['a limit that is no size', { limits: { memory: 'much' } }, 'invalid_request'],
    ['an unknown limit', { limits: { ram: 5 } }, 'invalid_request'],
    ['text where a list belongs', { require: 'own-kernel' }, 'invalid_request'],
    ['a volume mode that does not exist', { volumes: { v: '/x:rwx' } }, 'invalid_request'],
    ['a secret of a variable that is not there', { secrets: { K: { from: 'env:NO_SUCH_VARIABLE_HERE', hosts: ['h'] } } }, 'invalid_request'],
    ['a secret from nowhere', { secrets: { K: { from: 'cloud:x', hosts: ['h'] } } }, 'invalid_request'],
    ['a number that is none', { ttlMs: Number.NaN }, 'invalid_request'],
    ['a time to live below zero', { ttlMs: -5000 }, 'invalid_request'],
    ['a name that leads elsewhere', { name: '../x' }, 'invalid_request'],
    ['a network word that does not exist', { network: 'everything' }, 'invalid_request'],
  ] as const) {
    test(`refuses ${name}`, async () => {
      await assert.rejects(Sandbox.create(options as never), withCode(code))
    })
  }
  test('the hint of a misspelled option names the right one', async () => {
    const error = await Sandbox.create({ ttl_seconds: 5 } as never).catch((one) => one)
    assert.match(error.hint, /ttlMs/)
  })
  test('ends by its signal', async () => {
    await assert.rejects(Sandbox.create({ signal: AbortSignal.abort() }), { name: 'AbortError' })
  })
  test('an abort while it is made leaves no sandbox', async () => {
    const mark = `aborted-${process.pid}-${Date.now()}`
    const controller = new AbortController()
    const client = new Client({
      url: TCP_URL, token: process.env['PADDOCK_TEST_TOKEN'],
      // The abort comes when the request is on its way.
      fetch: (input, init) => {
        controller.abort()
        return fetch(input, init)
      },
    })
    await assert.rejects(Sandbox.create({ metadata: { mark }, client, signal: controller.signal }), { name: 'AbortError' })
    while ((await collect(Sandbox.list({ metadata: { mark }, state: 'ended' }))).length === 0) await new Promise((resolve) => setTimeout(resolve, 20))
    assert.equal((await collect(Sandbox.list({ metadata: { mark } }))).length, 0)
  })
})

describe('connect and list', () => {
  for (const id of ['sb-0000000000000000', 'nobody', 'ä/ö', '%2e%2e', 'a b']) {
    test(`an unknown id ${id} is told`, async () => {
      const error = await Sandbox.connect(id).catch((one) => one)
      assert.ok(error.status === 404 || error.status === 400, String(error))
    })
  }
  for (const id of ['', '.', '..', undefined as never]) {
    test(`an impossible id ${JSON.stringify(id)} is refused here`, async () => {
      await assert.rejects(Sandbox.connect(id), InvalidRequestError)
    })
  }
  test('list filters by state, metadata and name', async () => {
    const mark = `${process.pid}-${Date.now()}`
    const one = await sandbox({ metadata: { mark } })
    const two = await sandbox({ metadata: { mark } })
    await two.kill()
    assert.deepEqual((await collect(Sandbox.list({ metadata: { mark } }))).map((box) => box.id), [one.id])
    assert.deepEqual((await collect(Sandbox.list({ metadata: { mark }, state: 'ended' }))).map((box) => box.id), [two.id])
    const running = await collect(Sandbox.list({ metadata: { mark }, state: 'running', pageSize: 1 }))
    assert.deepEqual(running.map((box) => box.id), [one.id])
  })
  test('list asks for page after page', async () => {
    const mark = `pages-${process.pid}`
    await Promise.all(Array.from({ length: 3 }, () => sandbox({ metadata: { mark } })))
    assert.equal((await collect(Sandbox.list({ metadata: { mark }, pageSize: 1 }))).length, 3)
  })
})

describe('states', () => {
  test('pause and resume', async () => {
    const box = await sandbox()
    assert.equal((await box.pause()).state, 'paused')
    assert.equal((await box.resume()).state, 'running')
    assert.equal((await box.commands.run('echo on')).stdout, 'on\n')
  })
  test('a pause that ends by use has a time of its own', async () => {
    const box = await sandbox({ ttlMs: 600_000 })
    const left = (info: { expiresAt: Date | undefined }): number => (info.expiresAt?.getTime() ?? 0) - Date.now()
    assert.ok(left(await box.pause({ ttlMs: 86_400_000, autoResume: true })) > 80_000_000)
    assert.equal((await box.commands.run('echo on')).stdout, 'on\n')
    assert.ok(left(await box.info()) <= 600_000)
    assert.ok(left(await box.hibernate({ ttlMs: 86_400_000 })) > 80_000_000)
    assert.ok(left(await box.wake({ ttlMs: 60_000 })) <= 60_000)
    await box.pause()
    assert.ok(left(await box.resume({ ttlMs: 30_000 })) <= 30_000)
  })
  test('lists are of a time or of a sandbox', async () => {
    const box = await sandbox()
    const made = (await box.info()).createdAt.getTime()
    const after = async (at: number): Promise<boolean> => {
      for await (const one of Sandbox.list({ createdAfter: new Date(at) })) if (one.id === box.id) return true
      return false
    }
    assert.deepEqual([await after(made - 1), await after(made)], [true, false])
    const snapshot = await box.snapshot({ name: `of-${box.id}` })
    const ids = async (options: { name?: string; sandbox?: string }): Promise<string[]> => (await box.client.snapshots(options)).map((one) => one.id)
    assert.deepEqual(await ids({ sandbox: box.id }), [snapshot.id])
    assert.deepEqual(await ids({ name: `of-${box.id}` }), [snapshot.id])
    assert.deepEqual(await ids({ sandbox: 'sb-0000000000000000' }), [])
    await box.client.deleteSnapshot(snapshot)
  })
  test('hibernate keeps files, and a request wakes it', async () => {
    const box = await sandbox()
    await box.files.write('kept', 'x')
    assert.equal((await box.hibernate()).state, 'hibernated')
    assert.equal(await box.files.read('kept'), 'x')
    assert.equal((await box.info()).state, 'running')
  })
  test('memory is kept or not as it is asked for', async () => {
    const box = await sandbox()
    assert.equal((await box.hibernate({ memory: false })).state, 'hibernated')
    const snapshot = await box.snapshot({ memory: false })
    assert.equal(snapshot.kind, 'filesystem')
    await box.client.deleteSnapshot(snapshot)
    await assert.rejects(box.snapshot({ live: true, memory: false }), /`memory` is false/)
  })
  test('wake', async () => {
    const box = await sandbox()
    await box.hibernate()
    assert.equal((await box.wake()).state, 'running')
  })
  test('extend', async () => {
    const box = await sandbox({ ttlMs: 60_000 })
    const before = box.lastInfo.expiresAt?.getTime() ?? 0
    const after = (await box.extend(600_000)).expiresAt?.getTime() ?? 0
    assert.ok(after > before + 500_000)
  })
  test('update changes metadata, limits and the idle rule', async () => {
    const box = await sandbox()
    const info = await box.update({ metadata: { a: '1' }, idleMs: 5_000_000, limits: { pids: 99 } })
    assert.deepEqual({ ...info.metadata }, { a: '1' })
    assert.equal(info.idle?.ms, 5_000_000)
    assert.deepEqual({ ...(await box.setMetadata({})).metadata }, {})
    await assert.rejects(box.update({ meta: {} } as never), InvalidRequestError)
  })
  test('secrets that the gate sets come and go', async () => {
    const box = await sandbox({ network: { allow: ['files.invalid'] } })
    const network = { allow: ['files.invalid'] }
    const rule = { value: 'sk-of-the-test', hosts: ['api.invalid'], inject: { authorization: 'Bearer {}' } }
    assert.deepEqual({ ...(await box.update({ network, secrets: { RULE: rule } })).secrets }, { RULE: ['api.invalid:443'] })
    assert.deepEqual({ ...(await box.update({ network, secrets: { RULE: null } })).secrets }, {})
    await assert.rejects(box.update({ secrets: { RULE: rule } }), /without `network`/)
  })
  test('usage counts', async () => {
    const box = await sandbox()
    const usage = await box.usage()
    assert.ok(usage.processes === undefined || usage.processes >= 0)
  })
  test('network tells the rules', async () => {
    const box = await sandbox()
    const network = await box.network()
    assert.equal(network.network, 'none')
    assert.deepEqual(network.decisions, [])
  })
  test('a gate tells denied attempts and the rule they need', async () => {
    const box = await sandbox({ network: { allow: ['allowed.example.org'] } })
    await box.runCode('import socket\ntry:\n    socket.create_connection(("denied.example.org", 443), 5)\nexcept OSError as error:\n    print(error)')
    const network = await box.network()
    assert.equal(network.network, 'gate')
    const denied = network.decisions.find((one) => one.name === 'denied.example.org')
    assert.equal(denied?.verdict, 'denied')
    assert.match(denied?.advice ?? '', /denied\.example\.org/)
    assert.deepEqual((await box.network({ after: network.last })).decisions, [])
  })
  test('kill, twice, and the reason of the end', async () => {
    const box = await sandbox()
    const info = await box.kill()
    assert.equal(info.state, 'ended')
    assert.equal((await box.kill()).state, 'ended')
    assert.equal((await box.info()).end?.cause.kind, 'killed')
    await assert.rejects(box.commands.run('true'), SandboxEndedError)
    await assert.rejects(box.runCode('1'), SandboxEndedError)
    await assert.rejects(box.fork(), SandboxEndedError)
  })
  test('a command whose sandbox ends under it has ended without success', async () => {
    const box = await sandbox()
    const process = await box.commands.start('sleep 600')
    const events = collect(process)
    await box.kill()
    const last = (await events).at(-1)
    assert.equal(last?.type, 'ended')
    assert.ok(last?.type === 'ended' && !last.result.ok)
  })
})

describe('fork, diff and merge', () => {
  test('a fork has the files, and goes its own way', async () => {
    const parent = await sandbox()
    await parent.files.write('/tmp/plan', 'first')
    await using child = await parent.fork()
    assert.equal(await child.files.read('/tmp/plan'), 'first')
    await child.files.write('/tmp/plan', 'changed')
    assert.equal(await parent.files.read('/tmp/plan'), 'first')
    assert.equal((await child.info()).parent, parent.id)
  })
  test('fork(3) is a list of three', async () => {
    const parent = await sandbox()
    const children = await parent.fork(3, { ttlMs: 60_000, metadata: { kind: 'child' } })
    assert.equal(children.length, 3)
    assert.equal(children[2]?.lastInfo.metadata['kind'], 'child')
    await Promise.all(children.map((child) => child.kill()))
  })
  test('forks are made each by itself', async () => {
    const parent = await sandbox()
    for (const child of await parent.fork(2, { partial: true })) {
      assert.ok(child instanceof Sandbox, String(child))
      await child.kill()
    }
  })
  test('fork(0) and fork(1000) are refused', async () => {
    const parent = await sandbox()
    await assert.rejects(parent.fork(0), InvalidRequestError)
    await assert.rejects(parent.fork(1000), InvalidRequestError)
  })
  test('a fork knows the variables where the host can', async () => {
    const parent = await sandbox()
    await parent.runCode('known = 7')
    await using child = await parent.fork()
    const execution = await child.runCode('known')
    assert.ok(execution.text === '7' || execution.error?.name === 'NameError')
  })
  test('changes and diff tell the work', async () => {
    const box = await sandbox()
    await box.files.write('/tmp/new.txt', 'line\n')
    const changes = await box.changes()
    assert.ok(changes.some((change) => change.path === '/tmp/new.txt' && change.kind === 'added' && change.entry?.size === 5))
    assert.match(await box.diff(), /\+line/)
  })
  test('merge brings chosen paths home', async () => {
    const parent = await sandbox()
    await using child = await parent.fork()
    await child.files.write('/tmp/result', 'done')
    await child.files.write('/tmp/other', 'x')
    const report = await parent.merge(child, { paths: ['/tmp/result'] })
    assert.equal(report.ok, true)
    assert.deepEqual(report.merged.map((change) => change.path), ['/tmp/result'])
    assert.equal(await parent.files.read('/tmp/result'), 'done')
    assert.equal(await parent.files.exists('/tmp/other'), false)
  })
  test('with a conflict nothing is merged', async () => {
    const parent = await sandbox()
    await parent.files.write('/tmp/both', '0')
    await using child = await parent.fork()
    await child.files.write('/tmp/both', 'child')
    await parent.files.write('/tmp/both', 'parent')
    const report = await parent.merge(child)
    assert.equal(report.ok, false)
    assert.equal(report.conflicts[0]?.path, '/tmp/both')
    assert.equal(await parent.files.read('/tmp/both'), 'parent')
  })
  test('a merge of a stranger is refused', async () => {
    const [one, two] = [await sandbox(), await sandbox()]
    await assert.rejects(one.merge(two))
    await assert.rejects(one.merge('sb-0000000000000000'), SandboxNotFoundError)
  })
  test('changes since something that never was are refused', async () => {
    const box = await sandbox()
    await assert.rejects(box.changes({ since: 'snapshot' }))
    await assert.rejects(box.changes({ since: 'yesterday' as never }), InvalidRequestError)
  })
})

describe('snapshots', () => {
  test('begin any number of sandboxes', async () => {
    const client = new Client()
    const box = await sandbox()
    await box.files.write('/tmp/state', 'kept')
    const snapshot = await box.snapshot({ name: `ts-snapshot-${process.pid}` })
    assert.equal(snapshot.sandbox, box.id)
    await box.files.write('/tmp/state', 'later')
    const first = await sandbox({ snapshot })
    const second = await sandbox({ snapshot: snapshot.id })
    assert.equal(await first.files.read('/tmp/state'), 'kept')
    assert.equal(await second.files.read('/tmp/state'), 'kept')
    assert.ok((await client.snapshots()).some((one) => one.id === snapshot.id))
    await client.deleteSnapshot(snapshot)
    await assert.rejects(Sandbox.create({ snapshot: snapshot.id }), SnapshotNotFoundError)
    await client.close()
  })
  test('one that is not there', async () => {
    await assert.rejects(Sandbox.create({ snapshot: 'snap-nothing' }), SnapshotNotFoundError)
  })
})

describe('ports', () => {
  test('a server inside is reached by fetch', async () => {
    const box = await sandbox()
    const code = `
import http.server, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header('x-path', self.path); self.end_headers(); self.wfile.write(b'hello')
    def do_POST(self):
        body = self.rfile.read(int(self.headers['content-length'])); self.send_response(201); self.end_headers(); self.wfile.write(body[::-1])
    def log_message(self, *_): pass
server = http.server.HTTPServer(('127.0.0.1', 8123), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()`
    assert.equal((await box.runCode(code)).ok, true)
    const response = await box.fetch(8123, '/some/path?q=1')
    assert.equal(response.status, 200)
    assert.match(response.headers.get('x-path') ?? '', /some\/path\?q=1/)
    assert.equal(await response.text(), 'hello')
    const posted = await box.fetch(8123, '/', { method: 'POST', body: 'abc' })
    assert.equal(posted.status, 201)
    assert.equal(await posted.text(), 'cba')
    const above = await box.fetch(8123, '/../../../../v1/whoami')
    assert.equal(await above.text(), 'hello')
  })
  test('a port on which nothing listens', async () => {
    const box = await sandbox()
    assert.ok((await box.fetch(9, '/')).status >= 400)
  })
  for (const port of [0, 65536, 1.5, Number.NaN]) {
    test(`port ${port} is refused`, async () => {
      const box = await sandbox()
      await assert.rejects(box.fetch(port), InvalidRequestError)
    })
  }
  test('a right opens its port alone, without a token', async () => {
    const client = new Client({ url: TCP_URL, token: process.env['PADDOCK_TEST_TOKEN'] })
    const other = await sandbox({ client })
    const right = await other.signPort(9, { expiresMs: 60_000 })
    assert.ok(right.url.startsWith(`${TCP_URL}/v1/sandboxes/${other.id}/ports/9/?paddock_token=pdp_`), right.url)
    assert.ok(right.expiresAt.getTime() > Date.now())
    assert.equal(right.host, undefined)
    // Nothing listens there.
    assert.equal((await fetch(right.url)).status, 502)
    assert.equal((await fetch(right.url.replace('/ports/9/', '/ports/10/'))).status, 403)
    const asked = { headers: { authorization: `Bearer ${right.token}` } }
    assert.equal((await fetch(`${TCP_URL}/v1/whoami`, asked)).status, 401)
    await assert.rejects(other.signPort(0), InvalidRequestError)
    await assert.rejects(other.signPort(9, { expiresMs: 90_000_000 }), InvalidRequestError)
    await other.kill()
    assert.equal((await fetch(right.url)).status, 403)
    await client.close()
  })
  test('a right on a socket is a path', async () => {
    const box = await sandbox()
    const { url } = await box.signPort(9)
    assert.ok(url.startsWith(`/v1/sandboxes/${box.id}/ports/9/?paddock_token=`), url)
  })
  test('on a socket there is no URL for others', async () => {
    const box = await sandbox()
    await assert.rejects(box.portUrl(80), UnsupportedError)
  })
})
