"""Agents of AutoGen with a scripted model, whose code blocks run in a real sandbox."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import pytest
from autogen_agentchat.agents import AssistantAgent, CodeExecutorAgent
from autogen_agentchat.conditions import TextMentionTermination
from autogen_agentchat.messages import CodeExecutionEvent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult
from autogen_ext.models.replay import ReplayChatCompletionClient
from helpers import LOST_SERVER, SMALL_DISK, killed_maker_leaves_nothing
from paddock import ConnectionFailed, Sandbox, SandboxEnded, TemplateNotFound

from paddock_integrations.autogen import PaddockCodeExecutor


@pytest.fixture
async def executor() -> AsyncIterator[PaddockCodeExecutor]:
    async with PaddockCodeExecutor() as made:
        yield made


async def run(executor: PaddockCodeExecutor, *blocks: tuple[str, str]) -> CodeResult:
    made = [CodeBlock(code=code, language=language) for language, code in blocks]
    return await executor.execute_code_blocks(made, CancellationToken())


def block(language: str, code: str) -> str:
    return f"```{language}\n{code}\n```"


async def executed(agent: CodeExecutorAgent) -> CodeExecutionEvent:
    """The one execution of a run."""
    messages = [message async for message in agent.run_stream(task="go")]
    (event,) = [message for message in messages if isinstance(message, CodeExecutionEvent)]
    return event


async def test_a_team_writes_and_runs_code(executor: PaddockCodeExecutor) -> None:
    model = ReplayChatCompletionClient(
        [block("python", "open('n', 'w').write('40')"), block("sh", "expr $(cat n) + 2"), "TERMINATE"]
    )
    team = RoundRobinGroupChat(
        [AssistantAgent("writer", model), CodeExecutorAgent("runner", executor)],
        termination_condition=TextMentionTermination("TERMINATE"),
    )
    result = await team.run(task="go")
    assert any("42" in str(getattr(message, "content", "")) for message in result.messages)


async def test_an_agent_writes_and_runs_code_itself(executor: PaddockCodeExecutor) -> None:
    model = ReplayChatCompletionClient([block("python", "print(6 * 7)"), "the answer is 42"])
    event = await executed(CodeExecutorAgent("coder", executor, model_client=model))
    assert (event.result.exit_code, event.result.output) == (0, "42\n")


async def test_an_agent_sees_that_code_failed(executor: PaddockCodeExecutor) -> None:
    model = ReplayChatCompletionClient([block("python", "1 / 0"), "it failed"])
    event = await executed(CodeExecutorAgent("coder", executor, model_client=model))
    assert event.result.exit_code == 1
    assert "ZeroDivisionError" in event.result.output


async def test_blocks_share_files(executor: PaddockCodeExecutor) -> None:
    result = await run(executor, ("bash", "echo shared > f"), ("python", "print(open('f').read())"))
    assert (result.exit_code, result.output) == (0, "shared\n\n")


async def test_the_first_failing_block_is_the_last(executor: PaddockCodeExecutor) -> None:
    result = await run(executor, ("sh", "echo one"), ("sh", "exit 3"), ("sh", "echo never"))
    assert (result.exit_code, result.output) == (3, "one\n")


async def test_an_unknown_language_is_told(executor: PaddockCodeExecutor) -> None:
    result = await run(executor, ("cobol", "DISPLAY 'NO'."))
    assert (result.exit_code, result.output) == (1, "unknown language cobol")


async def test_a_timeout_is_exit_code_124_with_the_output_so_far() -> None:
    async with PaddockCodeExecutor(timeout=1) as executor:
        result = await run(executor, ("sh", "echo begun; sleep 60"))
    assert (result.exit_code, result.output.splitlines()[0]) == (124, "begun")


async def test_a_cancelled_block_is_killed(executor: PaddockCodeExecutor) -> None:
    token = CancellationToken()
    blocks = [CodeBlock(code="echo $$ > pid; sleep 600", language="sh")]
    task = asyncio.create_task(executor.execute_code_blocks(blocks, token))
    await run(executor, ("sh", "until test -s pid; do sleep 0.05; done"))
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await run(executor, ("sh", "while kill -0 $(cat pid); do sleep 0.05; done"))).exit_code == 0


async def test_a_restart_begins_with_nothing(executor: PaddockCodeExecutor) -> None:
    first = executor.id
    await run(executor, ("sh", "echo x > f"))
    await executor.restart()
    assert executor.id != first
    assert (await run(executor, ("sh", "test -e f"))).exit_code == 1


async def test_stopping_kills_the_sandbox(executor: PaddockCodeExecutor) -> None:
    assert executor.id is not None
    sandbox = Sandbox.connect(executor.id)
    await executor.stop()
    await executor.stop()
    assert sandbox.info().state == "ended"


async def test_a_configuration_makes_it_again() -> None:
    dumped = PaddockCodeExecutor(timeout=7, limits={"memory": "256MiB"}).dump_component()
    loaded = CodeExecutor.load_component(dumped)
    assert isinstance(loaded, PaddockCodeExecutor)
    assert loaded.dump_component() == dumped
    async with loaded:
        assert (await run(loaded, ("sh", "echo made"))).output == "made\n"


async def test_a_full_disk_is_told() -> None:
    async with PaddockCodeExecutor(limits=SMALL_DISK) as executor:
        result = await run(executor, ("python", "open('large', 'wb').write(b'x' * (80 << 20))"))
    assert result.exit_code == 1
    assert re.search("No space left|quota exceeded", result.output)


async def test_a_dead_sandbox_raises_its_error(executor: PaddockCodeExecutor) -> None:
    assert executor.id is not None
    Sandbox.connect(executor.id).kill()
    with pytest.raises(SandboxEnded):
        await run(executor, ("sh", "true"))


async def test_an_unknown_template_raises_its_error() -> None:
    with pytest.raises(TemplateNotFound):
        await PaddockCodeExecutor(template="no-such-template").start()


async def test_a_lost_server_raises_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_URL", LOST_SERVER)
    with pytest.raises(ConnectionFailed):
        await PaddockCodeExecutor().start()


def test_a_timeout_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="timeout is 0"):
        PaddockCodeExecutor(timeout=0)


def test_a_killed_program_leaves_nothing() -> None:
    killed_maker_leaves_nothing(
        "import asyncio\n"
        "from paddock_integrations.autogen import PaddockCodeExecutor\n"
        "made = PaddockCodeExecutor(lease_seconds=LEASE)\n"
        "asyncio.run(made.start())\n"
        "print(made.id, flush=True)"
    )
