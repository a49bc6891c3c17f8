/** A sandbox as tools of a model: definitions for the provider, and answers to the model's calls. */

import { decode } from './bytes.js'
import { NotAFileError, PaddockError } from './errors.js'
import type { FileEntry } from './models.js'
import type { Sandbox } from './sandbox.js'
import { argumentsOf, BadCall, callsOf, parseCall, resultOf, told, type Arguments, type Call } from './tool-calls.js'
import { definitions, type ToolDefinition, type ToolName } from './tool-definitions.js'
import { edited, LARGEST_FILE, ofEntries, ofExecution, ofFile, ofResult, OUTPUT_BUDGET, Outputs, type Told } from './tool-texts.js'

/** Entries of a directory in one answer. */
const MOST_ENTRIES = 500
const SMALLEST_BUDGET = 200

export interface ToolsOptions {
  /** Characters of one answer. A longer one comes with its head and its tail, and can be read on. */
  outputBudget?: number | undefined
  /** Of a call that names none. */
  timeoutMs?: number | undefined
}

export interface ToolCallOptions {
  /** Ends the call's command or code. */
  signal?: AbortSignal | undefined
}

/** A tool of Anthropic's messages. */
export interface AnthropicTool {
  name: ToolName
  description: string
  input_schema: { type: 'object'; properties: Record<string, unknown>; required: string[]; additionalProperties: false }
}

/** A tool of OpenAI's chat completions, and of whoever speaks like it. */
export interface OpenAITool {
  type: 'function'
  function: { name: ToolName; description: string; parameters: Record<string, unknown> }
}

/** A tool of OpenAI's responses. */
export interface OpenAIResponsesTool {
  type: 'function'
  name: ToolName
  description: string
  parameters: Record<string, unknown>
  strict: false
}

/**
 * The tools of one sandbox:
 *
 *     const answer = await anthropic.messages.create({ tools: sandbox.tools.anthropic(), messages, ... })
 *     messages.push({ role: 'assistant', content: answer.content }, ...(await sandbox.tools.handleAll(answer)))
 *
 * Calls are answered one after the other, in the model's order. A failure is told to the model in the result's text; only a mistake
 * of the program itself is thrown.
 */
export class Tools {
  readonly #sandbox: Sandbox
  readonly #budget: number
  readonly #timeoutMs: number
  readonly #outputs: Outputs

  constructor(sandbox: Sandbox, options: ToolsOptions = {}) {
    this.#sandbox = sandbox
    this.#budget = Math.max(options.outputBudget ?? OUTPUT_BUDGET, SMALLEST_BUDGET)
    this.#timeoutMs = options.timeoutMs ?? 120_000
    this.#outputs = new Outputs(this.#budget)
  }

  /** In no provider's shape; `only` some of them by name. */
  definitions(only?: readonly ToolName[]): ToolDefinition[] {
    return definitions(this.#sandbox.lastInfo, this.#timeoutMs / 1000, only)
  }

  /** For the `tools` of Anthropic's messages. */
  anthropic(only?: readonly ToolName[]): AnthropicTool[] {
    return this.definitions(only).map(({ name, description, parameters }) => ({ name, description, input_schema: parameters }))
  }

  /** For the `tools` of OpenAI's chat completions. */
  openai(only?: readonly ToolName[]): OpenAITool[] {
    return this.definitions(only).map((definition) => ({ type: 'function', function: definition }))
  }

  /** For the `tools` of OpenAI's responses. Not strict: that would make every parameter a required one. */
  openaiResponses(only?: readonly ToolName[]): OpenAIResponsesTool[] {
    return this.definitions(only).map((definition) => ({ type: 'function', ...definition, strict: false }))
  }

  /**
   * Answers one tool call, in the shape of the provider that the call is of: a `tool_use` block of Anthropic's, a tool call of
   * OpenAI's chat completions, or a `function_call` of its responses.
   */
  async handle(block: unknown, options: ToolCallOptions = {}): Promise<any> {
    return this.#answer(parseCall(block), options)
  }

  /**
   * Answers every tool call of a model's answer; returns the messages to append to the conversation, after the answer. Empty where
   * the model called nothing: then it is done.
   */
  async handleAll(answer: unknown, options: ToolCallOptions = {}): Promise<any[]> {
    const calls = callsOf(answer)
    const results: unknown[] = []
    for (const call of calls) results.push(await this.#answer(call, options))
    return calls[0]?.shape === 'anthropic' ? [{ role: 'user', content: results }] : results
  }

  /** Runs a tool by its name; a failure is told in the text. */
  async run(name: string, given: unknown, options: ToolCallOptions = {}): Promise<Told> {
    try {
      return await this.#run(name as ToolName, argumentsOf(name, given), options)
    } catch (error) {
      if (error instanceof BadCall) return { text: error.message, failed: true }
      if (error instanceof PaddockError) return { text: told(error), failed: true }
      throw error
    }
  }

  async #answer(call: Call, options: ToolCallOptions): Promise<unknown> {
    const { text, failed } = await this.run(call.name, call.given, options)
    return resultOf(call, text, failed)
  }

  async #run(name: ToolName, given: Arguments, options: ToolCallOptions): Promise<Told> {
    switch (name) {
      case 'run_code':
        return this.#runCode(given, options)
      case 'run_shell':
        return this.#runShell(given, options)
      case 'read_file':
        return this.#readFile(given)
      case 'write_file':
        return this.#writeFile(given)
      case 'edit_file':
        return this.#editFile(given)
      case 'list_files':
        return this.#listFiles(given)
      case 'read_output':
        return good(this.#outputs.piece(given['output'] as string, given['offset'] as number))
    }
  }

  async #runCode(given: Arguments, options: ToolCallOptions): Promise<Told> {
    const language = (given['language'] ?? 'python') as string
    const execution = await this.#sandbox.runCode(given['code'] as string, { language, timeoutMs: this.#limit(given), ...options })
    return ofExecution(execution, this.#outputs)
  }

  async #runShell(given: Arguments, options: ToolCallOptions): Promise<Told> {
    const cwd = given['cwd'] as string | undefined
    const result = await this.#sandbox.commands.run(given['command'] as string, { cwd, timeoutMs: this.#limit(given), ...options })
    return ofResult(result, this.#outputs)
  }

  #limit(given: Arguments): number {
    return given['timeout_seconds'] === undefined ? this.#timeoutMs : Number(given['timeout_seconds']) * 1000
  }

  async #readFile(given: Arguments): Promise<Told> {
    const path = given['path'] as string
    const [start, lines] = [given['start_line'] ?? 1, given['lines']] as [number, number | undefined]
    return good(ofFile(await this.#content(path), path, start, lines, this.#budget))
  }

  async #writeFile(given: Arguments): Promise<Told> {
    const written = await this.#sandbox.files.write(given['path'] as string, given['content'] as string)
    return good(`[wrote ${written.size} bytes to ${written.path}]`)
  }

  async #editFile(given: Arguments): Promise<Told> {
    const path = given['path'] as string
    let before: string
    try {
      before = decode(await this.#content(path), { fatal: true })
    } catch (error) {
      if (error instanceof TypeError) throw new BadCall(`${path} is no text: use run_shell to change it`)
      throw error
    }
    const [old, replacement] = [given['old_text'], given['new_text']] as [string, string]
    const { text, count } = edited(before, path, old, replacement, Boolean(given['replace_all']))
    const entry = await this.#sandbox.files.stat(path)
    await this.#sandbox.files.write(path, text, { mode: entry.mode & 0o7777 })
    return good(`[replaced ${count} time${count > 1 ? 's' : ''} in ${path}]`)
  }

  async #listFiles(given: Arguments): Promise<Told> {
    const path = (given['path'] ?? '.') as string
    const entries: FileEntry[] = []
    let more = false
    for await (const entry of this.#sandbox.files.walk(path, { recursive: Boolean(given['recursive']) })) {
      more = entries.length === MOST_ENTRIES
      if (more) break
      entries.push(entry)
    }
    return good(this.#outputs.shown(ofEntries(entries, path, more)))
  }

  async #content(path: string): Promise<Uint8Array> {
    const entry = await this.#sandbox.files.stat(path)
    if (entry.kind === 'directory') throw new NotAFileError(`${path} is a directory`, { hint: 'list_files shows its content' })
    const content = await this.#sandbox.files.read(path, { format: 'bytes', length: LARGEST_FILE + 1 })
    if (content.length <= LARGEST_FILE) return content
    throw new BadCall(`${path} is larger than ${LARGEST_FILE >> 20} MiB: use run_shell with sed, grep or head`)
  }
}

function good(text: string): Told {
  return { text, failed: false }
}
