"""Volumes as the server describes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Mapping, Optional

from ._models import Json


@dataclass(frozen=True)
class VolumeInfo:
    name: str
    tenant: str
    created_at: datetime
    #: What a sandbox gets; none while it is empty.
    version: Optional[int]
    files: int
    bytes: int
    #: What all its versions take in the store.
    stored_bytes: int
    #: Who writes to it now.
    writer: Optional[str]
    #: Tenants that have it too: `ro` or `rw`.
    shared: Mapping[str, str]
    encrypted: bool
    #: No other volume of the same name had it or will have it.
    id: str = ""
    raw: Mapping[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def parse(cls, body: Json) -> VolumeInfo:
        return cls(
            name=body["name"],
            tenant=body["tenant"],
            created_at=_moment(body["created_at_ms"]),
            version=body.get("version"),
            files=body["files"],
            bytes=body["bytes"],
            stored_bytes=body["stored_bytes"],
            writer=body.get("writer"),
            shared=body.get("shared") or {},
            encrypted=bool(body.get("encrypted")),
            id=body.get("id", ""),
            raw=body,
        )


@dataclass(frozen=True)
class VolumeVersion:
    version: int
    #: `commit`, `checkpoint`, `kept` (after a failure) or `restore`.
    kind: str
    at: datetime
    by: str
    current: bool
    files: int
    bytes: int
    #: What it added to the store.
    stored_bytes: int

    @classmethod
    def parse(cls, body: Json) -> VolumeVersion:
        return cls(
            version=body["version"],
            kind=body["kind"],
            at=_moment(body["at_ms"]),
            by=body["by"],
            current=body["current"],
            files=body["files"],
            bytes=body["bytes"],
            stored_bytes=body["stored_bytes"],
        )


@dataclass(frozen=True)
class VolumeFile:
    path: str
    #: `file`, `directory` or `symlink`.
    kind: str
    size: int
    mode: int
    target: Optional[str] = None

    @classmethod
    def parse(cls, body: Json) -> VolumeFile:
        return cls(body["path"], body["kind"], body["size"], body["mode"], body.get("target"))


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, tz=timezone.utc)
