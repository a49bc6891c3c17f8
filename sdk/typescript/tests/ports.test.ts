import assert from 'node:assert/strict'
import { get } from 'node:http'
import { after, before, describe, test } from 'node:test'
import { ForbiddenError, InvalidRequestError, Sandbox } from 'paddock'
import { freePort, OwnServer, sandbox } from './setup.js'

const DOMAIN = 'box.localhost'
const MIRROR = "require('http').createServer((q, a) => a.end(q.headers.host)).listen(8000, '127.0.0.1')"
const UP = 'for n in $(seq 300); do curl -so /dev/null 127.0.0.1:8000 && exit; sleep 0.1; done; exit 1'

describe('public ports', () => {
  let own: OwnServer
  let port = 0
  before(async () => {
    port = await freePort()
    own = new OwnServer(['--listen', `127.0.0.1:${port}`, '--domain', DOMAIN, '--public-ports'])
    await own.start()
  })
  after(() => own.remove())

  /** Without a token, at the name of the port. */
  async function visit(id: string): Promise<{ status: number | undefined; text: string }> {
    return new Promise((resolve, reject) => {
      const asked = get({ host: '127.0.0.1', port, headers: { host: `8000-${id}.${DOMAIN}:${port}` } }, (answer) => {
        let text = ''
        answer.setEncoding('utf8').on('data', (piece) => (text += piece)).on('end', () => resolve({ status: answer.statusCode, text }))
      })
      asked.on('error', reject)
    })
  }

  test('a port answers strangers while its setting says so', async () => {
    await using box = await Sandbox.create({ ttlMs: 300_000, ports: { public: [8000] }, client: own.client })
    assert.deepEqual((await box.info()).ports, { public: [8000], requestHost: undefined })
    await box.commands.start(['node', '-e', MIRROR])
    assert.ok((await box.commands.run(UP)).ok)
    assert.deepEqual(await visit(box.id), { status: 200, text: 'localhost:8000' })
    const named = await box.update({ ports: { requestHost: '${PORT}.app.example' } })
    assert.deepEqual(named.ports, { public: [8000], requestHost: '${PORT}.app.example' })
    assert.deepEqual(await visit(box.id), { status: 200, text: '8000.app.example' })
    assert.deepEqual((await box.update({ ports: { public: [] } })).ports.public, [])
    assert.equal((await visit(box.id)).status, 401)
    assert.equal((await box.update({ ports: { public: 'all' } })).ports.public, 'all')
    assert.equal((await visit(box.id)).status, 200)
    await assert.rejects(box.update({ ports: { requestHost: 'a b' } }), InvalidRequestError)
    await assert.rejects(box.update({ ports: { public: [0] } }), InvalidRequestError)
    await assert.rejects(box.update({ ports: { open: true } as never }), /has no option 'open'/)
  })
  test('a server that opens none refuses', async () => {
    await assert.rejects(Sandbox.create({ ports: { public: 'all' } }), ForbiddenError)
    const box = await sandbox({ ports: { requestHost: 'app.example' } })
    assert.deepEqual((await box.info()).ports, { public: [], requestHost: 'app.example' })
  })
})
