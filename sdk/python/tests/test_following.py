"""Output is read exactly once, wherever the connection breaks."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from typing import Any, Callable, Dict, List, Tuple

import httpx
import pytest

import paddock
from paddock import AsyncClient, AsyncProcess, Client, Ended, Gap, Output, Process
from paddock._following import Callbacks, Position
from paddock._http1 import chunk

from .answers import QUICK, ended_line, line, output
from .cutting import CuttingServer
from .raw_server import RawServer


def test_what_was_seen_is_not_handed_out_again() -> None:
    position = Position()
    assert position.take(output("stdout", 0, b"hello")) == Output("stdout", 0, b"hello")
    assert position.take(output("stdout", 0, b"hello")) is None
    assert position.take(output("stdout", 3, b"lo world")) == Output("stdout", 5, b" world")
    assert position.take(output("stderr", 0, b"err")) == Output("stderr", 0, b"err")
    assert position.query == {"stdout_offset": "11", "stderr_offset": "3", "follow": "true"}


def test_a_gap_moves_on_and_is_told_once() -> None:
    position = Position()
    position.take(output("stdout", 0, b"ab"))
    gap = line({"type": "gap", "stream": "stdout", "offset": 2, "bytes": 100})
    assert position.take(gap) == Gap("stdout", 2, 100)
    assert position.take(gap) is None
    assert position.take(output("stdout", 102, b"z")) == Output("stdout", 102, b"z")


def test_a_hole_that_nobody_told_of_is_an_error() -> None:
    position = Position()
    with pytest.raises(paddock.UnexpectedAnswer, match="7 bytes of stdout"):
        position.take(output("stdout", 7, b"x"))


def test_lines_that_bring_nothing() -> None:
    position = Position()
    assert position.take(b"") is None
    assert position.take(line({"type": "alive"})) is None
    assert position.take(line({"type": "of a newer server"})) is None
    for nonsense in (b"{", b"[]", b'{"type":"output"}', b'{"type":"output","stream":"stdout","offset":0,"data":"*"}'):
        with pytest.raises(paddock.UnexpectedAnswer):
            position.take(nonsense)


def test_characters_are_handed_over_whole() -> None:
    out: List[str] = []
    err: List[str] = []
    callbacks = Callbacks(out.append, err.append)
    data = "aäb€".encode()
    for index in range(len(data)):
        callbacks.feed(Output("stdout", index, data[index : index + 1]))
    callbacks.feed(Output("stderr", 0, b"\xe2\x82"))
    ended = Position().take(ended_line())
    assert isinstance(ended, Ended)
    callbacks.feed(ended)
    assert out == ["a", "ä", "b", "€"]
    assert err == ["\ufffd"]


def cut_at_random(seed: int) -> Tuple[List[Tuple[List[bytes], bool]], Dict[str, bytes]]:
    """Answers that together hold two streams, cut anywhere, also within a line, with pieces sent twice."""
    chance = random.Random(seed)
    printed = {name: chance.randbytes(4000) for name in ("stdout", "stderr")}
    done = {"stdout": 0, "stderr": 0}
    answers: List[Tuple[List[bytes], bool]] = []
    while any(done[name] < len(printed[name]) for name in done):
        pieces: List[bytes] = []
        for _ in range(chance.randrange(0, 6)):
            name = chance.choice(["stdout", "stderr"])
            begin = done[name] - chance.randrange(0, 30)
            begin = max(0, begin)
            end = min(len(printed[name]), done[name] + chance.randrange(1, 900))
            pieces.append(output(name, begin, printed[name][begin:end]))
            done[name] = end
        # The last line breaks off in the middle: it counts for nothing, and is asked for again.
        half = output("stdout", done["stdout"], printed["stdout"][done["stdout"] :][:50])
        pieces.append(half[: chance.randrange(1, len(half) - 1)])
        answers.append((pieces, chance.random() < 0.3))
    answers.append(([ended_line(command="echo '\u2028\x85'")], True))
    return answers, printed


@pytest.mark.parametrize("seed", range(8))
def test_a_stream_that_is_cut_again_and_again(seed: int) -> None:
    answers, printed = cut_at_random(seed)
    got = {"stdout": b"", "stderr": b""}
    last: Any = None
    with CuttingServer(*answers) as server, Client(server.url, retry=QUICK) as client:
        for event in Process(client, "sb-1", 1).stream():
            if isinstance(event, Output):
                assert event.offset == len(got[event.stream])
                got[event.stream] += event.data
            last = event
    assert got == printed
    assert isinstance(last, Ended)
    assert last.result.command == "echo '\u2028\x85'"
    assert len(server.queries) == len(answers)


def test_the_async_stream_is_taken_up_as_well() -> None:
    answers, printed = cut_at_random(99)

    async def main(url: str) -> Dict[str, bytes]:
        got = {"stdout": b"", "stderr": b""}
        async with AsyncClient(url, retry=QUICK) as client:
            async for event in AsyncProcess(client, "sb-1", 1).stream():
                if isinstance(event, Output):
                    got[event.stream] += event.data
        return got

    with CuttingServer(*answers) as server:
        assert asyncio.run(main(server.url)) == printed


def test_it_asks_from_where_it_was() -> None:
    answers = [([output("stdout", 10, b"abc"), output("stderr", 0, b"e")], False), ([ended_line()], True)]
    with CuttingServer(*answers) as server, Client(server.url, retry=QUICK) as client:
        events = list(Process(client, "sb-1", 1).stream(stdout_offset=10))
    assert [type(event) for event in events] == [Output, Output, Ended]
    assert server.queries == [
        {"stdout_offset": "10", "stderr_offset": "0", "follow": "true"},
        {"stdout_offset": "13", "stderr_offset": "1", "follow": "true"},
    ]


def test_it_gives_up_when_nothing_comes() -> None:
    answers: List[Tuple[List[bytes], bool]] = [([], False)] * 20
    with CuttingServer(*answers) as server, Client(server.url, retry=QUICK) as client:
        with pytest.raises(paddock.ConnectionFailed):
            list(Process(client, "sb-1", 1).stream())
    assert len(server.queries) == 1 + QUICK.retries


def watching(*events: Tuple[str, str]) -> List[bytes]:
    return [line({"kind": kind, "path": path}) for kind, path in [("watching", "/d"), *events]]


def test_a_watch_that_broke_off_says_so() -> None:
    answers = [(watching(("created", "/d/a")), False), (watching(("deleted", "/d/a")), False)]
    seen: List[paddock.FileEvent] = []
    with CuttingServer(*answers) as server, Client(server.url, retry=QUICK) as client:
        with paddock.Filesystem(client, "sb-1").watch("/d", recursive=True) as events:
            for event in events:
                seen.append(event)
                if event.kind == "deleted":
                    break
    assert [(event.kind, event.path) for event in seen] == [
        ("created", "/d/a"),
        ("overflow", "/d"),
        ("deleted", "/d/a"),
    ]
    assert server.queries[0] == {"path": "/d", "recursive": "true"}


def watch_answer(silent: bool, *headers: bytes) -> Callable[[socket.socket, bytes], bool]:
    """A watch with one event, of a server that then says nothing, or ends the answer."""

    def answer(connection: socket.socket, _request: bytes) -> bool:
        connection.sendall(b"\r\n".join([b"HTTP/1.1 200 OK", b"Transfer-Encoding: chunked", *headers]) + b"\r\n\r\n")
        for piece in watching(("created", "/d/a")):
            connection.sendall(chunk(piece))
        return not silent

    return answer


@pytest.mark.parametrize("transport", [None, httpx.HTTPTransport])
def test_a_watch_begins_anew_where_the_server_says_no_more_that_it_lives(transport: Any) -> None:
    answer = watch_answer(True, b"X-Paddock-Alive-Seconds: 0.1")
    made = transport and transport()
    with RawServer(answer, answer) as server, Client(server.url, retry=QUICK, transport=made) as client:
        with paddock.Filesystem(client, "sb-1").watch("/d") as events:
            kinds = [event.kind for _, event in zip(range(3), events)]
    assert kinds == ["created", "overflow", "created"]


@pytest.mark.parametrize("transport", [None, httpx.HTTPTransport])
def test_a_server_that_never_promised_to_say_that_it_lives_is_waited_for(transport: Any) -> None:
    def late(connection: socket.socket, request: bytes) -> bool:
        watch_answer(True)(connection, request)
        time.sleep(0.6)
        connection.sendall(chunk(line({"kind": "deleted", "path": "/d/a"})))
        return False

    made = transport and transport()
    with RawServer(late) as server, Client(server.url, retry=QUICK, transport=made) as client:
        with paddock.Filesystem(client, "sb-1").watch("/d") as events:
            kinds = [event.kind for _, event in zip(range(2), events)]
    assert kinds == ["created", "deleted"]
