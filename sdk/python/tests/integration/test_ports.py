"""Ports that answer without a token, and the host that programs there are asked as, on a server that allows them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Iterator

import httpx
import pytest

import paddock
from paddock import AsyncClient, AsyncSandbox, Client, Sandbox

from ..real_server import BINARY, Server, unmount_below

DOMAIN = "box.localhost"
WEB = """
import http.server
class Web(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.headers["Host"].encode())
http.server.HTTPServer(("127.0.0.1", 8000), Web).serve_forever()
"""


@pytest.fixture(scope="module")
def open_server() -> Iterator[Server]:
    made = Server(Path(tempfile.mkdtemp(prefix="paddock-sdk-")), ("--domain", DOMAIN, "--public-ports"))
    made.start()
    try:
        yield made
        made.sweep()
    finally:
        made.end(signal.SIGTERM)
        unmount_below(made.directory)
        shutil.rmtree(made.directory, ignore_errors=True)


def served(box: Sandbox) -> None:
    box.exec(["python3", "-c", WEB], background=True)
    up = "import socket, time\nwhile socket.socket().connect_ex(('127.0.0.1', 8000)): time.sleep(0.05)"
    assert box.exec(["python3", "-c", up], timeout_seconds=60).ok


def visit(server: Server, box_id: str) -> httpx.Response:
    """Without a token, at the name of the port."""
    return httpx.get(server.tcp_url, headers={"Host": f"8000-{box_id}.{DOMAIN}:{server.port}"}, timeout=30)


def test_a_port_is_public_while_its_setting_says_so(open_server: Server) -> None:
    with Client(open_server.url) as client:
        with Sandbox.create(ports={"public": [8000]}, ttl_seconds=300, client=client) as box:
            assert box.info().ports == {"public": [8000]}
            served(box)
            assert visit(open_server, box.id).text == "localhost:8000"
            named = box.update(ports={"request_host": "${PORT}.app.example"})
            assert named.ports == {"public": [8000], "request_host": "${PORT}.app.example"}
            assert visit(open_server, box.id).text == "8000.app.example"
            box.pause()
            assert visit(open_server, box.id).status_code == 409, "a visitor wakes nothing"
            assert box.info().state == "paused"
            box.resume()
            assert visit(open_server, box.id).text == "8000.app.example"
            with box.fork() as child:
                assert child.info().ports == named.ports
            box.update(ports={"public": []})
            assert visit(open_server, box.id).status_code == 401
            box.update(ports={"public": "all"})
            open_server.restart(signal.SIGTERM)
            assert box.info().ports == {"public": "all", "request_host": "${PORT}.app.example"}
            assert visit(open_server, box.id).text == "8000.app.example"
            with pytest.raises(paddock.InvalidRequest, match="request host"):
                box.update(ports={"request_host": "a\r\nb: c"})
            with pytest.raises(paddock.InvalidRequest, match="port 0"):
                box.update(ports={"public": [0]})


def test_a_template_opens_ports(open_server: Server) -> None:
    assert BINARY
    environment = {**os.environ, "PADDOCK_STATE_DIR": str(open_server.state)}
    add = [BINARY, "template", "add", "site", "--public-port", "8000", "--request-host", "app.example"]
    subprocess.run(add, env=environment, check=True)
    with Client(open_server.url) as client:
        with Sandbox.create("site", ttl_seconds=60, client=client) as box:
            assert box.info().ports == {"public": [8000], "request_host": "app.example"}
        with Sandbox.create("site", ports={"public": []}, ttl_seconds=60, client=client) as box:
            assert box.info().ports == {"public": [], "request_host": "app.example"}
            assert visit(open_server, box.id).status_code == 401


def test_the_command_line_opens_and_closes_ports(open_server: Server) -> None:
    assert BINARY
    environment = {**os.environ, "PADDOCK_STATE_DIR": str(open_server.state), "PADDOCK_URL": open_server.url}

    def run(*words: str) -> str:
        done = subprocess.run([str(BINARY), *words], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    with Client(open_server.url) as client:
        box_id = run("create", "--public-port", "3000", "--public-port", "8000", "--ttl", "5m")
        with Sandbox.connect(box_id, client=client) as box:
            assert box.info().ports == {"public": [3000, 8000]}
            run("update", box_id, "--request-host", "app.example:${PORT}", "--public-port", "none")
            assert box.info().ports == {"public": [], "request_host": "app.example:${PORT}"}
            run("update", box_id, "--public-port", "all")
            assert box.info().ports["public"] == "all"
            bad = subprocess.run(
                [BINARY, "update", box_id, "--public-port", "http"], env=environment, capture_output=True, text=True
            )
            assert bad.returncode != 0
            assert "`http` is neither `all` nor a number" in bad.stderr


def test_a_server_that_opens_none_refuses(server: Server) -> None:
    with pytest.raises(paddock.Forbidden, match="opens ports to everybody") as refused:
        Sandbox.create(ports={"public": "all"}, ttl_seconds=60)
    assert "--public-ports" in (refused.value.hint or "")
    with pytest.raises(paddock.InvalidRequest, match="not a list"):
        Sandbox.create(ports={"public": 8000}, ttl_seconds=60)
    with Sandbox.create(ports={"request_host": "app.example"}, ttl_seconds=60) as box:
        assert box.info().ports == {"request_host": "app.example"}
        served(box)
        with box.port_client(8000) as inside:
            assert inside.get("/").text == "app.example"


def test_the_other_flavour(open_server: Server) -> None:
    async def main() -> None:
        async with AsyncClient(open_server.url) as client:
            async with await AsyncSandbox.create(ports={"public": [8000]}, ttl_seconds=60, client=client) as box:
                assert (await box.info()).ports == {"public": [8000]}
                assert (await box.update(ports={"public": []})).ports == {"public": []}
                assert visit(open_server, box.id).status_code == 401

    asyncio.run(main())
