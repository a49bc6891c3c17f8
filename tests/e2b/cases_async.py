"""The same with the flavour of the Python SDK for programs that do several things at a time."""
import asyncio
import os
import time

import pytest_like as expect
from e2b import (
    AsyncSandbox, AuthenticationException, CommandExitException, FileType, InvalidArgumentException, NotFoundException,
    PtySize, SandboxException, SandboxQuery, TimeoutException,
)
from e2b.exceptions import SandboxNotRunningException
from e2b.sandbox.filesystem.watch_handle import FilesystemEventType


async def case_a_sandbox_is_made_used_and_ended(world):
    sandbox = await AsyncSandbox.create(timeout=60, metadata={"flavour": "async"}, envs={"ONE": "1"})
    assert await sandbox.is_running()
    assert (await sandbox.commands.run("echo $ONE")).stdout == "1\n"
    info = await sandbox.get_info()
    assert info.metadata == {"flavour": "async"}
    listed = await AsyncSandbox.list(query=SandboxQuery(metadata={"flavour": "async"})).next_items()
    assert [one.sandbox_id for one in listed] == [sandbox.sandbox_id]
    await sandbox.set_timeout(120)
    again = await AsyncSandbox.connect(sandbox.sandbox_id)
    assert (await again.commands.run("echo again")).stdout == "again\n"
    assert await sandbox.kill() is True
    assert not await sandbox.is_running()
    assert await AsyncSandbox.kill(sandbox.sandbox_id) is False


async def case_ten_sandboxes_at_once(world):
    made = await asyncio.gather(*(AsyncSandbox.create() for _ in range(10)))
    try:
        said = await asyncio.gather(*(one.commands.run(f"echo {n}") for n, one in enumerate(made)))
        assert [one.stdout for one in said] == [f"{n}\n" for n in range(10)]
    finally:
        await asyncio.gather(*(one.kill() for one in made))


async def case_paused_and_resumed(world):
    sandbox = await AsyncSandbox.create()
    await sandbox.files.write("kept.txt", "kept")
    await sandbox.pause()
    assert not await sandbox.is_running()
    resumed = await sandbox.connect()
    assert await resumed.files.read("kept.txt") == "kept"
    await resumed.kill()


async def case_wrong_keys_and_ids(world):
    await expect.raises_later(AuthenticationException, AsyncSandbox.create(api_key="e2b_" + "0" * 64))
    await expect.raises_later(SandboxException, AsyncSandbox.connect("sb-0000000000000000"))
    sandbox = await world.async_sandbox()
    await expect.raises_later(SandboxException, AsyncSandbox.connect(sandbox.sandbox_id, api_key=world.other_key))


async def case_commands_output_errors_and_times(world):
    run = (await world.async_sandbox()).commands.run
    result = await run("echo out; echo err >&2")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 0)
    error = await expect.raises_later(CommandExitException, run("exit 3"))
    assert error.exit_code == 3
    await expect.raises_later(TimeoutException, run("sleep 30", timeout=1))
    await expect.raises_later(InvalidArgumentException, run("true", cwd="/no/such/place"))
    seen = []
    await run("printf 'a\\nb\\n'", on_stdout=seen.append)
    assert "".join(seen) == "a\nb\n"
    assert (await run("id -u", user="root")).stdout == "0\n"


async def case_background_list_connect_and_kill(world):
    commands = (await world.async_sandbox()).commands
    handle = await commands.run("echo up; sleep 60", background=True)
    assert handle.pid in {one.pid for one in await commands.list()}
    again = await commands.connect(handle.pid)
    assert await handle.kill() is True
    await expect.raises_later(CommandExitException, again.wait())
    assert await commands.kill(handle.pid) is False


async def case_a_reader_that_goes_away_ends_nothing(world):
    sandbox = await world.async_sandbox()
    handle = await sandbox.commands.run("sleep 0.5; echo survived > /tmp/survived", background=True)
    await handle.disconnect()
    end = time.monotonic() + 10
    while not (said := (await sandbox.commands.run("cat /tmp/survived || true")).stdout):
        assert time.monotonic() < end, "it did not go on"
    assert said == "survived\n"


async def case_input_goes_in_and_is_closed(world):
    commands = (await world.async_sandbox()).commands
    handle = await commands.run("cat; echo end", background=True, stdin=True)
    await commands.send_stdin(handle.pid, "one\n")
    await handle.send_stdin("two\n")
    await handle.close_stdin()
    assert (await handle.wait()).stdout == "one\ntwo\nend\n"


async def case_a_terminal(world):
    sandbox = await world.async_sandbox()
    seen = bytearray()
    handle = await sandbox.pty.create(size=PtySize(rows=30, cols=100), on_data=seen.extend)
    await sandbox.pty.resize(handle.pid, PtySize(rows=40, cols=120))
    await sandbox.pty.send_stdin(handle.pid, b"stty size; exit\n")
    await handle.wait()
    assert b"40 120" in seen, bytes(seen)


async def case_the_end_of_a_sandbox_breaks_its_streams(world):
    sandbox = await AsyncSandbox.create()
    handle = await sandbox.commands.run("sleep 100", background=True)
    waiting = asyncio.create_task(handle.wait())
    await sandbox.kill()
    await expect.raises_later(SandboxNotRunningException, waiting)


async def case_files_go_in_and_out(world):
    files = (await world.async_sandbox()).files
    info = await files.write("a/b.txt", "text")
    assert (info.path, info.type) == ("/home/user/a/b.txt", FileType.FILE)
    assert await files.read("a/b.txt") == "text"
    large = os.urandom(2_000_000)
    await files.write("/tmp/large", large, gzip=True)
    assert await files.read("/tmp/large", format="bytes") == large
    pieces = [piece async for piece in await files.read("/tmp/large", format="stream")]
    assert b"".join(pieces) == large

    async def produce():
        for at in range(0, len(large), 100_000):
            yield large[at:at + 100_000]

    await files.write("/tmp/produced", produce())
    assert await files.read("/tmp/produced", format="bytes") == large
    written = await files.write_files([{"path": f"/tmp/several/{n}", "data": str(n)} for n in range(3)])
    assert len(written) == 3


async def case_directories(world):
    files = (await world.async_sandbox()).files
    assert await files.make_dir("/tmp/made/deep") is True
    assert await files.make_dir("/tmp/made/deep") is False
    await files.write("/tmp/made/one", "1")
    assert {one.name for one in await files.list("/tmp/made")} == {"deep", "one"}
    assert (await files.get_info("/tmp/made/one")).size == 1
    moved = await files.rename("/tmp/made/one", "/tmp/made/deep/two")
    assert moved.path == "/tmp/made/deep/two"
    assert await files.exists("/tmp/made/deep/two") and not await files.exists("/tmp/made/one")
    await files.remove("/tmp/made")
    await expect.raises_later(NotFoundException, files.list("/tmp/made"))
    await expect.raises_later(NotFoundException, files.read("/tmp/made/one"))


async def case_a_watch_tells_events_as_they_come(world):
    files = (await world.async_sandbox()).files
    await files.make_dir("/tmp/watched/below")
    seen, ended = [], []
    handle = await files.watch_dir(
        "/tmp/watched", on_event=seen.append, on_exit=ended.append, recursive=True, include_entry=True)
    await files.write("/tmp/watched/below/new.txt", "xyz")
    end = time.monotonic() + 5
    while len(seen) < 3 and time.monotonic() < end:
        await asyncio.sleep(0.05)
    kinds = FilesystemEventType
    assert [(one.type, one.name) for one in seen] == [
        (kinds.CREATE, "below/new.txt"), (kinds.CHMOD, "below/new.txt"), (kinds.WRITE, "below/new.txt")], seen
    assert seen[-1].entry.size == 3
    await handle.stop()
    await expect.raises_later(NotFoundException, files.watch_dir("/tmp/no-such", on_event=seen.append))


async def case_a_watch_ends_when_its_time_is_over(world):
    files = (await world.async_sandbox()).files
    await files.make_dir("/tmp/timed")
    ended = asyncio.Event()
    await files.watch_dir("/tmp/timed", on_event=lambda _: None, on_exit=lambda _: ended.set(), timeout=1)
    await asyncio.wait_for(ended.wait(), 10)


async def case_many_commands_of_many_sandboxes(world):
    made = await asyncio.gather(*(AsyncSandbox.create() for _ in range(5)))
    try:
        said = await asyncio.gather(*(one.commands.run(f"echo {m}-{n}") for m, one in enumerate(made) for n in range(10)))
        assert [one.stdout for one in said] == [f"{m}-{n}\n" for m in range(5) for n in range(10)]
    finally:
        await asyncio.gather(*(one.kill() for one in made))


async def case_large_output_comes_whole(world):
    result = await (await world.async_sandbox()).commands.run("seq 1 200000")
    assert result.stdout.count("\n") == 200000 and result.stdout.endswith("\n200000\n")


async def case_output_is_iterated_and_callbacks_may_wait(world):
    commands = (await world.async_sandbox()).commands
    seen = []

    async def take(text):
        await asyncio.sleep(0)
        seen.append(text)

    await commands.run("echo a; echo b >&2", on_stdout=take, on_stderr=take)
    assert sorted(seen) == ["a\n", "b\n"]


async def case_two_readers_see_the_same(world):
    commands = (await world.async_sandbox()).commands
    first = await commands.run("read line; echo out; exit 5", background=True, stdin=True)
    second = await commands.connect(first.pid)
    await first.send_stdin("\n")
    for reader in (first, second):
        error = await expect.raises_later(CommandExitException, reader.wait())
        assert (error.exit_code, error.stdout) == (5, "out\n")


async def case_processes_that_are_not_there(world):
    sandbox = await world.async_sandbox()
    assert await sandbox.commands.kill(4_000_000) is False
    await expect.raises_later(NotFoundException, sandbox.commands.connect(4_000_000))
    await expect.raises_later(NotFoundException, sandbox.commands.send_stdin(4_000_000, "x"))
    await expect.raises_later(NotFoundException, sandbox.pty.resize(4_000_000, PtySize(rows=1, cols=1)))


async def case_input_is_streamed(world):
    commands = (await world.async_sandbox()).commands
    handle = await commands.run("wc -c", background=True, stdin=True)
    stream = commands.stream_input(handle.pid)
    for _ in range(100):
        await stream.send("x" * 1000)
    await stream.close()
    await handle.close_stdin()
    assert (await handle.wait()).stdout.strip() == "100000"


async def case_a_time_limit_holds_in_the_background(world):
    commands = (await world.async_sandbox()).commands
    handle = await commands.run("sleep 60", background=True, timeout=1)
    await expect.raises_later(TimeoutException, handle.wait())


async def case_a_caller_that_gives_up_ends_only_its_reading(world):
    sandbox = await world.async_sandbox()
    handle = await sandbox.commands.run("read line; echo $line", background=True, stdin=True, timeout=0)
    with_limit = asyncio.wait_for(handle.wait(), 0.2)
    await expect.raises_later(asyncio.TimeoutError, with_limit)
    again = await sandbox.commands.connect(handle.pid)
    await sandbox.commands.send_stdin(handle.pid, "alive\n")
    assert (await again.wait()).stdout == "alive\n"


async def case_a_terminal_is_left_found_and_killed(world):
    sandbox = await world.async_sandbox()
    first = await sandbox.pty.create(size=PtySize(rows=24, cols=80), on_data=lambda _: None, timeout=0)
    await first.disconnect()
    seen = bytearray()
    again = await sandbox.pty.connect(first.pid, on_data=seen.extend)
    await sandbox.pty.send_stdin(first.pid, b"echo ba''ck; exit 4\n")
    error = await expect.raises_later(CommandExitException, again.wait())
    assert error.exit_code == 4 and b"back" in seen
    assert await sandbox.pty.kill(first.pid) is False


async def case_snapshots_and_forks(world):
    sandbox = await AsyncSandbox.create()
    await sandbox.files.write("one", "1")
    snapshot = await sandbox.create_snapshot()
    copy = await AsyncSandbox.create(snapshot.snapshot_id)
    forks = await sandbox.fork(count=2)
    for one in (copy, *forks):
        assert await one.files.read("one") == "1"
    listed = await AsyncSandbox.list_snapshots(sandbox_id=sandbox.sandbox_id).next_items()
    assert [one.snapshot_id for one in listed] == [snapshot.snapshot_id]
    await asyncio.gather(*(one.kill() for one in (sandbox, copy, *forks)))
    assert await AsyncSandbox.delete_snapshot(snapshot.snapshot_id) is True


async def case_metrics_info_and_timeouts_by_id(world):
    sandbox = await AsyncSandbox.create(timeout=60)
    assert (await AsyncSandbox.get_metrics(sandbox.sandbox_id))[0].mem_total > 0
    await AsyncSandbox.set_timeout(sandbox.sandbox_id, 500)
    before = (await AsyncSandbox.get_info(sandbox.sandbox_id)).end_at
    await AsyncSandbox.connect(sandbox.sandbox_id, timeout=5)
    assert (await sandbox.get_info()).end_at >= before
    assert await AsyncSandbox.pause(sandbox.sandbox_id) is True
    await expect.raises_later(SandboxNotRunningException, sandbox.commands.run("true"))
    await AsyncSandbox.kill(sandbox.sandbox_id)
    await expect.raises_later(NotFoundException, AsyncSandbox.get_info(sandbox.sandbox_id))


async def case_pages(world):
    made = await asyncio.gather(*(AsyncSandbox.create(metadata={"pages": "async"}) for _ in range(3)))
    try:
        pages = AsyncSandbox.list(query=SandboxQuery(metadata={"pages": "async"}), limit=2)
        found = await pages.next_items()
        assert len(found) == 2 and pages.has_next
        found += await pages.next_items()
        assert {one.sandbox_id for one in found} == {one.sandbox_id for one in made} and not pages.has_next
    finally:
        await asyncio.gather(*(one.kill() for one in made))


async def case_many_files_at_once(world):
    files = (await world.async_sandbox()).files
    await asyncio.gather(*(files.write(f"/tmp/once/{n}", str(n) * 1000) for n in range(30)))
    read = await asyncio.gather(*(files.read(f"/tmp/once/{n}") for n in range(30)))
    assert read == [str(n) * 1000 for n in range(30)]
    await expect.raises_later(SandboxException, files.write("/usr/no", "x"))
    await expect.raises_later(InvalidArgumentException, files.read("/tmp/once"))


async def case_git_helpers_run(world):
    sandbox = await world.async_sandbox()
    await sandbox.git.init("/tmp/async-repository", initial_branch="main")
    await sandbox.files.write("/tmp/async-repository/a.txt", "a")
    await sandbox.git.add("/tmp/async-repository")
    await sandbox.git.commit("/tmp/async-repository", "first", author_name="Ann", author_email="ann@example.com")
    status = await sandbox.git.status("/tmp/async-repository")
    assert status.is_clean and status.current_branch == "main"
    assert (await sandbox.git.branches("/tmp/async-repository")).branches == ["main"]


async def case_a_command_is_killed_by_the_end_of_the_sandbox_for_every_reader(world):
    sandbox = await AsyncSandbox.create()
    handle = await sandbox.commands.run("sleep 100", background=True, timeout=0)
    readers = [handle, await sandbox.commands.connect(handle.pid, timeout=0), await sandbox.commands.connect(handle.pid, timeout=0)]
    waiting = [asyncio.create_task(one.wait()) for one in readers]
    await sandbox.kill()
    for one in waiting:
        await expect.raises_later(SandboxNotRunningException, one)
