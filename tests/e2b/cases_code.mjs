// E2B's code interpreter with its SDK for Node.
import { assert, e2b, Interpreter, sharedInterpreter, Skip, subject } from './world.mjs'

const { InvalidArgumentError, TimeoutError } = e2b
const FIGURES = "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\n"
const test = subject('code')
const run = async (code, options) => (await sharedInterpreter()).runCode(code, options)

test('it_remembers', async () => {
  await run('x = 41')
  const execution = await run('x + 1')
  assert.deepEqual([execution.text, execution.error, execution.results[0].isMainResult], ['42', undefined, true])
  assert.equal((await run("'text'")).text, 'text')
})

test('output_comes_by_its_stream', async () => {
  const out = [], err = [], results = []
  const execution = await run("import sys\nprint('out')\nprint('err', file=sys.stderr)\n7", {
    onStdout: (one) => { out.push(one.line) }, onStderr: async (one) => { err.push(one.line) }, onResult: (one) => { results.push(one.text) },
  })
  assert.deepEqual([out.join(''), err.join(''), results], ['out\n', 'err\n', ['7']])
  assert.deepEqual([execution.logs.stdout.join(''), execution.logs.stderr.join('')], ['out\n', 'err\n'])
})

test('output_comes_while_the_code_still_runs', async () => {
  const sandbox = await sharedInterpreter()
  let begun
  const first = new Promise((done) => { begun = done })
  const code = "print('begun', flush=True)\nimport os, time\nwhile not os.path.exists('/tmp/js-go'): time.sleep(0.02)\n'went on'"
  const running = sandbox.runCode(code, { onStdout: (one) => begun(one.line) })
  assert.equal(await first, 'begun\n')
  await sandbox.files.write('/tmp/js-go', '')
  assert.equal((await running).text, 'went on')
})

test('an_exception_is_an_error', async () => {
  const errors = []
  const execution = await run('1 / 0', { onError: (one) => { errors.push(one.name) } })
  assert.deepEqual([execution.error.name, errors], ['ZeroDivisionError', ['ZeroDivisionError']])
  assert.match(execution.error.traceback, /1 \/ 0/)
  assert.equal((await run('1 + 1')).text, '2')
})

test('the_ways_in_which_code_fails', async () => {
  assert.equal((await run('def f(:')).error.name, 'SyntaxError')
  assert.equal((await run('import sys; sys.exit(4)')).error.value, '4')
  assert.equal((await run('input()')).error.name, 'EOFError')
  assert.equal((await run('import os; os._exit(3)')).error.name, 'ContextDied')
})

test('executions_are_counted', async () => {
  const first = (await run('1')).executionCount
  assert.equal((await run('1')).executionCount, first + 1)
})

test('text_representations', async () => {
  for (const [method, name, value] of [
    ['_repr_html_', 'html', '<b>t</b>'], ['_repr_markdown_', 'markdown', '# t'], ['_repr_latex_', 'latex', '$x$'],
    ['_repr_svg_', 'svg', '<svg/>'], ['_repr_javascript_', 'javascript', 'go()'],
  ]) {
    const { results: [result] } = await run(`class S:\n  def ${method}(self): return '${value}'\n  def __repr__(self): return 'S'\nS()`)
    assert.deepEqual([result[name], result.text, result.formats().includes(name)], [value, 'S', true])
  }
})

test('binary_representations_are_base64', async () => {
  for (const [method, name] of [['_repr_png_', 'png'], ['_repr_jpeg_', 'jpeg'], ['_repr_pdf_', 'pdf']]) {
    const { results: [result] } = await run(`class S:\n  def ${method}(self): return b'\\xff\\x00'\nS()`)
    assert.deepEqual([...Buffer.from(result[name], 'base64')], [255, 0])
  }
})

test('json_is_a_value', async () => {
  assert.deepEqual((await run("{'a': [1, None]}")).results[0].json, { a: [1, null] })
})

test('several_results_in_their_order', async () => {
  const execution = await run("display('first')\ndisplay('second')\n'last'")
  assert.deepEqual(execution.results.map((one) => [one.text, one.isMainResult]), [['first', false], ['second', false], ['last', true]])
})

test('nothing_is_no_result', async () => {
  assert.deepEqual((await run('y = 1')).results, [])
  assert.equal((await run('')).error, undefined)
})

test('a_table_has_its_columns', async () => {
  if ((await run("import importlib.util as u; u.find_spec('pandas') is None")).text === 'True') return
  const { results: [result] } = await run("import pandas\npandas.DataFrame({'name': ['a', 'b'], 'value': [1, 2]})")
  assert.deepEqual(result.data, { name: ['a', 'b'], value: [1, 2] })
})

test('charts_have_their_shapes', async () => {
  if ((await run("import importlib.util as u; u.find_spec('matplotlib') is None")).text === 'True') return
  const chart = async (code) => (await run(`${FIGURES}${code}; plt.show()`)).results.find((one) => one.chart).chart
  const line = await chart("plt.plot([1, 2], [3, 4], label='up'); plt.title('T')")
  assert.deepEqual([line.type, line.title, line.elements[0].label], ['line', 'T', 'up'])
  assert.deepEqual((await chart("plt.bar(['a', 'b'], [3, 7])")).elements.map((one) => one.label), ['a', 'b'])
  assert.deepEqual((await chart("plt.pie([1, 3], labels=['a', 'b'])")).elements.map((one) => Math.round(one.angle)), [90, 270])
  assert.equal((await chart('plt.boxplot([[1, 2, 3, 4, 5]], patch_artist=True)')).elements[0].median, 3)
  assert.equal((await chart('_, (a, b) = plt.subplots(1, 2); a.plot([1]); b.scatter([1], [2])')).type, 'superchart')
})

test('variables_of_a_call_and_of_the_sandbox', async () => {
  const sandbox = await Interpreter.create({ envs: { FROM: 'the sandbox' } })
  try {
    assert.equal((await sandbox.runCode("import os; os.environ['FROM']")).text, 'the sandbox')
    assert.equal((await sandbox.runCode("os.environ['FROM']", { envs: { FROM: 'the call' } })).text, 'the call')
    assert.equal((await sandbox.runCode("os.environ['FROM']")).text, 'the sandbox')
  } finally {
    await sandbox.kill()
  }
})

test('contexts_are_apart', async () => {
  const sandbox = await sharedInterpreter()
  const context = await sandbox.createCodeContext({ cwd: '/tmp' })
  assert.deepEqual([context.language, context.cwd], ['python', '/tmp'])
  await sandbox.runCode('apart = 5', { context })
  assert.equal((await sandbox.runCode('apart', { context })).text, '5')
  assert.equal((await sandbox.runCode('apart')).error.name, 'NameError')
  assert.ok((await sandbox.listCodeContexts()).some((one) => one.id === context.id))
  await sandbox.restartCodeContext(context)
  assert.equal((await sandbox.runCode('apart', { context })).error.name, 'NameError')
  await sandbox.removeCodeContext(context.id)
  await assert.rejects(sandbox.runCode('1', { context }), /context/)
})

test('javascript', async () => {
  assert.equal((await run('const state = [1, 2]; state.length', { language: 'javascript' })).text, '2')
  assert.equal((await run('state[1] + 40', { language: 'js' })).text, '42')
  const { error } = await run("throw new TypeError('wrong')", { language: 'js' })
  assert.deepEqual([error.name, error.value], ['TypeError', 'wrong'])
})

test('typescript', async () => {
  assert.equal((await run('const n: number = 41\nfunction next(of: number): number { return of + 1 }\nnext(n)', { language: 'ts' })).text, '42')
})

test('bash', async () => {
  await run('cd /tmp; mark=7', { language: 'bash' })
  assert.equal((await run('echo $PWD $mark', { language: 'bash' })).logs.stdout.join(''), '/tmp 7\n')
})

test('languages_that_are_not_installed', async () => {
  // This SDK tells the number of the refusal and leaves its words out.
  const { commands } = await sharedInterpreter()
  const { stdout } = await commands.run('command -v Rscript >/dev/null || echo r; command -v jshell >/dev/null || echo java; echo cobol')
  for (const language of stdout.trim().split('\n')) await assert.rejects(run('1', { language }), /^SandboxError: 400/, language)
})

test('java_where_it_is_installed', async () => {
  const { commands } = await sharedInterpreter()
  if ((await commands.run('command -v jshell || true')).stdout === '') throw new Skip('e2b-java: the host has no JDK')
  assert.equal((await run('int base = 40;\nbase + 2', { language: 'java' })).text, '42')
  assert.equal((await run('throw new IllegalStateException("no");', { language: 'java' })).error.value, 'no')
})

test('a_context_or_a_language', async () => {
  const sandbox = await sharedInterpreter()
  const context = await sandbox.createCodeContext()
  await assert.rejects(sandbox.runCode('1', { context, language: 'python' }), InvalidArgumentError)
  await sandbox.removeCodeContext(context)
})

test('too_long_is_a_timeout_and_interrupts', async () => {
  const sandbox = await sharedInterpreter()
  const context = await sandbox.createCodeContext()
  await sandbox.runCode('kept = 1', { context })
  await assert.rejects(sandbox.runCode('while True: pass', { context, timeoutMs: 1000 }), TimeoutError)
  assert.equal((await sandbox.runCode('kept', { context })).text, '1')
})

test('much_output_comes_whole', async () => {
  const execution = await run('for n in range(50000): print(n)')
  assert.equal(execution.logs.stdout.join('').split('\n').length, 50001)
})

test('the_end_of_a_sandbox_ends_its_code', async () => {
  const sandbox = await Interpreter.create()
  let begun
  const first = new Promise((done) => { begun = done })
  const running = assert.rejects(sandbox.runCode("print('b', flush=True)\nimport time\ntime.sleep(60)", { onStdout: () => begun() }))
  await first
  await sandbox.kill()
  await running
  await assert.rejects(sandbox.runCode('1'), TimeoutError)
})
