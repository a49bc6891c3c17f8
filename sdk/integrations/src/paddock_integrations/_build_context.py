"""The directory that a Dockerfile copies from, without what its .dockerignore leaves out."""

from __future__ import annotations

import fnmatch
import hashlib
import io
import os
import posixpath
import re
import stat
import tarfile
from pathlib import Path
from typing import IO


class BuildContext:
    """Files by their path relative to the directory; nothing outside of it is ever read."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        self._rules = _rules(self.directory / ".dockerignore")
        self._found = self._walk()

    def digest(self) -> str:
        """Over the names, modes and contents of all files that are not left out."""
        digest = hashlib.sha256()
        for name in self._found:
            path = self.directory / name
            found = path.lstat()
            digest.update(f"{name}\0{found.st_mode:o}\0".encode())
            if stat.S_ISLNK(found.st_mode):
                digest.update(os.readlink(path).encode())
            elif stat.S_ISREG(found.st_mode):
                digest.update(_digest_of(path))
        return digest.hexdigest()

    def match(self, pattern: str) -> list[str]:
        """The paths that a source of COPY names; `.` is the directory itself."""
        clean = posixpath.normpath(pattern.lstrip("/") or ".")
        if clean == ".." or clean.startswith("../"):
            raise ValueError(f"{pattern!r} is outside of the directory of the Dockerfile")
        if clean == ".":
            return ["."]
        parts = clean.split("/")
        found = [
            name
            for name in self._found
            if name.count("/") + 1 == len(parts)
            and all(fnmatch.fnmatchcase(own, wanted) for own, wanted in zip(name.split("/"), parts, strict=True))
        ]
        if not found:
            raise ValueError(f"{pattern!r} names nothing in {self.directory}, or .dockerignore leaves it out")
        return found

    def add(self, archive: tarfile.TarFile, name: str, *, as_name: str | None = None) -> None:
        """A file under its last name (or another), or what is in a directory."""
        path = self.directory / name
        if name != "." and path.is_symlink():
            target = path.resolve()
            if not target.is_relative_to(self.directory) or not target.is_file():
                raise ValueError(f"{name!r} is a link that leads to no file of the directory of the Dockerfile")
            path = target
        if path.is_dir():
            below = "" if name == "." else f"{name}/"
            _add(archive, path, ".")
            for one in self._found:
                if one.startswith(below):
                    _add(archive, self.directory / one, one.removeprefix(below))
        else:
            _add(archive, path, as_name or posixpath.basename(name))

    def is_directory(self, name: str) -> bool:
        path = self.directory / name
        return path.is_dir() and (name == "." or not path.is_symlink())

    def _walk(self) -> list[str]:
        found: dict[str, None] = {}
        for above, directories, files in os.walk(self.directory):
            directories.sort()
            inside = Path(above).relative_to(self.directory).as_posix()
            for name in sorted([*directories, *files]):
                path = posixpath.normpath(posixpath.join(inside, name))
                if not self._left_out(path):
                    # The directories above are there where a rule keeps one of their files.
                    found.update(dict.fromkeys([*_above(path), path]))
        return list(found)

    def _left_out(self, path: str) -> bool:
        verdict = False
        for kept, rule in self._rules:
            if any(rule.fullmatch(one) for one in [path, *_above(path)]):
                verdict = not kept
        return verdict


def inline(archive: tarfile.TarFile, name: str, text: str) -> None:
    """A file that stands in the Dockerfile itself."""
    member = tarfile.TarInfo(name)
    member.mode, content = 0o644, text.encode()
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def new_archive(output: IO[bytes]) -> tarfile.TarFile:
    return tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT)


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    """Without times and owners, so that the same files make the same archive."""
    found = path.lstat()
    member = tarfile.TarInfo(name)
    member.mode = stat.S_IMODE(found.st_mode) & 0o777
    if stat.S_ISREG(found.st_mode):
        with path.open("rb") as file:
            member.size = os.fstat(file.fileno()).st_size
            archive.addfile(member, file)
        return
    if stat.S_ISDIR(found.st_mode):
        member.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(found.st_mode):
        member.type, member.linkname = tarfile.SYMTYPE, os.readlink(path)
    else:
        raise ValueError(f"{name!r} is a device, a pipe or a socket")
    archive.addfile(member)


def _digest_of(path: Path) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.digest()


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _rules(file: Path) -> list[tuple[bool, re.Pattern[str]]]:
    """Of a .dockerignore: whether it keeps what it matches, and what that is. The last one that matches holds."""
    found = []
    for line in file.read_text().splitlines() if file.is_file() else []:
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        kept, text = text.startswith("!"), text.removeprefix("!").strip()
        text = posixpath.normpath(text).lstrip("/")
        if text not in ("", "."):
            found.append((kept, re.compile(_expression(text))))
    return found


def _expression(pattern: str) -> str:
    made, at = "", 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            made, at = made + "(?:.*/)?", at + 3
        elif pattern.startswith("**", at):
            made, at = made + ".*", at + 2
        elif pattern[at] == "*":
            made, at = made + "[^/]*", at + 1
        elif pattern[at] == "?":
            made, at = made + "[^/]", at + 1
        elif pattern[at] == "\\" and at + 1 < len(pattern):
            made, at = made + re.escape(pattern[at + 1]), at + 2
        elif pattern[at] == "[" and (end := pattern.find("]", at + 2)) > 0:
            made, at = made + pattern[at : end + 1], end + 1
        else:
            made, at = made + re.escape(pattern[at]), at + 1
    return made
