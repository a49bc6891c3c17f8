// Shared by the cases for Node: the SDKs, unmodified, the list of cases, and sandboxes that several cases use.
import assert from 'node:assert/strict'
import path from 'node:path'
import { createRequire } from 'node:module'

const place = process.env.PADDOCK_TEST_E2B_NODE
const require = createRequire(path.join(place, 'x.js'))

export const e2b = require(path.join(place, 'e2b'))
export const { Sandbox } = e2b
export const { Sandbox: Interpreter } = require(path.join(place, '@e2b/code-interpreter'))
export const keys = { own: process.env.E2B_API_KEY, other: process.env.OTHER_KEY, reading: process.env.READING_KEY }
export const address = process.env.E2B_API_URL
export { assert }

export const cases = []

// The cases of one file: `const test = subject('files')`, then `test('a_name', async () => ...)`.
export const subject = (file) => (name, run) => cases.push([`${file}.${name}`, run])

// Thrown by a case whose host lacks what it is about. The message begins with the component of scripts/test.py that is then not tested.
export class Skip extends Error {}

const made = {}

const once = (name, make) => async () => {
  made[name] ??= make()
  return made[name]
}

// One for cases that leave it as it is, and one with code contexts.
export const sharedSandbox = once('sandbox', () => Sandbox.create({ timeoutMs: 600_000 }))
export const sharedInterpreter = once('interpreter', () => Interpreter.create({ timeoutMs: 600_000 }))

export async function endShared() {
  for (const one of Object.values(made)) await (await one).kill()
}

export const wait = (ms) => new Promise((done) => setTimeout(done, ms))

// Asks until the answer is one that counts, or until patience ends; a case then fails by what it got last.
export async function until(ask, isEnough, patienceMs = 10_000) {
  const end = Date.now() + patienceMs
  for (;;) {
    const answer = await ask()
    if (isEnough(answer) || Date.now() > end) return answer
    await wait(25)
  }
}

// A sandbox of its own for one case, which ends with it.
export async function withSandbox(options, use) {
  const sandbox = await Sandbox.create(options)
  try {
    return await use(sandbox)
  } finally {
    await Sandbox.kill(sandbox.sandboxId)
  }
}
