"""The real server, started by the first of several programs that need it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterator, List

import pytest

from ..real_server import unmount_below

CODE = """
import sys
from paddock import Client, Sandbox
with Sandbox.create(ttl_seconds=60, client=Client(sys.argv[1], start=True)) as sandbox:
    print(sandbox.run_code("print(sum(range(101)))").stdout.strip())
"""


def servers(socket: str) -> List[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"serve" in arguments and socket.encode() in arguments:
            found.append(int(path.parent.name))
    return found


@pytest.fixture
def directory() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="paddock-sdk-"))
    yield made
    for process in servers(str(made / "run/api.sock")):
        os.kill(process, signal.SIGTERM)
    unmount_below(made)
    shutil.rmtree(made, ignore_errors=True)


def test_several_programs_share_one_server(directory: Path) -> None:
    socket = str(directory / "run/api.sock")
    environment = {**os.environ, "PADDOCK_STATE_DIR": str(directory / "state")}
    environment.pop("PADDOCK_URL")
    command = [sys.executable, "-c", CODE, f"unix:{socket}"]
    programs = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        for _ in range(4)
    ]
    assert [program.communicate(timeout=120)[0].strip() for program in programs] == ["5050"] * 4
    assert len(servers(socket)) == 1
    # It outlives those who started it, and serves the next one.
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("5050\n", "")
