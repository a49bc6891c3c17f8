/** All classes of errors, by name; the rest of `errors.ts` is this package's own. */

export {
  PaddockError, InvalidRequestError, UnknownFieldError, InvalidPathError, TooLargeError, UnauthorizedError,
  ForbiddenError, ScanDeniedError, NotFoundError, SandboxNotFoundError, ExecNotFoundError, ExecForgottenError,
  ContextNotFoundError, SnapshotNotFoundError, JobNotFoundError, VolumeNotFoundError, ResourceNotFoundError, SecretNotFoundError,
  TokenNotFoundError, TemplateNotFoundError, TemplateBuildingError, TemplateBuildFailedError, FileNotFoundError, ImageFailedError, NameTakenError, WrongStateError,
  RequestUnderWayError, VolumeBusyError, ContextEndedError, SandboxEndedError, ExecEndedError, QuotaExceededError, RequirementNotMetError,
  UnsupportedError, HostCertsUnusableError, FilesystemError, NotAFileError, NotADirectoryError, NotEmptyError,
  FileExistsError, PermissionDeniedError, DiskFullError, UnsafeArchiveError, PortClosedError, GuestLostError,
  GuestSilentError, StorageFailedError, InternalError, UnavailableError, ScanFailedError, ConnectionFailedError,
  ServerNotStartedError, UnexpectedAnswerError, WaitTimeoutError,
} from './errors.js'
export type { Finding } from './errors.js'
