"""The bad inputs that every framework is tried with."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from paddock import Client, Sandbox

#: The page with an example for each framework.
GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "integrations.md"
#: Long enough to be renewed in time where the host is busy.
LEASE = 8
#: Nothing listens there.
LOST_SERVER = "http://127.0.0.1:9"
#: Disk of a sandbox that is full.
SMALL_DISK = {"disk": "48MiB"}
FILL = "head -c 100000000 /dev/zero > /workspace/fill"


@contextmanager
def full_disk() -> Iterator[Sandbox]:
    """A sandbox without room for more than a few blocks."""
    with Sandbox.create(ttl_seconds=300, limits=SMALL_DISK) as sandbox:
        assert sandbox.exec(FILL).exit_code != 0
        yield sandbox


def killed_maker_leaves_nothing(program: str) -> None:
    """Runs a program that makes a sandbox with this lease and prints its id, kills it, and waits for the end."""
    made, kill = maker(program)
    kill()
    ends(made)


def maker(program: str) -> tuple[str, Callable[[], None]]:
    """The sandbox that a program makes and prints the id of, and the end of that program by SIGKILL.

    The program knows `LEASE`.
    """
    text = f"LEASE = {LEASE}\n{program}\nimport time; time.sleep(600)"
    running = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    made = running.stdout.readline().strip()

    def kill() -> None:
        running.kill()
        running.wait()
        assert running.stdout is not None
        running.stdout.close()

    if not made.startswith("sb-"):
        kill()
        raise AssertionError(f"the program made no sandbox: {made}")
    return made, kill


def ends(sandbox_id: str, cause: str = "time_to_live") -> None:
    """Waits until the server has ended it."""
    sandbox = Sandbox.connect(sandbox_id)
    for _ in range(600):
        end = sandbox.info().end
        if end is not None:
            assert end.cause.kind == cause
            return
        time.sleep(0.1)
    raise AssertionError(f"{sandbox_id} still runs")


def living() -> list[str]:
    with Client() as client:
        return [sandbox.id for sandbox in Sandbox.list(client=client) if sandbox.state != "ended"]


def nothing_lives() -> None:
    """Waits until the last sandbox has ended."""
    for _ in range(200):
        if not living():
            return
        time.sleep(0.05)
    raise AssertionError(f"{living()} still run")
