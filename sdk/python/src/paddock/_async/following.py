"""A command that is waited for: its input is sent, its output goes to callbacks, and it ends with its caller."""

from __future__ import annotations

from typing import IO, Any, Callable, Union

from .._errors import PaddockError
from .._models import Result
from .._waiting import async_chunks
from .process import AsyncProcess

Input = Union[str, bytes, IO[bytes], IO[str]]
TextCallback = Callable[[str], object]


async def feed(process: AsyncProcess, stdin: Union[bytes, IO[bytes], IO[str]]) -> None:
    """All of its input. A command that ends before it has read all is no failure."""
    try:
        if isinstance(stdin, (bytes, bytearray, memoryview)):
            await process.write_stdin(bytes(stdin))
        else:
            async for piece in async_chunks(stdin):
                await process.write_stdin(piece)
        await process.close_stdin()
    except PaddockError:
        if await process.poll() is None:
            raise


async def follow(process: AsyncProcess, *callbacks: Any) -> Result:
    """Its result. A command whose caller goes away is killed."""
    from .._following import Callbacks

    try:
        return await process._follow(Callbacks(*callbacks))
    except BaseException:
        # A callback raised, or the caller was interrupted: no caller waits for the command any more.
        try:
            await process.kill()
        except PaddockError as error:
            warn("could not kill %r: %s", process, error)
        raise


def warn(text: str, *values: object) -> None:
    import logging

    logging.getLogger("paddock").warning(text, *values)
