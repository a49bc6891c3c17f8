// Writes src/generated from spec/openapi.json and from the tools that every part of Paddock offers to models. With --check it
// writes nothing, and fails where a file is not what it would write.
import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import openapiTS, { astToString } from 'openapi-typescript'

const repository = new URL('../../../', import.meta.url)
const generated = new URL('../src/generated/', import.meta.url)

/** Routes and bodies. `src/routes.ts` makes every request by them, so that tsc refuses one that the specification does not know. */
async function openapi() {
  const spec = JSON.parse(await readFile(new URL('spec/openapi.json', repository), 'utf8'))
  for (const operations of Object.values(spec.paths)) {
    for (const [method, operation] of Object.entries(operations)) operations[method] = whatIsTyped(operation)
  }
  const text = astToString(await openapiTS(spec, { alphabetize: true, defaultNonNullable: false }))
  // What is not there need not be said for each route.
  return text.replace(/^ +\w+\?: never;\n/gm, '').replace(/^ +headers: \{\n +\[name: string\]: unknown;\n +\};\n/gm, '')
}

/** Failures are read by `errors.ts`, all in one way, and headers by their names: with them the file would be four times as long. */
function whatIsTyped({ operationId, parameters = [], requestBody, responses }) {
  const answers = Object.entries(responses).filter(([status]) => status.startsWith('2'))
  return {
    operationId,
    parameters: parameters.filter((one) => one.in === 'path' || one.in === 'query').map(({ description, ...one }) => one),
    ...(requestBody ? { requestBody } : {}),
    responses: Object.fromEntries(answers.map(([status, { content }]) => [status, { description: '', ...(content ? { content } : {}) }])),
  }
}

async function tools() {
  const source = await readFile(new URL('sdk/python/src/paddock/_tools.json', repository), 'utf8')
  return `export const TOOLS = ${source.trim()} as const\n`
}

const files = {
  'openapi.ts': ['spec/openapi.json', await openapi()],
  'tools.ts': ['sdk/python/src/paddock/_tools.json', await tools()],
}
for (const [name, [source, text]] of Object.entries(files)) {
  const file = new URL(name, generated)
  const made = `// Made from ${source} by scripts/types.mjs; not for editing.\n\n${text}`
  if (!process.argv.includes('--check')) {
    await writeFile(file, made)
  } else if ((await readFile(file, 'utf8').catch(() => '')) !== made) {
    console.error(`${fileURLToPath(file)} is not what ${source} says: run \`npm run types\``)
    process.exitCode = 1
  }
}
