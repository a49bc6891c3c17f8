"""An agent of deepagents with a scripted model in a real sandbox, and what goes wrong there."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

import pytest
from deepagents import create_deep_agent
from helpers import LOST_SERVER, full_disk, killed_maker_leaves_nothing
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from paddock import ConnectionFailed, Sandbox, SandboxEnded, TemplateNotFound

from paddock_integrations.deepagents import PaddockSandbox


class Scripted(GenericFakeChatModel):
    """Says its messages one after the other, whatever tools it is given."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Scripted:
        return self


def scripted(*calls: tuple[str, dict[str, Any]]) -> Scripted:
    messages = [
        AIMessage(content="", tool_calls=[{"name": name, "args": args, "id": f"call-{number}"}])
        for number, (name, args) in enumerate(calls)
    ]
    return Scripted(messages=iter([*messages, AIMessage(content="done")]))


def outputs(answer: dict[str, Any]) -> list[str]:
    return [str(message.content) for message in answer["messages"] if isinstance(message, ToolMessage)]


ASKED = {"messages": [{"role": "user", "content": "go"}]}


@pytest.fixture
def backend() -> Iterator[PaddockSandbox]:
    with PaddockSandbox() as made:
        yield made


def test_an_agent_runs_commands(backend: PaddockSandbox) -> None:
    model = scripted(("execute", {"command": "echo 40 > n; expr $(cat n) + 2"}), ("execute", {"command": "cat n"}))
    answer = create_deep_agent(model, backend=backend).invoke(ASKED)
    first, second = outputs(answer)
    assert "42" in first
    assert "40" in second
    assert answer["messages"][-1].content == "done"


def test_an_agent_writes_reads_edits_and_searches_files(backend: PaddockSandbox) -> None:
    model = scripted(
        ("write_file", {"file_path": "/workspace/a.py", "content": "x = 1\n"}),
        ("edit_file", {"file_path": "/workspace/a.py", "old_string": "1", "new_string": "2"}),
        ("read_file", {"file_path": "/workspace/a.py"}),
        ("grep", {"pattern": "x = 2", "path": "/workspace"}),
        ("execute", {"command": "python3 -c 'import a; print(a.x * 100)'"}),
    )
    said = outputs(create_deep_agent(model, backend=backend).invoke(ASKED))
    assert "x = 2" in said[2]
    assert "a.py" in said[3]
    assert "200" in said[4]


async def test_an_agent_in_an_event_loop(backend: PaddockSandbox) -> None:
    model = scripted(("write_file", {"file_path": "/workspace/b", "content": "b"}), ("execute", {"command": "cat b"}))
    said = outputs(await create_deep_agent(model, backend=backend).ainvoke(ASKED))
    assert said[1].startswith("b")


def test_large_output_of_an_agent_is_kept_in_the_sandbox(backend: PaddockSandbox) -> None:
    model = scripted(("execute", {"command": "seq 1 200000"}))
    said = outputs(create_deep_agent(model, backend=backend).invoke(ASKED))[0]
    assert len(said) < 200_000
    assert "199999" in backend.sandbox.exec("tail -n 3 /large_tool_results/*").stdout


def test_both_streams_come_in_the_order_of_printing(backend: PaddockSandbox) -> None:
    answer = backend.execute("echo one; echo two >&2; echo three; exit 3")
    assert (answer.output, answer.exit_code) == ("one\ntwo\nthree\n", 3)


def test_a_timeout_is_exit_code_124_with_the_output_so_far(backend: PaddockSandbox) -> None:
    answer = backend.execute("echo begun; sleep 60", timeout=1)
    assert answer.exit_code == 124
    assert answer.output == "begun\n[the command was killed after its time limit of 1 s]"


async def test_the_same_in_an_event_loop(backend: PaddockSandbox) -> None:
    answer = await backend.aexecute("echo begun; sleep 60", timeout=1)
    assert (answer.exit_code, answer.output.splitlines()[0]) == (124, "begun")


def test_a_timeout_below_zero_is_refused(backend: PaddockSandbox) -> None:
    with pytest.raises(ValueError, match="timeout is -1"):
        backend.execute("true", timeout=-1)


def test_files_that_cannot_be_moved_have_an_error_each(backend: PaddockSandbox) -> None:
    up = backend.upload_files([("/workspace/ok", b"1"), ("relative", b"2"), ("/usr/no", b"3"), ("/tmp", b"4")])
    assert [one.error for one in up] == [None, "invalid_path", "permission_denied", "is_directory"]
    down = backend.download_files(["/workspace/ok", "/workspace/none", "/tmp", "relative"])
    assert [one.error for one in down] == [None, "file_not_found", "is_directory", "invalid_path"]
    assert down[0].content == b"1"


def test_a_full_disk_is_told(backend: PaddockSandbox) -> None:
    with full_disk() as sandbox:
        (answer,) = PaddockSandbox(sandbox).upload_files([("/workspace/more", b"x" * (8 << 20))])
    assert answer.error is not None
    assert "disk_full" in answer.error


def test_a_dead_sandbox_raises_its_error(backend: PaddockSandbox) -> None:
    backend.sandbox.kill()
    with pytest.raises(SandboxEnded):
        backend.execute("true")


def test_an_unknown_template_raises_its_error() -> None:
    with pytest.raises(TemplateNotFound):
        PaddockSandbox(template="no-such-template")


def test_a_lost_server_raises_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_URL", LOST_SERVER)
    with pytest.raises(ConnectionFailed):
        PaddockSandbox()


def test_a_sandbox_that_was_handed_over_is_left_alone() -> None:
    with Sandbox.create(ttl_seconds=300) as sandbox:
        with PaddockSandbox(sandbox) as backend:
            assert backend.id == sandbox.id
        assert sandbox.info().state == "running"


def test_options_of_a_sandbox_that_exists_are_refused(backend: PaddockSandbox) -> None:
    with pytest.raises(ValueError, match="template cannot be chosen"):
        PaddockSandbox(backend.sandbox, template="other")


def test_a_killed_program_leaves_nothing() -> None:
    killed_maker_leaves_nothing(
        "from paddock_integrations.deepagents import PaddockSandbox\n"
        "print(PaddockSandbox(lease_seconds=LEASE).id, flush=True)"
    )


def test_deep_agents_code_finds_the_provider() -> None:
    registry = pytest.importorskip("deepagents_code.integrations.sandbox_registry").SandboxRegistry.load()
    assert "paddock" in registry.available_providers()
    assert registry.provider_metadata("paddock").working_dir == "/workspace"
    provider = registry.create_provider("paddock")
    made = provider.get_or_create()
    again = provider.get_or_create(sandbox_id=made.id)
    assert made.execute("echo kept > f").exit_code == 0
    assert again.execute("cat f").output == "kept\n"
    provider.delete(sandbox_id=made.id)
    provider.delete(sandbox_id=made.id)
    with pytest.raises(type(provider).get_or_create.__globals__["SandboxNotFoundError"]):
        provider.get_or_create(sandbox_id=made.id)


def test_the_provider_of_deep_agents_code_has_its_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    integrations = pytest.importorskip("deepagents_code.integrations.sandbox_registry")
    error = pytest.importorskip("deepagents_code.integrations.sandbox_provider").SandboxError
    provider = integrations.SandboxRegistry.load().create_provider("paddock")
    with pytest.raises(error, match="no-such-template"):
        provider.get_or_create(template="no-such-template")
    monkeypatch.setenv("PADDOCK_URL", LOST_SERVER)
    with pytest.raises(error, match="no server listens"):
        provider.get_or_create()
    with pytest.raises(error, match="no server listens"):
        provider.delete(sandbox_id="sb-0000000000000000")


def test_the_entry_point_is_installed() -> None:
    (found,) = entry_points(group="deepagents_code.sandbox_providers", name="paddock")
    assert found.value == "paddock_integrations.deepagents_code:PaddockProvider"
