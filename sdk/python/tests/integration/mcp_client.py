"""The official MCP client on `paddock mcp` and on `/mcp`."""

from __future__ import annotations

import asyncio
import os
from typing import Any, Awaitable, Callable, List

import pytest

from paddock import Client as Paddock
from paddock import Sandbox

from ..real_server import BINARY, Server

mcp = pytest.importorskip("mcp", reason="the package mcp needs Python 3.10")
httpx2 = pytest.importorskip("httpx2", reason="the package mcp of this Python has no httpx2")
streamable_http = pytest.importorskip("mcp.client.streamable_http")

Talk = Callable[[Any], Awaitable[None]]


def living(server: Server) -> List[str]:
    with Paddock(server.url) as client:
        return [sandbox.id for sandbox in Sandbox.list(client=client) if sandbox.state != "ended"]


def stdio(*arguments: str) -> Any:
    return mcp.StdioServerParameters(command=BINARY, args=["mcp", *arguments], env=dict(os.environ))


def over_stdio(talk: Talk, *arguments: str) -> None:
    over_stdio_of(stdio(*arguments), talk)


def over_stdio_of(started: Any, talk: Talk) -> None:
    async def run() -> None:
        async with mcp.Client(started) as client:
            await talk(client)

    asyncio.run(run())


def token(server: Server, tenant: str) -> str:
    with Paddock(server.url) as client:
        made = client.call("POST", "/v1/tokens", json={"tenant": tenant, "role": "user"})
        return str(made["secret"])


def over_http(server: Server, talk: Talk, secret: str, path: str = "/mcp") -> None:
    async def run() -> None:
        headers = {"Authorization": f"Bearer {secret}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            transport = streamable_http.streamable_http_client(server.tcp_url + path, http_client=http)
            async with mcp.Client(transport) as client:
                await talk(client)

    asyncio.run(run())


def text(result: Any) -> str:
    return str(result.content[0].text)
