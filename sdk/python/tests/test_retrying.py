"""What is done again when the connection is lost, and what must not be."""

from __future__ import annotations

import asyncio
import io
from typing import Any, Callable, List

import httpx
import pytest

import paddock
from paddock import AsyncSandbox, RetryPolicy, Sandbox

from .answers import QUICK, Script, async_client, client, ended_exec, sandbox
from .test_requests import ENTRY, box

LOST: List[Callable[[], Exception]] = [
    lambda: httpx.ReadError("reset by peer"),
    lambda: httpx.RemoteProtocolError("server disconnected without sending a response"),
    lambda: httpx.WriteError("broken pipe"),
]


@pytest.mark.parametrize("lost", LOST)
def test_create_is_done_again_with_the_same_key(lost: Callable[[], Exception]) -> None:
    script = Script(lost(), lost(), sandbox())
    Sandbox.create(client=client(script))
    keys = {request.headers["idempotency-key"] for request in script.requests}
    assert (len(script.requests), len(keys)) == (3, 1)


def test_each_call_has_a_key_of_its_own() -> None:
    script = Script(sandbox(), sandbox())
    for _ in range(2):
        Sandbox.create(client=client(script))
    assert len({request.headers["idempotency-key"] for request in script.requests}) == 2


def test_exec_code_and_fork_are_done_again() -> None:
    answers = [ended_exec(), ended_exec(), {"sandboxes": [sandbox()]}]
    script = Script(*[part for answer in answers for part in (httpx.ReadError("x"), answer)])
    sandbox_ = box(script)
    assert sandbox_.exec("true").ok
    assert sandbox_.run_code("pass").ok
    sandbox_.fork()
    keys = [request.headers["idempotency-key"] for request in script.requests]
    assert keys[0::2] == keys[1::2]
    assert len(set(keys)) == 3


@pytest.mark.parametrize(
    "act",
    [
        lambda sandbox_: sandbox_.snapshot(),
        lambda sandbox_: sandbox_.files.remove("/a"),
        lambda sandbox_: sandbox_.files.move("/a", "/b"),
        lambda sandbox_: sandbox_.process(1).signal("USR1"),
        lambda sandbox_: sandbox_.merge("sb-1"),
    ],
)
def test_what_would_happen_twice_is_not_done_again(act: Callable[[Sandbox], Any]) -> None:
    script = Script(httpx.ReadError("reset"))
    sandbox_ = box(script)
    with pytest.raises(paddock.ConnectionFailed, match="lost the connection"):
        act(sandbox_)
    assert len(script.requests) == 1


def test_what_never_arrived_is_always_done_again() -> None:
    script = Script(httpx.ConnectError("refused"), httpx.ConnectTimeout("slow"), ended_exec(stdout="1"))
    assert box(script).run_code("print(1)").stdout == "1"
    assert len(script.requests) == 3


def test_trying_is_bounded() -> None:
    script = Script(*[httpx.ConnectError("refused")] * 20)
    with pytest.raises(paddock.ConnectionFailed) as caught:
        Sandbox.connect("x", client=client(script))
    assert len(script.requests) == 1 + QUICK.retries
    assert "http://server.test" in caught.value.message
    assert "paddock serve" in str(caught.value.hint)
    assert isinstance(caught.value.__cause__, httpx.ConnectError)


def test_a_silent_server_is_not_asked_for_ever() -> None:
    script = Script(httpx.ReadTimeout("silent"))
    with pytest.raises(paddock.ConnectionFailed):
        Sandbox.connect("x", client=client(script))


def test_a_busy_server_is_asked_again() -> None:
    busy = {"code": "unavailable", "message": "starting", "request_id": "r"}
    script = Script(httpx.Response(503, json=busy, headers={"Retry-After": "0"}), sandbox())
    assert Sandbox.connect("x", client=client(script)).state == "running"
    script = Script(*[httpx.Response(503, json=busy, headers={"Retry-After": "0"}) for _ in range(9)])
    with pytest.raises(paddock.Unavailable):
        Sandbox.connect("x", client=client(script))
    assert len(script.requests) == 1 + QUICK.retries
    script = Script(httpx.Response(503, json=busy))
    with pytest.raises(paddock.Unavailable):
        box(script).snapshot()
    assert len(script.requests) == 1


def test_an_upload_is_sent_again_from_where_it_began() -> None:
    bodies: List[bytes] = []

    def handler(request: httpx.Request) -> httpx.Response:
        bodies.append(request.read())
        if len(bodies) == 1:
            raise httpx.ReadError("reset")
        return httpx.Response(200, json=ENTRY)

    file = io.BytesIO(b"skipped,kept")
    file.seek(8)
    script = Script()
    sandbox_ = box(script)
    sandbox_.files._client = client(handler)
    sandbox_.files.write("/a", file)
    assert bodies == [b"kept", b"kept"]


class Pipe(io.BytesIO):
    def seekable(self) -> bool:
        return False


def test_what_cannot_be_read_twice_is_not_sent_twice() -> None:
    script = Script(httpx.ReadError("reset"))
    with pytest.raises(paddock.ConnectionFailed):
        box(script).files.write("/a", Pipe(b"once"))
    assert len(script.requests) == 1


def test_pauses_grow_and_are_bounded() -> None:
    policy = RetryPolicy(retries=6, first_seconds=0.05, longest_seconds=2.0)
    for attempt in range(20):
        ceiling = min(2.0, 0.05 * 2**attempt)
        assert ceiling / 2 <= policy.pause(attempt) <= ceiling
    assert policy.pause(0, retry_after=1.5) == 1.5
    assert policy.pause(0, retry_after=86400) == 20.0


def test_async_tries_again_as_well() -> None:
    script = Script(httpx.ReadError("x"), sandbox())

    async def main() -> AsyncSandbox:
        return await AsyncSandbox.create(client=async_client(script))

    assert asyncio.run(main()).state == "running"
    assert len({request.headers["idempotency-key"] for request in script.requests}) == 1
