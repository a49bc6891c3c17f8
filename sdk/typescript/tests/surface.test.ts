/** The public surface of this package is that of the Python SDK but for the differences that are listed here with their reasons. */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import ts from 'typescript'

/** Classes of services by their Python names, with the parameters of their methods; and all that is public. */
const PYTHON = `
import inspect, json, sys
sys.path.insert(0, sys.argv[1])
import paddock

def members(kind):
    for name, value in inspect.getmembers(kind):
        if not name.startswith('_'):
            called = callable(value)
            yield name, [p for p in inspect.signature(value).parameters if p not in ('self', 'cls')] if called else []

services = [name for name in paddock.__all__ if 'Async' + name in paddock.__all__]
print(json.dumps({
    'services': {name: dict(members(getattr(paddock, name))) for name in services},
    'errors': [name for name in paddock.__all__ if inspect.isclass(getattr(paddock, name)) and issubclass(getattr(paddock, name), Exception)],
    'data': {
        name: sorted({*getattr(paddock, name).__dataclass_fields__, *(n for n, v in inspect.getmembers(getattr(paddock, name)) if isinstance(v, property))})
        for name in paddock.__all__ if hasattr(getattr(paddock, name), '__dataclass_fields__')
    },
}))
`
interface PythonSurface {
  services: Record<string, Record<string, string[]>>
  errors: string[]
  data: Record<string, string[]>
}
const python: PythonSurface = JSON.parse(execFileSync('python3', ['-c', PYTHON, join(process.cwd(), '../python/src')], { encoding: 'utf8' }))

/** Names that differ here, by their Python names, with the reason. Undefined: there is none here, and the reason says why. */
type Differences = Readonly<Record<string, readonly [here: string | undefined, reason: string]>>

const CLASSES: Differences = { Filesystem: ['Files', 'it is `sandbox.files`'] }
const METHODS: Differences = {
  'Sandbox.changes_patch': ['Sandbox.diff', 'the word of git'],
  'Sandbox.exec': ['Commands.run', 'commands are a part of their own: `sandbox.commands`; `background` is `start`, `terminal` is `pty`'],
  'Sandbox.process': ['Commands.connect', 'as above'],
  'Sandbox.processes': ['Commands.list', 'as above'],
  'Sandbox.port_client': ['Sandbox.fetch', 'JavaScript has fetch instead of clients'],
  'Filesystem.read_bytes': ['Files.read', 'by `format`'],
  'Sandbox.persistent': [undefined, 'it is `lastInfo.persistent`'],
  'Client.http_below': [undefined, 'a client of httpx; here it is `fetch`'],
  'Client.stream': ['Client.open', 'stream is the word for a ReadableStream'],
  'Client.release': [undefined, 'the event loops of asyncio, which JavaScript has one of'],
  'Volumes.close': [undefined, 'the client is closed; a service holds nothing'],
  'Resources.close': [undefined, 'as above'],
  'Secrets.close': [undefined, 'as above'],
  'Jobs.close': [undefined, 'as above'],
  'Templates.close': [undefined, 'as above'],
}
/** Of a method, or of any: parameters that are called otherwise. */
const PARAMETERS: Differences = {
  'Sandbox.exec.background': [undefined, '`start`'],
  'Sandbox.exec.terminal': [undefined, 'an option of `start`, and `pty`'],
  'Sandbox.exec.open_stdin': [undefined, 'an option of `start`'],
  'Sandbox.update.memory_bytes': ['limits', 'limits are one option, as in create'],
  'Sandbox.update.cpus': ['limits', 'as above'],
  'Sandbox.update.pids': ['limits', 'as above'],
  'Sandbox.update.disk_bytes': ['limits', 'as above'],
  'Sandbox.update.open_files': ['limits', 'as above'],
  'Process.resize.rows': ['size', 'one object, as the terminal of `start`'],
  'Process.resize.columns': ['size', 'as above'],
  'Filesystem.read.encoding': [undefined, 'text is UTF-8; other bytes are read with `format: bytes`'],
  'Filesystem.read.errors': ['fatal', 'the word of TextDecoder'],
  'Filesystem.move.source': ['from', 'shorter'],
  'Filesystem.move.target': ['to', 'shorter'],
  'Client.stream.query': ['options', 'an options object comes last'],
  'Jobs.submit.fields': [undefined, 'JavaScript has no keywords: all fields are in `spec`'],
  'Jobs.run.fields': [undefined, 'as above'],
  'Client.request.content': ['body', 'the word of fetch'],
  'Client.request.patience': ['patienceMs', 'milliseconds say so in their names'],
  'Client.stream.patience': ['patienceMs', 'as above'],
}
/** Members that only JavaScript has, each with the reason. */
const ONLY_HERE: Readonly<Record<string, string>> = {
  'Client.retry': 'an attribute of an instance in Python, which no class shows',
  'Client.authorization': 'for programs that bring a fetch of their own',
  'Client.location': 'as above',
  'Client.lines': 'lines of JSON; Python has them with `stream`',
  'Client.fetch': 'in the place of `http_below`',
  'Jobs.bestOf': 'in Python `best_of` is a field of `run`',
  'Process.sandboxId': 'an attribute of an instance in Python',
  'Process.exec': 'as above',
  'Sandbox.commands': 'commands are a part of their own',
  'Sandbox.files': 'an attribute of an instance in Python',
  'Sandbox.contexts': 'as above',
  'Sandbox.client': 'as above',
  'Sandbox.lastInfo': 'Python has its fields as properties: `id`, `name`, `state`, `persistent`',
  'Sandbox.checkpointVolume': 'Python has not got it yet',
  'Tools.definitions': 'for `paddock/ai`, which is not in this entry',
  'Tools.run': 'as above',
  'Watch.next': 'the protocol of iterators',
  'Watch.return': 'as above',
  'Watch.open': '`files.watch` calls it',
  'Commands.start': '`exec(background=True)` in Python',
  'Commands.pty': '`exec(terminal=True)` in Python',
}
const CLASSES_ONLY_HERE = new Set(['Commands'])

const camel = (name: string): string =>
  name.replace(/_+$/, '').replace(/_seconds$/, '_ms').replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase())

/** This package as tsc sees it: names of members of classes, with the names of parameters and of the options in them. */
const declarations = join(process.cwd(), 'dist/esm/index.d.ts')
const program = ts.createProgram([declarations], {
  target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, types: [], skipLibCheck: true,
  strict: true, lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts', 'lib.dom.asynciterable.d.ts'],
})
const checker = program.getTypeChecker()
const source = program.getSourceFile(declarations)!
const exported = new Map(checker.getExportsOfModule(checker.getSymbolAtLocation(source)!).map((symbol) => [symbol.name, resolved(symbol)]))

function resolved(symbol: ts.Symbol): ts.Symbol {
  return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
}

function membersOf(name: string): Map<string, Set<string>> {
  const symbol = exported.get(name)
  assert.ok(symbol, `there is no ${name} here`)
  const found = new Map<string, Set<string>>()
  for (const type of [checker.getDeclaredTypeOfSymbol(symbol), checker.getTypeOfSymbol(symbol)]) {
    for (const member of checker.getPropertiesOfType(type)) {
      if (!/^[a-z]/.test(member.name) || member.name === 'prototype') continue
      const signatures = checker.getTypeOfSymbol(member).getCallSignatures()
      found.set(member.name, new Set(signatures.flatMap((signature) => signature.parameters.flatMap(namesOf))))
    }
  }
  return found
}

/** Of a parameter, and of the options in it. */
function namesOf(parameter: ts.Symbol): string[] {
  const type = checker.getNonNullableType(checker.getTypeOfSymbol(parameter))
  const parts = type.isUnion() ? type.types : [type]
  const inside = parts.filter((part) => !checker.isArrayLikeType(part) && part.flags & ts.TypeFlags.Object || part.isIntersection())
  return [parameter.name, ...inside.flatMap((part) => checker.getPropertiesOfType(part).map((one) => one.name))]
}

describe('every service of the Python SDK', () => {
  for (const [name, methods] of Object.entries(python.services)) {
    const here = CLASSES[name]?.[0] ?? name
    test(`${name} is ${here}, with all its methods and their options`, () => {
      const missing: string[] = []
      for (const [method, parameters] of Object.entries(methods)) {
        const difference = METHODS[`${name}.${method}`]
        if (difference && difference[0] === undefined) continue
        const [owner, called] = (difference?.[0] ?? `${here}.${camel(method)}`).split('.') as [string, string]
        const options = membersOf(owner).get(called)
        if (!options) {
          missing.push(`${owner}.${called}`)
          continue
        }
        for (const parameter of parameters) {
          const other = PARAMETERS[`${name}.${method}.${parameter}`]
          if (other && other[0] === undefined) continue
          const wanted = other?.[0] ?? camel(parameter)
          if (!options.has(wanted) && !options.has(`${wanted}Ms`)) missing.push(`${owner}.${called}(${wanted})`)
        }
      }
      assert.deepEqual(missing, [], `Python's ${name} has these, and this package has not: add them, or say here why not`)
    })
  }
  test('and this package has no other', () => {
    const known = new Set(Object.keys(python.services).map((name) => CLASSES[name]?.[0] ?? name))
    const services = [...exported].filter(([name, symbol]) => symbol.flags & ts.SymbolFlags.Class && !name.endsWith('Error'))
    assert.deepEqual(services.map(([name]) => name).filter((name) => !known.has(name) && !CLASSES_ONLY_HERE.has(name)), [])
  })
})

test('and the services of this package have no method that the Python SDK lacks', () => {
  const known = new Set(Object.values(METHODS).map(([here]) => here))
  for (const [name, methods] of Object.entries(python.services)) {
    for (const method of Object.keys(methods)) known.add(`${CLASSES[name]?.[0] ?? name}.${camel(method)}`)
  }
  const services = [...Object.keys(python.services).map((name) => CLASSES[name]?.[0] ?? name), ...CLASSES_ONLY_HERE]
  const found = services.flatMap((name) => [...membersOf(name).keys()].map((member) => `${name}.${member}`))
  assert.deepEqual(found.filter((one) => !known.has(one) && !(one in ONLY_HERE)), [], 'Python has not got these: add them there, or say here why not')
  assert.deepEqual(Object.keys(ONLY_HERE).filter((one) => known.has(one) || !found.includes(one)), [])
})

test('every error of the Python SDK is here, and no other', () => {
  const here = [...exported.keys()].filter((name) => name.endsWith('Error') && exported.get(name)!.flags & ts.SymbolFlags.Class)
  const theirs = python.errors.map((name) => (name.endsWith('Error') ? name : `${name}Error`))
  assert.deepEqual(here.sort(), theirs.sort())
})

test('what the server describes has the same fields', () => {
  const names: Record<string, string> = { Result: 'CommandResult' }
  // Options of calls, and events that are kinds of one type here.
  const other = new Set(['Limits', 'TerminalSize', 'RetryPolicy', 'Idle', 'Ended', 'Failed', 'Gap', 'Output', 'OutputEvent', 'Shown', 'MergeConflict'])
  // `kind` says both.
  const notHere = new Set(['FileEntry.is_directory', 'FileEntry.is_file'])
  const missing: string[] = []
  for (const [name, fields] of Object.entries(python.data)) {
    if (other.has(name)) continue
    const symbol = exported.get(names[name] ?? name)
    if (!symbol) {
      missing.push(names[name] ?? name)
      continue
    }
    const here = new Set(checker.getPropertiesOfType(checker.getDeclaredTypeOfSymbol(symbol)).map((one) => one.name))
    for (const field of fields) if (!here.has(camel(field)) && !notHere.has(`${name}.${field}`)) missing.push(`${name}.${camel(field)}`)
  }
  assert.deepEqual(missing, [])
})

test('each difference that is listed is one', () => {
  const stale: string[] = []
  for (const entry of Object.keys(METHODS)) {
    const [name, method] = entry.split('.') as [string, string]
    if (!(method in (python.services[name] ?? {}))) stale.push(entry)
  }
  for (const entry of Object.keys(PARAMETERS)) {
    const [name, method, parameter] = entry.split('.') as [string, string, string]
    if (!python.services[name]?.[method]?.includes(parameter)) stale.push(entry)
  }
  assert.deepEqual(stale, [])
})
