// Runs the cases of every cases*.mjs of a directory, in the order of the files' names. One line of JSON for each case.
//
//     node run.mjs DIRECTORY [WORD...]
//
// Only cases whose name holds one of the words run, where there are words.
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { Skip, cases, endShared } from './world.mjs'

const TIME_LIMIT_MS = 60_000
const [directory, ...words] = process.argv.slice(2)

function within(promise, limit) {
  let timer
  const late = new Promise((_, fail) => { timer = setTimeout(() => fail(new Error(`it took longer than ${limit} ms`)), limit) })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

const files = readdirSync(directory).filter((name) => /^cases.*\.mjs$/.test(name)).sort()
for (const file of files) await import(path.join(directory, file))

let failed = 0
for (const [name, run] of cases) {
  if (words.length && !words.some((word) => `node.${name}`.includes(word))) continue
  const began = performance.now()
  try {
    await within(run(), TIME_LIMIT_MS)
    console.log(JSON.stringify({ name, ok: true, seconds: (performance.now() - began) / 1000 }))
  } catch (error) {
    if (error instanceof Skip) {
      console.log(`SKIP ${error.message}`)
      continue
    }
    failed += 1
    console.log(JSON.stringify({ name, ok: false, error: String(error?.stack ?? error) }))
  }
}
await endShared()
process.exit(failed ? 1 : 0)
