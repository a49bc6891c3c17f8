/** Every failure is a `PaddockError` that says what was wrong, and what to do about it. */

export interface ErrorFields {
  /** Stable, for programs: `sandbox_not_found`, `quota_exceeded`, ... */
  code?: string | undefined
  /** A remedy, where something can be said. */
  hint?: string | undefined
  /** HTTP status of the answer; undefined where no answer came. */
  status?: number | undefined
  /** Finds the request in the server's log. */
  requestId?: string | undefined
  /** After so long the server suggests to try again. */
  retryAfterMs?: number | undefined
  /** Only some codes have more to say; as the server sent it. */
  details?: Record<string, unknown> | undefined
  cause?: unknown
}

/** Base of all errors of this package. */
export class PaddockError extends Error {
  /** Used where no server named a code. */
  static readonly defaultCode: string = 'error'
  readonly code: string
  readonly hint: string | undefined
  readonly status: number | undefined
  readonly requestId: string | undefined
  readonly retryAfterMs: number | undefined
  readonly details: Record<string, unknown>

  constructor(message: string, fields: ErrorFields = {}) {
    super(message, fields.cause === undefined ? undefined : { cause: fields.cause })
    this.name = new.target.name
    this.code = fields.code ?? new.target.defaultCode
    this.hint = fields.hint
    this.status = fields.status
    this.requestId = fields.requestId
    this.retryAfterMs = fields.retryAfterMs
    this.details = fields.details ?? {}
  }

  /** The message with its code and its hint. */
  override toString(): string {
    const text = `${this.name}: ${this.message} (${this.code})`
    return this.hint ? `${text}\nhint: ${this.hint}` : text
  }
}

/** The request made no sense; the message names the field. */
export class InvalidRequestError extends PaddockError {
  static override readonly defaultCode: string = 'invalid_request'
}
export class UnknownFieldError extends InvalidRequestError {
  static override readonly defaultCode = 'unknown_field'
}
export class InvalidPathError extends InvalidRequestError {
  static override readonly defaultCode = 'invalid_path'
}
export class TooLargeError extends InvalidRequestError {
  static override readonly defaultCode = 'too_large'
}
export class UnauthorizedError extends PaddockError {
  static override readonly defaultCode = 'unauthorized'
}
export class ForbiddenError extends PaddockError {
  static override readonly defaultCode: string = 'forbidden'
}
/** The policy of the sandbox denies the code: nothing of it ran. `findings` says why. */
export class ScanDeniedError extends ForbiddenError {
  static override readonly defaultCode = 'scan_denied'
  get findings(): Finding[] {
    return findingsOf(this.details['findings'])
  }
}
/** Base of all that is not there. */
export class NotFoundError extends PaddockError {
  static override readonly defaultCode: string = 'not_found'
}
export class SandboxNotFoundError extends NotFoundError {
  static override readonly defaultCode = 'sandbox_not_found'
}
export class ExecNotFoundError extends NotFoundError {
  static override readonly defaultCode = 'exec_not_found'
}
/** The call ended long ago, and is not kept any more. */
export class ExecForgottenError extends NotFoundError {
  static override readonly defaultCode = 'exec_forgotten'
}
export class ContextNotFoundError extends NotFoundError {
  static override readonly defaultCode = 'context_not_found'
}
export class SnapshotNotFoundError extends NotFoundError {
  static override readonly defaultCode = 'snapshot_not_found'
}
export class JobNotFoundError extends NotFoundError {
  static override readonly defaultCode = 'job_not_found'
}
export class VolumeNotFoundError extends NotFoundError {
  static override readonly defaultCode = 'volume_not_found'
}
export class ResourceNotFoundError extends NotFoundError {
  static override readonly defaultCode = 'resource_not_found'
}
export class SecretNotFoundError extends NotFoundError {
  static override readonly defaultCode = 'secret_not_found'
}
export class TokenNotFoundError extends NotFoundError {
  static override readonly defaultCode = 'token_not_found'
}
export class TemplateNotFoundError extends NotFoundError {
  static override readonly defaultCode = 'template_not_found'
}
/** It is built because this create named it first; the message says how far it is, `retryAfterMs` when to ask again. */
export class TemplateBuildingError extends PaddockError {
  static override readonly defaultCode = 'template_building'
}
export class TemplateBuildFailedError extends PaddockError {
  static override readonly defaultCode = 'template_build_failed'
}
export class FileNotFoundError extends NotFoundError {
  static override readonly defaultCode = 'file_not_found'
}
export class ImageFailedError extends PaddockError {
  static override readonly defaultCode = 'image_failed'
}
export class NameTakenError extends PaddockError {
  static override readonly defaultCode = 'name_taken'
}
/** The sandbox is in a state in which this cannot be done. */
export class WrongStateError extends PaddockError {
  static override readonly defaultCode: string = 'wrong_state'
}
/** The first request with this idempotency key is not finished: send it again in a moment. */
export class RequestUnderWayError extends WrongStateError {
  static override readonly defaultCode = 'request_under_way'
}
export class VolumeBusyError extends WrongStateError {
  static override readonly defaultCode = 'volume_busy'
}
/** The interpreter of the context has gone; `contexts.restart` begins anew. */
export class ContextEndedError extends WrongStateError {
  static override readonly defaultCode = 'context_ended'
}
/** The sandbox is no more; `(await sandbox.info()).end` says why. */
export class SandboxEndedError extends WrongStateError {
  static override readonly defaultCode = 'sandbox_ended'
}
/** The command has ended, and takes neither signals nor input. */
export class ExecEndedError extends WrongStateError {
  static override readonly defaultCode = 'exec_ended'
}
/** The tenant has all it may have; `retryAfterMs` says when to try again. */
export class QuotaExceededError extends PaddockError {
  static override readonly defaultCode = 'quota_exceeded'
}
/** This host cannot give a guarantee that was required; nothing was created. */
export class RequirementNotMetError extends PaddockError {
  static override readonly defaultCode = 'requirement_not_met'
}
export class UnsupportedError extends PaddockError {
  static override readonly defaultCode: string = 'unsupported'
}
/** The certificates of the server's host cannot be read; the message says which. */
export class HostCertsUnusableError extends UnsupportedError {
  static override readonly defaultCode = 'host_certs_unusable'
}
/** Base of failures with a file inside. A file that is not there is a `FileNotFoundError`. */
export class FilesystemError extends PaddockError {
  static override readonly defaultCode: string = 'filesystem_error'
}
export class NotAFileError extends FilesystemError {
  static override readonly defaultCode = 'not_a_file'
}
export class NotADirectoryError extends FilesystemError {
  static override readonly defaultCode = 'not_a_directory'
}
export class NotEmptyError extends FilesystemError {
  static override readonly defaultCode = 'not_empty'
}
export class FileExistsError extends FilesystemError {
  static override readonly defaultCode = 'file_exists'
}
export class PermissionDeniedError extends FilesystemError {
  static override readonly defaultCode = 'permission_denied'
}
export class DiskFullError extends FilesystemError {
  static override readonly defaultCode = 'disk_full'
}
/** A downloaded archive holds something that must not be unpacked here. Thrown by this package. */
export class UnsafeArchiveError extends FilesystemError {
  static override readonly defaultCode = 'unsafe_archive'
}
export class PortClosedError extends PaddockError {
  static override readonly defaultCode = 'port_closed'
}
export class GuestLostError extends PaddockError {
  static override readonly defaultCode = 'guest_lost'
}
/** The sandbox has not answered for some seconds; the server asks on, and the sandbox keeps its state. */
export class GuestSilentError extends PaddockError {
  static override readonly defaultCode = 'guest_silent'
}
export class StorageFailedError extends PaddockError {
  static override readonly defaultCode = 'storage_failed'
}
export class InternalError extends PaddockError {
  static override readonly defaultCode = 'internal'
}
export class UnavailableError extends PaddockError {
  static override readonly defaultCode: string = 'unavailable'
}
/** The code could not be scanned, and did not run. */
export class ScanFailedError extends UnavailableError {
  static override readonly defaultCode = 'scan_failed'
}
/** The server could not be reached, or went away, more often than we try again. */
export class ConnectionFailedError extends PaddockError {
  static override readonly defaultCode: string = 'connection_failed'
}
/** No server is configured, none runs, and none could be started. */
export class ServerNotStartedError extends ConnectionFailedError {
  static override readonly defaultCode = 'server_not_started'
}
/** The answer is not one of a Paddock server. */
export class UnexpectedAnswerError extends PaddockError {
  static override readonly defaultCode = 'unexpected_answer'
}
/** The command still runs; only the waiting has ended. */
export class WaitTimeoutError extends PaddockError {
  static override readonly defaultCode = 'wait_timeout'
}

/** One thing in code that its sandbox's policy objects to. */
export interface Finding {
  /** `import_not_allowed`, `subprocess`, `socket`, `eval_exec`, `file_outside_workspace`, `dynamic_import`, ... */
  readonly kind: string
  /** Both from one; a column is a character. */
  readonly line: number
  readonly column: number
  /** The code in question, or in words the trouble that the parser had. */
  readonly text: string
}

export function findingsOf(value: unknown): Finding[] {
  if (!Array.isArray(value)) return []
  return value.map((item: Record<string, unknown>) => ({
    kind: String(item['kind'] ?? ''),
    line: Number(item['line'] ?? 0),
    column: Number(item['column'] ?? 0),
    text: String(item['text'] ?? ''),
  }))
}

type Kind = typeof PaddockError

/** Classes by the codes of the server. */
export const BY_CODE: ReadonlyMap<string, Kind> = new Map(
  [
    InvalidRequestError, UnknownFieldError, InvalidPathError, TooLargeError, UnauthorizedError, ForbiddenError, ScanDeniedError,
    NotFoundError, SandboxNotFoundError, ExecNotFoundError, ExecForgottenError, ContextNotFoundError, SnapshotNotFoundError,
    JobNotFoundError, VolumeNotFoundError, ResourceNotFoundError, SecretNotFoundError, TokenNotFoundError, TemplateNotFoundError, TemplateBuildingError,
    TemplateBuildFailedError, FileNotFoundError, ImageFailedError, NameTakenError, WrongStateError, RequestUnderWayError, VolumeBusyError, ContextEndedError, SandboxEndedError, ExecEndedError,
    QuotaExceededError, RequirementNotMetError, UnsupportedError, HostCertsUnusableError, FilesystemError, NotAFileError,
    NotADirectoryError, NotEmptyError, FileExistsError, PermissionDeniedError, DiskFullError, UnsafeArchiveError, PortClosedError,
    GuestLostError, GuestSilentError, StorageFailedError, InternalError, UnavailableError, ScanFailedError, ConnectionFailedError,
    ServerNotStartedError, UnexpectedAnswerError, WaitTimeoutError,
  ].map((kind) => [kind.defaultCode, kind as Kind]),
)

const BY_STATUS: ReadonlyMap<number, Kind> = new Map<number, Kind>([
  [400, InvalidRequestError], [401, UnauthorizedError], [403, ForbiddenError], [404, NotFoundError], [409, WrongStateError],
  [410, WrongStateError],
  [413, TooLargeError], [422, InvalidRequestError], [429, QuotaExceededError], [500, InternalError], [502, UnavailableError],
  [503, UnavailableError], [504, UnavailableError],
])

/** The error of an answer that is no success; `body` is its parsed JSON, or its text. */
export function errorOfAnswer(status: number, body: unknown, header: (name: string) => string | undefined): PaddockError {
  const retryAfterMs = milliseconds(header('retry-after'))
  if (!isObject(body) || typeof body['code'] !== 'string') {
    const text = String(typeof body === 'string' ? body : JSON.stringify(body)).trim().slice(0, 500) || 'an empty answer'
    const Kind = BY_STATUS.get(status) ?? UnexpectedAnswerError
    return new Kind(`the server answered ${status}: ${text}`, {
      code: 'unexpected_answer',
      hint: 'is PADDOCK_URL the address of a Paddock server?',
      status,
      retryAfterMs,
    })
  }
  const { code, message, hint, request_id: id, details } = body
  const Kind = BY_CODE.get(code as string) ?? BY_STATUS.get(status) ?? PaddockError
  return new Kind(typeof message === 'string' ? message : String(code), {
    code: code as string,
    hint: typeof hint === 'string' ? hint : undefined,
    status,
    requestId: typeof id === 'string' ? id : header('x-request-id'),
    retryAfterMs,
    details: isObject(details) ? details : undefined,
  })
}

/** The results of several, with the errors of those that were not made in their places, which come in ascending order. */
export function errorsInTheirPlaces<T>(
  made: readonly T[], failed: readonly { place: number; status: number; retry_after_seconds?: number | null }[],
): (T | PaddockError)[] {
  const results: (T | PaddockError)[] = [...made]
  for (const one of failed) {
    const seconds = one.retry_after_seconds ?? undefined
    const header = (name: string): string | undefined => name === 'retry-after' && seconds !== undefined ? String(seconds) : undefined
    results.splice(one.place, 0, errorOfAnswer(one.status, one, header))
  }
  return results
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function milliseconds(seconds: string | undefined): number | undefined {
  const count = seconds === undefined ? Number.NaN : Number(seconds)
  return Number.isFinite(count) ? count * 1000 : undefined
}
