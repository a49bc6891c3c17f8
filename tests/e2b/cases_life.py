"""Sandboxes with the Python SDK, as programs that wait use it: create, look, connect, list, pause, end."""
import json
import os
import shutil
import time

import pytest_like as expect
from e2b import (
    AuthenticationException, NotFoundException, Sandbox, SandboxException, SandboxQuery, SandboxState,
)
from e2b.exceptions import SandboxNotRunningException

from cases_wire import ask


def case_the_variables_are_those_of_the_guide(world):
    assert set(world.variables) == {"E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL", "E2B_VOLUME_API_URL"}
    assert world.key.startswith("e2b_") and int(world.key[4:], 16)
    assert world.variables["E2B_API_URL"] == world.variables["E2B_SANDBOX_URL"] == world.variables["E2B_VOLUME_API_URL"]


def case_a_sandbox_is_made_used_and_ended(world):
    sandbox = Sandbox.create()
    assert sandbox.is_running()
    assert sandbox.commands.run("echo hi").stdout == "hi\n"
    assert sandbox.kill() is True
    assert not sandbox.is_running()
    assert sandbox.kill() is False


def case_what_is_asked_of_a_new_one_holds(world):
    with Sandbox.create("base", timeout=77, metadata={"a b": "c&d"}, envs={"ONE": "1"}) as sandbox:
        info = sandbox.get_info()
        assert info.sandbox_id == sandbox.sandbox_id
        assert info.template_id == "base"
        assert info.metadata == {"a b": "c&d"}, info.metadata
        assert info.state == SandboxState.RUNNING
        assert info.cpu_count >= 1 and info.memory_mb > 0
        left = (info.end_at - info.started_at).total_seconds()
        assert 70 < left < 80, left
        assert sandbox.commands.run("echo $ONE").stdout == "1\n"


def case_the_older_key_and_the_newer_one_are_the_same(world):
    import base64
    own = "pdk_" + base64.urlsafe_b64encode(bytes.fromhex(world.key[4:])).decode().rstrip("=")
    sandbox = Sandbox.connect(world.sandbox.sandbox_id, api_key=own)
    assert sandbox.commands.run("echo same").stdout == "same\n"


def case_a_timeout_is_set_and_ends_it(world):
    sandbox = Sandbox.create(timeout=60)
    sandbox.set_timeout(600)
    info = sandbox.get_info()
    assert (info.end_at - info.started_at).total_seconds() > 500
    sandbox.set_timeout(1)
    end = time.monotonic() + 20
    while sandbox.is_running():
        assert time.monotonic() < end, "it does not end"
        time.sleep(0.1)
    expect.raises(SandboxException, sandbox.commands.run, "true")


def case_connect_extends_and_never_shortens(world):
    sandbox = Sandbox.create(timeout=500)
    before = sandbox.get_info().end_at
    again = Sandbox.connect(sandbox.sandbox_id, timeout=5)
    assert again.get_info().end_at >= before
    Sandbox.connect(sandbox.sandbox_id, timeout=900)
    assert (sandbox.get_info().end_at - before).total_seconds() > 300
    assert again.commands.run("echo me").stdout == "me\n"
    assert Sandbox.kill(sandbox.sandbox_id) is True


def case_one_that_is_not_there_is_not_found(world):
    for missing in ("sb-0000000000000000", "nobody", "..", "a/b"):
        expect.raises(SandboxException, Sandbox.connect, missing)
        assert Sandbox.kill(missing) is False
    expect.raises(NotFoundException, Sandbox.get_info, "sb-0000000000000000")


def case_an_unknown_template_is_refused_by_name(world):
    error = expect.raises(SandboxException, Sandbox.create, "no-such-template")
    assert "no-such-template" in str(error)


def case_a_wrong_key_is_an_authentication_error(world):
    for key in ("e2b_" + "0" * 64, "e2b_00", "x", "pdk_" + "A" * 43):
        expect.raises(AuthenticationException, Sandbox.create, api_key=key)


def case_a_key_that_only_reads_changes_nothing(world):
    assert Sandbox.get_info(world.sandbox.sandbox_id, api_key=world.reading_key).sandbox_id == world.sandbox.sandbox_id
    expect.raises(SandboxException, Sandbox.create, api_key=world.reading_key)
    expect.raises(SandboxException, Sandbox.kill, world.sandbox.sandbox_id, api_key=world.reading_key)


def case_another_tenant_sees_nothing(world):
    sandbox = world.sandbox
    expect.raises(SandboxException, Sandbox.connect, sandbox.sandbox_id, api_key=world.other_key)
    expect.raises(SandboxException, Sandbox.get_info, sandbox.sandbox_id, api_key=world.other_key)
    assert Sandbox.kill(sandbox.sandbox_id, api_key=world.other_key) is False
    listed = Sandbox.list(api_key=world.other_key).next_items()
    assert sandbox.sandbox_id not in [one.sandbox_id for one in listed]
    assert sandbox.is_running()


def case_lists_have_pages_filters_and_states(world):
    made = [Sandbox.create(metadata={"list": "x y", "n": str(n)}) for n in range(3)]
    try:
        pages = Sandbox.list(query=SandboxQuery(metadata={"list": "x y"}), limit=2)
        first = pages.next_items()
        assert len(first) == 2 and pages.has_next
        rest = pages.next_items()
        assert len(rest) == 1 and not pages.has_next
        # The newest first.
        assert [one.sandbox_id for one in first + rest] == [one.sandbox_id for one in reversed(made)]
        one = Sandbox.list(query=SandboxQuery(metadata={"list": "x y", "n": "1"})).next_items()
        assert [found.sandbox_id for found in one] == [made[1].sandbox_id]
        made[0].pause()
        def found(*states):
            query = SandboxQuery(metadata={"list": "x y"}, state=list(states))
            return {one.sandbox_id for one in Sandbox.list(query=query).next_items()}
        assert found(SandboxState.PAUSED) == {made[0].sandbox_id}
        assert found(SandboxState.RUNNING) == {made[1].sandbox_id, made[2].sandbox_id}
        assert len(found(SandboxState.RUNNING, SandboxState.PAUSED)) == 3
    finally:
        for sandbox in made:
            sandbox.kill()


def case_paused_and_resumed_with_its_memory(world):
    sandbox = Sandbox.create()
    sandbox.files.write("kept.txt", "kept")
    ticking = sandbox.commands.run("i=0; while true; do i=$((i+1)); echo $i > /tmp/ticks; sleep 0.05; done", background=True)
    assert expect.until(lambda: sandbox.files.exists("/tmp/ticks"), bool)
    assert sandbox.pause() is True
    assert sandbox.pause() is False
    assert not sandbox.is_running()
    expect.raises(SandboxException, sandbox.commands.run, "true")
    assert sandbox.get_info().state == SandboxState.PAUSED
    resumed = sandbox.connect()
    assert resumed.is_running()
    assert resumed.files.read("kept.txt") == "kept"
    # The file is empty for a moment each time it is written.
    ticks = lambda: int(resumed.files.read("/tmp/ticks") or 0)  # noqa: E731
    before = expect.until(ticks, bool)
    assert expect.until(ticks, lambda now: now > before) > before, "what ran goes on"
    left = (resumed.get_info().end_at.timestamp()) - time.time()
    assert left < 400, f"it lives as long as connect says, not {left}"
    assert ticking.kill() is True
    resumed.kill()


def case_paused_without_its_memory_keeps_files(world):
    sandbox = Sandbox.create()
    sandbox.files.write("kept.txt", "kept")
    assert sandbox.pause(keep_memory=False) is True
    assert sandbox.connect().files.read("kept.txt") == "kept"
    sandbox.kill()


def detail(world, sandbox):
    """As the server writes it: the SDK leaves some of it out."""
    return json.loads(ask(world, "GET", f"/sandboxes/{sandbox.sandbox_id}", None, {"X-API-KEY": world.key})[1])


def case_a_look_tells_what_a_pause_has_kept(world):
    with Sandbox.create(lifecycle={"on_timeout": "pause", "auto_resume": True}) as sandbox:
        assert "pauseMode" not in detail(world, sandbox)
        sandbox.pause()
        found = detail(world, sandbox)
        assert found["pauseMode"] == "full" and found["lifecycle"] == {"autoResume": True, "onTimeout": "pause"}, found
        sandbox.connect()
        assert "pauseMode" not in detail(world, sandbox)
        sandbox.pause(mode="filesystem")
        assert detail(world, sandbox)["pauseMode"] == "filesystem"
        assert sandbox.get_info().envd_unresponsive_at_pause is None


def case_a_look_tells_the_network(world):
    with Sandbox.create() as sandbox:
        info = sandbox.get_info()
        assert info.allow_internet_access is None and info.network is None, info
        sandbox.update_network({"deny_out": ["9.9.9.9"]})
        assert sandbox.get_info().network["deny_out"] == ["9.9.9.9"]
    network = {"allow_out": ["1.1.1.1", "api.example.com"], "deny_out": ["0.0.0.0/0"], "rules": {"api.example.com": [
        {"transform": {"headers": {"X-Team": "team-of-agents"}}}]}}
    with Sandbox.create(allow_internet_access=True, network=network) as sandbox:
        info = sandbox.get_info()
        assert info.allow_internet_access is True
        assert info.network["allow_out"] == network["allow_out"] and info.network["deny_out"] == network["deny_out"], info
        told = json.dumps(detail(world, sandbox))
        assert "X-Team" in told and "team-of-agents" not in told, "the values of headers are not told"


def case_the_end_of_a_sandbox_breaks_its_streams(world):
    sandbox = Sandbox.create()
    running = sandbox.commands.run("echo up; sleep 100", background=True)
    assert next(iter(running))[0] == "up\n"
    sandbox.kill()
    expect.raises(SandboxNotRunningException, running.wait)
    expect.raises(SandboxException, sandbox.files.read, "/etc/hostname")
    expect.raises(SandboxNotRunningException, sandbox.commands.run, "true")


def case_metrics_are_of_now(world):
    found = world.sandbox.get_metrics()
    assert len(found) >= 1
    now = found[-1]
    assert now.mem_total > 0 and now.cpu_count >= 1 and now.disk_total > 0
    assert now.mem_used > 0


def case_what_the_server_does_not_have_is_refused_by_name(world):
    for options, word in (
        ({"network": {"dns_servers": ["9.9.9.9"]}}, "dnsServers: this server does not have it: names are resolved by the gate"),
        ({"network": {"https_ports": [8443]}}, "httpsPorts: this server does not have it: the server speaks plain HTTP"),
        ({"network": {"egress_proxy": {"address": "proxy.example:1080"}}}, "egressProxy: this server does not have it"),
        ({"network": {"mask_request_host": "a b"}}, "maskRequestHost"),
    ):
        error = expect.raises(SandboxException, Sandbox.create, **options)
        assert word in str(error), error


def case_a_fence_that_keeps_files_refuses_a_snapshot_of_memory(world):
    error = expect.raises(SandboxException, world.sandbox.create_snapshot, mode="full")
    assert "memory" in str(error) and "process" in str(error) and "backend keeps memory" in str(error), error


def case_a_fence_that_keeps_memory_has_it_in_snapshots(world):
    if os.geteuid() != 0 or not shutil.which("runsc"):
        raise expect.Skip("e2b-gvisor: it wants root and runsc")
    # Memory fits only a fence with the same user: a template that names one is the case that can go wrong.
    settings = ("--backend", "gvisor", "--memory", "512MiB", "--user", "root", "--cwd", "/tmp")
    world.server.run("template", "add", "e2b-with-memory", *settings)
    with Sandbox.create("e2b-with-memory", allow_internet_access=False, timeout=300) as sandbox:
        sandbox.commands.run("i=0; while true; do i=$((i+1)); echo $i > /tmp/ticks; sleep 0.05; done", background=True)
        ticks = lambda box: int(box.files.read("/tmp/ticks") or 0)  # noqa: E731
        assert expect.until(lambda: sandbox.files.exists("/tmp/ticks") and ticks(sandbox), bool)
        try:
            snapshot = sandbox.create_snapshot(mode="full")
        except SandboxException as error:
            assert "keeps none" in str(error), error
            raise expect.Skip("e2b-gvisor: it keeps no memory on this host") from error
        with Sandbox.create(snapshot.snapshot_id, allow_internet_access=False, timeout=300) as copy:
            before = expect.until(lambda: ticks(copy), bool)
            assert expect.until(lambda: ticks(copy), lambda now: now > before) > before, "what ran goes on in the copy"
            assert copy.commands.run("id -un; pwd").stdout == "root\n/tmp\n"
        assert Sandbox.delete_snapshot(snapshot.snapshot_id) is True
        # Files alone, although the fence could keep more: nothing runs in what begins with them, nor after such a pause.
        files = sandbox.create_snapshot(mode="filesystem").snapshot_id
        with Sandbox.create(files, allow_internet_access=False, timeout=300) as copy:
            assert ticks(copy) > 0 and copy.commands.run("pgrep -fc '^sleep 0.05' || true").stdout == "0\n"
        assert Sandbox.delete_snapshot(files) is True
        sandbox.pause(mode="filesystem")
        assert detail(world, sandbox)["pauseMode"] == "filesystem"
        sandbox.connect(timeout=300)
        assert ticks(sandbox) > 0 and sandbox.commands.list() == []


def case_snapshots_are_templates(world):
    sandbox = Sandbox.create()
    sandbox.files.write("/home/user/one.txt", "1")
    snapshot = sandbox.create_snapshot()
    copy = Sandbox.create(snapshot.snapshot_id)
    assert copy.files.read("/home/user/one.txt") == "1"
    copy.files.write("/home/user/one.txt", "2")
    assert sandbox.files.read("/home/user/one.txt") == "1"
    listed = Sandbox.list_snapshots(sandbox_id=sandbox.sandbox_id).next_items()
    assert [one.snapshot_id for one in listed] == [snapshot.snapshot_id]
    copy.kill()
    sandbox.kill()
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is True
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is False
    expect.raises(SandboxException, Sandbox.create, snapshot.snapshot_id)


def case_forks_begin_with_the_files(world):
    sandbox = Sandbox.create()
    sandbox.files.write("one.txt", "1")
    forks = sandbox.fork(count=2)
    children = [getattr(one, "sandbox", one) for one in forks]
    assert len(children) == 2
    for child in children:
        assert child.files.read("one.txt") == "1"
        child.files.write("one.txt", child.sandbox_id)
    assert sandbox.files.read("one.txt") == "1"
    assert children[0].files.read("one.txt") != children[1].files.read("one.txt")
    for one in (sandbox, *children):
        one.kill()


def case_metrics_have_a_history(world):
    from datetime import datetime, timedelta, timezone

    with Sandbox.create() as sandbox:
        began = datetime.now(timezone.utc)
        sandbox.commands.run("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
        first = sandbox.get_metrics()
        assert len(first) >= 1 and first[-1].mem_total > 0 and first[-1].cpu_count >= 1
        deadline = time.monotonic() + 30
        while len(sandbox.get_metrics()) < 3:
            assert time.monotonic() < deadline, "no more samples come"
            time.sleep(1.1)
        times = [sample.timestamp for sample in sandbox.get_metrics()]
        assert times == sorted(times)
        assert sandbox.get_metrics(start=began - timedelta(days=2), end=began - timedelta(days=1)) == []
        assert len(sandbox.get_metrics(start=began, end=began + timedelta(hours=1))) >= 3
        expect.raises(SandboxException, sandbox.get_metrics, start=began, end=began - timedelta(hours=1))
