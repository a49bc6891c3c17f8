// The way out of a sandbox, and the git helpers against a real git server, with the SDK for Node.
import { assert, e2b, Sandbox, sharedSandbox, subject, withSandbox } from '../world.mjs'

const { GitAuthError, GitUpstreamError, SandboxError, Secret } = e2b
const ALL = '0.0.0.0/0'
const PRIVATE = 'http://git.example/git/private-js.git'
const ANN = { username: 'ann', password: 'pass-word' }
const test = subject('network')

const reaches = (sandbox, host) =>
  sandbox.commands.run(`curl -sSf -m 10 http://${host}/`).then((said) => said.stdout === `${host}\n`, () => false)

test('open_and_closed', async () => {
  assert.equal(await reaches(await sharedSandbox(), 'web.example'), true)
  await withSandbox({ allowInternetAccess: false }, async (sandbox) => assert.equal(await reaches(sandbox, 'web.example'), false))
})

test('one_name_is_allowed', () => withSandbox({ network: { allowOut: ['web.example'], denyOut: [ALL] } }, async (sandbox) => {
  assert.deepEqual([await reaches(sandbox, 'web.example'), await reaches(sandbox, 'other.example')], [true, false])
}))

test('rules_change_while_it_runs', () => withSandbox({}, async (sandbox) => {
  await sandbox.updateNetwork({ denyOut: [ALL] })
  assert.equal(await reaches(sandbox, 'web.example'), false)
  await Sandbox.updateNetwork(sandbox.sandboxId, { allowOut: ['other.example'], denyOut: [ALL] })
  assert.deepEqual([await reaches(sandbox, 'web.example'), await reaches(sandbox, 'other.example')], [false, true])
  await sandbox.updateNetwork({})
  assert.equal(await reaches(sandbox, 'web.example'), true)
}))

test('a_header_with_a_secret_is_set_at_the_gate', async () => {
  await Secret.create('rule-of-node', 'sk-of-the-tenant-0002', { metadata: { hosts: 'web.example' } })
  const rules = { 'web.example': [{ transform: { headers: { Authorization: `Bearer ${Secret.fill('rule-of-node')}` } } }] }
  await withSandbox({ network: { rules } }, async (sandbox) => {
    const said = await sandbox.commands.run("curl -sS -m 20 -H 'Authorization: Bearer own' https://web.example/")
    const sent = JSON.parse(said.stdout).filter(([name]) => name === 'authorization')
    // The value that the host repeats is masked.
    assert.deepEqual(sent, [['authorization', `Bearer ${'*'.repeat(21)}`]])
    await sandbox.updateNetwork({ rules: { 'web.example': [{ transform: { headers: { Authorization: 'Bearer of-the-day' } } }] } })
    const again = await sandbox.commands.run('curl -sS -m 20 https://web.example/')
    assert.deepEqual(JSON.parse(again.stdout).filter(([name]) => name === 'authorization'), [['authorization', '*'.repeat(17)]])
    await sandbox.updateNetwork({})
    const cleared = await sandbox.commands.run('curl -sSk -m 20 https://web.example/')
    assert.deepEqual(JSON.parse(cleared.stdout).filter(([name]) => name === 'authorization'), [])
  })
})

test('rules_that_are_none_are_refused', async () => {
  const sandbox = await sharedSandbox()
  await assert.rejects(sandbox.updateNetwork({ denyOut: ['not an address!'] }), SandboxError)
  await assert.rejects(Sandbox.create({ network: { denyOut: ['1.2.3.4/99'] } }), SandboxError)
  assert.equal(await reaches(sandbox, 'web.example'), true)
})

test('git_pushes_clones_and_pulls_with_a_password', async () => {
  const { git, files } = await sharedSandbox()
  await git.init('/tmp/js-source', { initialBranch: 'main' })
  await files.write('/tmp/js-source/a.txt', 'one')
  await git.add('/tmp/js-source')
  await git.commit('/tmp/js-source', 'first', { authorName: 'Ann', authorEmail: 'ann@example.com' })
  await git.remoteAdd('/tmp/js-source', 'origin', PRIVATE)
  await assert.rejects(git.push('/tmp/js-source', { remote: 'origin', branch: 'main' }), GitAuthError)
  await git.push('/tmp/js-source', { remote: 'origin', branch: 'main', ...ANN })
  await assert.rejects(git.clone(PRIVATE, { path: '/tmp/js-copy' }), GitAuthError)
  await git.clone(PRIVATE, { path: '/tmp/js-copy', ...ANN })
  assert.equal(await files.read('/tmp/js-copy/a.txt'), 'one')
  assert.equal(await git.remoteGet('/tmp/js-copy', 'origin'), PRIVATE)
  await git.pull('/tmp/js-copy', ANN)
})

test('git_keeps_a_login_where_that_is_asked_for', () => withSandbox({}, async ({ git, files }) => {
  await assert.rejects(git.clone(PRIVATE, { path: '/tmp/js-kept' }), GitAuthError)
  await git.dangerouslyAuthenticate({ ...ANN, host: 'git.example', protocol: 'http' })
  await git.init('/tmp/js-new', { initialBranch: 'kept' })
  await files.write('/tmp/js-new/a.txt', 'kept')
  await git.add('/tmp/js-new')
  await git.commit('/tmp/js-new', 'first', { authorName: 'Ann', authorEmail: 'ann@example.com' })
  await git.remoteAdd('/tmp/js-new', 'origin', PRIVATE)
  await git.push('/tmp/js-new', { remote: 'origin', branch: 'kept' })
  await git.clone(PRIVATE, { path: '/tmp/js-kept', branch: 'kept' })
  assert.equal(await files.read('/tmp/js-kept/a.txt'), 'kept')
}))

test('git_says_that_there_is_no_upstream', async () => {
  const { git } = await sharedSandbox()
  await git.init('/tmp/js-alone', { initialBranch: 'main' })
  await assert.rejects(git.pull('/tmp/js-alone'), GitUpstreamError)
})
