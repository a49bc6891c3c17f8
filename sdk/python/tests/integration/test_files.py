from __future__ import annotations

import io
import os
from pathlib import Path
from typing import List

import httpx
import pytest

import paddock
from paddock import FileEvent, Sandbox

from ..real_server import Server


def test_write_and_read(sandbox: Sandbox) -> None:
    files = sandbox.filesystem
    entry = files.write("a/b/c ä.txt", "ünï", mode=0o600)
    assert (entry.kind, entry.size, entry.mode, entry.name) == ("file", 5, 0o600, "c ä.txt")
    assert files.read("a/b/c ä.txt") == "ünï"
    assert sandbox.exec("cat 'a/b/c ä.txt'").stdout == "ünï"
    data = os.urandom(3_000_000)
    files.write("/tmp/big", io.BytesIO(data))
    assert files.read_bytes("/tmp/big") == data
    assert files.read_bytes("/tmp/big", offset=1_000_000, length=10) == data[1_000_000:1_000_010]
    with pytest.raises(paddock.FileNotFound):
        files.write("/tmp/none/x", "", parents=False)


def test_list_stat_move_chmod_remove(sandbox: Sandbox) -> None:
    files = sandbox.files
    files.make_directory("/tmp/d/e")
    for index in range(5):
        files.write(f"/tmp/d/{index}", str(index))
    sandbox.exec("ln -s /etc/passwd /tmp/d/link")
    assert sorted(entry.name for entry in files.list("/tmp/d")) == ["0", "1", "2", "3", "4", "e", "link"]
    link = next(entry for entry in files.walk("/tmp/d") if entry.name == "link")
    assert (link.kind, link.target) == ("link", "/etc/passwd")
    assert link.resolved == paddock.ResolvedLink("/etc/passwd", "file", files.stat("/etc/passwd").mode)
    sandbox.exec("ln -s gone /tmp/d/loose; ln -s link /tmp/d/second")
    assert files.stat("/tmp/d/loose").resolved is None
    assert files.stat("/tmp/d").resolved is None
    assert files.stat("/tmp/d/second").resolved == link.resolved
    files.remove("/tmp/d/loose")
    files.remove("/tmp/d/second")
    files.move("/tmp/d/0", "/tmp/d/e/zero")
    assert files.exists("/tmp/d/e/zero")
    assert not files.exists("/tmp/d/0")
    with pytest.raises(paddock.FileExists):
        files.move("/tmp/d/1", "/tmp/d/2")
    files.move("/tmp/d/1", "/tmp/d/2", overwrite=True)
    assert files.read("/tmp/d/2") == "1"
    assert files.chmod("/tmp/d/2", 0o700).mode == 0o700
    files.remove("/tmp/d/3")
    with pytest.raises(paddock.NotEmpty):
        files.remove("/tmp/d")
    files.remove("/tmp/d", recursive=True)
    assert not files.exists("/tmp/d")


def test_errors_have_their_classes(sandbox: Sandbox) -> None:
    files = sandbox.files
    with pytest.raises(paddock.FileNotFound) as caught:
        files.read("/nothing")
    assert "/nothing" in caught.value.message
    assert (caught.value.status, bool(caught.value.request_id)) == (404, True)
    with pytest.raises(paddock.NotAFile):
        files.read("/tmp")
    with pytest.raises(paddock.FilesystemError):
        files.list("/etc/passwd")
    with pytest.raises(paddock.FilesystemError):
        files.write("/usr/bin/x", "")


def test_watch(sandbox: Sandbox) -> None:
    sandbox.files.make_directory("/tmp/w")
    seen: List[FileEvent] = []
    with sandbox.files.watch("/tmp/w") as events:
        sandbox.exec("echo > /tmp/w/a; mv /tmp/w/a /tmp/w/b; rm /tmp/w/b")
        for event in events:
            seen.append(event)
            if event.kind == "deleted":
                break
    kinds = [event.kind for event in seen]
    assert kinds[0] == "created"
    assert kinds.index("moved_from") < kinds.index("moved_to") < kinds.index("deleted")
    assert seen[-1].path.endswith("/b")


def test_directories_there_and_back(sandbox: Sandbox, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep/ä.txt").write_text("ünï")
    (source / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (source / "run.sh").chmod(0o755)
    (source / "link").symlink_to("deep/ä.txt")
    sandbox.files.upload(source, "project")
    assert sandbox.exec("./run.sh && cat link", cwd=None).exit_code != 0
    assert sandbox.exec("cd project && ./run.sh && cat link").stdout == "ran\nünï"
    sandbox.files.download("project", tmp_path / "copy")
    assert (tmp_path / "copy/link").read_text() == "ünï"
    assert os.access(tmp_path / "copy/run.sh", os.X_OK)
    sandbox.files.upload(source / "run.sh", "/tmp/one.sh")
    assert sandbox.exec("/tmp/one.sh").stdout == "ran\n"
    sandbox.files.download("/tmp/one.sh", tmp_path / "new/one.sh")
    assert (tmp_path / "new/one.sh").read_text() == "#!/bin/sh\necho ran\n"


def test_a_hostile_directory_stays_where_it_belongs(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.exec("mkdir -p /tmp/h && ln -s /etc /tmp/h/out && echo x > /tmp/h/in")
    with pytest.raises(paddock.UnsafeArchive) as caught:
        sandbox.files.download("/tmp/h", tmp_path / "h")
    assert "unsafe_links" in str(caught.value.hint)
    sandbox.files.download("/tmp/h", tmp_path / "skipped", unsafe_links="skip")
    assert os.listdir(tmp_path / "skipped") == ["in"]
    with pytest.raises(paddock.UnsafeArchive, match=r"more than 1 bytes"):
        sandbox.files.download("/tmp/h", tmp_path / "small", max_bytes=1)


def test_signed_addresses(sandbox: Sandbox, server: Server) -> None:
    sandbox.files.write("/tmp/s", "signed")
    reading = sandbox.files.signed_url("/tmp/s", expires_seconds=60)
    with httpx.Client(transport=httpx.HTTPTransport(uds=server.socket), base_url="http://localhost") as http:
        assert http.get(reading).text == "signed"
        writing = sandbox.files.signed_url("/tmp/s", operation="write", expires_seconds=60)
        assert http.put(writing, content=b"new").is_success
        assert not http.put(reading, content=b"never").is_success
    assert sandbox.files.read("/tmp/s") == "new"


def test_paths_are_resolved_and_written_through(sandbox: Sandbox) -> None:
    files = sandbox.files
    sandbox.exec("mkdir -p /tmp/r/real && cd /tmp/r && ln -s real link && echo old > real/f && ln -s f real/g")
    found = files.resolve("/tmp/r/link/../link/g")
    assert (found.path, found.exists, found.entry and found.entry.size) == ("/tmp/r/real/f", True, 4)
    missing = files.resolve("/tmp/r/link/no/where")
    assert (missing.path, missing.exists, missing.entry) == ("/tmp/r/real/no/where", False, None)
    assert files.write("/tmp/r/link/g", "new", follow_links=True).path == "/tmp/r/link/g"
    assert sandbox.exec("cat /tmp/r/real/f; readlink /tmp/r/real/g").stdout == "newf\n"
    files.write("/tmp/r/link/g", "in the place of the link")
    assert sandbox.exec("cat /tmp/r/real/f; test -L /tmp/r/real/g || echo a file").stdout == "newa file\n"
    files.chmod("/tmp/r/real/f", 0o444)
    with pytest.raises(paddock.PermissionDenied):
        files.write("/tmp/r/real/f", "x", follow_links=True)
