"""A real `paddock serve` from PADDOCK_BIN with a state directory of its own; for the tests of sdk/integrations too."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Optional, Sequence

import pytest

from paddock import Client, Sandbox, SandboxNotFound
from paddock._starting import _not_ready

BINARY = os.environ.get("PADDOCK_BIN")


class Server:
    def __init__(self, directory: Path, options: Sequence[str] = ()) -> None:
        self.directory = directory
        self.options = options
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
        command = [BINARY, "serve", "--socket", self.socket, "--listen", f"127.0.0.1:{self.port}", *self.options]
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

    def token(self) -> str:
        """One that opens the address, for which the socket needs none."""
        assert BINARY
        environment = {**os.environ, "PADDOCK_URL": self.url}
        environment.pop("PADDOCK_TOKEN", None)
        made = subprocess.run([BINARY, "token", "create"], env=environment, capture_output=True, text=True, check=True)
        return made.stdout.split()[-1]

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


def unmount_below(directory: Path) -> None:
    """The storage of a server as root may be a mounted image."""
    with open("/proc/self/mountinfo") as file:
        points = [line.split()[4] for line in file]
    for point in sorted((point for point in points if point.startswith(f"{directory}/")), key=len, reverse=True):
        subprocess.run(["umount", point], check=False)
