"""SWE-ReX: `PaddockDeployment()`. Its bash sessions are shells on terminals; no server of SWE-ReX runs inside."""

from __future__ import annotations

import asyncio
import logging
import shlex
from pathlib import Path
from typing import Any

from paddock import AsyncSandbox, PaddockError, SandboxEnded, SandboxNotFound
from swerex.deployment.abstract import AbstractDeployment
from swerex.deployment.hooks.abstract import CombinedDeploymentHook, DeploymentHook
from swerex.exceptions import (
    BashIncorrectSyntaxError,
    CommandTimeoutError,
    DeploymentNotStartedError,
    DeploymentStartupError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
    SwerexException,
)
from swerex.runtime.abstract import (
    AbstractRuntime,
    Action,
    BashAction,
    BashInterruptAction,
    BashObservation,
    CloseBashSessionResponse,
    CloseResponse,
    CloseSessionRequest,
    CloseSessionResponse,
    Command,
    CommandResponse,
    CreateBashSessionResponse,
    CreateSessionRequest,
    CreateSessionResponse,
    IsAliveResponse,
    Observation,
    ReadFileRequest,
    ReadFileResponse,
    UploadRequest,
    UploadResponse,
    WriteFileRequest,
    WriteFileResponse,
)
from swerex.utils.log import get_logger

from ._shared import (
    Attached,
    builtin_file_errors,
    check_alive,
    creation,
    make_within,
    one_stream,
    run_to_end,
    timeout_note,
    with_note,
)
from .swe_rex_session import Seen, Session, SessionTimeout, ShellEnded


class PaddockRuntime(AbstractRuntime):
    """Commands, bash sessions and files of one sandbox."""

    def __init__(self, attached: Attached) -> None:
        self._attached = attached
        self._sessions: dict[str, Session] = {}

    async def is_alive(self, *, timeout: float | None = None) -> IsAliveResponse:
        try:
            info = await (await self._attached.here()).info()
        except PaddockError as error:
            return IsAliveResponse(is_alive=False, message=str(error))
        said = f"the sandbox is {info.state}" + (f": {info.end.reason}" if info.end else "")
        return IsAliveResponse(is_alive=info.state == "running", message=said)

    async def create_session(self, request: CreateSessionRequest) -> CreateSessionResponse:
        if request.session in self._sessions:
            raise SessionExistsError(f"session {request.session!r} exists")
        session = Session(await self._attached.here())
        sources = [f"source {shlex.quote(path)}" for path in request.startup_source]
        try:
            output = await session.start(sources, request.startup_timeout)
        except SessionTimeout as error:
            await session.close()
            note = f"[the session was not ready within {request.startup_timeout:g} s]"
            raise CommandTimeoutError(with_note(error.output, note)) from error
        except ShellEnded as error:
            await session.close()
            raise SwerexException(
                f"the shell ended with {error.exit_code} before it was ready: {error.output}"
            ) from error
        self._sessions[request.session] = session
        return CreateBashSessionResponse(output=output)

    async def run_in_session(self, action: Action) -> Observation:
        session = self._session(action.session)
        if isinstance(action, BashInterruptAction):
            return await self._interrupted(session, action)
        interactive = action.is_interactive_command or action.is_interactive_quit
        try:
            if interactive:
                seen = await session.type(action.command, action.expect, action.timeout)
            else:
                seen = await session.run(action.command, action.expect, action.timeout)
            if action.is_interactive_quit:
                await session.reset()
        except SessionTimeout as error:
            raise CommandTimeoutError(with_note(error.output, timeout_note(action.timeout or 0))) from error
        except ShellEnded as error:
            # `exit` ends the shell, as it does in every session of SWE-ReX.
            del self._sessions[action.session]
            seen = Seen(error.output, "", error.exit_code)
        if interactive:
            # Programs that edit their lines print what is typed.
            output = seen.output.lstrip().removeprefix(action.command).strip()
            return BashObservation(output=output, exit_code=0, expect_string=seen.expected)
        return await self._observed(action, seen)

    async def _interrupted(self, session: Session, action: BashInterruptAction) -> BashObservation:
        try:
            seen = await session.interrupt(action.expect, action.timeout, action.n_retry)
        except SessionTimeout as error:
            note = f"[nothing ended it: {action.n_retry} interrupts, and its job could not be stopped]"
            raise CommandTimeoutError(with_note(error.output, note)) from error
        return BashObservation(output=seen.output.strip(), exit_code=0, expect_string=seen.expected)

    async def _observed(self, action: BashAction, seen: Seen) -> BashObservation:
        """An expected text comes while the command runs, so that it has no exit code yet."""
        observation = BashObservation(output=seen.output, expect_string=seen.expected)
        if action.check == "ignore" or seen.exit_code is None:
            return observation
        if seen.exit_code != 0:
            await self._check_syntax(await self._attached.here(), action.command)
            if action.check == "raise":
                said = f"command {action.command!r} failed with exit code {seen.exit_code}. Here is the output:\n"
                said += seen.output
                raise NonZeroExitCodeError(f"{action.error_msg}: {said}" if action.error_msg else said)
        observation.exit_code = seen.exit_code
        return observation

    async def _check_syntax(self, sandbox: AsyncSandbox, command: str) -> None:
        checked = await sandbox.exec(["bash", "-n"], stdin=command)
        if checked.exit_code != 0:
            extra = {"bash_stdout": checked.stdout, "bash_stderr": checked.stderr}
            raise BashIncorrectSyntaxError(f"bash does not understand {command!r}: {checked.stderr}", extra_info=extra)

    async def close_session(self, request: CloseSessionRequest) -> CloseSessionResponse:
        session = self._session(request.session)
        del self._sessions[request.session]
        await session.close()
        return CloseBashSessionResponse()

    async def execute(self, command: Command) -> CommandResponse:
        given = command.command
        if isinstance(given, str) and not command.shell:
            # As subprocess.run has it: the name of a program.
            given = [given]
        elif not isinstance(given, str) and command.shell:
            given = given[0] if given else ""
        if command.merge_output_streams:
            given = one_stream(given) if isinstance(given, str) else ["/bin/sh", "-c", 'exec "$@" 2>&1', "sh", *given]
        sandbox = await self._attached.here()
        options: dict[str, Any] = {"env": command.env, "cwd": command.cwd, "timeout_seconds": command.timeout}
        result = check_alive(await run_to_end(sandbox, given, **options), sandbox.id)
        if result.timed_out:
            raise CommandTimeoutError(with_note(result.stdout + result.stderr, timeout_note(command.timeout or 0)))
        note = "" if result.cause.kind in ("exited", "signaled") else f"[{result.cause}]\n"
        answer = CommandResponse(stdout=result.stdout, stderr=result.stderr + note, exit_code=result.exit_code)
        if command.check and result.exit_code != 0:
            said = f"Command {command.command!r} failed with exit code {answer.exit_code}. "
            said += f"Stdout:\n{answer.stdout!r}\nStderr:\n{answer.stderr!r}"
            raise NonZeroExitCodeError(f"{command.error_msg}: {said}" if command.error_msg else said)
        return answer

    async def read_file(self, request: ReadFileRequest) -> ReadFileResponse:
        with builtin_file_errors(request.path):
            data = await (await self._attached.here()).filesystem.read_bytes(request.path)
        return ReadFileResponse(content=data.decode(request.encoding or "utf-8", request.errors or "strict"))

    async def write_file(self, request: WriteFileRequest) -> WriteFileResponse:
        with builtin_file_errors(request.path):
            await (await self._attached.here()).filesystem.write(request.path, request.content)
        return WriteFileResponse()

    async def upload(self, request: UploadRequest) -> UploadResponse:
        if not Path(request.source_path).exists():
            raise ValueError(f"Source path {request.source_path} is not a file or directory")
        with builtin_file_errors(request.target_path):
            await (await self._attached.here()).filesystem.upload(request.source_path, request.target_path)
        return UploadResponse()

    async def close(self) -> CloseResponse:
        sessions, self._sessions = self._sessions, {}
        try:
            await (await self._attached.here()).kill()
            await asyncio.gather(*[session.close() for session in sessions.values()], return_exceptions=True)
        except (SandboxEnded, SandboxNotFound):
            pass
        return CloseResponse()

    def _session(self, name: str) -> Session:
        if name not in self._sessions:
            raise SessionDoesNotExistError(f"session {name!r} does not exist")
        return self._sessions[name]


class PaddockDeployment(AbstractDeployment):
    """`start` makes the sandbox and `stop` kills it.

    Args:
        startup_timeout: seconds for `start`, which then raises SWE-ReX's `TimeoutError`; None: for as long as it takes
            to pull an image.
        options: of `Sandbox.create`: `template`, `image`, `limits`, `network`, `ttl_seconds`, ...
    """

    def __init__(
        self, *, logger: logging.Logger | None = None, startup_timeout: float | None = None, **options: Any
    ) -> None:
        if startup_timeout is not None and not startup_timeout > 0:
            raise ValueError(
                f"startup_timeout is {startup_timeout}, and has to be None or a positive number of seconds"
            )
        self.logger = logger or get_logger("rex-deploy")
        self._startup_timeout = startup_timeout
        #: Creates that took too long, and end by themselves.
        self._late: set[asyncio.Task[AsyncSandbox]] = set()
        self._options = creation(options, made_by="swe-rex")
        self._hooks = CombinedDeploymentHook()
        self._runtime: PaddockRuntime | None = None
        self.sandbox_id: str | None = None

    def __del__(self) -> None:
        # The base class stops what still runs, and says so.
        if getattr(self, "_runtime", None) is not None:
            super().__del__()

    def add_hook(self, hook: DeploymentHook) -> None:
        self._hooks.add_hook(hook)

    @property
    def runtime(self) -> PaddockRuntime:
        if self._runtime is None:
            raise DeploymentNotStartedError()
        return self._runtime

    async def is_alive(self, *, timeout: float | None = None) -> IsAliveResponse:
        return await self.runtime.is_alive(timeout=timeout)

    async def start(self) -> None:
        if self._runtime is not None:
            return
        self._hooks.on_custom_step("Making a sandbox")
        try:
            sandbox = await make_within(self._startup_timeout, self._late, **self._options)
        except PaddockError as error:
            raise DeploymentStartupError(str(error)) from error
        except TimeoutError as error:
            # As every deployment of SWE-ReX says it.
            raise TimeoutError(f"Runtime did not start within {self._startup_timeout}s: {error}") from error
        attached = Attached(sandbox.id)
        attached.know(sandbox)
        self.sandbox_id, self._runtime = sandbox.id, PaddockRuntime(attached)

    async def stop(self) -> None:
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            await runtime.close()
        # Sandboxes that came too late are killed before this returns.
        await asyncio.gather(*self._late, return_exceptions=True)
