/** Descriptions by the server, in the words of JavaScript. `raw` has the answer as it came, with fields that a newer server adds. */

import { fromBase64 } from './bytes.js'
import { findingsOf, type Finding } from './errors.js'
import type { components } from './generated/openapi.js'

type Schemas = components['schemas']

export type SandboxState = Schemas['SandboxState']
export type IdleAction = Schemas['IdleAction']
export type TtlAction = Schemas['TtlAction']
export type UnderPressure = Schemas['UnderPressure']

/** A field is undefined where nothing on the host counts it. */
export interface Usage {
  readonly cpuMs: number | undefined
  readonly memoryBytes: number | undefined
  readonly peakMemoryBytes: number | undefined
  readonly diskBytes: number | undefined
  readonly processes: number | undefined
}

/** What a sandbox used at one moment. */
export interface UsageSample {
  readonly at: Date
  /** Since the sample before, of one processor: two that are busy are 200. */
  readonly cpuPercent: number
  readonly memoryBytes: number
  readonly diskBytes: number
}

/** Why something ended: `kind`, and the fields of that kind (`signal`, `limit_ms`, `detail`, ...). */
export interface Cause {
  readonly kind: string
  readonly details: Readonly<Record<string, unknown>>
}

export interface End {
  readonly cause: Cause
  readonly reason: string
  readonly at: Date
  readonly lastOutput: string
  readonly usage: Usage
}

/** A sandbox as the server described it at one moment. */
export interface SandboxInfo {
  readonly id: string
  readonly name: string | undefined
  readonly state: SandboxState
  readonly tenant: string
  readonly template: string | undefined
  readonly image: string | undefined
  /** The user that its image names for its processes. The sandbox has its own user all the same. */
  readonly imageUser: string | undefined
  readonly snapshot: string | undefined
  readonly parent: string | undefined
  readonly workspace: string | undefined
  readonly createdAt: Date
  readonly expiresAt: Date | undefined
  /** What comes at `expiresAt`. */
  readonly ttlAction: TtlAction
  readonly idle: { readonly ms: number; readonly action: IdleAction } | undefined
  readonly persistent: boolean
  readonly underPressure: UnderPressure | undefined
  readonly metadata: Readonly<Record<string, string>>
  readonly limits: Readonly<Record<string, unknown>>
  readonly guarantees: Readonly<Record<string, unknown>>
  /** By their variable, the hosts that they are bound to. */
  readonly secrets: Readonly<Record<string, readonly string[]>>
  readonly hostCerts: boolean
  readonly ports: {
    /** Those that answer without a token. */
    readonly public: 'all' | readonly number[]
    /** Undefined: `localhost:${PORT}`. */
    readonly requestHost: string | undefined
  }
  readonly volumes: readonly Schemas['MountedVolume'][]
  readonly runningExecs: number
  readonly end: End | undefined
  readonly raw: Schemas['Sandbox']
}

/** A command that has ended. */
export interface CommandResult {
  readonly exec: number
  readonly command: string
  /** Text; bytes that are not UTF-8 are replaced. `Process.outputBytes` has the exact ones. */
  readonly stdout: string
  readonly stderr: string
  /** The command's own, or 128 and the signal's number; 124 after a time limit, as in a shell. */
  readonly exitCode: number
  readonly timedOut: boolean
  /** It exited with 0. */
  readonly ok: boolean
  readonly cause: Cause
  readonly startedAt: Date
  readonly endedAt: Date | undefined
  /** Bytes printed in all, and those in the middle that were not kept. */
  readonly stdoutBytes: number
  readonly stderrBytes: number
  readonly stdoutMissingBytes: number
  readonly stderrMissingBytes: number
}

/** A value that code displayed, or the value of its last expression, in every representation that it has. */
export interface CodeResult {
  /** The value of the last expression, rather than something displayed. */
  readonly main: boolean
  readonly text: string | undefined
  readonly html: string | undefined
  readonly markdown: string | undefined
  readonly svg: string | undefined
  readonly latex: string | undefined
  readonly javascript: string | undefined
  readonly png: Uint8Array | undefined
  readonly jpeg: Uint8Array | undefined
  readonly pdf: Uint8Array | undefined
  readonly json: unknown
  /** A table: `columns`, `rows` (the first of them), `total_rows`. */
  readonly data: unknown
  /** The data of a figure, so that a client can draw it itself. */
  readonly chart: unknown
  /** Other representations, by media type. */
  readonly extra: Readonly<Record<string, string>>
  /** Representations that were too large, and left out or cut. */
  readonly cut: readonly string[]
}

/** Why code did not come to its end. */
export interface CodeError {
  /** The exception's; `ContextDied` where the interpreter itself has gone. */
  readonly name: string
  readonly value: string
  readonly traceback: string
}

/** Code that has ended. */
export interface Execution extends CommandResult {
  readonly results: readonly CodeResult[]
  readonly error: CodeError | undefined
  /** The value of the last expression, as text. */
  readonly text: string | undefined
  /** Where it ran; undefined for a language without contexts. */
  readonly context: string | undefined
  /** How the context had ended before this call, if it had: its variables are gone. */
  readonly contextRestarted: Cause | undefined
  /** Results that were not kept because there were too many. */
  readonly resultsMissing: number
  /** Found in the code before it ran, where the sandbox's `scan` is `warn`; at most 100. */
  readonly findings: readonly Finding[]
  readonly findingsMissing: number
}

/** An interpreter that remembers earlier calls. */
export interface CodeContext {
  readonly id: string
  readonly language: string
  readonly state: Schemas['ContextState']
  /** Made at the first call that named none; such a one begins anew by itself. */
  readonly default: boolean
  /** The exec that is its interpreter; output between calls is that exec's. */
  readonly exec: number
  readonly startedAt: Date
  readonly cwd: string | undefined
  readonly cause: Cause | undefined
  /** Calls that wait for their turn. */
  readonly waiting: number
}

export interface FileEntry {
  readonly path: string
  readonly name: string
  readonly kind: Schemas['FileKind']
  readonly size: number
  readonly mode: number
  readonly uid: number
  readonly gid: number
  readonly modifiedAt: Date
  readonly target: string | undefined
  /** The end of a link, through any number of links; undefined where it leads nowhere. */
  readonly resolved: ResolvedLink | undefined
  /** The path's exact bytes where they are not UTF-8. */
  readonly pathBytes: Uint8Array | undefined
  /** Extended attributes of the user's namespace that are text, by their names without `user.`. */
  readonly attributes: Readonly<Record<string, string>>
}

/** The file at the end of a link. */
export type ResolvedLink = Readonly<Schemas['ResolvedLink']>

/** Where a path leads, through all links. Parts that are missing stay as they are written. */
export interface ResolvedPath {
  /** Absolute, without links, `.` and `..`. */
  readonly path: string
  /** The file there; undefined if there is none. */
  readonly entry: FileEntry | undefined
  readonly exists: boolean
  /** The path's exact bytes where they are not UTF-8. */
  readonly pathBytes: Uint8Array | undefined
}

export interface FileEvent {
  /** `created`, `modified`, `deleted`, `moved_from`, `moved_to`, `attributes`, or `overflow`: list again. */
  readonly kind: string
  readonly path: string
}

export interface Snapshot {
  readonly id: string
  readonly name: string | undefined
  readonly sandbox: string
  readonly createdAt: Date
  /** `filesystem`, or `memory` with the files. */
  readonly kind: string
  readonly sizeBytes: number | undefined
  /** Of its source, which a sandbox made from it is like. */
  readonly template: string | undefined
  readonly user: string | undefined
  readonly cwd: string | undefined
}

export interface Change {
  readonly kind: Schemas['ChangeKind']
  readonly path: string
  /** As it is now; undefined for a deleted path. */
  readonly entry: FileEntry | undefined
}

export interface MergeReport {
  /** No conflict: all was merged. With conflicts nothing at all was. */
  readonly ok: boolean
  readonly merged: readonly Change[]
  readonly conflicts: readonly Schemas['MergeConflict'][]
  /** Pipes, sockets and devices, which are left out. */
  readonly skipped: readonly Schemas['MergeConflict'][]
}

/** A decision of a sandbox's gate. */
export interface NetworkDecision {
  readonly number: number
  /** `dns`, `connect`, `http`, `tunnel`, `socks`, `udp`, `icmp` or `other`. */
  readonly way: string
  /** `allowed`, `denied` or `closed`. */
  readonly verdict: string
  readonly reason: string
  readonly name: string | undefined
  readonly address: string | undefined
  readonly port: number | undefined
  /** How to allow a denied connection. */
  readonly advice: string | undefined
  readonly sentBytes: number | undefined
  readonly receivedBytes: number | undefined
  readonly count: number
}

/** A right to one port of one sandbox, for somebody who gets no token. */
export interface PortRight {
  /** The address of the port with the right in it; a path on a unix socket, which has no host to name. */
  readonly url: string
  /** The name that the port has of its own, where the server has a `--domain`. */
  readonly host: string | undefined
  /** The right alone: for `Authorization: Bearer`, or for the parameter or the cookie `paddock_token`. */
  readonly token: string
  readonly expiresAt: Date
}

/** The rules of a sandbox's network, and the decisions of its gate. */
export interface Network {
  readonly network: string
  readonly sentBytes: number
  readonly receivedBytes: number
  readonly connections: number
  readonly decisions: readonly NetworkDecision[]
  /** Number of the last decision, to ask for those after it. */
  readonly last: number
  /** The rules that denied attempts would have needed. */
  readonly needed: readonly string[]
  readonly rules: unknown
}

export function parseSandbox(body: Schemas['Sandbox']): SandboxInfo {
  const idle = body.idle
  return {
    id: body.id,
    name: body.name ?? undefined,
    state: body.state,
    tenant: body.tenant ?? '',
    template: body.template ?? undefined,
    image: body.image ?? undefined,
    imageUser: body.image_user ?? undefined,
    snapshot: body.snapshot ?? undefined,
    parent: body.parent ?? undefined,
    workspace: body.workspace ?? undefined,
    createdAt: new Date(body.created_at_ms),
    expiresAt: dateOf(body.expires_at_ms),
    ttlAction: body.ttl_action ?? 'kill',
    idle: idle ? { ms: idle.seconds * 1000, action: idle.action } : undefined,
    persistent: Boolean(body.persistent),
    underPressure: body.under_pressure ?? undefined,
    metadata: body.metadata ?? {},
    limits: body.limits ?? {},
    guarantees: body.guarantees ?? {},
    secrets: body.secrets ?? {},
    hostCerts: Boolean(body.host_certs),
    ports: { public: body.ports?.public === 'all' ? 'all' : (body.ports?.public ?? []) as number[], requestHost: body.ports?.request_host ?? undefined },
    volumes: body.volumes ?? [],
    runningExecs: body.running_execs ?? 0,
    end: body.end ? parseEnd(body.end) : undefined,
    raw: body,
  }
}

function parseEnd(body: Schemas['End']): End {
  return {
    cause: parseCause(body.cause) ?? UNKNOWN,
    reason: body.reason ?? '',
    at: new Date(body.at_ms),
    lastOutput: body.last_output ?? '',
    usage: parseUsage(body.usage ?? {}),
  }
}

export function parseUsage(body: Schemas['SandboxUsage']): Usage {
  return {
    cpuMs: body.cpu_ms ?? undefined,
    memoryBytes: body.memory_bytes ?? undefined,
    peakMemoryBytes: body.peak_memory_bytes ?? undefined,
    diskBytes: body.disk_bytes ?? undefined,
    processes: body.processes ?? undefined,
  }
}

export function parseSample(body: Schemas['SandboxSample']): UsageSample {
  return { at: new Date(body.at_ms), cpuPercent: body.cpu_percent, memoryBytes: body.memory_bytes, diskBytes: body.disk_bytes }
}

const UNKNOWN: Cause = { kind: 'unknown', details: {} }

export function parseCause(body: Schemas['ExecCause'] | Schemas['EndCause'] | null | undefined): Cause | undefined {
  if (!body) return undefined
  const { kind, ...details } = body
  return { kind, details }
}

export function showCause(cause: Cause): string {
  const inside = Object.entries(cause.details).map(([name, value]) => `${name}=${value}`)
  return inside.length ? `${cause.kind}(${inside.join(', ')})` : cause.kind
}

export function parseResult(body: Schemas['Exec']): CommandResult {
  const cause = parseCause(body.cause) ?? UNKNOWN
  // A command that never ran, or whose sandbox went away, has no exit code; it did not succeed.
  const exitCode: number = body.exit_code ?? 255
  return {
    exec: body.exec,
    command: body.command ?? '',
    stdout: body.stdout ?? '',
    stderr: body.stderr ?? '',
    exitCode,
    timedOut: Boolean(body.timed_out),
    ok: exitCode === 0 && cause.kind === 'exited',
    cause,
    startedAt: new Date(body.started_at_ms),
    endedAt: dateOf(body.ended_at_ms),
    stdoutBytes: body.stdout_bytes ?? 0,
    stderrBytes: body.stderr_bytes ?? 0,
    stdoutMissingBytes: body.stdout_missing_bytes ?? 0,
    stderrMissingBytes: body.stderr_missing_bytes ?? 0,
  }
}

export function parseExecution(body: Schemas['Exec']): Execution {
  const results = (body.results ?? []).map(parseCodeResult)
  return {
    ...parseResult(body),
    results,
    error: body.error ? parseCodeError(body.error) : undefined,
    text: results.find((result) => result.main)?.text,
    context: body.context ?? undefined,
    contextRestarted: parseCause(body.context_restarted),
    resultsMissing: body.results_missing ?? 0,
    findings: findingsOf(body.findings),
    findingsMissing: body.findings_missing ?? 0,
  }
}

export function parseCodeResult(body: Schemas['CodeResult']): CodeResult {
  const image = (base64: string | null | undefined): Uint8Array | undefined => (typeof base64 === 'string' ? fromBase64(base64) : undefined)
  return {
    main: Boolean(body.main),
    text: body.text ?? undefined,
    html: body.html ?? undefined,
    markdown: body.markdown ?? undefined,
    svg: body.svg ?? undefined,
    latex: body.latex ?? undefined,
    javascript: body.javascript ?? undefined,
    png: image(body.png),
    jpeg: image(body.jpeg),
    pdf: image(body.pdf),
    json: body.json ?? undefined,
    data: body.data ?? undefined,
    chart: body.chart ?? undefined,
    extra: body.extra ?? {},
    cut: body.cut ?? [],
  }
}

export function parseCodeError(body: Schemas['CodeError']): CodeError {
  return { name: body.name ?? '', value: body.value ?? '', traceback: body.traceback ?? '' }
}

export function parseContext(body: Schemas['Context']): CodeContext {
  return {
    id: body.id,
    language: body.language,
    state: body.state,
    default: Boolean(body.default),
    exec: body.exec,
    startedAt: new Date(body.started_at_ms),
    cwd: body.cwd ?? undefined,
    cause: parseCause(body.cause),
    waiting: body.waiting ?? 0,
  }
}

export function parseEntry(body: Schemas['FileEntry']): FileEntry {
  const path: string = body.path
  return {
    path,
    name: path.replace(/\/+$/, '').split('/').pop() ?? '',
    kind: body.kind,
    size: body.size,
    mode: body.mode,
    uid: body.uid,
    gid: body.gid,
    modifiedAt: safeDate(body.modified_at_ms),
    target: body.target ?? undefined,
    resolved: body.resolved ?? undefined,
    pathBytes: typeof body.path_base64 === 'string' ? fromBase64(body.path_base64) : undefined,
    attributes: body.attributes ?? {},
  }
}

export function parseResolved(body: Schemas['ResolvedPath']): ResolvedPath {
  return {
    path: body.path,
    entry: body.entry ? parseEntry(body.entry) : undefined,
    exists: Boolean(body.entry),
    pathBytes: typeof body.path_base64 === 'string' ? fromBase64(body.path_base64) : undefined,
  }
}

/** `baseUrl`: where the server is, undefined on a unix socket. */
export function parsePortRight(body: Schemas['SignedPort'], baseUrl: string | undefined): PortRight {
  const host = body.host ?? undefined
  let url = body.url
  if (baseUrl !== undefined && host === undefined) url = baseUrl + url
  if (baseUrl !== undefined && host !== undefined) {
    const server = new URL(baseUrl)
    url = `${server.protocol}//${host}${server.port === '' ? '' : `:${server.port}`}/?paddock_token=${body.token}`
  }
  return { url, host, token: body.token, expiresAt: safeDate(body.expires_at_ms) }
}

export function parseSnapshot(body: Schemas['Snapshot']): Snapshot {
  return {
    id: body.id,
    name: body.name ?? undefined,
    sandbox: body.sandbox,
    createdAt: new Date(body.created_at_ms),
    kind: body.kind,
    sizeBytes: body.size_bytes ?? undefined,
    template: body.template ?? undefined,
    user: body.user ?? undefined,
    cwd: body.cwd ?? undefined,
  }
}

export function parseChange(body: Schemas['Change']): Change {
  return { kind: body.kind, path: body.path, entry: body.entry ? parseEntry(body.entry) : undefined }
}

export function parseMergeReport(body: Schemas['MergeReport']): MergeReport {
  const conflicts = body.conflicts ?? []
  return {
    ok: conflicts.length === 0,
    merged: body.merged.map(parseChange),
    conflicts,
    skipped: body.skipped ?? [],
  }
}

export function parseNetwork(body: Schemas['NetworkView']): Network {
  return {
    network: body.network,
    sentBytes: body.sent_bytes,
    receivedBytes: body.received_bytes,
    connections: body.connections,
    decisions: body.decisions.map((decision) => ({
      number: decision.number,
      way: decision.way,
      verdict: decision.verdict,
      reason: decision.reason,
      name: decision.name ?? undefined,
      address: decision.address ?? undefined,
      port: decision.port ?? undefined,
      advice: decision.advice ?? undefined,
      sentBytes: decision.sent_bytes ?? undefined,
      receivedBytes: decision.received_bytes ?? undefined,
      count: decision.count ?? 1,
    })),
    last: body.last,
    needed: body.needed,
    rules: body.rules ?? undefined,
  }
}

export function dateOf(milliseconds: number | null | undefined): Date | undefined {
  return milliseconds === null || milliseconds === undefined ? undefined : new Date(milliseconds)
}

/** Code inside may set any time that the kernel takes; `Date` takes fewer. */
function safeDate(milliseconds: number): Date {
  const most = 8.64e15
  return new Date(Math.max(-most, Math.min(most, milliseconds)))
}
