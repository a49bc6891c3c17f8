from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import List

import httpx
import pytest

import paddock
from paddock import AsyncSandbox, Client, Output, Sandbox

from ..real_server import Server


def test_create_find_and_list(server: Server) -> None:
    with Sandbox.create(name="sdk-box", metadata={"suite": "sdk", "n": "1"}, env={"A": "1"}, ttl_seconds=60) as box:
        assert (box.name, box.state) == ("sdk-box", "running")
        assert box.exec("echo $A").stdout == "1\n"
        assert Sandbox.connect("sdk-box").id == box.id
        assert [found.id for found in Sandbox.list(metadata={"suite": "sdk"}, state="running")] == [box.id]
        with pytest.raises(paddock.NameTaken):
            Sandbox.create(name="sdk-box")
        box.set_metadata({"suite": "other"})
        assert box.info().metadata == {"suite": "other"}
        assert list(Sandbox.list(metadata={"suite": "sdk"})) == []
    info = Sandbox.connect(box.id).info()
    assert info.state == "ended"
    assert info.end is not None
    assert info.end.cause.kind == "killed"
    with pytest.raises(paddock.SandboxEnded):
        box.exec("true")
    box.kill()


def test_a_root_that_installs_is_asked_for(server: Server) -> None:
    give = "touch /tmp/x && chown 7 /tmp/x && stat -c %u /tmp/x"
    with Sandbox.create(ttl_seconds=60) as plain:
        assert not plain.exec(give, user="root").ok
    if os.geteuid() != 0:
        # An ordinary user has too few ids.
        with pytest.raises(paddock.RequirementNotMet, match="root-may-install"):
            Sandbox.create(root_may_install=True, ttl_seconds=60)
        return
    with Sandbox.create(root_may_install=True, ttl_seconds=60) as box:
        assert box.exec(give, user="root").stdout == "7\n"
        assert not box.exec("chown 7 /tmp/x").ok
        assert "CAP_CHOWN" in box.info().guarantees["root_capabilities"]
    with Sandbox.create(become_root=True, ttl_seconds=60) as box:
        assert box.exec("sudo whoami").stdout == "root\n"
        assert box.info().guarantees["become_root"]


def test_pages(server: Server) -> None:
    boxes = [Sandbox.create(metadata={"pages": "x"}, ttl_seconds=60) for _ in range(5)]
    try:
        found = [box.id for box in Sandbox.list(metadata={"pages": "x"}, page_size=2)]
        oldest = [box.id for box in Sandbox.list(metadata={"pages": "x"}, page_size=2, oldest_first=True)]
        assert oldest == found[::-1]
        assert sorted(found) == sorted(box.id for box in boxes)
    finally:
        for box in boxes:
            box.kill()


def test_unknown_things_are_named() -> None:
    with pytest.raises(paddock.SandboxNotFound, match="no-such-box"):
        Sandbox.connect("no-such-box")
    with pytest.raises(paddock.TemplateNotFound, match="no-such-template"):
        Sandbox.create(template="no-such-template")
    with pytest.raises(paddock.InvalidRequest):
        Sandbox.create(ttl_seconds=-1)
    with pytest.raises(paddock.PaddockError, match="no-such-guarantee"):
        Sandbox.create(require=["no-such-guarantee"])
    with pytest.raises(paddock.UnknownField, match="memory_byte"):
        Sandbox.create(limits={"memory_byte": 1})


def test_limits(server: Server) -> None:
    limits = paddock.Limits(memory_bytes=256 << 20, exec_timeout_seconds=1)
    with Sandbox.create(limits=limits, ttl_seconds=60) as box:
        assert box.info().limits["memory"] == 256 << 20
        assert box.exec("sleep 60").timed_out


def test_extend_and_usage(sandbox: Sandbox) -> None:
    expires = sandbox.extend(1000).expires_at
    assert expires is not None
    assert timedelta(seconds=900) < expires - datetime.now(timezone.utc) < timedelta(seconds=1100)
    sandbox.exec("true")
    usage = sandbox.usage()
    assert any(value is not None for value in (usage.cpu_ms, usage.memory_bytes, usage.processes))


def test_pause_and_resume(sandbox: Sandbox) -> None:
    process = sandbox.exec("while :; do echo tick; sleep 0.05; done", background=True)
    next(process.stream())
    assert sandbox.pause().state == "paused"
    before = len(process.output_bytes())
    time.sleep(0.5)
    assert len(process.output_bytes()) - before < 20
    assert sandbox.resume().state == "running"
    deadline = time.monotonic() + 10
    while len(process.output_bytes()) < before + 20 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(process.output_bytes()) >= before + 20


def test_a_pause_that_ends_by_use_has_a_time_of_its_own(sandbox: Sandbox) -> None:
    def left(info: paddock.SandboxInfo) -> float:
        assert info.expires_at is not None
        return (info.expires_at - datetime.now(timezone.utc)).total_seconds()

    assert left(sandbox.pause(ttl_seconds=86_400, auto_resume=True)) > 80_000
    assert sandbox.exec("echo on").stdout == "on\n"
    assert left(sandbox.info()) < 80_000
    assert left(sandbox.hibernate(ttl_seconds=86_400)) > 80_000
    assert left(sandbox.wake(ttl_seconds=60)) <= 60
    sandbox.pause()
    assert left(sandbox.resume(ttl_seconds=30)) <= 30


def test_lists_are_of_a_time_or_of_a_sandbox(sandbox: Sandbox) -> None:
    made = sandbox.info().created_at
    ids = [found.id for found in Sandbox.list(created_after=made - timedelta(milliseconds=1))]
    assert sandbox.id in ids
    assert sandbox.id not in [found.id for found in Sandbox.list(created_after=made)]
    snapshot = sandbox.snapshot(name=f"of-{sandbox.id}")
    with Client() as client:
        try:
            assert [found.id for found in client.snapshots(sandbox=sandbox.id)] == [snapshot.id]
            assert [found.id for found in client.snapshots(name=f"of-{sandbox.id}")] == [snapshot.id]
            assert client.snapshots(sandbox="sb-0000000000000000") == []
        finally:
            client.delete_snapshot(snapshot)


def test_hibernate_and_wake_by_use(sandbox: Sandbox) -> None:
    sandbox.files.write("kept.txt", "kept")
    assert sandbox.hibernate().state == "hibernated"
    assert sandbox.files.read("kept.txt") == "kept"
    assert sandbox.info().state == "running"
    sandbox.hibernate()
    assert sandbox.wake().state == "running"
    assert sandbox.exec("cat kept.txt").stdout == "kept"


def test_memory_is_kept_or_not_as_it_is_asked_for(sandbox: Sandbox) -> None:
    keeps = sandbox.info().guarantees["snapshot"] == "memory"
    assert sandbox.hibernate(memory=False).state == "hibernated"
    snapshot = sandbox.snapshot(memory=False)
    with Client() as client:
        client.delete_snapshot(snapshot)
    assert snapshot.kind == "filesystem"
    with pytest.raises(paddock.PaddockError, match="`memory` is false"):
        sandbox.snapshot(live=True, memory=False)
    if not keeps:
        with pytest.raises(paddock.PaddockError, match="no memory"):
            sandbox.hibernate(memory=True)
        with pytest.raises(paddock.PaddockError, match="no memory"):
            sandbox.snapshot(memory=True)


def test_snapshots(sandbox: Sandbox) -> None:
    sandbox.files.write("a.txt", "old")
    snapshot = sandbox.snapshot("sdk-snapshot")
    sandbox.files.write("a.txt", "new")
    try:
        for named in (snapshot, "sdk-snapshot"):
            with Sandbox.create(snapshot=named, ttl_seconds=60) as later:
                assert later.files.read("a.txt") == "old"
        with Client() as client:
            assert snapshot.id in [found.id for found in client.snapshots()]
    finally:
        with Client() as client:
            client.delete_snapshot(snapshot)
    with pytest.raises(paddock.SnapshotNotFound):
        Sandbox.create(snapshot="sdk-snapshot")


def test_limits_are_changed_while_it_lives(sandbox: Sandbox) -> None:
    # Where the kernel does not hold them, a sandbox that sleeps takes them and wakes with them.
    if sandbox.info().guarantees["memory_limit"] != "kernel":
        sandbox.hibernate()
    info = sandbox.update(memory_bytes=256 << 20, cpus=0.5, pids=100, open_files=64, env={"LATER": "yes"})
    assert info.limits["memory"] == 256 << 20
    assert (info.limits["cpus"], info.limits["pids"]) == (0.5, 100)
    assert sandbox.exec("echo $LATER; ulimit -n").stdout == "yes\n64\n"
    assert sandbox.info().limits == info.limits
    with pytest.raises(paddock.PaddockError) as refused:
        sandbox.update(memory_bytes=1)
    assert refused.value.code == "invalid_request"


def test_forks_are_made_each_by_itself(sandbox: Sandbox) -> None:
    for child in sandbox.fork(2, partial=True):
        assert isinstance(child, Sandbox)
        child.kill()


def test_fork_changes_and_merge(sandbox: Sandbox) -> None:
    sandbox.files.write("shared.txt", "base")
    children = sandbox.fork(2, metadata={"fork": "yes"})
    first, second = children
    try:
        for number, child in enumerate(children):
            assert child.info().parent == sandbox.id
            assert child.files.read("shared.txt") == "base"
            child.files.write(f"{number}.txt", str(number))
        changes = {change.path.rpartition("/")[2]: change for change in first.changes("parent")}
        assert changes["0.txt"].kind == "added"
        assert "shared.txt" not in changes
        assert "0.txt" in first.changes_patch("parent")
        report = sandbox.merge(first, [changes["0.txt"].path])
        assert report.ok
        assert sandbox.files.read("0.txt") == "0"
        second.files.write("shared.txt", "theirs\n")
        patch = second.changes_patch("parent")
        assert "-base\n\\ No newline at end of file\n+theirs\n" in patch
        sandbox.files.write("shared.txt", "ours")
        report = sandbox.merge(second)
        assert not report.ok
        assert [conflict.path.rpartition("/")[2] for conflict in report.conflicts] == ["shared.txt"]
        assert sandbox.files.read("shared.txt") == "ours"
        assert not sandbox.files.exists("1.txt")
    finally:
        for child in children:
            child.kill()


def test_a_workspace_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("from outside")
    os.chmod(tmp_path, 0o755)
    with Sandbox.create(workspace=tmp_path, ttl_seconds=60) as box:
        assert box.exec("cat /workspace/in.txt; echo inside > /workspace/out.txt").stdout == "from outside"
    assert (tmp_path / "out.txt").read_text() == "inside\n"


def test_ports(sandbox: Sandbox, server: Server) -> None:
    sandbox.files.write("/tmp/www/index.html", "hello from inside")
    command = "cd /tmp/www && exec python3 -m http.server 8000 --bind 127.0.0.1"
    sandbox.exec(command, background=True, open_stdin=False)
    with sandbox.port_client(8000) as http:
        deadline = time.monotonic() + 20
        while True:
            answer = http.get("/index.html")
            if answer.is_success or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        assert answer.text == "hello from inside"
    with sandbox.port_client(8001) as http:
        assert not http.get("/").is_success
    with pytest.raises(paddock.Unsupported):
        sandbox.port_url(8000)


def test_over_the_network_with_a_token(server: Server) -> None:
    with Client(server.tcp_url) as nobody, pytest.raises(paddock.Unauthorized):
        nobody.whoami()
    with Client(server.url) as owner:
        secret = owner.call("POST", "/v1/tokens", json={"role": "user", "tenant": "sdk"})["secret"]
        with Sandbox.create(client=owner, ttl_seconds=60) as theirs, Client(server.tcp_url, secret) as client:
            assert client.whoami()["tenant"] == "sdk"
            assert "code-interpreter" in client.templates()
            with pytest.raises(paddock.SandboxNotFound):
                Sandbox.connect(theirs.id, client=client)
            with Sandbox.create(client=client, ttl_seconds=60) as box:
                seen: List[str] = []
                assert box.exec("echo over tcp", on_stdout=seen.append).ok
                assert seen == ["over tcp\n"]
                assert box.port_url(80).startswith(f"{server.tcp_url}/v1/sandboxes/{box.id}/ports/80/")
                assert box.files.signed_url("/tmp/x").startswith(server.tcp_url)
                right = box.sign_port(80, expires_seconds=60)
                assert right.url.startswith(f"{server.tcp_url}/v1/sandboxes/{box.id}/ports/80/?paddock_token=")
                assert httpx.get(right.url).json()["code"] == "port_closed"
                assert httpx.get(right.url.replace("/ports/80/", "/ports/81/")).status_code == 403
                with pytest.raises(paddock.Forbidden):
                    Sandbox.create(client=client, workspace="/tmp")


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_lost_when_the_server_goes_away(server: Server, by: int) -> None:
    """A command is waited for and another followed while the server is ended and started again."""
    patient = Client(server.url, retry=paddock.RetryPolicy(retries=40, longest_seconds=0.5))
    with Sandbox.create(ttl_seconds=120, client=patient) as box:
        lines = 60
        process = box.exec(f"for i in $(seq {lines}); do echo line $i; sleep 0.05; done", background=True)
        waited: List[paddock.Result] = []
        waiting = threading.Thread(target=lambda: waited.append(box.exec("sleep 2; echo waited")))
        waiting.start()
        printed = b""
        restarted = False
        for event in process.stream():
            if isinstance(event, Output):
                assert event.offset == len(printed)
                printed += event.data
                if not restarted and len(printed) > 50:
                    restarted = True
                    server.restart(by)
        assert printed.decode() == "".join(f"line {number}\n" for number in range(1, lines + 1))
        waiting.join(60)
        assert [result.stdout for result in waited] == ["waited\n"]
    patient.close()


def test_async_does_the_same(server: Server) -> None:
    async def main() -> None:
        async with await AsyncSandbox.create(ttl_seconds=60) as box:
            one, two = await asyncio.gather(box.exec("sleep 0.5; echo 1"), box.run_code("print(2)"))
            assert (one.stdout, two.stdout) == ("1\n", "2\n")
            await box.filesystem.write("a.txt", "x")
            assert [entry.name async for entry in box.files.walk(".")].count("a.txt") == 1
            process = await box.exec("cat", background=True)
            await asyncio.gather(*[process.write_stdin(f"{number}\n") for number in range(20)])
            await process.close_stdin()
            result = await process.wait(timeout_seconds=20)
            assert sorted(result.stdout.split(), key=int) == [str(number) for number in range(20)]
            async with box.files.watch(".") as events:
                await box.files.write("b.txt", "y")
                async for event in events:
                    if event.path.endswith("b.txt"):
                        break
            child = await box.fork()
            assert await child.files.read("a.txt") == "x"
            await child.kill()
            assert box.id in [found.id async for found in AsyncSandbox.list(state="running")]

    asyncio.run(main())
    asyncio.run(main())
