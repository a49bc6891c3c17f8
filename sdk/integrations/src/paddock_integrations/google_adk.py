"""Google ADK: `EnvironmentToolset(environment=PaddockEnvironment())` gives an agent a sandbox."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import Any

from google.adk.environment import BaseEnvironment, ExecutionResult
from paddock import SandboxEnded, SandboxNotFound

from ._shared import (
    Attached,
    builtin_file_errors,
    check_alive,
    creation,
    make_placed,
    run_to_end,
    timeout_note,
    with_note,
    write_through,
)


class PaddockEnvironment(BaseEnvironment):
    """`initialize` makes the sandbox and `close` kills it, as the toolset calls them.

    Args:
        options: of `Sandbox.create`: `template`, `image`, `limits`, `network`, `ttl_seconds`, ...
    """

    def __init__(self, **options: Any) -> None:
        self._options = creation(options, made_by="google-adk")
        self._attached: Attached | None = None
        self._working_dir = ""

    @property
    def id(self) -> str:
        """Of the sandbox."""
        return self._there().id

    @property
    def working_dir(self) -> Path:
        self._there()
        return Path(self._working_dir)

    async def initialize(self) -> None:
        if self._attached is not None:
            return
        sandbox, self._working_dir = await make_placed(**self._options)
        self._attached = Attached(sandbox.id)
        self._attached.know(sandbox)
        self.is_initialized = True

    async def close(self) -> None:
        attached, self._attached = self._attached, None
        self.is_initialized = False
        if attached is None:
            return
        try:
            await (await attached.here()).kill()
        except (SandboxEnded, SandboxNotFound):
            return

    async def execute(self, command: str, *, timeout: float | None = None) -> ExecutionResult:
        attached = self._there()
        result = check_alive(await run_to_end(await attached.here(), command, timeout_seconds=timeout), attached.id)
        stderr = result.stderr
        if result.timed_out:
            stderr = with_note(stderr, timeout_note(timeout or 0))
        elif result.cause.kind not in ("exited", "signaled"):
            stderr = with_note(stderr, f"[{result.cause}]")
        return ExecutionResult(
            exit_code=result.exit_code, stdout=result.stdout, stderr=stderr, timed_out=result.timed_out
        )

    async def read_file(self, path: Path) -> bytes:
        with builtin_file_errors(str(path)):
            return await (await self._there().here()).filesystem.read_bytes(self._inside(path))

    async def write_file(self, path: Path, content: str | bytes) -> None:
        data = content.encode() if isinstance(content, str) else content
        await write_through(await self._there().here(), self._inside(path), data)

    def _inside(self, path: Path) -> str:
        return posixpath.join(self._working_dir, str(path))

    def _there(self) -> Attached:
        if self._attached is None:
            raise RuntimeError("the environment has no sandbox: call initialize() first")
        return self._attached
