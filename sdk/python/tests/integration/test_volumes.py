"""Volumes as the SDK gives them; what a store does is tested where it is."""

from __future__ import annotations

import pytest

import paddock
from paddock import Sandbox, Volumes

from ..real_server import Server


def test_what_a_sandbox_wrote_is_there_for_the_next_one(server: Server) -> None:
    volumes = Volumes()
    try:
        with Sandbox.create(volumes={"sdk-memory": "/data/memory"}, ttl_seconds=120) as box:
            box.exec("mkdir /data/memory/notes; echo remembered > /data/memory/notes/today")
            assert volumes.get("sdk-memory").writer == f"sandbox {box.id}"
            with pytest.raises(paddock.VolumeBusy, match="is written to by"):
                Sandbox.create(volumes={"sdk-memory": "/data/memory"})
        history = volumes.history("sdk-memory")
        assert [(version.version, version.kind, version.current) for version in history] == [(1, "commit", True)]
        assert volumes.read("sdk-memory", "notes/today") == b"remembered\n"
        assert volumes.write("sdk-memory", "notes/more", "put").version == 2
        with Sandbox.create(volumes={"sdk-memory": "/data/memory:ro"}, ttl_seconds=120) as box:
            assert box.exec("cat /data/memory/notes/*").stdout == "putremembered\n"
            assert "Read-only file system" in box.exec("echo x > /data/memory/x").stderr
        assert [file.path for file in volumes.files("sdk-memory", "notes")] == ["notes", "notes/more", "notes/today"]
        assert volumes.delete("sdk-memory", "notes").version == 3
        assert volumes.restore("sdk-memory", 1).version == 4
        assert [info.name for info in volumes.list()] == ["sdk-memory"]
    finally:
        volumes.remove("sdk-memory")
    with pytest.raises(paddock.VolumeNotFound, match="there is no volume"):
        volumes.get("sdk-memory")


def test_files_are_changed_from_outside_and_through_the_sandbox() -> None:
    volumes = Volumes()
    name = "sdk-outside"
    try:
        made = volumes.create(name)
        assert len(made.id) == 32
        volumes.make_directory(name, "a/b", parents=True, mode=0o750)
        volumes.write(name, "a/run", "true", mode=0o600)
        volumes.change_mode(name, "a/run", 0o755)
        assert (volumes.stat(name, "a/run").mode, volumes.stat(name).kind) == (0o755, "directory")
        assert [file.path for file in volumes.files(name, depth=1)] == ["a"]
        with pytest.raises(paddock.InvalidRequest, match=r"`\.\.`"):
            volumes.stat(name, "../x")
        with Sandbox.create(volumes={name: "/data/x"}, ttl_seconds=120) as box:
            box.exec("echo inside > /data/x/inside")
            assert volumes.read(name, "inside", live=True) == b"inside\n"
            with pytest.raises(paddock.VolumeBusy):
                volumes.write(name, "outside", "x")
            volumes.write(name, "outside", "written", live=True)
            assert box.exec("cat /data/x/outside").stdout == "written"
            volumes.delete(name, "outside", live=True)
            assert [sample.memory_bytes >= 0 for sample in box.metrics()]
        assert sorted(file.path for file in volumes.files(name, depth=1)) == ["a", "inside"]
    finally:
        volumes.remove(name)
