"""The same over httpx: for a transport of the caller's, and for https, whose certificates httpx checks."""

from __future__ import annotations

from typing import AsyncIterator, Mapping, Optional, Type

import httpx

from .._retrying import AnswerClosed, Broken, NeverReached, Silent, Unusable, WireError
from .answer import AsyncAnswer
from .wire import Body, Patience


class AsyncHttpxWire:
    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def send(
        self, method: str, target: str, headers: Mapping[str, str], body: Body, patience: Patience
    ) -> AsyncAnswer:
        timeout = httpx.Timeout(patience.write, read=patience.read, connect=patience.connect)
        request = self._http.build_request(method, target, headers=headers, content=body, timeout=timeout)
        try:
            response = await self._http.send(request, stream=True)
        except httpx.TransportError as error:
            raise _translated(error) from error

        def wait_at_most(seconds: Optional[float]) -> None:
            # httpcore asks this dictionary when it reads the first piece.
            request.extensions["timeout"]["read"] = seconds

        return AsyncAnswer(response.status_code, response.headers, _pieces(response), response.aclose, wait_at_most)

    async def aclose(self) -> None:
        await self._http.aclose()


async def _pieces(response: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for piece in response.aiter_bytes():
            yield piece
    except httpx.TransportError as error:
        raise _translated(error) from error
    except httpx.StreamError as error:
        raise AnswerClosed from error


def _translated(error: httpx.TransportError) -> WireError:
    kind: Type[WireError] = Broken
    if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)):
        kind = NeverReached
    elif isinstance(error, (httpx.ReadTimeout, httpx.WriteTimeout)):
        kind = Silent
    elif isinstance(error, (httpx.UnsupportedProtocol, httpx.ProxyError)):
        kind = Unusable
    return kind(str(error) or type(error).__name__)
