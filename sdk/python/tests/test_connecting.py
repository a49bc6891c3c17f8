"""What is wrong with the way to a server is told as what it is, at once where trying again does not help."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Iterator, Optional, Tuple

import pytest

import paddock
from paddock import AsyncClient, Client
from paddock._connecting import cause_of, is_final
from paddock._location import locate
from paddock._retrying import NeverReached

QUICK = paddock.RetryPolicy(retries=3, first_seconds=0.001)


def failure(url: str) -> paddock.ConnectionFailed:
    """Of the blocking client and of the other one, which have to agree."""
    with pytest.raises(paddock.ConnectionFailed) as caught:
        Client(url, retry=QUICK).whoami()

    async def ask() -> None:
        await AsyncClient(url, retry=QUICK).whoami()

    with pytest.raises(paddock.ConnectionFailed) as other:
        asyncio.run(ask())
    assert other.value.code == caught.value.code
    assert caught.value.hint
    assert url in caught.value.message
    return caught.value


class Listener:
    """Accepts, and speaks TLS with a certificate, or answers in plain text; counts who came."""

    def __init__(self, context: Optional[ssl.SSLContext], said: bytes = b"") -> None:
        self.context, self.said, self.count = context, said, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                stream, _ = self.listener.accept()
            except OSError:
                return
            self.count += 1
            try:
                if self.context:
                    stream = self.context.wrap_socket(stream, server_side=True)
                stream.recv(4096)
                stream.sendall(self.said)
            except OSError:
                pass
            finally:
                stream.close()


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tuple[Listener, Path]]:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    place = tmp_path_factory.mktemp("tls")
    new = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test".split()
    names = ["-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*new, *names, "-keyout", "key", "-out", "ca.pem"], cwd=place, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place / "ca.pem", place / "key")
    listener = Listener(context, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    yield listener, place / "ca.pem"
    listener.listener.close()


def test_a_certificate_that_nobody_vouches_for(tls: Tuple[Listener, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    listener, authority = tls
    before = listener.count
    error = failure(f"https://localhost:{listener.port}")
    assert error.code == "certificate_untrusted"
    assert "SSL_CERT_FILE" in str(error.hint)
    assert listener.count == before + 2, "it was tried again"
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    with Client(f"https://localhost:{listener.port}", retry=QUICK) as trusting:
        assert trusting.whoami() == {}
    assert failure(f"https://127.0.0.1:{listener.port}").code == "certificate_other_name"


def test_tls_where_there_is_none_and_the_reverse(tls: Tuple[Listener, Path]) -> None:
    plain = Listener(None, b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    error = failure(f"https://127.0.0.1:{plain.port}")
    assert error.code == "not_tls"
    assert "http://" in str(error.hint)
    assert "https://" in str(failure(f"http://localhost:{tls[0].port}").hint)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    error = failure(f"http://127.0.0.1:{port}")
    assert error.code == "nobody_listens"
    assert "paddock serve" in str(error.hint)
    assert failure("unix:/nonexistent/api.sock").code == "nobody_listens"


def test_a_name_that_is_not_known() -> None:
    assert failure("http://no-such-host.invalid:80").code == "name_unknown"


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is denied to root")
def test_a_socket_of_somebody_else(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        path.chmod(0)
        assert failure(f"unix:{path}").code == "socket_denied"


def test_a_right_that_is_missing_is_final() -> None:
    location = locate("unix:/run/x.sock")
    error = NeverReached("[Errno 13] Permission denied")
    error.__cause__ = PermissionError(13, "Permission denied")
    cause = cause_of(error, location)
    assert is_final(error)
    assert cause is not None
    assert cause.code == "socket_denied"
    late = NeverReached("timed out")
    late.__cause__ = TimeoutError("timed out")
    slow = cause_of(late, location)
    assert slow is not None
    assert slow.code == "connect_timeout"
    assert not is_final(late)
