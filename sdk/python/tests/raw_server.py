"""A server on a real socket that says exactly the bytes that a test wants, and keeps what it was sent."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from typing import List


def ok(body: bytes = b"{}", *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


class RawServer:
    """Each request is answered by the next of `answers`: bytes, or a function of the connection and the request. The
    connection is closed after bytes that say `Connection: close`, and after a function that returns True."""

    def __init__(self, *answers: object, unix: bool = False) -> None:
        self._answers = list(answers)
        self.requests: List[bytes] = []
        #: The number of the connection that each request came over.
        self.connections: List[int] = []
        self._made = 0
        self._sockets: List[socket.socket] = []
        self._directory = tempfile.TemporaryDirectory() if unix else None
        if self._directory:
            path = os.path.join(self._directory.name, "api.sock")
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._listener.bind(path)
            self._listener.listen(16)
            self.url = f"unix:{path}"
        else:
            self._listener = socket.create_server(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._guard = threading.Lock()

    def __enter__(self) -> RawServer:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_exception: object) -> None:
        # Closing alone would leave the thread in accept.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._sockets:
            connection.close()
        if self._directory:
            self._directory.cleanup()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(connection)
            self._made += 1
            threading.Thread(target=self._serve, args=(connection, self._made), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            while True:
                request = read_request(connection)
                with self._guard:
                    self.requests.append(request)
                    self.connections.append(number)
                    answer = self._answers.pop(0)
                if isinstance(answer, bytes):
                    connection.sendall(answer)
                    if b"Connection: close" in answer:
                        break
                elif callable(answer) and answer(connection, request):
                    break
        except (OSError, IndexError):
            pass
        finally:
            connection.close()


def read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _some(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    if fields.get(b"transfer-encoding") == b"chunked":
        while not body.endswith(b"0\r\n\r\n"):
            body += _some(connection)
    while len(body) < int(fields.get(b"content-length", 0)):
        body += _some(connection)
    return head + b"\r\n\r\n" + body


def _some(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise OSError("the client has gone")
    return data
