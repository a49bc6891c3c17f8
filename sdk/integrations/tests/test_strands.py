"""An agent of Strands with a scripted model, whose shell and editor work in a real sandbox."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from helpers import LOST_SERVER, SMALL_DISK, killed_maker_leaves_nothing
from paddock import ConnectionFailed, Sandbox, SandboxEnded, TemplateNotFound
from strands import Agent
from strands.models import Model
from strands.sandbox import StreamChunk
from strands.sandbox.errors import SandboxPathNotFoundError, SandboxTimeoutError

from paddock_integrations.strands import PaddockSandbox


class Scripted(Model):
    """Calls its tools one after the other, and then says `done`."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self._calls = list(calls)
        self._number = 0

    def update_config(self, **_config: Any) -> None: ...

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *_arguments: Any, **_options: Any) -> Any:
        raise NotImplementedError("the tests ask for none")

    async def stream(self, messages: Any, *_rest: Any, **_options: Any) -> AsyncIterator[Any]:
        yield {"messageStart": {"role": "assistant"}}
        if self._number < len(self._calls):
            name, arguments = self._calls[self._number]
            self._number += 1
            yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": f"call-{self._number}"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "tool_use"}}
        else:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}


async def run(sandbox: PaddockSandbox, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    """What the tools answered."""
    agent = Agent(model=Scripted(*calls), sandbox=sandbox, callback_handler=None)
    answer = await agent.invoke_async("go")
    assert "done" in str(answer)
    blocks = [block for message in agent.messages for block in message["content"]]
    return [str(block["toolResult"]) for block in blocks if "toolResult" in block]


@pytest.fixture
async def sandbox() -> AsyncIterator[PaddockSandbox]:
    async with PaddockSandbox() as made:
        yield made


async def test_an_agent_runs_commands(sandbox: PaddockSandbox) -> None:
    calls = [("sandbox_shell", {"command": "echo 40 > n"}), ("sandbox_shell", {"command": "expr $(cat n) + 2"})]
    assert "42" in (await run(sandbox, *calls))[1]


async def test_an_agent_edits_files(sandbox: PaddockSandbox) -> None:
    path = "/workspace/a.py"
    said = await run(
        sandbox,
        ("sandbox_file_editor", {"command": "create", "path": path, "file_text": "x = 1\n"}),
        ("sandbox_file_editor", {"command": "str_replace", "path": path, "old_str": "1", "new_str": "2"}),
        ("sandbox_shell", {"command": "python3 -c 'import a; print(a.x * 50)'"}),
    )
    assert "100" in said[2]


async def test_an_agent_sees_that_a_command_failed(sandbox: PaddockSandbox) -> None:
    (said,) = await run(sandbox, ("sandbox_shell", {"command": "echo no >&2; exit 4"}))
    assert "no" in said


async def test_an_agent_is_told_of_a_dead_sandbox(sandbox: PaddockSandbox) -> None:
    await sandbox.aclose()
    (said,) = await run(sandbox, ("sandbox_shell", {"command": "true"}))
    assert "error" in said
    assert "ended" in said


def test_an_agent_without_an_event_loop() -> None:
    sandbox = PaddockSandbox()
    agent = Agent(model=Scripted(("sandbox_shell", {"command": "hostname"})), sandbox=sandbox, callback_handler=None)
    agent("go")
    assert "paddock" in str(agent.messages)
    sandbox.close()


async def test_output_is_streamed(sandbox: PaddockSandbox) -> None:
    chunks = [chunk async for chunk in sandbox.execute_streaming("echo out; echo err >&2; exit 3")]
    streams = {chunk.stream_type: chunk.data for chunk in chunks if isinstance(chunk, StreamChunk)}
    assert streams == {"stdout": "out\n", "stderr": "err\n"}
    assert (chunks[-1].exit_code, chunks[-1].stdout) == (3, "out\n")


async def test_code_of_a_language_runs(sandbox: PaddockSandbox) -> None:
    assert (await sandbox.execute_code("print(6 * 7)", "python")).stdout == "42\n"
    assert (await sandbox.execute_code("x", "no-such-language")).exit_code == 127


async def test_typed_code_runs(sandbox: PaddockSandbox) -> None:
    code = (
        "interface A { n: number }\nconst a: A = { n: 42 };\nconsole.log(a.n as number, process.env.A, process.cwd())"
    )
    result = await sandbox.execute_code(code, "typescript", cwd="/tmp", env={"A": "set"})
    assert (result.exit_code, result.stdout) == (0, "42 set /tmp\n")
    failed = await sandbox.execute_code("const a: number = 1;\nthrow new Error('it broke')", "typescript")
    assert failed.exit_code != 0
    assert "it broke" in failed.stderr
    with pytest.raises(SandboxTimeoutError) as late:
        await sandbox.execute_code("console.log('begun'); while (true) {}", "typescript", timeout=1)
    assert late.value.stdout == "begun\n"
    # Each is a program of its own.
    assert "a is not defined" in (await sandbox.execute_code("console.log(a)", "typescript")).stderr


async def test_a_command_has_its_directory_and_variables(sandbox: PaddockSandbox) -> None:
    await sandbox.execute("mkdir sub")
    assert (await sandbox.execute("echo $A $PWD", cwd="sub", env={"A": "b"})).stdout == "b /workspace/sub\n"


async def test_files_are_written_listed_and_removed(sandbox: PaddockSandbox) -> None:
    await sandbox.write_file("sub/f", b"\0\xff")
    assert await sandbox.read_file("/workspace/sub/f") == b"\0\xff"
    assert [(one.name, one.is_dir, one.size) for one in await sandbox.list_files("sub")] == [("f", False, 2)]
    await sandbox.remove_file("sub/f")
    for operation in (sandbox.read_file("sub/f"), sandbox.remove_file("sub/f")):
        with pytest.raises(FileNotFoundError):
            await operation
    with pytest.raises(SandboxPathNotFoundError):
        await sandbox.list_files("absent")


async def test_a_timeout_has_the_output_so_far(sandbox: PaddockSandbox) -> None:
    with pytest.raises(SandboxTimeoutError) as raised:
        await sandbox.execute("echo begun; sleep 60", timeout=1)
    assert raised.value.stdout == "begun\n"


async def test_a_cancelled_command_is_killed(sandbox: PaddockSandbox) -> None:
    task = asyncio.create_task(sandbox.execute("echo $$ > pid; sleep 600"))
    await sandbox.execute("until test -s pid; do sleep 0.05; done", timeout=30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await sandbox.execute("while kill -0 $(cat pid); do sleep 0.05; done", timeout=30)).exit_code == 0


async def test_a_full_disk_is_no_space_left() -> None:
    async with PaddockSandbox(limits=SMALL_DISK) as sandbox:
        with pytest.raises(OSError, match="large") as raised:
            await sandbox.write_file("large", b"x" * (80 << 20))
        assert raised.value.errno == errno.ENOSPC


async def test_a_dead_sandbox_raises_its_error(sandbox: PaddockSandbox) -> None:
    Sandbox.connect(sandbox.id).kill()
    with pytest.raises(SandboxEnded):
        await sandbox.execute("true")


def test_an_unknown_template_raises_its_error() -> None:
    with pytest.raises(TemplateNotFound):
        PaddockSandbox(template="no-such-template")


def test_a_lost_server_raises_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_URL", LOST_SERVER)
    with pytest.raises(ConnectionFailed):
        PaddockSandbox()


def test_a_killed_program_leaves_nothing() -> None:
    killed_maker_leaves_nothing(
        "from paddock_integrations.strands import PaddockSandbox\n"
        "print(PaddockSandbox(lease_seconds=LEASE).id, flush=True)"
    )
