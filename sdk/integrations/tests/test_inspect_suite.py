"""Inspect's own checks of a sandbox, unmodified and whole."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from paddock_integrations.inspect import PaddockConfig, PaddockSandboxEnvironment

CONFIG = PaddockConfig(limits={"disk": "1GiB"})


@pytest.fixture
async def sandbox_env() -> AsyncIterator[PaddockSandboxEnvironment]:
    made = await PaddockSandboxEnvironment.sample_init("self-check", CONFIG, {})
    yield made["default"].as_type(PaddockSandboxEnvironment)
    await PaddockSandboxEnvironment.sample_cleanup("self-check", CONFIG, made, False)
    # The next test has an event loop of its own.
    await PaddockSandboxEnvironment.task_cleanup("self-check", CONFIG, True)
