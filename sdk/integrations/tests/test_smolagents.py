"""A CodeAgent of smolagents with a scripted model, whose Python runs in a real sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from helpers import LOST_SERVER, SMALL_DISK, killed_maker_leaves_nothing
from paddock import ConnectionFailed, Sandbox, SandboxEnded, TemplateNotFound
from smolagents import CodeAgent, tool
from smolagents.local_python_executor import ExecutionTimeoutError
from smolagents.models import ChatMessage, MessageRole, Model
from smolagents.utils import AgentExecutionError

from paddock_integrations.smolagents import PaddockExecutor


class Scripted(Model):
    """Says its pieces of code one after the other."""

    def __init__(self, *codes: str) -> None:
        super().__init__(model_id="scripted")
        self._codes = list(codes)
        self.seen: list[str] = []

    def generate(self, messages: list[ChatMessage], **_options: Any) -> ChatMessage:
        self.seen.append(str(messages[-1].content))
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"<code>\n{self._codes.pop(0)}\n</code>")


@pytest.fixture
def executor() -> Iterator[PaddockExecutor]:
    with PaddockExecutor() as made:
        yield made


def agent(executor: PaddockExecutor, *codes: str, tools: Any = ()) -> CodeAgent:
    return CodeAgent(
        tools=list(tools), model=Scripted(*codes), executor=executor, max_steps=len(codes), verbosity_level=0
    )


def test_an_agent_computes_and_answers(executor: PaddockExecutor) -> None:
    assert agent(executor, "x = 6 * 7\nprint('step', x)", "final_answer(x)").run("go") == 42


def test_an_agent_answers_with_a_structure(executor: PaddockExecutor) -> None:
    answer = agent(executor, "final_answer({'list': [1, (2, 3)], 'bytes': b'\\xff', 'text': 'é'})").run("go")
    assert answer == {"list": [1, (2, 3)], "bytes": b"\xff", "text": "é"}


def test_an_agent_sees_what_its_code_printed(executor: PaddockExecutor) -> None:
    made = agent(executor, "print('visible to the model')", "final_answer(1)")
    made.run("go")
    assert "visible to the model" in made.model.seen[-1]


def test_an_agent_calls_tools_in_the_sandbox(executor: PaddockExecutor) -> None:
    @tool
    def host_name() -> str:
        """The name of the computer that it runs on."""
        import socket

        return socket.gethostname()

    assert agent(executor, "final_answer(host_name())", tools=[host_name]).run("go") == "paddock"


def test_an_agent_has_its_variables(executor: PaddockExecutor) -> None:
    answer = agent(executor, "final_answer(sum(numbers))").run("go", additional_args={"numbers": [1, 2, 3]})
    assert answer == 6


def test_an_agent_goes_on_after_an_exception(executor: PaddockExecutor) -> None:
    made = agent(executor, "print('before')\n1 / 0", "final_answer('recovered')")
    assert made.run("go") == "recovered"
    assert "ZeroDivisionError" in made.model.seen[-1]


def test_an_agent_cannot_reach_files_of_the_host(executor: PaddockExecutor, tmp_path: Any) -> None:
    (tmp_path / "secret").write_text("of the host")
    code = f"import os\nfinal_answer(os.path.exists({str(tmp_path / 'secret')!r}))"
    assert agent(executor, code).run("go") is False


def test_the_end_of_an_agent_kills_its_sandbox() -> None:
    executor = PaddockExecutor()
    with agent(executor, "final_answer(1)") as made:
        made.run("go")
        made.cleanup()
    assert Sandbox.connect(executor.sandbox.id).info().state == "ended"


def test_the_value_of_the_last_expression_is_the_output(executor: PaddockExecutor) -> None:
    output = executor("x = 2\nx + 3")
    assert (output.output, output.is_final_answer) == ("5", False)


def test_a_timeout_has_the_output_so_far() -> None:
    with PaddockExecutor(timeout_seconds=1) as executor:
        with pytest.raises(ExecutionTimeoutError, match=r"begun\n\[the command was killed after its time limit of 1 s"):
            executor("import time\nprint('begun', flush=True)\ntime.sleep(60)")


def test_an_exception_is_an_error_of_the_agent(executor: PaddockExecutor) -> None:
    with pytest.raises(AgentExecutionError, match="NameError"):
        executor("absent")


def test_an_interpreter_that_dies_is_an_error_of_the_agent(executor: PaddockExecutor) -> None:
    with pytest.raises(AgentExecutionError):
        executor("import os\nos._exit(3)")
    assert executor("1").output == "1"


def test_a_dead_sandbox_raises_its_error(executor: PaddockExecutor) -> None:
    executor.sandbox.kill()
    with pytest.raises(SandboxEnded):
        executor("1")


def test_a_full_disk_is_an_error_of_the_agent() -> None:
    with PaddockExecutor(limits=SMALL_DISK) as executor:
        with pytest.raises(AgentExecutionError, match=r"No space left|quota exceeded"):
            executor("open('large', 'wb').write(b'x' * (80 << 20))")


def test_packages_that_cannot_be_installed_leave_no_sandbox() -> None:
    before = {one.id for one in Sandbox.list(state="running")}
    with pytest.raises(AgentExecutionError, match="pip could not install"):
        PaddockExecutor(["no-such-package-of-paddock"])
    assert {one.id for one in Sandbox.list(state="running")} == before


def test_an_unknown_template_raises_its_error() -> None:
    with pytest.raises(TemplateNotFound):
        PaddockExecutor(template="no-such-template")


def test_a_lost_server_raises_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_URL", LOST_SERVER)
    with pytest.raises(ConnectionFailed):
        PaddockExecutor()


def test_a_killed_program_leaves_nothing() -> None:
    killed_maker_leaves_nothing(
        "from paddock_integrations.smolagents import PaddockExecutor\n"
        "print(PaddockExecutor(lease_seconds=LEASE).sandbox.id, flush=True)"
    )
