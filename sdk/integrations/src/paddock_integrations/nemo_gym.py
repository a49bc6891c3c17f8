"""NeMo Gym: `AsyncSandbox({"paddock": {}})`, by the entry point group `nemo_gym.sandbox_providers`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from nemo_gym.sandbox.providers.base import (
    SandboxCreateError,
    SandboxExecResult,
    SandboxHandle,
    SandboxSpec,
    SandboxStatus,
)
from paddock import AsyncSandbox, PaddockError, SandboxEnded, SandboxNotFound

from ._shared import Attached, creation, make_within, run_to_end

STATES = {
    "creating": SandboxStatus.STARTING,
    "running": SandboxStatus.RUNNING,
    "paused": SandboxStatus.STOPPED,
    "hibernated": SandboxStatus.STOPPED,
    "ended": SandboxStatus.STOPPED,
}


class PaddockProvider:
    """Its options are defaults for every sandbox, as `Sandbox.create` has them; those of a request come first."""

    name = "paddock"

    def __init__(self, **options: Any) -> None:
        self._options = options
        #: Creates that took too long, and end by themselves.
        self._late: set[asyncio.Task[AsyncSandbox]] = set()

    async def create(self, spec: SandboxSpec) -> SandboxHandle:
        try:
            options = self._creation(spec)
            sandbox = await make_within(spec.ready_timeout_s, self._late, **creation(options, made_by="nemo-gym"))
        except (PaddockError, TimeoutError, ValueError) as error:
            raise SandboxCreateError(str(error)) from error
        attached = Attached(sandbox.id)
        attached.know(sandbox)
        return SandboxHandle(sandbox_id=sandbox.id, provider_name=self.name, raw=attached)

    def _creation(self, spec: SandboxSpec) -> dict[str, Any]:
        resources = spec.resources
        if resources.gpu:
            raise ValueError(f"{resources.gpu} GPUs are asked for, and a sandbox has none")
        if spec.entrypoint:
            raise ValueError("an entrypoint is asked for: start it with exec instead")
        options = {**self._options, **spec.provider_options}
        limits = {
            "cpus": resources.cpu,
            "memory": f"{resources.memory_mib}MiB" if resources.memory_mib else None,
            "disk": f"{resources.disk_gib}GiB" if resources.disk_gib else None,
        }
        asked = {name: value for name, value in limits.items() if value is not None}
        if asked:
            options["limits"] = {**(options.get("limits") or {}), **asked}
        given = {"image": spec.image, "ttl_seconds": spec.ttl_s, "cwd": spec.workdir, "env": spec.env or None}
        options.update({name: value for name, value in given.items() if value is not None})
        options["metadata"] = {**(options.get("metadata") or {}), **spec.metadata}
        return options

    async def exec(
        self,
        handle: SandboxHandle,
        command: str,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_s: int | float | None = None,
        user: str | int | None = None,
    ) -> SandboxExecResult:
        """A time limit is exit code 124 with the output so far; what Paddock refuses is `error_type` `sandbox`."""
        name = None if user is None else str(user)
        try:
            sandbox = await handle.raw.here()
            result = await run_to_end(sandbox, command, cwd=cwd, env=env, user=name, timeout_seconds=timeout_s)
        except PaddockError as error:
            # Also a lost server, and a user or a directory that are not there: the command has no exit code.
            return SandboxExecResult(stdout=None, stderr=str(error), return_code=255, error_type="sandbox")
        kinds = {"time_limit": "timeout", "sandbox_ended": "sandbox", "guest_lost": "sandbox", "not_started": "sandbox"}
        error_type = kinds.get(result.cause.kind)
        note = "" if result.cause.kind in ("exited", "signaled") else f"[{result.cause}]\n"
        return SandboxExecResult(
            stdout=result.stdout,
            stderr=result.stderr + note,
            return_code=result.exit_code,
            error_type=error_type,
        )

    async def upload_file(self, handle: SandboxHandle, source_path: Path, target_path: str) -> None:
        await (await handle.raw.here()).filesystem.upload(source_path, target_path)

    async def download_file(self, handle: SandboxHandle, source_path: str, target_path: Path) -> None:
        await (await handle.raw.here()).filesystem.download(source_path, target_path)

    async def status(self, handle: SandboxHandle) -> SandboxStatus:
        try:
            info = await (await handle.raw.here()).info()
        except SandboxNotFound:
            return SandboxStatus.STOPPED
        except PaddockError:
            return SandboxStatus.UNKNOWN
        return STATES.get(info.state, SandboxStatus.UNKNOWN)

    async def close(self, handle: SandboxHandle) -> None:
        try:
            await (await handle.raw.here()).kill()
        except (SandboxEnded, SandboxNotFound):
            return

    async def aclose(self) -> None:
        """Waits for sandboxes that came too late. Connections are closed with the last sandbox of their event loop."""
        await asyncio.gather(*self._late, return_exceptions=True)
