/** Every example of the README and of the guide runs, and prints what its comments say. */

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { Volumes } from 'paddock'
import ts from 'typescript'

// Inside the package, where its own name leads to it.
const PLACE = join(process.cwd(), 'dist', 'examples')
mkdirSync(PLACE, { recursive: true })
after(async () => {
  rmSync(PLACE, { recursive: true, force: true })
  await new Volumes().remove('notes').catch(() => {})
})

for (const document of ['README.md', '../../docs/guides/typescript.md']) {
  describe(document, () => {
    const text = readFileSync(join(process.cwd(), document), 'utf8')
    const blocks = [...text.matchAll(/^```typescript\n(.*?)^```/gms)]
    test('has examples', () => assert.ok(blocks.length > 2))
    for (const [index, [, source = '']] of blocks.entries()) {
      test(`example ${index + 1}`, async () => {
        const options = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext }
        const file = join(PLACE, `${document.replaceAll('/', '-')}-${index}.mjs`)
        writeFileSync(file, ts.transpile(source, options))
        const { stdout } = await promisify(execFile)(process.execPath, [file])
        const expected = [...source.matchAll(/console\.log\(.*\/\/ (.*)$/gm)].map((match) => match[1])
        assert.deepEqual(stdout.trimEnd().split('\n'), expected)
      })
    }
  })
}
