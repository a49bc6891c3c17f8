/** The built package in Chromium: its modules as they are, and bundled. The page's own origin passes `/v1` on to a real server. */

import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import { join, normalize } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { Sandbox } from 'paddock'
import { EVERYTHING_SEEN, EVERYTHING } from './everything.js'
import { TCP_URL, temporaryDirectory } from './setup.js'

const PACKAGES = process.env['PADDOCK_TEST_DASHBOARD'] ?? '/nonexistent'
const CHROMIUM = process.env['PADDOCK_TEST_CHROMIUM'] ?? '/usr/bin/chromium'
const skip = !existsSync(join(PACKAGES, 'playwright-core', 'package.json'))
  ? 'browser: PADDOCK_TEST_DASHBOARD names no directory with playwright-core and esbuild'
  : !existsSync(CHROMIUM) ? 'browser: there is no chromium' : false
// Packages of the dashboard's tests, which have no types here.
const load = createRequire(join(PACKAGES, 'package.json'))
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync']
/** A browser begins slowly on a busy machine. */
const PATIENCE_MS = 180_000
const DIST = join(process.cwd(), 'dist', 'esm')
const ENTRY = join(process.cwd(), 'dist', 'browser-entry')
const TOKEN = process.env['PADDOCK_TEST_TOKEN'] ?? ''
const PAGE = '<!doctype html><meta charset="utf-8"><title>page</title>'

interface Page {
  goto(url: string, options: { timeout: number }): Promise<unknown>
  evaluate<T>(program: string): Promise<T>
  on(event: string, action: (of: { message: string; text(): string }) => void): void
}
interface Browser {
  newPage(): Promise<Page>
  close(): Promise<void>
}

/** What a person's own server does: it has the page, and passes `/v1` on as it came, with the Host that the page asked for. */
function origin(files: Record<string, () => string>): Server {
  const types: Record<string, string> = { js: 'text/javascript', html: 'text/html' }
  return createServer((asked, answer) => {
    const path = normalize(new URL(asked.url ?? '/', 'http://x').pathname)
    if (path.startsWith('/v1/')) return passOn(asked, answer)
    const own = files[path] ?? (path.startsWith('/sdk/') && existsSync(join(DIST, path.slice(4))) ? () => readFileSync(join(DIST, path.slice(4)), 'utf8') : undefined)
    if (!own) return void answer.writeHead(404).end()
    answer.writeHead(200, { 'content-type': types[path.split('.').pop() ?? ''] ?? 'text/html' }).end(own())
  })
}

function passOn(asked: IncomingMessage, answer: ServerResponse): void {
  const { hostname, port } = new URL(TCP_URL)
  const passed = request({ hostname, port, method: asked.method, path: asked.url, headers: asked.headers }, (got) => {
    answer.writeHead(got.statusCode ?? 502, got.headers)
    got.pipe(answer)
  })
  passed.on('error', () => answer.destroy())
  // A page that goes away ends what it asked for.
  answer.on('close', () => passed.destroy())
  asked.pipe(passed)
}

async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`
}

describe('in Chromium', { skip }, () => {
  let browser: Browser
  let bundle = ''
  const servers: Server[] = []
  const complaints: string[] = []

  async function page(files: Record<string, () => string>): Promise<{ page: Page; url: string }> {
    const server = origin({ '/': () => PAGE, '/program.js': () => `${EVERYTHING}\nexport { everything }`, ...files })
    servers.push(server)
    const url = await listening(server)
    const made = await browser.newPage()
    made.on('pageerror', ({ message }) => complaints.push(message))
    await made.goto(`${url}/`, { timeout: PATIENCE_MS })
    return { page: made, url }
  }

  before(async () => {
    const { chromium } = load('playwright-core') as { chromium: { launch(options: object): Promise<Browser> } }
    browser = await chromium.launch({ executablePath: CHROMIUM, headless: true, args: FLAGS, timeout: PATIENCE_MS })
    const { build } = load('esbuild') as { build(options: object): Promise<{ outputFiles: { text: string }[] }> }
    // By the package's own name, so that its `exports` and `browser` fields count. It has to be inside of the package.
    mkdirSync(ENTRY, { recursive: true })
    const entry = join(ENTRY, 'entry.mjs')
    writeFileSync(entry, "export * from 'paddock'\n")
    const made = await build({ entryPoints: [entry], bundle: true, write: false, format: 'esm', platform: 'browser', outdir: temporaryDirectory() })
    bundle = made.outputFiles[0]?.text ?? ''
  })
  after(async () => {
    rmSync(ENTRY, { recursive: true, force: true })
    await browser?.close()
    for (const server of servers) {
      server.closeAllConnections()
      server.close()
    }
  })

  test('the modules as they are built', async () => {
    const { page: tab, url } = await page({})
    const program = `(async () => (await import('/program.js')).everything(await import('/sdk/index.js'), '${url}', '${TOKEN}'))()`
    assert.deepEqual(await tab.evaluate(program), EVERYTHING_SEEN)
    assert.deepEqual(complaints, [])
  })
  test('a bundle has nothing of Node in it, and does the same', async () => {
    assert.doesNotMatch(bundle, /from ?["']node:|require\(["']node:|import\(["']node:/)
    const { page: tab, url } = await page({ '/bundle.js': () => bundle })
    const program = `(async () => (await import('/program.js')).everything(await import('/bundle.js'), '${url}', '${TOKEN}'))()`
    assert.deepEqual(await tab.evaluate(program), EVERYTHING_SEEN)
  })
  test('in a worker, which has no document, as an edge runtime has none', async () => {
    const worker = (): string => `import * as sdk from '/bundle.js'\nimport { everything } from '/program.js'
onmessage = ({ data }) => everything(sdk, data.url, data.token).then((seen) => postMessage({ seen }), (error) => postMessage({ error: String(error) }))`
    const { page: tab, url } = await page({ '/bundle.js': () => bundle, '/worker.js': worker })
    const program = `new Promise((resolve, reject) => {
      const worker = new Worker('/worker.js', { type: 'module' })
      worker.onmessage = ({ data }) => data.error ? reject(new Error(data.error)) : resolve(data.seen)
      worker.onerror = (event) => reject(new Error(event.message))
      worker.postMessage({ url: '${url}', token: '${TOKEN}' })
    })`
    assert.deepEqual(await tab.evaluate(program), EVERYTHING_SEEN)
  })
  test('a page of another origin is refused by the server, also with the token', async () => {
    const { page: tab } = await page({ '/bundle.js': () => bundle })
    const name = `foreign-${process.pid}`
    const program = `(async () => {
      const { Client, Sandbox } = await import('/bundle.js')
      const client = new Client({ url: '${TCP_URL}', token: '${TOKEN}', retry: { retries: 0 } })
      return Sandbox.create({ name: '${name}', client }).then(() => 'created', (error) => error.name)
    })()`
    assert.equal(await tab.evaluate(program), 'ConnectionFailedError')
    await assert.rejects(Sandbox.connect(name), { code: 'sandbox_not_found' })
  })
})
