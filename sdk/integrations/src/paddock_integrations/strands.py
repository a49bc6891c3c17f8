"""Strands Agents: `Agent(model, sandbox=PaddockSandbox())` gives its agent a shell and a file editor in a sandbox."""

from __future__ import annotations

import asyncio
import codecs
import posixpath
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any

from paddock import AsyncProcess, AsyncSandbox, Ended, Output, PaddockError, Result, SandboxEnded, SandboxNotFound
from paddock import Sandbox as PaddockSync
from strands.sandbox import ExecutionResult, FileInfo, Sandbox, StreamChunk
from strands.sandbox.errors import SandboxPathNotFoundError, SandboxTimeoutError
from strands.types.tools import AgentTool
from strands.vended_tools.file_editor import make_file_editor
from strands.vended_tools.shell import make_shell

from ._shared import Attached, builtin_file_errors, check_alive, creation, killed_on_error_now, make_now, write_through

#: Interpreters by the names that models use for them; any other name is looked up in the sandbox's PATH.
INTERPRETERS = {"python": "python3", "javascript": "node", "shell": "sh"}
#: These run in a context that takes their types out, since no interpreter does that everywhere.
TYPED = ("typescript", "ts")


class PaddockSandbox(Sandbox):
    """The sandbox is made at once. `aclose` (or `close`) kills it.

    Args:
        options: of `paddock.Sandbox.create`: `template`, `image`, `limits`, `network`, `ttl_seconds`, ...
    """

    def __init__(self, **options: Any) -> None:
        made = make_now(**creation(options, made_by="strands"))
        self.id = made.id
        self._attached = Attached(made.id)
        with killed_on_error_now(made):
            self.working_dir = made.filesystem.resolve(".").path

    async def __aenter__(self) -> PaddockSandbox:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        try:
            await (await self._attached.here()).kill()
        except (SandboxEnded, SandboxNotFound):
            return

    def close(self) -> None:
        try:
            PaddockSync.connect(self.id).kill()
        except (SandboxEnded, SandboxNotFound):
            return

    def get_tools(self) -> list[AgentTool]:
        where = f"They are in a Paddock sandbox. Working directory: {self.working_dir}."
        return [
            make_file_editor(sandbox=self, name="sandbox_file_editor", description=f"Edit files. {where}"),
            make_shell(sandbox=self, name="sandbox_shell", description=f"Run shell commands. {where}"),
        ]

    async def execute_streaming(
        self,
        command: str,
        *,
        timeout: float | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[StreamChunk | ExecutionResult, None]:
        async for chunk in self._stream(command, timeout, cwd, env):
            yield chunk

    async def execute_code_streaming(
        self,
        code: str,
        language: str,
        *,
        timeout: float | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[StreamChunk | ExecutionResult, None]:
        if language.lower() in TYPED:
            async for chunk in self._typed(code, timeout, cwd, env):
                yield chunk
            return
        program = INTERPRETERS.get(language.lower(), language)
        option = "-e" if program == "node" else "-c"
        async for chunk in self._stream([program, option, code], timeout, cwd, env):
            yield chunk

    async def read_file(self, path: str, **kwargs: Any) -> bytes:
        with builtin_file_errors(path):
            return await (await self._here()).filesystem.read_bytes(self._inside(path))

    async def write_file(self, path: str, content: bytes, **kwargs: Any) -> None:
        await write_through(await self._here(), self._inside(path), content)

    async def remove_file(self, path: str, **kwargs: Any) -> None:
        with builtin_file_errors(path):
            await (await self._here()).filesystem.remove(self._inside(path))

    async def list_files(self, path: str, **kwargs: Any) -> list[FileInfo]:
        try:
            with builtin_file_errors(path):
                found = await (await self._here()).filesystem.list(self._inside(path))
        except FileNotFoundError as error:
            raise SandboxPathNotFoundError(path) from error
        return [FileInfo(name=entry.name, is_dir=entry.is_directory, size=entry.size) for entry in found]

    async def _typed(
        self, code: str, timeout: float | None, cwd: str | None, env: dict[str, str] | None
    ) -> AsyncGenerator[StreamChunk | ExecutionResult, None]:
        sandbox = await self._here()
        context = await sandbox.contexts.create("typescript", cwd=None if cwd is None else self._inside(cwd), env=env)
        chunks: asyncio.Queue[StreamChunk | None] = asyncio.Queue()
        running = asyncio.create_task(
            sandbox.run_code(
                code,
                context=context,
                timeout_seconds=timeout,
                on_stdout=lambda text: chunks.put_nowait(StreamChunk(data=text, stream_type="stdout")),
                on_stderr=lambda text: chunks.put_nowait(StreamChunk(data=text, stream_type="stderr")),
            )
        )
        running.add_done_callback(lambda _: chunks.put_nowait(None))
        try:
            while (chunk := await chunks.get()) is not None:
                yield chunk
            ended = check_alive(await running, self.id)
        finally:
            running.cancel()
            await asyncio.shield(_forget(sandbox, context.id))
        if ended.timed_out:
            raise SandboxTimeoutError(timeout, ended.stdout, ended.stderr)
        stderr = ended.stderr + (f"{ended.error.traceback}\n" if ended.error else "")
        yield ExecutionResult(exit_code=ended.exit_code, stdout=ended.stdout, stderr=stderr)

    async def _here(self) -> AsyncSandbox:
        return await self._attached.here()

    def _inside(self, path: str) -> str:
        return posixpath.join(self.working_dir, path)

    async def _stream(
        self, command: str | Sequence[str], timeout: float | None, cwd: str | None, env: dict[str, str] | None
    ) -> AsyncGenerator[StreamChunk | ExecutionResult, None]:
        where = None if cwd is None else self._inside(cwd)
        sandbox = await self._here()
        process = await sandbox.exec(
            command, background=True, open_stdin=False, timeout_seconds=timeout, cwd=where, env=env
        )
        ended: Result | None = None
        said = {"stdout": "", "stderr": ""}
        # A letter of several bytes may come in two pieces.
        decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in said}
        try:
            async for event in process.stream():
                if isinstance(event, Output):
                    text = decoders[event.stream].decode(event.data)
                    said[event.stream] += text
                    yield StreamChunk(data=text, stream_type="stderr" if event.stream == "stderr" else "stdout")
                elif isinstance(event, Ended):
                    ended = event.result
        except (asyncio.CancelledError, GeneratorExit):
            await asyncio.shield(_end(process))
            raise
        assert ended is not None
        if ended.timed_out:
            raise SandboxTimeoutError(timeout, said["stdout"], said["stderr"])
        check_alive(replace(ended, **said), self.id)
        note = "" if ended.cause.kind in ("exited", "signaled") else f"[{ended.cause}]\n"
        yield ExecutionResult(exit_code=ended.exit_code, stdout=said["stdout"], stderr=said["stderr"] + note)


async def _forget(sandbox: AsyncSandbox, context: str) -> None:
    """Ends a context with what runs in it."""
    try:
        await sandbox.contexts.delete(context)
    except PaddockError:
        # The sandbox has gone, or the server.
        return


async def _end(process: AsyncProcess) -> None:
    try:
        await process.kill()
    except (SandboxEnded, SandboxNotFound):
        return
