/** The runtime below: only Node and its relatives have files, processes and unix sockets. */

import { UnsupportedError } from './errors.js'

export type NodePlatform = typeof import('./platform/node.js')

let loaded: Promise<NodePlatform> | undefined

/** True if the modules of Node are there, as in Bun and Deno. */
export function hasNode(): boolean {
  const versions = (globalThis as { process?: { versions?: { node?: string } } }).process?.versions
  return typeof versions?.node === 'string'
}

/** The parts that need Node. Loaded late: bundles for browsers leave them out (`browser` in package.json). */
export async function nodePlatform(purpose: string): Promise<NodePlatform> {
  if (!hasNode()) throw needsNode(purpose)
  loaded ??= import('./platform/node.js')
  return loaded
}

export function needsNode(purpose: string): UnsupportedError {
  return new UnsupportedError(`${purpose} needs Node, Bun or Deno, and this runtime has none of their modules`, {
    hint: 'give a Client an http:// or https:// URL and a token, and hand over content instead of local paths',
  })
}

export function environment(name: string): string | undefined {
  const process = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process
  // Deno asks its user before it shows a variable, and throws where that is denied.
  try {
    return process?.env?.[name] || undefined
  } catch {
    return undefined
  }
}
