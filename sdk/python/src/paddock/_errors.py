"""Every failure is a `PaddockError` that says what was wrong, and what to do about it."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Type, TypeVar, Union

from ._findings import Finding

One = TypeVar("One")


class PaddockError(Exception):
    """Base of all errors of this package.

    Attributes:
        code: stable, for programs: `sandbox_not_found`, `quota_exceeded`, ...
        message: what was wrong, with which value.
        hint: what to do about it, where something can be said.
        status: HTTP status of the answer; None where no answer came.
        request_id: find the request in the server's log with it.
        retry_after: seconds after which the server suggests to try again.
        details: what only some codes have, as the server sent it.
    """

    #: What is raised where no server named a code.
    default_code = "error"

    def __init__(
        self,
        message: str,
        *,
        code: Optional[str] = None,
        hint: Optional[str] = None,
        status: Optional[int] = None,
        request_id: Optional[str] = None,
        retry_after: Optional[float] = None,
        details: Optional[Mapping[str, Any]] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.hint = hint
        self.status = status
        self.request_id = request_id
        self.retry_after = retry_after
        self.details: Dict[str, Any] = dict(details or {})

    def __str__(self) -> str:
        text = f"{self.message} ({self.code})"
        return f"{text}\nhint: {self.hint}" if self.hint else text

    def __reduce__(self) -> Any:
        # Keyword arguments do not survive the default, and errors cross process pools.
        return _rebuild, (type(self), self.message, self._fields())

    def _fields(self) -> Dict[str, Any]:
        names = ("code", "hint", "status", "request_id", "retry_after", "details")
        return {name: getattr(self, name) for name in names}


def _rebuild(kind: Type[PaddockError], message: str, details: Dict[str, Any]) -> PaddockError:
    return kind(message, **details)


class InvalidRequest(PaddockError):
    """The request made no sense; `message` names the field."""

    default_code = "invalid_request"


class UnknownField(InvalidRequest):
    default_code = "unknown_field"


class InvalidPath(InvalidRequest):
    default_code = "invalid_path"


class TooLarge(InvalidRequest):
    default_code = "too_large"


class Unauthorized(PaddockError):
    default_code = "unauthorized"


class Forbidden(PaddockError):
    default_code = "forbidden"


class ScanDenied(Forbidden):
    """The policy of the sandbox denies the code: nothing of it ran. `findings` says why."""

    default_code = "scan_denied"

    @property
    def findings(self) -> List[Finding]:
        return Finding.parse_all(self.details)


class NotFound(PaddockError):
    """Base of all that is not there."""

    default_code = "not_found"


class SandboxNotFound(NotFound):
    default_code = "sandbox_not_found"


class ExecNotFound(NotFound):
    default_code = "exec_not_found"


class ContextNotFound(NotFound):
    default_code = "context_not_found"


class SnapshotNotFound(NotFound):
    default_code = "snapshot_not_found"


class JobNotFound(NotFound):
    default_code = "job_not_found"


class VolumeNotFound(NotFound):
    default_code = "volume_not_found"


class SecretNotFound(NotFound):
    default_code = "secret_not_found"


class ResourceNotFound(NotFound):
    default_code = "resource_not_found"


class TokenNotFound(NotFound):
    default_code = "token_not_found"


class TemplateNotFound(NotFound):
    default_code = "template_not_found"


class TemplateBuilding(PaddockError):
    """It is built because this create named it first. The message says how far it is, `retry_after` when to ask
    again."""

    default_code = "template_building"


class TemplateBuildFailed(PaddockError):
    """The template could not be built on its first use; the message names the step."""

    default_code = "template_build_failed"


class ImageFailed(PaddockError):
    default_code = "image_failed"


class NameTaken(PaddockError):
    default_code = "name_taken"


class WrongState(PaddockError):
    """The sandbox is in a state in which this cannot be done."""

    default_code = "wrong_state"


class RequestUnderWay(WrongState):
    """The first request with this idempotency key is not finished: send it again in a moment."""

    default_code = "request_under_way"


class VolumeBusy(WrongState):
    default_code = "volume_busy"


class ContextEnded(WrongState):
    """The interpreter of the context has gone; `contexts.restart` begins anew."""

    default_code = "context_ended"


class SandboxEnded(WrongState):
    """The sandbox is no more; `info().end` says why."""

    default_code = "sandbox_ended"


class ExecEnded(WrongState):
    """The command has ended, and takes neither signals nor input."""

    default_code = "exec_ended"


class ExecForgotten(NotFound):
    """The call ended long ago, and is not kept any more."""

    default_code = "exec_forgotten"


class QuotaExceeded(PaddockError):
    """The tenant has all it may have; `retry_after` says when to try again."""

    default_code = "quota_exceeded"


class RequirementNotMet(PaddockError):
    """This machine cannot give a guarantee that was required; nothing was created."""

    default_code = "requirement_not_met"


class Unsupported(PaddockError):
    default_code = "unsupported"


class HostCertsUnusable(Unsupported):
    """The certificates of the server's machine cannot be read; the message says which."""

    default_code = "host_certs_unusable"


class FilesystemError(PaddockError):
    """Base of what goes wrong with a file inside."""

    default_code = "filesystem_error"


class FileNotFound(NotFound, FilesystemError):
    default_code = "file_not_found"


class NotAFile(FilesystemError):
    default_code = "not_a_file"


class NotADirectory(FilesystemError):
    default_code = "not_a_directory"


class NotEmpty(FilesystemError):
    default_code = "not_empty"


class FileExists(FilesystemError):
    default_code = "file_exists"


class PermissionDenied(FilesystemError):
    default_code = "permission_denied"


class DiskFull(FilesystemError):
    default_code = "disk_full"


class UnsafeArchive(FilesystemError):
    """A downloaded archive holds something that must not be unpacked here. Raised by this package."""

    default_code = "unsafe_archive"


class PortClosed(PaddockError):
    default_code = "port_closed"


class GuestLost(PaddockError):
    default_code = "guest_lost"


class GuestSilent(PaddockError):
    """The sandbox has not answered for some seconds; the server asks on, and the sandbox keeps what it has."""

    default_code = "guest_silent"


class StorageFailed(PaddockError):
    default_code = "storage_failed"


class InternalError(PaddockError):
    default_code = "internal"


class Unavailable(PaddockError):
    default_code = "unavailable"


class ScanFailed(Unavailable):
    """The code could not be scanned, and did not run."""

    default_code = "scan_failed"


class ConnectionFailed(PaddockError):
    """The server could not be reached, or went away, more often than we try again."""

    default_code = "connection_failed"


class ServerNotStarted(ConnectionFailed):
    """No server is configured, none runs, and none could be started."""

    default_code = "server_not_started"


class UnexpectedAnswer(PaddockError):
    """What came back is no answer of a Paddock server."""

    default_code = "unexpected_answer"


class WaitTimeout(PaddockError):
    """The command still runs; only the waiting has ended."""

    default_code = "wait_timeout"


def _all_kinds(base: Type[PaddockError]) -> Dict[str, Type[PaddockError]]:
    kinds: Dict[str, Type[PaddockError]] = {}
    for kind in base.__subclasses__():
        kinds[kind.default_code] = kind
        kinds.update(_all_kinds(kind))
    return kinds


BY_CODE = _all_kinds(PaddockError)

# For codes that a newer server may have: the status still says what kind of failure it is.
_BY_STATUS: Dict[int, Type[PaddockError]] = {
    400: InvalidRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: WrongState,
    410: WrongState,
    413: TooLarge,
    422: InvalidRequest,
    429: QuotaExceeded,
    500: InternalError,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def from_answer(status: int, body: object, headers: Mapping[str, str]) -> PaddockError:
    """The error of an answer that is not a success; `body` is its parsed JSON, or its text."""
    retry_after = _seconds(headers.get("retry-after"))
    if not isinstance(body, dict) or not isinstance(body.get("code"), str):
        text = str(body).strip()[:500] or "an empty answer"
        kind = _BY_STATUS.get(status, UnexpectedAnswer)
        return kind(
            f"the server answered {status}: {text}",
            code="unexpected_answer",
            hint="is PADDOCK_URL the address of a Paddock server?",
            status=status,
            retry_after=retry_after,
        )
    code = body["code"]
    kind = BY_CODE.get(code) or _BY_STATUS.get(status, PaddockError)
    return kind(
        str(body.get("message", code)),
        code=code,
        hint=body.get("hint"),
        status=status,
        request_id=body.get("request_id") or headers.get("x-request-id"),
        retry_after=retry_after,
        details=body["details"] if isinstance(body.get("details"), dict) else None,
    )


def errors_in_their_places(made: Sequence[One], failed: Iterable[Mapping[str, Any]]) -> List[Union[One, PaddockError]]:
    """The results of several: those that were made, and the errors in their places, which come in ascending order."""
    results: List[Union[One, PaddockError]] = list(made)
    for one in failed:
        retry_after = one.get("retry_after_seconds")
        headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        results.insert(one["place"], from_answer(one["status"], one, headers))
    return results


def _seconds(text: Optional[str]) -> Optional[float]:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
