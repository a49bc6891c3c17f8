/** The parts that need Node (or Bun, or Deno): sockets, processes and files of this host. */

import { readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'

export { packForCopy } from './archives.js'
export { defaultSocket, stateDirectory } from './location.js'
export { ensureRunning, findExecutable } from './starting.js'
export { download, upload } from './transfer.js'
export { makeWire } from './wire.js'

/** Absolute: the server's working directory is not the caller's. */
export function absolutePath(path: string): string {
  return resolve(path === '~' || path.startsWith('~/') ? join(homedir(), path.slice(1)) : path)
}

export async function readSecretFile(path: string): Promise<string> {
  return (await readFile(absolutePath(path), 'utf8')).replace(/[\r\n]+$/, '')
}
