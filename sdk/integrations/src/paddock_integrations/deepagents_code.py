"""Deep Agents Code: `dcode --sandbox paddock`, by the entry point group `deepagents_code.sandbox_providers`."""

from __future__ import annotations

from typing import Any

from deepagents_code.integrations.sandbox_provider import (
    SandboxError,
    SandboxInstallHint,
    SandboxNotFoundError,
    SandboxProvider,
    SandboxProviderMetadata,
)
from paddock import PaddockError, Sandbox, SandboxEnded, SandboxNotFound

from ._shared import creation, killed_on_error_now, make_now
from .deepagents import PaddockSandbox

METADATA = SandboxProviderMetadata(
    name="paddock",
    working_dir="/workspace",
    install=SandboxInstallHint(kind="package", name="paddock-integrations[deepagents]"),
    supports_sandbox_id=True,
    supports_snapshot_name=True,
    backend_module="paddock_integrations.deepagents",
)


class PaddockProvider(SandboxProvider):
    """Makes sandboxes, finds them again by their id or name, and kills them."""

    @property
    def metadata(self) -> SandboxProviderMetadata:
        return METADATA

    def get_or_create(
        self, *, sandbox_id: str | None = None, snapshot_name: str | None = None, **kwargs: Any
    ) -> PaddockSandbox:
        """The options are those of `Sandbox.create`."""
        try:
            if sandbox_id is not None:
                return PaddockSandbox(_alive(sandbox_id))
            options = {**kwargs, **({"snapshot": snapshot_name} if snapshot_name else {})}
            # Deep Agents Code ends it by `delete`, so that the backend does not.
            sandbox = make_now(**creation(options, made_by="deepagents"))
            with killed_on_error_now(sandbox):
                return PaddockSandbox(sandbox)
        except SandboxNotFound as error:
            raise SandboxNotFoundError(str(error)) from error
        except PaddockError as error:
            raise SandboxError(str(error)) from error

    def delete(self, *, sandbox_id: str, **kwargs: Any) -> None:
        try:
            Sandbox.connect(sandbox_id).kill()
        except (SandboxNotFound, SandboxEnded):
            return
        except PaddockError as error:
            raise SandboxError(str(error)) from error


def _alive(sandbox_id: str) -> Sandbox:
    sandbox = Sandbox.connect(sandbox_id)
    if sandbox.state == "ended":
        raise SandboxNotFoundError(f"sandbox {sandbox_id} has ended")
    return sandbox
