"""What the server says of a sandbox and of code that ran in it, as frozen dataclasses. Fields that a newer server adds
are kept in `raw` where there is one.

Python takes half a millisecond for each dataclass, so those that `create`, `run_code` and `kill` do not need have files
of their own, and are imported where they are used.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ._findings import Finding

Json = Dict[str, Any]


def time_of(milliseconds: Optional[int]) -> Optional[datetime]:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, tz=timezone.utc)


def moment_of(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, tz=timezone.utc)


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
class UsageSample:
    at: datetime
    #: Since the sample before, of one processor: two that are busy are 200.
    cpu_percent: float
    memory_bytes: int
    disk_bytes: int

    @classmethod
    def parse(cls, body: Json) -> UsageSample:
        at = datetime.fromtimestamp(body["at_ms"] / 1000, timezone.utc)
        return cls(at, body["cpu_percent"], body["memory_bytes"], body["disk_bytes"])


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
        return cls(cause, body["reason"], moment_of(body["at_ms"]), body.get("last_output", ""), usage)


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
    #: The user that its image names for its processes. The sandbox has its own user all the same.
    image_user: Optional[str]
    snapshot: Optional[str]
    parent: Optional[str]
    workspace: Optional[str]
    created_at: datetime
    expires_at: Optional[datetime]
    #: The end of its time to live: `kill`, `pause` or `hibernate`.
    ttl_action: str
    idle: Optional[Idle]
    persistent: bool
    #: `hibernate` or `keep`, as it was asked for; None: hibernated under memory pressure where nothing would be lost.
    under_pressure: Optional[str]
    metadata: Mapping[str, str]
    limits: Mapping[str, Any]
    guarantees: Mapping[str, Any]
    #: By their variable, the hosts that they are bound to.
    secrets: Mapping[str, Sequence[str]]
    host_certs: bool
    #: `public`, the ports that answer without a token, and `request_host`, as they were asked for.
    ports: Mapping[str, Any]
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
            image_user=body.get("image_user"),
            snapshot=body.get("snapshot"),
            parent=body.get("parent"),
            workspace=body.get("workspace"),
            created_at=moment_of(body["created_at_ms"]),
            expires_at=time_of(body.get("expires_at_ms")),
            ttl_action=body.get("ttl_action", "kill"),
            idle=Idle(idle["seconds"], idle["action"]) if idle else None,
            persistent=bool(body.get("persistent", False)),
            under_pressure=body.get("under_pressure"),
            metadata=body.get("metadata") or {},
            limits=body.get("limits") or {},
            guarantees=body.get("guarantees") or {},
            secrets=body.get("secrets") or {},
            host_certs=bool(body.get("host_certs")),
            ports=body.get("ports") or {},
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
            started_at=moment_of(body["started_at_ms"]),
            ended_at=time_of(body.get("ended_at_ms")),
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


def _exit_code(body: Json) -> int:
    code = body.get("exit_code")
    # What never ran, or whose sandbox went away, has none of its own; it did not succeed.
    return 255 if code is None else int(code)
