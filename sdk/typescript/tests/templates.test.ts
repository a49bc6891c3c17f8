/** Templates are built on a real server, from steps and files of this host. */

import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Sandbox, TemplateBuildFailedError, Templates, TemplateNotFoundError, WaitTimeoutError, type BuildLogEntry } from 'paddock'
import { baseTemplate, OwnServer } from './setup.js'

const busybox = existsSync('/bin/busybox') ? false : 'busybox: there is none for the base of a template'

test('templates are built from steps and files, listed and deleted', { skip: busybox }, async () => {
  // A server of its own, because a base without a registry is built in the server's own state directory.
  const own = new OwnServer()
  await own.start()
  const local = mkdtempSync(join(tmpdir(), 'paddock-templates-'))
  try {
    baseTemplate(own)
    const templates = new Templates(own.client)
    mkdirSync(join(local, 'app', 'data'), { recursive: true })
    writeFileSync(join(local, 'app', 'data', 'list.txt'), 'one\n')
    writeFileSync(join(local, 'single'), 'alone\n')
    const steps = [
      await templates.copy(join(local, 'app'), '/opt/app/'),
      await templates.copy(join(local, 'single'), '/opt/other', { mode: 0o640 }),
      { kind: 'run' as const, command: 'echo said; cp /opt/app/data/list.txt /opt/copied', user: 'root' },
    ]
    const again = await templates.copy(join(local, 'app'), '/opt/app/')
    assert.deepEqual(again, steps[0], 'the same files have the same hash')
    const heard: BuildLogEntry[] = []
    const built = await templates.build('typescript-built', { template: 'smallbase', steps, onLog: (entry) => heard.push(entry) })
    assert.deepEqual([built.state, built.finished, built.reason], ['ready', true, undefined])
    assert.ok(heard.some((entry) => entry.message.includes('said') && entry.at instanceof Date))
    assert.ok((await templates.list()).some((one) => one.name === 'typescript-built'))
    assert.equal((await templates.get('typescript-built')).id, built.template)
    assert.ok((await templates.builds()).some((one) => one.id === built.id))
    await using sandbox = await Sandbox.create({ template: 'typescript-built', client: own.client })
    const shown = await sandbox.commands.run(['cat', '/opt/copied', '/opt/app/data/list.txt', '/opt/other'])
    assert.equal(shown.stdout, 'one\none\nalone\n')
    assert.equal((await sandbox.files.stat('/opt/other')).mode & 0o777, 0o640)

    const login = { username: 'ann', password: 'hush' }
    await assert.rejects(templates.startBuild('typescript-login', { template: 'smallbase', registry: login }), /goes with `image`/)
    const failing = templates.build('typescript-failed', { template: 'smallbase', steps: [{ kind: 'run', command: 'echo before the end; false' }] })
    await assert.rejects(failing, (error: Error) => error instanceof TemplateBuildFailedError && /at step 1: .*before the end/s.test(error.message))
    const slow = await templates.startBuild('typescript-slow', { template: 'smallbase', steps: [{ kind: 'run', command: 'sleep 2' }] })
    await assert.rejects(templates.wait(slow.id, { timeoutMs: 0 }), WaitTimeoutError)
    assert.equal((await templates.wait(slow.id)).state, 'ready')
    await templates.delete('typescript-built')
    await assert.rejects(templates.get('typescript-built'), TemplateNotFoundError)
    await assert.rejects(templates.copy(join(local, 'missing'), '/opt/x'), { code: 'local_file_error' })
  } finally {
    rmSync(local, { recursive: true, force: true })
    await own.remove()
  }
})
