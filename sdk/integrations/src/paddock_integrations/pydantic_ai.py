"""Pydantic AI: a sandbox as the workspace of a run.

from pydantic_ai import Agent
from paddock_integrations.pydantic_ai import PaddockWorkspace

result = await agent.run("...", workspace=PaddockWorkspace(template="code-interpreter"))
"""

from __future__ import annotations

import asyncio
import errno
import posixpath
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import paddock
from paddock import (
    AsyncSandbox,
    FilesystemError,
    GuestLost,
    InvalidPath,
    Result,
    SandboxEnded,
    SandboxNotFound,
    TemplateNotFound,
)
from pydantic_ai.workspaces import (
    CommandResult,
    FileEntry,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

from ._shared import Attached, builtin_file_errors, creation, make, run_to_end, working_directory, write_through

PROVIDER = "paddock"
GONE = (SandboxEnded, SandboxNotFound, GuestLost)


class PaddockWorkspace:
    """A `WorkspaceBackend` with commands, files and `realpath`.

    The first operation makes the sandbox, or attaches to the one of `ref`. As Pydantic AI wants it, the end of a run
    leaves it alone: `delete` ends it, or the end of this process, and else its time to live. One that another process
    is to find by its `ref` wants `lease_seconds=None`.

    Args:
        ref: of a workspace that exists.
        options: of `Sandbox.create` for a new one: `template`, `image`, `limits`, `network`, `ttl_seconds`, ...
    """

    def __init__(self, ref: WorkspaceRef | None = None, **options: Any) -> None:
        if ref is not None and ref.provider != PROVIDER:
            raise ValueError(f"the workspace is one of {ref.provider!r}, not of {PROVIDER!r}")
        if ref is not None and options:
            raise ValueError(f"the workspace exists, so that {', '.join(options)} cannot be chosen any more")
        self._ref = ref
        self._options = creation(options, made_by="pydantic-ai")
        self._attached: Attached | None = None
        self._working_dir: str | None = None
        self._making: asyncio.Task[AsyncSandbox] | None = None

    @property
    def ref(self) -> WorkspaceRef | None:
        return self._ref

    async def delete(self) -> None:
        """Ends the sandbox, if there is one."""
        if self._ref is None:
            return
        try:
            await (await AsyncSandbox.connect(self._ref.id)).kill()
        except GONE:
            return

    async def working_dir(self) -> str:
        async with self._sandbox() as sandbox:
            if self._working_dir is None:
                self._working_dir = await working_directory(sandbox)
            else:
                await _alive(sandbox)
            return self._working_dir

    async def run(
        self,
        command: str | Sequence[str],
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        _check_command(command, shell, timeout)
        async with self._sandbox() as sandbox:
            given = command if isinstance(command, str) else list(command)
            result = _checked(await run_to_end(sandbox, given, env=env, timeout_seconds=timeout))
        if result.timed_out:
            raise WorkspaceTimeoutError(
                f"the command was killed after its time limit of {timeout:g} s",
                stdout=result.stdout,
                stderr=result.stderr,
            )
        if result.stdout_missing_bytes or result.stderr_missing_bytes:
            raise WorkspaceOutputLimitError(
                "the command printed more than is kept",
                limit=len(result.stdout.encode()) + len(result.stderr.encode()),
                stdout=result.stdout,
                stderr=result.stderr,
            )
        note = str(result.cause) if result.cause.kind == "not_started" else ""
        return CommandResult(exit_code=result.exit_code, stdout=result.stdout, stderr=result.stderr + note)

    async def read_bytes(self, path: str) -> bytes:
        async with self._sandbox() as sandbox:
            with builtin_file_errors(path):
                return await sandbox.filesystem.read_bytes(_absolute(path))

    async def write_bytes(self, path: str, data: bytes) -> None:
        async with self._sandbox() as sandbox:
            await write_through(sandbox, _absolute(path), data)

    async def stat(self, path: str) -> FileEntry:
        async with self._sandbox() as sandbox:
            return await _entry(sandbox, _absolute(path))

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        async with self._sandbox() as sandbox:
            with builtin_file_errors(path):
                found = await sandbox.filesystem.list(_absolute(path))
            entries = [await _listed(sandbox, path, entry) for entry in found]
            return sorted(entries, key=lambda entry: entry.path)

    async def make_dir(self, path: str) -> None:
        async with self._sandbox() as sandbox:
            with builtin_file_errors(path):
                await sandbox.filesystem.make_directory(_absolute(path))

    async def remove(self, path: str) -> None:
        kept = await self.working_dir()
        where = posixpath.normpath(_absolute(path))
        # The parent is resolved and the name is not: a link is removed itself.
        real = posixpath.join(await self.realpath(posixpath.dirname(where)), posixpath.basename(where))
        if real == "/" or kept == real or kept.startswith(f"{real}/"):
            raise ValueError(f"{path} is the working directory, or above it")
        async with self._sandbox() as sandbox:
            with builtin_file_errors(path):
                await sandbox.filesystem.remove(where, recursive=True)

    async def exists(self, path: str) -> bool:
        async with self._sandbox() as sandbox:
            try:
                return (await sandbox.filesystem.resolve(_absolute(path))).exists
            except (FilesystemError, InvalidPath):
                # Links that go round in a circle, and directories that the user may not search.
                return False

    async def realpath(self, path: str) -> str:
        async with self._sandbox() as sandbox:
            with builtin_file_errors(path):
                return (await sandbox.filesystem.resolve(_absolute(path))).path

    @asynccontextmanager
    async def _sandbox(self) -> AsyncIterator[AsyncSandbox]:
        try:
            if self._ref is None:
                await self._make()
            if self._attached is None:
                assert self._ref is not None
                self._attached = Attached(self._ref.id)
            yield await self._attached.here()
        except (*GONE, TemplateNotFound) as error:
            raise WorkspaceUnavailableError(str(error)) from error

    async def _make(self) -> None:
        """First operations at the same time share one sandbox, and a cancelled one leaves it to the others."""
        if self._making is None or (self._making.done() and self._ref is None):
            self._making = asyncio.create_task(self._made())
        await asyncio.shield(self._making)

    async def _made(self) -> AsyncSandbox:
        sandbox = await make(**self._options)
        self._ref = WorkspaceRef(provider=PROVIDER, id=sandbox.id)
        self._attached = Attached(sandbox.id)
        self._attached.know(sandbox)
        return sandbox


def _check_command(command: str | Sequence[str], shell: bool, timeout: float | None) -> None:
    if isinstance(command, str) and not shell:
        raise TypeError("a command that is text needs shell=True; pass a list of arguments otherwise")
    if not isinstance(command, str) and shell:
        raise TypeError("a list of arguments does not go with shell=True")
    # NaN compares as false, too.
    if timeout is not None and not 0 < timeout < float("inf"):
        raise ValueError(f"timeout is {timeout}, and has to be a positive number of seconds or None")


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError(f"path {path!r} is not absolute")
    return path


def _checked(result: Result) -> Result:
    if result.cause.kind in ("sandbox_ended", "guest_lost"):
        raise WorkspaceUnavailableError(f"the sandbox ended while the command ran: {result.cause}")
    return result


async def _alive(sandbox: AsyncSandbox) -> None:
    if (await sandbox.info()).state == "ended":
        raise WorkspaceUnavailableError(f"sandbox {sandbox.id} has ended")


async def _entry(sandbox: AsyncSandbox, path: str) -> FileEntry:
    """Of the file that a link leads to."""
    with builtin_file_errors(path):
        found = (await sandbox.filesystem.resolve(path)).entry
    if found is None:
        raise FileNotFoundError(errno.ENOENT, "no such file or directory", path)
    return _described(path, found)


async def _listed(sandbox: AsyncSandbox, above: str, entry: paddock.FileEntry) -> FileEntry:
    path = posixpath.join(above, posixpath.basename(entry.path))
    if entry.kind != "link":
        return _described(path, entry)
    try:
        return await _entry(sandbox, path)
    except OSError:
        # A link that leads nowhere is listed as it is.
        return FileEntry(name=posixpath.basename(path), path=path, is_dir=False, size=None)


def _described(path: str, found: paddock.FileEntry) -> FileEntry:
    size = None if found.is_directory else found.size
    return FileEntry(name=posixpath.basename(path), path=path, is_dir=found.is_directory, size=size)
