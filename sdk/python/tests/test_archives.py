"""Nothing of a hostile archive lands outside the target, with Python's own filter and without it."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest

from paddock import UnsafeArchive
from paddock._archives import pack, unpack

Member = Tuple[str, Dict[str, Any], bytes]


@pytest.fixture(params=["with data filter", "without"], autouse=True)
def _filters(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    elif not hasattr(tarfile, "data_filter"):
        pytest.skip("this Python has no data filter")


def archive(*members: Member) -> io.BytesIO:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, fields, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            for field, value in fields.items():
                setattr(member, field, value)
            tar.addfile(member, io.BytesIO(data) if data else None)
    made.seek(0)
    return made


def file(name: str, data: bytes = b"data", **fields: Any) -> Member:
    return name, fields, data


def link(name: str, target: str) -> Member:
    return name, {"type": tarfile.SYMTYPE, "linkname": target}, b""


def hard(name: str, target: str) -> Member:
    return name, {"type": tarfile.LNKTYPE, "linkname": target}, b""


def directory(name: str, mode: int = 0o755) -> Member:
    return name, {"type": tarfile.DIRTYPE, "mode": mode}, b""


def tree(root: Path) -> List[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


HOSTILE = {
    "absolute": [file("/outside")],
    "up": [file("../outside")],
    "up in the middle": [file("a/../../outside")],
    "absolute link": [link("x", "/etc")],
    "link up": [link("x", "../outside")],
    "link up from below": [link("a/x", "../../outside")],
    "link with a way back behind a name": [directory("a"), link("a/b", ".."), link("c", "a/b/..")],
    "hard link outside": [hard("x", "../outside")],
    "hard link to the host": [hard("x", "/etc/passwd")],
    "hard link to nothing": [hard("x", "missing")],
    "device": [("null", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}, b"")],
    "pipe": [("pipe", {"type": tarfile.FIFOTYPE}, b"")],
    "empty link": [link("x", "")],
}


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_archives(members: List[Member], tmp_path: Path) -> None:
    target = tmp_path / "target"
    (tmp_path / "outside").write_text("old")
    with pytest.raises(UnsafeArchive):
        unpack(archive(file("first"), *members), str(target))
    assert (tmp_path / "outside").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["outside", "target"]


def test_a_link_and_then_a_file_through_it(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    target = tmp_path / "target"
    # Within one archive the link comes last; what lies below its name makes it a directory.
    with pytest.raises(UnsafeArchive):
        unpack(archive(link("a", "b"), file("a/x")), str(target))
    # Across archives, and through a link of the user's own.
    target = tmp_path / "second"
    target.mkdir()
    (target / "a").symlink_to(outside)
    with pytest.raises(UnsafeArchive, match="through the link"):
        unpack(archive(file("a/x")), str(target))
    assert os.listdir(outside) == []


def test_a_file_in_place_of_a_link_does_not_follow_it(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("old")
    target = tmp_path / "target"
    target.mkdir()
    (target / "a").symlink_to(secret)
    unpack(archive(file("a", b"new")), str(target))
    assert secret.read_text() == "old"
    assert (target / "a").read_text() == "new"
    assert not (target / "a").is_symlink()


def test_modes_and_owners_are_not_taken_over(tmp_path: Path) -> None:
    unpack(archive(directory("d", 0o7777), file("d/x", mode=0o6777, uid=0), file("s", mode=0o000)), str(tmp_path))
    assert (tmp_path / "d").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "d/x").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "s").stat().st_mode & 0o7777 == 0o600
    assert (tmp_path / "d/x").stat().st_uid == os.geteuid()


def test_ordinary_links_work(tmp_path: Path) -> None:
    members = [
        file("pkg/tool.js", b"tool", mode=0o755),
        link("bin/tool", "../pkg/tool.js"),
        link("here", "pkg/"),
        hard("second", "pkg/tool.js"),
    ]
    unpack(archive(*members), str(tmp_path))
    assert (tmp_path / "bin/tool").read_bytes() == b"tool"
    assert (tmp_path / "here/tool.js").read_bytes() == b"tool"
    assert (tmp_path / "second").read_bytes() == b"tool"
    assert (tmp_path / "pkg/tool.js").stat().st_nlink == 1


def test_links_that_lead_outside_can_be_left_out(tmp_path: Path) -> None:
    unpack(archive(link("python", "/usr/bin/python3"), file("a")), str(tmp_path), skip_unsafe_links=True)
    assert tree(tmp_path) == ["a"]


def test_a_bomb_is_bounded(tmp_path: Path) -> None:
    with pytest.raises(UnsafeArchive, match="more than 100 bytes"):
        unpack(archive(file("a", b"x" * 60), file("b", b"x" * 60)), str(tmp_path), max_bytes=100)


@pytest.mark.parametrize("data", [b"no tar at all" * 100, b"\0" * 100])
def test_what_is_no_archive(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(UnsafeArchive, match="cannot be read"):
        unpack(io.BytesIO(data), str(tmp_path))


def test_there_and_back(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "deep/er").mkdir(parents=True)
    (source / "deep/er/ä b.txt").write_text("ünï")
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    (source / "empty").mkdir()
    (source / "long" / ("n" * 200)).mkdir(parents=True)
    (source / "link").symlink_to("deep/er")
    os.link(source / "run.sh", source / "same.sh")
    os.mkfifo(source / "pipe")
    packed = io.BytesIO()
    pack(str(source), packed)
    packed.seek(0)
    unpack(packed, str(target))
    assert tree(target) == [name for name in tree(source) if name != "pipe"]
    assert (target / "link/ä b.txt").read_text() == "ünï"
    assert (target / "same.sh").read_text() == "#!/bin/sh\n"
    assert os.access(target / "run.sh", os.X_OK)
