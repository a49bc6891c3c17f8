/** Claude Code by the Claude Agent SDK of npm, in a sandbox, with a model of the tests' own behind TLS. */

import assert from 'node:assert/strict'
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, describe, test } from 'node:test'
import { Client, ConnectionFailedError, Sandbox, SandboxEndedError, TemplateNotFoundError, type CreateOptions } from 'paddock'
import { inSandbox, type ClaudeCodeOptions, type ClaudeCodeProcess, type SpawnRequest } from 'paddock/claude-agent-sdk'
import { OwnServer, temporaryDirectory } from './setup.js'

const PACKAGES = process.env['PADDOCK_TEST_AGENTS'] ?? '/nonexistent'
const SDK = join(PACKAGES, '@anthropic-ai/claude-agent-sdk/sdk.mjs')
const PROGRAM = join(PACKAGES, `@anthropic-ai/claude-agent-sdk-linux-${process.arch}`)
const skip = existsSync(SDK) && existsSync(PROGRAM) ? false : 'claude: PADDOCK_TEST_AGENTS names no directory with the Claude Agent SDK and its Claude Code'
const NAME = 'api.vendor.test'
const KEY = 'sk-the-real-key-of-the-tests-0123456789'
const QUIET = { CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', DISABLE_AUTOUPDATER: '1' }

type Message = Record<string, any>
const own = new OwnServer()
const directory = temporaryDirectory()
const models: ChildProcess[] = []
let query: (asked: { prompt: string; options: object }) => AsyncIterable<Message>

/** A name that only the gate knows, and an authority that only the gate believes. */
function certificates(): void {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  const openssl = (...words: string[]) => assert.equal(spawnSync('openssl', words, { cwd: directory }).status, 0)
  openssl('req', '-x509', ...key, '-days', '2', '-subj', '/CN=tests', '-keyout', 'authority.key', '-out', 'authority.pem')
  openssl('req', ...key, '-subj', `/CN=${NAME}`, '-keyout', 'server.key', '-out', 'request.pem')
  writeFileSync(join(directory, 'names'), `subjectAltName=DNS:${NAME}`)
  const signing = ['-CA', 'authority.pem', '-CAkey', 'authority.key', '-CAcreateserial', '-days', '2', '-extfile', 'names']
  openssl('x509', '-req', '-in', 'request.pem', ...signing, '-out', 'server.pem')
  mkdirSync(join(own.directory, 'state', 'net'), { recursive: true, mode: 0o700 })
  writeFileSync(join(own.directory, 'state', 'net', 'hosts'), `127.0.0.1 ${NAME}\n`)
  writeFileSync(join(own.directory, 'state', 'net', 'roots.pem'), readFileSync(join(directory, 'authority.pem')))
}

/** Its port, and what it was asked. One entry for each request, the last one for all that follow. */
async function model(...script: object[]): Promise<{ create: CreateOptions; asked: () => Message[] }> {
  const [file, log] = [join(directory, `script-${models.length}.json`), join(directory, `log-${models.length}`)]
  writeFileSync(file, JSON.stringify(script))
  const program = resolve('../../tests/e2e/models/server.py')
  const words = [program, file, log, join(directory, 'server.pem'), join(directory, 'server.key')]
  const process_ = spawn('python3', words, { stdio: ['ignore', 'pipe', 'inherit'] })
  models.push(process_)
  const { value } = await createInterface(process_.stdout)[Symbol.asyncIterator]().next()
  const host = `${NAME}:${String(value)}`
  process.env['ANTHROPIC_BASE_URL'] = `https://${host}`
  process.env['ANTHROPIC_API_KEY'] = KEY
  const network = { allow: [host, `127.0.0.1:${String(value)}`] }
  const create = { read: [`${PROGRAM}:/opt/claude`], network, limits: { memory: '3GiB' }, ttlMs: 300_000 }
  return { create, asked: () => readFileSync(log, 'utf8').trim().split('\n').map((line) => JSON.parse(line)) }
}

const shell = (command: string) => ({ calls: [{ name: 'Bash', arguments: { command, description: 'as asked' } }] })

async function converse(options: ClaudeCodeOptions, more: object = {}): Promise<Message[]> {
  const spawnClaudeCodeProcess = inSandbox({ command: '/opt/claude/claude', client: own.client, env: QUIET, ...options })
  const messages: Message[] = []
  const asked = { permissionMode: 'bypassPermissions', allowDangerouslySkipPermissions: true, spawnClaudeCodeProcess, ...more }
  for await (const message of query({ prompt: 'What is 6 * 7?', options: asked })) messages.push(message)
  return messages
}

/** What tools gave back. */
const results = (messages: Message[]): string[] =>
  messages.filter((one) => one['type'] === 'user').flatMap((one) => one['message'].content.map((block: Message) => String(block['content'])))
const answer = (messages: Message[]): unknown => messages.find((one) => one['type'] === 'result')?.['result']

async function living(): Promise<string[]> {
  const ids: string[] = []
  for await (const one of Sandbox.list({ client: own.client, state: 'running' })) ids.push(one.id)
  return ids
}

/** A program in the place of Claude Code, as the SDK would start it. */
function started(options: ClaudeCodeOptions, more: Partial<SpawnRequest> = {}): ClaudeCodeProcess {
  const asked = { command: 'claude', args: [], env: {}, signal: new AbortController().signal, ...more }
  return inSandbox({ client: own.client, ...options })(asked)
}

const ended = (one: ClaudeCodeProcess): Promise<unknown> =>
  new Promise((done) => {
    one.on('exit', done)
    one.on('error', done)
  })

async function printed(one: ClaudeCodeProcess): Promise<string> {
  let text = ''
  for await (const piece of one.stdout) text += String(piece)
  return text
}

describe('Claude Agent SDK', { skip }, () => {
  before(async () => {
    certificates()
    await own.start()
    query = (await import(SDK)).query
  })
  after(async () => {
    for (const one of models) one.kill('SIGKILL')
    if (!skip) await own.remove()
  })

  test('Claude Code works in a sandbox that ends with it', async () => {
    const { create } = await model(shell('echo $((6 * 7)); id -un; pwd'), { text: 'It is 42.' })
    const messages = await converse({ create })
    assert.deepEqual(results(messages), ['42\nagent\n/workspace'])
    assert.equal(answer(messages), 'It is 42.')
    assert.deepEqual(await living(), [])
  })
  test('the key stays at the gate', async () => {
    const { create, asked } = await model(shell('env; cat /proc/self/environ'), { text: 'done' })
    const messages = await converse({ create })
    assert.match(results(messages)[0]!, /ANTHROPIC_API_KEY=paddock-secret-/)
    assert.ok(!JSON.stringify(messages).includes(KEY))
    assert.deepEqual([...new Set(asked().map((one) => one['headers']['x-api-key']))], [KEY])
  })
  test('variables of the host stay there, those of the options go in', async () => {
    process.env['OF_THE_HOST'] = 'private'
    const { create } = await model(shell('echo ${OF_THE_HOST:-none} $COLOUR'), { text: 'done' })
    const messages = await converse({ create }, { env: { ...process.env, COLOUR: 'blue' } })
    assert.deepEqual(results(messages), ['none blue'])
  })
  test('permissions are asked for on the host', async () => {
    const { create } = await model(shell('touch forbidden'), { text: 'done' })
    const asked: unknown[] = []
    const canUseTool = (name: string, input: Message) => {
      asked.push([name, input['command']])
      return Promise.resolve({ behavior: 'deny', message: 'not today' })
    }
    const messages = await converse({ create }, { permissionMode: 'default', canUseTool })
    assert.deepEqual(asked, [['Bash', 'touch forbidden']])
    assert.match(results(messages)[0]!, /not today/)
  })
  test('a sandbox of the caller stays', async () => {
    const { create } = await model(shell('echo kept > file'), { text: 'done' })
    const hosts = [new URL(process.env['ANTHROPIC_BASE_URL']!).host]
    const sandbox = await Sandbox.create({ ...create, secrets: { ANTHROPIC_API_KEY: { value: KEY, hosts } }, client: own.client })
    await converse({ sandbox })
    assert.equal(await sandbox.files.read('/workspace/file'), 'kept\n')
    await sandbox.kill()
  })
  test('a full disk is told to the model', async () => {
    const { create } = await model(shell('head -c 100000000 /dev/zero > /workspace/fill'), { text: 'It is full.' })
    const messages = await converse({ create: { ...create, limits: { memory: '3GiB', disk: '64MiB' } } })
    assert.match(results(messages)[0]!, /^Exit code 1/)
    assert.equal(answer(messages), 'It is full.')
  })
  test('input and output pass, and the exit code', async () => {
    const sandbox = await Sandbox.create({ ttlMs: 60_000, client: own.client })
    const one = started({ sandbox, command: '/bin/sh' }, { args: ['-c', 'read line; echo "said $line"; exit 3'] })
    const end = ended(one)
    one.stdin.end('hello\n')
    assert.deepEqual([await printed(one), await end], ['said hello\n', 3])
    await sandbox.kill()
  })
  test('a time limit ends it after what was said', async () => {
    let told = ''
    const onStderr = (text: string) => void (told += text)
    const one = started({ command: '/bin/sh', timeoutMs: 1_000, create: { ttlMs: 60_000 }, onStderr }, { args: ['-c', 'echo begun; sleep 60'] })
    const end = ended(one)
    assert.equal(await printed(one), 'begun\n')
    assert.deepEqual([await end, told], [124, 'killed after its time limit of 1000 ms\n'])
  })
  test('a sandbox has a short lease, which ends by itself should this program be killed', async () => {
    const one = started({ command: '/bin/cat' })
    const end = ended(one)
    one.stdin.write('there\n')
    await new Promise((resolve) => one.stdout.once('data', resolve))
    const left = Number((await one.sandbox!.info()).expiresAt) - Date.now()
    assert.ok(left > 0 && left <= 120_000)
    one.kill('SIGKILL')
    assert.equal(await end, 128 + 9)
  })
  test('an abort ends it, and its sandbox', async () => {
    const abort = new AbortController()
    const one = started({ command: '/bin/sh', create: { ttlMs: 60_000 } }, { args: ['-c', 'echo begun; sleep 60'], signal: abort.signal })
    const end = ended(one)
    one.stdout.once('data', () => abort.abort())
    assert.equal(await end, 128 + 15)
    assert.ok(one.killed)
    assert.deepEqual(await living(), [])
  })
  test('a key in the variables is refused', async () => {
    const error = await ended(started({ create: {} }, { env: { ANTHROPIC_API_KEY: 'another-key' } }))
    assert.match(String(error), /ANTHROPIC_API_KEY into the sandbox/)
    assert.throws(() => inSandbox({ create: { persistent: true } }), /would leave the sandbox behind/)
  })
  test('a sandbox without Claude Code, a dead one, an unknown template and a lost server give their errors', async () => {
    assert.match(String(await ended(started({ create: { ttlMs: 60_000 } }))), /Claude Code does not start/)
    assert.ok((await ended(started({ create: { template: 'no-such-template' } }))) instanceof TemplateNotFoundError)
    const lost = new Client({ url: 'http://127.0.0.1:9', token: 'x', retry: { retries: 0 } })
    assert.ok((await ended(started({ client: lost }))) instanceof ConnectionFailedError)
    const sandbox = await Sandbox.create({ ttlMs: 60_000, client: own.client })
    const one = started({ sandbox, command: '/bin/sh' }, { args: ['-c', 'echo begun; sleep 60'] })
    const end = ended(one)
    one.stdout.once('data', () => void sandbox.kill())
    assert.ok((await end) instanceof SandboxEndedError)
    assert.deepEqual(await living(), [])
  })
  test('a program of Node is started as the one of the sandbox', async () => {
    const one = started({ command: '/bin/echo', create: { ttlMs: 60_000 } }, { command: 'node', args: ['--flag', '/host/cli.js', '--print'] })
    assert.equal(await printed(one), '--print\n')
  })
})
