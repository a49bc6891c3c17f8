"""What is sent, and what is made of the answer."""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path
from typing import Any, Dict, List

import httpx
import pytest

import paddock
from paddock import AsyncSandbox, InvalidRequest, QuotaExceeded, Sandbox, TerminalSize, Unavailable
from paddock import _requests as requests

from .answers import Script, async_client, client, ended_exec, ended_line, output, sandbox

ENTRY = {
    "path": "/a",
    "kind": "file",
    "size": 2,
    "mode": 0o644,
    "uid": 1000,
    "gid": 1000,
    "modified_at_ms": 1_790_000_000_000,
}


def test_create_sends_only_what_was_said() -> None:
    script = Script(sandbox())
    made = Sandbox.create(template="code-interpreter", ttl_seconds=600, client=client(script))
    request = script.requests[0]
    assert (request.method, request.url.path) == ("POST", "/v1/sandboxes")
    assert script.body() == {"template": "code-interpreter", "ttl_seconds": 600}
    assert request.headers["authorization"] == "Bearer secret"
    assert len(request.headers["idempotency-key"]) == 32
    assert (made.id, made.state, made.name, made.persistent) == ("sb-0123456789abcdef", "running", None, False)


def test_create_with_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = Script(sandbox(name="box"))
    made = Sandbox.create(
        image="./image",
        snapshot="sn-1",
        ttl_action="pause",
        idle_seconds=5,
        idle_action="hibernate",
        persistent=True,
        under_pressure="keep",
        name="box",
        env={"A": "1"},
        metadata={"k": "v"},
        limits=paddock.Limits(cpus=0.5, memory_bytes=1 << 28),
        network="none",
        ports={"public": [80], "request_host": None},
        host_certs=True,
        user="root",
        cwd="/tmp",
        workspace="work",
        require=["memory-limit"],
        backend="process",
        hostname="h",
        protect=["x"],
        unprotect=["y"],
        read=["data:/data"],
        write=[Path("out")],
        tmpfs=["/scratch"],
        volumes={"memory": "/data/memory", "models": "/data/models:ro"},
        scan="deny",
        allowed_imports=["json"],
        live_forks=False,
        root_may_install=True,
        become_root=True,
        audit_outputs=False,
        live=True,
        client=client(script),
    )
    here = os.getcwd()
    assert script.body() == {
        "image": f"{here}/image",
        "snapshot": "sn-1",
        "ttl_action": "pause",
        "idle": {"seconds": 5, "action": "hibernate"},
        "persistent": True,
        "under_pressure": "keep",
        "name": "box",
        "env": {"A": "1"},
        "metadata": {"k": "v"},
        "limits": {"cpus": 0.5, "memory_bytes": 1 << 28},
        "network": "none",
        "ports": {"public": [80]},
        "host_certs": True,
        "user": "root",
        "cwd": "/tmp",
        "workspace": f"{here}/work",
        "require": ["memory-limit"],
        "backend": "process",
        "hostname": "h",
        "protect": ["x"],
        "unprotect": ["y"],
        "read": [f"{here}/data:/data"],
        "write": [f"{here}/out"],
        "tmpfs": ["/scratch"],
        "volumes": [
            {"name": "memory", "path": "/data/memory", "mode": "rw"},
            {"name": "models", "path": "/data/models", "mode": "ro"},
        ],
        "scan": "deny",
        "allowed_imports": ["json"],
        "live_forks": False,
        "root_may_install": True,
        "become_root": True,
        "audit_outputs": False,
        "live": True,
    }
    assert made.name == "box"


def test_what_a_secret_is_read_from_is_read_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "from-the-shell")
    (tmp_path / "key").write_text("from-a-file\n")
    script = Script(sandbox())
    hosts = ["api.example.com"]
    Sandbox.create(
        secrets={
            "A": {"from": "env:API_KEY", "hosts": hosts},
            "B": {"from": f"file:{tmp_path}/key", "hosts": hosts, "header": "authorization"},
            "C": {"value": "as-it-is", "hosts": hosts},
        },
        client=client(script),
    )
    assert script.body() == {
        "secrets": {
            "A": {"value": "from-the-shell", "hosts": hosts},
            "B": {"value": "from-a-file", "hosts": hosts, "header": "authorization"},
            "C": {"value": "as-it-is", "hosts": hosts},
        }
    }
    for origin in ["env:NO_SUCH_VARIABLE", "vault:x"]:
        with pytest.raises(paddock.InvalidRequest, match=origin.partition(":")[2]):
            Sandbox.create(secrets={"A": {"from": origin, "hosts": hosts}}, client=client(Script()))


def test_a_registry_reference_stays_what_it_is() -> None:
    script = Script(sandbox())
    Sandbox.create(image="alpine:3.20", client=client(script))
    assert script.body() == {"image": "alpine:3.20"}


def test_a_text_in_place_of_a_list_is_refused() -> None:
    with pytest.raises(paddock.InvalidRequest, match="require"):
        Sandbox.create(require="own-kernel", client=client(Script()))


@pytest.mark.parametrize("name", ["../tokens", "a/b", "a?b", "ä b", "%2e%2e"])
def test_a_name_cannot_become_another_path(name: str) -> None:
    script = Script(sandbox())
    Sandbox.connect(name, client=client(script))
    raw = script.requests[0].url.raw_path.decode()
    assert raw.startswith("/v1/sandboxes/")
    assert raw.count("/") == 3
    assert "?" not in raw


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_is_none(name: str) -> None:
    with pytest.raises(paddock.PaddockError, match="no id and no name"):
        Sandbox.connect(name, client=client(Script()))


def test_list_asks_for_all_pages() -> None:
    script = Script(
        {"sandboxes": [sandbox(id="sb-1"), sandbox(id="sb-2")], "next_cursor": "c 1"},
        {"sandboxes": [sandbox(id="sb-3")]},
    )
    found = Sandbox.list(state="running", metadata={"a": "1", "b": "2=3"}, page_size=2, client=client(script))
    assert [item.id for item in found] == ["sb-1", "sb-2", "sb-3"]
    first, second = (request.url.params.multi_items() for request in script.requests)
    wanted = [("state", "running"), ("metadata", "a=1"), ("metadata", "b=2=3"), ("limit", "2")]
    assert first == wanted
    assert second == [*wanted, ("cursor", "c 1")]


def test_a_list_without_some_nodes_warns() -> None:
    headers = {"Paddock-Nodes-Missing": "2, 7"}
    script = Script(httpx.Response(200, json={"sandboxes": [sandbox(id="sb-1")]}, headers=headers))
    with pytest.warns(RuntimeWarning, match="2, 7"):
        assert [item.id for item in Sandbox.list(client=client(script))] == ["sb-1"]


def box(script: Script) -> Sandbox:
    script.answers.insert(0, sandbox())
    found = Sandbox.connect("box", client=client(script))
    script.requests.clear()
    return found


def test_exec_waits_in_one_request() -> None:
    script = Script(ended_exec(stdout="hi\n", exit_code=3))
    result = box(script).exec("echo hi; exit 3", env={"A": "1"}, cwd="/", user="root", stdin="x", timeout_seconds=2)
    assert script.body() == {
        "command": "echo hi; exit 3",
        "env": {"A": "1"},
        "cwd": "/",
        "user": "root",
        "stdin": "x",
        "timeout_seconds": 2,
    }
    assert script.requests[0].url.path == "/v1/sandboxes/sb-0123456789abcdef/execs"
    assert "idempotency-key" in script.requests[0].headers
    assert (result.stdout, result.exit_code, result.ok, str(result.cause)) == ("hi\n", 3, False, "exited")


def test_exec_of_arguments_on_a_terminal() -> None:
    script = Script(ended_exec(), ended_exec(), ended_exec())
    sandbox_ = box(script)
    sandbox_.exec(["ls", "-l"], terminal=True)
    sandbox_.exec(("ls",), terminal=(40, 100))
    sandbox_.exec(["ls"], terminal=TerminalSize(rows=5, columns=6))
    assert script.body(0) == {"argv": ["ls", "-l"], "terminal": {"rows": 24, "columns": 80}}
    assert script.body(1) == {"argv": ["ls"], "terminal": {"rows": 40, "columns": 100}}
    assert script.body(2)["terminal"] == {"rows": 5, "columns": 6}


def test_a_server_that_was_restarted_meanwhile_is_waited_for() -> None:
    script = Script(
        ended_exec(state="running", exit_code=None),
        ended_exec(state="running", exit_code=None),
        ended_exec(stdout="x"),
    )
    assert box(script).exec("sleep 1").stdout == "x"
    assert script.requests[1].url.path.endswith("/execs/1/wait")


def test_a_time_limit_and_a_command_that_never_ran() -> None:
    limit = {"kind": "time_limit", "limit_ms": 1000}
    script = Script(
        ended_exec(exit_code=124, timed_out=True, cause=limit, stdout="before"),
        ended_exec(exit_code=127, cause={"kind": "not_started", "detail": "no such command"}),
        ended_exec(exit_code=None, cause={"kind": "sandbox_ended"}),
    )
    sandbox_ = box(script)
    slow = sandbox_.exec("sleep 9", timeout_seconds=1)
    assert (slow.timed_out, slow.stdout, slow.ok) == (True, "before", False)
    assert slow.cause.details == {"limit_ms": 1000}
    missing = sandbox_.exec(["nothing"])
    assert (missing.exit_code, missing.cause.kind) == (127, "not_started")
    assert str(missing.cause) == "not_started(detail=no such command)"
    assert sandbox_.exec("x").exit_code == 255


def test_input_of_bytes_is_sent_with_offsets() -> None:
    script = Script(ended_exec(state="running"), {"offset": 3}, {"offset": 3}, ended_exec(stdout="3"))
    assert box(script).exec("wc -c", stdin=b"\xff\x00\x01").stdout == "3"
    assert script.body(0) == {"command": "wc -c", "open_stdin": True, "background": True}
    assert script.requests[1].content == b"\xff\x00\x01"
    assert dict(script.requests[1].url.params) == {"offset": "0"}
    assert dict(script.requests[2].url.params) == {"offset": "3", "close": "true"}


def test_a_process_that_was_found_again_asks_where_its_input_is() -> None:
    script = Script({"offset": 7}, {"offset": 9}, httpx.Response(204), httpx.Response(204), ended_exec())
    process = box(script).process(4)
    process.write_stdin("hi")
    process.signal(15)
    process.resize(10, 20)
    process.kill()
    paths = [request.url.path.rpartition("/execs/")[2] for request in script.requests]
    assert paths == ["4/stdin", "4/stdin", "4/signal", "4/resize", "4"]
    assert dict(script.requests[1].url.params) == {"offset": "7"}
    assert script.body(2) == {"signal": "15"}


def test_exact_bytes_are_read_across_what_was_not_kept() -> None:
    script = Script(
        ended_exec(stdout_bytes=1000),
        httpx.Response(200, content=b"head", headers={"X-Paddock-Offset": "0"}),
        httpx.Response(200, content=b"tail", headers={"X-Paddock-Offset": "996", "X-Paddock-Missing": "992"}),
    )
    process = box(script).process(1)
    assert process.output_bytes() == b"headtail"
    assert [request.url.params.get("offset") for request in script.requests] == [None, "0", "4"]
    with pytest.raises(paddock.InvalidRequest, match="stdin"):
        process.output_bytes("stdin")
    with pytest.raises(paddock.InvalidRequest, match="either"):
        process.wait(timeout_seconds=1, on_stdout=print)


def test_background_keeps_input_open_unless_told_otherwise() -> None:
    script = Script(*[ended_exec(state="running")] * 3)
    sandbox_ = box(script)
    assert sandbox_.exec("cat", background=True).exec == 1
    sandbox_.exec("cat", background=True, open_stdin=False)
    sandbox_.exec("cat", background=True, stdin="x")
    assert [script.body(index).get("open_stdin") for index in range(3)] == [True, None, None]
    with pytest.raises(paddock.InvalidRequest, match="open_stdin without background"):
        sandbox_.exec("cat", open_stdin=True)


def test_run_code() -> None:
    script = Script(ended_exec(stdout="5050\n"))
    result = box(script).run_code("print(sum(range(101)))", language="python", timeout_seconds=30)
    assert script.requests[0].url.path.endswith("/code")
    assert script.body() == {"code": "print(sum(range(101)))", "language": "python", "timeout_seconds": 30}
    assert result.stdout == "5050\n"
    assert "idempotency-key" in script.requests[0].headers


def test_code_is_followed_as_it_runs() -> None:
    lines = [output("stdout", 0, b"50"), output("stdout", 2, b"50"), ended_line()]
    script = Script({"exec": 7, "state": "running"}, httpx.Response(200, content=b"".join(lines)), ended_exec())
    seen: List[str] = []
    box(script).run_code("print(sum(range(101)))", on_stdout=seen.append)
    assert script.body() == {"code": "print(sum(range(101)))", "background": True}
    assert [request.url.path.partition("/execs/")[2] for request in script.requests] == ["", "7/output", "7"]
    assert seen == ["50", "50"]


def test_fork_reads_as_it_is_meant() -> None:
    script = Script({"sandboxes": [sandbox(id="sb-a")]}, {"sandboxes": [sandbox(id="sb-a"), sandbox(id="sb-b")]})
    source = box(script)
    assert source.fork().id == "sb-a"
    assert [child.id for child in source.fork(2, ttl_seconds=5)] == ["sb-a", "sb-b"]
    assert script.body(0) == {}
    assert script.body(1) == {"count": 2, "ttl_seconds": 5}
    assert all("idempotency-key" in request.headers for request in script.requests)


def test_forks_that_failed_are_errors_in_their_places() -> None:
    full = {"status": 429, "code": "quota_exceeded", "message": "used up", "hint": "end some", "retry_after_seconds": 5}
    lost = {"place": 2, "status": 503, "code": "of_a_newer_server", "message": "gone"}
    made = [sandbox(id="sb-a"), sandbox(id="sb-b")]
    script = Script({"sandboxes": made, "failed": [{"place": 0, **full}, lost]}, {"sandboxes": made})
    source = box(script)
    first, second, third, fourth = source.fork(4, partial=True)
    assert isinstance(first, QuotaExceeded)
    assert isinstance(third, Unavailable)
    assert (first.message, first.hint, first.status, first.retry_after) == ("used up", "end some", 429, 5)
    assert (third.code, third.status) == ("of_a_newer_server", 503)
    assert isinstance(second, Sandbox)
    assert isinstance(fourth, Sandbox)
    assert (second.id, fourth.id) == ("sb-a", "sb-b")
    assert script.body(0) == {"count": 4, "partial": True}
    assert [child.id for child in source.fork(2, partial=False)] == ["sb-a", "sb-b"]
    assert script.body(1) == {"count": 2}
    with pytest.raises(InvalidRequest, match="partial"):
        source.fork(partial=True)  # type: ignore[call-overload]
    assert len(script.requests) == 2


def test_merge_and_changes() -> None:
    conflict = {"path": "/a", "reason": "both changed it"}
    script = Script(
        {
            "since": "parent",
            "changes": [{"kind": "added", "path": "/a", "entry": ENTRY}, {"kind": "deleted", "path": "/b"}],
        },
        {"merged": [], "conflicts": [conflict]},
    )
    sandbox_ = box(script)
    added, deleted = sandbox_.changes("parent")
    assert added.entry is not None
    assert (added.kind, added.entry.size, deleted.kind, deleted.entry) == ("added", 2, "deleted", None)
    report = sandbox_.merge(sandbox_, ["/a"])
    assert not report.ok
    assert report.conflicts[0].reason == "both changed it"
    assert script.body(1) == {"from": "sb-0123456789abcdef", "paths": ["/a"]}
    with pytest.raises(paddock.InvalidRequest, match="paths"):
        sandbox_.merge("sb-1", "/a")


def test_state_follows_what_the_server_says() -> None:
    end = {
        "cause": {"kind": "killed"},
        "reason": "killed by a call",
        "at_ms": 1_790_000_000_000,
        "last_output": "bye",
        "usage": {"cpu_ms": 1.5},
    }
    script = Script(sandbox(state="paused"), sandbox(), sandbox(state="ended", end=end))
    sandbox_ = box(script)
    sandbox_.pause()
    assert sandbox_.state == "paused"
    sandbox_.resume()
    info = sandbox_.kill()
    assert (sandbox_.state, [request.method for request in script.requests]) == ("ended", ["POST", "POST", "DELETE"])
    assert info.end is not None
    assert (info.end.cause.kind, info.end.last_output, info.end.usage.cpu_ms) == ("killed", "bye", 1.5)


def test_files() -> None:
    script = Script(
        httpx.Response(200, content=b"\xc3\xa4"),
        httpx.Response(200, content=b"cd"),
        ENTRY,
        ENTRY,
        {"entries": [ENTRY], "next_cursor": "c"},
        {"entries": [ENTRY]},
        {"exists": False},
        ENTRY,
        ENTRY,
        httpx.Response(204),
        ENTRY,
        {"url": "/v1/signed/abc", "expires_at_ms": 1},
    )
    files = box(script).files
    assert files.read("/ä &b") == "ä"
    assert files.read_bytes("/a", offset=2, length=2) == b"cd"
    files.write("/a", "ä", mode=0o600)
    files.write("/a", io.StringIO("text"), parents=False, user="root")
    assert [entry.name for entry in files.list("/d", recursive=True)] == ["a", "a"]
    assert files.exists("/a") is False
    files.make_directory("/d", mode=0o700)
    files.move("/a", "/b", overwrite=True)
    files.remove("/b", recursive=True)
    files.chmod("/b", 0o755)
    assert files.signed_url("/b", expires_seconds=60) == "http://server.test/v1/signed/abc"
    seen: List[Dict[str, Any]] = [dict(request.url.params) for request in script.requests]
    assert seen[:4] == [
        {"path": "/ä &b"},
        {"path": "/a", "offset": "2", "length": "2"},
        {"path": "/a", "mode": "600", "parents": "true"},
        {"path": "/a", "user": "root"},
    ]
    assert script.requests[2].content == "ä".encode()
    assert seen[5] == {"path": "/d", "limit": "1000", "recursive": "true", "cursor": "c"}
    assert script.body(7) == {"path": "/d", "mode": 0o700, "parents": True}
    assert script.body(8) == {"from": "/a", "to": "/b", "overwrite": True}
    assert script.body(11) == {"path": "/b", "operation": "read", "expires_seconds": 60}


def test_a_file_time_that_python_cannot_hold() -> None:
    script = Script({**ENTRY, "modified_at_ms": 1 << 62})
    assert box(script).files.stat("/a").modified_at.year == 9999


def test_ports() -> None:
    script = Script(httpx.Response(200, text="pong"))
    sandbox_ = box(script)
    assert sandbox_.port_url(8000, "/x") == "http://server.test/v1/sandboxes/sb-0123456789abcdef/ports/8000/x"
    with sandbox_.port_client(8000) as http:
        assert http.get("/ping").text == "pong"
    assert script.requests[0].url.path == "/v1/sandboxes/sb-0123456789abcdef/ports/8000/ping"
    with pytest.raises(paddock.InvalidRequest, match="port 0"):
        sandbox_.port_url(0)


def test_a_right_to_a_port() -> None:
    signed = {"url": "/v1/sandboxes/a/ports/80/?paddock_token=r", "token": "r", "expires_at_ms": 1000}
    script = Script({**signed, "host": None}, {**signed, "host": "80-a.boxes.example"})
    sandbox_ = box(script)
    right = sandbox_.sign_port(80, expires_seconds=60)
    assert right.url == "http://server.test/v1/sandboxes/a/ports/80/?paddock_token=r"
    assert (right.token, right.host, right.expires_at.timestamp()) == ("r", None, 1)
    assert script.requests[0].url.path == "/v1/sandboxes/sb-0123456789abcdef/ports/sign"
    assert script.body(0) == {"port": 80, "expires_seconds": 60}
    right = sandbox_.sign_port(80)
    assert (right.host, right.url) == ("80-a.boxes.example", "http://80-a.boxes.example/?paddock_token=r")
    assert script.body(1) == {"port": 80, "expires_seconds": 3600}
    with pytest.raises(paddock.InvalidRequest, match="port 0"):
        sandbox_.sign_port(0)


def test_the_address_of_a_right_is_where_the_server_is() -> None:
    signed = {"url": "/v1/x?paddock_token=r", "host": "80-a.boxes.example", "token": "r", "expires_at_ms": 1}
    for url, expected in [
        ("http://127.0.0.1:8080", "http://80-a.boxes.example:8080/?paddock_token=r"),
        ("https://boxes.example", "https://80-a.boxes.example/?paddock_token=r"),
        ("unix:/nowhere/api.sock", "/v1/x?paddock_token=r"),
    ]:
        assert paddock.PortRight.parse(signed, paddock.Client(url).location).url == expected


def test_a_port_on_a_socket_has_no_url() -> None:
    location = paddock.Client("unix:/nowhere/api.sock")
    with pytest.raises(paddock.Unsupported) as caught:
        location.url_of("/x")
    assert "port_client" in str(caught.value.hint)


class OwnError(Exception):
    pass


def test_the_block_kills_and_never_hides_an_exception() -> None:
    script = Script(sandbox(), sandbox(state="ended"))
    with Sandbox.create(client=client(script)):
        pass
    assert script.requests[-1].method == "DELETE"

    script = Script(sandbox(), sandbox(state="ended"))
    with pytest.raises(OwnError), Sandbox.create(client=client(script)):
        raise OwnError
    assert script.requests[-1].method == "DELETE"

    broken = httpx.Response(500, json={"code": "internal", "message": "x", "request_id": "r"})
    script = Script(sandbox(), broken)
    with pytest.raises(OwnError), Sandbox.create(client=client(script)):
        raise OwnError

    gone = httpx.Response(404, json={"code": "sandbox_not_found", "message": "x", "request_id": "r"})
    script = Script(sandbox(), gone)
    with Sandbox.create(client=client(script)):
        pass

    script = Script(sandbox(), httpx.Response(500, json={"code": "internal", "message": "x", "request_id": "r"}))
    with pytest.raises(paddock.InternalError), Sandbox.create(client=client(script)):
        pass


def test_persistent_outlives_the_block() -> None:
    script = Script(sandbox(persistent=True))
    with Sandbox.create(persistent=True, client=client(script)):
        pass
    assert [request.method for request in script.requests] == ["POST"]


def test_a_forked_child_does_not_kill_its_parents_sandbox() -> None:
    script = Script(sandbox())
    sandbox_ = Sandbox.create(client=client(script))
    sandbox_._process = os.getpid() + 1
    with sandbox_:
        pass
    assert [request.method for request in script.requests] == ["POST"]


def test_the_async_surface_sends_the_same() -> None:
    script = Script(
        sandbox(), ended_exec(stdout="hi"), ENTRY, {"sandboxes": [sandbox(id="sb-9")]}, sandbox(state="ended")
    )

    async def main() -> None:
        server = async_client(script)
        async with await AsyncSandbox.create(template="t", client=server) as sandbox_:
            assert (await sandbox_.exec("echo hi")).stdout == "hi"
            await sandbox_.files.write("/a", io.BytesIO(b"bytes"))
            found = [item.id async for item in AsyncSandbox.list(client=server)]
            assert found == ["sb-9"]

    asyncio.run(main())
    assert [request.method for request in script.requests] == ["POST", "POST", "PUT", "GET", "DELETE"]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"memory": "256MiB"}, {"memory_bytes": 256 << 20}),
        ({"memory": "1.5g", "cpus": 2}, {"memory_bytes": 3 << 29, "cpus": 2}),
        ({"disk": 1024, "output_bytes": "64k"}, {"disk_bytes": 1024, "output_bytes": 64 << 10}),
    ],
)
def test_sizes_are_written_as_people_write_them(given: Any, sent: Any) -> None:
    assert requests.limits(given) == sent


@pytest.mark.parametrize("given", [{"memory": "much"}, {"memory": "-1"}, {"memory": "1G", "memory_bytes": 5}])
def test_a_size_that_is_none_is_named(given: Any) -> None:
    with pytest.raises(paddock.InvalidRequest, match="memory"):
        requests.limits(given)
