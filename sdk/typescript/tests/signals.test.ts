/** Every method takes a signal: one that was aborted before sends nothing, and its reason is thrown. Milliseconds are called so. */

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { Client, Jobs, Process, Resources, Sandbox, Secrets, Templates, Volumes } from 'paddock'
import ts from 'typescript'
import { sandbox } from './setup.js'

/** Methods without a request of their own. */
const WITHOUT: Readonly<Record<string, string>> = {
  'Sandbox.portUrl': 'asks nobody',
  'Client.authorization': 'asks nobody',
  'Client.location': 'asks nobody',
  'Client.urlOf': 'asks nobody',
  'Client.close': 'ends connections, and waits for nobody',
  'Client.connectionFailed': 'makes an error',
  'Commands.connect': 'asks nobody',
  'Watch.next': 'the protocol of iterators; the signal is given to `watch`',
  'Watch.return': 'as above',
  'Watch.close': 'ends the connection',
  'Watch.open': 'the signal is given to `watch`',
  'Tools.definitions': 'asks nobody',
  'Tools.anthropic': 'asks nobody',
  'Tools.openai': 'asks nobody',
  'Tools.openaiResponses': 'asks nobody',
}
const SERVICES = ['Client', 'Sandbox', 'Commands', 'Process', 'Files', 'Contexts', 'Watch', 'Tools', 'Volumes', 'Jobs', 'Secrets', 'Resources', 'Templates']

const declarations = join(process.cwd(), 'dist/esm/index.d.ts')
const program = ts.createProgram([declarations], {
  target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, types: [], skipLibCheck: true,
  strict: true, lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts', 'lib.dom.asynciterable.d.ts'],
})
const checker = program.getTypeChecker()
const source = program.getSourceFile(declarations)!
const exported = checker.getExportsOfModule(checker.getSymbolAtLocation(source)!)

/** Its methods, those of its objects and its own, with the names in the last parameter of each way to call them. */
function methodsOf(name: string): [string, Set<string>[]][] {
  const found = exported.find((symbol) => symbol.name === name)
  assert.ok(found, name)
  const symbol = found.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(found) : found
  const members = [checker.getDeclaredTypeOfSymbol(symbol), checker.getTypeOfSymbol(symbol)].flatMap((type) => checker.getPropertiesOfType(type))
  return members.filter((member) => /^[a-z]/.test(member.name) && member.name !== 'prototype').flatMap((member): [string, Set<string>[]][] => {
    const signatures = checker.getTypeOfSymbol(member).getCallSignatures()
    return signatures.length === 0 ? [] : [[`${name}.${member.name}`, signatures.map(lastNames)]]
  })
}

function lastNames(signature: ts.Signature): Set<string> {
  const last = signature.parameters.at(-1)
  if (!last) return new Set()
  const type = checker.getNonNullableType(checker.getTypeOfSymbol(last))
  return new Set(checker.getPropertiesOfType(type).map((one) => one.name))
}

test('the last argument of every method has a signal', () => {
  const without = SERVICES.flatMap(methodsOf).filter(([, signatures]) => !signatures.every((names) => names.has('signal'))).map(([name]) => name)
  assert.deepEqual(without.filter((name) => !(name in WITHOUT)), [], 'give them a signal, or say here why not')
  assert.deepEqual(Object.keys(WITHOUT).filter((name) => !without.includes(name)), [], 'each that is listed has none')
})

test('no option of time is without its unit', () => {
  const names = SERVICES.flatMap(methodsOf).flatMap(([method, signatures]) => signatures.flatMap((one) => [...one].map((name) => `${method}(${name})`)))
  const bare = names.filter((name) => /\((?:ttl|timeout|idle|expires|patience|delay|wait|interval|checkpoint)\)$/.test(name) || /(?:Timeout|Ttl|Delay|Interval|Expiry)\)$/.test(name))
  assert.deepEqual(bare, [])
  assert.ok(names.includes('Sandbox.create(ttlMs)') && names.includes('Commands.run(timeoutMs)'))
})

describe('a signal that was aborted before', () => {
  const asked: string[] = []
  const fetch: typeof globalThis.fetch = async (input) => {
    asked.push(String(input))
    return new Response('{}', { status: 200 })
  }
  const client = new Client({ url: 'http://127.0.0.1:1', fetch })
  const reason = new RangeError('not any more')
  const signal = AbortSignal.abort(reason)
  const call = async (action: () => unknown): Promise<void> => {
    const given = action()
    // A generator begins when it is read.
    if (given && typeof given === 'object' && Symbol.asyncIterator in given) for await (const _ of given as AsyncIterable<unknown>) break
    else await given
  }
  const jobs = new Jobs(client)
  const volumes = new Volumes(client)
  const secrets = new Secrets(client)
  const resources = new Resources(client)
  const templates = new Templates(client)
  const actions: Record<string, () => unknown> = {
    'Sandbox.create': () => Sandbox.create({ client, signal }),
    'Sandbox.connect': () => Sandbox.connect('sb-1', { client, signal }),
    'Sandbox.list': () => Sandbox.list({ client, signal }),
    'Client.whoami': () => client.whoami({ signal }),
    'Client.snapshots': () => client.snapshots({ signal }),
    'Client.request': () => client.request('GET', '/v1/whoami', { signal }),
    'Jobs.submit': () => jobs.submit({ command: 'true' }, { signal }),
    'Jobs.run': () => jobs.run({ command: 'true' }, { signal }),
    'Jobs.list': () => jobs.list({ signal }),
    'Jobs.logs': () => jobs.logs('job-1', { signal }),
    'Volumes.write': () => volumes.write('v', 'f', 'x', { signal }),
    'Volumes.read': () => volumes.read('v', 'f', { signal }),
    'Secrets.create': () => secrets.create('s', 'v', { signal }),
    'Resources.list': () => resources.list({ signal }),
    'Templates.build': () => templates.build('t', { image: 'i', signal }),
    'Process.wait': () => new Process(client, 'sb-1', 1).wait({ signal }),
    'Process.stream': () => new Process(client, 'sb-1', 1).stream({ signal }),
    'Process.kill': () => new Process(client, 'sb-1', 1).kill({ signal }),
    'Process.writeStdin': () => new Process(client, 'sb-1', 1).writeStdin('x', { signal }),
  }
  for (const [name, action] of Object.entries(actions)) {
    test(`${name} throws its reason, and asks nothing`, async () => {
      await assert.rejects(call(action), (error) => error === reason)
      assert.deepEqual(asked, [])
    })
  }
  test('and so do all that a sandbox has', async () => {
    const box = await sandbox()
    const of: Record<string, () => unknown> = {
      run: () => box.commands.run('touch /tmp/ran', { signal }), start: () => box.commands.start('touch /tmp/ran', { signal }),
      pty: () => box.commands.pty({ command: 'touch /tmp/ran', signal }), commands: () => box.commands.list({ signal }),
      runCode: () => box.runCode("open('/tmp/ran', 'w')", { signal }), fork: () => box.fork({ signal }), forks: () => box.fork(2, { signal }),
      snapshot: () => box.snapshot({ signal }), pause: () => box.pause({ signal }), hibernate: () => box.hibernate({ signal }),
      info: () => box.info({ signal }), extend: () => box.extend(1000, { signal }), changes: () => box.changes({ signal }), diff: () => box.diff({ signal }),
      merge: () => box.merge('sb-2', { signal }), network: () => box.network({ signal }), usage: () => box.usage({ signal }),
      metrics: () => box.metrics({ signal }), update: () => box.update({ metadata: { a: 'b' }, signal }), kill: () => box.kill({ signal }),
      read: () => box.files.read('/etc/hostname', { signal }), stream: () => box.files.read('/etc/hostname', { format: 'stream', signal }),
      write: () => box.files.write('/tmp/ran', 'x', { signal }), list: () => box.files.list('/', { signal }), walk: () => box.files.walk('/', { signal }),
      watch: () => box.files.watch('/tmp', { signal }), move: () => box.files.move('/tmp/a', '/tmp/ran', { signal }),
      context: () => box.contexts.create({ signal }), tool: () => box.tools.run('run_shell', { command: 'touch /tmp/ran' }, { signal }),
    }
    for (const [name, action] of Object.entries(of)) await assert.rejects(call(action), (error) => error === reason, name)
    assert.equal(await box.files.exists('/tmp/ran'), false)
    assert.equal((await box.info()).state, 'running')
  })
})
