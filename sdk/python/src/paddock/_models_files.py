"""Files of a sandbox, as the server describes them."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Mapping, Optional

from ._models import Json, moment_of


@dataclass(frozen=True)
class ResolvedLink:
    """The file at the end of a link, through any number of links."""

    #: Absolute, and without links.
    path: str
    kind: str
    mode: int

    @classmethod
    def parse(cls, body: Json) -> ResolvedLink:
        return cls(path=body["path"], kind=body["kind"], mode=body["mode"])


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
    #: Extended attributes of the user's namespace, by their names without `user.`.
    attributes: Mapping[str, str] = field(default_factory=dict)
    #: Of a link that leads somewhere.
    resolved: Optional[ResolvedLink] = None

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
        encoded, resolved = body.get("path_base64"), body.get("resolved")
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
            attributes=body.get("attributes") or {},
            resolved=ResolvedLink.parse(resolved) if resolved is not None else None,
        )


@dataclass(frozen=True)
class ResolvedPath:
    """Where a path leads, through all links. Parts that are missing stay as they are written."""

    #: Absolute, without links, `.` and `..`.
    path: str
    #: The file there; None if there is none.
    entry: Optional[FileEntry] = None
    #: The path's exact bytes where they are not UTF-8.
    path_bytes: Optional[bytes] = None

    @property
    def exists(self) -> bool:
        return self.entry is not None

    @classmethod
    def parse(cls, body: Json) -> ResolvedPath:
        encoded, entry = body.get("path_base64"), body.get("entry")
        return cls(
            path=body["path"],
            entry=FileEntry.parse(entry) if entry is not None else None,
            path_bytes=base64.b64decode(encoded) if encoded is not None else None,
        )


@dataclass(frozen=True)
class FileEvent:
    #: `created`, `modified`, `deleted`, `moved_from`, `moved_to`, `attributes`, or `overflow`: list again.
    kind: str
    path: str


def _safe_moment(milliseconds: int) -> datetime:
    # Code inside may set any time that the kernel takes; datetime takes fewer.
    try:
        return moment_of(milliseconds)
    except (OverflowError, OSError, ValueError):
        bound = datetime.min if milliseconds < 0 else datetime.max
        return bound.replace(tzinfo=timezone.utc)
