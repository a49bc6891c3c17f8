/** Files and directories of this host, to a sandbox and back. */

import { createReadStream } from 'node:fs'
import { mkdir, mkdtemp, open, rename, rm, stat, type FileHandle } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { LONG_PATIENCE_MS, type Client } from '../client.js'
import { FilesystemError, PaddockError } from '../errors.js'
import { open as openRoute, request } from '../routes.js'
import { pauseMs, sleep } from '../retrying.js'
import { WireError } from '../wire.js'
import { pack, tooLarge, unpack } from './archives.js'

export interface Place {
  readonly client: Client
  /** The sandbox. */
  readonly at: { readonly id: string }
  readonly remote: string
  readonly user: string | undefined
  readonly signal: AbortSignal | undefined
}

/** A file to the path `remote`, or the content of a directory into the directory `remote`, which exists. */
export async function upload(local: string, place: Place, makeDirectory: () => Promise<unknown>): Promise<void> {
  return locally(async () => {
    const found = await stat(local)
    const { client, remote, user, signal } = place
    const options = { at: place.at, repeatable: true, patienceMs: LONG_PATIENCE_MS, signal }
    if (!found.isDirectory()) {
      await request(client, 'PUT /v1/sandboxes/{id}/files/content', {
        query: { path: remote, mode: (found.mode & 0o777).toString(8), parents: true, user }, body: () => createReadStream(local), ...options,
      })
      return
    }
    await makeDirectory()
    await request(client, 'PUT /v1/sandboxes/{id}/files/archive', {
      query: { path: remote, user }, headers: { 'content-type': 'application/x-tar' }, body: () => pack(local), ...options,
    })
  })
}

export interface DownloadOptions {
  readonly isDirectory: boolean
  readonly skipUnsafeLinks: boolean
  readonly maxBytes: number
}

export async function download(local: string, place: Place, options: DownloadOptions): Promise<void> {
  const target = resolve(local)
  return locally(async () => {
    if (!options.isDirectory) return downloadFile(target, place, options.maxBytes)
    const directory = await mkdtemp(join(tmpdir(), 'paddock-download-'))
    try {
      const archive = join(directory, 'archive.tar')
      await fetchInto(archive, 'archive', place, options.maxBytes)
      await unpack(createReadStream(archive), target, options)
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  })
}

async function downloadFile(target: string, place: Place, maxBytes: number): Promise<void> {
  await mkdir(dirname(target), { recursive: true })
  const part = join(dirname(target), `.paddock-${crypto.randomUUID()}.part`)
  try {
    await fetchInto(part, 'content', place, maxBytes)
    await rename(part, target)
  } catch (error) {
    await rm(part, { force: true })
    throw error
  }
}

/** All of an answer into a new file; begun anew when it breaks off. */
async function fetchInto(path: string, kind: 'archive' | 'content', place: Place, maxBytes: number): Promise<void> {
  const file = await open(path, 'wx', 0o600)
  try {
    for (let failures = 0; ; failures++) {
      try {
        await file.truncate(0)
        return await fetchOnce(file, kind, place, maxBytes)
      } catch (error) {
        if (!(error instanceof WireError)) throw error
        if (failures >= place.client.retry.retries) throw await place.client.connectionFailed(error)
        await sleep(pauseMs(place.client.retry, failures), place.signal)
      }
    }
  } finally {
    await file.close()
  }
}

async function fetchOnce(file: FileHandle, kind: 'archive' | 'content', place: Place, maxBytes: number): Promise<void> {
  const { client, remote, user, signal } = place
  const asked = { at: place.at, query: { path: remote, user }, signal }
  const answer = await openRoute(client, `GET /v1/sandboxes/{id}/files/${kind}`, asked)
  let at = 0
  try {
    for await (const piece of answer.pieces) {
      if (at + piece.length > maxBytes) throw tooLarge(maxBytes)
      await file.write(piece, 0, piece.length, at)
      at += piece.length
    }
  } finally {
    answer.close()
  }
}

async function locally<T>(action: () => Promise<T>): Promise<T> {
  try {
    return await action()
  } catch (error) {
    const system = error as NodeJS.ErrnoException
    if (error instanceof PaddockError || typeof system.syscall !== 'string') throw error
    throw new FilesystemError(`on this host: ${system.message}`, { code: 'local_file_error', cause: error })
  }
}
