"""`paddock mcp` and `/mcp` with the official client, and the protocol's faults without it."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import logging
import os
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Dict, List

import pytest

from paddock import Client as Paddock
from paddock import Sandbox

from ..real_server import BINARY, Server
from .mcp_client import httpx2, living, mcp, over_http, over_stdio, over_stdio_of, text, token

PICTURE = """
import struct, zlib
def chunk(kind, data):
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
class Dot:
    def _repr_png_(self):
        head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
        return b"\\x89PNG\\r\\n\\x1a\\n" + head + chunk(b"IDAT", zlib.compress(b"\\0\\xff\\0\\0")) + chunk(b"IEND", b"")
Dot()
"""


async def the_tools(client: Any) -> None:
    """What any client finds, over any transport."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert {"run_code", "run_shell", "read_file", "edit_file", "read_output", "create_sandbox"} <= set(tools)
    assert "There is no network" in str(tools["run_code"].description) or "sandbox" in str(
        tools["run_code"].description
    )
    assert tools["read_file"].annotations.read_only_hint
    first = await client.call_tool("run_code", {"code": "x = 20\nprint('hello')"})
    assert (text(first), first.is_error) == ("hello", False)
    assert text(await client.call_tool("run_code", {"code": "x + 1"})) == "21"
    failed = await client.call_tool("run_shell", {"command": "echo no >&2; exit 3"})
    assert failed.is_error
    assert text(failed) == "[stderr]\nno\n[exit code 3]"
    await client.call_tool("write_file", {"path": "a.txt", "content": "one\ntwo\n"})
    assert text(await client.call_tool("read_file", {"path": "a.txt", "start_line": 2})) == "two\n"
    picture = await client.call_tool("run_code", {"code": PICTURE})
    assert picture.content[1].mime_type == "image/png"
    assert base64.b64decode(picture.content[1].data).startswith(b"\x89PNG")


async def the_mistakes(client: Any) -> None:
    for name, arguments, said in (
        ("fly", {}, "there is no tool 'fly'; the tools are run_code"),
        ("run_code", {}, "run_code needs the argument 'code': string"),
        ("run_code", {"code": "1", "lang": "r"}, "run_code has no argument 'lang'; it takes code, language"),
        ("read_file", {"path": "x", "sandbox": 7}, "sandbox of read_file is 7, not of type string"),
        ("read_file", {"path": "x", "sandbox": "sb-0000000000000000"}, "there is no sandbox"),
        ("kill_sandbox", {"id": "x"}, "kill_sandbox has no argument 'id'"),
    ):
        result = await client.call_tool(name, arguments)
        assert result.is_error, name
        assert said in text(result)


def test_stdio_from_the_first_call_to_the_end(server: Server) -> None:
    before = living(server)
    seen: List[str] = []

    async def talk(client: Any) -> None:
        await the_mistakes(client)
        assert living(server) == before, "a mistake makes no sandbox"
        await the_tools(client)
        seen.extend(sandbox for sandbox in living(server) if sandbox not in before)

    over_stdio(talk)
    assert len(seen) == 1
    assert living(server) == before


def test_descriptions_say_what_the_policy_allows(server: Server) -> None:
    async def talk(client: Any) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        description = str(tools["run_code"].description)
        assert "Only these hosts can be reached: example.org;" in description
        assert "256 MiB of memory" in description
        await client.call_tool("run_shell", {"command": "true"})
        again = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert again["run_code"].description == description

    over_stdio(talk, "--allow-net", "example.org", "--memory", "256MiB")


@pytest.mark.filterwarnings("error")
def test_clients_close_without_a_warning(server: Server, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    async def talk(client: Any) -> None:
        assert text(await client.call_tool("run_code", {"code": "6 * 7"})) == "42"

    with caplog.at_level(logging.WARNING):
        # A process that its client had to kill does not write this file.
        ended = tmp_path / "ended"
        line = f"{shlex.quote(str(BINARY))} mcp; echo $? > {shlex.quote(str(ended))}"
        over_stdio_of(mcp.StdioServerParameters(command="sh", args=["-c", line], env=dict(os.environ)), talk)
        assert ended.read_text() == "0\n"
        over_http(server, talk, token(server, "closing"))
        gc.collect()
    # Those of the event loop are about a machine that is busy.
    said = [record.getMessage() for record in caplog.records if record.name != "asyncio"]
    assert said == []


def snapshots(server: Server) -> List[str]:
    with Paddock(server.url) as client:
        return [snapshot.id for snapshot in client.snapshots()]


def test_lifecycle_is_the_sessions_own(server: Server) -> None:
    before, kept = living(server), snapshots(server)

    async def talk(client: Any) -> None:
        both = [client.call_tool("run_shell", {"command": "echo kept > /workspace/a"}) for _ in range(2)]
        assert not any(result.is_error for result in await asyncio.gather(*both))
        assert len(living(server)) == len(before) + 1, "two first calls make one sandbox"
        fork = text(await client.call_tool("fork_sandbox", {})).split()[3]
        assert text(await client.call_tool("run_shell", {"command": "cat a", "sandbox": fork})) == "kept"
        snapshot = text(await client.call_tool("snapshot_sandbox", {})).split()[3]
        made = text(await client.call_tool("create_sandbox", {"snapshot": snapshot})).split()[3].rstrip("]")
        assert text(await client.call_tool("read_file", {"path": "a", "sandbox": made})) == "kept\n"
        assert text(await client.call_tool("list_sandboxes", {})).count("sb-") == 3
        assert not (await client.call_tool("kill_sandbox", {"sandbox": fork})).is_error
        gone = await client.call_tool("run_shell", {"command": "true", "sandbox": fork})
        assert gone.is_error
        other = before[0] if before else "sb-0000000000000000"
        assert (await client.call_tool("kill_sandbox", {"sandbox": other})).is_error

    over_stdio(talk)
    assert living(server) == before
    # A client waits two seconds for the end of what it started, and ends it then: the last request may be under way.
    until = time.monotonic() + 10
    while snapshots(server) != kept:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_sandbox_that_was_there_stays(server: Server, sandbox: Sandbox) -> None:
    async def talk(client: Any) -> None:
        await client.call_tool("write_file", {"path": "left.txt", "content": "x"})
        assert (await client.call_tool("kill_sandbox", {})).is_error

    over_stdio(talk, "--sandbox", sandbox.id)
    assert sandbox.filesystem.read("left.txt") == "x"


def test_progress_and_cancellation(server: Server, sandbox: Sandbox) -> None:
    async def talk(client: Any) -> None:
        told: List[float] = []

        async def progress(done: float, total: Any, message: Any) -> None:
            told.append(done)

        await client.call_tool("run_shell", {"command": "sleep 2.5"}, progress_callback=progress)
        assert told
        assert told == sorted(told)
        with pytest.raises(mcp.MCPError):
            await client.call_tool("run_shell", {"command": "sleep 3456"}, read_timeout_seconds=1)
        for _ in range(100):
            if sandbox.exec("! grep -q [3]456 /proc/[0-9]*/cmdline").ok:
                return
            await asyncio.sleep(0.1)
        pytest.fail("cancelled work still runs")

    over_stdio(talk, "--sandbox", sandbox.id)


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_sandbox_too(server: Server, by: int) -> None:
    before = living(server)
    with Raw() as raw:
        raw.hello()
        raw.call("run_shell", {"command": "true"})
        assert len(living(server)) == len(before) + 1
        raw.process.send_signal(by)
        assert raw.process.wait(30) == 128 + by
    assert living(server) == before


def test_a_killed_session_leaves_only_a_short_time_to_live(server: Server) -> None:
    before = living(server)
    with Raw() as raw:
        raw.hello()
        raw.call("run_shell", {"command": "true"})
    (left,) = [sandbox for sandbox in living(server) if sandbox not in before]
    with Paddock(server.url) as client:
        sandbox = Sandbox.connect(left, client=client)
        expires = sandbox.info().expires_at
        assert expires is not None
        assert expires.timestamp() - time.time() <= 180
        sandbox.kill()


class Raw:
    """Lines to and from `paddock mcp`."""

    def __enter__(self) -> Raw:
        # A pytest in the background of a shell ignores SIGINT, and its children would.
        def listen() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        pipe = subprocess.PIPE
        self.process = subprocess.Popen([str(BINARY), "mcp"], stdin=pipe, stdout=pipe, preexec_fn=listen)
        self._number = 0
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def ask(self, method: str, params: Dict[str, Any]) -> Dict[str, Any]:
        assert self.process.stdout is not None
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.send(json.dumps(message).encode() + b"\n")
        for line in self.process.stdout:
            answer: Dict[str, Any] = json.loads(line)
            if answer.get("id") == self._number:
                return answer
        pytest.fail("it ended without an answer")

    def hello(self) -> None:
        client = {"name": "raw", "version": "0"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        assert self.ask("initialize", params)["result"]["serverInfo"]["name"] == "paddock"
        self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def call(self, name: str, arguments: Dict[str, Any]) -> Dict[str, Any]:
        result: Dict[str, Any] = self.ask("tools/call", {"name": name, "arguments": arguments})["result"]
        return result


def test_nonsense_on_standard_input_does_no_harm(server: Server) -> None:
    before = living(server)
    nonsense = [
        b"nonsense\n",
        b'{"half":\n',
        b"\xff\xfe\x00\n",
        b"\n",
        b'{"jsonrpc":"2.0"}\n',
        b"x" * (17 << 20) + b"\n",
    ]
    with Raw() as raw:
        for line in nonsense:
            raw.send(line)
        raw.hello()
        for line in nonsense:
            raw.send(line)
        assert raw.call("run_shell", {"command": "echo still here"})["content"][0]["text"] == "still here"
        assert "error" in raw.ask("tools/fly", {})
        raw.send(b'{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{"name":"run_sh')
        assert raw.process.stdin is not None
        raw.process.stdin.close()
        assert raw.process.wait(30) == 0
    assert living(server) == before


def test_output_of_a_gigabyte_is_cut(server: Server) -> None:
    with Raw() as raw:
        raw.hello()
        command = "yes 0123456789 | head -c 1000000000"
        result = raw.call("run_shell", {"command": command, "timeout_seconds": 600})
        told = result["content"][0]["text"]
        assert len(told) < 20_000
        assert "characters left out; read_output(output='output-1'" in told
        assert "bytes in the middle of this were too many to keep" in told
        piece = raw.call("read_output", {"output": "output-1", "offset": 9600})
        assert not piece["isError"]


def test_http_as_a_tenant(server: Server) -> None:
    before = living(server)
    secret = token(server, "mcp-a")

    async def talk(client: Any) -> None:
        await the_mistakes(client)
        await the_tools(client)

    over_http(server, talk, secret)
    for _ in range(100):
        if living(server) == before:
            return
        time.sleep(0.1)
    assert living(server) == before


def test_http_lets_nobody_else_in(server: Server) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}},
    }
    accepts = {"Accept": "application/json, text/event-stream"}
    with httpx2.Client(base_url=server.tcp_url, headers=accepts, timeout=30) as http:
        assert http.post("/mcp", json=hello).status_code == 401
        mine = {"Authorization": f"Bearer {token(server, 'mcp-a')}"}
        other = {"Authorization": f"Bearer {token(server, 'mcp-a')}"}
        foreign = {**mine, "Origin": "https://attacker.example"}
        assert http.post("/mcp", json=hello, headers=foreign).status_code == 403
        assert http.post("/mcp?frob=1", json=hello, headers=mine).status_code == 400
        began = http.post("/mcp", json=hello, headers=mine)
        assert began.status_code == 200
        session = {"Mcp-Session-Id": began.headers["mcp-session-id"]}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        assert http.post("/mcp", json=ping, headers={**other, **session}).status_code == 404
        assert http.post("/mcp", json=ping, headers={**mine, **session}).status_code == 200
        assert http.request("DELETE", "/mcp", headers={**mine, **session}).status_code == 204
        assert http.post("/mcp", json=ping, headers={**mine, **session}).status_code == 404
        for _ in range(64):
            assert http.post("/mcp", json=hello, headers=other).status_code == 200
        assert http.post("/mcp", json=hello, headers=other).status_code == 429
