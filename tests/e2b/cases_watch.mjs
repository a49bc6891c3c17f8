// Directories that are watched, with the SDK for Node.
import { assert, e2b, Sandbox, sharedSandbox, subject, until } from './world.mjs'

const { FilesystemEventType: Kind, InvalidArgumentError, NotFoundError } = e2b
const test = subject('watch')

// A directory of its own, and what is told of it.
async function watched(name, options = {}) {
  const { files, commands } = await sharedSandbox()
  const place = `/tmp/js-${name}`
  await files.makeDir(place)
  const seen = []
  const handle = await files.watchDir(place, (event) => { seen.push(event) }, options)
  const told = async (count) => {
    await until(async () => seen.length, (length) => length >= count)
    return seen.map((event) => [event.type, event.name])
  }
  return { files, commands, place, handle, seen, told }
}

test('an_upload_is_three_events', async () => {
  const { files, place, handle, told } = await watched('upload')
  await files.write(`${place}/new.txt`, 'x')
  assert.deepEqual(await told(3), [[Kind.CREATE, 'new.txt'], [Kind.CHMOD, 'new.txt'], [Kind.WRITE, 'new.txt']])
  await handle.stop()
})

test('moves_and_removals_are_exact', async () => {
  const { files, place, handle, told } = await watched('moves')
  await files.write(`${place}/a`, 'a')
  await files.rename(`${place}/a`, `${place}/b`)
  await files.remove(`${place}/b`)
  assert.deepEqual((await told(6)).slice(3), [[Kind.RENAME, 'a'], [Kind.CREATE, 'b'], [Kind.REMOVE, 'b']])
  await handle.stop()
})

test('what_commands_do_is_told_too', async () => {
  const { commands, place, handle, told } = await watched('commands')
  await commands.run(`cd ${place}; echo 1 > a; chmod 600 a; rm a`)
  assert.deepEqual(await told(4), [[Kind.CREATE, 'a'], [Kind.WRITE, 'a'], [Kind.CHMOD, 'a'], [Kind.REMOVE, 'a']])
  await handle.stop()
})

test('a_tree_where_it_is_asked_for', async () => {
  const { files, place, handle, told } = await watched('tree', { recursive: true })
  await files.makeDir(`${place}/new`)
  await told(1)
  await files.write(`${place}/new/deep.txt`, 'x')
  const events = await told(4)
  assert.ok(events.some(([type, name]) => type === Kind.WRITE && name === 'new/deep.txt'), JSON.stringify(events))
  await handle.stop()
})

test('only_the_directory_itself_otherwise', async () => {
  const { files, place, handle, told } = await watched('flat')
  await files.makeDir(`${place}/sub`)
  await told(1)
  await files.write(`${place}/sub/hidden`, 'x')
  await files.write(`${place}/shown`, 'x')
  await told(4)
  assert.ok((await told(4)).every(([, name]) => !name.includes('hidden')))
  await handle.stop()
})

test('entries_come_along', async () => {
  const { files, place, handle, seen, told } = await watched('entries', { includeEntry: true })
  await files.write(`${place}/five`, '12345')
  await told(3)
  assert.deepEqual([seen[2].entry.name, seen[2].entry.path, seen[2].entry.size], ['five', `${place}/five`, 5])
  await handle.stop()
})

test('a_watch_that_stopped_says_nothing_more', async () => {
  const first = await watched('halt')
  const second = await watched('halt')
  await first.handle.stop()
  await second.files.write(`${second.place}/a`, 'a')
  assert.equal((await second.told(3)).length, 3)
  assert.equal(first.seen.length, 0)
  await second.handle.stop()
})

test('what_cannot_be_watched', async () => {
  const { files } = await sharedSandbox()
  await assert.rejects(files.watchDir('/tmp/js-none', () => {}), NotFoundError)
  await assert.rejects(files.watchDir('/etc/hostname', () => {}), InvalidArgumentError)
})

test('its_time_ends_it', async () => {
  let done
  const ended = new Promise((resolve) => { done = resolve })
  await watched('timed', { timeoutMs: 1000, onExit: done })
  await ended
})

test('the_end_of_a_sandbox_ends_it', async () => {
  const sandbox = await Sandbox.create()
  let done
  const ended = new Promise((resolve) => { done = resolve })
  await sandbox.files.watchDir('/tmp', () => {}, { timeoutMs: 0, onExit: done })
  await sandbox.kill()
  assert.ok(await ended instanceof Error)
})
