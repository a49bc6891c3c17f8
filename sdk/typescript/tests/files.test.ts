import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import {
  FileExistsError, FileNotFoundError, InvalidRequestError, NotADirectoryError, NotAFileError, NotEmptyError, PermissionDeniedError,
  SandboxEndedError, type Sandbox,
} from 'paddock'
import { collect, sandbox, TCP_URL, withCode } from './setup.js'
import { Client, Sandbox as Boxes } from 'paddock'

let box: Sandbox
before(async () => {
  box = await sandbox()
})

const BINARY = new Uint8Array(256).map((_, index) => index)

describe('read and write', () => {
  for (const [name, data, bytes] of [
    ['text', 'grüß dich\n', new TextEncoder().encode('grüß dich\n')],
    ['an empty text', '', new Uint8Array(0)],
    ['every byte', BINARY, BINARY],
    ['an ArrayBuffer', BINARY.buffer, BINARY],
    ['a Blob', new Blob([BINARY]), BINARY],
    ['a byte order mark', '\ufeffmark', new TextEncoder().encode('\ufeffmark')],
    ['line ends of another system', 'a\r\nb\r', new TextEncoder().encode('a\r\nb\r')],
  ] as const) {
    test(`${name} comes back as it went`, async () => {
      const entry = await box.files.write('round/trip', data as string)
      assert.equal(entry.size, bytes.length)
      assert.deepEqual(await box.files.read('round/trip', { format: 'bytes' }), bytes)
    })
  }
  test('a web stream can be written', async () => {
    await box.files.write('stream', new Blob(['from a stream']).stream() as ReadableStream<Uint8Array>)
    assert.equal(await box.files.read('stream'), 'from a stream')
  })
  test('an async iterable can be written', async () => {
    async function* pieces(): AsyncGenerator<Uint8Array | string> {
      yield 'a'
      yield new Uint8Array([98])
    }
    await box.files.write('pieces', pieces())
    assert.equal(await box.files.read('pieces'), 'ab')
  })
  test('reads as a stream', async () => {
    await box.files.write('s', 'x'.repeat(300_000))
    const reader = (await box.files.read('s', { format: 'stream' })).getReader()
    let size = 0
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) size += piece.value.length
    assert.equal(size, 300_000)
  })
  test('a stream that is cancelled lets the connection go', async () => {
    await box.files.write('s', 'x'.repeat(3_000_000))
    const stream = await box.files.read('s', { format: 'stream' })
    const reader = stream.getReader()
    await reader.read()
    await reader.cancel()
    assert.equal(await box.files.exists('s'), true)
  })
  test('reads as a Blob', async () => {
    await box.files.write('b', BINARY)
    const blob = await box.files.read('b', { format: 'blob' })
    assert.equal(blob.size, 256)
    assert.deepEqual(new Uint8Array(await blob.arrayBuffer()), BINARY)
  })
  test('reads a part', async () => {
    await box.files.write('part', '0123456789')
    assert.equal(await box.files.read('part', { offset: 3, length: 4 }), '3456')
    assert.equal(await box.files.read('part', { offset: 8 }), '89')
    assert.equal(await box.files.read('part', { length: 0 }), '')
  })
  test('bytes that are not UTF-8 are replaced, or refused when fatal', async () => {
    await box.files.write('bad', new Uint8Array([97, 255]))
    assert.equal(await box.files.read('bad'), 'a\ufffd')
    await assert.rejects(box.files.read('bad', { fatal: true }), TypeError)
  })
  test('a large file comes back whole', async () => {
    const large = new Uint8Array(24 << 20)
    for (let index = 0; index < large.length; index += 4096) large[index] = index / 4096
    await box.files.write('/tmp/large', large)
    const back = await box.files.read('/tmp/large', { format: 'bytes' })
    assert.equal(Buffer.compare(back, large), 0)
    await box.files.remove('/tmp/large')
  })
  test('mode is kept', async () => {
    await box.files.write('run.sh', '#!/bin/sh\necho ran\n', { mode: 0o755 })
    assert.equal((await box.files.stat('run.sh')).mode & 0o777, 0o755)
    assert.equal((await box.commands.run('./run.sh')).stdout, 'ran\n')
  })
  test('without parents a missing directory is told', async () => {
    await assert.rejects(box.files.write('no/such/place', 'x', { parents: false }), FileNotFoundError)
  })
  test('paths are resolved, and files written through links', async () => {
    await box.commands.run('mkdir -p /tmp/r/real && cd /tmp/r && ln -s real link && echo old > real/f && ln -s f real/g')
    const found = await box.files.resolve('/tmp/r/link/../link/g')
    assert.deepEqual([found.path, found.exists, found.entry?.size], ['/tmp/r/real/f', true, 4])
    const missing = await box.files.resolve('/tmp/r/link/no/where')
    assert.deepEqual([missing.path, missing.exists, missing.entry], ['/tmp/r/real/no/where', false, undefined])
    await box.files.write('/tmp/r/link/g', 'new', { followLinks: true })
    assert.equal((await box.commands.run('cat /tmp/r/real/f; readlink /tmp/r/real/g')).stdout, 'newf\n')
    await box.files.chmod('/tmp/r/real/f', 0o444)
    await assert.rejects(box.files.write('/tmp/r/real/f', 'x', { followLinks: true }), PermissionDeniedError)
  })
  test('an unknown format is refused', async () => {
    await assert.rejects(box.files.read('x', { format: 'xml' as never }), InvalidRequestError)
  })
  test('something that is no data is refused', async () => {
    await assert.rejects(box.files.write('x', 7 as never), TypeError)
  })
  test('a stream of the caller that fails writes nothing', async () => {
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield new Uint8Array(100_000)
      throw new RangeError('mine')
    }
    await assert.rejects(box.files.write('half', broken()), RangeError)
    assert.equal(await box.files.exists('half'), false)
  })
})

describe('names', () => {
  for (const name of [
    'with space', 'ünï-ćödé 🐎', 'a&b=c?d#e%20f', "quote'\"`$(id)", '-rf', 'line\nbreak', 'tab\tname', '..hidden', '...', 'a;b|c>d',
    '\u202egnp.exe', '%2e%2e%2fetc', 'x'.repeat(255), '.env', 'con', '*?[a]', '~', 'back\\slash', '\x1b[31mred',
  ]) {
    test(`${JSON.stringify(name).slice(0, 40)} is one file`, async () => {
      const path = `/tmp/names/${name}`
      await box.files.write(path, name)
      assert.equal(await box.files.read(path), name)
      const listed = await box.files.list('/tmp/names')
      assert.ok(listed.some((entry) => entry.name === name))
      await box.files.remove(path)
      assert.equal(await box.files.exists(path), false)
    })
  }
  test('a NUL in a name is refused', async () => {
    await assert.rejects(box.files.write('a\0b', 'x'), InvalidRequestError)
  })
  test('an empty name is refused', async () => {
    await assert.rejects(box.files.write('', 'x'))
  })
  test('a name that is too long is told', async () => {
    await assert.rejects(box.files.write('y'.repeat(256), 'x'))
  })
  test('a name that is not UTF-8 has its bytes', async () => {
    await box.commands.run("mkdir -p /tmp/odd && cd /tmp/odd && touch \"$(printf 'a\\377b')\"")
    const [entry] = await box.files.list('/tmp/odd')
    assert.deepEqual([...(entry?.pathBytes ?? [])].slice(-3), [97, 255, 98])
  })
})

describe('directories', () => {
  test('list and walk', async () => {
    await box.files.write('tree/a/one', '1')
    await box.files.write('tree/two', '2')
    assert.deepEqual((await box.files.list('tree')).map((entry) => entry.name).sort(), ['a', 'two'])
    const all = await collect(box.files.walk('tree'))
    assert.deepEqual(all.map((entry) => entry.path).sort().length, 3)
    assert.equal((await box.files.list('tree', { recursive: true })).length, 3)
  })
  test('more entries than one page are all listed', async () => {
    await box.commands.run('mkdir -p many && cd many && seq 1500 | xargs touch')
    assert.equal((await box.files.list('many')).length, 1500)
  })
  test('stat tells kinds', async () => {
    await box.commands.run('mkdir -p kinds/d; echo x > kinds/f; ln -sf f kinds/l; mkfifo kinds/p')
    const kinds = await Promise.all(['d', 'f', 'l', 'p'].map(async (name) => (await box.files.stat(`kinds/${name}`)).kind))
    assert.deepEqual(kinds, ['directory', 'file', 'link', 'other'])
    const link = await box.files.stat('kinds/l')
    const file = await box.files.stat('kinds/f')
    assert.equal(link.target, 'f')
    assert.deepEqual([link.resolved?.path.endsWith('/kinds/f'), link.resolved?.kind, link.resolved?.mode], [true, 'file', file.mode])
    assert.equal(file.resolved, undefined)
  })
  test('makeDirectory, with and without parents', async () => {
    assert.equal((await box.files.makeDirectory('made/deep/down')).kind, 'directory')
    await box.files.makeDirectory('made/deep/down')
    await assert.rejects(box.files.makeDirectory('made/deep/down', { parents: false }), FileExistsError)
    await assert.rejects(box.files.makeDirectory('x1/y2/z3', { parents: false }), FileNotFoundError)
  })
  test('move, and overwrite only when asked', async () => {
    await box.files.write('from', 'a')
    await box.files.write('to', 'b')
    await assert.rejects(box.files.move('from', 'to'), FileExistsError)
    await box.files.move('from', 'to', { overwrite: true })
    assert.equal(await box.files.read('to'), 'a')
    assert.equal(await box.files.exists('from'), false)
  })
  test('remove, recursively only when asked', async () => {
    await box.files.write('full/file', 'x')
    await assert.rejects(box.files.remove('full'), NotEmptyError)
    await box.files.remove('full', { recursive: true })
    assert.equal(await box.files.exists('full'), false)
  })
  test('chmod', async () => {
    await box.files.write('mode', 'x')
    assert.equal((await box.files.chmod('mode', 0o600)).mode & 0o777, 0o600)
  })
  test('a time far away is told', async () => {
    await box.commands.run('touch -d "2200-01-01" far')
    assert.equal((await box.files.stat('far')).modifiedAt.getUTCFullYear(), 2200)
  })
})

describe('failures', () => {
  test('a file that is not there', async () => {
    const error = await box.files.read('nothing').catch((one) => one)
    assert.ok(error instanceof FileNotFoundError)
    assert.equal(error.status, 404)
    assert.ok(error.requestId?.startsWith('rq-'))
    assert.match(error.message, /nothing/)
  })
  test('a directory is no file', async () => {
    await assert.rejects(box.files.read('/tmp'), NotAFileError)
  })
  test('a file is no directory', async () => {
    await box.files.write('plain', 'x')
    await assert.rejects(box.files.list('plain'), NotADirectoryError)
  })
  test('another user has other rights', async () => {
    await box.files.write('/root-only', 'x', { user: 'root', mode: 0o600 })
    assert.equal(await box.files.read('/root-only', { user: 'root' }), 'x')
    await assert.rejects(box.files.read('/root-only'), PermissionDeniedError)
  })
  test('a user that does not exist is told', async () => {
    await assert.rejects(box.files.read('/etc/hostname', { user: 'no-such-user' }))
  })
  test('/dev/zero is not read without end', async () => {
    await assert.rejects(box.files.read('/dev/zero', { signal: AbortSignal.timeout(20_000) }))
  })
  test('a read ends by its signal', async () => {
    await assert.rejects(box.files.read('/etc/hostname', { signal: AbortSignal.abort() }), { name: 'AbortError' })
  })
})

describe('watch', () => {
  test('the server promises to say that it lives, by which a lost connection is noticed', async () => {
    const answer = await box.client.open(`/v1/sandboxes/${box.id}/files/watch?path=/tmp`)
    assert.equal(answer.header('x-paddock-alive-seconds'), '15')
    answer.close()
  })
  test('tells of all that happens after it is set', async () => {
    await box.files.makeDirectory('watched')
    const kinds: string[] = []
    const watch = await box.files.watch('watched')
    await box.files.write('watched/new', 'x')
    for await (const event of watch) {
      kinds.push(event.kind)
      if (event.path.endsWith('/new') || event.path === 'new') break
    }
    assert.ok(kinds.length >= 1)
  })
  test('recursive sees below', async () => {
    await box.files.makeDirectory('deep/down')
    const watch = await box.files.watch('deep', { recursive: true })
    await box.files.write('deep/down/x', '1')
    for await (const event of watch) if (event.path.includes('down/')) break
  })
  test('await using closes it', async () => {
    await box.files.makeDirectory('used')
    let watch
    {
      await using inner = await box.files.watch('used')
      watch = inner
    }
    assert.equal((await watch.next()).done, true)
  })
  test('close ends a next that waits', async () => {
    await box.files.makeDirectory('quiet')
    const watch = await box.files.watch('quiet')
    const next = watch.next()
    await watch.close()
    assert.equal((await next).done, true)
  })
  test('ends by its signal', async () => {
    await box.files.makeDirectory('signalled')
    const controller = new AbortController()
    const watch = await box.files.watch('signalled', { signal: controller.signal })
    const next = watch.next()
    controller.abort()
    await assert.rejects(next, { name: 'AbortError' })
  })
  test('a directory that is not there is told at once', async () => {
    await assert.rejects(box.files.watch('nowhere'), FileNotFoundError)
  })
  test('a sandbox that ends under it is told', async () => {
    const other = await sandbox()
    await other.files.makeDirectory('w')
    const watch = await other.files.watch('w')
    // Listened to from the beginning: it may be refused before the kill has answered.
    const told = assert.rejects(watch.next(), SandboxEndedError)
    await other.kill()
    await told
  })
})

describe('signed addresses', () => {
  test('on a socket it is a path', async () => {
    await box.files.write('signed', 'by address')
    const url = await box.files.signedUrl('signed')
    assert.ok(url.startsWith('/v1/signed/'))
    assert.equal(await (await box.client.fetch(url)).text(), 'by address')
  })
  test('by TCP it reads and writes without a token', async () => {
    const client = new Client({ url: TCP_URL, token: process.env['PADDOCK_TEST_TOKEN'] })
    const other = await sandbox({ client })
    await other.files.write('signed', 'by address')
    const read = await other.files.signedUrl('signed')
    assert.equal(await (await fetch(read)).text(), 'by address')
    const write = await other.files.signedUrl('put', { operation: 'write', expiresMs: 60_000 })
    assert.equal((await fetch(write, { method: 'PUT', body: 'put here' })).status, 200)
    assert.equal(await other.files.read('put'), 'put here')
    await other.kill()
    await client.close()
  })
  test('an unknown operation is refused', async () => {
    await assert.rejects(box.files.signedUrl('x', { operation: 'delete' as never }), InvalidRequestError)
  })
})

test('a sandbox that has ended has no files', async () => {
  const other = await sandbox()
  await other.kill()
  await assert.rejects(other.files.read('/etc/hostname'), withCode('sandbox_ended'))
  const found = await Boxes.connect(other.id)
  assert.equal(found.state, 'ended')
})
