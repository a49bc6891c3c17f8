// Builds dist/esm with tsc, and dist/cjs from the same sources, which tsc has checked by then. The package file in dist/cjs makes
// its files CommonJS for Node and for tsc.
import { spawnSync } from 'node:child_process'
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const [source, esm, cjs] = ['src', 'dist/esm', 'dist/cjs'].map((name) => join(root, name))
// They import packages that are ESM only.
const ESM_ONLY = ['providers/ai.ts', 'providers/ai-harness.ts']

await rm(join(root, 'dist'), { recursive: true, force: true })
const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc')
const { status } = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.json'], { cwd: root, stdio: 'inherit' })
if (status !== 0) process.exit(status ?? 1)

const compilerOptions = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.CommonJS, esModuleInterop: true }
for (const name of await readdir(source, { recursive: true })) {
  if (!name.endsWith('.ts') || ESM_ONLY.includes(name)) continue
  const { outputText } = ts.transpileModule(await readFile(join(source, name), 'utf8'), { compilerOptions, fileName: name })
  const made = join(cjs, name.replace(/\.ts$/, '.js'))
  await mkdir(dirname(made), { recursive: true })
  await writeFile(made, outputText)
  const types = name.replace(/\.ts$/, '.d.ts')
  await cp(join(esm, types), join(cjs, types))
}
await writeFile(join(cjs, 'package.json'), JSON.stringify({ type: 'commonjs' }))
