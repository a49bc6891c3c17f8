/** The types follow spec/openapi.json: a route, a parameter or a field that is renamed there fails tsc where it is used here. */

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import ts from 'typescript'

const SOURCES = join(process.cwd(), 'src')
const GENERATED = join(SOURCES, 'generated/openapi.ts')
const files = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'))
// The providers' packages are a million lines of types, and what they ask goes through the same functions.
const roots = files.filter((name) => !name.startsWith('providers/')).map((name) => join(SOURCES, name))

const config = ts.parseJsonConfigFileContent(ts.readConfigFile('tsconfig.json', (path) => ts.sys.readFile(path)).config, ts.sys, process.cwd())
const kept = new Map<string, ts.SourceFile>()

/** The files with an error when the generated file reads so. */
function errorsWith(generated: string): Map<string, string[]> {
  const host = ts.createCompilerHost(config.options)
  const read = host.getSourceFile.bind(host)
  host.getSourceFile = (name, options) => {
    if (name === GENERATED) return ts.createSourceFile(name, generated, options)
    const known = kept.get(name) ?? read(name, options)
    if (known) kept.set(name, known)
    return known
  }
  const program = ts.createProgram(roots, { ...config.options, noEmit: true, declaration: false }, host)
  const found = new Map<string, string[]>()
  for (const file of program.getSourceFiles().filter((one) => one.fileName.startsWith(SOURCES))) {
    for (const error of program.getSemanticDiagnostics(file)) {
      const name = file.fileName.slice(SOURCES.length + 1)
      found.set(name, [...(found.get(name) ?? []), ts.flattenDiagnosticMessageText(error.messageText, '\n')])
    }
  }
  return found
}

const spec = readFileSync(GENERATED, 'utf8')

/** One name less and another one more, within the part of the file that begins with `where`. */
function renamed(text: string, where: string, name: string): string {
  const from = text.indexOf(`\n${where}`)
  assert.ok(from >= 0, `the specification has ${where.trim()}`)
  const at = text.slice(from).search(new RegExp(`\\b${name}\\??:`))
  assert.ok(at >= 0, `${where.trim()} has ${name}`)
  return `${text.slice(0, from + at)}${name}_renamed${text.slice(from + at + name.length)}`
}

describe('tsc refuses', () => {
  test('nothing as it is', () => assert.deepEqual([...errorsWith(spec)], []))

  test('a route that is called otherwise', () => {
    let text = spec
    for (const route of ['/v1/jobs/{job}/cancel', '/v1/secrets/{secret}', '/v1/volumes/{volume}/files/mode', '/v1/sandboxes/{id}/files/watch']) {
      assert.ok(text.includes(`"${route}"`), route)
      text = text.replace(`"${route}"`, `"${route}-renamed"`)
    }
    assert.deepEqual([...errorsWith(text).keys()].sort(), ['files.ts', 'jobs.ts', 'secrets.ts', 'volumes.ts', 'watch.ts'])
  })

  test('a query parameter that is called otherwise, wanted or not', () => {
    let text = renamed(spec, '    list_files: {', 'recursive')
    text = renamed(text, '    exec_output: {', 'results_offset')
    text = renamed(text, '    sandbox_metrics: {', 'start_ms')
    text = renamed(text, '    read_volume_file: {', 'live')
    text = renamed(text, '    read_job_artifact: {', 'path')
    text = renamed(text, '    upload_archive: {', 'user')
    const found = [...errorsWith(text).keys()].sort()
    assert.deepEqual(found, ['files.ts', 'jobs.ts', 'output.ts', 'platform/transfer.ts', 'sandbox.ts', 'volumes.ts'])
  })

  test('a field of a body that is called otherwise', () => {
    let text = renamed(spec, '        CreateSandbox: {', 'ttl_action')
    text = renamed(text, '        UpdateSandbox: {', 'under_pressure')
    text = renamed(text, '        StartExec: {', 'open_stdin')
    text = renamed(text, '        CreateContext: {', 'language')
    text = renamed(text, '        MakeDirectory: {', 'parents')
    text = renamed(text, '        SetResource: {', 'secrets')
    text = renamed(text, '        BuildTemplate: {', 'steps')
    text = renamed(text, '        TerminalSize: {', 'columns')
    const found = [...errorsWith(text).keys()].sort()
    assert.deepEqual(found, [
      'commands.ts', 'contexts.ts', 'create.ts', 'files.ts', 'process.ts', 'resources.ts', 'sandbox.ts', 'templates.ts', 'volumes.ts',
    ])
  })

  test('a field of an answer that is called otherwise', () => {
    let text = renamed(spec, '        Exec: {', 'exit_code')
    text = renamed(text, '        JobTask: {', 'score')
    text = renamed(text, '        VolumeVersion: {', 'stored_bytes')
    text = renamed(text, '        Secret: {', 'version')
    text = renamed(text, '        StdinReceived: {', 'offset')
    text = renamed(text, '        Existence: {', 'exists')
    const found = [...errorsWith(text).keys()].sort()
    assert.deepEqual(found, ['files.ts', 'jobs.ts', 'models.ts', 'process.ts', 'secrets.ts', 'volumes.ts'])
  })
})

test('every request goes by a route of the specification', () => {
  // `client.ts` has the functions, `routes.ts` calls them, and programs of users may.
  for (const name of files.filter((one) => !['client.ts', 'routes.ts'].includes(one) && !one.startsWith('generated/'))) {
    const text = readFileSync(join(SOURCES, name), 'utf8')
    assert.doesNotMatch(text, /[cC]lient\)?\.(call|request|open|lines|pages)\(/, name)
  }
})
