"""Lists, snapshots, forks and the other forms of the calls about a whole sandbox, with the Python SDK."""
import datetime
import time

import pytest_like as expect
from e2b import (
    InvalidArgumentException, NotFoundException, RateLimitException, Sandbox, SandboxException, SandboxQuery, SandboxState,
)
from e2b.exceptions import SandboxNotFoundException, SandboxNotRunningException
from e2b_code_interpreter import Sandbox as Interpreter

GONE = "sb-0000000000000000"


def listed(**query):
    return [one.sandbox_id for one in Sandbox.list(query=SandboxQuery(**query)).next_items()]


def case_lists_by_template(world):
    with Interpreter.create(metadata={"by": "template"}) as sandbox:
        assert listed(metadata={"by": "template"}, template="code-interpreter-v1") == [sandbox.sandbox_id]
        assert listed(metadata={"by": "template"}, template="base") == []


def case_lists_by_time(world):
    before = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=5)
    with Sandbox.create(metadata={"by": "time"}) as sandbox:
        assert listed(metadata={"by": "time"}, started_after=before) == [sandbox.sandbox_id]
        later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        assert listed(metadata={"by": "time"}, started_after=later) == []


def case_lists_with_the_oldest_first(world):
    metadata, made = {"by": "order"}, []
    try:
        for _ in range(3):
            made.append(Sandbox.create(metadata=metadata))
        ids = [sandbox.sandbox_id for sandbox in made]
        assert listed(metadata=metadata) == ids[::-1]
        pages = Sandbox.list(query=SandboxQuery(metadata=metadata), order="asc", limit=2)
        assert [one.sandbox_id for one in pages.next_items()] == ids[:2] and pages.has_next
        assert [one.sandbox_id for one in pages.next_items()] == ids[2:] and not pages.has_next
        after = made[0].get_info().started_at
        query = SandboxQuery(metadata=metadata, started_after=after)
        assert [one.sandbox_id for one in Sandbox.list(query=query, order="asc").next_items()] == ids[1:]
        assert [one.sandbox_id for one in Sandbox.list(query=query, order="desc").next_items()] == ids[:0:-1]
    finally:
        for sandbox in made:
            sandbox.kill()


def case_a_listed_sandbox_has_its_details(world):
    with Sandbox.create(timeout=100, metadata={"by": "details"}) as sandbox:
        (one,) = Sandbox.list(query=SandboxQuery(metadata={"by": "details"})).next_items()
        info = sandbox.get_info()
        assert (one.sandbox_id, one.template_id, one.metadata, one.state) == (
            sandbox.sandbox_id, "base", {"by": "details"}, SandboxState.RUNNING)
        assert (one.started_at, one.end_at, one.cpu_count) == (info.started_at, info.end_at, info.cpu_count)


def case_a_page_goes_on_from_its_token(world):
    made = [Sandbox.create(metadata={"by": "token"}) for _ in range(3)]
    try:
        query = SandboxQuery(metadata={"by": "token"})
        first = Sandbox.list(query=query, limit=1)
        assert [one.sandbox_id for one in first.next_items()] == [made[2].sandbox_id]
        rest = Sandbox.list(query=query, limit=5, next_token=first.next_token)
        assert [one.sandbox_id for one in rest.next_items()] == [made[1].sandbox_id, made[0].sandbox_id]
        assert not rest.has_next
        expect.raises(Exception, rest.next_items)
    finally:
        for sandbox in made:
            sandbox.kill()


def case_metadata_of_every_kind_is_found_again(world):
    metadata = {"key with space": "ü & = % + ?", "a/b": "1", "empty": ""}
    with Sandbox.create(metadata=metadata) as sandbox:
        assert sandbox.get_info().metadata == metadata
        assert listed(metadata=metadata) == [sandbox.sandbox_id]
        assert listed(metadata={**metadata, "a/b": "2"}) == []


def case_calls_by_id_do_the_same(world):
    sandbox = Sandbox.create(timeout=60)
    try:
        Sandbox.set_timeout(sandbox.sandbox_id, 500)
        info = Sandbox.get_info(sandbox.sandbox_id)
        assert (info.end_at - info.started_at).total_seconds() > 400
        assert Sandbox.get_metrics(sandbox.sandbox_id)[0].cpu_count >= 1
        assert Sandbox.pause(sandbox.sandbox_id) is True
        assert Sandbox.get_info(sandbox.sandbox_id).state == SandboxState.PAUSED
        assert Sandbox.connect(sandbox.sandbox_id).is_running()
    finally:
        assert Sandbox.kill(sandbox.sandbox_id) is True


def case_calls_about_what_is_gone(world):
    expect.raises(SandboxNotFoundException, Sandbox.connect, GONE)
    expect.raises(NotFoundException, Sandbox.set_timeout, GONE, 5)
    expect.raises(NotFoundException, Sandbox.pause, GONE)
    expect.raises(NotFoundException, Sandbox.get_info, GONE)
    expect.raises(NotFoundException, Sandbox.create_snapshot, GONE)
    expect.raises(SandboxException, Sandbox.fork, GONE)
    expect.raises(SandboxException, Sandbox.get_metrics, GONE)
    expect.raises(SandboxException, Sandbox.update_network, GONE, {})


def case_a_timeout_can_be_made_shorter_and_must_be_a_time(world):
    with Sandbox.create(timeout=500) as sandbox:
        sandbox.set_timeout(50)
        left = sandbox.get_info().end_at.timestamp() - time.time()
        assert 30 < left < 60, left
        expect.raises(SandboxException, sandbox.set_timeout, -1)
        expect.raises(SandboxException, Sandbox.create, timeout=-1)
        assert sandbox.is_running()


def case_a_paused_sandbox_is_ended(world):
    sandbox = Sandbox.create()
    sandbox.pause()
    assert sandbox.kill() is True
    expect.raises(SandboxException, sandbox.connect)


def case_a_paused_sandbox_answers_as_one_that_is_not_running(world):
    sandbox = Sandbox.create()
    handle = sandbox.commands.run("cat", background=True, stdin=True, timeout=0)
    sandbox.pause()
    expect.raises(SandboxNotRunningException, sandbox.commands.run, "true")
    expect.raises(SandboxNotRunningException, sandbox.commands.list)
    expect.raises(SandboxException, sandbox.files.read, "/etc/hostname")
    sandbox.connect()
    # A command that waits goes on where it was.
    sandbox.commands.send_stdin(handle.pid, "woken\n")
    sandbox.commands.close_stdin(handle.pid)
    assert expect.until(lambda: handle.pid not in {one.pid for one in sandbox.commands.list()}, bool)
    sandbox.kill()


def case_the_older_word_for_pause(world):
    sandbox = Sandbox.create()
    sandbox.beta_pause()
    assert sandbox.get_info().state == SandboxState.PAUSED
    sandbox.kill()


def case_the_same_idempotency_key_is_the_same_sandbox(world):
    one = Sandbox.create(idempotency_key="python-once")
    two = Sandbox.create(idempotency_key="python-once")
    assert one.sandbox_id == two.sandbox_id
    one.kill()


def case_at_its_end_a_with_statement_ends_the_sandbox(world):
    with Sandbox.create() as sandbox:
        identity = sandbox.sandbox_id
    expect.raises(NotFoundException, Sandbox.get_info, identity)


def case_snapshots_have_pages_and_names(world):
    with Sandbox.create() as sandbox:
        made = [sandbox.create_snapshot(name=f"kept-{n}").snapshot_id for n in range(3)]
        try:
            pages = sandbox.list_snapshots(limit=2)
            found = pages.next_items()
            assert len(found) == 2 and pages.has_next
            found += pages.next_items()
            assert {one.snapshot_id for one in found} == set(made) and not pages.has_next
        finally:
            for snapshot in made:
                assert Sandbox.delete_snapshot(snapshot) is True


def case_pages_of_the_snapshots_of_one_sandbox_are_full(world):
    """Those of another sandbox lie between them, and take no place on a page."""
    with Sandbox.create() as sandbox, Sandbox.create() as other:
        made = []
        for n in range(3):
            made += [other.create_snapshot().snapshot_id, sandbox.create_snapshot().snapshot_id]
        named = other.create_snapshot(name="the-named-one").snapshot_id
        try:
            pages = Sandbox.list_snapshots(sandbox_id=sandbox.sandbox_id, limit=2)
            first = pages.next_items()
            assert [one.snapshot_id for one in first] == [made[5], made[3]] and pages.has_next, first
            assert [one.snapshot_id for one in pages.next_items()] == [made[1]] and not pages.has_next
            sandbox.create_snapshot(name="newest")
            (found,) = Sandbox.list_snapshots(name="the-named-one", limit=1).next_items()
            assert found.snapshot_id == named
        finally:
            for snapshot in [*made, named, "newest"]:
                assert Sandbox.delete_snapshot(snapshot) is True


def case_snapshots_are_of_their_tenant(world):
    with Sandbox.create() as sandbox:
        snapshot = sandbox.create_snapshot().snapshot_id
        expect.raises(SandboxException, Sandbox.create, snapshot, api_key=world.other_key)
        assert Sandbox.delete_snapshot(snapshot, api_key=world.other_key) is False
        listed = Sandbox.list_snapshots(api_key=world.other_key).next_items()
        assert snapshot not in {one.snapshot_id for one in listed}
        assert Sandbox.delete_snapshot(snapshot) is True


def case_a_snapshot_is_of_one_moment(world):
    with Sandbox.create() as sandbox:
        sandbox.files.write("state", "before")
        snapshot = sandbox.create_snapshot().snapshot_id
        sandbox.files.write("state", "after")
        copies = [Sandbox.create(snapshot, metadata={"copy": str(n)}) for n in range(2)]
        for copy in copies:
            assert copy.files.read("state") == "before"
            copy.kill()
        assert sandbox.files.read("state") == "after"
        Sandbox.delete_snapshot(snapshot)


def case_forks_have_times_of_their_own_and_bounds(world):
    with Sandbox.create(timeout=1000) as sandbox:
        (child,) = sandbox.fork(timeout=77)
        left = child.get_info().end_at.timestamp() - time.time()
        assert 60 < left < 80, left
        child.kill()
        assert sandbox.is_running()
        expect.raises(InvalidArgumentException, sandbox.fork, count=0)
        expect.raises(SandboxException, sandbox.fork, count=1000)


def case_forks_beyond_the_quota_are_errors_in_their_places(world):
    key = world.server.variables("--tenant", "other")["E2B_API_KEY"]
    with Sandbox.create(api_key=key) as sandbox:
        sandbox.files.write("one.txt", "1")
        world.server.run("quota", "other", "--sandboxes", "3")
        made = []
        try:
            *made, refused = sandbox.fork(count=3)
            assert len(made) == 2 and isinstance(refused, RateLimitException), refused
            assert "live_sandboxes" in str(refused) and "end sandboxes" in str(refused), refused
            assert [child.files.read("one.txt") for child in made] == ["1", "1"]
            (refused,) = sandbox.fork()
            assert isinstance(refused, RateLimitException), refused
            made.pop().kill()
            made += sandbox.fork()
            assert len(made) == 2 and made[1].commands.run("cat one.txt").stdout == "1"
        finally:
            for child in made:
                child.kill()
            world.server.run("quota", "other", "--sandboxes", "none")


def case_a_fork_by_id_is_of_its_tenant(world):
    with Sandbox.create() as sandbox:
        expect.raises(SandboxException, Sandbox.fork, sandbox.sandbox_id, api_key=world.other_key)
        children = Sandbox.fork(sandbox.sandbox_id)
        assert len(children) == 1 and children[0].commands.run("echo fork").stdout == "fork\n"
        children[0].kill()


def case_metrics_of_a_time_and_of_load(world):
    with Sandbox.create() as sandbox:
        sandbox.commands.run("head -c 50M /dev/urandom > blob")
        found = sandbox.get_metrics()
        assert found[-1].disk_used >= 50_000_000, found[-1].disk_used
        assert 0 < found[-1].mem_used <= found[-1].mem_total and found[-1].disk_used <= found[-1].disk_total
        assert abs(found[-1].timestamp.timestamp() - time.time()) < 60


def case_metrics_tell_the_cache_of_files_apart(world):
    with Sandbox.create() as sandbox:
        sandbox.commands.run("head -c 50M /dev/urandom > blob && cat blob > /dev/null")
        found = sandbox.get_metrics()[-1]
        assert 40_000_000 < found.mem_cache <= found.mem_total, found
        # What is used beside it is a shell, or what is left of one.
        assert found.mem_used < found.mem_cache, found


def case_the_name_of_a_port(world):
    assert world.sandbox.get_host(3000).startswith(f"3000-{world.sandbox.sandbox_id}.")
    assert world.sandbox.get_mcp_url().startswith("https://50005-")
    # There is no gateway, and its token is not there.
    expect.raises(SandboxException, world.sandbox.get_mcp_token)


def case_fifty_sandboxes_come_and_go(world):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(10) as beside:
        made = list(beside.map(lambda n: Sandbox.create(metadata={"crowd": "50"}), range(50)))
        try:
            assert len({one.sandbox_id for one in made}) == 50
            assert len(listed(metadata={"crowd": "50"})) == 50
        finally:
            assert all(beside.map(lambda one: one.kill(), made))
    assert listed(metadata={"crowd": "50"}) == []
