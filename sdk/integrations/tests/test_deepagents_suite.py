"""LangChain's own tests of a sandbox, unmodified and whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from langchain_tests.integration_tests import SandboxIntegrationTests

from paddock_integrations.deepagents import PaddockSandbox

# The suite calls `python`. Debian, whose /usr the sandboxes of these tests see, has `python3` alone.
BINARIES = "/home/agent/bin"


class TestPaddockSandbox(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self) -> Iterator[PaddockSandbox]:
        with PaddockSandbox(env={"PATH": f"{BINARIES}:/usr/local/bin:/usr/bin:/bin"}) as backend:
            backend.execute(f"mkdir {BINARIES} && ln -s /usr/bin/python3 {BINARIES}/python")
            yield backend
