// Metadata of files: extended attributes that the sandbox's own programs see too.
import { assert, e2b, sharedSandbox, subject } from './world.mjs'

const { SandboxError } = e2b
const KEPT = { owner: 'me', purpose: 'a b' }
const test = subject('metadata')

test('kept_with_the_file', async () => {
  const { files, commands } = await sharedSandbox()
  for (const useOctetStream of [false, true]) {
    const written = await files.write('js-meta.txt', 'x', { metadata: KEPT, useOctetStream })
    assert.deepEqual(written.metadata, KEPT)
  }
  assert.deepEqual((await files.getInfo('js-meta.txt')).metadata, KEPT)
  const listed = (await files.list('/home/user')).find((entry) => entry.name === 'js-meta.txt')
  assert.deepEqual(listed.metadata, KEPT)
  const seen = await commands.run(`python3 -c "import os; print(os.getxattr('/home/user/js-meta.txt', 'user.e2b.owner').decode())"`)
  assert.equal(seen.stdout, 'me\n')
})

test('of_all_files_of_one_request_and_after_a_move', async () => {
  const { files } = await sharedSandbox()
  const entries = ['a', 'b'].map((name) => ({ path: `/home/user/js-many/${name}`, data: name }))
  const written = await files.write(entries, { metadata: KEPT })
  assert.deepEqual(written.map((one) => one.metadata), [KEPT, KEPT])
  assert.deepEqual((await files.rename('/home/user/js-many/a', '/home/user/js-many/c')).metadata, KEPT)
  assert.equal((await files.write('/home/user/js-many/c', 'anew')).metadata, undefined)
})

test('more_than_a_file_takes_is_refused', async () => {
  const { files } = await sharedSandbox()
  const metadata = Object.fromEntries([...Array(5).keys()].map((number) => [`key${number}`, 'x'.repeat(1000)]))
  await assert.rejects(files.write('/home/user/js-large', 'x', { metadata }), (error) => error instanceof SandboxError && error.message.includes('3072'))
  assert.equal(await files.exists('/home/user/js-large'), false)
})
