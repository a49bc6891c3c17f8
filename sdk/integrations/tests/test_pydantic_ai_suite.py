"""Pydantic AI's own tests of a workspace, unmodified and whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from pydantic_ai.workspaces import WorkspaceRef
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

from paddock_integrations.pydantic_ai import PaddockWorkspace


class TestPaddockWorkspace(WorkspaceBackendSuite):
    @pytest.fixture
    async def backend(self) -> AsyncIterator[PaddockWorkspace]:
        made = PaddockWorkspace(ttl_seconds=300)
        yield made
        await made.delete()

    @pytest.fixture
    async def fresh_backend(self) -> AsyncIterator[Callable[[], PaddockWorkspace]]:
        made: list[PaddockWorkspace] = []

        def make() -> PaddockWorkspace:
            made.append(PaddockWorkspace(ttl_seconds=300))
            return made[-1]

        yield make
        for backend in made:
            await backend.delete()

    @pytest.fixture
    def attach_backend(self) -> Callable[[WorkspaceRef], PaddockWorkspace]:
        return PaddockWorkspace

    @pytest.fixture
    def destroy_environment(self) -> Callable[[PaddockWorkspace], Awaitable[None]]:
        return PaddockWorkspace.delete
