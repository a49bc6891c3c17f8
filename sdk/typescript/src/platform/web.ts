/** Stands for `node.ts` in bundles for browsers and edge runtimes. */

import { needsNode } from '../platform.js'

function refuse(purpose: string): () => never {
  return () => {
    throw needsNode(purpose)
  }
}

export const defaultSocket = refuse('a local server')
export const ensureRunning = refuse('starting a server')
export const makeWire = refuse('a unix socket')
export const upload = refuse('an upload from a path')
export const download = refuse('a download to a path')
export const packForCopy = refuse('an archive of files of this host')
export const absolutePath = refuse('a path of this host')
export const readSecretFile = refuse('a secret of a file')
