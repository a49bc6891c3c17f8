"""A connection as bytes: `Stream` blocks. Its twin for asyncio is in a file of its own, because importing asyncio takes
longer than a call, and half of all programs do not need it."""

from __future__ import annotations

import select
import socket
from typing import TYPE_CHECKING, List, NamedTuple, Optional, Tuple

from ._retrying import AnswerClosed, Broken, NeverReached, Silent

if TYPE_CHECKING:
    from ._asyncio_stream import AsyncStream as AsyncStream

#: Bytes that are read at once, and up to which a body travels together with its head.
CHUNK = 1 << 16


class Address(NamedTuple):
    """A unix socket, or a host and a port."""

    path: Optional[str] = None
    host: str = ""
    port: int = 0


def connect(address: Address, patience: float) -> Stream:
    """Raises `NeverReached`."""
    try:
        if address.path is None:
            made = socket.create_connection((address.host, address.port), patience)
            for option in tcp_options():
                made.setsockopt(*option)
        else:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                made.settimeout(patience)
                made.connect(address.path)
            except BaseException:
                made.close()
                raise
    except (OSError, UnicodeError) as error:
        raise NeverReached(str(error) or type(error).__name__) from error
    return Stream(made)


async def async_connect(address: Address, patience: float) -> AsyncStream:
    """Raises `NeverReached`."""
    from ._asyncio_stream import open_stream

    return await open_stream(address, patience)


class Stream:
    def __init__(self, made: socket.socket) -> None:
        self._socket = made
        self._patience = made.gettimeout()
        self._closed = False

    def send(self, data: bytes, patience: Optional[float]) -> None:
        """All of it. `patience` is for each piece that the kernel takes, not for the whole."""
        self._set(patience)
        try:
            sent = self._socket.send(data)
            if sent < len(data):
                rest = memoryview(data)
                while sent < len(data):
                    sent += self._socket.send(rest[sent:])
        except OSError as error:
            raise self._lost(error) from error

    def receive(self, patience: Optional[float]) -> bytes:
        """What has come, at least a byte; nothing at the end."""
        self._set(patience)
        try:
            data = self._socket.recv(CHUNK)
        except OSError as error:
            raise self._lost(error) from error
        if not data and self._closed:
            raise AnswerClosed
        return data

    def is_quiet(self) -> bool:
        """Whether the peer has said nothing and not gone, as on a connection that waits for the next request."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """Also from another thread, which wakes the one that reads."""
        self._closed = True
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The peer was quicker.
            pass
        self._socket.close()

    def abort(self) -> None:
        self.close()

    def _set(self, patience: Optional[float]) -> None:
        if patience != self._patience:
            self._socket.settimeout(patience)
            self._patience = patience

    def _lost(self, error: OSError) -> Exception:
        if self._closed:
            return AnswerClosed()
        if isinstance(error, socket.timeout):
            return Silent(f"nothing happened for {self._patience:g} s")
        return Broken(str(error) or type(error).__name__)


def tcp_options() -> List[Tuple[int, int, int]]:
    """A request is not held back for more; and a command may be silent for hours, but a peer that is gone must be
    noticed all the same."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options
