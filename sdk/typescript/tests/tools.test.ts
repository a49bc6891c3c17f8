/** Tools for models: cases that hold for the Python SDK and the command alike, then a real sandbox and the providers' packages. */

import Anthropic from '@anthropic-ai/sdk'
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { before, describe, test } from 'node:test'
import OpenAI from 'openai'
import { InvalidRequestError, Tools, type Sandbox } from 'paddock'
import { sandbox } from './setup.js'

const inner = (name: string): string => new URL(`../esm/${name}.js`, import.meta.url).href
const { argumentsOf } = await import(inner('tool-calls'))
const { definitions } = await import(inner('tool-definitions'))
const { edited, ofExecution, ofFile, ofResult, Outputs } = await import(inner('tool-texts'))
const { parseExecution, parseResult, parseSandbox } = await import(inner('models'))

const CASES = JSON.parse(readFileSync(new URL('../../../python/tests/tool_cases.json', import.meta.url), 'utf8'))
const BUDGET = 400

describe('shared cases', () => {
  for (const [index, one] of CASES.calls.entries()) {
    // JSON of JavaScript does not tell 1e9 from 1000000000.0.
    const bad = one.bad.replace('1000000000.0', '1000000000')
    test(`call ${index}: ${bad}`, () => {
      assert.throws(() => argumentsOf(one.tool, one.arguments), (error: Error) => error.message === bad || assert.fail(error.message))
    })
  }
  for (const [index, one] of CASES.commands.entries()) {
    test(`command ${index}`, () => assert.deepEqual(ofResult(parseResult(one.exec), new Outputs(BUDGET)), { text: one.text, failed: one.failed }))
  }
  for (const [index, one] of CASES.code.entries()) {
    test(`code ${index}`, () => assert.deepEqual(ofExecution(parseExecution(one.exec), new Outputs(BUDGET)), { text: one.text, failed: one.failed }))
  }
  for (const [index, one] of CASES.files.entries()) {
    test(`file ${index}`, () => {
      const read = (): string => ofFile(new TextEncoder().encode(one.content), 'f', one.start_line, one.lines ?? undefined, one.budget)
      if (one.bad) assert.throws(read, { message: one.bad })
      else assert.equal(read(), one.text)
    })
  }
  for (const [index, one] of CASES.edits.entries()) {
    test(`edit ${index}`, () => {
      const edit = (): unknown => edited(one.content, 'f', one.old, one.new, one.all)
      if (one.bad) assert.throws(edit, { message: one.bad })
      else assert.deepEqual(edit(), { text: one.text, count: one.count })
    })
  }
  for (const [index, one] of CASES.tools.entries()) {
    test(`definitions ${index}`, () => {
      const { memory, cpus, disk } = one
      const info = parseSandbox({ id: 'sb-1', state: 'running', created_at_ms: 0, limits: { memory, cpus, disk }, guarantees: { network: one.network } })
      assert.deepEqual(definitions(info, one.timeout), one.definitions)
    })
  }
  test('a byte that is not UTF-8 is named, also behind a real replacement character', () => {
    const bytes = new Uint8Array([...new TextEncoder().encode('a\ufffdb'), 0xff, 0x62])
    assert.throws(() => ofFile(bytes, 'f', 1, undefined, 100), { message: 'f is no text: its byte 5 is not UTF-8 (7 bytes)' })
  })
})

let box: Sandbox
before(async () => {
  box = await sandbox()
})

const use = (name: string, input: unknown): unknown => ({ type: 'tool_use', id: 't1', name, input })
async function text(name: string, input: unknown): Promise<string> {
  return (await box.tools.handle(use(name, input))).content[0].text
}

describe('a real sandbox', () => {
  test('run_code', async () => {
    const result = await box.tools.handle(use('run_code', { code: 'print(6 * 7)' }))
    assert.deepEqual(result, { type: 'tool_result', tool_use_id: 't1', content: [{ type: 'text', text: '42' }], is_error: false })
  })
  test('run_code that fails says so', async () => {
    const result = await box.tools.handle(use('run_code', { code: '1 / 0' }))
    assert.equal(result.is_error, true)
    assert.match(result.content[0].text, /ZeroDivisionError/)
  })
  test('run_shell with a directory and a time limit', async () => {
    assert.equal(await text('run_shell', { command: 'pwd', cwd: '/tmp' }), '/tmp')
    assert.match(await text('run_shell', { command: 'sleep 600', timeout_seconds: 1 }), /time limit/)
  })
  test('write_file, read_file and edit_file', async () => {
    assert.match(await text('write_file', { path: 'w.txt', content: 'one\ntwo\n' }), /wrote 8 bytes/)
    assert.equal(await text('edit_file', { path: 'w.txt', old_text: 'two', new_text: 'three' }), '[replaced 1 time in w.txt]')
    assert.equal(await text('read_file', { path: 'w.txt' }), 'one\nthree\n')
    assert.equal(await text('read_file', { path: 'w.txt', start_line: 2 }), 'three\n')
  })
  test('edit_file keeps the mode', async () => {
    await box.files.write('x.sh', 'echo a', { mode: 0o750 })
    await text('edit_file', { path: 'x.sh', old_text: 'a', new_text: 'b' })
    assert.equal((await box.files.stat('x.sh')).mode & 0o777, 0o750)
  })
  test('list_files', async () => {
    await box.files.write('listing/a', 'x')
    assert.match(await text('list_files', { path: 'listing' }), /^file +1 listing\/a$/)
  })
  test('a file that is not there is told to the model', async () => {
    const result = await box.tools.handle(use('read_file', { path: 'nothing' }))
    assert.equal(result.is_error, true)
    assert.match(result.content[0].text, /nothing/)
  })
  test('a binary file, a directory and a huge file are told', async () => {
    await box.files.write('bin', new Uint8Array([0, 1]))
    await box.commands.run('truncate -s 9M huge')
    assert.match(await text('read_file', { path: 'bin' }), /NUL bytes/)
    assert.match(await text('read_file', { path: '/tmp' }), /directory/)
    assert.match(await text('read_file', { path: 'huge' }), /larger than 8 MiB/)
  })
  test('long output has head and tail, and can be read on', async () => {
    const tools = new Tools(box, { outputBudget: 500 })
    const shown = (await tools.handle(use('run_shell', { command: 'seq 1000' }))).content[0].text as string
    const [, name, offset] = /read_output\(output='([^']+)', offset=(\d+)\)/.exec(shown) ?? []
    assert.ok(shown.startsWith('1\n2\n') && shown.endsWith('1000'))
    const on = (await tools.handle(use('read_output', { output: name, offset: Number(offset) }))).content[0].text as string
    assert.ok(on.length > 400)
  })
  test('an unknown tool and bad arguments are told', async () => {
    assert.match(await text('fly', {}), /there is no tool 'fly'/)
    assert.match(await text('__proto__', {}), /there is no tool/)
    assert.match(await text('run_code', { code: 'x', constructor: 1 }), /has no argument 'constructor'/)
  })
  test('something that is no call is thrown', async () => {
    await assert.rejects(box.tools.handle({ type: 'text' }), InvalidRequestError)
    await assert.rejects(box.tools.handle(null), InvalidRequestError)
    await assert.rejects(box.tools.handle({ type: 'tool_use', name: 'x' }), InvalidRequestError)
  })
  test('only some tools', () => {
    assert.deepEqual(box.tools.anthropic(['run_code']).map((tool) => tool.name), ['run_code'])
    assert.throws(() => box.tools.openai(['fly' as never]), InvalidRequestError)
    assert.throws(() => box.tools.openai('run_code' as never), InvalidRequestError)
  })
  test("OpenAI's shapes", async () => {
    const call = { id: 'c1', type: 'function', function: { name: 'run_shell', arguments: '{"command": "exit 3"}' } }
    assert.deepEqual(await box.tools.handleAll({ choices: [{ message: { tool_calls: [call] } }] }), [{ role: 'tool', tool_call_id: 'c1', content: 'error: [exit code 3]' }])
    const output = [{ type: 'function_call', call_id: 'r1', name: 'run_shell', arguments: '{"command": "echo x"}' }]
    assert.deepEqual(await box.tools.handleAll({ output }), [{ type: 'function_call_output', call_id: 'r1', output: 'x' }])
    const broken = { ...call, function: { name: 'run_shell', arguments: '{"command' } }
    assert.match((await box.tools.handle(broken)).content, /are not JSON/)
  })
  test('an answer without calls is done', async () => {
    assert.deepEqual(await box.tools.handleAll({ content: [{ type: 'text', text: 'done' }] }), [])
    assert.deepEqual(await box.tools.handleAll({ choices: [{ message: { content: 'done' } }] }), [])
    assert.deepEqual(await box.tools.handleAll('nonsense'), [])
  })
  test('an abort ends the call', async () => {
    await assert.rejects(box.tools.handle(use('run_shell', { command: 'sleep 600' }), { signal: AbortSignal.timeout(200) }), { name: 'TimeoutError' })
  })
})

/** A model that calls a tool once, and then says the result. */
async function model(answers: (body: any, turn: number) => unknown): Promise<{ url: string; close: () => void }> {
  let turn = 0
  const server = createServer(async (request, response) => {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece as Buffer)
    const answer = answers(JSON.parse(Buffer.concat(pieces).toString()), turn++)
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() }
}

describe("the providers' packages", () => {
  test('the loop of Anthropic', async () => {
    const { url, close } = await model((body, turn) => ({
      id: 'm', type: 'message', role: 'assistant', model: 'x', usage: { input_tokens: 1, output_tokens: 1 }, stop_sequence: null,
      ...(turn === 0
        ? { stop_reason: 'tool_use', content: [{ type: 'tool_use', id: 't', name: 'run_code', input: { code: 'print(6 * 7)' } }] }
        : { stop_reason: 'end_turn', content: [{ type: 'text', text: `it is ${body.messages.at(-1).content[0].content[0].text}` }] }),
    }))
    const client = new Anthropic({ apiKey: 'k', baseURL: url })
    const messages: Anthropic.MessageParam[] = [{ role: 'user', content: 'six times seven' }]
    for (let turn = 0; turn < 3; turn++) {
      const answer = await client.messages.create({ model: 'x', max_tokens: 100, tools: box.tools.anthropic(), messages })
      messages.push({ role: 'assistant', content: answer.content })
      const results = await box.tools.handleAll(answer)
      if (!results.length) break
      messages.push(...results)
    }
    close()
    assert.deepEqual(messages.at(-1)?.content, [{ type: 'text', text: 'it is 42' }])
  })
  test('the loop of OpenAI', async () => {
    const { url, close } = await model((body, turn) => ({
      id: 'c', object: 'chat.completion', created: 0, model: 'x',
      choices: [{
        index: 0, finish_reason: 'stop', logprobs: null,
        message: turn === 0
          ? { role: 'assistant', content: null, tool_calls: [{ id: 't', type: 'function', function: { name: 'run_code', arguments: '{"code": "print(6 * 7)"}' } }] }
          : { role: 'assistant', content: `it is ${body.messages.at(-1).content}` },
      }],
    }))
    const client = new OpenAI({ apiKey: 'k', baseURL: url })
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'six times seven' }]
    for (let turn = 0; turn < 3; turn++) {
      const answer = await client.chat.completions.create({ model: 'x', tools: box.tools.openai() as OpenAI.ChatCompletionTool[], messages })
      messages.push(answer.choices[0]!.message)
      const results = await box.tools.handleAll(answer)
      if (!results.length) break
      messages.push(...results)
    }
    close()
    assert.equal(messages.at(-1)?.content, 'it is 42')
  })
})
