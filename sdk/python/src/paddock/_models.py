"""What the server says, as frozen dataclasses. Fields that a newer server adds are kept in `raw` where there is one."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._findings import Finding

Json = Dict[str, Any]


def _time(milliseconds: Optional[int]) -> Optional[datetime]:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, tz=timezone.utc)


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, tz=timezone.utc)


@dataclass(frozen=True)
class Limits:
    """What a sandbox may use; None is the template's or the server's default."""

    memory_bytes: Optional[int] = None
    cpus: Optional[float] = None
    pids: Optional[int] = None
    disk_bytes: Optional[int] = None
    open_files: Optional[int] = None
    #: Bytes kept of each output stream of each command, half from its head and half from its tail.
    output_bytes: Optional[int] = None
    exec_timeout_seconds: Optional[float] = None


@dataclass(frozen=True)
class TerminalSize:
    rows: int = 24
    columns: int = 80


@dataclass(frozen=True)
class Usage:
    """A field is None where nothing on the machine counts it."""

    cpu_ms: Optional[float] = None
    memory_bytes: Optional[int] = None
    peak_memory_bytes: Optional[int] = None
    disk_bytes: Optional[int] = None
    processes: Optional[int] = None

    @classmethod
    def parse(cls, body: Json) -> Usage:
        names = ("cpu_ms", "memory_bytes", "peak_memory_bytes", "disk_bytes", "processes")
        return cls(**{name: body.get(name) for name in names})


@dataclass(frozen=True)
class NetworkDecision:
    """What the gate of a sandbox said to something that wanted out."""

    number: int
    #: `dns`, `connect`, `http`, `tunnel`, `socks`, `udp`, `icmp` or `other`.
    way: str
    #: `allowed`, `denied` or `closed`.
    verdict: str
    reason: str
    name: Optional[str] = None
    address: Optional[str] = None
    port: Optional[int] = None
    #: How to allow what was denied.
    advice: Optional[str] = None
    sent_bytes: Optional[int] = None
    received_bytes: Optional[int] = None
    count: int = 1

    @classmethod
    def parse(cls, body: Json) -> NetworkDecision:
        return cls(**{name: body[name] for name in cls.__dataclass_fields__ if name in body})


@dataclass(frozen=True)
class Network:
    """What may leave a sandbox, and what its gate decided."""

    #: `none`, `host` or `gate`.
    network: str
    sent_bytes: int
    received_bytes: int
    connections: int
    decisions: Sequence[NetworkDecision]
    #: Number of the last decision, to ask for those after it.
    last: int
    #: The rules that what was tried would have needed.
    needed: Sequence[str]
    rules: Optional[Mapping[str, Any]] = None

    @classmethod
    def parse(cls, body: Json) -> Network:
        return cls(
            network=body["network"],
            sent_bytes=body["sent_bytes"],
            received_bytes=body["received_bytes"],
            connections=body["connections"],
            decisions=tuple(NetworkDecision.parse(decision) for decision in body["decisions"]),
            last=body["last"],
            needed=tuple(body["needed"]),
            rules=body.get("rules"),
        )


@dataclass(frozen=True)
class Cause:
    """Why something ended: `kind`, and what belongs to that kind (`signal`, `limit_ms`, `detail`, ...)."""

    kind: str
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, body: Optional[Json]) -> Optional[Cause]:
        if body is None:
            return None
        return cls(body["kind"], {name: value for name, value in body.items() if name != "kind"})

    def __str__(self) -> str:
        inside = ", ".join(f"{name}={value}" for name, value in self.details.items())
        return f"{self.kind}({inside})" if inside else self.kind


@dataclass(frozen=True)
class End:
    cause: Cause
    reason: str
    at: datetime
    last_output: str
    usage: Usage

    @classmethod
    def parse(cls, body: Optional[Json]) -> Optional[End]:
        if body is None:
            return None
        cause = Cause.parse(body["cause"]) or Cause("unknown")
        usage = Usage.parse(body.get("usage") or {})
        return cls(cause, body["reason"], _moment(body["at_ms"]), body.get("last_output", ""), usage)


@dataclass(frozen=True)
class Idle:
    seconds: float
    action: str


@dataclass(frozen=True)
class SandboxInfo:
    """A sandbox as the server described it at one moment."""

    id: str
    name: Optional[str]
    #: `creating`, `running`, `paused`, `hibernated` or `ended`.
    state: str
    tenant: str
    template: Optional[str]
    image: Optional[str]
    snapshot: Optional[str]
    parent: Optional[str]
    workspace: Optional[str]
    created_at: datetime
    expires_at: Optional[datetime]
    idle: Optional[Idle]
    persistent: bool
    metadata: Mapping[str, str]
    limits: Mapping[str, Any]
    guarantees: Mapping[str, Any]
    #: By their variable, the hosts that they are bound to.
    secrets: Mapping[str, Sequence[str]]
    host_certs: bool
    #: As the API says them: `name`, `path`, `mode`, `version`, and `outcome` at the end.
    volumes: Sequence[Mapping[str, Any]]
    running_execs: int
    end: Optional[End]
    raw: Mapping[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def parse(cls, body: Json) -> SandboxInfo:
        idle = body.get("idle")
        return cls(
            id=body["id"],
            name=body.get("name"),
            state=body["state"],
            tenant=body.get("tenant", ""),
            template=body.get("template"),
            image=body.get("image"),
            snapshot=body.get("snapshot"),
            parent=body.get("parent"),
            workspace=body.get("workspace"),
            created_at=_moment(body["created_at_ms"]),
            expires_at=_time(body.get("expires_at_ms")),
            idle=Idle(idle["seconds"], idle["action"]) if idle else None,
            persistent=bool(body.get("persistent", False)),
            metadata=body.get("metadata") or {},
            limits=body.get("limits") or {},
            guarantees=body.get("guarantees") or {},
            secrets=body.get("secrets") or {},
            host_certs=bool(body.get("host_certs")),
            volumes=body.get("volumes") or [],
            running_execs=body.get("running_execs", 0),
            end=End.parse(body.get("end")),
            raw=body,
        )


@dataclass(frozen=True)
class Result:
    """A command that has ended."""

    exec: int
    command: str
    #: Text; bytes that are not UTF-8 are replaced. `Process.output_bytes` has the exact ones.
    stdout: str
    stderr: str
    #: The command's own, or 128 and the signal's number; 124 after a time limit, as in a shell.
    exit_code: int
    timed_out: bool
    cause: Cause
    started_at: datetime
    ended_at: Optional[datetime]
    #: Bytes printed in all, and those in the middle that were not kept.
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    stdout_missing_bytes: int = 0
    stderr_missing_bytes: int = 0

    @property
    def ok(self) -> bool:
        """It exited with 0."""
        return self.exit_code == 0 and self.cause.kind == "exited"

    @classmethod
    def parse(cls, body: Json) -> Result:
        return cls(
            exec=body["exec"],
            command=body.get("command", ""),
            stdout=body.get("stdout", ""),
            stderr=body.get("stderr", ""),
            exit_code=_exit_code(body),
            timed_out=bool(body.get("timed_out", False)),
            cause=Cause.parse(body.get("cause")) or Cause("unknown"),
            started_at=_moment(body["started_at_ms"]),
            ended_at=_time(body.get("ended_at_ms")),
            stdout_bytes=body.get("stdout_bytes", 0),
            stderr_bytes=body.get("stderr_bytes", 0),
            stdout_missing_bytes=body.get("stdout_missing_bytes", 0),
            stderr_missing_bytes=body.get("stderr_missing_bytes", 0),
        )


@dataclass(frozen=True)
class CodeResult:
    """A value that code displayed, or the value of its last expression, in every representation that it has."""

    #: The value of the last expression, rather than something displayed.
    main: bool = False
    text: Optional[str] = None
    html: Optional[str] = None
    markdown: Optional[str] = None
    svg: Optional[str] = None
    latex: Optional[str] = None
    javascript: Optional[str] = None
    png: Optional[bytes] = None
    jpeg: Optional[bytes] = None
    pdf: Optional[bytes] = None
    json: Any = None
    #: A table: `columns`, `rows` (the first of them), `total_rows`.
    data: Any = None
    #: What a figure shows, so that a client can draw it itself.
    chart: Any = None
    #: Other representations, by media type.
    extra: Dict[str, str] = field(default_factory=dict)
    #: Representations that were too large, and left out or cut.
    cut: List[str] = field(default_factory=list)

    @classmethod
    def parse(cls, body: Json) -> CodeResult:
        def image(name: str) -> Optional[bytes]:
            return base64.b64decode(body[name]) if body.get(name) is not None else None

        texts = ("text", "html", "markdown", "svg", "latex", "javascript")
        return cls(
            main=bool(body.get("main", False)),
            **{name: body.get(name) for name in texts},
            png=image("png"),
            jpeg=image("jpeg"),
            pdf=image("pdf"),
            json=body.get("json"),
            data=body.get("data"),
            chart=body.get("chart"),
            extra=dict(body.get("extra") or {}),
            cut=list(body.get("cut") or []),
        )


@dataclass(frozen=True)
class CodeError:
    """Why code did not come to its end."""

    #: The exception's; `ContextDied` where the interpreter itself has gone.
    name: str
    value: str
    traceback: str

    @classmethod
    def parse(cls, body: Json) -> CodeError:
        return cls(body.get("name", ""), body.get("value", ""), body.get("traceback", ""))


@dataclass(frozen=True)
class Execution(Result):
    """Code that has ended."""

    results: List[CodeResult] = field(default_factory=list)
    error: Optional[CodeError] = None
    #: Where it ran; None for a language without contexts.
    context: Optional[str] = None
    #: How the context had ended before this call, if it had: what it remembered is gone.
    context_restarted: Optional[Cause] = None
    #: Results that were not kept because there were too many.
    results_missing: int = 0
    #: What was found in the code before it ran, where the sandbox's `scan` is `warn`; at most 100.
    findings: List[Finding] = field(default_factory=list)
    #: Findings beyond those.
    findings_missing: int = 0

    @property
    def text(self) -> Optional[str]:
        """The value of the last expression, as text."""
        return next((result.text for result in self.results if result.main), None)

    @classmethod
    def of(cls, result: Result) -> Execution:
        """The same, of a language without contexts."""
        if isinstance(result, cls):
            return result
        return cls(**{name: getattr(result, name) for name in result.__dataclass_fields__})

    @classmethod
    def parse(cls, body: Json) -> Execution:
        plain = Result.parse(body)
        return cls(
            **{name: getattr(plain, name) for name in plain.__dataclass_fields__},
            results=[CodeResult.parse(item) for item in body.get("results") or []],
            error=CodeError.parse(body["error"]) if body.get("error") else None,
            context=body.get("context"),
            context_restarted=Cause.parse(body.get("context_restarted")),
            results_missing=body.get("results_missing", 0),
            findings=Finding.parse_all(body),
            findings_missing=body.get("findings_missing", 0),
        )


@dataclass(frozen=True)
class CodeContext:
    """An interpreter that remembers what ran in it."""

    id: str
    language: str
    #: `idle`, `busy` or `ended`.
    state: str
    #: Made at the first call that named none; such a one begins anew by itself.
    default: bool
    #: The exec that is its interpreter; what is printed between calls is that exec's output.
    exec: int
    started_at: datetime
    cwd: Optional[str] = None
    cause: Optional[Cause] = None
    #: Calls that wait for their turn.
    waiting: int = 0

    @classmethod
    def parse(cls, body: Json) -> CodeContext:
        return cls(
            id=body["id"],
            language=body["language"],
            state=body["state"],
            default=bool(body.get("default", False)),
            exec=body["exec"],
            started_at=_moment(body["started_at_ms"]),
            cwd=body.get("cwd"),
            cause=Cause.parse(body.get("cause")),
            waiting=body.get("waiting", 0),
        )


def _exit_code(body: Json) -> int:
    code = body.get("exit_code")
    # What never ran, or whose sandbox went away, has none of its own; it did not succeed.
    return 255 if code is None else int(code)


@dataclass(frozen=True)
class Output:
    """Bytes that a command printed."""

    #: `stdout` or `stderr`.
    stream: str
    #: Of the first byte, in its stream.
    offset: int
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True)
class Gap:
    """Bytes in the middle that were not kept."""

    stream: str
    offset: int
    bytes: int


@dataclass(frozen=True)
class Ended:
    """The last event. `result` is without the output, which the events before it had."""

    result: Result


@dataclass(frozen=True)
class Shown:
    """Something that code displayed, or the value of its last expression."""

    result: CodeResult


@dataclass(frozen=True)
class Failed:
    """Code did not come to its end."""

    error: CodeError


OutputEvent = Union[Output, Gap, Shown, Failed, Ended]


def parse_output_event(body: Json) -> Optional[OutputEvent]:
    """None for what only says that the connection lives, and for kinds of a newer server."""
    kind = body["type"]
    if kind == "output":
        return Output(body["stream"], body["offset"], base64.b64decode(body["data"], validate=True))
    if kind == "gap":
        return Gap(body["stream"], body["offset"], body["bytes"])
    if kind == "result":
        return Shown(CodeResult.parse(body["result"]))
    if kind == "error":
        return Failed(CodeError.parse(body["error"]))
    if kind == "ended":
        return Ended(Result.parse(body["exec"]))
    return None


@dataclass(frozen=True)
class FileEntry:
    path: str
    #: `file`, `directory`, `link` or `other`.
    kind: str
    size: int
    mode: int
    uid: int
    gid: int
    modified_at: datetime
    target: Optional[str] = None
    #: The path's exact bytes where they are not UTF-8.
    path_bytes: Optional[bytes] = None

    @property
    def name(self) -> str:
        return self.path.rstrip("/").rpartition("/")[2]

    @property
    def is_directory(self) -> bool:
        return self.kind == "directory"

    @property
    def is_file(self) -> bool:
        return self.kind == "file"

    @classmethod
    def parse(cls, body: Json) -> FileEntry:
        encoded = body.get("path_base64")
        return cls(
            path=body["path"],
            kind=body["kind"],
            size=body["size"],
            mode=body["mode"],
            uid=body["uid"],
            gid=body["gid"],
            modified_at=_safe_moment(body["modified_at_ms"]),
            target=body.get("target"),
            path_bytes=base64.b64decode(encoded) if encoded is not None else None,
        )


def _safe_moment(milliseconds: int) -> datetime:
    # Code inside may set any time that the kernel takes; datetime takes fewer.
    try:
        return _moment(milliseconds)
    except (OverflowError, OSError, ValueError):
        bound = datetime.min if milliseconds < 0 else datetime.max
        return bound.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class FileEvent:
    #: `created`, `modified`, `deleted`, `moved_from`, `moved_to`, `attributes`, or `overflow`: list again.
    kind: str
    path: str


@dataclass(frozen=True)
class Snapshot:
    id: str
    name: Optional[str]
    sandbox: str
    created_at: datetime
    #: What it keeps: `filesystem`, or `memory` and that.
    kind: str
    size_bytes: Optional[int] = None

    @classmethod
    def parse(cls, body: Json) -> Snapshot:
        created_at = _moment(body["created_at_ms"])
        return cls(body["id"], body.get("name"), body["sandbox"], created_at, body["kind"], body.get("size_bytes"))


@dataclass(frozen=True)
class Change:
    #: `added`, `modified` or `deleted`.
    kind: str
    path: str
    entry: Optional[FileEntry] = None

    @classmethod
    def parse(cls, body: Json) -> Change:
        entry = body.get("entry")
        return cls(body["kind"], body["path"], FileEntry.parse(entry) if entry else None)


@dataclass(frozen=True)
class MergeConflict:
    path: str
    reason: str


@dataclass(frozen=True)
class MergeReport:
    """With conflicts nothing at all was merged."""

    merged: Tuple[Change, ...]
    conflicts: Tuple[MergeConflict, ...]
    skipped: Tuple[MergeConflict, ...] = ()
    """Pipes, sockets and devices, which are left out."""

    @property
    def ok(self) -> bool:
        return not self.conflicts

    @classmethod
    def parse(cls, body: Json) -> MergeReport:
        merged = tuple(Change.parse(change) for change in body["merged"])
        conflicts, skipped = (
            tuple(MergeConflict(item["path"], item["reason"]) for item in body.get(part, ()))
            for part in ("conflicts", "skipped")
        )
        return cls(merged, conflicts, skipped)
