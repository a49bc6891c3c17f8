"""An HTTP server on a real socket that cuts its connections where a test wants it to."""

from __future__ import annotations

import socket
import threading
from typing import Dict, Iterator, List, Tuple
from urllib.parse import parse_qsl, urlsplit


class CuttingServer:
    """Answers the n-th connection with the n-th (pieces, complete); an incomplete answer ends by a reset."""

    def __init__(self, *answers: Tuple[List[bytes], bool]) -> None:
        self.answers = list(answers)
        self.queries: List[Dict[str, str]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> CuttingServer:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._listener.close()

    def _serve(self) -> None:
        for pieces, complete in list(self.answers):
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                target = next(self._head(connection)).split()[1]
                self.queries.append(dict(parse_qsl(urlsplit(target).query)))
                connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
                for piece in pieces:
                    connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
                if complete:
                    connection.sendall(b"0\r\n\r\n")
                else:
                    # A close with unsent options: the peer sees the stream break off in the middle of a body.
                    connection.shutdown(socket.SHUT_RDWR)

    def _head(self, connection: socket.socket) -> Iterator[str]:
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65536)
        yield from data.decode().split("\r\n")
