// Files with the SDK for Node.
import { gzipSync } from 'node:zlib'
import { address, assert, e2b, Sandbox, sharedSandbox, subject, withSandbox } from './world.mjs'

const { FileNotFoundError, FileType, InvalidArgumentError, NotEnoughSpaceError, NotFoundError, SandboxError } = e2b
const test = subject('files')
const bytes = (length) => new Uint8Array(length).map((_, at) => at % 251)
const files = async () => (await sharedSandbox()).files

test('text_goes_in_and_out', async () => {
  const { files, commands } = await sharedSandbox()
  const info = await files.write('a/b.txt', 'grün\n')
  assert.deepEqual([info.path, info.name, info.type], ['/home/user/a/b.txt', 'b.txt', FileType.FILE])
  assert.equal(await files.read('a/b.txt'), 'grün\n')
  assert.equal((await commands.run('cat a/b.txt')).stdout, 'grün\n')
})

test('bytes_go_in_and_out', async () => {
  const place = await files()
  await place.write('/tmp/bytes', bytes(300_000).buffer)
  assert.deepEqual(Buffer.from(await place.read('/tmp/bytes', { format: 'bytes' })), Buffer.from(bytes(300_000)))
})

test('blobs_go_in_and_out', async () => {
  const place = await files()
  await place.write('/tmp/blob', new Blob(['blob']))
  const blob = await place.read('/tmp/blob', { format: 'blob' })
  assert.deepEqual([blob.size, await blob.text()], [4, 'blob'])
})

test('streams_go_in_and_out', async () => {
  const place = await files()
  const stream = new ReadableStream({
    start(controller) {
      for (let n = 0; n < 20; n++) controller.enqueue(bytes(100_000))
      controller.close()
    },
  })
  await place.write('/tmp/stream', stream)
  let size = 0
  for await (const piece of await place.read('/tmp/stream', { format: 'stream' })) size += piece.length
  assert.equal(size, 2_000_000)
})

test('an_empty_file', async () => {
  const place = await files()
  await place.write('/tmp/empty', '')
  assert.equal(await place.read('/tmp/empty'), '')
  assert.equal((await place.getInfo('/tmp/empty')).size, 0)
})

test('packed_on_the_way', async () => {
  const place = await files()
  await place.write('/tmp/packed', 'x'.repeat(100_000), { gzip: true })
  assert.equal((await place.read('/tmp/packed', { gzip: true })).length, 100_000)
})

test('as_octets_and_as_a_form', async () => {
  const place = await files()
  for (const useOctetStream of [true, false]) {
    await place.write('/tmp/octets', bytes(70_000).buffer, { useOctetStream })
    assert.deepEqual(Buffer.from(await place.read('/tmp/octets', { format: 'bytes' })), Buffer.from(bytes(70_000)))
  }
})

test('several_at_a_time', async () => {
  const place = await files()
  const entries = Array.from({ length: 5 }, (_, n) => ({ path: `/tmp/s/${n}`, data: `${n}` }))
  assert.deepEqual((await place.write(entries)).map((one) => one.path), entries.map((one) => one.path))
  assert.equal((await place.writeFiles([{ path: '/tmp/s/blob', data: new Blob(['b']) }, { path: '/tmp/s/4', data: 'four' }])).length, 2)
  assert.deepEqual([await place.read('/tmp/s/3'), await place.read('/tmp/s/4'), await place.read('/tmp/s/blob')], ['3', 'four', 'b'])
  assert.deepEqual(await place.write([]), [])
})

test('names_with_spaces_and_other_scripts', async () => {
  const place = await files()
  for (const name of ['a b.txt', 'grün.txt', '100%.txt', "q'uote.txt", 'am&p=.txt', 'plus+.txt', '#.txt']) {
    await place.write(`/tmp/names-js/${name}`, name)
    assert.equal(await place.read(`/tmp/names-js/${name}`), name)
  }
  assert.equal((await place.list('/tmp/names-js')).length, 7)
})

test('what_is_not_there', async () => {
  const place = await files()
  await assert.rejects(place.read('/no/such'), FileNotFoundError)
  await assert.rejects(place.read('/no/such'), NotFoundError)
  await assert.rejects(place.list('/no/such'), NotFoundError)
  await assert.rejects(place.getInfo('/no/such'), NotFoundError)
  await assert.rejects(place.rename('/no/such', '/tmp/x'), NotFoundError)
  assert.equal(await place.exists('/no/such'), false)
  await place.remove('/no/such')
})

test('what_is_no_file', async () => {
  const place = await files()
  await assert.rejects(place.read('/tmp'), InvalidArgumentError)
  await assert.rejects(place.list('/etc/hostname'), InvalidArgumentError)
  await assert.rejects(place.write('/tmp', 'x'), SandboxError)
  await assert.rejects(place.write('/usr/no', 'x'), SandboxError)
})

test('a_file_is_written_again', async () => {
  const place = await files()
  await place.write('/tmp/again', 'a long text')
  await place.write('/tmp/again', 'short')
  assert.equal(await place.read('/tmp/again'), 'short')
})

test('info', async () => {
  const { files, commands } = await sharedSandbox()
  await files.write('/tmp/info.txt', '12345')
  const info = await files.getInfo('/tmp/info.txt')
  assert.deepEqual(
    [info.name, info.type, info.path, info.size, info.mode, info.permissions, info.owner, info.group],
    ['info.txt', FileType.FILE, '/tmp/info.txt', 5, 0o644, '-rw-r--r--', 'user', 'user'])
  assert.ok(Math.abs(info.modifiedTime - Date.now()) < 60_000)
  await commands.run('ln -sf /tmp/info.txt /tmp/info.link')
  assert.equal((await files.getInfo('/tmp/info.link')).symlinkTarget, '/tmp/info.txt')
})

test('directories_are_made', async () => {
  const place = await files()
  assert.equal(await place.makeDir('/tmp/made/deep'), true)
  assert.equal(await place.makeDir('/tmp/made/deep'), false)
  assert.equal((await place.getInfo('/tmp/made')).type, FileType.DIR)
})

test('lists_have_a_depth', async () => {
  const place = await files()
  await place.write('/tmp/depth-js/a/b/c.txt', 'c')
  await place.write('/tmp/depth-js/top', '')
  const names = async (options) => (await place.list('/tmp/depth-js', options)).map((one) => one.path.slice('/tmp/depth-js/'.length)).sort()
  assert.deepEqual(await names(), ['a', 'top'])
  assert.deepEqual(await names({ depth: 3 }), ['a', 'a/b', 'a/b/c.txt', 'top'])
  await assert.rejects(place.list('/tmp/depth-js', { depth: 0 }), InvalidArgumentError)
})

test('renamed_and_removed', async () => {
  const place = await files()
  await place.write('/tmp/move-js/a', 'a')
  assert.equal((await place.rename('/tmp/move-js', '/tmp/moved-js')).path, '/tmp/moved-js')
  assert.equal((await place.rename('/tmp/moved-js/a', '/tmp/moved-js/new/b')).path, '/tmp/moved-js/new/b')
  assert.equal(await place.read('/tmp/moved-js/new/b'), 'a')
  await place.remove('/tmp/moved-js')
  assert.equal(await place.exists('/tmp/moved-js'), false)
})

test('files_of_root', async () => {
  const place = await files()
  await place.write('own-js.txt', 'mine', { user: 'root' })
  assert.equal(await place.read('/root/own-js.txt', { user: 'root' }), 'mine')
  await assert.rejects(place.read('/root/own-js.txt'), Error)
  await assert.rejects(place.remove('/root/own-js.txt'), Error)
})

test('many_at_once', async () => {
  const place = await files()
  await Promise.all(Array.from({ length: 30 }, (_, n) => place.write(`/tmp/once-js/${n}`, `${n}`)))
  const read = await Promise.all(Array.from({ length: 30 }, (_, n) => place.read(`/tmp/once-js/${n}`)))
  assert.deepEqual(read, Array.from({ length: 30 }, (_, n) => `${n}`))
})

test('a_full_disk_is_its_own_error', () => withSandbox({}, async (sandbox) => {
  await sandbox.commands.run('fallocate -l 1000M full; head -c 200M /dev/zero > rest || true')
  await assert.rejects(sandbox.files.write('more', bytes(5_000_000).buffer), NotEnoughSpaceError)
}))

test('a_large_upload_that_is_refused_says_why', async () => {
  const place = await files()
  for (let n = 0; n < 5; n++) await assert.rejects(place.write('/usr/no', bytes(5_000_000).buffer), SandboxError)
})

test('a_signed_address_reads', async () => {
  const sandbox = await sharedSandbox()
  await sandbox.files.write('/tmp/signed.txt', 'signed')
  for (const options of [{}, { useSignatureExpiration: 60 }, { user: 'user' }]) {
    assert.equal(await (await fetch(await sandbox.downloadUrl('/tmp/signed.txt', options))).text(), 'signed')
  }
})

test('a_signed_address_writes', async () => {
  const sandbox = await sharedSandbox()
  const send = (url, name) => {
    const form = new FormData()
    form.append('file', new Blob(['formed']), name)
    return fetch(url, { method: 'POST', body: form })
  }
  assert.equal((await send(await sandbox.uploadUrl(), '/tmp/formed.txt')).status, 200)
  assert.equal((await send(await sandbox.uploadUrl('/tmp/named.txt', { useSignatureExpiration: 60 }), 'other.txt')).status, 200)
  assert.deepEqual([await sandbox.files.read('/tmp/formed.txt'), await sandbox.files.read('/tmp/named.txt')], ['formed', 'formed'])
})

test('an_altered_address_does_nothing', async () => {
  const sandbox = await sharedSandbox()
  await sandbox.files.write('/tmp/signed.txt', 'signed')
  const whole = await sandbox.downloadUrl('/tmp/signed.txt', { useSignatureExpiration: 60 })
  const altered = (change) => {
    const url = new URL(whole)
    for (const [name, value] of Object.entries(change)) url.searchParams.set(name, value)
    return url
  }
  const past = `${Math.floor(Date.now() / 1000) - 10}`
  for (const change of [{ path: '/etc/passwd' }, { signature: 'v1_x' }, { signature_expiration: past }, { username: 'root' }]) {
    assert.equal((await fetch(altered(change))).status, 401, JSON.stringify(change))
  }
  assert.equal((await fetch(whole, { method: 'POST', body: 'x' })).status, 401)
})

test('an_address_ends_with_its_sandbox', async () => {
  const sandbox = await Sandbox.create()
  await sandbox.files.write('/tmp/a', 'a')
  const url = await sandbox.downloadUrl('/tmp/a')
  assert.equal((await fetch(url)).status, 200)
  await sandbox.kill()
  assert.ok([401, 404, 502].includes((await fetch(url)).status))
})

test('a_body_that_is_not_packed_is_refused', async () => {
  const sandbox = await sharedSandbox()
  const headers = {
    'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '49983', 'X-Access-Token': sandbox.envdAccessToken,
    'Content-Type': 'application/octet-stream', 'Content-Encoding': 'gzip',
  }
  const send = (body) => fetch(`${address}/files?path=/tmp/not-gzip`, { method: 'POST', headers, body })
  assert.equal((await send('plain')).status, 400)
  assert.equal((await send(gzipSync('x'.repeat(1000)).subarray(0, -8))).status, 400)
  assert.equal(await sandbox.files.exists('/tmp/not-gzip'), false)
})
