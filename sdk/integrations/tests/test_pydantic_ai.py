"""An agent of Pydantic AI with a scripted model in a real workspace, and what goes wrong there."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator

import pytest
from helpers import LOST_SERVER, SMALL_DISK, killed_maker_leaves_nothing
from paddock import ConnectionFailed, Sandbox
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.workspaces import (
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

from paddock_integrations.pydantic_ai import PaddockWorkspace


def agent_that_runs(*commands: str) -> Agent:
    """Its model asks for one command after the other, and then repeats what the last one printed."""

    def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        returned = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        if len(returned) < len(commands):
            return ModelResponse(parts=[ToolCallPart("shell", {"command": commands[len(returned)]})])
        return ModelResponse(parts=[TextPart(str(returned[-1].content))])

    agent = Agent(FunctionModel(scripted))

    @agent.tool
    async def shell(ctx: RunContext[None], command: str) -> str:
        result = await ctx.workspace.run(command, shell=True)
        return f"{result.exit_code} {result.stdout}{result.stderr}".strip()

    return agent


@pytest.fixture
async def backend() -> AsyncIterator[PaddockWorkspace]:
    made = PaddockWorkspace()
    yield made
    await made.delete()


async def test_an_agent_works_in_its_workspace(backend: PaddockWorkspace) -> None:
    agent = agent_that_runs("echo 41 > n", "expr $(cat n) + 1")
    assert (await agent.run("go", workspace=backend)).output == "0 42"


async def test_two_runs_share_a_workspace(backend: PaddockWorkspace) -> None:
    await agent_that_runs("echo kept > f").run("go", workspace=backend)
    assert (await agent_that_runs("cat f").run("go", workspace=backend)).output == "0 kept"


def test_runs_without_an_event_loop_share_a_workspace() -> None:
    backend = PaddockWorkspace()
    agent_that_runs("echo kept > f").run_sync("go", workspace=backend)
    assert backend.ref is not None
    assert agent_that_runs("cat f").run_sync("go", workspace=backend).output == "0 kept"
    Sandbox.connect(backend.ref.id).kill()


async def test_a_failing_command_is_a_result(backend: PaddockWorkspace) -> None:
    assert (await agent_that_runs("echo no >&2; exit 4").run("go", workspace=backend)).output == "4 no"


async def test_a_run_does_not_end_the_workspace(backend: PaddockWorkspace) -> None:
    await agent_that_runs("true").run("go", workspace=backend)
    assert backend.ref is not None
    assert (await PaddockWorkspace(backend.ref).run(["true"])).exit_code == 0


async def test_files_of_the_caller_are_seen_by_the_agent(backend: PaddockWorkspace) -> None:
    await backend.write_bytes("/workspace/data/n.txt", b"7\n")
    assert (await agent_that_runs("cat data/n.txt").run("go", workspace=backend)).output == "0 7"


async def test_a_timeout_has_the_output_so_far(backend: PaddockWorkspace) -> None:
    with pytest.raises(WorkspaceTimeoutError) as raised:
        await backend.run("echo out; echo err >&2; sleep 60", shell=True, timeout=1)
    assert (raised.value.stdout, raised.value.stderr) == ("out\n", "err\n")


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
async def test_a_timeout_that_is_none_is_refused(timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout is"):
        await PaddockWorkspace().run(["true"], timeout=timeout)


async def test_more_output_than_is_kept_is_an_error() -> None:
    backend = PaddockWorkspace(limits={"output": "64KiB"})
    try:
        with pytest.raises(WorkspaceOutputLimitError):
            await backend.run("seq 1 200000", shell=True)
    finally:
        await backend.delete()


async def test_a_dead_sandbox_is_unavailable(backend: PaddockWorkspace) -> None:
    await backend.working_dir()
    await backend.delete()
    for operation in (
        backend.working_dir(),
        backend.run(["true"]),
        backend.read_bytes("/etc/passwd"),
        backend.write_bytes("/tmp/x", b"x"),
        backend.exists("/etc/passwd"),
        backend.realpath("/etc/passwd"),
        backend.remove("/tmp/x"),
    ):
        with pytest.raises(WorkspaceUnavailableError):
            await operation


async def test_a_full_disk_is_no_space_left() -> None:
    backend = PaddockWorkspace(limits=SMALL_DISK)
    try:
        with pytest.raises(OSError, match="/workspace/large") as raised:
            await backend.write_bytes("/workspace/large", b"x" * (80 << 20))
        assert raised.value.errno == errno.ENOSPC
    finally:
        await backend.delete()


async def test_an_unknown_template_is_unavailable() -> None:
    with pytest.raises(WorkspaceUnavailableError, match="no-such-template"):
        await PaddockWorkspace(template="no-such-template").working_dir()


async def test_a_lost_server_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_URL", LOST_SERVER)
    with pytest.raises(ConnectionFailed):
        await PaddockWorkspace().working_dir()


def test_a_workspace_of_another_provider_is_refused() -> None:
    with pytest.raises(ValueError, match="'local'"):
        PaddockWorkspace(WorkspaceRef(provider="local", id="/tmp"))


def test_a_killed_program_leaves_nothing() -> None:
    killed_maker_leaves_nothing(
        "import asyncio\n"
        "from paddock_integrations.pydantic_ai import PaddockWorkspace\n"
        "made = PaddockWorkspace(lease_seconds=LEASE)\n"
        "asyncio.run(made.working_dir())\n"
        "print(made.ref.id, flush=True)"
    )
