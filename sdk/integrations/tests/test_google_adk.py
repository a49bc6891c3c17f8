"""An agent of Google's ADK with a scripted model and its environment toolset in a real sandbox."""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.environment import EnvironmentToolset
from google.genai import types
from helpers import LOST_SERVER, SMALL_DISK, killed_maker_leaves_nothing
from paddock import ConnectionFailed, Sandbox, SandboxEnded, TemplateNotFound

from paddock_integrations.google_adk import PaddockEnvironment


class Scripted(BaseLlm):
    """Calls its tools one after the other, and then says `done`."""

    calls: list[tuple[str, dict[str, Any]]]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        parts = [part for content in llm_request.contents for part in content.parts or []]
        said = sum(part.function_response is not None for part in parts)
        part = types.Part(text="done")
        if said < len(self.calls):
            name, arguments = self.calls[said]
            part = types.Part(function_call=types.FunctionCall(name=name, args=arguments))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def run(environment: PaddockEnvironment, *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """What the tools answered."""
    agent = LlmAgent(
        name="worker",
        model=Scripted(model="scripted", calls=list(calls)),
        tools=[EnvironmentToolset(environment=environment)],
    )
    runner = InMemoryRunner(agent=agent, app_name="tests")
    session = await runner.session_service.create_session(app_name="tests", user_id="u")
    answers: list[dict[str, Any]] = []
    message = types.Content(role="user", parts=[types.Part(text="go")])
    async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message):
        for part in event.content.parts if event.content else []:
            if part.function_response is not None:
                answers.append(dict(part.function_response.response or {}))
    return answers


@pytest.fixture
async def environment() -> AsyncIterator[PaddockEnvironment]:
    made = PaddockEnvironment()
    await made.initialize()
    yield made
    await made.close()


async def test_an_agent_runs_commands(environment: PaddockEnvironment) -> None:
    answers = await run(
        environment, ("Execute", {"command": "echo 40 > n"}), ("Execute", {"command": "expr $(cat n) + 2"})
    )
    assert "42" in str(answers[1])


async def test_an_agent_writes_edits_and_reads_files(environment: PaddockEnvironment) -> None:
    answers = await run(
        environment,
        ("WriteFile", {"path": "a.py", "content": "x = 1\n"}),
        ("EditFile", {"path": "a.py", "old_string": "1", "new_string": "2"}),
        ("ReadFile", {"path": "a.py"}),
        ("Execute", {"command": "python3 -c 'import a; print(a.x * 50)'"}),
    )
    assert "x = 2" in str(answers[2])
    assert "100" in str(answers[3])


async def test_an_agent_sees_that_a_command_failed(environment: PaddockEnvironment) -> None:
    (answer,) = await run(environment, ("Execute", {"command": "echo no >&2; exit 4"}))
    assert "4" in str(answer)
    assert "no" in str(answer)


async def test_an_agent_is_told_of_a_dead_sandbox(environment: PaddockEnvironment) -> None:
    Sandbox.connect(environment.id).kill()
    (answer,) = await run(environment, ("Execute", {"command": "true"}))
    assert "sandbox_ended" in str(answer)


async def test_the_toolset_makes_the_sandbox() -> None:
    environment = PaddockEnvironment()
    (answer,) = await run(environment, ("Execute", {"command": "hostname"}))
    assert "paddock" in str(answer)
    await environment.close()


async def test_the_working_directory_is_the_commands_own(environment: PaddockEnvironment) -> None:
    assert (await environment.execute("pwd")).stdout == f"{environment.working_dir}\n"


async def test_a_timeout_has_the_output_so_far(environment: PaddockEnvironment) -> None:
    result = await environment.execute("echo begun; sleep 60", timeout=1)
    assert (result.timed_out, result.exit_code, result.stdout) == (True, 124, "begun\n")


async def test_files_are_written_through_links(environment: PaddockEnvironment) -> None:
    await environment.write_file(Path("sub/target"), "old")
    await environment.execute("ln -s sub/target link")
    await environment.write_file(Path("link"), b"new")
    assert await environment.read_file(Path("/workspace/sub/target")) == b"new"


async def test_a_missing_file_is_not_found(environment: PaddockEnvironment) -> None:
    with pytest.raises(FileNotFoundError):
        await environment.read_file(Path("absent"))


async def test_a_full_disk_is_no_space_left() -> None:
    environment = PaddockEnvironment(limits=SMALL_DISK)
    await environment.initialize()
    with pytest.raises(OSError, match="large") as raised:
        await environment.write_file(Path("large"), b"x" * (80 << 20))
    assert raised.value.errno == errno.ENOSPC
    await environment.close()


async def test_closing_kills_the_sandbox_and_can_be_repeated(environment: PaddockEnvironment) -> None:
    sandbox_id = environment.id
    await environment.close()
    await environment.close()
    assert Sandbox.connect(sandbox_id).info().state == "ended"
    with pytest.raises(RuntimeError, match="initialize"):
        await environment.execute("true")


async def test_a_dead_sandbox_raises_its_error(environment: PaddockEnvironment) -> None:
    Sandbox.connect(environment.id).kill()
    with pytest.raises(SandboxEnded):
        await environment.execute("true")


async def test_an_unknown_template_raises_its_error() -> None:
    with pytest.raises(TemplateNotFound):
        await PaddockEnvironment(template="no-such-template").initialize()


async def test_a_lost_server_raises_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_URL", LOST_SERVER)
    with pytest.raises(ConnectionFailed):
        await PaddockEnvironment().initialize()


def test_a_killed_program_leaves_nothing() -> None:
    killed_maker_leaves_nothing(
        "import asyncio\n"
        "from paddock_integrations.google_adk import PaddockEnvironment\n"
        "made = PaddockEnvironment(lease_seconds=LEASE)\n"
        "asyncio.run(made.initialize())\n"
        "print(made.id, flush=True)"
    )
