"""Directories that are watched, with both flavours of the Python SDK."""
import asyncio

import pytest_like as expect
from e2b import AsyncSandbox, NotFoundException, Sandbox, SandboxException
from e2b.sandbox.filesystem.watch_handle import FilesystemEventType as Kind


def told(handle, last):
    """Kind and name of the events up to one that ends the wait."""
    seen = []

    def ask():
        seen.extend((one.type, one.name) for one in handle.get_new_events())
        return seen

    return expect.until(ask, lambda events: last in events)


def watched(world, name, **options):
    world.sandbox.files.make_dir(f"/tmp/{name}")
    return world.sandbox.files, world.sandbox.files.watch_dir(f"/tmp/{name}", **options)


def case_what_commands_do_is_told_too(world):
    _, handle = watched(world, "w-commands")
    world.sandbox.commands.run("cd /tmp/w-commands; echo 1 > a; chmod 600 a; mv a b; rm b")
    events = told(handle, (Kind.REMOVE, "b"))
    assert events == [
        (Kind.CREATE, "a"), (Kind.WRITE, "a"), (Kind.CHMOD, "a"), (Kind.RENAME, "a"), (Kind.CREATE, "b"), (Kind.REMOVE, "b")], events
    handle.stop()


def case_directories_are_told_as_they_come_and_go(world):
    files, handle = watched(world, "w-dirs")
    files.make_dir("/tmp/w-dirs/sub")
    assert told(handle, (Kind.CREATE, "sub"))[0] == (Kind.CREATE, "sub")
    files.write("/tmp/w-dirs/sub/hidden.txt", "x")
    files.remove("/tmp/w-dirs/sub")
    events = told(handle, (Kind.REMOVE, "sub"))
    assert not any("hidden" in name for _, name in events), events
    handle.stop()


def case_a_new_directory_is_watched_with_its_tree(world):
    files, handle = watched(world, "w-tree", recursive=True)
    files.make_dir("/tmp/w-tree/new")
    assert (Kind.CREATE, "new") in told(handle, (Kind.CREATE, "new"))
    files.write("/tmp/w-tree/new/deep.txt", "x")
    events = told(handle, (Kind.WRITE, "new/deep.txt"))
    assert (Kind.CREATE, "new/deep.txt") in events and (Kind.WRITE, "new/deep.txt") in events, events
    handle.stop()


def case_entries_come_along_where_they_are_asked_for(world):
    files, handle = watched(world, "w-entries", include_entry=True)
    files.write("/tmp/w-entries/five", "12345")
    seen = []

    def ask():
        seen.extend(handle.get_new_events())
        return seen

    expect.until(ask, lambda events: any(one.type == Kind.WRITE for one in events))
    entry = seen[-1].entry
    assert (entry.name, entry.path, entry.size) == ("five", "/tmp/w-entries/five", 5), entry
    handle.stop()


def case_watchers_are_apart(world):
    files, first = watched(world, "w-apart-1")
    _, second = watched(world, "w-apart-2")
    files.write("/tmp/w-apart-1/a", "a")
    files.write("/tmp/w-apart-2/b", "b")
    assert {name for _, name in told(first, (Kind.WRITE, "a"))} == {"a"}
    assert {name for _, name in told(second, (Kind.WRITE, "b"))} == {"b"}
    first.stop()
    files.write("/tmp/w-apart-2/c", "c")
    assert (Kind.WRITE, "c") in told(second, (Kind.WRITE, "c"))
    second.stop()


def case_a_watcher_that_has_stopped_says_nothing(world):
    _, handle = watched(world, "w-stopped")
    handle.stop()
    expect.raises(SandboxException, handle.get_new_events)


def case_a_watcher_ends_with_its_sandbox(world):
    sandbox = Sandbox.create()
    handle = sandbox.files.watch_dir("/tmp")
    sandbox.kill()
    expect.raises(SandboxException, handle.get_new_events)


def case_rights_hold_for_watching(world):
    world.sandbox.commands.run("mkdir -m 700 -p /root/watched", user="root")
    expect.raises(SandboxException, world.sandbox.files.watch_dir, "/root/watched")
    handle = world.sandbox.files.watch_dir("/root/watched", user="root")
    world.sandbox.files.write("/root/watched/a", "a", user="root")
    assert (Kind.WRITE, "a") in told(handle, (Kind.WRITE, "a"))
    handle.stop()


async def seen_within(seen, is_enough, patience=10.0):
    end = asyncio.get_running_loop().time() + patience
    while not is_enough(seen) and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(0.025)
    return [(one.type, one.name) for one in seen]


async def case_a_stream_of_events_is_exact(world):
    files = (await world.async_sandbox()).files
    await files.make_dir("/tmp/w-exact")
    seen = []
    handle = await files.watch_dir("/tmp/w-exact", on_event=seen.append)
    await files.write("/tmp/w-exact/a", "a")
    await files.rename("/tmp/w-exact/a", "/tmp/w-exact/b")
    await files.remove("/tmp/w-exact/b")
    events = await seen_within(seen, lambda so_far: len(so_far) >= 6)
    assert events == [
        (Kind.CREATE, "a"), (Kind.CHMOD, "a"), (Kind.WRITE, "a"), (Kind.RENAME, "a"), (Kind.CREATE, "b"), (Kind.REMOVE, "b")], events
    await handle.stop()


async def case_an_upload_over_a_file_creates_nothing(world):
    files = (await world.async_sandbox()).files
    await files.make_dir("/tmp/w-over")
    await files.write("/tmp/w-over/a", "old")
    seen = []
    handle = await files.watch_dir("/tmp/w-over", on_event=seen.append)
    await files.write("/tmp/w-over/a", "new")
    await files.write("/tmp/w-over/b", "")
    await files.write("/tmp/w-over/c", "c")
    events = await seen_within(seen, lambda so_far: len(so_far) >= 7)
    assert events == [
        (Kind.CHMOD, "a"), (Kind.WRITE, "a"), (Kind.CREATE, "b"), (Kind.CHMOD, "b"), (Kind.CREATE, "c"), (Kind.CHMOD, "c"), (Kind.WRITE, "c")], events
    assert await files.read("/tmp/w-over/a") == "new"
    await handle.stop()


async def case_a_stream_that_stopped_says_nothing_more(world):
    files = (await world.async_sandbox()).files
    await files.make_dir("/tmp/w-halt")
    seen, beside = [], []
    handle = await files.watch_dir("/tmp/w-halt", on_event=seen.append)
    other = await files.watch_dir("/tmp/w-halt", on_event=beside.append)
    await handle.stop()
    await files.write("/tmp/w-halt/a", "a")
    assert len(await seen_within(beside, lambda so_far: len(so_far) >= 3)) == 3
    assert seen == []
    await other.stop()


async def case_the_end_of_a_sandbox_ends_its_watch(world):
    sandbox = await AsyncSandbox.create()
    ended = asyncio.Event()
    problems = []

    def on_exit(problem):
        problems.append(problem)
        ended.set()

    await sandbox.files.watch_dir("/tmp", on_event=lambda _: None, on_exit=on_exit, timeout=0)
    await sandbox.kill()
    await asyncio.wait_for(ended.wait(), 20)
    assert isinstance(problems[0], Exception), problems


async def case_twenty_streams_at_once(world):
    files = (await world.async_sandbox()).files
    await files.make_dir("/tmp/w-many")
    seen = [[] for _ in range(20)]
    handles = await asyncio.gather(*(files.watch_dir("/tmp/w-many", on_event=one.append) for one in seen))
    await files.write("/tmp/w-many/a", "a")
    for one in seen:
        assert len(await seen_within(one, lambda so_far: len(so_far) >= 3)) == 3
    await asyncio.gather(*(handle.stop() for handle in handles))
    await expect.raises_later(NotFoundException, files.watch_dir("/tmp/w-none", on_event=print))
