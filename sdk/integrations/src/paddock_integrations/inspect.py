"""Inspect: `Task(sandbox="paddock")`, or with settings `sandbox=SandboxEnvironmentSpec("paddock", PaddockConfig(...))`.

One sandbox is prepared for each configuration of a task, and each sample gets a fork of it: what `setup` installed and
wrote is there, and no sample sees another one.
"""

from __future__ import annotations

import asyncio
import json
import posixpath
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Any, Literal, overload

import yaml
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxConnection,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from inspect_ai.util._sandbox.environment import SandboxUnavailableError
from paddock import AsyncSandbox, Forbidden, GuestLost, RequirementNotMet, Result, SandboxEnded, SandboxNotFound
from pydantic import BaseModel, ConfigDict, Field

from ._lease import LEASE_SECONDS, checked, hold, prolong
from ._shared import (
    Attached,
    builtin_file_errors,
    creation,
    killed_on_error,
    make,
    run_to_end,
    timeout_note,
    with_note,
    working_directory,
    write_through,
)

FRAMEWORK = "inspect-ai"
GONE = (SandboxEnded, SandboxNotFound, GuestLost)
#: A prepared sandbox lives so long after the last fork of it. One that is forked later is prepared again.
PREPARED_TTL_SECONDS = 1800.0
#: And so long while it is prepared.
SETUP_TTL_SECONDS = 2 * 3600.0
#: It is given new time at the first fork after this.
RENEWED_SECONDS = PREPARED_TTL_SECONDS / 8


class PaddockConfig(BaseModel):
    """The sandbox of a sample; each field as `Sandbox.create` has it. `setup` is run once, before the forks.

    Without this process it ends within `lease_seconds`, and with None when its time to live is over.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    template: str | None = None
    image: str | None = None
    limits: dict[str, Any] | None = None
    network: str | dict[str, Any] | None = None
    env: dict[str, str] | None = None
    user: str | None = None
    cwd: str | None = None
    backend: str | None = None
    require: list[str] | None = None
    #: Root inside may install packages and add users, as in the containers that evaluations are written for.
    #: `None`: where the server can and allows it; `True`: always, or it is an error; `False`: root has no capability.
    root_may_install: bool | None = None
    setup: list[str] = Field(default_factory=list)
    setup_timeout: float = 600
    ttl_seconds: float = 3600
    lease_seconds: float | None = LEASE_SECONDS

    def __hash__(self) -> int:
        """Inspect looks configurations up in a dictionary."""
        return hash(self.model_dump_json())


@dataclass
class Prepared:
    """The sandbox that the samples of one configuration are forked from."""

    attached: Attached
    working_dir: str
    #: When it was last given its time to live.
    renewed: float = dataclass_field(default_factory=time.monotonic)


@sandboxenv(name="paddock")
class PaddockSandboxEnvironment(SandboxEnvironment):
    #: By configuration, the sandbox that samples are forked from.
    _prepared: dict[str, Prepared] = {}  # noqa: RUF012
    #: Of each event loop, by configuration: held while a sandbox is prepared.
    _preparing: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Lock]] = (
        weakref.WeakKeyDictionary()  # noqa: RUF012
    )

    def __init__(self, sandbox: AsyncSandbox, working_dir: str) -> None:
        super().__init__()
        self.sandbox = sandbox
        self._working_dir = working_dir

    @classmethod
    async def task_init(cls, task_name: str, config: BaseModel | str | None) -> None:
        await cls._prepare(config)

    @classmethod
    async def sample_init(
        cls, task_name: str, config: BaseModel | str | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        settings, key = read_config(config), _key(config)
        prepared = await cls._prepare(config)
        try:
            sandbox = await cls._fork(prepared, settings)
        except GONE:
            # It was killed, or the task outlives it. The first sample that sees so makes it anew for all.
            if cls._prepared.get(key) is prepared:
                del cls._prepared[key]
            prepared = await cls._prepare(config)
            sandbox = await cls._fork(prepared, settings)
        return {"default": cls(sandbox, prepared.working_dir)}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: BaseModel | str | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            await _end(environment.as_type(PaddockSandboxEnvironment).sandbox)

    @classmethod
    async def task_cleanup(cls, task_name: str, config: BaseModel | str | None, cleanup: bool) -> None:
        prepared = cls._prepared.pop(_key(config), None)
        if prepared is not None and cleanup:
            await _end(await prepared.attached.here())

    @classmethod
    async def cli_cleanup(cls, id: str | None) -> None:
        """Ends the sandbox of an id, or all that Inspect's tasks have made."""
        if id is not None:
            await _end(await AsyncSandbox.connect(id))
            return
        async for sandbox in AsyncSandbox.list(state="running", metadata={"framework": FRAMEWORK}):
            await _end(sandbox)

    @classmethod
    def config_files(cls) -> list[str]:
        return ["paddock.yaml"]

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        return PaddockConfig(**config)

    def default_polling_interval(self) -> float:
        return 0.2

    async def connection(self, *, user: str | None = None) -> SandboxConnection:
        with _unavailable():
            if (await self.sandbox.info()).state == "ended":
                raise ConnectionError(f"sandbox {self.sandbox.id} has ended")
        as_user = f" --user {user}" if user else ""
        command = f"paddock exec -it{as_user} {self.sandbox.id} /bin/sh"
        return SandboxConnection(type="paddock", command=command, container=self.sandbox.id)

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """A command that timed out is not run again: what it did to the sandbox the first time would be there."""
        where = self._inside(cwd) if cwd is not None else None
        options: dict[str, Any] = {"env": env, "cwd": where, "user": user, "timeout_seconds": timeout}
        with _unavailable():
            result = await run_to_end(self.sandbox, cmd, stdin=input, **options)
        return _exec_result(result, cmd, user, timeout)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        data = contents.encode() if isinstance(contents, str) else contents
        with _unavailable():
            await write_through(self.sandbox, self._inside(file), data)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        with _unavailable(), builtin_file_errors(file):
            # One byte more than is allowed tells that there is more, and no more than that is fetched.
            data = await self.sandbox.filesystem.read_bytes(self._inside(file), length=limit + 1)
        if len(data) > limit:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        return data.decode() if text else data

    def _inside(self, path: str) -> str:
        return posixpath.join(self._working_dir, path)

    @classmethod
    async def _prepare(cls, config: BaseModel | str | None) -> Prepared:
        settings, key = read_config(config), _key(config)
        locks = cls._preparing.setdefault(asyncio.get_running_loop(), {})
        async with locks.setdefault(key, asyncio.Lock()):
            if key not in cls._prepared:
                cls._prepared[key] = await cls._prepare_one(settings)
            return cls._prepared[key]

    @classmethod
    async def _prepare_one(cls, settings: PaddockConfig) -> Prepared:
        options = settings.model_dump(exclude={"setup", "setup_timeout", "ttl_seconds"}, exclude_none=True)
        options["ttl_seconds"] = SETUP_TTL_SECONDS
        options["lease_seconds"] = settings.lease_seconds
        sandbox = await _create(options)
        async with killed_on_error(sandbox):
            for command in settings.setup:
                _succeeded(command, await sandbox.exec(command, timeout_seconds=settings.setup_timeout))
            where = await working_directory(sandbox)
            await prolong(sandbox, PREPARED_TTL_SECONDS)
        attached = Attached(sandbox.id)
        attached.know(sandbox)
        return Prepared(attached, where)

    @classmethod
    async def _fork(cls, prepared: Prepared, settings: PaddockConfig) -> AsyncSandbox:
        sandbox = await prepared.attached.here()
        if time.monotonic() - prepared.renewed > RENEWED_SECONDS:
            prepared.renewed = time.monotonic()
            await prolong(sandbox, PREPARED_TTL_SECONDS)
        life, lease = settings.ttl_seconds, checked(settings.lease_seconds, {})
        metadata = {"framework": FRAMEWORK}
        fork = await sandbox.fork(ttl_seconds=life if lease is None else min(life, lease), metadata=metadata)
        async with killed_on_error(fork):
            await hold(fork, life, lease)
        return fork


async def _create(options: dict[str, Any]) -> AsyncSandbox:
    """With a root that may install packages, unless the settings say otherwise or the server refuses it."""
    settled = creation(options, made_by=FRAMEWORK)
    if "root_may_install" in options:
        return await make(**settled)
    try:
        return await make(**settled, root_may_install=True)
    except (Forbidden, RequirementNotMet):
        return await make(**settled)


def read_config(config: BaseModel | str | None) -> PaddockConfig:
    """Settings as an object, or as the path of a YAML or JSON file with its fields."""
    if config is None:
        return PaddockConfig()
    if isinstance(config, PaddockConfig):
        return config
    if isinstance(config, str):
        read = yaml.safe_load(Path(config).read_text())
        if not isinstance(read, dict):
            raise ValueError(f"{config} holds no mapping with the fields of PaddockConfig")
        return PaddockConfig(**read)
    raise TypeError(f"the configuration is a {type(config).__name__}, not a PaddockConfig or the path of a file")


def _key(config: BaseModel | str | None) -> str:
    """Without the task's name: Inspect begins and ends the sandboxes of a run under names of its own."""
    return json.dumps(read_config(config).model_dump(), sort_keys=True)


def _succeeded(command: str, result: Result) -> None:
    if not result.ok:
        raise RuntimeError(f"setup command {command!r}: {result.cause}, exit code {result.exit_code}: {result.stderr}")


async def _end(sandbox: AsyncSandbox) -> None:
    try:
        await sandbox.kill()
    except GONE:
        return


@contextmanager
def _unavailable() -> Iterator[None]:
    try:
        yield
    except GONE as error:
        raise SandboxUnavailableError(str(error)) from error


def _exec_result(result: Result, cmd: list[str], user: str | None, timeout: int | None) -> ExecResult[str]:
    detail = str(result.cause.details.get("detail", result.cause))
    if result.cause.kind in ("sandbox_ended", "guest_lost"):
        raise SandboxUnavailableError(f"the sandbox ended while {cmd[0]} ran: {result.cause}")
    if result.timed_out:
        raise TimeoutError(with_note(result.stdout + result.stderr, timeout_note(timeout or 0)))
    if result.cause.kind == "not_started":
        if user is not None and "no user" in detail:
            raise SandboxUserUnsupportedError(detail)
        if "Permission denied" in detail:
            raise PermissionError(f"{cmd[0]}: {detail}")
        return ExecResult(success=False, returncode=result.exit_code, stdout="", stderr=f"{cmd[0]}: {detail}")
    limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
    missing = result.stdout_missing_bytes + result.stderr_missing_bytes
    if missing or max(result.stdout_bytes, result.stderr_bytes) > limit:
        kept = (result.stdout or result.stderr)[:limit]
        raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, kept)
    return ExecResult(
        success=result.exit_code == 0, returncode=result.exit_code, stdout=result.stdout, stderr=result.stderr
    )
