/** Results as texts for a model: cut to a budget with head and tail, the rest kept to be read on. */

import { decode, encode } from './bytes.js'
import { showCause, type CodeResult, type CommandResult, type Execution, type FileEntry } from './models.js'
import { BadCall } from './tool-calls.js'

/** Of one answer, in characters: some four thousand tokens. */
export const OUTPUT_BUDGET = 16_000
/** A file larger than this is not for reading whole. */
export const LARGEST_FILE = 8 << 20
/** Long outputs that are kept to be read on, and the characters of all of them. */
const KEPT_OUTPUTS = 32
const KEPT_CHARACTERS = 32 << 20
/** A cut moves by at most so much to the end of a line. */
const LINE_SEARCH = 400
const NO_OUTPUT = '[no output; it ended well. Print what you want to see.]'

export interface Told {
  readonly text: string
  readonly failed: boolean
}

/** The last long outputs, by name. */
export class Outputs {
  readonly #budget: number
  readonly #kept = new Map<string, string>()
  #made = 0

  constructor(budget: number) {
    this.#budget = budget
  }

  /** The text, or its head and its tail and how to read the part between them. */
  shown(text: string): string {
    if (text.length <= this.#budget) return text
    const name = `output-${++this.#made}`
    this.#keep(name, text)
    const head = backToLine(text, Math.floor((this.#budget * 3) / 5))
    const tail = onToLine(text, text.length - (this.#budget - head))
    const note = `[${tail - head} characters left out; read_output(output='${name}', offset=${head}) reads on from here]`
    return `${text.slice(0, head)}\n${note}\n${text.slice(tail)}`
  }

  /** The part at `offset` of a long output, as much as fits. */
  piece(name: string, offset: number): string {
    const text = this.#kept.get(name)
    if (text === undefined) throw new BadCall(`${name} is not kept, or not any more; run the command again, into a file if it is long`)
    if (offset >= text.length) throw new BadCall(`${name} has ${text.length} characters; ${offset} is behind its end`)
    const end = whole(text, Math.min(text.length, offset + this.#budget))
    const rest = end < text.length ? `\n[read_output(output='${name}', offset=${end}) reads on]` : '\n[end of the output]'
    return text.slice(offset, end) + rest
  }

  #keep(name: string, text: string): void {
    this.#kept.set(name, text)
    let characters = 0
    for (const one of this.#kept.values()) characters += one.length
    for (const [oldest, one] of this.#kept) {
      if (this.#kept.size <= 1 || (this.#kept.size <= KEPT_OUTPUTS && characters <= KEPT_CHARACTERS)) return
      this.#kept.delete(oldest)
      characters -= one.length
    }
  }
}

/** The place, or the one before it where it would cut a character in two. */
function whole(text: string, place: number): number {
  const code = text.charCodeAt(place)
  return place > 0 && code >= 0xdc00 && code <= 0xdfff ? place - 1 : place
}

/** The end of a line at most a little before `place`; else the place itself. */
function backToLine(text: string, place: number): number {
  const found = text.lastIndexOf('\n', place - 1)
  return found < Math.max(0, place - LINE_SEARCH) ? whole(text, place) : found + 1
}

function onToLine(text: string, place: number): number {
  const found = text.indexOf('\n', place)
  return found < 0 || found >= place + LINE_SEARCH ? whole(text, place) : found + 1
}

/** The output of a command and its end; whether it failed. */
export function ofResult(result: CommandResult, outputs: Outputs): Told {
  const parts: string[] = []
  if (result.stdout) parts.push(outputs.shown(withMissing(result.stdout, result.stdoutMissingBytes)))
  if (result.stderr) parts.push(`[stderr]\n${outputs.shown(withMissing(result.stderr, result.stderrMissingBytes))}`)
  const ended = howItEnded(result)
  if (ended) parts.push(ended)
  else if (parts.length === 0) parts.push(NO_OUTPUT)
  return { text: joinLines(parts), failed: !result.ok }
}

/** The same of code that ran in a context: also its results. */
export function ofExecution(execution: Execution, outputs: Outputs): Told {
  const { text, failed } = ofResult(execution, outputs)
  const shown = execution.results.map((result) => outputs.shown(valueOf(result)))
  const parts = [shown.length && text === NO_OUTPUT ? '' : text, ...shown].filter(Boolean)
  if (execution.findings.length) {
    const found = execution.findings.slice(0, 10).map((one) => `line ${one.line}, column ${one.column}: ${one.kind}: ${one.text}`)
    parts.push(outputs.shown(`[the policy objects to parts of this code]\n${found.join('\n')}`))
  }
  if (execution.contextRestarted) {
    parts.unshift(`[the interpreter had ended (${showCause(execution.contextRestarted)}): its variables are gone]`)
  }
  return { text: joinLines(parts), failed }
}

function joinLines(parts: readonly string[]): string {
  return parts.map((part) => part.replace(/\n+$/, '')).join('\n')
}

/** The part of it that a model can read. */
function valueOf(result: CodeResult): string {
  const others = (['png', 'jpeg', 'svg', 'pdf'] as const).filter((name) => result[name] !== undefined)
  const pictures = others.length ? `[and a picture: ${others.join(', ')}]` : ''
  const text = result.text || result.markdown || result.latex || result.html || ''
  return [text, pictures].filter(Boolean).join('\n')
}

function withMissing(text: string, missing: number): string {
  return missing ? `${text}\n[${missing} bytes in the middle of this were too many to keep]` : text
}

function howItEnded(result: CommandResult): string | undefined {
  if (result.ok) return undefined
  if (result.timedOut) return '[stopped: the time limit was reached]'
  if (result.cause.kind === 'exited') return `[exit code ${result.exitCode}]`
  if (result.cause.kind === 'out_of_memory') return '[killed: out of memory]'
  return `[exit code ${result.exitCode}: ${showCause(result.cause)}]`
}

/** A piece of a text file, as many whole lines as fit. */
export function ofFile(content: Uint8Array, path: string, startLine: number, lines: number | undefined, budget: number): string {
  const text = textOf(content, path)
  // A newline and nothing else ends a line, as for sed and for compilers.
  const all = text.match(/[^\n]*\n|[^\n]+$/g) ?? []
  if (all.length === 0) return `[${path} is empty]`
  if (startLine > all.length) throw new BadCall(`${path} has ${all.length} lines; line ${startLine} is behind its end`)
  const wanted = all.slice(startLine - 1, lines === undefined ? undefined : startLine - 1 + lines)
  const taken: string[] = []
  let size = 0
  for (const line of wanted) {
    size += line.length
    if (size > budget && taken.length) break
    taken.push(line.slice(0, whole(line, Math.min(line.length, budget))))
  }
  const last = startLine - 1 + taken.length
  const cut = wanted[taken.length - 1] as string
  const notes: string[] = []
  if ((taken[taken.length - 1] as string).length < cut.length) notes.push(`[line ${last} has ${cut.length} characters and is cut]`)
  if (last < all.length) notes.push(`[lines ${startLine} to ${last} of ${all.length}; read on with start_line=${last + 1}]`)
  return notes.length ? [taken.join('').replace(/\n+$/, ''), ...notes].join('\n') : taken.join('')
}

/** Text of a file, or the model's mistake where it is none. */
function textOf(content: Uint8Array, path: string): string {
  let text: string
  try {
    text = decode(content, { fatal: true })
  } catch {
    throw new BadCall(`${path} is no text: its byte ${firstBadByte(content)} is not UTF-8 (${content.length} bytes)`)
  }
  if (text.includes('\0')) throw new BadCall(`${path} is no text: it has NUL bytes (${content.length} bytes)`)
  return text
}

/** Bytes that are no UTF-8 are decoded to this character, which a file may also have by itself. */
const REPLACEMENT = '\ufffd'

function firstBadByte(content: Uint8Array): number {
  let at = 0
  for (const piece of decode(content).split(REPLACEMENT)) {
    at += encode(piece).length
    const genuine = content[at] === 0xef && content[at + 1] === 0xbf && content[at + 2] === 0xbd
    if (!genuine) return at
    at += 3
  }
  return at
}

/** The file with the piece replaced, and how often. */
export function edited(content: string, path: string, old: string, replacement: string, all: boolean): { text: string; count: number } {
  if (!old) throw new BadCall('old_text is empty; to write a whole file use write_file')
  if (old === replacement) throw new BadCall('old_text and new_text are the same')
  const count = content.split(old).length - 1
  if (count === 0) throw new BadCall(`old_text does not stand in ${path}${nearly(content, old)}`)
  if (count > 1 && !all) {
    const places = linesOf(content, old).slice(0, 10).join(', ')
    throw new BadCall(`old_text stands ${count} times in ${path} (lines ${places}): give more around it, or set replace_all`)
  }
  return { text: content.split(old).join(replacement), count }
}

/** Where it would stand if white space did not count: the commonest mistake. */
function nearly(content: string, old: string): string {
  const wanted = old.replace(/^\n+|\n+$/g, '').split('\n').map((line) => line.trim())
  const have = content.split('\n').map((line) => line.trim())
  for (let place = 0; place + wanted.length <= have.length; place++) {
    if (wanted.every((line, index) => have[place + index] === line)) {
      return `; it nearly does at line ${place + 1}, with other white space: read those lines again`
    }
  }
  return '; read the file again, it may have changed'
}

function linesOf(content: string, piece: string): number[] {
  const found: number[] = []
  for (let at = content.indexOf(piece); at >= 0; at = content.indexOf(piece, at + piece.length)) {
    found.push(content.slice(0, at).split('\n').length)
  }
  return found
}

export function ofEntries(entries: readonly FileEntry[], path: string, more: boolean): string {
  if (entries.length === 0) return `[${path} is empty]`
  const lines = entries.map((entry) => {
    const size = entry.kind === 'file' ? String(entry.size) : ''
    const link = entry.target ? ` -> ${entry.target}` : ''
    return `${entry.kind.padEnd(9)} ${size.padStart(10)} ${entry.path.replace(/^\.\//, '')}${link}`
  })
  if (more) lines.push(`[the first ${entries.length} entries; there are more: list a directory further down]`)
  return lines.join('\n')
}
