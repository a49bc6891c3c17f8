"""An error after the create, before the framework has its sandbox: nothing is left that lives on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from helpers import living, nothing_lives
from paddock import AsyncFilesystem, AsyncSandbox, Filesystem, GuestLost, Sandbox

from paddock_integrations._shared import make, make_now
from paddock_integrations.deepagents import PaddockSandbox as DeepAgents
from paddock_integrations.google_adk import PaddockEnvironment
from paddock_integrations.inspect import PaddockConfig, PaddockSandboxEnvironment
from paddock_integrations.strands import PaddockSandbox as Strands


class Fails:
    """In the place of a method: what it was called on is there, and the call is lost."""

    def __init__(self) -> None:
        self.alive: list[str] = []

    def __call__(self, *_arguments: object, **_options: object) -> Any:
        self.alive += living()
        raise GuestLost("the guest does not answer")

    async def later(self, *_arguments: object, **_options: object) -> Any:
        await asyncio.to_thread(self)


@pytest.fixture
def fails() -> Fails:
    nothing_lives()
    return Fails()


@pytest.mark.parametrize(
    ("make_one", "owner", "method"),
    [
        (Strands, Filesystem, "resolve"),
        (DeepAgents, Sandbox, "exec"),
        (lambda: make_now(ttl_seconds=3600, lease_seconds=120), Sandbox, "extend"),
    ],
    ids=["strands", "deepagents", "lease"],
)
def test_without_an_event_loop(
    make_one: Callable[[], Any], owner: type, method: str, fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, method, fails)
    with pytest.raises(GuestLost):
        make_one()
    assert len(fails.alive) == 1
    nothing_lives()


@pytest.mark.parametrize(
    ("make_one", "owner", "method"),
    [
        (lambda: PaddockEnvironment().initialize(), AsyncFilesystem, "resolve"),
        (
            lambda: PaddockSandboxEnvironment.task_init("fails", PaddockConfig(env={"A": "fails"})),
            AsyncFilesystem,
            "resolve",
        ),
        (lambda: make(ttl_seconds=3600, lease_seconds=120), AsyncSandbox, "extend"),
    ],
    ids=["google_adk", "inspect", "lease"],
)
async def test_in_an_event_loop(
    make_one: Callable[[], Any], owner: type, method: str, fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, method, fails.later)
    with pytest.raises(GuestLost):
        await make_one()
    assert len(fails.alive) == 1
    nothing_lives()
