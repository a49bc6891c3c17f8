"""With no server configured exactly one is started, whoever asks and however many at once."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Iterator, List

import pytest

import paddock
from paddock import AsyncClient, AsyncSandbox, Client, Sandbox, _starting
from paddock._starting import Holder, ensure_running, find_binary, server_of


class Surroundings:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.socket = str(directory / "run" / "api.sock")
        self.url = f"unix:{self.socket}"
        self.notes = directory / "notes"

    @property
    def starts(self) -> List[List[str]]:
        return [line.split() for line in self.notes.read_text().splitlines()] if self.notes.exists() else []

    def stop(self) -> None:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(self.socket)
                connection.sendall(b"GET /stop HTTP/1.1\r\n\r\n")
                connection.recv(1)
        except OSError:
            pass


@pytest.fixture
def surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Surroundings]:
    # Paths of sockets are short, those of pytest are long.
    directory = Path(tempfile.mkdtemp(prefix="paddock-sdk-"))
    binary = directory / "paddock"
    binary.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).parent / "stand_in.py"}" "$@"\n')
    binary.chmod(0o755)
    for name in ("PADDOCK_URL", "PADDOCK_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PADDOCK_BIN", str(binary))
    monkeypatch.setenv("PADDOCK_STATE_DIR", str(directory / "state"))
    monkeypatch.setenv("STAND_IN_NOTES", str(directory / "notes"))
    made = Surroundings(directory)
    yield made
    made.stop()
    shutil.rmtree(directory)


def test_it_is_started_as_it_should_be(surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_TOKEN", "of-another-server")
    with Client(surroundings.url, start=True) as client:
        with pytest.raises(paddock.SandboxNotFound):
            Sandbox.connect("x", client=client)
    ((_, session, *arguments, token),) = surroundings.starts
    assert arguments == ["serve", "--socket", surroundings.socket, "--idle-exit", "300"]
    assert token == "None"
    # A Ctrl-C in our terminal is not for the server.
    assert int(session) != os.getsid(0)
    assert os.stat(surroundings.socket).st_mode
    assert os.stat(Path(surroundings.socket).parent).st_mode & 0o777 == 0o700


def test_many_threads_start_one(surroundings: Surroundings) -> None:
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda _: ensure_running(surroundings.socket), range(12)))
    assert len(surroundings.starts) == 1


def test_many_processes_start_one(surroundings: Surroundings) -> None:
    code = (
        "import sys; from paddock import Client, Sandbox, SandboxNotFound\n"
        "try: Sandbox.connect('x', client=Client(sys.argv[1], start=True))\n"
        "except SandboxNotFound: print('answered')"
    )
    command = [sys.executable, "-c", code, surroundings.url]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    assert [process.communicate()[0].strip() for process in running] == ["answered"] * 6
    assert len(surroundings.starts) == 1


def test_it_is_started_again_when_it_went_away(surroundings: Surroundings) -> None:
    with Client(surroundings.url, start=True) as client:
        for _ in range(2):
            with pytest.raises(paddock.SandboxNotFound):
                Sandbox.connect("x", client=client)
            surroundings.stop()
    assert len(surroundings.starts) == 2


def test_the_async_client_starts_one_and_the_loop_goes_on(surroundings: Surroundings) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    async def main() -> None:
        ticking = asyncio.ensure_future(tick())
        async with AsyncClient(surroundings.url, start=True) as client:
            with pytest.raises(paddock.SandboxNotFound):
                await AsyncSandbox.connect("x", client=client)
        ticking.cancel()

    asyncio.run(main())
    assert len(surroundings.starts) == 1
    assert ticks > 5


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_has_connections_of_its_own(surroundings: Surroundings) -> None:
    with Client(surroundings.url, start=True) as client:
        with pytest.raises(paddock.SandboxNotFound):
            Sandbox.connect("x", client=client)
        parents = client._wire
        # The worst case: another thread holds the lock while we fork.
        with client._guard:
            child = os.fork()
            if child == 0:
                try:
                    Sandbox.connect("x", client=client)
                except paddock.SandboxNotFound:
                    os._exit(0 if client._wire is not parents else 2)
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client._wire is parents
    assert len(surroundings.starts) == 1


def test_a_server_that_fails_says_why(surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_FAILS", "1")
    with pytest.raises(paddock.ServerNotStarted) as caught:
        ensure_running(surroundings.socket)
    assert "no backend of this machine is usable" in str(caught.value)
    assert "serve.log" in str(caught.value.hint)
    # The log of an earlier start is not told as if it were this one's.
    monkeypatch.delenv("STAND_IN_FAILS")
    ensure_running(surroundings.socket)


def test_without_the_executable_it_says_how_to_get_it(
    surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDOCK_BIN", "/nowhere/paddock")
    with pytest.raises(paddock.ServerNotStarted, match="/nowhere/paddock"):
        find_binary()
    monkeypatch.delenv("PADDOCK_BIN")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(paddock.ServerNotStarted) as caught:
        ensure_running(surroundings.socket)
    assert "make build" in str(caught.value.hint)
    assert "PADDOCK_URL" in str(caught.value.hint)


def test_a_directory_that_others_may_write_to_is_refused(surroundings: Surroundings) -> None:
    shared = surroundings.directory / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(paddock.ServerNotStarted, match="not safe"):
        ensure_running(str(shared / "api.sock"))
    assert surroundings.starts == []


def test_a_configured_server_is_never_started(surroundings: Surroundings) -> None:
    quick = paddock.RetryPolicy(retries=1, first_seconds=0.001)
    with pytest.raises(paddock.ConnectionFailed) as caught:
        Sandbox.connect("x", client=Client(surroundings.url, retry=quick))
    assert surroundings.socket in str(caught.value)
    assert surroundings.starts == []


def test_no_thread_keeps_the_interpreter_alive(surroundings: Surroundings) -> None:
    ensure_running(surroundings.socket)
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "paddock-serve-reaper")
    surroundings.stop()


def test_a_server_that_starts_is_waited_for_and_not_started_again(surroundings: Surroundings) -> None:
    """A person started it: it has the state directory's lock, and its socket comes later."""
    state = surroundings.directory / "state"
    state.mkdir(mode=0o700)
    with open(state / "server.lock", "w") as lock:
        lock.write("4711\n")
        lock.flush()
        (state / "server.note").write_text("4711\nstarting\n")
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert server_of(state) == Holder(4711, "starting")
        waiting = threading.Thread(target=ensure_running, args=(surroundings.socket,))
        waiting.start()
        Path(surroundings.socket).parent.mkdir(mode=0o700, exist_ok=True)
        command = [os.environ["PADDOCK_BIN"], "serve", "--socket", surroundings.socket]
        server = subprocess.Popen(command)
        waiting.join(30)
        assert not waiting.is_alive()
    # The one that the test started.
    assert len(surroundings.starts) == 1
    surroundings.stop()
    server.wait(30)
    assert server_of(state) is None


def test_a_server_that_listens_elsewhere_is_named(surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_starting, "ELSEWHERE_SECONDS", 0.05)
    state = surroundings.directory / "state"
    state.mkdir(mode=0o700)
    with open(state / "server.lock", "w") as lock:
        lock.write("4711\n")
        lock.flush()
        (state / "server.note").write_text("4711\nserving\nunix:/run/other.sock\n")
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(paddock.ServerNotStarted, match="process 4711") as caught:
            ensure_running(surroundings.socket)
    assert "PADDOCK_URL=unix:/run/other.sock" in str(caught.value.hint)
    assert surroundings.starts == []
