"""OpenAI Agents: `RunConfig(sandbox=SandboxRunConfig(client=PaddockSandboxClient()))`."""

from __future__ import annotations

import io
import shlex
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

import httpx
from agents.sandbox.errors import (
    ExecTimeoutError,
    ExecTransportError,
    ExposedPortUnavailableError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
    WorkspaceStartError,
    WorkspaceWriteTypeError,
)
from agents.sandbox.manifest import Manifest
from agents.sandbox.session import SandboxSession, SandboxSessionState
from agents.sandbox.session.base_sandbox_session import BaseSandboxSession
from agents.sandbox.session.dependencies import Dependencies
from agents.sandbox.session.manager import Instrumentation
from agents.sandbox.session.pty_types import (
    PtyExecUpdate,
    clamp_pty_yield_time_ms,
    resolve_pty_write_yield_time_ms,
)
from agents.sandbox.session.runtime_helpers import RESOLVE_WORKSPACE_PATH_HELPER, RuntimeHelperScript
from agents.sandbox.session.sandbox_client import BaseSandboxClient, BaseSandboxClientOptions
from agents.sandbox.session.tar_workspace import shell_tar_exclude_args
from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec, resolve_snapshot
from agents.sandbox.types import ExecResult, ExposedPortEndpoint, User
from agents.sandbox.util.tar_utils import UnsafeTarMemberError, validate_tar_bytes
from agents.sandbox.workspace_paths import sandbox_path_str
from paddock import AsyncSandbox, FileNotFound, PaddockError, SandboxEnded, SandboxNotFound
from pydantic import Field

from ._lease import LEASE_SECONDS, hold
from ._shared import creation, make, run_to_end
from .openai_agents_pty import Terminals


class PaddockSandboxOptions(BaseSandboxClientOptions):
    """Each as `Sandbox.create` has it, and:

    lease_seconds: the sandbox ends so long after this process at the latest; None: with its time to live. A session
        that another process is to resume wants None.
    pause_on_exit: pause the sandbox at the end of a session instead of killing it; `resume` goes on with it. It has no
        lease.
    exposed_ports: ports inside are at `PORT-ID.DOMAIN`, as `paddock serve --domain DOMAIN` puts them. Each endpoint has
        a right to its port in its query, and to nothing else.
    port_seconds: how long such a right lasts, a day at most. `resolve_exposed_port` gives a new one with every call.
    """

    type: Literal["paddock"] = "paddock"
    template: str | None = None
    image: str | None = None
    limits: dict[str, Any] | None = None
    network: str | dict[str, Any] | None = None
    env: dict[str, str] | None = None
    metadata: dict[str, str] | None = None
    require: list[str] | None = None
    backend: str | None = None
    ttl_seconds: float | None = None
    lease_seconds: float | None = LEASE_SECONDS
    pause_on_exit: bool = False
    exposed_ports: tuple[int, ...] = ()
    port_seconds: float = 3600.0

    def creation(self) -> dict[str, Any]:
        """Arguments of `Sandbox.create`."""
        own = {"type", "pause_on_exit", "exposed_ports", "port_seconds"}
        # The base class writes `type` even where it is left out.
        given = {name: value for name, value in self.model_dump(exclude_none=True).items() if name not in own}
        given["lease_seconds"] = None if self.pause_on_exit else self.lease_seconds
        return creation(given, made_by="openai-agents")


class PaddockSessionState(SandboxSessionState):
    type: Literal["paddock"] = "paddock"
    sandbox_id: str
    options: PaddockSandboxOptions = Field(default_factory=PaddockSandboxOptions)


class PaddockSession(BaseSandboxSession):
    state: PaddockSessionState

    def __init__(self, state: PaddockSessionState, sandbox: AsyncSandbox) -> None:
        self.state = state
        self.sandbox = sandbox
        self._terminals = Terminals()
        self._root_ready = state.workspace_root_ready

    def _runtime_helpers(self) -> tuple[RuntimeHelperScript, ...]:
        return (RESOLVE_WORKSPACE_PATH_HELPER,)

    def _current_runtime_helper_cache_key(self) -> object | None:
        return self.state.sandbox_id

    async def _validate_path_access(self, path: Path | str, *, for_write: bool = False) -> Path:
        return await self._validate_remote_path_access(path, for_write=for_write)

    def _mark_workspace_root_ready_from_probe(self) -> None:
        super()._mark_workspace_root_ready_from_probe()
        self._root_ready = True

    async def _prepare_backend_workspace(self) -> None:
        root = self._workspace_root_path()
        try:
            made = await self.sandbox.exec(["mkdir", "-p", "--", sandbox_path_str(root)], cwd="/")
        except PaddockError as error:
            raise WorkspaceStartError(path=root, cause=error) from error
        if not made.ok:
            raise WorkspaceStartError(path=root, context={"stderr": made.stderr, "cause": str(made.cause)})
        self._root_ready = True

    async def running(self) -> bool:
        try:
            return self._root_ready and (await self.sandbox.info()).state == "running"
        except PaddockError:
            return False

    async def _shutdown_backend(self) -> None:
        await self._terminals.end_all()
        try:
            if self.state.options.pause_on_exit:
                await self.sandbox.pause()
            else:
                await self.sandbox.kill()
        except (SandboxEnded, SandboxNotFound):
            return

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        argv, options = await self._call(command, timeout)
        try:
            result = await run_to_end(self.sandbox, argv, **options)
        except PaddockError as error:
            raise _transport(command, error) from error
        if result.timed_out:
            said = {"stdout": result.stdout, "stderr": result.stderr}
            raise ExecTimeoutError(command=command, timeout_s=timeout, context=said)
        if result.cause.kind in ("sandbox_ended", "guest_lost"):
            raise ExecTransportError(command=command, message=f"the sandbox ended: {result.cause}", retryable=False)
        note = f"{result.cause}\n" if result.cause.kind == "not_started" else ""
        return ExecResult(
            stdout=result.stdout.encode(), stderr=(result.stderr + note).encode(), exit_code=result.exit_code
        )

    async def _call(self, command: Sequence[str | Path], timeout: float | None) -> tuple[list[str], dict[str, Any]]:
        argv, user = [str(word) for word in command], None
        # The base class names another user in this way.
        if argv[:2] == ["sudo", "-u"] and argv[3:4] == ["--"]:
            user, argv = argv[2], argv[4:]
        options: dict[str, Any] = {"env": await self.state.manifest.environment.resolve(), "user": user}
        options["cwd"] = self.state.manifest.root if self._root_ready else "/"
        # Zero and below would be no limit at all.
        options["timeout_seconds"] = None if timeout is None else max(timeout, 0.001)
        return argv, options

    def supports_pty(self) -> bool:
        return True

    async def pty_exec_start(
        self,
        *command: str | Path,
        timeout: float | None = None,
        shell: bool | list[str] = True,
        user: str | User | None = None,
        tty: bool = False,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        argv, options = await self._call(self._prepare_exec_command(*command, shell=shell, user=user), timeout)
        try:
            process = await self.sandbox.exec(argv, background=True, open_stdin=tty, terminal=tty or None, **options)
        except PaddockError as error:
            raise _transport(command, error) from error
        number = await self._terminals.add(process, tty=tty)
        wait = clamp_pty_yield_time_ms(10_000 if yield_time_s is None else int(yield_time_s * 1000))
        return await self._terminals.update(number, yield_time_ms=wait, max_output_tokens=max_output_tokens)

    async def pty_write_stdin(
        self,
        *,
        session_id: int,
        chars: str,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        terminal = self._terminals.find(session_id)
        if chars:
            if not terminal.tty:
                raise RuntimeError("stdin is not available for this process")
            try:
                await terminal.process.write_stdin(chars)
            except PaddockError:
                # It ended meanwhile, as the update tells.
                if not terminal.ended.is_set():
                    await terminal.ended.wait()
        wait = resolve_pty_write_yield_time_ms(
            yield_time_ms=250 if yield_time_s is None else int(yield_time_s * 1000), input_empty=not chars
        )
        return await self._terminals.update(session_id, yield_time_ms=wait, max_output_tokens=max_output_tokens)

    async def pty_terminate_all(self) -> None:
        await self._terminals.end_all()

    async def _resolve_exposed_port(self, port: int) -> ExposedPortEndpoint:
        try:
            # On a unix socket there is no address that an endpoint could have.
            url = httpx.URL(self.sandbox.port_url(port))
            right = await self.sandbox.sign_port(port, expires_seconds=self.state.options.port_seconds)
        except PaddockError as error:
            raise self._unavailable(port, str(error)) from error
        if right.host is None:
            raise self._unavailable(port, "the server has no names for ports: start it with --domain")
        tls = url.scheme == "https"
        query = urlencode({"paddock_token": right.token})
        return ExposedPortEndpoint(host=right.host, port=url.port or (443 if tls else 80), tls=tls, query=query)

    def _unavailable(self, port: int, detail: str) -> ExposedPortUnavailableError:
        return ExposedPortUnavailableError(
            port=port,
            exposed_ports=self.state.exposed_ports,
            reason="backend_unavailable",
            context={"detail": detail},
        )

    async def read(self, path: Path, *, user: str | User | None = None) -> io.IOBase:
        if user is not None:
            await self._check_read_with_exec(path, user=user)
        where = sandbox_path_str(await self._validate_path_access(path))
        try:
            return io.BytesIO(await self.sandbox.filesystem.read_bytes(where))
        except FileNotFound as error:
            raise WorkspaceReadNotFoundError(path=path, cause=error) from error
        except PaddockError as error:
            raise WorkspaceArchiveReadError(path=path, cause=error) from error

    async def write(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        if user is not None:
            await self._check_write_with_exec(path, user=user)
        content = _bytes(path, data)
        where = await self._validate_path_access(path, for_write=True)
        try:
            await self.sandbox.filesystem.write(sandbox_path_str(where), content)
        except PaddockError as error:
            raise WorkspaceArchiveWriteError(path=where, cause=error) from error

    async def persist_workspace(self) -> io.IOBase:
        """A tar of the workspace. It is written inside and read as a file: output of commands is bounded."""
        root, kept = self._workspace_root_path(), f"/tmp/.paddock-persist-{uuid.uuid4().hex}.tar"
        left_out = " ".join(shell_tar_exclude_args(self._persist_workspace_skip_relpaths()))
        command = f"tar {left_out} -C {shlex.quote(sandbox_path_str(root))} -cf {kept} ."
        try:
            made = await self.sandbox.exec(command, cwd="/")
            if not made.ok:
                raise WorkspaceArchiveReadError(path=root, context={"stderr": made.stderr, "cause": str(made.cause)})
            return io.BytesIO(await self.sandbox.filesystem.read_bytes(kept))
        except PaddockError as error:
            raise WorkspaceArchiveReadError(path=root, cause=error) from error
        finally:
            await self._remove(kept)

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        root = self._workspace_root_path()
        content = _bytes(root, data)
        try:
            validate_tar_bytes(content, allow_external_symlink_targets=False)
        except UnsafeTarMemberError as error:
            raise WorkspaceArchiveWriteError(path=root, context={"member": error.member}, cause=error) from error
        where = shlex.quote(sandbox_path_str(root))
        try:
            command = f"mkdir -p {where} && tar -C {where} -xf -"
            read = await run_to_end(self.sandbox, command, cwd="/", stdin=content)
        except PaddockError as error:
            raise WorkspaceArchiveWriteError(path=root, cause=error) from error
        if not read.ok:
            raise WorkspaceArchiveWriteError(path=root, context={"stderr": read.stderr, "cause": str(read.cause)})
        self._root_ready = True

    async def _remove(self, path: str) -> None:
        try:
            await self.sandbox.filesystem.remove(path)
        except PaddockError:
            # It was not made, or the sandbox has gone.
            return


class PaddockSandboxClient(BaseSandboxClient[PaddockSandboxOptions]):
    """Makes sandboxes, finds them again, and ends them."""

    backend_id = "paddock"
    supports_default_options = True

    def __init__(
        self,
        *,
        instrumentation: Instrumentation | None = None,
        dependencies: Dependencies | None = None,
    ) -> None:
        self._instrumentation = instrumentation if instrumentation is not None else Instrumentation()
        self._dependencies = dependencies

    async def create(
        self,
        *,
        snapshot: SnapshotSpec | SnapshotBase | None = None,
        manifest: Manifest | None = None,
        options: PaddockSandboxOptions | None = None,
    ) -> SandboxSession:
        manifest = self._validate_manifest_for_create(manifest if manifest is not None else Manifest())
        options = options or PaddockSandboxOptions()
        sandbox = await _made(options)
        session_id = uuid.uuid4()
        state = PaddockSessionState(
            session_id=session_id,
            manifest=manifest,
            snapshot=resolve_snapshot(snapshot, str(session_id)),
            sandbox_id=sandbox.id,
            options=options,
            exposed_ports=options.exposed_ports,
        )
        inner = PaddockSession(state, sandbox)
        return self._wrap_session(inner, instrumentation=self._instrumentation)

    async def delete(self, session: SandboxSession) -> SandboxSession:
        inner = session._inner
        if not isinstance(inner, PaddockSession):
            raise TypeError(f"the session is a {type(inner).__name__}, not one of Paddock")
        if not inner.state.options.pause_on_exit:
            try:
                await inner.sandbox.kill()
            except (SandboxEnded, SandboxNotFound):
                pass
        return session

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        if not isinstance(state, PaddockSessionState):
            raise TypeError(f"the state is a {type(state).__name__}, not one of Paddock")
        state.assert_path_grants_rebound()
        sandbox = await _found(state)
        preserved = sandbox is not None
        if sandbox is None:
            sandbox = await _made(state.options)
            state.sandbox_id = sandbox.id
            state.workspace_root_ready = False
        inner = PaddockSession(state, sandbox)
        inner._set_start_state_preserved(preserved, system=preserved)
        return self._wrap_session(inner, instrumentation=self._instrumentation)

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        return self._deserialize_session_state_payload(payload, PaddockSessionState)


async def _made(options: PaddockSandboxOptions) -> AsyncSandbox:
    try:
        return await make(**options.creation())
    except PaddockError as error:
        raise WorkspaceStartError(path=Path("/"), message=str(error), cause=error) from error


async def _found(state: PaddockSessionState) -> AsyncSandbox | None:
    """The sandbox of a session that ended, awake; None where it is no more."""
    try:
        sandbox = await AsyncSandbox.connect(state.sandbox_id)
        if sandbox.state == "paused":
            await sandbox.resume()
        elif sandbox.state == "ended":
            return None
        options = state.options.creation()
        await hold(sandbox, options["ttl_seconds"], options["lease_seconds"])
        return sandbox
    except (SandboxEnded, SandboxNotFound):
        return None
    except PaddockError as error:
        raise WorkspaceStartError(path=Path("/"), message=str(error), cause=error) from error


def _transport(command: Sequence[str | Path], error: PaddockError) -> ExecTransportError:
    gone = isinstance(error, (SandboxEnded, SandboxNotFound))
    return ExecTransportError(command=command, message=str(error), cause=error, retryable=not gone)


def _bytes(path: Path, data: io.IOBase) -> bytes:
    content = data.read()
    if isinstance(content, str):
        return content.encode()
    if not isinstance(content, (bytes, bytearray)):
        raise WorkspaceWriteTypeError(path=path, actual_type=type(content).__name__)
    return bytes(content)
