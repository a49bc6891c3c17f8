"""A sandbox that is killed, and a server that is killed, while a command of each framework runs."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from agents.sandbox.errors import ExecTransportError
from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock
from inspect_ai.util._sandbox.environment import SandboxUnavailableError
from paddock import ConnectionFailed, Sandbox, SandboxEnded
from pydantic_ai.workspaces import WorkspaceUnavailableError
from real_server import Server, unmount_below
from swerex.runtime.abstract import BashAction, Command, CreateBashSessionRequest

from paddock_integrations.autogen import PaddockCodeExecutor
from paddock_integrations.deepagents import PaddockSandbox as DeepAgents
from paddock_integrations.google_adk import PaddockEnvironment
from paddock_integrations.inspect import PaddockSandboxEnvironment
from paddock_integrations.openai_agents import PaddockSandboxClient
from paddock_integrations.pydantic_ai import PaddockWorkspace
from paddock_integrations.smolagents import PaddockExecutor
from paddock_integrations.strands import PaddockSandbox as Strands
from paddock_integrations.swe_rex import PaddockDeployment

LONG = "echo so far; touch /tmp/begun; sleep 600"
LONG_PYTHON = "print('so far', flush=True)\nopen('/tmp/begun', 'w').close()\nimport time\ntime.sleep(600)"


class Running(NamedTuple):
    sandbox_id: str
    #: Runs the long command to its end.
    call: Callable[[], Awaitable[Any]]


async def deepagents() -> Running:
    made = await asyncio.to_thread(DeepAgents)
    return Running(made.id, lambda: made.aexecute(LONG))


async def deepagents_in_a_thread() -> Running:
    made = await asyncio.to_thread(DeepAgents)
    return Running(made.id, lambda: asyncio.to_thread(made.execute, LONG))


async def pydantic_ai() -> Running:
    made = PaddockWorkspace()
    await made.working_dir()
    assert made.ref is not None
    return Running(made.ref.id, lambda: made.run(LONG, shell=True))


async def inspect() -> Running:
    environments = await PaddockSandboxEnvironment.sample_init("dying", None, {})
    made = environments["default"].as_type(PaddockSandboxEnvironment)
    # A prepared sandbox of a server that is no more is not asked for the next fork.
    PaddockSandboxEnvironment._prepared.clear()
    return Running(made.sandbox.id, lambda: made.exec(["sh", "-c", LONG]))


async def openai_agents() -> Running:
    session = await PaddockSandboxClient().create()
    await session.start()
    return Running(session._inner.sandbox.id, lambda: session.exec(LONG, shell=True))


async def smolagents() -> Running:
    made = await asyncio.to_thread(PaddockExecutor)
    return Running(made.sandbox.id, lambda: asyncio.to_thread(made.run_code_raise_errors, LONG_PYTHON))


async def google_adk() -> Running:
    made = PaddockEnvironment()
    await made.initialize()
    return Running(made.id, lambda: made.execute(LONG))


async def strands() -> Running:
    made = await asyncio.to_thread(Strands)
    return Running(made.id, lambda: made.execute(LONG))


async def autogen() -> Running:
    made = PaddockCodeExecutor(timeout=900)
    await made.start()
    assert made.id is not None
    block = CodeBlock(code=LONG, language="sh")
    return Running(made.id, lambda: made.execute_code_blocks([block], CancellationToken()))


async def swe_rex() -> Running:
    made = PaddockDeployment()
    await made.start()
    assert made.sandbox_id is not None
    return Running(made.sandbox_id, lambda: made.runtime.execute(Command(command=LONG, shell=True)))


async def swe_rex_session() -> Running:
    made = PaddockDeployment()
    await made.start()
    assert made.sandbox_id is not None
    await made.runtime.create_session(CreateBashSessionRequest())
    return Running(made.sandbox_id, lambda: made.runtime.run_in_session(BashAction(command=LONG)))


async def nemo_gym() -> Running:
    pytest.importorskip("nemo_gym.sandbox", reason="nemo-gym: NeMo Gym needs Python 3.12")
    from nemo_gym.sandbox.providers.base import SandboxSpec

    from paddock_integrations.nemo_gym import PaddockProvider

    provider = PaddockProvider()
    handle = await provider.create(SandboxSpec())

    async def call() -> None:
        result = await provider.exec(handle, LONG)
        # It has no errors for this: its word for it is the result's.
        assert result.error_type == "sandbox"
        raise SandboxEnded(f"{result.stdout}{result.stderr}")

    return Running(handle.sandbox_id, call)


#: With what a framework raises where the sandbox dies, and where the server does.
CASES = [
    (deepagents, SandboxEnded, ConnectionFailed),
    (deepagents_in_a_thread, SandboxEnded, ConnectionFailed),
    (pydantic_ai, WorkspaceUnavailableError, ConnectionFailed),
    (inspect, SandboxUnavailableError, ConnectionFailed),
    (openai_agents, ExecTransportError, ExecTransportError),
    (smolagents, SandboxEnded, ConnectionFailed),
    (google_adk, SandboxEnded, ConnectionFailed),
    (strands, SandboxEnded, ConnectionFailed),
    (autogen, SandboxEnded, ConnectionFailed),
    (swe_rex, SandboxEnded, ConnectionFailed),
    (swe_rex_session, SandboxEnded, ConnectionFailed),
    (nemo_gym, SandboxEnded, SandboxEnded),
]
#: Their errors have no place for output, and tell of the sandbox alone.
WITHOUT_OUTPUT = (pydantic_ai, inspect, openai_agents)


async def begun(running: Running, calling: asyncio.Future[Any]) -> Sandbox:
    sandbox = await asyncio.to_thread(Sandbox.connect, running.sandbox_id)
    while not await asyncio.to_thread(sandbox.filesystem.exists, "/tmp/begun"):
        assert not calling.done(), calling
        await asyncio.sleep(0.05)
    return sandbox


@pytest.mark.parametrize(("start", "dead", "_lost"), CASES, ids=lambda value: getattr(value, "__name__", None))
async def test_a_sandbox_that_is_killed_has_its_error(
    start: Callable[[], Awaitable[Running]], dead: type[Exception], _lost: type[Exception]
) -> None:
    running = await start()
    calling = asyncio.ensure_future(running.call())
    sandbox = await begun(running, calling)
    await asyncio.to_thread(sandbox.kill)
    with pytest.raises(dead) as caught:
        await calling
    assert "ended" in str(caught.value)
    if start not in WITHOUT_OUTPUT:
        assert "so far" in str(caught.value)


@pytest.fixture(scope="module")
def mortal() -> Iterator[Server]:
    """A server of these tests' own, which each of them kills."""
    made = Server(Path(tempfile.mkdtemp(prefix="paddock-integrations-")))
    try:
        yield made
    finally:
        made.end(signal.SIGTERM)
        unmount_below(made.directory)
        shutil.rmtree(made.directory, ignore_errors=True)


@pytest.mark.parametrize(("start", "_dead", "lost"), CASES, ids=lambda value: getattr(value, "__name__", None))
async def test_a_server_that_is_killed_has_its_error(
    start: Callable[[], Awaitable[Running]],
    _dead: type[Exception],
    lost: type[Exception],
    mortal: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await asyncio.to_thread(mortal.start)
    monkeypatch.setenv("PADDOCK_URL", mortal.url)
    try:
        running = await start()
        calling = asyncio.ensure_future(running.call())
        await begun(running, calling)
        await asyncio.to_thread(mortal.end, signal.SIGKILL)
        with pytest.raises(lost, match=r"no server listens|cannot be reached|connection|went away"):
            await calling
    finally:
        # Its sandboxes run on, and the next server finds them.
        await asyncio.to_thread(mortal.end, signal.SIGKILL)
        await asyncio.to_thread(mortal.start)
        await asyncio.to_thread(mortal.sweep)
        await asyncio.to_thread(mortal.end, signal.SIGTERM)
