/**
 * A session of the harness as the sandbox of the real `ai` package and of a real HarnessAgent. The model of the one is scripted; so is
 * the adapter of the other, because adapters are packages of their own that start a vendor's agent with the vendor's model.
 */

import type { HarnessV1, HarnessV1StreamPart } from '@ai-sdk/harness'
import { HarnessAgent } from '@ai-sdk/harness/agent'
import { generateText, jsonSchema, stepCountIs, tool, type Experimental_SandboxSession } from 'ai'
import { MockLanguageModelV4 } from 'ai/test'
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { Sandbox } from 'paddock'
import { paddockSandbox, type PaddockSession } from 'paddock/ai-harness'

const USAGE = { inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 }, outputTokens: { total: 1, text: 1, reasoning: 0 } }
const provider = paddockSandbox({ create: { ttlMs: 120_000 } })

/** tsc checks this: a session, and what is given to tools, are what `ai` takes. */
const forAi = (session: PaddockSession): Experimental_SandboxSession[] => [session, session.restricted()]

/** A tool that has nothing but the sandbox that the package hands to it. */
const look = tool({
  description: 'Looks into a directory',
  inputSchema: jsonSchema<{ path: string }>({ type: 'object', properties: { path: { type: 'string' } }, required: ['path'] }),
  execute: async ({ path }, { experimental_sandbox: inside }) => {
    assert.ok(inside, 'the package hands the sandbox to its tools')
    const entries = (await inside.listDirectory({ path })) ?? []
    return entries.map(({ name, type }) => `${type} ${name}`).sort().join(', ')
  },
})
const remove = tool({
  description: 'Removes a file',
  inputSchema: jsonSchema<{ path: string }>({ type: 'object', properties: { path: { type: 'string' } }, required: ['path'] }),
  execute: async ({ path }, { experimental_sandbox: inside }) => String(await inside?.deleteFile({ path })),
})

describe('a session for tools', () => {
  let session: PaddockSession
  before(async () => {
    session = await provider.createSession()
    await session.run({ command: 'mkdir d; printf 12345 > d/f; ln -s f d/l; ln -s nowhere d/broken; mkfifo d/p; ln -s /etc d/out' })
  })
  after(() => session.destroy())

  test('stat tells files, directories and what links lead to', async () => {
    assert.deepEqual(await session.stat({ path: 'd/f' }), { type: 'file', size: 5 })
    assert.deepEqual(await session.stat({ path: '/workspace/d/l' }), { type: 'file', size: 5 })
    for (const path of ['d', 'd/out']) assert.equal((await session.stat({ path }))?.type, 'directory')
    assert.equal((await session.stat({ path: 'd/p' }))?.type, 'other')
    for (const path of ['nothing', 'd/broken', 'd/f/below']) assert.equal(await session.stat({ path }), null)
  })
  test('listDirectory does not descend, and shows links as links', async () => {
    await session.writeTextFile({ path: 'd/e/deep', content: 'x' })
    const entries = await session.listDirectory({ path: 'd' })
    const found = entries?.map(({ name, type }) => [name, type]).sort()
    assert.deepEqual(found, [['broken', 'symlink'], ['e', 'directory'], ['f', 'file'], ['l', 'symlink'], ['out', 'symlink'], ['p', 'other']])
    assert.equal(await session.listDirectory({ path: 'nothing' }), null)
    await assert.rejects(async () => session.listDirectory({ path: 'd/f' }), { code: 'not_a_directory' })
  })
  test('deleteFile deletes a file or a link, and no directory', async () => {
    await session.writeTextFile({ path: 'del/f', content: 'x' })
    await session.run({ command: 'ln -s f del/l; mkdir del/empty' })
    assert.equal(await session.deleteFile({ path: 'del/l' }), true)
    assert.equal(await session.readTextFile({ path: 'del/f' }), 'x')
    assert.equal(await session.deleteFile({ path: 'del/f' }), true)
    assert.equal(await session.deleteFile({ path: 'del/f' }), false)
    await assert.rejects(async () => session.deleteFile({ path: 'del/empty' }), { code: 'not_a_file' })
    assert.equal((await session.stat({ path: 'del/empty' }))?.type, 'directory')
  })
  test('a process has an input only where it is asked for', async () => {
    const cat = await session.spawn({ command: 'cat', stdin: true })
    const writer = cat.stdin.getWriter()
    await writer.write(new TextEncoder().encode('written'))
    await writer.close()
    assert.equal(await new Response(cat.stdout).text(), 'written')
    assert.deepEqual(await cat.wait(), { exitCode: 0 })
    const without = await session.spawn({ command: 'cat' })
    assert.equal('stdin' in without, false)
    assert.deepEqual(await without.wait(), { exitCode: 0 })
  })
  test('the restricted view has the same, and nothing of the infrastructure', async () => {
    const restricted = session.restricted()
    assert.deepEqual(await restricted.stat({ path: 'd/f' }), { type: 'file', size: 5 })
    for (const name of ['stop', 'destroy', 'setNetworkPolicy', 'getPortEndpoint', 'restricted']) assert.equal(name in restricted, false)
  })
  for (const kind of ['session', 'restricted view'] as const) {
    test(`generateText hands a ${kind} to its tools, call after call`, async () => {
      const [whole, restricted] = forAi(session) as [Experimental_SandboxSession, Experimental_SandboxSession]
      await session.run({ command: 'rm -rf g; mkdir g; echo x > g/old; echo y > g/kept' })
      const calls = [['look', { path: 'g' }], ['remove', { path: 'g/old' }], ['look', { path: 'g' }]] as const
      let turn = 0
      const model = new MockLanguageModelV4({
        doGenerate: async () => {
          const next = calls[turn++]
          const content = next
            ? [{ type: 'tool-call', toolCallId: `t${turn}`, toolName: next[0], input: JSON.stringify(next[1]) }]
            : [{ type: 'text', text: 'done' }]
          return { warnings: [], usage: USAGE, finishReason: { unified: next ? 'tool-calls' : 'stop', raw: 'x' }, content } as never
        },
      })
      const result = await generateText({
        model, tools: { look, remove }, experimental_sandbox: kind === 'session' ? whole : restricted, prompt: 'tidy up', stopWhen: stepCountIs(9),
      })
      assert.equal(result.text, 'done')
      const outputs = result.steps.flatMap((step) => step.toolResults.map((one) => one.output))
      assert.deepEqual(outputs, ['file kept, file old', 'true', 'file kept'])
      // The model was told what the tools said.
      assert.match(JSON.stringify(model.doGenerateCalls.at(-1)?.prompt), /"file kept"/)
    })
  }
})

/** An adapter that asks the agent for one tool call, runs a command itself, and says what both gave. */
function scripted(): HarnessV1 {
  return {
    specificationVersion: 'harness-v1',
    harnessId: 'scripted',
    builtinTools: {},
    getBootstrap: async () => ({
      harnessId: 'scripted',
      bootstrapDir: '/workspace/scripted',
      files: [{ path: 'scripted/bridge.txt', content: 'the bridge' }],
      commands: [{ command: 'cp /workspace/scripted/bridge.txt /workspace/scripted/installed' }],
    }),
    doStart: async ({ sessionId, sandboxSession, sessionWorkDir }) => {
      const state = { harnessId: 'scripted', specificationVersion: 'harness-v1', data: {} } as const
      const stopped = async () => ({ ...state, type: 'resume-session' }) as const
      const never = async (): Promise<never> => {
        throw new Error('the script does not come to this')
      }
      return {
        sessionId,
        isResume: false,
        doPromptTurn: async ({ emit }) => {
          let told: (output: unknown) => void
          const answered = new Promise<unknown>((resolve) => (told = resolve))
          const turn = async (): Promise<void> => {
            const finish = { finishReason: { unified: 'stop', raw: 'stop' }, usage: USAGE } as never as { finishReason: never; usage: never }
            const parts = (...all: unknown[]): void => all.forEach((part) => emit(part as HarnessV1StreamPart))
            await sandboxSession.writeTextFile({ path: `${sessionWorkDir}/note`, content: 'x' })
            parts({ type: 'stream-start' }, { type: 'tool-call', toolCallId: 'c1', toolName: 'look', input: JSON.stringify({ path: sessionWorkDir }) })
            const output = await answered
            const { stdout } = await sandboxSession.run({ command: 'cat scripted/installed' })
            const text = `${String(output)}; ${stdout}`
            parts({ type: 'text-start', id: 'a' }, { type: 'text-delta', id: 'a', delta: text }, { type: 'text-end', id: 'a' })
            parts({ type: 'finish-step', ...finish }, { type: 'finish', finishReason: finish.finishReason, totalUsage: finish.usage })
          }
          return { submitToolResult: async ({ output }) => told(output), done: turn() }
        },
        doCompact: never,
        doContinueTurn: never,
        doSuspendTurn: never,
        doDetach: stopped,
        doStop: stopped,
        doDestroy: async () => {},
      }
    },
  }
}

test('a HarnessAgent of the installed package runs in it: bootstrap, its own commands, a tool of the host, the end', async () => {
  // The two packages are pinned to different versions of the types of tools.
  const agent = new HarnessAgent({ harness: scripted(), tools: { look } as {}, sandbox: provider })
  const sessionId = `agent-${process.pid}`
  const session = await agent.createSession({ sessionId })
  const box = await Sandbox.connect(`harness-${sessionId}`)
  try {
    const result = await agent.generate({ prompt: 'look around', session })
    assert.equal(result.text, 'file note; the bridge')
  } finally {
    await session.destroy()
  }
  assert.equal((await box.info()).state, 'ended')
  // What the bootstrap left is kept for the next session of this adapter.
  const kept = (await box.client.snapshots()).filter((one) => one.sandbox === box.id)
  assert.equal(kept.length, 1)
  await box.client.deleteSnapshot(kept[0]!)
})

describe('the network policy', () => {
  test('a sandbox without rules has no link: opening it is refused with what to do, closing it is no change', async () => {
    const session = await provider.createSession()
    try {
      for (const policy of [{ mode: 'allow-all' }, { mode: 'custom', allowedHosts: ['a.example.org'] }] as const) {
        await assert.rejects(async () => session.setNetworkPolicy!(policy), {
          name: 'UnsupportedError', message: /made without a network, so that the policy (allow-all|custom)/, hint: /network: \{ allow: \[\] \}/,
        })
      }
      await session.setNetworkPolicy!({ mode: 'deny-all' })
      assert.equal((await (await Sandbox.connect(session.id)).network()).network, 'none')
    } finally {
      await session.destroy()
    }
  })
  test('one that was made with rules that allow nothing is opened and closed again', async () => {
    const session = await paddockSandbox({ create: { ttlMs: 60_000, network: { allow: [] } } }).createSession()
    try {
      const rules = async (): Promise<unknown> => (await (await Sandbox.connect(session.id)).network()).rules
      await session.setNetworkPolicy!({ mode: 'custom', allowedHosts: ['a.example.org'] })
      assert.deepEqual((await rules() as { allow: string[] }).allow, ['a.example.org'])
      await session.setNetworkPolicy!({ mode: 'deny-all' })
      assert.deepEqual((await rules() as { allow?: string[] }).allow ?? [], [])
    } finally {
      await session.destroy()
    }
  })
})
