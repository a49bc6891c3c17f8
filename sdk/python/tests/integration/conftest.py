"""A real `paddock serve`, from PADDOCK_BIN, with a state directory of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Iterator, Optional

import pytest

from paddock import Client, Sandbox, SandboxNotFound
from paddock._starting import _not_ready

BINARY = os.environ.get("PADDOCK_BIN")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip = pytest.mark.skip(reason="PADDOCK_BIN is not set: it names the paddock executable that serves these tests")
    for item in items:
        if "integration" in str(item.fspath):
            item.add_marker(pytest.mark.server)
            if not BINARY:
                item.add_marker(skip)


class Server:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.socket = str(directory / "api.sock")
        self.url = f"unix:{self.socket}"
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.port = found.getsockname()[1]
        self.tcp_url = f"http://127.0.0.1:{self.port}"
        self.log = directory / "serve.log"
        self._process: Optional[subprocess.Popen[bytes]] = None

    def start(self) -> None:
        assert BINARY
        command = [BINARY, "serve", "--socket", self.socket, "--listen", f"127.0.0.1:{self.port}"]
        environment = {**os.environ, "PADDOCK_STATE_DIR": str(self.state)}
        for name in ("PADDOCK_URL", "PADDOCK_TOKEN"):
            environment.pop(name, None)
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        deadline = time.monotonic() + 30
        while True:
            reason = _not_ready(self.socket)
            if not reason:
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"`paddock serve` is not ready: {reason}\n{self.log.read_text()[-4000:]}", pytrace=False)
            time.sleep(0.02)

    def end(self, by: int) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(by)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            if by == signal.SIGTERM:
                pytest.fail("`paddock serve` did not end within 20 s of SIGTERM", pytrace=False)

    def restart(self, by: int = signal.SIGKILL) -> None:
        self.end(by)
        self.start()

    def sweep(self) -> None:
        with Client(self.url) as client:
            for sandbox in list(Sandbox.list(client=client)):
                if sandbox.state != "ended":
                    try:
                        sandbox.kill()
                    except SandboxNotFound:
                        pass
            for snapshot in client.snapshots():
                client.delete_snapshot(snapshot)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    # Paths of sockets are short, those of pytest are long.
    made = Server(Path(tempfile.mkdtemp(prefix="paddock-sdk-")))
    made.start()
    try:
        yield made
        made.sweep()
    finally:
        made.end(signal.SIGTERM)
        unmount_below(made.directory)
        shutil.rmtree(made.directory, ignore_errors=True)


def unmount_below(directory: Path) -> None:
    """The storage of a server as root may be a mounted image."""
    with open("/proc/self/mountinfo") as file:
        points = [line.split()[4] for line in file]
    for point in sorted((point for point in points if point.startswith(f"{directory}/")), key=len, reverse=True):
        subprocess.run(["umount", point], check=False)


@pytest.fixture(autouse=True)
def _configured(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_URL", server.url)
    monkeypatch.delenv("PADDOCK_TOKEN", raising=False)


@pytest.fixture
def sandbox(server: Server) -> Iterator[Sandbox]:
    with Sandbox.create(ttl_seconds=300) as made:
        yield made
