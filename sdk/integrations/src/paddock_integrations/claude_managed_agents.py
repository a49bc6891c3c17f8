"""Claude Managed Agents: `await PaddockWorker(client, environment_id=..., environment_key=...).run()`.

It claims sessions from the queue of a self-hosted environment and gives each a sandbox, in which Anthropic's own worker
runs the tools. The environment's key stays at the gate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from anthropic import AnthropicError, AsyncAnthropic
from anthropic.types.beta.environments import BetaSelfHostedWork
from paddock import AsyncSandbox, PaddockError

from ._shared import creation, make, run_to_end

FRAMEWORK = "claude-managed-agents"
KEY = "ANTHROPIC_ENVIRONMENT_KEY"
#: What runs inside: the worker of Anthropic's command. The SDK has one too, as the guide shows.
COMMAND = ("ant", "beta:worker", "run", "--workdir", "/workspace")

log = logging.getLogger(__name__)


class PaddockWorker:
    """One sandbox for each session; options of every sandbox are those of `Sandbox.create`."""

    def __init__(
        self,
        client: AsyncAnthropic,
        *,
        environment_id: str,
        environment_key: str,
        command: Sequence[str] = COMMAND,
        max_sessions: int = 8,
        **create: Any,
    ) -> None:
        self._client = client
        self._environment_id = environment_id
        self._environment_key = environment_key
        self._command = list(command)
        self._room = asyncio.Semaphore(max_sessions)
        self._create = creation(create, made_by=FRAMEWORK)

    async def run(self) -> None:
        """Until it is cancelled. Sessions that run then lose their sandboxes, and the queue hands them out again."""
        serving: set[asyncio.Task[None]] = set()
        try:
            await self._room.acquire()
            async for work in self._client.beta.environments.work.poller(
                environment_id=self._environment_id, environment_key=self._environment_key, auto_stop=False
            ):
                task = asyncio.create_task(self._serve(work))
                serving.add(task)
                task.add_done_callback(serving.discard)
                # No item is claimed before there is room for its sandbox.
                await self._room.acquire()
        finally:
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)

    async def _serve(self, work: BetaSelfHostedWork) -> None:
        try:
            await self.handle(work)
        except PaddockError as error:
            log.error("session %s has no sandbox: %s", work.data.id, error)
            await self._give_up(work)
        finally:
            self._room.release()

    async def handle(self, work: BetaSelfHostedWork) -> None:
        """Runs one claimed session to its end, in a sandbox that ends with it."""
        sandbox = await make(**self._options(work))
        try:
            result = await run_to_end(sandbox, self._command)
        finally:
            await asyncio.shield(_end(sandbox))
        # Now, so that the next worker of the item does not work beside this sandbox.
        if not result.ok:
            log.error("the worker of session %s: %s: %s", work.data.id, result.cause, result.stderr[-2000:])
            await self._give_up(work)

    def _options(self, work: BetaSelfHostedWork) -> dict[str, Any]:
        base = str(self._client.base_url).rstrip("/")
        session = {
            "ANTHROPIC_BASE_URL": base,
            **(self._create.get("env") or {}),
            "ANTHROPIC_ENVIRONMENT_ID": self._environment_id,
            "ANTHROPIC_SESSION_ID": work.data.id,
            "ANTHROPIC_WORK_ID": work.id,
        }
        host = urlsplit(session["ANTHROPIC_BASE_URL"]).netloc
        secrets = {**(self._create.get("secrets") or {}), KEY: {"value": self._environment_key, "hosts": [host]}}
        return {**self._create, "env": session, "secrets": secrets}

    async def _give_up(self, work: BetaSelfHostedWork) -> None:
        """So that the queue does not wait for the end of the lease. A worker that ended well did this itself."""
        scoped = self._client.with_options(auth_token=self._environment_key)
        try:
            await scoped.beta.environments.work.stop(work.id, environment_id=self._environment_id, force=True)
        except AnthropicError as error:
            log.error("work %s could not be stopped: %s", work.id, error)


async def _end(sandbox: AsyncSandbox) -> None:
    try:
        await sandbox.kill()
    except PaddockError:
        # It has gone, or its time to live ends it.
        return
