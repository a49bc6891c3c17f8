"""What the server says, and what callers say to it, beside sandboxes, code and files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Mapping, Optional, Sequence, Tuple
from urllib.parse import urlsplit

from ._location import Location
from ._models import Cause, Json, moment_of
from ._models_files import FileEntry


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
class PortRight:
    """A right to one port of one sandbox, for somebody who gets no token."""

    #: The address of the port with the right in it; a path on a unix socket, which has no host to name.
    url: str
    #: The name that the port has of its own, where the server has a `--domain`.
    host: Optional[str]
    #: The right alone: for `Authorization: Bearer`, or for the parameter or the cookie `paddock_token`.
    token: str
    expires_at: datetime

    @classmethod
    def parse(cls, body: Json, location: Location) -> PortRight:
        url, host, token = str(body["url"]), body.get("host"), str(body["token"])
        if not location.socket:
            server = urlsplit(location.base_url)
            port = f":{server.port}" if server.port else ""
            own = f"{server.scheme}://{host}{port}/?paddock_token={token}"
            url = own if host else location.base_url + url
        return cls(url=url, host=host, token=token, expires_at=moment_of(body["expires_at_ms"]))


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
            started_at=moment_of(body["started_at_ms"]),
            cwd=body.get("cwd"),
            cause=Cause.parse(body.get("cause")),
            waiting=body.get("waiting", 0),
        )


@dataclass(frozen=True)
class Snapshot:
    id: str
    name: Optional[str]
    sandbox: str
    created_at: datetime
    #: What it keeps: `filesystem`, or `memory` and that.
    kind: str
    size_bytes: Optional[int] = None
    #: Of its sandbox; a sandbox that begins with the snapshot has the same, unless its create says otherwise.
    template: Optional[str] = None
    user: Optional[str] = None
    cwd: Optional[str] = None

    @classmethod
    def parse(cls, body: Json) -> Snapshot:
        created_at = moment_of(body["created_at_ms"])
        return cls(
            body["id"],
            body.get("name"),
            body["sandbox"],
            created_at,
            body["kind"],
            body.get("size_bytes"),
            body.get("template"),
            body.get("user"),
            body.get("cwd"),
        )


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
