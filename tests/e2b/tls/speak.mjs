// A program with the SDK for Node, over TLS. NODE_EXTRA_CA_CERTS names the certificates to trust. It prints its results as JSON.
import diagnostics from 'node:diagnostics_channel'
import path from 'node:path'
import { createRequire } from 'node:module'

const versions = new Set()
diagnostics.subscribe('undici:client:connected', ({ socket }) => versions.add(socket.alpnProtocol))
const require = createRequire(path.join(process.env.PADDOCK_TEST_E2B_NODE, 'x.js'))
const { Sandbox } = require('@e2b/code-interpreter')

const sandbox = await Sandbox.create({ timeoutMs: 300_000 })
const told = {}
try {
  let pieces = ''
  told.said = (await sandbox.commands.run('echo hello; echo wrong >&2', { onStdout: (piece) => { pieces += piece } })).stdout
  told.pieces = pieces
  await sandbox.files.write('/tmp/large', 'x'.repeat(3_000_000))
  told.large = (await sandbox.files.read('/tmp/large')).length
  told.code = (await sandbox.runCode('6 * 7')).text
  const names = new Set()
  const seen = new Promise((done) => { told.watching = (event) => { names.add(event.name); if (event.name === 'seen') done() } })
  const handle = await sandbox.files.watchDir('/tmp', told.watching)
  delete told.watching
  await sandbox.files.write('/tmp/seen', 'x')
  await Promise.race([seen, new Promise((_, fail) => setTimeout(() => fail(new Error('no event')), 20_000))])
  await handle.stop()
  told.events = [...names]
  // By Node's own client, which is another one.
  told.download = await (await fetch(await sandbox.downloadUrl('/tmp/seen'))).text()
  const beside = await Promise.all(Array.from({ length: 10 }, (_, number) => sandbox.commands.run(`echo ${number}`)))
  told.beside = beside.map((one) => one.stdout.trim())
  told.versions = [...versions]
} finally {
  await sandbox.kill()
}
console.log(JSON.stringify(told))
process.exit(0)
