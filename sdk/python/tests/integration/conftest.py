"""A real `paddock serve`, from PADDOCK_BIN, with a state directory of its own."""

from __future__ import annotations

import shutil
import signal
import tempfile
from pathlib import Path
from typing import Iterator

import pytest

from paddock import Sandbox

from ..real_server import BINARY, Server, unmount_below


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip = pytest.mark.skip(reason="PADDOCK_BIN is not set: it names the paddock executable that serves these tests")
    for item in items:
        if "integration" in str(item.fspath):
            item.add_marker(pytest.mark.server)
            if not BINARY:
                item.add_marker(skip)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    # Paths of sockets are short, those of pytest are long.
    made = Server(Path(tempfile.mkdtemp(prefix="paddock-sdk-")))
    made.start()
    try:
        yield made
        made.sweep()
    finally:
        made.end(signal.SIGTERM)
        unmount_below(made.directory)
        shutil.rmtree(made.directory, ignore_errors=True)


@pytest.fixture(autouse=True)
def _configured(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_URL", server.url)
    monkeypatch.delenv("PADDOCK_TOKEN", raising=False)


@pytest.fixture
def sandbox(server: Server) -> Iterator[Sandbox]:
    with Sandbox.create(ttl_seconds=300) as made:
        yield made
