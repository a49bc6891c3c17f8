"""Claude Agent SDK with its own Claude Code, which runs in a sandbox and asks a model of the tests' own."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest
from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    CLIConnectionError,
    CLIJSONDecodeError,
    CLINotFoundError,
    Message,
    PermissionResultDeny,
    ProcessError,
    ResultMessage,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    create_sdk_mcp_server,
    query,
    tool,
)
from helpers import LOST_SERVER, killed_maker_leaves_nothing
from paddock import Sandbox
from real_server import BINARY, Server
from vendor import KEY, Vendor, vendor

from paddock_integrations.claude_agent_sdk import PaddockTransport

#: Claude Code as the package brings it.
BUNDLED = Path(claude_agent_sdk.__file__).parent / "_bundled"
GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "integrations.md"
QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
Serve = Callable[..., Vendor]


@pytest.fixture
def serve(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts the model: one entry for each request, the last one for all that follow."""
    opened: list[Any] = []

    def start(*script: dict[str, Any]) -> Vendor:
        opened.append(vendor(server, tmp_path, list(script)))
        service = opened[-1].__enter__()
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", service.url)
        return service

    yield start
    for one in opened:
        one.__exit__(None, None, None)


def shell(command: str) -> dict[str, Any]:
    return {"calls": [{"name": "Bash", "arguments": {"command": command, "description": "as asked"}}]}


def settings(**more: Any) -> ClaudeAgentOptions:
    return ClaudeAgentOptions(**{"permission_mode": "bypassPermissions", "env": QUIET, **more})


def place(service: Vendor, **more: Any) -> dict[str, Any]:
    """Options of a sandbox with Claude Code that reaches the model."""
    made = {"read": [f"{BUNDLED}:/opt/claude"], "network": service.network, "limits": {"memory": "3GiB"}}
    return {**made, "ttl_seconds": 300, **more}


def transport(service: Vendor, options: ClaudeAgentOptions, **more: Any) -> PaddockTransport:
    return PaddockTransport(options, cli_path="/opt/claude/claude", **place(service, **more))


async def said(messages: AsyncIterator[Any], heard: list[Any] | None = None) -> list[Any]:
    """All messages; in `heard` also those before an error."""
    heard = [] if heard is None else heard
    async for message in messages:
        heard.append(message)
    return heard


def results(messages: list[Message]) -> list[str]:
    """What tools gave back."""
    blocks = [block for message in messages if isinstance(message, UserMessage) for block in message.content]
    return [str(block.content) for block in blocks if isinstance(block, ToolResultBlock)]


def answer(messages: list[Message]) -> str | None:
    (last,) = [message for message in messages if isinstance(message, ResultMessage)]
    return last.result


def living() -> list[str]:
    return [one.id for one in Sandbox.list(state="running", metadata={"framework": "claude-agent-sdk"})]


async def test_claude_works_in_a_sandbox_that_ends_with_it(serve: Serve) -> None:
    service = serve(shell("echo $((6 * 7)); id -un; pwd"), {"text": "It is 42."})
    options = settings()
    messages = await said(query(prompt="What is 6 * 7?", options=options, transport=transport(service, options)))
    assert results(messages) == ["42\nagent\n/workspace"]
    assert answer(messages) == "It is 42."
    assert living() == []


async def test_the_key_stays_at_the_gate(serve: Serve) -> None:
    service = serve(shell("env; cat /proc/self/environ"), {"text": "done"})
    options = settings()
    messages = await said(query(prompt="go", options=options, transport=transport(service, options)))
    (printed,) = results(messages)
    assert "ANTHROPIC_API_KEY=paddock-secret-" in printed
    assert KEY not in str(messages)
    # The service got the real one.
    assert {one["headers"]["x-api-key"] for one in service.asked()} == {KEY}


async def test_variables_of_the_host_stay_there(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_HOST", "private")
    service = serve(shell("echo ${OF_THE_HOST:-none} $COLOUR"), {"text": "done"})
    options = settings(env={**QUIET, "COLOUR": "blue"})
    messages = await said(query(prompt="go", options=options, transport=transport(service, options)))
    assert results(messages) == ["none blue"]


async def test_permissions_are_asked_for_on_the_host(serve: Serve) -> None:
    service = serve(shell("touch forbidden"), {"text": "done"})
    asked = []

    async def decide(name: str, arguments: dict[str, Any], _context: Any) -> PermissionResultDeny:
        asked.append((name, arguments["command"]))
        return PermissionResultDeny(message="not today")

    options = settings(permission_mode="default", can_use_tool=decide)
    async with ClaudeSDKClient(options, transport(service, options)) as client:
        await client.query("go")
        messages = await said(client.receive_response())
    assert asked == [("Bash", "touch forbidden")]
    assert "not today" in results(messages)[0]


async def test_tools_of_the_host_are_called_from_inside(serve: Serve) -> None:
    @tool("double", "Doubles a number", {"number": int})
    async def double(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": str(2 * arguments["number"])}]}

    call = {"name": "mcp__own__double", "arguments": {"number": 21}}
    service = serve({"calls": [call]}, {"text": "done"})
    options = settings(mcp_servers={"own": create_sdk_mcp_server("own", tools=[double])})
    messages = await said(query(prompt="go", options=options, transport=transport(service, options)))
    assert "42" in results(messages)[0]


async def test_a_conversation_goes_on_in_its_sandbox(serve: Serve) -> None:
    service = serve(shell("echo 41 > n"), {"text": "kept"}, shell("cat n"), {"text": "read"})
    options = settings()
    async with ClaudeSDKClient(options, transport(service, options)) as client:
        await client.query("keep it")
        assert answer(await said(client.receive_response())) == "kept"
        await client.query("read it")
        messages = await said(client.receive_response())
    assert results(messages) == ["41"]
    assert living() == []


async def test_a_sandbox_of_the_caller_stays(serve: Serve) -> None:
    service = serve(shell("echo kept > file"), {"text": "done"})
    options = settings()
    secrets = {"ANTHROPIC_API_KEY": {"value": KEY, "hosts": [service.host]}}
    with Sandbox.create(**place(service, secrets=secrets)) as sandbox:
        own = PaddockTransport(options, sandbox=sandbox, cli_path="/opt/claude/claude")
        await said(query(prompt="go", options=options, transport=own))
        assert sandbox.filesystem.read("/workspace/file") == "kept\n"
        assert sandbox.exec("ps -e -o args | grep -c '[o]pt/claude'").stdout == "0\n"


async def test_a_key_in_the_options_is_refused() -> None:
    with pytest.raises(ValueError, match="ANTHROPIC_API_KEY into the sandbox"):
        PaddockTransport(ClaudeAgentOptions(env={"ANTHROPIC_API_KEY": KEY}))
    with Sandbox.create(ttl_seconds=60) as sandbox, pytest.raises(ValueError, match="made with limits"):
        PaddockTransport(sandbox=sandbox, limits={"memory": "1GiB"})


async def test_a_sandbox_without_claude_says_so() -> None:
    with pytest.raises(CLINotFoundError, match="the sandbox has no Claude Code"):
        await said(query(prompt="go", transport=PaddockTransport(cli_path="/opt/nothing", ttl_seconds=60)))
    assert living() == []


async def test_a_program_that_fails_tells_what_it_said() -> None:
    with Sandbox.create(ttl_seconds=60) as sandbox:
        sandbox.filesystem.write("/workspace/claude", "#!/bin/sh\necho broken >&2\nexit 3\n", mode=0o755)
        own = PaddockTransport(sandbox=sandbox, cli_path="/workspace/claude")
        await own.connect()
        with pytest.raises(ProcessError, match="broken") as raised:
            await said(own.read_messages())
        assert raised.value.exit_code == 3
        await own.close()


async def test_a_time_limit_comes_after_what_was_said(serve: Serve) -> None:
    service = serve(shell("tail -f /dev/null"))
    options = settings()
    limited = PaddockTransport(options, cli_path="/opt/claude/claude", timeout_seconds=8, **place(service))
    heard: list[Message] = []
    with pytest.raises(Exception, match="killed after its time limit of 8 s"):
        await said(query(prompt="go", options=options, transport=limited), heard)
    calls = [block for message in heard if isinstance(message, AssistantMessage) for block in message.content]
    assert [block.name for block in calls if isinstance(block, ToolUseBlock)] == ["Bash"]
    assert living() == []


async def test_a_time_limit_is_a_process_error() -> None:
    with Sandbox.create(ttl_seconds=60) as sandbox:
        program = '#!/bin/sh\necho \'{"type": "begun"}\'\nsleep 60\n'
        sandbox.filesystem.write("/workspace/claude", program, mode=0o755)
        own = PaddockTransport(sandbox=sandbox, cli_path="/workspace/claude", timeout_seconds=1)
        await own.connect()
        heard: list[Any] = []
        with pytest.raises(ProcessError, match="time limit of 1 s") as raised:
            await said(own.read_messages(), heard)
        assert (heard, raised.value.exit_code) == ([{"type": "begun"}], 124)
        await own.close()


async def test_a_message_that_is_too_large_or_broken_is_told() -> None:
    with Sandbox.create(ttl_seconds=60) as sandbox:
        for said_inside, reason in (
            ("head -c 100000 /dev/zero | tr '\\0' x", "more than 1000"),
            ("echo '{half'", "half"),
        ):
            sandbox.filesystem.write("/workspace/claude", f"#!/bin/sh\n{said_inside}\n", mode=0o755)
            own = PaddockTransport(
                ClaudeAgentOptions(max_buffer_size=1000), sandbox=sandbox, cli_path="/workspace/claude"
            )
            await own.connect()
            with pytest.raises(CLIJSONDecodeError, match=reason):
                await said(own.read_messages())
            await own.close()


async def test_a_dead_sandbox_ends_the_conversation() -> None:
    sandbox = Sandbox.create(ttl_seconds=60)
    sandbox.filesystem.write("/workspace/claude", "#!/bin/sh\nsleep 60\n", mode=0o755)
    own = PaddockTransport(sandbox=sandbox, cli_path="/workspace/claude")
    await own.connect()
    reading = asyncio.create_task(said(own.read_messages()))
    await asyncio.to_thread(sandbox.kill)
    with pytest.raises(CLIConnectionError):
        await reading
    with pytest.raises(CLIConnectionError):
        await own.write("{}\n")
    await own.close()
    with pytest.raises(CLIConnectionError, match="does not start in a sandbox"):
        await PaddockTransport(sandbox=sandbox).connect()


async def test_a_full_disk_is_told_to_the_model(serve: Serve) -> None:
    service = serve(shell("head -c 100000000 /dev/zero > /workspace/fill"), {"text": "It is full."})
    options = settings()
    limits = {"memory": "3GiB", "disk": "64MiB"}
    messages = await said(query(prompt="go", options=options, transport=transport(service, options, limits=limits)))
    # The command's output went to the same disk: Claude Code keeps output in files.
    assert results(messages)[0].startswith("Exit code 1")
    assert answer(messages) == "It is full."


async def test_an_unknown_template_is_told_as_such() -> None:
    with pytest.raises(CLIConnectionError, match="no-such-template"):
        await PaddockTransport(template="no-such-template").connect()


async def test_a_lost_server_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_URL", LOST_SERVER)
    with pytest.raises(CLIConnectionError, match="does not start in a sandbox"):
        await PaddockTransport().connect()


def test_the_example_of_the_guide_runs(serve: Serve, server: Server, tmp_path: Path) -> None:
    service = serve(shell("echo $((6 * 7))"), {"text": "42"})
    found = re.search(r"```python\n([^`]*PaddockTransport[^`]*)```", GUIDE.read_text())
    assert found, "the guide has no example"
    example = tmp_path / "example.py"
    example.write_text(found[1])
    template = ["template", "add", "claude", "--read", f"{BUNDLED}:/opt/claude", "--memory", "3GiB"]
    words = [
        *template,
        "--env",
        "PATH=/opt/claude:/usr/bin:/bin",
        *(f"--allow-net={to}" for to in service.network["allow"]),
    ]
    environment = {**os.environ, "PADDOCK_STATE_DIR": str(server.state)}
    subprocess.run([str(BINARY), *words], env=environment, check=True, capture_output=True)
    ran = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=False)
    assert ran.stdout == "42\n", ran.stderr
    assert living() == []


def test_a_killed_program_leaves_nothing() -> None:
    killed_maker_leaves_nothing(
        "import asyncio\n"
        "from paddock_integrations.claude_agent_sdk import PaddockTransport\n"
        "made = PaddockTransport(cli_path='/bin/cat', lease_seconds=LEASE)\n"
        "asyncio.run(made.connect())\n"
        "print(made.sandbox_id, flush=True)"
    )
