/** Module systems, other runtimes, and what a browser would load. */

import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { describe, test } from 'node:test'
import * as esm from 'paddock'
import ts from 'typescript'
import { EVERYTHING, EVERYTHING_SEEN } from './everything.js'
import { TCP_URL, temporaryDirectory } from './setup.js'

const require = createRequire(import.meta.url)
const ROOT = process.cwd()
const PROGRAM = `
const sandbox = await Sandbox.create({ ttlMs: 60000 })
const lines = []
await sandbox.commands.run('echo out', { onStdout: (text) => lines.push(text) })
await sandbox.files.write('f', 'content')
const { text } = await sandbox.runCode('6 * 7')
console.log(lines.join('').trim(), await sandbox.files.read('f'), text)
await sandbox.kill()
`

describe('modules', () => {
  test('the packed package works by itself, in both module systems', () => {
    const place = temporaryDirectory()
    const packed = execFileSync('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', place], { cwd: ROOT, encoding: 'utf8' }).trim()
    mkdirSync(join(place, 'node_modules'))
    execFileSync('tar', ['-xf', join(place, packed), '-C', join(place, 'node_modules')])
    renameSync(join(place, 'node_modules', 'package'), join(place, 'node_modules', 'paddock'))
    assert.deepEqual(readdirSync(join(place, 'node_modules', 'paddock', 'dist')).sort(), ['cjs', 'esm'])
    writeFileSync(join(place, 'program.mjs'), `import { Sandbox } from 'paddock'\n${PROGRAM}`)
    writeFileSync(join(place, 'program.cjs'), `const { Sandbox } = require('paddock');(async () => {${PROGRAM}})()`)
    for (const program of ['program.mjs', 'program.cjs']) {
      assert.equal(execFileSync(process.execPath, [program], { cwd: place, encoding: 'utf8' }), 'out content 42\n')
    }
  })
  test('its types are found in each module system, with no types of Node and with a library older than `using`', () => {
    const place = temporaryDirectory()
    mkdirSync(join(place, 'node_modules'))
    symlinkSync(ROOT, join(place, 'node_modules', 'paddock'))
    const program = `import { Sandbox, type CreateOptions } from 'paddock'
const options: CreateOptions = { ttlMs: 1000 }
export async function read(): Promise<string> {
  const sandbox = await Sandbox.create(options)
  const blob: Blob = await sandbox.files.read('x', { format: 'blob' })
  for await (const event of await sandbox.files.watch('/tmp')) return event.path + blob.size
  // @ts-expect-error
  await sandbox.commands.run('true', { timeout: 1 })
  return (await sandbox.runCode('1')).text ?? ''
}
`
    const { ModuleKind, ModuleResolutionKind } = ts
    for (const [name, module, moduleResolution] of [
      ['esm.mts', ModuleKind.Node16, ModuleResolutionKind.Node16],
      ['cjs.cts', ModuleKind.Node16, ModuleResolutionKind.Node16],
      ['bundled.ts', ModuleKind.ESNext, ModuleResolutionKind.Bundler],
    ] as const) {
      writeFileSync(join(place, name), program)
      const made = ts.createProgram([join(place, name)], {
        module, moduleResolution, target: ts.ScriptTarget.ES2022, lib: ['lib.es2022.d.ts', 'lib.dom.d.ts'], types: [], strict: true, noEmit: true,
        skipLibCheck: false,
      })
      const found = ts.getPreEmitDiagnostics(made).map(({ file, messageText }) => `${file?.fileName ?? ''}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`)
      assert.deepEqual(found, [], name)
    }
  })
  test('CommonJS has the same names', () => {
    assert.deepEqual(Object.keys(require('paddock')).sort(), Object.keys(esm).sort())
  })
  test('CommonJS works', () => {
    const program = `const { Sandbox } = require('paddock');(async () => {${PROGRAM}})()`
    assert.equal(execFileSync(process.execPath, ['--input-type=commonjs', '-e', program], { cwd: ROOT, encoding: 'utf8' }), 'out content 42\n')
  })
  test('the providers for CommonJS load', () => {
    assert.equal(typeof require('paddock/computesdk').paddock, 'function')
    assert.equal(typeof require('paddock/mastra').PaddockSandbox, 'function')
  })
  test('there is no dependency at run time', () => {
    const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
    assert.equal(manifest.dependencies, undefined)
    assert.deepEqual(Object.keys(manifest.peerDependenciesMeta).sort(), Object.keys(manifest.peerDependencies).sort())
  })
  test('every entry of exports exists', () => {
    const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
    const files = JSON.stringify(exports).match(/\.\/dist\/[^"]+/g) ?? []
    assert.ok(files.length > 8)
    for (const file of files) assert.ok(existsSync(join(ROOT, file)), file)
  })
  test('only the platform directory imports modules of Node', () => {
    const directory = join(ROOT, 'dist', 'esm')
    for (const name of readdirSync(directory).filter((one) => one.endsWith('.js'))) {
      assert.doesNotMatch(readFileSync(join(directory, name), 'utf8'), /from ['"]node:|import\(['"]node:|Buffer\./, name)
    }
  })
  test('the stand-in for browsers has every name of the platform', async () => {
    const node = await import(join(ROOT, 'dist/esm/platform/node.js'))
    const web = await import(join(ROOT, 'dist/esm/platform/web.js'))
    const used = ['defaultSocket', 'ensureRunning', 'makeWire', 'upload', 'download', 'absolutePath', 'readSecretFile']
    for (const name of used) {
      assert.equal(typeof node[name], 'function')
      assert.throws(() => web[name](), esm.UnsupportedError)
    }
  })
  test('without Node all but the socket works', () => {
    const token = process.env['PADDOCK_TEST_TOKEN'] ?? ''
    const program = `
const { log } = console
// Node loads its own fetch late, and that needs the versions.
await fetch('data:,')
Object.defineProperty(process, 'versions', { value: {} })
const { Client, Sandbox: Boxes, UnsupportedError } = await import('paddock')
const client = new Client({ url: '${TCP_URL}', token: '${token}' })
const Sandbox = { create: (options) => Boxes.create({ ...options, client }) }
${PROGRAM}
try { await new Client({ url: 'unix:/x/y' }).whoami() } catch (error) { log(error instanceof UnsupportedError) }
`
    assert.equal(execFileSync(process.execPath, ['--input-type=module', '-e', program], { cwd: ROOT, encoding: 'utf8' }), 'out content 42\ntrue\n')
  })
})

/** The executable that npm fetched, without its script that would put it into place. */
function runtime(...places: string[]): string | undefined {
  const kept = process.env['PADDOCK_TEST_JAVASCRIPT_RUNTIMES'] ?? join(ROOT, 'node_modules')
  return places.map((place) => join(kept, place)).find(existsSync)
}

describe('other runtimes', () => {
  const source = `import { Sandbox } from '${join(ROOT, 'dist/esm/index.js')}'\n${PROGRAM}`
  for (const [name, executable, ...options] of [
    ['Bun', runtime('@oven/bun-linux-x64/bin/bun', '@oven/bun-linux-x64-baseline/bin/bun', '@oven/bun-linux-aarch64/bin/bun', 'bun/bin/bun.exe'), 'run'],
    ['Node24', runtime('node24/bin/node')],
    ['Node26', runtime('node26/bin/node')],
    ['Deno', runtime('@deno/linux-x64-glibc/deno', '@deno/linux-arm64-glibc/deno'), 'run', '--allow-all', '--no-config'],
  ] as [string, string | undefined, ...string[]][]) {
    const skip = executable ? false : `${name.toLowerCase()}: it could not be fetched from npm for this host`
    test(`${name} speaks to the unix socket`, { skip }, () => {
      const program = join(temporaryDirectory(), 'program.mjs')
      writeFileSync(program, source)
      const done = spawnSync(executable ?? '', [...options, program], { encoding: 'utf8', timeout: 60_000 })
      assert.equal(done.stdout, 'out content 42\n', done.stderr)
    })
  }
})

describe('workerd, the runtime of Cloudflare Workers', () => {
  const executable = runtime('@cloudflare/workerd-linux-64/bin/workerd', '@cloudflare/workerd-linux-arm64/bin/workerd')
  const skip = executable ? false : 'workerd: it could not be fetched from npm for this host'
  const directory = join(ROOT, 'dist', 'esm')
  // As a bundler for Workers takes them: by the field `browser`, whose stand-in imports nothing of Node.
  const { browser } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const instead = (name: string): string => browser[`./dist/esm/${name}`] ? join(ROOT, browser[`./dist/esm/${name}`]) : join(directory, name)
  const modules = (): string[] => readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.js') && !name.startsWith('providers/') && (!name.startsWith('platform/') || browser[`./dist/esm/${name}`]))

  for (const [kind, date, flags] of [['as it was in 2025', '2025-01-01', '[]'], ['with nodejs_compat, which shows the versions of Node', '2026-11-01', '["nodejs_compat"]']] as const) {
    test(`everything works in it, ${kind}`, { skip }, () => {
      const place = temporaryDirectory()
      const main = `import * as sdk from './sdk/index.js'
${EVERYTHING}
export default { async test() {
  console.log('seen ' + JSON.stringify([typeof globalThis.process?.versions?.node, await everything(sdk, ${JSON.stringify(TCP_URL)}, ${JSON.stringify(process.env['PADDOCK_TEST_TOKEN'] ?? '')})]))
} }`
      const listed = ['main.js', ...modules().map((name) => `sdk/${name}`)]
      for (const name of listed) {
        mkdirSync(join(place, dirname(name)), { recursive: true })
        writeFileSync(join(place, name), name === 'main.js' ? main : readFileSync(instead(name.slice('sdk/'.length)), 'utf8'))
      }
      writeFileSync(join(place, 'config.capnp'), `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (services = [(name = "main", worker = .worker), (name = "out", network = (allow = ["public", "private"]))]);
const worker :Workerd.Worker = (
  modules = [${listed.map((name) => `(name = "${name}", esModule = embed "${name}")`).join(', ')}],
  compatibilityDate = "${date}", compatibilityFlags = ${flags}, globalOutbound = "out",
);`)
      const done = spawnSync(executable ?? '', ['test', 'config.capnp'], { cwd: place, encoding: 'utf8', timeout: 120_000 })
      const said = /^.*seen (\[.*\])$/m.exec(done.stdout + done.stderr)?.[1]
      assert.ok(said, `${done.error ?? ''}${done.stdout}${done.stderr}`)
      assert.deepEqual(JSON.parse(said), [flags === '[]' ? 'undefined' : 'string', EVERYTHING_SEEN])
      assert.equal(done.status, 0, done.stderr)
    })
  }
})
