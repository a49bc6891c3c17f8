import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { ContextNotFoundError, InvalidRequestError, ScanDeniedError, type CodeResult, type Sandbox } from 'paddock'
import { sandbox, withCode } from './setup.js'

let box: Sandbox
before(async () => {
  box = await sandbox()
})

describe('runCode', () => {
  test('gives output and the value of the last expression', async () => {
    const execution = await box.runCode('print("half")\n2 ** 0.5')
    assert.deepEqual([execution.stdout, execution.text, execution.ok], ['half\n', '1.4142135623730951', true])
    assert.equal(execution.results[0]?.main, true)
  })
  test('remembers', async () => {
    await box.runCode('remembered = 41')
    assert.equal((await box.runCode('remembered + 1')).text, '42')
  })
  test('an exception is an answer', async () => {
    const execution = await box.runCode('1 / 0')
    assert.equal(execution.ok, false)
    assert.equal(execution.error?.name, 'ZeroDivisionError')
    assert.match(execution.error?.traceback ?? '', /ZeroDivisionError/)
  })
  test('a syntax error is one too', async () => {
    assert.equal((await box.runCode('def (')).error?.name, 'SyntaxError')
  })
  for (const [language, code, expected] of [
    ['python', 'print(6 * 7)', '42\n'],
    ['bash', 'echo $((6 * 7))', '42\n'],
    ['javascript', 'console.log(6 * 7)', '42\n'],
    ['sh', 'echo 42', '42\n'],
  ] as const) {
    test(`runs ${language}`, async () => {
      assert.equal((await box.runCode(code, { language })).stdout, expected)
    })
  }
  test('a language that is not there is told', async () => {
    await assert.rejects(box.runCode('x', { language: 'cobol' }), (error: Error) => /cobol/.test(error.message))
  })
  test('callbacks get output, results and errors as they come', async () => {
    const seen: string[] = []
    const results: CodeResult[] = []
    const execution = await box.runCode('import sys\nprint("a")\nprint("b", file=sys.stderr)\n7', {
      onStdout: (text) => seen.push(text),
      onStderr: (text) => seen.push(text),
      onResult: (result) => results.push(result),
    })
    assert.equal(seen.filter((text) => text.trim()).map((text) => text.trim()).sort().join(), 'a,b')
    assert.deepEqual(results.map((result) => result.text), ['7'])
    assert.equal(execution.text, '7')
  })
  test('onError gets the exception', async () => {
    const names: string[] = []
    await box.runCode('raise ValueError("v")', { onError: (error) => names.push(error.name) })
    assert.deepEqual(names, ['ValueError'])
  })
  test('rich results have all their representations', async () => {
    const code = `
class Rich:
    def _repr_html_(self): return '<b>html</b>'
    def _repr_markdown_(self): return '**md**'
    def _repr_png_(self): return b'\\x89PNG\\r\\n'
    def _repr_svg_(self): return '<svg/>'
    def __repr__(self): return 'rich'
Rich()`
    const [result] = (await box.runCode(code)).results
    assert.equal(result?.text, 'rich')
    assert.equal(result?.html, '<b>html</b>')
    assert.equal(result?.markdown, '**md**')
    assert.equal(result?.svg, '<svg/>')
    assert.deepEqual([...(result?.png ?? [])], [0x89, 80, 78, 71, 13, 10])
  })
  test('timeoutMs interrupts and the context lives on', async () => {
    await box.runCode('kept = 5')
    const execution = await box.runCode('import time\nprint("begun", flush=True)\ntime.sleep(600)', { timeoutMs: 500 })
    assert.equal(execution.timedOut, true)
    assert.equal(execution.stdout, 'begun\n')
    assert.equal((await box.runCode('kept')).text, '5')
  })
  test('an abort interrupts the code', async () => {
    const controller = new AbortController()
    const running = box.runCode('import time\nprint("go", flush=True)\ntime.sleep(600)', {
      signal: controller.signal,
      onStdout: () => controller.abort(),
    })
    await assert.rejects(running, { name: 'AbortError' })
    assert.equal((await box.runCode('1 + 1')).text, '2')
  })
  test('env, cwd and stdin', async () => {
    const code = 'import os, sys\nprint(os.environ["A"], os.getcwd(), input())'
    const execution = await box.runCode(code, { env: { A: 'x' }, cwd: '/tmp', stdin: 'typed\n' })
    assert.equal(execution.stdout.trim().endsWith('x /tmp typed'), true)
  })
  test('unicode in code and output', async () => {
    assert.equal((await box.runCode('print("žába 🐸")')).stdout, 'žába 🐸\n')
  })
  test('many calls of one context take turns', async () => {
    await box.runCode('order = []')
    await Promise.all(Array.from({ length: 6 }, (_, index) => box.runCode(`order.append(${index})`)))
    assert.equal((await box.runCode('len(order)')).text, '6')
  })
  test('code that is no text is refused', async () => {
    await assert.rejects(box.runCode(5 as never), InvalidRequestError)
  })
})

describe('contexts', () => {
  test('are apart from each other', async () => {
    const one = await box.contexts.create({ language: 'python' })
    const two = await box.contexts.create({ language: 'python' })
    await box.runCode('x = 1', { context: one })
    assert.equal((await box.runCode('x', { context: two })).error?.name, 'NameError')
    assert.equal((await box.runCode('x', { context: one.id })).text, '1')
  })
  test('have a name, a directory and variables of their own', async () => {
    const made = await box.contexts.create({ language: 'bash', id: 'mine', cwd: '/tmp', env: { B: 'y' } })
    assert.equal(made.id, 'mine')
    assert.equal((await box.runCode('echo $B $PWD', { context: 'mine' })).stdout, 'y /tmp\n')
  })
  test('list and get', async () => {
    const made = await box.contexts.create({ language: 'bash' })
    assert.ok((await box.contexts.list()).some((one) => one.id === made.id))
    assert.equal((await box.contexts.get(made)).state, 'idle')
  })
  test('restart forgets', async () => {
    const made = await box.contexts.create({ language: 'python' })
    await box.runCode('x = 1', { context: made })
    await box.contexts.restart(made)
    assert.equal((await box.runCode('x', { context: made })).error?.name, 'NameError')
  })
  test('interrupt tells whether something ran', async () => {
    const made = await box.contexts.create({ language: 'python' })
    assert.equal(await box.contexts.interrupt(made), false)
    let interrupted = false
    await box.runCode('print("go", flush=True)\nimport time\ntime.sleep(600)', {
      context: made,
      onStdout: async (text) => {
        if (text.includes('go')) interrupted = await box.contexts.interrupt(made)
      },
    })
    assert.equal(interrupted, true)
  })
  test('delete ends it', async () => {
    const made = await box.contexts.create({ language: 'python' })
    await box.contexts.delete(made)
    await assert.rejects(box.runCode('1', { context: made }))
  })
  test('one that is not there is told', async () => {
    await assert.rejects(box.contexts.get('nowhere'), ContextNotFoundError)
    await assert.rejects(box.runCode('1', { context: 'nowhere' }), withCode('context_not_found'))
  })
  test('an id that leads elsewhere is one name', async () => {
    await assert.rejects(box.contexts.get('../execs'), (error: { status?: number }) => (error.status ?? 0) >= 400)
    await assert.rejects(box.contexts.get('..'), InvalidRequestError)
  })
})

describe('scan', () => {
  test('deny refuses code, and says why', async () => {
    const strict = await sandbox({ scan: 'deny', allowedImports: ['math'] })
    assert.equal((await strict.runCode('import math\nmath.floor(1.5)')).text, '1')
    const error = await strict.runCode('import socket').catch((one) => one)
    assert.ok(error instanceof ScanDeniedError)
    assert.equal(error.findings[0]?.line, 1)
  })
  test('warn runs it and tells', async () => {
    const told = await sandbox({ scan: 'warn' })
    const execution = await told.runCode('import subprocess\n1')
    assert.equal(execution.text, '1')
    assert.ok(execution.findings.length > 0)
  })
})
