"""HTTP over connections of our own: what is sent, what is understood, which connections are used again."""

from __future__ import annotations

import asyncio
import io
import socket
import subprocess
import sys
import threading
import time
from typing import Any, List

import pytest

import paddock
from paddock import AsyncClient, Client, Filesystem, Process
from paddock._asyncio_stream import open_stream
from paddock._http1 import LARGEST_CHUNK_LINE, LARGEST_HEAD, Parser, chunk
from paddock._retrying import Broken
from paddock._streams import Address
from paddock._sync.wire import Wire

from .answers import QUICK
from .raw_server import RawServer, ok

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def get(client: Client) -> Any:
    return client.call("GET", "/v1/whoami")


@pytest.mark.parametrize("unix", [False, True])
def test_a_request_is_what_it_should_be(unix: bool) -> None:
    with RawServer(ok(), unix=unix) as server, Client(server.url, "secret") as client:
        client.call("POST", "/v1/x", json={"a": "ä"}, query={"q": "a b&c", "z": "1"}, idempotent=True)
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines)
    assert first == "POST /v1/x?q=a+b%26c&z=1 HTTP/1.1"
    assert fields["Host"] == ("localhost" if unix else server.url[len("http://") :])
    assert fields["Authorization"] == "Bearer secret"
    assert fields["Content-Type"] == "application/json"
    assert len(fields["Idempotency-Key"]) == 32
    assert body.decode() == '{"a":"ä"}'
    assert fields["Content-Length"] == str(len(body))


def test_a_path_before_the_servers_own() -> None:
    with RawServer(ok()) as server, Client(server.url + "/below/") as client:
        get(client)
    assert server.requests[0].startswith(b"GET /below/v1/whoami HTTP/1.1\r\n")


def test_a_connection_is_used_again() -> None:
    answers = [ok(), b"HTTP/1.1 204 No Content\r\n\r\n", CHUNKED + b"2\r\n{}\r\n0\r\n\r\n", ok()]
    with RawServer(*answers) as server, Client(server.url) as client:
        get(client)
        client.request("DELETE", "/v1/x")
        get(client)
        get(client)
    assert server.connections == [1, 1, 1, 1]


def test_a_connection_that_the_server_closes_is_not() -> None:
    answers = [ok(b"{}", b"Connection: close"), lambda connection, _: connection.sendall(ok()) or True, ok()]
    with RawServer(*answers) as server, Client(server.url, retry=paddock.RetryPolicy(retries=0)) as client:
        get(client)
        get(client)
        # The server's close has to arrive before the next request, which would be lost with it.
        assert isinstance(client._wire, Wire)
        while client._wire._kept[0][1].is_quiet():
            time.sleep(0.01)
        client.call("POST", "/v1/x")
    assert server.connections == [1, 2, 3]


def test_threads_have_a_connection_each() -> None:
    met = threading.Barrier(4)

    def together(connection: socket.socket, _request: bytes) -> None:
        met.wait(20)
        connection.sendall(ok())

    with RawServer(*[together] * 4, *[ok()] * 4) as server, Client(server.url) as client:
        threads = [threading.Thread(target=get, args=(client,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(server.connections) == [1, 2, 3, 4]
        get(client)
    assert server.connections[-1] <= 4


def test_an_answer_in_small_pieces() -> None:
    text = b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED + b'1;x=y\r\n{\r\n5\r\n"a":1\r\n1\r\n}\r\n0\r\nTrailer: t\r\n\r\n'

    def slowly(connection: socket.socket, _request: bytes) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for index in range(len(text)):
            connection.sendall(text[index : index + 1])

    with RawServer(slowly, slowly) as server, Client(server.url) as client:
        assert get(client) == {"a": 1}

        async def main() -> Any:
            async with AsyncClient(server.url) as twin:
                return await twin.call("GET", "/v1/whoami")

        assert asyncio.run(main()) == {"a": 1}


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    answer = b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n{}"
    with RawServer(answer) as server, Client(server.url) as client:
        assert get(client) == {}


def test_an_answer_that_breaks_off_is_asked_for_again() -> None:
    half = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\n{}\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close",
        b"SSH-2.0-x\r\nConnection: close\r\n\r\n",
    ]
    policy = paddock.RetryPolicy(retries=len(half), first_seconds=0.001)
    with RawServer(*half, ok(), half[0]) as server, Client(server.url, retry=policy) as client:
        assert get(client) == {}
        with pytest.raises(paddock.ConnectionFailed, match="lost the connection"):
            client.request("POST", "/v1/x")
    assert len(server.requests) == 6


def test_a_connection_that_is_lost_can_be_let_go_of() -> None:
    """The server says all that it has to say, and then reads what asyncio still keeps for it."""

    async def main() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        stream = await open_stream(Address(None, *listener.getsockname()), 10)
        connection, _ = listener.accept()
        sending = asyncio.ensure_future(stream.send(bytes(16 << 20), 10))
        await asyncio.sleep(0)
        connection.shutdown(socket.SHUT_WR)
        while not stream._ended:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        while not stream._gone.done():
            await asyncio.to_thread(connection.recv, 1 << 20)
        stream.abort()
        await stream.aclose()
        await asyncio.gather(sending, return_exceptions=True)
        connection.close()
        listener.close()

    asyncio.run(main())


def test_a_silent_server() -> None:
    with RawServer(lambda *_: time.sleep(5), lambda *_: time.sleep(5)) as server:
        with Client(server.url) as client, pytest.raises(paddock.ConnectionFailed, match="nothing happened for"):
            client.request("GET", "/", patience=0.1)

        async def main() -> None:
            async with AsyncClient(server.url) as twin:
                await twin.request("GET", "/", patience=0.1)

        with pytest.raises(paddock.ConnectionFailed, match="nothing happened for"):
            asyncio.run(main())
    assert len(server.requests) == 2


def test_a_large_body_and_one_of_unknown_length() -> None:
    entry = b'{"path":"/a","kind":"file","size":1,"mode":1,"uid":1,"gid":1,"modified_at_ms":1}'
    large = bytes(range(256)) * 20_000
    with RawServer(ok(entry), ok(entry)) as server, Client(server.url) as client:
        files = Filesystem(client, "sb-1")
        files.write("/a", large)
        files.write("/a", io.BytesIO(b"abc"))
    assert server.requests[0].partition(b"\r\n\r\n")[2] == large
    assert server.requests[1].partition(b"\r\n\r\n")[2] == b"3\r\nabc\r\n0\r\n\r\n"


def test_a_body_that_is_refused_before_it_is_read() -> None:
    refusal = b'{"code":"too_large","message":"no","request_id":"r"}'

    def refuse(connection: socket.socket, _request: bytes) -> bool:
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: %d\r\n\r\n%b" % (len(refusal), refusal))
        return True

    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        connection.recv(1)
        refuse(connection, b"")
        # Only the sending side: a close with unread bytes would reset the connection, and the answer be lost.
        connection.shutdown(socket.SHUT_WR)
        time.sleep(0.5)
        connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    with listener, Client(f"http://127.0.0.1:{listener.getsockname()[1]}", retry=QUICK) as client:
        with pytest.raises(paddock.TooLarge):
            Filesystem(client, "sb-1").write("/a", bytes(50 << 20))
    thread.join()


def test_a_watch_can_be_closed_by_another_thread() -> None:
    def endless(connection: socket.socket, _request: bytes) -> None:
        connection.sendall(CHUNKED + chunk(b'{"kind":"watching","path":"/d"}\n'))
        time.sleep(20)

    with RawServer(endless) as server, Client(server.url) as client:
        watch = Filesystem(client, "sb-1").watch("/d")
        with watch:
            closing = threading.Timer(0.2, watch.close)
            closing.start()
            assert list(watch) == []
            closing.join()


def test_a_stream_that_is_left_gives_its_connection_up() -> None:
    lines = b'{"type":"output","stream":"stdout","offset":0,"data":"YQ=="}\n' * 2

    def first_half(connection: socket.socket, _request: bytes) -> None:
        connection.sendall(CHUNKED + chunk(lines))

    with RawServer(first_half, ok()) as server, Client(server.url) as client:
        events = Process(client, "sb-1", 1).stream()
        next(events)
        events.close()  # type: ignore[attr-defined]
        get(client)
    assert server.connections == [1, 2]


def test_a_token_with_a_line_break_is_not_sent() -> None:
    with RawServer(ok()) as server, Client(server.url, "secret\r\nX-Other: 1") as client:
        with pytest.raises(paddock.ConnectionFailed, match="'Authorization'") as caught:
            get(client)
    assert "secret" not in str(caught.value)
    assert server.requests == []


@pytest.mark.parametrize(
    "text",
    [
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x" * LARGEST_HEAD,
        CHUNKED + b"0x5\r\nhello\r\n",
        CHUNKED + b"-1\r\n",
        CHUNKED + b"1_0\r\n",
        CHUNKED + b"\r\n",
        CHUNKED + b"2\r\nhello\r\n",
        CHUNKED + b"1;" + b"x" * LARGEST_CHUNK_LINE,
    ],
)
def test_what_is_no_http_is_refused(text: bytes) -> None:
    parser = Parser("GET")

    def feed() -> None:
        if parser.head(text):
            parser.body(b"")

    with pytest.raises(Broken):
        feed()


def test_the_same_length_twice_and_what_has_no_body() -> None:
    parser = Parser("GET")
    assert parser.head(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}")
    assert (parser.body(b""), parser.done, parser.is_reusable) == (b"{}", True, True)
    parser = Parser("HEAD")
    assert parser.head(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
    assert parser.done
    parser = Parser("GET")
    assert parser.head(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n")
    assert (parser.body(b""), parser.is_reusable) == (b"{}", False)


HEAVY = ("httpx", "asyncio", "ssl", "http.client", "subprocess", "logging", "tempfile", "tarfile", "uuid", "random")


def modules_after(code: str) -> List[str]:
    program = f"import sys\n{code}\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_importing_brings_in_little() -> None:
    assert not set(HEAVY) & set(modules_after("from paddock import Sandbox, Client, PaddockError"))
    assert not [name for name in modules_after("import paddock") if name.startswith("paddock._sync")]


def test_a_call_brings_in_little() -> None:
    whole = b'{"id":"sb-1","state":"running","created_at_ms":1}'
    code = b'{"exec":1,"state":"ended","started_at_ms":1,"context":"c"}'
    with RawServer(ok(whole), ok(code), ok(whole), unix=True) as server:
        loaded = modules_after(
            "from paddock import Client, Sandbox\n"
            f"with Client({server.url!r}) as client:\n"
            "    with Sandbox.create(client=client) as sandbox:\n"
            "        sandbox.run_code('print(1)')"
        )
    assert not set(HEAVY) & set(loaded)
    assert len(server.requests) == 3
    assert set(server.connections) == {1}
