"""Harbor (Terminal-Bench): `harbor run --env paddock_integrations.harbor:PaddockEnvironment ...`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities
from harbor.environments.definition import effective_exec_cwd, should_use_prebuilt_docker_image
from harbor.models.task.config import NetworkMode, NetworkPolicy
from paddock import AsyncSandbox, BuildLogEntry, SandboxEnded, SandboxNotFound

from ._lease import LEASE_SECONDS, outlive
from ._shared import check_alive, creation, killed_on_error, make, run_to_end, timeout_note, with_note
from .dockerfile import DockerfileTemplate

#: A trial may take hours; its sandbox ends by itself after a day.
TTL_SECONDS = 24 * 3600.0
#: And one in which nothing has run for so long.
IDLE_SECONDS = 3600.0
#: Every public name and address, on all ports.
EVERYTHING = ["0.0.0.0/0:*", "[::]/0:*", "*:*"]
#: What Harbor starts in the place of a Dockerfile's CMD, and hands to its ENTRYPOINT.
HARBORS_COMMAND = ["sh", "-c", "sleep infinity"]


class PaddockEnvironment(BaseEnvironment):
    """The sandbox of a trial, from the task's `docker_image` or Dockerfile, or from the options `template` or `image`.

    A Dockerfile is built once to a template, whose name comes from the content of the task's environment directory.
    What a build cannot do is refused by its line when the environment is made.

    Args:
        template, image: in the place of the task's own definition.
        backend, require, ttl_seconds, idle_seconds: as `Sandbox.create` has them.
        lease_seconds: it ends so long after this process at the latest; None: with its time to live.
    """

    def __init__(
        self,
        *args: Any,
        template: str | None = None,
        image: str | None = None,
        backend: str | None = None,
        require: list[str] | None = None,
        ttl_seconds: float = TTL_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
        lease_seconds: float | None = LEASE_SECONDS,
        **kwargs: Any,
    ) -> None:
        self._given = {"template": template, "image": image, "backend": backend, "require": require}
        self._ttl_seconds, self._idle_seconds, self._lease_seconds = ttl_seconds, idle_seconds, lease_seconds
        self._sandbox: AsyncSandbox | None = None
        #: Of commands for which nobody names one; None is the template's own.
        self._user: str | None = "root"
        super().__init__(*args, **kwargs)

    @staticmethod
    def type() -> str:
        return "paddock"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(
            disable_internet=True,
            network_allowlist=True,
            network_allowlist_hostnames=True,
            network_allowlist_wildcard_hostnames=True,
            network_allowlist_ipv4_addresses=True,
            dynamic_network_policy=True,
        )

    @classmethod
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        return EnvironmentResourceCapabilities(cpu_limit=True, memory_limit=True)

    @property
    def sandbox(self) -> AsyncSandbox:
        if self._sandbox is None:
            raise RuntimeError("the environment has no sandbox: it was not started, or it was stopped")
        return self._sandbox

    def _validate_definition(self) -> None:
        if self._given["template"] or self._given["image"] or self.task_env_config.docker_image:
            return
        if not (self.environment_dir / "Dockerfile").is_file():
            raise FileNotFoundError(
                f"{self.environment_dir} has neither docker_image nor a Dockerfile; Docker Compose is not supported: "
                "name a template or an image with --environment-kwarg template=NAME"
            )
        self._dockerfile()

    def _dockerfile(self) -> DockerfileTemplate:
        return DockerfileTemplate(self.environment_dir, prefix="harbor", entrypoint_with=HARBORS_COMMAND)

    async def _origin(self, force_build: bool) -> dict[str, Any]:
        """What the sandbox is made from."""
        given = {name: value for name, value in self._given.items() if value is not None}
        if "template" in given or "image" in given:
            return given
        image = self.task_env_config.docker_image
        built = (self.environment_dir / "Dockerfile").is_file() and not should_use_prebuilt_docker_image(
            self.environment_dir, docker_image=image, force_build=force_build
        )
        if not built:
            return {**given, "image": image}
        # Commands run as the user that the Dockerfile says, as they do in its container.
        self._user = None
        return {**given, "template": await self._dockerfile().build(force=force_build, on_log=self._log_build)}

    def _log_build(self, entry: BuildLogEntry) -> None:
        self.logger.debug("build: %s", entry.message)

    async def start(self, force_build: bool) -> None:
        """`force_build` does every step of the Dockerfile again, where the task has one."""
        if self._sandbox is not None:
            return
        limits = {
            "cpus": self._effective_cpus,
            "memory": f"{self._effective_memory_mb}MiB" if self._effective_memory_mb else None,
            "disk": f"{self._effective_storage_mb}MiB" if self._effective_storage_mb else None,
        }
        options = await self._origin(force_build)
        options.update(
            ttl_seconds=self._ttl_seconds,
            idle_seconds=self._idle_seconds,
            lease_seconds=self._lease_seconds,
            limits={name: value for name, value in limits.items() if value is not None},
            network=_network(self.network_policy),
            env=self._startup_env(),
            metadata={"session": self.session_id[:200]},
        )
        self._sandbox = await make(**creation(options, made_by="harbor"))
        try:
            async with killed_on_error(self._sandbox):
                await self.ensure_dirs(self._mount_targets(writable_only=True))
                await self._upload_environment_dir_after_start()
        except BaseException:
            self._sandbox = None
            raise

    async def stop(self, delete: bool) -> None:
        """Kills the sandbox, or with `delete=False` hibernates it: its files stay until its time to live is over."""
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is None:
            return
        try:
            if delete:
                await sandbox.kill()
            else:
                await outlive(sandbox)
                await sandbox.hibernate()
        except (SandboxEnded, SandboxNotFound):
            return

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        """As `root` where nothing names a user, or as the Dockerfile's user. A time limit is exit code 124."""
        name = self._resolve_user(user)
        options: dict[str, Any] = {
            "cwd": effective_exec_cwd(cwd, self.task_env_config.workdir, None),
            "env": self._merge_env(env),
            "user": self._user if name is None else str(name),
            "timeout_seconds": timeout_sec,
        }
        result = check_alive(await run_to_end(self.sandbox, command, **options), self.sandbox.id)
        stderr = result.stderr
        if result.timed_out:
            stderr = with_note(stderr, timeout_note(timeout_sec or 0))
        elif result.cause.kind not in ("exited", "signaled"):
            stderr = with_note(stderr, f"[{result.cause}]")
        return ExecResult(stdout=result.stdout, stderr=stderr, return_code=result.exit_code)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        await self.sandbox.filesystem.upload(source_path, target_path, user="root")

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await self.sandbox.filesystem.upload(source_dir, target_dir, user="root")

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        await self.sandbox.filesystem.download(source_path, target_path, user="root")

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        await asyncio.to_thread(Path(target_dir).mkdir, parents=True, exist_ok=True)
        await self.sandbox.filesystem.download(source_dir, target_dir, unsafe_links="skip", user="root")

    async def _apply_network_policy(self, network_policy: NetworkPolicy) -> None:
        await self.sandbox.update(network=_network(network_policy))


def _network(policy: NetworkPolicy) -> str | dict[str, Any]:
    """Public means every public name and address, through the gate; the host's own network stays closed."""
    if policy.network_mode == NetworkMode.NO_NETWORK:
        return "none"
    if policy.network_mode == NetworkMode.ALLOWLIST:
        return {"allow": list(policy.allowed_hosts)}
    return {"allow_public": EVERYTHING}
