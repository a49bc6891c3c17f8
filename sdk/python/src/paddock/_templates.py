"""Templates and their builds as the server describes them, and the archives of steps that copy."""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any, List, Mapping, Optional, Tuple

from ._errors import TemplateBuildFailed
from ._models import Json

#: States in which a build stays.
FINISHED = ("ready", "failed")
#: The last lines of a failed build's log that its error shows.
SHOWN_LINES = 20


@dataclass(frozen=True)
class TemplateInfo:
    name: str
    #: Of a template that the tenant built; None of those of the owner of the host.
    id: Optional[str]
    #: By the tag the id of its build.
    tags: Mapping[str, str]
    raw: Mapping[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def parse(cls, body: Json) -> TemplateInfo:
        tags = {tag["tag"]: tag["build"] for tag in body.get("tags", ())}
        return cls(name=body["name"], id=body.get("id"), tags=tags, raw=body)


@dataclass(frozen=True)
class TemplateBuild:
    id: str
    #: The id of the template.
    template: str
    name: str
    #: Those that it gets when it is ready.
    tags: Tuple[str, ...]
    #: `waiting`, `building`, `ready` or `failed`.
    state: str
    created_at: datetime
    finished_at: Optional[datetime]
    #: Of a build that failed: the reason, and the step (`base`, its number from 1 on, or `finalize`).
    reason: Optional[str]
    step: Optional[str]
    size_bytes: Optional[int]
    raw: Mapping[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @property
    def finished(self) -> bool:
        """Whether it stays as it is."""
        return self.state in FINISHED

    @classmethod
    def parse(cls, body: Json) -> TemplateBuild:
        failure = body.get("failure") or {}
        return cls(
            id=body["id"],
            template=body["template"],
            name=body["name"],
            tags=tuple(body["tags"]),
            state=body["state"],
            created_at=_moment(body["created_at_ms"]),
            finished_at=_moment(body["finished_at_ms"]) if "finished_at_ms" in body else None,
            reason=failure.get("message"),
            step=failure.get("step"),
            size_bytes=body.get("size_bytes"),
            raw=body,
        )


@dataclass(frozen=True)
class BuildLogEntry:
    at: datetime
    #: `debug`, `info`, `warn` or `error`.
    level: str
    message: str
    step: Optional[str] = None

    @classmethod
    def parse(cls, body: Json) -> BuildLogEntry:
        return cls(_moment(body["at_ms"]), body["level"], body["message"], body.get("step"))


def build_failed(build: TemplateBuild, log: List[BuildLogEntry]) -> TemplateBuildFailed:
    """What to raise for a build that failed: the reason, and the last lines of its log."""
    where = f" at step {build.step}" if build.step else ""
    shown = "".join(f"\n    {entry.message}" for entry in log[-SHOWN_LINES:])
    return TemplateBuildFailed(
        f"the build {build.id} of template {build.name} failed{where}: {build.reason or 'no reason is known'}{shown}",
        details={"build": build.id, "step": build.step, "reason": build.reason},
    )


def pack_for_copy(source: str, output: IO[bytes]) -> str:
    """Writes the archive of a step that copies this file or directory, and returns its name in there.

    Times and owners are left out, so that the same files have the same hash and their layer is found again.
    """
    root = Path(source)
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as archive:
        if not root.is_dir():
            add_plain(archive, root, root.name)
            return root.name
        add_plain(archive, root, ".")
        for above, directories, files in os.walk(root):
            directories.sort()
            for name in sorted(directories + files):
                path = Path(above) / name
                add_plain(archive, path, path.relative_to(root).as_posix())
    return "."


def add_plain(archive: tarfile.TarFile, path: Path, name: str) -> None:
    """Adds a file, a directory or a link; a second name of a file becomes a file of its own."""
    found = os.lstat(path)
    member = tarfile.TarInfo(name)
    member.mode = stat.S_IMODE(found.st_mode) & 0o777
    if stat.S_ISREG(found.st_mode):
        with open(path, "rb") as file:
            member.size = os.fstat(file.fileno()).st_size
            archive.addfile(member, file)
    elif stat.S_ISDIR(found.st_mode):
        member.type = tarfile.DIRTYPE
        archive.addfile(member)
    elif stat.S_ISLNK(found.st_mode):
        member.type, member.linkname = tarfile.SYMTYPE, os.readlink(path)
        archive.addfile(member)
    else:
        raise OSError(f"{path} is a device, a pipe or a socket, and cannot be copied into a template")


def hash_of(archive: IO[bytes]) -> str:
    """The name by which the server keeps an archive."""
    archive.seek(0)
    digest = hashlib.sha256()
    while piece := archive.read(1 << 20):
        digest.update(piece)
    archive.seek(0)
    return digest.hexdigest()


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, tz=timezone.utc)
