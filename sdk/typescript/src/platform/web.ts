/** Stands for `node.ts` in bundles for browsers and edge runtimes. */

import type { Location } from '../location.js'
import { needsNode } from '../platform.js'
import type { Wire } from '../wire.js'
import { FetchWire } from '../wire-fetch.js'

function refuse(purpose: string): () => never {
  return () => {
    throw needsNode(purpose)
  }
}

export const defaultSocket = refuse('a local server')
export const ensureRunning = refuse('starting a server')
export const upload = refuse('an upload from a path')
export const download = refuse('a download to a path')
export const packForCopy = refuse('an archive of files of this host')
export const absolutePath = refuse('a path of this host')
export const readSecretFile = refuse('a secret of a file')

/** An edge runtime may show the versions of Node without its sockets, as workerd does for `nodejs_compat`. */
export function makeWire(location?: Location): Wire {
  if (!location || location.socket !== undefined) throw needsNode('a unix socket')
  return new FetchWire(location.baseUrl)
}
