"""Claude Agent SDK: `query(prompt=..., options=options, transport=PaddockTransport(options, template="claude"))`.

Claude Code runs in a sandbox, and the SDK with its hooks, permissions and tools on the host. The key stays at the gate:
inside there is a placeholder, which is put into requests to Anthropic's host alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import anyio
from claude_agent_sdk import (
    ClaudeAgentOptions,
    CLIConnectionError,
    CLIJSONDecodeError,
    CLINotFoundError,
    ProcessError,
    Transport,
    __version__,
)

# The SDK has no public way from options to the words of the command.
from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport
from paddock import AsyncProcess, AsyncSandbox, Ended, Gap, Output, PaddockError, Result, Sandbox

from ._shared import Attached, creation, make, timeout_note

#: Variables that hold a key: they are bound to the host of the model, and never handed in as they are.
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
MODEL_URL = "https://api.anthropic.com"
#: Claude Code writes its session down when its input ends.
GRACE_SECONDS = 5
#: One message, as the SDK's own transport bounds it.
MESSAGE_BYTES = 1 << 20
STDERR_BYTES = 4096


class PaddockTransport(Transport):
    """Claude Code in a sandbox of the caller's, or in a new one of these options, which ends with the conversation."""

    def __init__(
        self,
        options: ClaudeAgentOptions | None = None,
        *,
        sandbox: Sandbox | AsyncSandbox | None = None,
        cli_path: str = "claude",
        timeout_seconds: float | None = None,
        **create: Any,
    ) -> None:
        if sandbox is not None and create:
            raise ValueError(f"the sandbox exists, so that it cannot be made with {', '.join(sorted(create))}")
        self._options = options or ClaudeAgentOptions()
        self._env = environment(self._options)
        self._cli_path = cli_path
        self._timeout_seconds = timeout_seconds
        self._create = (
            None if sandbox is not None else _with_key(creation(create, made_by="claude-agent-sdk"), self._env)
        )
        self._attached = None if sandbox is None else Attached(sandbox.id)
        self._process: AsyncProcess | None = None
        self._result: Result | None = None
        self._stderr = b""
        self._ready = False

    @property
    def sandbox_id(self) -> str | None:
        """Of the sandbox, once there is one."""
        return self._attached.id if self._attached else None

    async def connect(self) -> None:
        if self._process is not None:
            return
        try:
            sandbox = await self._sandbox()
            self._process = await sandbox.exec(
                self._command(),
                env=self._env,
                cwd=None if self._options.cwd is None else str(self._options.cwd),
                user=self._options.user,
                timeout_seconds=self._timeout_seconds,
                background=True,
            )
            self._result = await self._process.poll()
        except BaseException as error:
            await self.close()
            if isinstance(error, PaddockError):
                raise CLIConnectionError(f"Claude Code does not start in a sandbox: {error}") from error
            raise
        if self._result is not None and self._result.cause.kind == "not_started":
            missing = self._not_started(self._result)
            await self.close()
            raise missing
        self._ready = True

    def is_ready(self) -> bool:
        return self._ready

    async def write(self, data: str) -> None:
        if not self._ready or self._process is None:
            raise CLIConnectionError("Claude Code does not run")
        try:
            await self._process.write_stdin(data)
        except PaddockError as error:
            raise await self._unwritable(self._process, error) from error

    async def end_input(self) -> None:
        if self._process is None:
            return
        try:
            await self._process.close_stdin()
        except PaddockError:
            # It has ended already.
            return

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        if self._process is None:
            raise CLIConnectionError("connect first")
        limit = self._options.max_buffer_size or MESSAGE_BYTES
        rest = b""
        try:
            async for event in self._process.stream():
                if isinstance(event, Gap) and event.stream == "stdout":
                    raise CLIConnectionError(f"{event.bytes} bytes of Claude Code's messages were lost")
                if isinstance(event, Ended):
                    self._result = event.result
                elif isinstance(event, Output) and event.stream == "stderr":
                    self._tell(event.data)
                elif isinstance(event, Output):
                    *lines, rest = (rest + event.data).split(b"\n")
                    if max(map(len, [*lines, rest])) > limit:
                        raise CLIJSONDecodeError(
                            f"a message of more than {limit} bytes", ValueError("it is larger than max_buffer_size")
                        )
                    for line in lines:
                        if (message := _message(line)) is not None:
                            yield message
        except PaddockError as error:
            raise CLIConnectionError(f"the conversation with Claude Code broke off: {error}") from error
        if self._result is not None and self._result.exit_code != 0:
            raise self._failed(self._result)

    async def close(self) -> None:
        self._ready = False
        with anyio.move_on_after(4 * GRACE_SECONDS, shield=True):
            process, self._process = self._process, None
            try:
                if process is not None:
                    if self._create is None:
                        await self._end(process)
                    else:
                        await process.kill()
            except PaddockError:
                # The sandbox has gone, and Claude Code with it.
                pass
            if self._create is not None and self._attached is not None:
                attached, self._attached = self._attached, None
                try:
                    await (await attached.here()).kill()
                except PaddockError:
                    # Where the server cannot be reached, its time to live ends the sandbox.
                    pass

    async def _end(self, process: AsyncProcess) -> None:
        """In a sandbox that stays: Claude Code keeps its session, and nothing of it goes on."""
        await process.close_stdin()
        with anyio.move_on_after(GRACE_SECONDS):
            await process.wait()
            return
        await process.kill()

    async def _sandbox(self) -> AsyncSandbox:
        if self._attached is None:
            made = await make(**(self._create or {}))
            self._attached = Attached(made.id)
            self._attached.know(made)
        return await self._attached.here()

    def _command(self) -> list[str]:
        options = replace(self._options, cli_path=self._cli_path)
        if options.can_use_tool is not None and options.permission_prompt_tool_name is None:
            # The SDK does this for its own transport alone.
            options = replace(options, permission_prompt_tool_name="stdio")
        return SubprocessCLITransport(prompt="", options=options)._build_command()

    async def _unwritable(self, process: AsyncProcess, error: PaddockError) -> Exception:
        """A program that never began is told as such, also where its end came after the look at its start."""
        try:
            self._result = await process.poll()
        except PaddockError:
            # The sandbox has gone, as the error says.
            pass
        if self._result is not None and self._result.cause.kind == "not_started":
            return self._not_started(self._result)
        return CLIConnectionError(f"Claude Code cannot be written to: {error}")

    def _tell(self, data: bytes) -> None:
        self._stderr = (self._stderr + data)[-STDERR_BYTES:]
        if self._options.stderr is not None:
            for line in data.decode(errors="replace").splitlines():
                self._options.stderr(line)

    def _not_started(self, result: Result) -> Exception:
        detail = str(result.cause.details.get("detail", result.cause))
        if "No such file" in detail or "not found" in detail:
            return CLINotFoundError(f"the sandbox has no Claude Code: {detail}", self._cli_path)
        return CLIConnectionError(f"Claude Code does not start: {detail}")

    def _failed(self, result: Result) -> Exception:
        if result.cause.kind == "not_started":
            return self._not_started(result)
        said = self._stderr.decode(errors="replace")
        if result.cause.kind in ("sandbox_ended", "guest_lost"):
            return CLIConnectionError(f"the sandbox of Claude Code ended: {result.cause}")
        reason = timeout_note(self._timeout_seconds or 0) if result.timed_out else f"Claude Code: {result.cause}"
        return ProcessError(reason, exit_code=result.exit_code, stderr=said)


def environment(options: ClaudeAgentOptions) -> dict[str, str]:
    """Variables inside: those of the options. The host's own stay outside, since keys are among them."""
    if given := sorted(set(KEYS) & set(options.env)):
        raise ValueError(
            f"options.env would carry {', '.join(given)} into the sandbox; "
            "set it in the environment of this program, or give `secrets`, and it stays at the gate"
        )
    env = {"CLAUDE_CODE_ENTRYPOINT": "sdk-py", "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1", **options.env}
    env["CLAUDE_AGENT_SDK_VERSION"] = __version__
    if options.enable_file_checkpointing:
        env["CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"] = "true"
    if base := os.environ.get("ANTHROPIC_BASE_URL"):
        env.setdefault("ANTHROPIC_BASE_URL", base)
    return env


def _with_key(create: dict[str, Any], env: dict[str, str]) -> dict[str, Any]:
    """Binds the keys of this program's environment to the host of the model, unless the caller names secrets."""
    if create.get("secrets") is None:
        host = urlsplit(env.get("ANTHROPIC_BASE_URL", MODEL_URL)).netloc
        create["secrets"] = {name: {"from": f"env:{name}", "hosts": [host]} for name in KEYS if os.environ.get(name)}
    return create


def _message(line: bytes) -> dict[str, Any] | None:
    text = line.decode(errors="replace").strip()
    if not text.startswith("{"):
        # Some builds print a line for a person.
        return None
    try:
        message: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise CLIJSONDecodeError(text, error) from error
    return message
