"""A vendor's service of the tests' own, behind TLS as the real one is.

Its name is one that only the gate knows, and its authority one that only the gate believes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from real_server import Server

MODEL = Path(__file__).resolve().parents[3] / "tests" / "e2e" / "models" / "server.py"
NAME = "api.vendor.test"
#: It never enters a sandbox. Texts of this length are masked wherever they come back.
KEY = "sk-the-real-key-of-the-tests-0123456789"


class Vendor:
    """The service at one port, and what it was asked."""

    def __init__(self, port: int, log: Path) -> None:
        self.host = f"{NAME}:{port}"
        self.url = f"https://{self.host}"
        self._log = log
        #: The name, and the address behind it, which is this host's own.
        self.network = {"allow": [self.host, f"127.0.0.1:{port}"]}

    def asked(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.read_text().splitlines()]


@contextmanager
def vendor(server: Server, directory: Path, script: list[dict[str, Any]], program: Path = MODEL) -> Iterator[Vendor]:
    """One entry of `script` for each request, as the program has it."""
    certificates(directory)
    net = server.state / "net"
    net.mkdir(mode=0o700, exist_ok=True)
    (net / "hosts").write_text(f"127.0.0.1 {NAME}\n")
    (net / "roots.pem").write_text((directory / "authority.pem").read_text())
    answers, log = directory / "script.json", directory / "asked"
    answers.write_text(json.dumps(script))
    log.write_text("")
    words = [sys.executable, program, answers, log, directory / "server.pem", directory / "server.key"]
    running = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    try:
        yield Vendor(int(running.stdout.readline()), log)
    finally:
        running.kill()
        running.wait()
        running.stdout.close()


def certificates(directory: Path) -> None:
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=directory, check=True, stderr=subprocess.DEVNULL)

    own = ["-days", "2", "-subj", "/CN=tests", "-keyout", "authority.key", "-out", "authority.pem"]
    openssl("req", "-x509", *key, *own)
    openssl("req", *key, "-subj", f"/CN={NAME}", "-keyout", "server.key", "-out", "request.pem")
    (directory / "names").write_text(f"subjectAltName=DNS:{NAME},IP:127.0.0.1")
    signing = ["-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]
    openssl("x509", "-req", "-in", "request.pem", *signing, "-out", "server.pem")
