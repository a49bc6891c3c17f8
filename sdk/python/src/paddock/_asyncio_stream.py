"""The twin of `_streams.Stream` for asyncio. Of asyncio's own streams it has the flow control, and it knows whether
anything has come that nobody asked for."""

from __future__ import annotations

import asyncio
from typing import Any, Optional

from ._retrying import AnswerClosed, Broken, NeverReached, Silent
from ._streams import CHUNK, Address, tcp_options


async def open_stream(address: Address, patience: float) -> AsyncStream:
    loop = asyncio.get_running_loop()
    opening: Any
    if address.path is None:
        opening = loop.create_connection(AsyncStream, address.host, address.port)
    else:
        opening = loop.create_unix_connection(AsyncStream, address.path)
    try:
        transport, stream = await asyncio.wait_for(opening, patience)
    except (OSError, UnicodeError, asyncio.TimeoutError) as error:
        raise NeverReached(str(error) or "timed out") from error
    if address.path is None:
        for option in tcp_options():
            transport.get_extra_info("socket").setsockopt(*option)
    made: AsyncStream = stream
    return made


class AsyncStream(asyncio.Protocol):
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: Optional[asyncio.Transport] = None
        self._received = bytearray()
        self._reading = True
        self._ended = False
        self._error: Optional[Exception] = None
        self._closed = False
        self._silent = False
        self._may_write = True
        #: What waits for bytes, or for room to write them, and what waits for the end.
        self._waiting: Optional[asyncio.Future[None]] = None
        self._gone: asyncio.Future[None] = self._loop.create_future()

    async def send(self, data: bytes, patience: Optional[float]) -> None:
        """All of it is with the kernel, or nearly: as much as asyncio would keep."""
        self._check()
        assert self._transport is not None
        self._transport.write(data)
        while not self._may_write and not self._gone.done():
            await self._wait(patience)
        self._check()

    async def receive(self, patience: Optional[float]) -> bytes:
        """What has come, at least a byte; nothing at the end."""
        while not self._received:
            if self._closed or self._silent or self._error is not None:
                self._check()
            if self._ended:
                return b""
            await self._wait(patience)
        data = bytes(self._received)
        self._received.clear()
        if not self._reading and self._transport is not None and not self._gone.done():
            self._reading = True
            self._transport.resume_reading()
        return data

    def is_quiet(self) -> bool:
        """Whether the peer has said nothing and not gone, as on a connection that waits for the next request."""
        return not (self._received or self._ended or self._closed or self._gone.done())

    async def aclose(self) -> None:
        """Also while another task reads, which is woken."""
        self.abort()
        await asyncio.wait([self._gone])

    def abort(self) -> None:
        self._closed = True
        # A transport whose connection is lost has no loop any more, and cannot be aborted.
        if self._transport is not None and not self._gone.done():
            self._transport.abort()
        self._wake()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > CHUNK and self._reading and self._transport is not None:
            self._reading = False
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self._ended = True
        self._wake()
        # False: the transport closes itself. A server that reads no more has nothing more to say.
        return False

    def connection_lost(self, error: Optional[Exception]) -> None:
        self._ended, self._error = True, error
        if not self._gone.done():
            self._gone.set_result(None)
        self._wake()

    def pause_writing(self) -> None:
        self._may_write = False

    def resume_writing(self) -> None:
        self._may_write = True
        self._wake()

    async def _wait(self, patience: Optional[float]) -> None:
        """Until anything happens."""
        waiting = self._waiting = self._loop.create_future()
        timer = None if patience is None else self._loop.call_later(patience, self._give_up)
        try:
            await waiting
        finally:
            self._waiting = None
            if timer is not None:
                timer.cancel()
        if self._silent:
            raise Silent(f"nothing happened for {patience:g} s")

    def _give_up(self) -> None:
        self._silent = True
        self.abort()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _check(self) -> None:
        if self._closed:
            raise AnswerClosed
        if self._error is not None or self._gone.done():
            raise Broken(str(self._error or "the server ended the connection")) from self._error
