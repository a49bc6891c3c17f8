"""Directories as tar. What comes out of a sandbox is hostile: nothing of it may land outside the target.

The own checks hold on every Python; `tarfile.data_filter` is asked as well where there is one. They are:

- names are relative and without `..`; only files, directories and links are unpacked, with owner and set-id dropped;
- nothing is written through a link: every directory above a member is looked at before;
- symbolic links are made last, and point to `../` (never above the target) followed by plain names, so that a chain
  of links cannot leave either. A `..` behind a name is refused: what it means depends on other links.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
from pathlib import Path
from typing import IO, List, Tuple

from ._errors import FilesystemError, UnsafeArchive
from ._requests import DEFAULT_MAXIMUM


def pack(directory: str, output: IO[bytes]) -> None:
    """A tar of what is below `directory`: files, directories and links; sockets, pipes and devices are left out."""
    root = Path(directory)
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for above, directories, files in os.walk(root):
            directories.sort()
            for name in sorted(directories + files):
                _pack_one(archive, Path(above) / name, root)


def _pack_one(archive: tarfile.TarFile, path: Path, root: Path) -> None:
    member = archive.gettarinfo(str(path), arcname=path.relative_to(root).as_posix())
    if member is None:
        return
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    if member.islnk():
        # A second name of a file that is already in: sent as a file of its own.
        member.type, member.linkname, member.size = tarfile.REGTYPE, "", path.stat().st_size
    if member.isreg():
        with open(path, "rb") as file:
            archive.addfile(member, file)
    elif member.isdir() or member.issym():
        archive.addfile(member)


def unpack(
    source: IO[bytes], directory: str, *, skip_unsafe_links: bool = False, max_bytes: int = DEFAULT_MAXIMUM
) -> None:
    """Unpacks a tar below `directory`, which is made if need be."""
    root = Path(directory)
    root.mkdir(parents=True, exist_ok=True)
    links: List[Tuple[Path, str]] = []
    modes: List[Tuple[Path, int]] = []
    left = max_bytes
    try:
        with tarfile.open(fileobj=source, mode="r:") as archive:
            for member in archive:
                parts = _parts(member)
                if not parts:
                    continue
                path = _below(root, parts)
                if member.issym():
                    if _link_is_safe(member.linkname, len(parts) - 1):
                        links.append((path, member.linkname))
                    elif not skip_unsafe_links:
                        raise UnsafeArchive(
                            f"the link {member.name!r} points to {member.linkname!r}, which may be outside",
                            hint='download with unsafe_links="skip" to leave such links out',
                        )
                    continue
                if member.isreg():
                    # Before the second opinion, which would follow an old link of this name.
                    _remove_old(path)
                _second_opinion(member, root)
                if member.isdir():
                    _make_directory(path)
                    modes.append((path, member.mode))
                elif member.isreg():
                    left -= member.size
                    if left < 0:
                        raise UnsafeArchive(
                            f"the archive unpacks to more than {max_bytes} bytes",
                            hint="raise max_bytes if that much is expected",
                        )
                    _write(archive, member, path)
                elif member.islnk():
                    _hard_link(root, member, path)
                else:
                    raise UnsafeArchive(f"{member.name!r} is neither a file, a directory nor a link")
    except tarfile.TarError as error:
        raise UnsafeArchive(f"the archive cannot be read: {error}") from error
    except OSError as error:
        raise FilesystemError(f"cannot unpack into {directory}: {error}", code="local_file_error") from error
    for path, target in links:
        _below(root, path.relative_to(root).parts)
        _remove_old(path)
        os.symlink(target, path)
    for path, mode in reversed(modes):
        os.chmod(path, (mode & 0o755) | 0o700)


def _parts(member: tarfile.TarInfo) -> Tuple[str, ...]:
    name = member.name
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise UnsafeArchive(f"the archive holds a path that leads outside: {name!r}")
    return tuple(parts)


def _below(root: Path, parts: Tuple[str, ...]) -> Path:
    """The path, with the directories above it made, none of which is a link."""
    above = root
    for part in parts[:-1]:
        above = above / part
        _make_directory(above)
    return above / parts[-1]


def _make_directory(path: Path) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        os.mkdir(path, 0o755)
        return
    if stat.S_ISLNK(found.st_mode):
        raise UnsafeArchive(f"the archive writes through the link {path}", hint="download into an empty directory")
    if not stat.S_ISDIR(found.st_mode):
        raise UnsafeArchive(f"{path} is no directory, but the archive has files below it")


def _remove_old(path: Path) -> None:
    try:
        if stat.S_ISDIR(os.lstat(path).st_mode):
            raise UnsafeArchive(f"{path} is a directory, but something else in the archive")
        os.unlink(path)
    except FileNotFoundError:
        pass


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    source = archive.extractfile(member)
    if source is None:
        raise UnsafeArchive(f"the archive has no content for {member.name!r}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with source, os.fdopen(os.open(path, flags, 0o600), "wb") as target:
        shutil.copyfileobj(source, target, 1 << 18)
        os.fchmod(target.fileno(), (member.mode & 0o755) | 0o600)


def _hard_link(root: Path, member: tarfile.TarInfo, path: Path) -> None:
    """A copy of a file that this archive, or an earlier one, has put below the root."""
    named = tarfile.TarInfo(member.linkname)
    parts = _parts(named)
    original = _below(root, parts) if parts else root
    if not os.path.exists(original) or not stat.S_ISREG(os.lstat(original).st_mode):
        raise UnsafeArchive(f"{member.name!r} is a second name of {member.linkname!r}, which is no file here")
    if original == path:
        return
    _remove_old(path)
    shutil.copy2(original, path, follow_symlinks=False)


def _link_is_safe(target: str, depth: int) -> bool:
    if not target or target.startswith("/") or "\0" in target:
        return False
    parts = [part for part in target.split("/") if part not in ("", ".")]
    ups = 0
    while ups < len(parts) and parts[ups] == "..":
        ups += 1
    return ups <= depth and ".." not in parts[ups:]


def _second_opinion(member: tarfile.TarInfo, root: Path) -> None:
    data_filter = getattr(tarfile, "data_filter", None)
    if data_filter is None or member.islnk():
        # Hard links are never made here: they become copies, after checks of their own.
        return
    try:
        data_filter(member, str(root))
    except tarfile.TarError as error:
        raise UnsafeArchive(f"the archive is refused: {error}") from error
