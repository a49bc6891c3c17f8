"""What the two surfaces do differently: sleeping, and work that blocks. `x` is the twin of `async_x`."""

from __future__ import annotations

import functools
import threading
import time
from typing import IO, TYPE_CHECKING, Any, AsyncIterator, Callable, Iterator, TypeVar, Union

if TYPE_CHECKING:
    # Importing it takes as long as starting Python, and programs without `async` do not need it.
    import asyncio

T = TypeVar("T")

CHUNK = 1 << 18


def sleep(seconds: float) -> None:
    time.sleep(seconds)


async def async_sleep(seconds: float) -> None:
    import asyncio

    await asyncio.sleep(seconds)


def off_loop(function: Callable[..., T], *arguments: Any) -> T:
    return function(*arguments)


async def async_off_loop(function: Callable[..., T], *arguments: Any) -> T:
    """Runs what blocks in a thread, so that the event loop goes on."""
    import asyncio

    return await asyncio.get_running_loop().run_in_executor(None, functools.partial(function, *arguments))


def lock() -> threading.Lock:
    return threading.Lock()


def async_lock() -> asyncio.Lock:
    import asyncio

    return asyncio.Lock()


def chunks(file: IO[Any]) -> Iterator[bytes]:
    """The rest of a file object, of bytes or of text."""
    while True:
        piece: Union[str, bytes] = file.read(CHUNK)
        if not piece:
            return
        yield piece.encode() if isinstance(piece, str) else piece


async def async_chunks(file: IO[Any]) -> AsyncIterator[bytes]:
    """The rest of a file object, of bytes or of text, read in a thread."""
    while True:
        piece: Union[str, bytes] = await async_off_loop(file.read, CHUNK)
        if not piece:
            return
        yield piece.encode() if isinstance(piece, str) else piece
