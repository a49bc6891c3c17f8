"""Requests over connections of our own, which are kept for the next request. httpx takes longer for a request than the
server, and longer to be imported than Python to start (docs/decisions/0053)."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, AsyncIterator, List, Mapping, NamedTuple, Optional, Tuple, Union

from .._http1 import LAST_CHUNK, Parser, chunk, head_of
from .._location import Plain
from .._retrying import Broken
from .._streams import CHUNK, async_connect
from .answer import AsyncAnswer

if TYPE_CHECKING:
    from .._streams import AsyncStream

#: Connections that wait for the next request, and for how many seconds.
MOST_KEPT = 20
KEPT_SECONDS = 30.0

Body = Union[bytes, AsyncIterator[bytes], None]


class Patience(NamedTuple):
    """Seconds to wait for a connection, and each time for bytes to go or to come; None is for ever."""

    connect: float
    write: Optional[float]
    read: Optional[float]


class AsyncWire:
    """To one server over plain HTTP. Any number of threads may use it."""

    def __init__(self, plain: Plain, headers: Mapping[str, str]) -> None:
        self._address = plain.address
        self._prefix = plain.prefix
        self._headers = {"Host": plain.host, "Accept": "*/*", **headers}
        self._guard = threading.Lock()
        #: Those that wait, the last used at the end, and when that was.
        self._kept: List[Tuple[float, AsyncStream]] = []

    async def send(
        self, method: str, target: str, headers: Mapping[str, str], body: Body, patience: Patience
    ) -> AsyncAnswer:
        """The head of the answer is there; its body is to be read, or the answer to be closed."""
        head = _head(method, self._prefix + target, {**self._headers, **headers}, body)
        stream = self._take() or await async_connect(self._address, patience.connect)
        try:
            sent = await _write(stream, head, body, patience)
            parser = Parser(method)
            await _read_head(stream, parser, patience, sent)
        except BaseException:
            stream.abort()
            raise
        # A server that answers before it has read everything does not read the rest as the next request.
        parser.keeps_open = parser.keeps_open and sent is None
        exchange = AsyncExchange(self, stream, parser, patience.read)
        return AsyncAnswer(parser.status, parser.headers, exchange.pieces(), exchange.aclose, exchange.wait_at_most)

    async def aclose(self) -> None:
        """Closes the connections that wait for a request."""
        with self._guard:
            kept, self._kept = self._kept, []
        for _, stream in kept:
            await stream.aclose()

    def _take(self) -> Optional[AsyncStream]:
        """The connection that was used last, unless the server has closed it meanwhile."""
        while True:
            with self._guard:
                if not self._kept:
                    return None
                since, stream = self._kept.pop()
            if time.monotonic() - since < KEPT_SECONDS and stream.is_quiet():
                return stream
            stream.abort()

    def keep(self, stream: AsyncStream) -> None:
        """For the next request."""
        now = time.monotonic()
        with self._guard:
            self._kept.append((now, stream))
            surplus = [old for since, old in self._kept[:-MOST_KEPT]]
            self._kept = self._kept[-MOST_KEPT:]
            while now - self._kept[0][0] > KEPT_SECONDS:
                surplus.append(self._kept.pop(0)[1])
        for old in surplus:
            old.abort()


class AsyncExchange:
    """An answer that is being read, and the connection that it comes over."""

    def __init__(self, wire: AsyncWire, stream: AsyncStream, parser: Parser, patience: Optional[float]) -> None:
        self._wire, self._stream, self._parser, self._patience = wire, stream, parser, patience
        self._guard = threading.Lock()
        self._over = False

    def wait_at_most(self, patience: Optional[float]) -> None:
        self._patience = patience

    async def pieces(self) -> AsyncIterator[bytes]:
        parser = self._parser
        try:
            piece = b"" if parser.done else parser.body(b"")
            while True:
                if piece:
                    yield piece
                if parser.done:
                    return
                data = await self._stream.receive(self._patience)
                if not data:
                    parser.end()
                piece = parser.body(data)
        finally:
            self._let_go()

    async def aclose(self) -> None:
        if self._let_go():
            await self._stream.aclose()

    def _let_go(self) -> bool:
        """The connection waits for the next request, or where this answer was not read to its end is closed. Whether
        it was closed."""
        with self._guard:
            if self._over:
                return False
            self._over = True
        if self._parser.is_reusable:
            self._wire.keep(self._stream)
            return False
        self._stream.abort()
        return True


def _head(method: str, target: str, headers: Mapping[str, str], body: Body) -> bytes:
    if isinstance(body, bytes):
        return head_of(method, target, {**headers, "Content-Length": str(len(body))})
    if body is not None:
        return head_of(method, target, {**headers, "Transfer-Encoding": "chunked"})
    if method in ("POST", "PUT", "PATCH"):
        # These usually have a body, and say so if they have none.
        headers = {**headers, "Content-Length": "0"}
    return head_of(method, target, headers)


async def _write(stream: AsyncStream, head: bytes, body: Body, patience: Patience) -> Optional[Broken]:
    """None when all is sent; else why not: a server that refuses a body answers, and need not read it."""
    try:
        if body is None:
            await stream.send(head, patience.write)
        elif isinstance(body, bytes):
            if len(body) <= CHUNK:
                await stream.send(head + body, patience.write)
            else:
                await stream.send(head, patience.write)
                await stream.send(body, patience.write)
        else:
            await stream.send(head, patience.write)
            async for piece in body:
                if piece:
                    await stream.send(chunk(piece), patience.write)
            await stream.send(LAST_CHUNK, patience.write)
    except Broken as error:
        return error
    return None


async def _read_head(stream: AsyncStream, parser: Parser, patience: Patience, unsent: Optional[Broken]) -> None:
    try:
        while True:
            data = await stream.receive(patience.read)
            if not data:
                parser.end()
            if parser.head(data):
                return
    except Broken:
        if unsent is not None:
            raise unsent from unsent.__cause__
        raise
