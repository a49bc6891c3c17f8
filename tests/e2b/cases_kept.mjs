// What a fork, and a sandbox from a snapshot, has of its source, with the SDK for Node.
import { randomUUID } from 'node:crypto'
import { assert, e2b, Sandbox, Skip, subject, withSandbox } from './world.mjs'

const { Template } = e2b
const image = process.env.IMAGE
const test = subject('kept')

// What commands and files see, and the limits.
async function look(sandbox) {
  const { stdout } = await sandbox.commands.run('id -un; pwd; uname -n; echo $HOME $USER $LOGNAME $FLAVOUR $PATH')
  const { cpuCount, memoryMB } = await sandbox.getInfo()
  return [stdout, await sandbox.files.read('~/note'), await sandbox.files.read('note'), cpuCount, memoryMB]
}

async function copiesAreAsTheirSource(source, template) {
  await source.files.write('~/note', 'kept')
  const before = await look(source)
  const made = await source.fork({ count: 2, timeoutMs: 300_000 })
  const { snapshotId } = await source.createSnapshot()
  try {
    for (const child of made) assert.equal((await child.getInfo()).templateId, template)
    made.push(await Sandbox.create(snapshotId, { timeoutMs: 300_000 }))
    for (const one of made) assert.deepEqual(await look(one), before)
    return before
  } finally {
    for (const one of made) await one.kill()
    assert.equal(await Sandbox.deleteSnapshot(snapshotId), true)
  }
}

test('copies_of_the_default', () => withSandbox({ timeoutMs: 300_000 }, (source) => copiesAreAsTheirSource(source, 'base')))

test('copies_of_a_template_with_an_image', async () => {
  if (!image) throw new Skip('e2b-node-templates: the host has no static busybox for an image')
  const template = Template().fromImage(image).setEnvs({ FLAVOUR: 'sour' }).setWorkdir('/app')
  const info = await Template.build(template, `kept-${randomUUID().slice(0, 8)}`, { cpuCount: 1, memoryMB: 384 })
  const source = await Sandbox.create(info.name, { timeoutMs: 300_000 })
  try {
    const [seen, , , cpus, memory] = await copiesAreAsTheirSource(source, info.name)
    assert.match(seen, /^user\n\/app\npaddock\n\/home\/user user user sour /)
    assert.deepEqual([cpus, memory], [1, 384])
  } finally {
    await source.kill()
  }
})

test('a_fork_resumes_by_itself_as_its_source_does', () =>
  withSandbox({ timeoutMs: 300_000, lifecycle: { onTimeout: 'pause', autoResume: true } }, async (source) => {
    const [child] = await source.fork({ timeoutMs: 300_000 })
    try {
      assert.equal((await child.getInfo()).lifecycle.autoResume, true)
      await child.pause()
      assert.equal((await child.commands.run('echo back')).stdout, 'back\n')
    } finally {
      await child.kill()
    }
  }))
