"""What a server answered: a status, headers, and a body that is read at once or piece by piece."""

from __future__ import annotations

import json as json_module
from typing import Any, AsyncIterator, Awaitable, Callable, List, Mapping, Optional

Close = Callable[[], Awaitable[None]]
Wait = Callable[[Optional[float]], None]


class AsyncAnswer:
    """As httpx names it where httpx has the same."""

    def __init__(
        self, status_code: int, headers: Mapping[str, str], pieces: AsyncIterator[bytes], close: Close, wait: Wait
    ) -> None:
        self.status_code = status_code
        self.headers = headers
        self.content = b""
        self._pieces = pieces
        self._close = close
        #: Takes the place of the patience for each further piece, in seconds; None is for ever. To be called before the
        #: first piece is read.
        self.wait_at_most = wait

    @property
    def is_success(self) -> bool:
        return 200 <= self.status_code < 300

    @property
    def text(self) -> str:
        """UTF-8, which is all that a Paddock server writes."""
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        return json_module.loads(self.content)

    async def aread(self) -> bytes:
        """All of the body, which is `content` from now on."""
        pieces: List[bytes] = [piece async for piece in self._pieces]
        self.content = b"".join(pieces)
        return self.content

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The body piece by piece; it can be read once."""
        return self._pieces

    async def aclose(self) -> None:
        """What was not read is not wanted."""
        await self._close()
