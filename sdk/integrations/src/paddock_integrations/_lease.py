"""Sandboxes that live as long as the process that made them: a short time to live, which a thread renews.

A process that is killed by SIGKILL cleans nothing up. Its thread is gone with it, so that each of its sandboxes ends
within the lease. A sandbox that another process is to find again has no lease, but its whole time to live.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import math
import os
import threading
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from paddock import AsyncSandbox, Client, ConnectionFailed, PaddockError, RetryPolicy, Sandbox
from paddock import SandboxEnded as Ended
from paddock import SandboxNotFound as NotFound

#: A sandbox ends so long after the process that made it, at the latest.
LEASE_SECONDS = 120.0
#: A create may pull an image for so long. A process that is killed meanwhile leaves the sandbox for that time.
CREATION_SECONDS = 1200.0
#: A lease is renewed when this part of it has gone by, and tried again after the other part where that failed.
RENEWED_AFTER, TRIED_AGAIN_AFTER = 1 / 3, 1 / 12
#: The server tells its times in milliseconds, and an answer takes a moment.
SLACK_SECONDS = 5.0

log = logging.getLogger("paddock_integrations")


def checked(lease: float | None, options: Mapping[str, Any]) -> float | None:
    """The lease of a sandbox with these options, None for none."""
    if lease is None or options.get("ttl_action") not in (None, "kill"):
        # A sandbox that sleeps at the end of its time is to be found again.
        return None
    if not (lease > 0 and math.isfinite(lease)):
        raise ValueError(f"lease_seconds is {lease}, and has to be None (no lease) or a positive number of seconds")
    return lease


def first_life(life: float, lease: float | None) -> float:
    """The time to live with which a sandbox is created. Its lease begins when it is there."""
    return life if lease is None else min(life, max(lease, CREATION_SECONDS))


async def hold(sandbox: AsyncSandbox, life: float, lease: float | None) -> None:
    """Lets it live for `life` seconds, and no longer than a lease without this process."""
    if lease is not None and life > lease:
        KEEPER.keep(Held(sandbox, life, lease, (await sandbox.extend(lease)).expires_at))


def hold_now(sandbox: Sandbox, life: float, lease: float | None) -> None:
    """As `hold`, of a sandbox without an event loop."""
    if lease is not None and life > lease:
        KEEPER.keep(Held(sandbox, life, lease, sandbox.extend(lease).expires_at))


async def outlive(sandbox: AsyncSandbox) -> None:
    """It is to be found again: it gets all that is left of its life, and needs this process no more."""
    held = await asyncio.to_thread(KEEPER.let_go, sandbox.id)
    if held is not None:
        await sandbox.extend(held.left())


async def prolong(sandbox: AsyncSandbox, life: float) -> None:
    """So many seconds from now, with a lease or without one."""
    if not KEEPER.prolong(sandbox.id, life):
        await sandbox.extend(life)


class Held:
    """One sandbox, and the moments that count for its lease."""

    def __init__(self, sandbox: Sandbox | AsyncSandbox, life: float, lease: float, expires: datetime | None) -> None:
        self.id, self.lease = sandbox.id, lease
        client = sandbox._client
        #: Of the same server, by the same token; a thread has connections of its own.
        self.server = (client.location.shown, client._token)
        self.until = time.monotonic() + life
        self.renewed(expires)
        #: Held while a request about it is under way.
        self.guard = threading.Lock()
        self.is_over = False

    def left(self) -> float:
        return max(self.until - time.monotonic(), 1.0)

    def renewed(self, expires: datetime | None) -> None:
        """`expires`: the end of the new lease by the clock of the server."""
        self.told, self.told_at = expires, time.monotonic()
        self.due = self.told_at + self.lease * RENEWED_AFTER

    def failed(self) -> None:
        self.due = time.monotonic() + self.lease * TRIED_AGAIN_AFTER

    def given(self, expires: datetime | None) -> float:
        """Seconds that it has left where the server says this. The clocks of the two need not agree."""
        if expires is None or self.told is None:
            return 0.0
        return (expires - self.told).total_seconds() + self.lease - (time.monotonic() - self.told_at)


class Keeper:
    """Renews all leases of this process, in one thread that runs while there are any."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: dict[str, Held] = {}
        #: The next one first. Those that are held no more, or were put off, are found out when their turn comes.
        self._order: list[tuple[float, int, Held]] = []
        self._number = itertools.count()
        self._running = False
        self._clients: dict[tuple[str, str | None], Client] = {}

    def keep(self, held: Held) -> None:
        with self._changed:
            self._held[held.id] = held
            heapq.heappush(self._order, (held.due, next(self._number), held))
            self._changed.notify()
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="paddock-leases", daemon=True).start()

    def keeps(self, sandbox_id: str) -> bool:
        with self._changed:
            return sandbox_id in self._held

    def let_go(self, sandbox_id: str) -> Held | None:
        """None where it has no lease. Afterwards no request of this thread about it is under way."""
        with self._changed:
            held = self._held.pop(sandbox_id, None)
        if held is not None:
            with held.guard:
                held.is_over = True
        return held

    def prolong(self, sandbox_id: str, life: float) -> bool:
        with self._changed:
            held = self._held.get(sandbox_id)
            if held is not None:
                held.until = time.monotonic() + life
            return held is not None

    def _run(self) -> None:
        while True:
            with self._changed:
                first = self._first()
                if first is None:
                    self._running = False
                    self._close()
                    return
                if (wait := first.due - time.monotonic()) > 0:
                    self._changed.wait(wait)
                    continue
            self._look_after(first)

    def _first(self) -> Held | None:
        while self._order:
            due, _, held = self._order[0]
            if self._held.get(held.id) is not held:
                heapq.heappop(self._order)
            elif held.due > due:
                heapq.heapreplace(self._order, (held.due, next(self._number), held))
            else:
                return held
        return None

    def _look_after(self, held: Held) -> None:
        try:
            with held.guard:
                keeps_on = not held.is_over and self._renew(held)
        except ConnectionFailed:
            # The others of that server would wait for it as long.
            with self._changed:
                now = time.monotonic()
                for other in self._held.values():
                    if other.server == held.server and other.due <= now:
                        other.failed()
            keeps_on = True
        except Exception as error:
            log.warning("the lease of sandbox %s was not renewed: %s", held.id, error)
            held.failed()
            keeps_on = True
        if not keeps_on or held.until <= time.monotonic():
            with self._changed:
                if self._held.get(held.id) is held:
                    del self._held[held.id]

    def _renew(self, held: Held) -> bool:
        """False where it needs no lease any more."""
        left = held.until - time.monotonic()
        if left <= 0:
            return False
        try:
            sandbox = Sandbox.connect(held.id, client=self._client(held))
            if sandbox.state == "ended":
                return False
            if (given := held.given(sandbox._info.expires_at)) > held.lease + SLACK_SECONDS:
                # Somebody gave it more time by `extend`, and it keeps that. A clock of the server that was set looks
                # the same: hence the call, without which the sandbox would end.
                sandbox.extend(given)
                return False
            held.renewed(sandbox.extend(min(held.lease, left)).expires_at)
        except (Ended, NotFound):
            return False
        return True

    def _client(self, held: Held) -> Client:
        if held.server not in self._clients:
            url, token = held.server
            self._clients[held.server] = Client(url, token, start=False, retry=RetryPolicy(retries=1))
        return self._clients[held.server]

    def _close(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            try:
                client.close()
            except (OSError, PaddockError):
                # Its server has gone.
                continue


KEEPER = Keeper()


def _after_fork() -> None:
    # The sandboxes stay those of the parent, whose thread the child does not have.
    KEEPER.__init__()  # type: ignore[misc]


os.register_at_fork(after_in_child=_after_fork)
