"""Volumes as the SDK gives them; what a store does is tested where it is."""

from __future__ import annotations

import pytest

import paddock
from paddock import Sandbox, Volumes

from .conftest import Server


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
