/** Uploads and downloads; archives from inside are hostile. */

import assert from 'node:assert/strict'
import { chmodSync, existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, test } from 'node:test'
import { FileNotFoundError, FilesystemError, InvalidRequestError, UnsafeArchiveError, type Sandbox } from 'paddock'
import { sandbox, temporaryDirectory, withCode } from './setup.js'

const inner = (name: string): string => new URL(`../esm/platform/${name}.js`, import.meta.url).href
const { linkIsSafe, pack, partsOf, unpack } = await import(inner('archives'))
const { header, fillOf, endOfArchive } = await import(inner('tar'))

let box: Sandbox
before(async () => {
  box = await sandbox()
})

describe('upload and download', () => {
  test('a file, with its mode', async () => {
    const here = temporaryDirectory()
    writeFileSync(join(here, 'f'), 'content')
    chmodSync(join(here, 'f'), 0o750)
    await box.files.upload(join(here, 'f'), 'up/f')
    assert.equal((await box.files.stat('up/f')).mode & 0o777, 0o750)
    await box.files.download('up/f', join(here, 'deep/er/f'))
    assert.equal(readFileSync(join(here, 'deep/er/f'), 'utf8'), 'content')
  })
  test('a directory there and back', async () => {
    const here = temporaryDirectory()
    const long = 'n'.repeat(120)
    mkdirSync(join(here, 'tree', 'empty'), { recursive: true })
    mkdirSync(join(here, 'tree', 'a'))
    writeFileSync(join(here, 'tree', 'a', 'ünïcode'), new Uint8Array(256).map((_, index) => index))
    writeFileSync(join(here, 'tree', long), 'long')
    writeFileSync(join(here, 'tree', 'empty-file'), '')
    symlinkSync('a/ünïcode', join(here, 'tree', 'link'))
    await box.files.upload(join(here, 'tree'), 'tree')
    assert.equal(await box.files.read(`tree/${long}`), 'long')
    await box.files.download('tree', join(here, 'back'))
    assert.deepEqual(readdirSync(join(here, 'back')).sort(), ['a', 'empty', 'empty-file', 'link', long].sort())
    assert.equal(readFileSync(join(here, 'back', 'a', 'ünïcode')).length, 256)
    assert.equal(readlinkSync(join(here, 'back', 'link')), 'a/ünïcode')
  })
  test('a large file', async () => {
    const here = temporaryDirectory()
    writeFileSync(join(here, 'large'), 'begin')
    truncateSync(join(here, 'large'), 20 << 20)
    await box.files.upload(join(here, 'large'), '/tmp/large')
    await box.files.download('/tmp/large', join(here, 'back'))
    assert.equal(Buffer.compare(readFileSync(join(here, 'back')), readFileSync(join(here, 'large'))), 0)
    await box.files.remove('/tmp/large')
  })
  test('more than maxBytes is refused, and nothing is left', async () => {
    const here = temporaryDirectory()
    await box.commands.run('truncate -s 2M big; mkdir -p bigs; truncate -s 2M bigs/f')
    await assert.rejects(box.files.download('big', join(here, 'x'), { maxBytes: 1 << 20 }), UnsafeArchiveError)
    await assert.rejects(box.files.download('bigs', join(here, 'y'), { maxBytes: 1 << 20 }), UnsafeArchiveError)
    assert.deepEqual(readdirSync(here).filter((name) => name !== 'y'), [])
  })
  test('a link that leads outside is refused, or skipped', async () => {
    const here = temporaryDirectory()
    await box.commands.run('mkdir -p links; ln -sf /etc/passwd links/out; echo x > links/good')
    await assert.rejects(box.files.download('links', join(here, 'a')), UnsafeArchiveError)
    await box.files.download('links', join(here, 'b'), { unsafeLinks: 'skip' })
    assert.deepEqual(readdirSync(join(here, 'b')), ['good'])
  })
  test('an existing link in the target is not written through', async () => {
    const here = temporaryDirectory()
    mkdirSync(join(here, 'secret'))
    mkdirSync(join(here, 'target'))
    symlinkSync('../secret', join(here, 'target', 'sub'))
    await box.files.write('through/sub/file', 'x')
    await assert.rejects(box.files.download('through', join(here, 'target')), UnsafeArchiveError)
    assert.deepEqual(readdirSync(join(here, 'secret')), [])
  })
  test('set-id bits are dropped', async () => {
    const here = temporaryDirectory()
    await box.commands.run('mkdir -p ids; cp /bin/true ids/t; chmod 4755 ids/t')
    await box.files.download('ids', join(here, 'ids'))
    assert.equal(lstatSync(join(here, 'ids', 't')).mode & 0o7000, 0)
  })
  test('a path that is not there, here and inside', async () => {
    const here = temporaryDirectory()
    await assert.rejects(box.files.upload(join(here, 'nothing'), 'x'), withCode('local_file_error'))
    await assert.rejects(box.files.download('nothing', join(here, 'x')), FileNotFoundError)
    await assert.rejects(box.files.download('/etc/hostname', '/dev/null/no/such/place'), FilesystemError)
  })
  test('an unknown word for unsafe links is refused', async () => {
    await assert.rejects(box.files.download('x', 'y', { unsafeLinks: 'follow' as never }), InvalidRequestError)
  })
})

interface Entry {
  kind: string
  name: string
  linkName?: string
  content?: string
}

async function* archive(...entries: Entry[]): AsyncGenerator<Uint8Array> {
  for (const { kind, name, linkName = '', content = '' } of entries) {
    yield header({ kind, name, linkName, size: content.length, mode: 0o6777 })
    yield new TextEncoder().encode(content)
    yield fillOf(content.length)
  }
  yield endOfArchive()
}

const OPTIONS = { skipUnsafeLinks: false, maxBytes: 1000 }

describe('hostile archives', () => {
  for (const [what, ...entries] of [
    ['an absolute name', { kind: 'file', name: '/tmp/x' }],
    ['a name that climbs', { kind: 'file', name: 'a/../../x' }],
    ['a link that climbs', { kind: 'symlink', name: 'l', linkName: '../x' }],
    ['an absolute link', { kind: 'symlink', name: 'l', linkName: '/etc' }],
    ['a climb behind a name', { kind: 'symlink', name: 'a/b', linkName: 'c/../../x' }],
    ['a hard link outside', { kind: 'hardlink', name: 'h', linkName: '../../etc/passwd' }],
    ['a hard link to nothing', { kind: 'hardlink', name: 'h', linkName: 'nothing' }],
    ['a file where a directory is', { kind: 'directory', name: 'd' }, { kind: 'file', name: 'd' }],
    ['a file below a file', { kind: 'file', name: 'f' }, { kind: 'file', name: 'f/g' }],
    ['more bytes than allowed', { kind: 'file', name: 'f', content: 'x'.repeat(1001) }],
  ] as [string, ...Entry[]][]) {
    test(`${what} is refused`, async () => {
      const here = temporaryDirectory()
      await assert.rejects(unpack(archive(...entries), join(here, 'root'), OPTIONS), UnsafeArchiveError)
      assert.deepEqual(readdirSync(here).filter((name) => name !== 'root'), [])
    })
  }
  test('a link of the archive is not written through', async () => {
    const here = temporaryDirectory()
    mkdirSync(join(here, 'root'))
    await unpack(archive({ kind: 'symlink', name: 'l', linkName: 'd' }, { kind: 'directory', name: 'd' }, { kind: 'file', name: 'l2', content: 'x' }), join(here, 'root'), OPTIONS)
    await assert.rejects(unpack(archive({ kind: 'file', name: 'l/f', content: 'x' }), join(here, 'root'), OPTIONS), UnsafeArchiveError)
    assert.equal(existsSync(join(here, 'root', 'd', 'f')), false)
  })
  test('garbage, a wrong sum and an early end are told', async () => {
    const here = temporaryDirectory()
    async function* garbage(): AsyncGenerator<Uint8Array> {
      yield new Uint8Array(600).fill(65)
    }
    async function* short(): AsyncGenerator<Uint8Array> {
      yield header({ kind: 'file', name: 'f', linkName: '', size: 500, mode: 0o644 })
      yield new Uint8Array(10)
    }
    await assert.rejects(unpack(garbage(), join(here, 'a'), OPTIONS), UnsafeArchiveError)
    await assert.rejects(unpack(short(), join(here, 'b'), OPTIONS), UnsafeArchiveError)
  })
  test('modes lose their set-id and write bits', async () => {
    const here = temporaryDirectory()
    await unpack(archive({ kind: 'file', name: 'f', content: 'x' }), join(here, 'root'), OPTIONS)
    assert.equal(lstatSync(join(here, 'root', 'f')).mode & 0o7777, 0o755)
  })
  test('pack and unpack are each other\'s reverse for long names', async () => {
    const here = temporaryDirectory()
    const deep = join(here, 'from', 'd'.repeat(90), 'e'.repeat(90))
    mkdirSync(deep, { recursive: true })
    writeFileSync(join(deep, 'ž'.repeat(60)), 'x')
    await unpack(pack(join(here, 'from')), join(here, 'to'), OPTIONS)
    assert.equal(readFileSync(join(here, 'to', 'd'.repeat(90), 'e'.repeat(90), 'ž'.repeat(60)), 'utf8'), 'x')
  })
  test('names and links are judged', () => {
    assert.deepEqual(partsOf('./a//b/'), ['a', 'b'])
    assert.throws(() => partsOf('a\0b'), UnsafeArchiveError)
    assert.deepEqual([linkIsSafe('../a', 1), linkIsSafe('../a', 0), linkIsSafe('', 3), linkIsSafe('a/../b', 3)], [true, false, false, false])
  })
})
