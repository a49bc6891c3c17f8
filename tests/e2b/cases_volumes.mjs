// Volumes and secrets with the SDK for Node.
import crypto from 'node:crypto'
import { assert, e2b, keys, Sandbox, subject } from './world.mjs'

const { Secret, SecretNotFoundError, Volume, VolumeError, VolumePathNotFoundError, VolumeNotFoundError, AuthenticationError } = e2b
const other = { apiKey: keys.other }
const test = subject('volumes')
const newName = () => 'v-' + crypto.randomBytes(6).toString('hex')

async function withVolume(use) {
  const volume = await Volume.create(newName())
  try {
    await use(volume)
  } finally {
    await Volume.destroy(volume.volumeId)
  }
}

test('a_volume_is_made_found_listed_and_removed', async () => {
  const name = newName()
  const volume = await Volume.create(name)
  assert.equal(volume.name, name)
  assert.equal((await Volume.getInfo(volume.volumeId)).name, name)
  assert.ok((await Volume.list()).some((one) => one.name === name))
  assert.equal(await Volume.destroy(volume.volumeId), true)
  assert.equal(await Volume.destroy(volume.volumeId), false)
  await assert.rejects(Volume.connect(volume.volumeId), VolumeNotFoundError)
})

test('files_in_all_forms', () => withVolume(async (volume) => {
  await volume.writeFile('/text', 'grün')
  await volume.writeFile('/bytes', new Uint8Array([0, 255]).buffer)
  await volume.writeFile('/blob', new Blob(['blob']))
  await volume.writeFile('/stream', new Blob(['streamed']).stream())
  await volume.writeFile('/empty', '')
  assert.equal(await volume.readFile('/text'), 'grün')
  assert.deepEqual([...(await volume.readFile('/bytes', { format: 'bytes' }))], [0, 255])
  assert.equal(await (await volume.readFile('/blob', { format: 'blob' })).text(), 'blob')
  assert.equal(await new Response(await volume.readFile('/stream', { format: 'stream' })).text(), 'streamed')
  assert.equal(await volume.readFile('/empty'), '')
}))

test('a_file_is_described', () => withVolume(async (volume) => {
  const written = await volume.writeFile('/dir/file', '12345', { mode: 0o600, uid: 1000, gid: 1000 })
  const found = await volume.getInfo('/dir/file')
  assert.deepEqual(found, written)
  assert.deepEqual([found.name, found.path, found.type, found.size, found.mode], ['file', '/dir/file', 'file', 5, 0o600])
  assert.ok(found.mtime instanceof Date)
}))

test('directories_are_made_listed_and_removed', () => withVolume(async (volume) => {
  await volume.makeDir('/a/b/c', { force: true })
  await volume.writeFile('/a/file', 'x')
  assert.deepEqual((await volume.list('/a')).map((one) => one.path).sort(), ['/a/b', '/a/file'])
  assert.equal((await volume.list('/a', { depth: 2 })).length, 3)
  await assert.rejects(volume.makeDir('/x/y'), VolumePathNotFoundError)
  await volume.remove('/a')
  assert.deepEqual(await volume.list('/'), [])
}))

test('modes_change_and_owners_do_not', () => withVolume(async (volume) => {
  await volume.writeFile('/run', 'true')
  assert.equal((await volume.updateMetadata('/run', { mode: 0o755 })).mode, 0o755)
  await assert.rejects(volume.updateMetadata('/run', { uid: 33 }), /uid 33/)
}))

test('what_is_not_there_is_not_found', () => withVolume(async (volume) => {
  assert.equal(await volume.exists('/missing'), false)
  await assert.rejects(volume.readFile('/missing'), VolumePathNotFoundError)
  await assert.rejects(volume.list('/missing'), VolumePathNotFoundError)
  await assert.rejects(volume.remove('/missing'), VolumePathNotFoundError)
}))

test('paths_that_lead_out_are_refused', () => withVolume(async (volume) => {
  for (const bad of ['/../x', 'a/../../x', '/a//b', 'a\0b', 'n'.repeat(256)]) {
    await assert.rejects(volume.readFile(bad), VolumeError)
    await assert.rejects(volume.writeFile(bad, 'x'), VolumeError)
  }
  assert.deepEqual(await volume.list('/'), [])
}))

test('a_wrong_token_opens_nothing', () => withVolume(async (volume) => {
  await volume.writeFile('/a', 'mine')
  const altered = volume.token.slice(0, -1) + (volume.token.endsWith('0') ? '1' : '0')
  for (const token of ['x', volume.token.slice(0, -1), altered, keys.own]) {
    const wrong = new Volume(volume.volumeId, volume.name, token)
    await assert.rejects(wrong.readFile('/a'), AuthenticationError)
    await assert.rejects(wrong.writeFile('/a', 'changed'), AuthenticationError)
  }
  assert.equal(await volume.readFile('/a'), 'mine')
}))

test('another_tenants_volume_is_not_there', () => withVolume(async (volume) => {
  await assert.rejects(Volume.connect(volume.volumeId, other), VolumeNotFoundError)
  assert.equal(await Volume.destroy(volume.volumeId, other), false)
  assert.ok(!(await Volume.list(other)).some((one) => one.name === volume.name))
}))

test('a_name_is_taken_once_and_bad_ones_are_refused', () => withVolume(async (volume) => {
  await assert.rejects(Volume.create(volume.name), /already/)
  await assert.rejects(Volume.create('a/b'))
  await assert.rejects(Volume.create(''))
}))

test('ten_writers_at_once', () => withVolume(async (volume) => {
  const numbers = [...Array(10).keys()]
  await Promise.all(numbers.map((number) => volume.writeFile(`/${number}`, String(number))))
  assert.equal((await volume.list('/')).length, 10)
}))

test('a_sandbox_and_the_content_api_see_each_other', () => withVolume(async (volume) => {
  const sandbox = await Sandbox.create({ volumeMounts: { '/mnt/data': volume } })
  try {
    await sandbox.files.write('/mnt/data/a', 'inside')
    assert.equal(await volume.readFile('/a'), 'inside')
    await volume.writeFile('/b', 'outside')
    assert.equal(await sandbox.files.read('/mnt/data/b'), 'outside')
  } finally {
    await sandbox.kill()
  }
  assert.deepEqual((await volume.list('/')).map((one) => one.name).sort(), ['a', 'b'])
}))

test('a_link_that_leads_out_is_not_followed', () => withVolume(async (volume) => {
  const sandbox = await Sandbox.create({ volumeMounts: { '/mnt/data': volume } })
  try {
    await sandbox.commands.run('ln -s /etc/passwd /mnt/data/link; ln -s /tmp /mnt/data/out')
    assert.equal((await volume.getInfo('/link')).target, '/etc/passwd')
    await assert.rejects(volume.readFile('/link'), /symbolic link/)
    await assert.rejects(volume.writeFile('/out/x', 'x'), VolumeError)
  } finally {
    await sandbox.kill()
  }
}))

test('mounts_that_cannot_be_are_refused', () => withVolume(async (volume) => {
  await assert.rejects(Sandbox.create({ volumeMounts: { '/mnt/x': 'no-such-volume' } }), /no-such-volume/)
  await assert.rejects(Sandbox.create({ volumeMounts: { '/etc': volume } }))
  const first = await Sandbox.create({ volumeMounts: { '/mnt/data': volume } })
  await assert.rejects(Sandbox.create({ volumeMounts: { '/mnt/data': volume } }), new RegExp(first.sandboxId))
  await first.kill()
}))

const VALUE = 'a-value-that-is-shown-nowhere'

test('a_secret_is_made_found_changed_and_removed', async () => {
  const name = `${newName()}/key`
  const made = await Secret.create(name, VALUE, { metadata: { team: 'a' } })
  assert.deepEqual([made.name, made.version, made.metadata], [name, 1, { team: 'a' }])
  assert.equal((await Secret.getInfo(name)).secretId, made.secretId)
  assert.equal((await Secret.update(made.secretId, VALUE + '-2')).version, 2)
  assert.equal(await Secret.exists(name), true)
  assert.ok(!JSON.stringify(await Secret.getInfo(name)).includes(VALUE))
  assert.equal(await Secret.destroy(name), true)
  assert.equal(await Secret.destroy(name), false)
  await assert.rejects(Secret.getInfo(name), SecretNotFoundError)
})

test('pages_of_secrets', async () => {
  const made = []
  for (let number = 0; number < 3; number += 1) made.push(await Secret.create(newName(), VALUE))
  const pages = Secret.list({ limit: 2 })
  const names = []
  while (pages.hasNext) names.push(...(await pages.nextItems()).map((one) => one.name))
  for (const one of made) {
    assert.ok(names.includes(one.name))
    await Secret.destroy(one.secretId)
  }
})

test('bad_secrets_and_other_tenants', async () => {
  await assert.rejects(Secret.create(newName(), 'short'))
  await assert.rejects(Secret.create('a{b}', VALUE))
  const made = await Secret.create(newName(), VALUE)
  await assert.rejects(Secret.create(made.name, VALUE), /already/)
  await assert.rejects(Secret.getInfo(made.name, other), SecretNotFoundError)
  assert.equal(await Secret.destroy(made.secretId, other), false)
  assert.equal(await Secret.destroy(made.secretId), true)
})

test('mcp_and_rules_of_secrets_that_are_none_are_refused_with_the_way_to_go', async () => {
  await assert.rejects(Sandbox.create({ mcp: { duckduckgo: {} } }), /docs\/guides\/mcp.md/)
  const rules = { 'api.example.com': [{ transform: { headers: { Authorization: Secret.fill('key') } } }] }
  await assert.rejects(Sandbox.create({ network: { rules } }), /there is no secret `key`/)
})
