// Templates with the SDK for Node.
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { randomUUID } from 'node:crypto'
import { assert, e2b, keys, Sandbox, subject, wait } from './world.mjs'

const { Template, BuildError, waitForFile } = e2b
const image = process.env.IMAGE
const name = (word) => `${word}-${randomUUID().slice(0, 8)}`
const subjectTest = subject('templates')
if (!image) console.log('SKIP e2b-node-templates: the host has no static busybox for an image')
const test = (title, run) => { if (image) subjectTest(title, run) }

async function inside(template, command) {
  const sandbox = await Sandbox.create(template, { timeoutMs: 120_000 })
  try {
    return (await sandbox.commands.run(command)).stdout
  } finally {
    await sandbox.kill()
  }
}

async function withContext(files, use) {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'paddock-e2b-context-'))
  try {
    for (const [file, content] of Object.entries(files)) {
      fs.mkdirSync(path.dirname(path.join(directory, file)), { recursive: true })
      fs.writeFileSync(path.join(directory, file), content)
    }
    return await use(directory)
  } finally {
    fs.rmSync(directory, { recursive: true })
  }
}

async function ended(info) {
  for (let tries = 0; tries < 600; tries += 1) {
    const status = await Template.getBuildStatus(info)
    if (!['building', 'waiting'].includes(status.status)) return status
    await wait(100)
  }
  throw new Error('the build does not end')
}

test('an_image_and_commands_become_a_template', async () => {
  const lines = []
  const template = Template().fromImage(image).runCmd('echo made > made; id -un').runCmd('id -u > /srv/who', { user: 'root' })
  const info = await Template.build(template, name('js'), { onBuildLogs: (entry) => lines.push(entry.message) })
  assert.ok(lines.includes('user'), lines.join('\n'))
  assert.match(info.buildId, /^[0-9a-f-]{36}$/)
  assert.equal(await inside(info.templateId, 'cat made /srv/who; pwd'), 'made\n0\n/home/user\n')
  assert.equal(await inside(info.name, 'cat /etc/greeting'), 'from the image\n')
})

test('variables_directory_and_user', async () => {
  const template = Template().fromImage(image).setEnvs({ ONE: '1' }).setWorkdir('/app').runCmd('echo $ONE > here').setUser('root')
  const info = await Template.build(template, name('js'))
  assert.equal(await inside(info.name, 'cat here; pwd; id -un'), '1\n/app\nroot\n')
})

test('files_are_copied', () => withContext({ one: '1', 'dir/a': 'a', 'dir/deep/b': 'b' }, async (directory) => {
  const template = Template({ fileContextPath: directory }).fromImage(image)
    .copy('one', '/srv/').copy('dir', '/srv/dir').copy('one', '/bin/tool', { user: 'root', mode: 0o755 })
  const info = await Template.build(template, name('js'))
  const seen = await inside(info.name, 'cat /srv/one /srv/dir/a /srv/dir/deep/b; echo; ls -l /bin/tool /srv/one')
  assert.match(seen, /^1ab\n-rwxr-xr-x .* root .*\/bin\/tool\n.* user .*\/srv\/one\n$/)
}))

test('the_cache_is_used_and_skipped', () => withContext({ data: 'x' }, async (directory) => {
  const make = () => Template({ fileContextPath: directory }).fromImage(image).copy('data', '/srv/')
    .runCmd('cat /proc/sys/kernel/random/uuid > id')
  const lines = []
  const first = await Template.build(make(), name('js'))
  const second = await Template.build(make(), name('js'), { onBuildLogs: (entry) => lines.push(entry.message) })
  assert.ok(lines.some((line) => line.includes('already cached')), lines.join('\n'))
  const third = await Template.build(make(), name('js'), { skipCache: true })
  const [one, two, three] = await Promise.all([first, second, third].map((info) => inside(info.name, 'cat id')))
  assert.equal(one, two)
  assert.notEqual(one, three)
}))

test('a_template_begins_with_another', async () => {
  const below = await Template.build(Template().fromImage(image).runCmd('echo 1 > one'), name('js'))
  const info = await Template.build(Template().fromTemplate(below.name).runCmd('cat one > two'), name('js'))
  assert.equal(await inside(info.name, 'cat two'), '1\n')
})

test('a_dockerfile_is_built', () => withContext({ data: 'docker' }, async (directory) => {
  const text = `FROM ${image}\nWORKDIR /app\nCOPY data .\nRUN cat data > copied\n`
  const info = await Template.build(Template({ fileContextPath: directory }).fromDockerfile(text), name('js'))
  assert.equal(await inside(info.name, 'cat /app/copied'), 'docker')
}))

test('start_and_ready_command', async () => {
  const template = Template().fromImage(image).setStartCmd('sleep 1; echo up > /tmp/up; exec sleep 600', waitForFile('/tmp/up'))
  const info = await Template.build(template, name('js'))
  assert.equal(await inside(info.name, 'cat /tmp/up'), 'up\n')
})

test('a_failing_step_has_reason_and_step', async () => {
  const template = Template().fromImage(image).runCmd('true').runCmd('echo why; exit 3')
  const levels = []
  await assert.rejects(
    Template.build(template, name('js'), { onBuildLogs: (entry) => levels.push([entry.level, entry.message]) }),
    (error) => error instanceof BuildError && /exit code 3/.test(error.message),
  )
  assert.ok(levels.some(([, message]) => message === 'why'))
  assert.ok(levels.some(([level]) => level === 'error'))
  const status = await ended(await Template.buildInBackground(template, name('js')))
  assert.deepEqual([status.status, status.reason.step], ['error', '2'])
})

test('a_build_in_the_background', async () => {
  const info = await Template.buildInBackground(Template().fromImage(image).runCmd('seq 1 150'), name('js'))
  assert.equal((await ended(info)).status, 'ready')
  const later = await Template.getBuildStatus(info, { logsOffset: 100 })
  assert.ok(later.logEntries.some((entry) => entry.message === '150'))
})

test('tags', async () => {
  const wanted = name('js')
  const info = await Template.build(Template().fromImage(image), `${wanted}:v1`)
  const assigned = await Template.assignTags(`${wanted}:v1`, ['stable', 'next'])
  assert.equal(assigned.buildId, info.buildId)
  const tags = async () => (await Template.getTags(wanted)).map((tag) => tag.tag).sort()
  assert.deepEqual(await tags(), ['next', 'stable', 'v1'])
  await Template.removeTags(wanted, ['next'])
  assert.deepEqual(await tags(), ['stable', 'v1'])
  assert.equal(await inside(`${wanted}:stable`, 'pwd'), '/home/user\n')
  await assert.rejects(Sandbox.create(`${wanted}:next`))
})

test('existence_and_deletion', async () => {
  const wanted = name('js')
  assert.equal(await Template.exists(wanted), false)
  await Template.build(Template().fromImage(image), wanted)
  assert.equal(await Template.exists(wanted), true)
  assert.equal(await Sandbox.deleteSnapshot(wanted), true)
  assert.equal(await Template.exists(wanted), false)
  await assert.rejects(Sandbox.create(wanted), /was not found/)
})

test('another_tenants_template_is_not_there', async () => {
  const info = await Template.build(Template().fromImage(image), name('js'))
  const apiKey = process.env.OTHER_KEY
  await assert.rejects(Sandbox.create(info.templateId, { apiKey }), /was not found/)
  assert.equal(await Template.exists(info.name, { apiKey }), false)
  await assert.rejects(Template.getTags(info.templateId, { apiKey }))
  await assert.rejects(Template.getBuildStatus(info, { apiKey }))
  await assert.rejects(Template.build(Template().fromTemplate(info.name), name('js'), { apiKey }), BuildError)
})

test('unknown_beginnings_are_refused', async () => {
  await assert.rejects(Template.build(Template().fromTemplate(name('none')), name('js')), /was not found/)
  await assert.rejects(Template.build(Template().fromImage('/etc'), name('js')), BuildError)
  await assert.rejects(Template.build(Template().fromBaseImage(), name('js')), /paddock template build base/)
})

test('processors_and_memory', async () => {
  const info = await Template.build(Template().fromImage(image), name('js'), { cpuCount: 1, memoryMB: 512 })
  const sandbox = await Sandbox.create(info.name, { timeoutMs: 60_000 })
  const found = await sandbox.getInfo()
  assert.deepEqual([found.cpuCount, found.memoryMB], [1, 512])
  await sandbox.kill()
})

test('helpers_become_commands_of_root_and_of_the_user', async () => {
  // The small image has none of these programs, so that each writes down how it was called.
  const write = (program) => `printf '#!/bin/sh\\necho "\${0##*/} $* as $(id -un)" >> /srv/calls\\n' > /bin/${program} && chmod 755 /bin/${program}`
  const programs = ['pip', 'npm', 'bun', 'apt-get', 'git'].map(write)
  const template = Template().fromImage(image).runCmd([...programs, 'touch /srv/calls', 'chmod 666 /srv/calls'], { user: 'root' })
    .pipInstall(['flask', 'six']).pipInstall('rich', { g: false }).npmInstall('left-pad').npmInstall('tsx', { g: true }).npmInstall('a', { dev: true })
    .bunInstall().aptInstall('vim', { noInstallRecommends: true }).gitClone('https://git.example/a.git', '/srv/a', { branch: 'main', depth: 1 })
  const info = await Template.build(template, name('js'))
  assert.deepEqual((await inside(info.name, 'cat /srv/calls')).trim().split('\n'), [
    'pip install flask six as root', 'pip install --user rich as user', 'npm install left-pad as user', 'npm install -g tsx as root',
    'npm install --save-dev a as user', 'bun install as user', 'apt-get update as root',
    'apt-get install -y --no-install-recommends vim as root',
    'git clone https://git.example/a.git --branch main --single-branch --depth 1 /srv/a as user',
  ])
})

test('a_helper_whose_program_is_missing_says_so', async () => {
  const lines = []
  const build = Template.build(Template().fromImage(image).pipInstall('six'), name('js'), { onBuildLogs: (entry) => lines.push(entry.message) })
  await assert.rejects(build, (error) => error instanceof BuildError && error.message.includes('exit code 127'))
  assert.ok(lines.some((line) => line.includes('pip') && line.includes('not found')), lines.join('\n'))
})

test('images_of_registries_that_are_not_open_are_refused', async () => {
  const images = [
    Template().fromDebianImage('bookworm'), Template().fromUbuntuImage(), Template().fromFedoraImage(), Template().fromAlpineImage(),
    Template().fromArchImage(), Template().fromPythonImage('3.12'), Template().fromNodeImage(), Template().fromBunImage(),
  ]
  for (const template of images) {
    await assert.rejects(Template.build(template, name('js')), (error) => error instanceof BuildError && error.message.includes('docker.io'))
  }
})

test('an_alias_exists_as_its_template_does', async () => {
  const wanted = name('js')
  assert.equal(await Template.aliasExists(wanted), false)
  await Template.build(Template().fromImage(image), wanted)
  assert.deepEqual([await Template.aliasExists(wanted), await Template.aliasExists(wanted, { apiKey: keys.other })], [true, false])
})
