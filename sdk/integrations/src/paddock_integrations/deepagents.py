"""LangChain deepagents: a sandbox as the backend of an agent.

    from deepagents import create_deep_agent
    from paddock_integrations.deepagents import PaddockSandbox

    with PaddockSandbox(template="code-interpreter") as backend:
        agent = create_deep_agent(model, backend=backend)

Deep Agents Code finds `paddock` among its sandbox providers by an entry point (`deepagents_code.py` beside this file).
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from deepagents.backends.protocol import (
    FILE_NOT_FOUND,
    INVALID_PATH,
    IS_DIRECTORY,
    PERMISSION_DENIED,
    ExecuteResponse,
    FileDownloadResponse,
    FileUploadResponse,
)
from deepagents.backends.sandbox import BaseSandbox
from paddock import (
    FileNotFound,
    FilesystemError,
    InvalidPath,
    NotADirectory,
    NotAFile,
    PermissionDenied,
    Result,
    Sandbox,
    SandboxEnded,
    SandboxNotFound,
)

from ._shared import (
    Attached,
    check_alive,
    creation,
    killed_on_error_now,
    make_now,
    one_stream,
    run_to_end,
    timeout_note,
    with_note,
)

#: Seconds that a command may take where the agent names no time.
DEFAULT_TIMEOUT_SECONDS = 30 * 60
#: Directories below `/`, where the sandbox's user cannot make any, that deepagents keeps its own files in.
MAKE_ARTIFACTS = "mkdir -p -m 1777 /large_tool_results /conversation_history /blobs"


class PaddockSandbox(BaseSandbox):
    """A backend of deepagents. `close`, or the end of a `with` block, kills a sandbox that it made itself.

    Args:
        sandbox: one that exists, and that is left alone at the end; without it a new one is made.
        default_timeout: seconds for a command without a timeout of its own.
        options: of `Sandbox.create` for a new one: `template`, `image`, `limits`, `network`, `ttl_seconds`, ...
    """

    def __init__(
        self, sandbox: Sandbox | None = None, *, default_timeout: int = DEFAULT_TIMEOUT_SECONDS, **options: Any
    ) -> None:
        if sandbox is not None and options:
            raise ValueError(f"the sandbox exists, so that {', '.join(options)} cannot be chosen any more")
        self._own = sandbox is None
        self._sandbox = sandbox or make_now(**creation(options, made_by="deepagents"))
        self._attached = Attached(self._sandbox.id)
        self._default_timeout = default_timeout
        with killed_on_error_now(self._sandbox) if self._own else nullcontext():
            # deepagents captures large outputs in the sandbox where it has a shell, coreutils and a place for them.
            self.enable_capture_offload = self._sandbox.exec(MAKE_ARTIFACTS, user="root").ok

    def __enter__(self) -> PaddockSandbox:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    @property
    def id(self) -> str:
        return self._sandbox.id

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox itself, for everything that deepagents has no word for."""
        return self._sandbox

    def close(self) -> None:
        """Kills the sandbox if this backend made it."""
        if self._own:
            try:
                self._sandbox.kill()
            except (SandboxEnded, SandboxNotFound):
                pass

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        seconds = self._seconds(timeout)
        result = self._sandbox.exec(one_stream(command), timeout_seconds=seconds)
        return _response(check_alive(result, self.id), seconds)

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        seconds = self._seconds(timeout)
        result = await run_to_end(await self._attached.here(), one_stream(command), timeout_seconds=seconds)
        return _response(check_alive(result, self.id), seconds)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path=path, error=self._write(path, content)) for path, content in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [self._read(path) for path in paths]

    def _seconds(self, timeout: int | None) -> int | None:
        """Zero means without a limit, as other backends of deepagents have it."""
        if timeout is not None and timeout < 0:
            raise ValueError(f"timeout is {timeout}, and has to be 0 (none) or a number of seconds")
        return (self._default_timeout if timeout is None else timeout) or None

    def _write(self, path: str, content: bytes) -> str | None:
        if not path.startswith("/"):
            return INVALID_PATH
        try:
            self._sandbox.filesystem.write(path, content)
        except (FilesystemError, InvalidPath) as error:
            return _file_error(error)
        return None

    def _read(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path=path, error=INVALID_PATH)
        try:
            return FileDownloadResponse(path=path, content=self._sandbox.filesystem.read_bytes(path))
        except (FilesystemError, InvalidPath) as error:
            return FileDownloadResponse(path=path, error=_file_error(error))


def _response(result: Result, seconds: int | None) -> ExecuteResponse:
    output = result.stdout + result.stderr
    if result.timed_out and seconds is not None:
        output = with_note(output, timeout_note(seconds))
    elif result.cause.kind not in ("exited", "signaled"):
        output = with_note(output, f"[{result.cause}]")
    return ExecuteResponse(output=output, exit_code=result.exit_code, truncated=result.stdout_missing_bytes > 0)


def _file_error(error: FilesystemError | InvalidPath) -> str:
    """The word of deepagents where it has one. A full disk has none, and is told as it is."""
    words = [
        (FileNotFound, FILE_NOT_FOUND),
        (PermissionDenied, PERMISSION_DENIED),
        (NotAFile, IS_DIRECTORY),
        ((InvalidPath, NotADirectory), INVALID_PATH),
    ]
    return next((word for kind, word in words if isinstance(error, kind)), str(error))
