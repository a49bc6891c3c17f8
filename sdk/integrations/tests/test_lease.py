"""Sandboxes that end with the process that made them, and those that do not."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from helpers import LEASE, ends, maker
from paddock import AsyncSandbox, Sandbox, TemplateNotFound
from real_server import Server, unmount_below

from paddock_integrations._lease import KEEPER, outlive, prolong
from paddock_integrations._shared import creation, make, make_now

MAKER = (
    "from paddock_integrations._shared import creation, make_now\n"
    "print(make_now(**creation(OPTIONS, made_by='tests')).id, flush=True)"
)


def program(**options: Any) -> str:
    return MAKER.replace("OPTIONS", repr(options))


def made(**options: Any) -> Sandbox:
    return make_now(**creation(options, made_by="tests"))


def until(holds: Callable[[], bool], what: str) -> None:
    for _ in range(600):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within a minute")


def expiry(sandbox: Sandbox) -> datetime:
    found = sandbox.info().expires_at
    assert found is not None
    return found


def test_a_sandbox_lives_as_long_as_its_process() -> None:
    made, kill = maker(program(lease_seconds=LEASE))
    try:
        sandbox = Sandbox.connect(made)
        begun = expiry(sandbox)
        # It has outlived the lease that it began with.
        until(lambda: expiry(sandbox) > begun + timedelta(seconds=LEASE), "renewals")
        assert sandbox.info().state == "running"
    finally:
        kill()
    ends(made)


def test_one_without_a_lease_has_its_whole_time_to_live() -> None:
    made, kill = maker(program(lease_seconds=None))
    kill()
    with Sandbox.connect(made) as sandbox:
        assert expiry(sandbox) - sandbox.info().created_at > timedelta(minutes=50)


def test_a_process_that_ends_without_a_word_leaves_nothing() -> None:
    made, kill = maker(program(lease_seconds=LEASE) + "\nimport os; os._exit(0)")
    kill()
    ends(made)


def test_the_time_to_live_bounds_the_lease() -> None:
    sandbox = made(lease_seconds=LEASE, ttl_seconds=LEASE + 2)
    ends(sandbox.id)
    until(lambda: not KEEPER.keeps(sandbox.id), "nothing is kept of it")


def test_a_time_to_live_below_the_lease_needs_none() -> None:
    with made(lease_seconds=LEASE, ttl_seconds=LEASE) as sandbox:
        assert not KEEPER.keeps(sandbox.id)


def test_a_killed_sandbox_is_forgotten() -> None:
    sandbox = made(lease_seconds=LEASE)
    assert KEEPER.keeps(sandbox.id)
    sandbox.kill()
    until(lambda: not KEEPER.keeps(sandbox.id), "nothing is kept of it")


def test_time_that_the_program_gives_itself_is_kept() -> None:
    with made(lease_seconds=LEASE) as sandbox:
        given = sandbox.extend(6000).expires_at
        assert given is not None
        until(lambda: not KEEPER.keeps(sandbox.id), "the lease is given up")
        assert abs(expiry(sandbox) - given) < timedelta(minutes=10)


async def test_one_that_is_to_be_found_again_gets_what_is_left() -> None:
    async with await make(**creation({"lease_seconds": LEASE, "ttl_seconds": 3000}, made_by="tests")) as sandbox:
        assert isinstance(sandbox, AsyncSandbox)
        first = (await sandbox.info()).expires_at
        await outlive(sandbox)
        assert not KEEPER.keeps(sandbox.id)
        last = (await sandbox.info()).expires_at
        assert first is not None
        assert last is not None
        assert last - first > timedelta(minutes=30)


async def test_a_lease_is_prolonged() -> None:
    async with await make(**creation({"lease_seconds": LEASE, "ttl_seconds": LEASE + 1}, made_by="tests")) as sandbox:
        begun = (await sandbox.info()).expires_at
        assert begun is not None
        await prolong(sandbox, 3000)
        await asyncio.to_thread(
            until, lambda: expiry(Sandbox.connect(sandbox.id)) > begun + timedelta(seconds=2 * LEASE), "renewals"
        )
    async with await make(ttl_seconds=60) as plain:
        begun = (await plain.info()).expires_at
        await prolong(plain, 3000)
        last = (await plain.info()).expires_at
        assert begun is not None
        assert last is not None
        assert last - begun > timedelta(minutes=30)
        assert not KEEPER.keeps(plain.id)


async def test_a_create_that_fails_keeps_nothing() -> None:
    for options in ({"template": "no-such-template"}, {"template": "no-such-template", "lease_seconds": None}):
        with pytest.raises(TemplateNotFound):
            await make(**creation(options, made_by="tests"))


def test_what_sleeps_at_its_end_has_no_lease() -> None:
    for action in ("pause", "hibernate"):
        assert creation({"ttl_action": action}, made_by="tests")["lease_seconds"] is None
    assert creation({"ttl_action": "kill"}, made_by="tests")["lease_seconds"] == 120


@pytest.mark.parametrize("lease", [0, -1, float("nan"), float("inf")])
def test_a_lease_is_a_positive_number_of_seconds(lease: float) -> None:
    with pytest.raises(ValueError, match="lease_seconds"):
        creation({"lease_seconds": lease}, made_by="tests")


def test_a_forked_child_renews_nothing_of_its_parent() -> None:
    with made(lease_seconds=LEASE) as sandbox:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            with os.fdopen(writer, "w") as told:
                told.write(str(KEEPER.keeps(sandbox.id)))
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as said:
            assert said.read() == "False"
        os.waitpid(child, 0)
        assert KEEPER.keeps(sandbox.id)


@pytest.fixture
def other_server() -> Iterator[Server]:
    """One that a test may kill."""
    started = Server(Path(tempfile.mkdtemp(prefix="paddock-integrations-")))
    started.start()
    try:
        yield started
        started.sweep()
    finally:
        started.end(signal.SIGTERM)
        unmount_below(started.directory)
        shutil.rmtree(started.directory, ignore_errors=True)


def test_a_server_that_is_away_for_a_while_ends_no_lease(other_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_URL", other_server.url)
    # Long enough for the start of a server.
    lease = 60
    with made(lease_seconds=lease) as sandbox:
        held = KEEPER._held[sandbox.id]
        begun = expiry(sandbox)
        other_server.end(signal.SIGKILL)
        held.due = 0
        with KEEPER._changed:
            KEEPER._changed.notify()
        until(lambda: held.due > 0, "a try that fails")
        assert KEEPER.keeps(sandbox.id)
        other_server.start()
        until(lambda: expiry(sandbox) > begun + timedelta(seconds=1), "a renewal")
        assert KEEPER.keeps(sandbox.id)
