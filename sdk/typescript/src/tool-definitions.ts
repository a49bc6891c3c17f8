/** The tools that a model may call. Their data is shared with the Python SDK and the command; this only fills it in. */

import { InvalidRequestError } from './errors.js'
import { TOOLS } from './generated/tools.js'
import type { SandboxInfo } from './models.js'

export type ToolName = keyof typeof TOOLS

export interface ParameterSchema {
  readonly type: 'string' | 'boolean' | 'integer' | 'number'
  readonly description: string
  readonly enum?: readonly string[]
  readonly minimum?: number
  readonly maximum?: number
}

export interface Tool {
  readonly description: string
  readonly parameters: Readonly<Record<string, ParameterSchema>>
  readonly required: readonly string[]
}

export const KNOWN_TOOLS: Readonly<Record<string, Tool>> = TOOLS

/** A tool in no provider's shape: name, description and JSON schema. */
export interface ToolDefinition {
  readonly name: ToolName
  readonly description: string
  readonly parameters: {
    readonly type: 'object'
    readonly properties: Readonly<Record<string, ParameterSchema>>
    readonly required: string[]
    readonly additionalProperties: false
  }
}

/** Commands start and relative paths begin there. */
const WORKING_DIRECTORY = '/workspace'

/** Definitions that tell what this very sandbox allows; `only` some of them by name. */
export function definitions(info: SandboxInfo, timeoutSeconds: number, only?: readonly string[]): ToolDefinition[] {
  const words: Record<string, string> = {
    state: 'Variables, imports and files of earlier calls are still there, for each language its own.',
    network: networkWords(info.guarantees['network']),
    limits: limitWords(info.limits),
    directory: WORKING_DIRECTORY,
    timeout: String(timeoutSeconds),
  }
  return chosen(only).map((name) => definition(name, words))
}

function chosen(only: readonly string[] | undefined): ToolName[] {
  const names = Object.keys(KNOWN_TOOLS) as ToolName[]
  if (only === undefined) return names
  if (!Array.isArray(only)) throw new InvalidRequestError(`only is ${JSON.stringify(only)}, not a list`, { hint: `write only: [${JSON.stringify(only)}]` })
  for (const name of only) {
    if (!Object.hasOwn(KNOWN_TOOLS, name)) throw new InvalidRequestError(`there is no tool '${name}'`, { hint: `the tools are ${names.join(', ')}` })
  }
  return names.filter((name) => only.includes(name))
}

function definition(name: ToolName, words: Record<string, string>): ToolDefinition {
  const tool = KNOWN_TOOLS[name] as Tool
  const properties = Object.entries(tool.parameters).map(([parameter, schema]) => [
    parameter, { ...schema, description: filled(schema.description, words) },
  ])
  return {
    name,
    description: filled(tool.description, words),
    parameters: { type: 'object', properties: Object.fromEntries(properties), required: [...tool.required], additionalProperties: false },
  }
}

function networkWords(network: unknown): string {
  if (network === 'none') return 'There is no network: do not try to download or install anything.'
  if (network === 'host') return 'The network of the host can be reached.'
  if (network === 'gate') return 'Only some hosts can be reached; a refusal names the one that was refused.'
  return network ? `Network: ${String(network)}.` : ''
}

function limitWords(limits: Readonly<Record<string, unknown>>): string {
  const said: string[] = []
  if (limits['memory']) said.push(`${size(Number(limits['memory']))} of memory`)
  if (limits['cpus']) said.push(`${Number(limits['cpus'])} processors`)
  if (limits['disk']) said.push(`${size(Number(limits['disk']))} of disk`)
  return said.length ? `It has ${said.join(', ')}.` : ''
}

function size(count: number): string {
  for (const [unit, step] of [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]] as const) {
    if (count >= step) return `${Number((count / step).toFixed(2))} ${unit}`
  }
  return `${count} bytes`
}

function filled(text: string, words: Record<string, string>): string {
  let made = text
  for (const [word, meaning] of Object.entries(words)) made = made.replaceAll(`{${word}}`, meaning)
  return made.split(/\s+/).filter(Boolean).join(' ')
}
