/** Tools of a sandbox for the Vercel AI SDK: `generateText({ tools: aiTools(sandbox), ... })`. */

import { jsonSchema, tool, type Tool } from 'ai'
import type { Sandbox } from '../sandbox.js'
import { Tools, type ToolsOptions } from '../tools.js'
import { argumentsOf, BadCall } from '../tool-calls.js'
import type { ToolName } from '../tool-definitions.js'

export interface AiToolsOptions extends ToolsOptions {
  /** Offer only these. */
  only?: readonly ToolName[] | undefined
}

export type AiTools = Record<string, Tool<Record<string, unknown>, string>>

/** A set of tools with the names, the words and the bounds of `sandbox.tools`. A failure is told to the model in the result. */
export function aiTools(sandbox: Sandbox, options: AiToolsOptions = {}): AiTools {
  const tools = new Tools(sandbox, options)
  const made: AiTools = {}
  for (const { name, description, parameters } of tools.definitions(options.only)) {
    made[name] = tool({
      description,
      inputSchema: jsonSchema<Record<string, unknown>>(parameters as never, { validate: (value) => checked(name, value) }),
      execute: async (input: Record<string, unknown>, { abortSignal }: { abortSignal?: AbortSignal | undefined }): Promise<string> => {
        const { text, failed } = await tools.run(name, input, { signal: abortSignal })
        return failed ? `error: ${text}` : text
      },
    }) as Tool<Record<string, unknown>, string>
  }
  return made
}

function checked(name: ToolName, value: unknown): { success: true; value: Record<string, unknown> } | { success: false; error: Error } {
  try {
    return { success: true, value: argumentsOf(name, value) }
  } catch (error) {
    if (error instanceof BadCall) return { success: false, error }
    throw error
  }
}
