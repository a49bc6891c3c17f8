/**
 * Directories as tar. The content of a sandbox is hostile: nothing of it may land outside the target.
 *
 * - Names are relative and without `..`; only files, directories and links are unpacked, with owner and set-id dropped.
 * - Nothing is written through a link: every directory above a member is looked at before.
 * - Symbolic links are made last, and point to `../` (never above the target) followed by plain names, so that a chain of
 *   links cannot leave either. A `..` behind a name is refused: its meaning depends on other links.
 */

import { constants, createReadStream, type Stats } from 'node:fs'
import { chmod, copyFile, lstat, mkdir, open, opendir, readlink, stat, symlink, unlink } from 'node:fs/promises'
import { basename, join, posix } from 'node:path'
import { FilesystemError, UnsafeArchiveError } from '../errors.js'
import { endOfArchive, fillOf, header, TarReader, type Member } from './tar.js'

export interface UnpackOptions {
  readonly skipUnsafeLinks: boolean
  readonly maxBytes: number
}

/** A tar of all below `directory`: files, directories and links; sockets, pipes and devices are left out. */
export async function* pack(directory: string): AsyncGenerator<Uint8Array> {
  yield* packBelow(directory, '')
  yield endOfArchive()
}

/** The archive of a step that copies this file, or what is in this directory, and its name in there. The same files make the same bytes. */
export async function packForCopy(local: string): Promise<{ name: string, archive: Uint8Array }> {
  try {
    const found = await stat(local)
    const isDirectory = found.isDirectory()
    const pieces: Uint8Array[] = []
    for await (const piece of isDirectory ? pack(local) : packAlone(local, found)) pieces.push(piece)
    return { name: isDirectory ? '.' : basename(local), archive: Buffer.concat(pieces) }
  } catch (error) {
    throw new FilesystemError(`cannot read ${local}: ${error instanceof Error ? error.message : String(error)}`, { code: 'local_file_error', cause: error })
  }
}

async function* packAlone(path: string, found: Stats): AsyncGenerator<Uint8Array> {
  if (!found.isFile()) throw new Error('it is a device, a pipe or a socket, and cannot be copied into a template')
  yield* packFile(path, { kind: 'file', name: basename(path), linkName: '', size: found.size, mode: found.mode & 0o777 })
  yield endOfArchive()
}

async function* packBelow(directory: string, prefix: string): AsyncGenerator<Uint8Array> {
  const names: string[] = []
  for await (const entry of await opendir(join(directory, prefix))) names.push(entry.name)
  for (const name of names.sort()) {
    const inside = prefix ? posix.join(prefix, name) : name
    const path = join(directory, inside)
    const found = await lstat(path)
    const member = { name: inside, linkName: '', size: 0, mode: found.mode & 0o777 }
    if (found.isDirectory()) {
      yield header({ ...member, kind: 'directory', name: `${inside}/` })
      yield* packBelow(directory, inside)
    } else if (found.isSymbolicLink()) {
      yield header({ ...member, kind: 'symlink', linkName: await readlink(path) })
    } else if (found.isFile()) {
      yield* packFile(path, { ...member, kind: 'file', size: found.size })
    }
  }
}

/** Exactly as many bytes as the header says, also of a file that grows or shrinks meanwhile. */
async function* packFile(path: string, member: Member): AsyncGenerator<Uint8Array> {
  yield header(member)
  let left = member.size
  if (left > 0) {
    for await (const piece of createReadStream(path, { end: left - 1 })) {
      yield piece as Uint8Array
      left -= (piece as Uint8Array).length
    }
  }
  for (; left > 0; left -= Math.min(left, 1 << 16)) yield new Uint8Array(Math.min(left, 1 << 16))
  yield fillOf(member.size)
}

/** Unpacks a tar below `root`, which is made if need be. */
export async function unpack(source: AsyncIterable<Uint8Array>, root: string, options: UnpackOptions): Promise<void> {
  const reader = new TarReader(source)
  try {
    await unpackMembers(reader, root, options)
  } finally {
    await reader.close()
  }
}

async function unpackMembers(reader: TarReader, root: string, options: UnpackOptions): Promise<void> {
  await mkdir(root, { recursive: true })
  const links: { parts: string[]; target: string }[] = []
  const modes: { path: string; mode: number }[] = []
  let left = options.maxBytes
  for (let member = await reader.next(); member; member = await reader.next()) {
    const parts = partsOf(member.name)
    if (parts.length === 0) continue
    if (member.kind === 'symlink') {
      if (linkIsSafe(member.linkName, parts.length - 1)) links.push({ parts, target: member.linkName })
      else if (!options.skipUnsafeLinks) throw unsafeLink(member)
      continue
    }
    const path = await below(root, parts)
    if (member.kind === 'directory') {
      await makeDirectory(path)
      modes.push({ path, mode: member.mode })
    } else if (member.kind === 'file') {
      left -= member.size
      if (left < 0) throw tooLarge(options.maxBytes)
      await writeFile(reader, member, path)
    } else if (member.kind === 'hardlink') {
      await copyLinked(root, member, path)
    } else {
      throw new UnsafeArchiveError(`'${member.name}' is neither a file, a directory nor a link`)
    }
  }
  for (const { parts, target } of links) {
    const path = await below(root, parts)
    await removeOld(path)
    await symlink(target, path)
  }
  for (const { path, mode } of modes.reverse()) await chmod(path, (mode & 0o755) | 0o700)
}

function unsafeLink(member: Member): UnsafeArchiveError {
  return new UnsafeArchiveError(`the link '${member.name}' points to '${member.linkName}', which may be outside`, {
    hint: "download with unsafeLinks: 'skip' to leave such links out",
  })
}

export function tooLarge(maxBytes: number): UnsafeArchiveError {
  return new UnsafeArchiveError(`the download is more than ${maxBytes} bytes`, {
    hint: 'raise maxBytes if that much is expected',
  })
}

export function partsOf(name: string): string[] {
  const parts = name.split('/').filter((part) => part !== '' && part !== '.')
  if (name.startsWith('/') || parts.includes('..') || name.includes('\0')) {
    throw new UnsafeArchiveError(`the archive holds a path that leads outside: ${JSON.stringify(name)}`)
  }
  return parts
}

export function linkIsSafe(target: string, depth: number): boolean {
  if (!target || target.startsWith('/') || target.includes('\0')) return false
  const parts = target.split('/').filter((part) => part !== '' && part !== '.')
  let ups = 0
  while (parts[ups] === '..') ups++
  return ups <= depth && !parts.slice(ups).includes('..')
}

/** The path, with the directories above it made, none of which is a link. */
async function below(root: string, parts: readonly string[]): Promise<string> {
  let above = root
  for (const part of parts.slice(0, -1)) {
    above = join(above, part)
    await makeDirectory(above)
  }
  return join(above, parts[parts.length - 1] as string)
}

async function makeDirectory(path: string): Promise<void> {
  const found = await lookAt(path)
  if (!found) return mkdir(path, { mode: 0o755 })
  if (found.isSymbolicLink()) {
    throw new UnsafeArchiveError(`the archive writes through the link ${path}`, { hint: 'download into an empty directory' })
  }
  if (!found.isDirectory()) throw new UnsafeArchiveError(`${path} is no directory, but the archive has files below it`)
}

async function removeOld(path: string): Promise<void> {
  const found = await lookAt(path)
  if (!found) return
  if (found.isDirectory()) throw new UnsafeArchiveError(`${path} is a directory, but something else in the archive`)
  await unlink(path)
}

async function writeFile(reader: TarReader, member: Member, path: string): Promise<void> {
  await removeOld(path)
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
  const file = await open(path, flags, 0o600)
  try {
    for await (const piece of reader.content()) await file.write(piece)
    await file.chmod((member.mode & 0o755) | 0o600)
  } finally {
    await file.close()
  }
}

/** A copy of a file that this archive, or an earlier one, has put below the root. */
async function copyLinked(root: string, member: Member, path: string): Promise<void> {
  const parts = partsOf(member.linkName)
  const original = parts.length ? await below(root, parts) : root
  const found = await lookAt(original)
  if (!found?.isFile()) {
    throw new UnsafeArchiveError(`'${member.name}' is a second name of '${member.linkName}', which is no file here`)
  }
  if (original === path) return
  await removeOld(path)
  await copyFile(original, path, constants.COPYFILE_EXCL)
}

async function lookAt(path: string): Promise<Awaited<ReturnType<typeof lstat>> | undefined> {
  try {
    return await lstat(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
