/** A model's tool calls, from each provider's shape and back to it. A model may write anything. */

import { InvalidRequestError, isObject, type PaddockError } from './errors.js'
import { KNOWN_TOOLS, type ParameterSchema } from './tool-definitions.js'

/** The model's mistake; the message is for the model. */
export class BadCall extends Error {}

export type Shape = 'anthropic' | 'openai' | 'openai-responses'

export interface Call {
  readonly shape: Shape
  readonly id: string
  readonly name: string
  /** As the model wrote them; `argumentsOf` checks them. */
  readonly given: unknown
}

export type Arguments = Record<string, string | number | boolean | undefined>

/** Checked against the tool's parameters. */
export function argumentsOf(name: string, value: unknown): Arguments {
  const tool = Object.hasOwn(KNOWN_TOOLS, name) ? KNOWN_TOOLS[name] : undefined
  if (!tool) throw new BadCall(`there is no tool '${name}'; the tools are ${Object.keys(KNOWN_TOOLS).join(', ')}`)
  const given = typeof value === 'string' ? parsed(name, value) : value
  if (!isObject(given)) throw new BadCall(`the arguments of ${name} are no object but ${kindOf(given)}`)
  const { parameters } = tool
  for (const argument of Object.keys(given)) {
    if (Object.hasOwn(parameters, argument)) continue
    throw new BadCall(`${name} has no argument '${argument}'; it takes ${Object.keys(parameters).join(', ')}`)
  }
  for (const argument of tool.required) {
    if (given[argument] !== undefined && given[argument] !== null) continue
    throw new BadCall(`${name} needs the argument '${argument}': ${(parameters[argument] as ParameterSchema).type}`)
  }
  const checked: Arguments = {}
  for (const [argument, one] of Object.entries(given)) {
    // Some models write null for what they leave out.
    if (one !== null && one !== undefined) checked[argument] = checkedValue(name, argument, one, parameters[argument] as ParameterSchema)
  }
  return checked
}

function parsed(name: string, text: string): unknown {
  try {
    return JSON.parse(text || '{}')
  } catch (error) {
    throw new BadCall(`the arguments of ${name} are not JSON: ${(error as Error).message}`)
  }
}

function checkedValue(tool: string, name: string, value: unknown, schema: ParameterSchema): string | number | boolean {
  const fits = {
    string: typeof value === 'string',
    boolean: typeof value === 'boolean',
    integer: Number.isInteger(value),
    number: typeof value === 'number',
  }[schema.type]
  if (!fits) throw new BadCall(`${name} of ${tool} is ${shown(value)}, not of type ${schema.type}`)
  if (schema.enum && !schema.enum.includes(value as string)) {
    throw new BadCall(`${name} of ${tool} is ${shown(value)}, not one of ${schema.enum.join(', ')}`)
  }
  if (schema.minimum !== undefined && !((value as number) >= schema.minimum)) {
    throw new BadCall(`${name} of ${tool} is ${shown(value)}; ${schema.minimum} is the least`)
  }
  if (schema.maximum !== undefined && (value as number) > schema.maximum) {
    throw new BadCall(`${name} of ${tool} is ${shown(value)}; ${schema.maximum} is the most`)
  }
  return value as string | number | boolean
}

/** In the words of the Python SDK and the command, which answer the same models. */
function kindOf(value: unknown): string {
  if (value === null || value === undefined) return 'NoneType'
  if (Array.isArray(value)) return 'list'
  if (typeof value === 'number') return Number.isInteger(value) ? 'int' : 'float'
  return typeof value === 'boolean' ? 'bool' : 'str'
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value)
  return text.length <= 80 ? text : `${text.slice(0, 77)}...`
}

/** A `tool_use` of Anthropic's, a tool call of OpenAI's chat completions, or a `function_call` of its responses. */
export function parseCall(block: unknown): Call {
  const fields = isObject(block) ? block : {}
  if (fields['type'] === 'tool_use') return call('anthropic', fields, 'id', fields, fields['input'])
  if (fields['type'] === 'function_call') return call('openai-responses', fields, 'call_id', fields, fields['arguments'])
  const inner = fields['function']
  if (isObject(inner)) return call('openai', fields, 'id', inner, inner['arguments'])
  throw new InvalidRequestError(`this is no tool call of a model: ${shown(block)}`, {
    hint: 'pass a tool_use block of a message, a tool call of a chat completion or a function_call of a response',
  })
}

function call(shape: Shape, block: Record<string, unknown>, id: string, named: Record<string, unknown>, given: unknown): Call {
  return { shape, id: textOf(block, id), name: textOf(named, 'name'), given }
}

function textOf(fields: Record<string, unknown>, name: string): string {
  const value = fields[name]
  if (typeof value === 'string' && value) return value
  throw new InvalidRequestError(`a tool call without ${name}: ${shown(fields)}`)
}

/** All tool calls of a model's answer, in their order. */
export function callsOf(answer: unknown): Call[] {
  let fields = isObject(answer) ? answer : {}
  const choices = fields['choices']
  if (Array.isArray(choices) && isObject(choices[0]) && isObject(choices[0]['message'])) fields = choices[0]['message']
  const called = fields['tool_calls']
  if (Array.isArray(called) && called.length) return called.map(parseCall)
  const blocks = fields['content'] ?? fields['output']
  if (!Array.isArray(blocks)) return []
  return blocks.filter((block) => isObject(block) && (block['type'] === 'tool_use' || block['type'] === 'function_call')).map(parseCall)
}

/** The result in the shape that its call came in. */
export function resultOf({ shape, id }: Call, text: string, failed: boolean): any {
  if (shape === 'anthropic') {
    return { type: 'tool_result', tool_use_id: id, content: [{ type: 'text', text }], is_error: failed }
  }
  // Nothing but the text says that it failed.
  const told = failed ? `error: ${text}` : text
  if (shape === 'openai') return { role: 'tool', tool_call_id: id, content: told }
  return { type: 'function_call_output', call_id: id, output: told }
}

/** An error of the server's, for the model. */
export function told(error: PaddockError): string {
  return error.hint ? `${error.message} (hint: ${error.hint})` : error.message
}
