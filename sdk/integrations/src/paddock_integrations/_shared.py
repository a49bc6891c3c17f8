"""The parts that several providers need: options of a new sandbox, commands, files with Python's own errors."""

from __future__ import annotations

import asyncio
import errno
import weakref
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from paddock import (
    AsyncProcess,
    AsyncSandbox,
    DiskFull,
    FileExists,
    FileNotFound,
    FilesystemError,
    InvalidPath,
    NotADirectory,
    NotAFile,
    NotEmpty,
    PaddockError,
    PermissionDenied,
    Result,
    Sandbox,
    SandboxEnded,
)

from ._lease import LEASE_SECONDS, checked, first_life, hold, hold_now

#: Every sandbox ends by itself, also while the program that made it runs on.
DEFAULT_TTL_SECONDS = 3600.0


def creation(options: Mapping[str, Any], *, made_by: str) -> dict[str, Any]:
    """Arguments of `make`: those of the caller, with a time to live, a lease and the framework's name as metadata."""
    made = dict(options)
    if made.get("persistent"):
        raise ValueError(
            "persistent=True would leave the sandbox behind when this program is killed; "
            "make it with paddock.Sandbox.create and hand it over instead"
        )
    if made.get("ttl_seconds") is None:
        made["ttl_seconds"] = DEFAULT_TTL_SECONDS
    made["lease_seconds"] = checked(made.get("lease_seconds", LEASE_SECONDS), made)
    made["metadata"] = {"framework": made_by, **(made.get("metadata") or {})}
    return made


def one_stream(command: str) -> list[str]:
    """A shell command whose stderr goes where its stdout goes, so that both come in the order of printing."""
    return ["/bin/sh", "-c", 'exec /bin/sh -c "$1" 2>&1', "sh", command]


def timeout_note(seconds: float) -> str:
    return f"[the command was killed after its time limit of {seconds:g} s]"


def with_note(output: str, note: str) -> str:
    """Output, and a last line about it."""
    return f"{output}{'' if not output or output.endswith(chr(10)) else chr(10)}{note}"


class Attached:
    """One sandbox for any number of event loops: connections belong to the loop that made them."""

    def __init__(self, sandbox_id: str) -> None:
        self.id = sandbox_id
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncSandbox] = weakref.WeakKeyDictionary()

    async def here(self) -> AsyncSandbox:
        """The sandbox as the running loop reaches it."""
        loop = asyncio.get_running_loop()
        sandbox = self._loops.get(loop)
        if sandbox is None:
            sandbox = self._loops[loop] = await AsyncSandbox.connect(self.id)
        return sandbox

    def know(self, sandbox: AsyncSandbox) -> None:
        """The running loop made it, and need not look for it."""
        self._loops[asyncio.get_running_loop()] = sandbox


def check_alive(result: Result, sandbox_id: str) -> Result:
    """The result of a command, unless its sandbox ended while it ran: that is no answer of the command."""
    if result.cause.kind == "sandbox_ended":
        said = result.stdout + result.stderr
        note = f"; until then it printed: {said}" if said else ""
        raise SandboxEnded(
            f"sandbox {sandbox_id} ended while the command ran{note}",
            details={"stdout": result.stdout, "stderr": result.stderr},
        )
    return result


async def make(*, lease_seconds: float | None = None, **options: Any) -> AsyncSandbox:
    """A new sandbox, which is killed if the caller is cancelled before it has it.

    Args:
        lease_seconds: it ends so long after this process at the latest; None: with its time to live.
    """
    making = asyncio.create_task(_made(lease_seconds, options))
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        await asyncio.shield(_discarded(making))
        raise


async def _made(lease: float | None, options: dict[str, Any]) -> AsyncSandbox:
    life = options.get("ttl_seconds")
    if lease is None or life is None:
        return await AsyncSandbox.create(**options)
    sandbox = await AsyncSandbox.create(**{**options, "ttl_seconds": first_life(life, lease)})
    async with killed_on_error(sandbox):
        await hold(sandbox, life, lease)
    return sandbox


def make_now(*, lease_seconds: float | None = None, **options: Any) -> Sandbox:
    """As `make`, without an event loop."""
    life = options.get("ttl_seconds")
    if lease_seconds is None or life is None:
        return Sandbox.create(**options)
    sandbox = Sandbox.create(**{**options, "ttl_seconds": first_life(life, lease_seconds)})
    with killed_on_error_now(sandbox):
        hold_now(sandbox, life, lease_seconds)
    return sandbox


@asynccontextmanager
async def killed_on_error(sandbox: AsyncSandbox) -> AsyncIterator[None]:
    """A new sandbox that its maker cannot hand over is killed, instead of living until its time is over."""
    try:
        yield
    except BaseException:
        await asyncio.shield(_ended(sandbox))
        raise


@contextmanager
def killed_on_error_now(sandbox: Sandbox) -> Iterator[None]:
    """As `killed_on_error`, without an event loop."""
    try:
        yield
    except BaseException:
        # It has gone already, or its server has.
        with suppress(PaddockError):
            sandbox.kill()
        raise


async def _ended(sandbox: AsyncSandbox) -> None:
    with suppress(PaddockError):
        await sandbox.kill()


async def make_placed(**options: Any) -> tuple[AsyncSandbox, str]:
    """A new sandbox and its working directory."""
    sandbox = await make(**options)
    async with killed_on_error(sandbox):
        return sandbox, await working_directory(sandbox)


async def working_directory(sandbox: AsyncSandbox) -> str:
    return (await sandbox.filesystem.resolve(".")).path


async def make_within(seconds: float | None, late: set[asyncio.Task[AsyncSandbox]], **options: Any) -> AsyncSandbox:
    """A new sandbox that is ready within this time, or a TimeoutError.

    Args:
        late: gets a create that took longer, until its sandbox has come and been killed.
    """
    making = asyncio.create_task(make(**options))
    try:
        done, _ = await asyncio.wait([making], timeout=seconds)
    except asyncio.CancelledError:
        making.cancel()
        raise
    if done:
        return making.result()
    making.cancel()
    late.add(making)
    making.add_done_callback(late.discard)
    raise TimeoutError(f"the sandbox was not ready within {seconds:g} s")


async def _discarded(making: asyncio.Task[AsyncSandbox]) -> None:
    try:
        await (await making).kill()
    except PaddockError:
        # It was not made, or it has gone already.
        return


async def run_to_end(
    sandbox: AsyncSandbox, command: str | Sequence[str], *, stdin: str | bytes | None = None, **options: Any
) -> Result:
    """A command that is killed when the caller is cancelled. `stdin` is all of its input."""
    starting = asyncio.create_task(sandbox.exec(command, background=True, open_stdin=stdin is not None, **options))
    try:
        process = await asyncio.shield(starting)
        if stdin is not None:
            await _feed(process, stdin)
        return await process.wait()
    except asyncio.CancelledError:
        await asyncio.shield(_killed(starting))
        raise


async def _feed(process: AsyncProcess, stdin: str | bytes) -> None:
    try:
        await process.write_stdin(stdin)
        await process.close_stdin()
    except PaddockError:
        # A command need not read its input to the end.
        if await process.poll() is None:
            await _killed(process)
            raise


async def _killed(process: AsyncProcess | asyncio.Task[AsyncProcess]) -> None:
    try:
        if isinstance(process, asyncio.Task):
            process = await process
        await process.kill()
    except PaddockError:
        # It did not start, or the sandbox has gone, and the command with it.
        return


async def write_through(sandbox: AsyncSandbox, path: str, data: bytes, user: str | None = None) -> None:
    """Writes a file as an editor does: through links, and not where the user may not write."""
    with builtin_file_errors(path):
        await sandbox.filesystem.write(path, data, user=user, follow_links=True)


@contextmanager
def builtin_file_errors(path: str) -> Iterator[None]:
    """Paddock's errors of files as Python's own."""
    try:
        yield
    except (FilesystemError, InvalidPath) as error:
        raise builtin_file_error(error, path) from error


def builtin_file_error(error: FilesystemError | InvalidPath, path: str) -> OSError:
    if isinstance(error, InvalidPath):
        return OSError(errno.ELOOP if "symbolic link" in error.message.lower() else errno.EINVAL, error.message, path)
    numbers = [
        (FileNotFound, errno.ENOENT),
        (PermissionDenied, errno.EACCES),
        (FileExists, errno.EEXIST),
        (NotADirectory, errno.ENOTDIR),
        (NotEmpty, errno.ENOTEMPTY),
        (DiskFull, errno.ENOSPC),
        (NotAFile, errno.EISDIR if "Is a directory" in error.message else errno.EINVAL),
    ]
    number = next((number for kind, number in numbers if isinstance(error, kind)), errno.EIO)
    # OSError chooses its subclass by the number.
    return OSError(number, error.message, path)
