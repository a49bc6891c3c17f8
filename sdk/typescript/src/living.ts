/** Sandboxes that somebody may have ended: for the providers, whose frameworks take that for no error. */

import type { ServerOptions } from './client.js'
import { SandboxEndedError, SandboxNotFoundError } from './errors.js'
import { Sandbox } from './sandbox.js'

/** The sandbox of this id or name, unless it has ended or there never was one. */
export async function findLiving(idOrName: string, options: ServerOptions = {}): Promise<Sandbox | undefined> {
  try {
    const found = await Sandbox.connect(idOrName, options)
    return found.state === 'ended' ? undefined : found
  } catch (error) {
    if (error instanceof SandboxNotFoundError) return undefined
    throw error
  }
}

/** It runs when this resolves, also where it slept. */
export async function awake(sandbox: Sandbox, signal?: AbortSignal): Promise<void> {
  if (sandbox.state === 'hibernated') await sandbox.wake({ signal })
  if (sandbox.state === 'paused') await sandbox.resume({ signal })
}

/** An action that ends a sandbox, or lets it sleep. */
export async function unlessGone(action: Promise<unknown>): Promise<void> {
  try {
    await action
  } catch (error) {
    if (!isGone(error)) throw error
  }
}

export function isGone(error: unknown): boolean {
  return error instanceof SandboxEndedError || error instanceof SandboxNotFoundError
}
