"""The deployment of SWE-ReX: below the loop of mini-swe-agent, and as SWE-agent drives it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import LOST_SERVER, SMALL_DISK, killed_maker_leaves_nothing
from paddock import Sandbox, SandboxEnded
from swerex.exceptions import (
    BashIncorrectSyntaxError,
    CommandTimeoutError,
    DeploymentNotStartedError,
    DeploymentStartupError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
    SwerexException,
)
from swerex.runtime.abstract import (
    BashAction,
    BashInterruptAction,
    CloseBashSessionRequest,
    Command,
    CreateBashSessionRequest,
    ReadFileRequest,
    UploadRequest,
    WriteFileRequest,
)

from paddock_integrations.swe_rex import PaddockDeployment, PaddockRuntime


@pytest.fixture
async def deployment() -> AsyncIterator[PaddockDeployment]:
    made = PaddockDeployment()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def shell(deployment: PaddockDeployment) -> PaddockRuntime:
    await deployment.runtime.create_session(CreateBashSessionRequest())
    return deployment.runtime


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """mini-swe-agent's own environment over SWE-ReX, with our deployment in the place of the one of Docker."""
    monkeypatch.setenv("MSWEA_SILENT_STARTUP", "1")
    from minisweagent.environments.extra import swerex_docker

    monkeypatch.setattr(swerex_docker, "DockerDeployment", lambda image: PaddockDeployment(template=image))
    made = swerex_docker.SwerexDockerEnvironment(image="code-interpreter", cwd="/workspace", timeout=60)
    yield made
    asyncio.run(made.deployment.stop())


def solve(environment: Any, *commands: str) -> tuple[dict[str, Any], list[str]]:
    """What mini-swe-agent submits with a scripted model, and what the model was told of its commands."""
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.models.test_models import DeterministicModel, make_output

    model = DeterministicModel(outputs=[make_output("go on", [{"command": command}]) for command in commands])
    agent = DefaultAgent(
        model, environment, system_template="You fix bugs.", instance_template="{{task}}", cost_limit=0
    )
    submitted = agent.run("Fix the bug.")
    return submitted, [str(one["content"]) for one in agent.messages if one["role"] == "user"][1:]


SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def test_an_agent_fixes_a_bug(environment: Any) -> None:
    submitted, told = solve(
        environment,
        "printf 'def add(a, b):\n    return a - b\n' > sum.py; python3 -B -c 'import sum; print(sum.add(40, 2))'",
        "sed -i 's/-/+/' sum.py; python3 -B -c 'import sum; print(sum.add(40, 2))'",
        f"{SUBMIT}; cat sum.py",
    )
    assert "38" in told[0]
    assert "42" in told[1]
    assert submitted["exit_status"] == "Submitted"
    assert "return a + b" in submitted["submission"]


def test_an_agent_sees_what_failed_and_what_took_too_long(environment: Any) -> None:
    environment.config.timeout = 5
    submitted, told = solve(environment, "echo no >&2; exit 3", "echo begun; sleep 60", SUBMIT)
    assert "<returncode>3</returncode>" in told[0]
    assert "no" in told[0]
    assert "begun" in told[1]
    assert "time limit of 5 s" in told[1]
    assert submitted["exit_status"] == "Submitted"


def test_an_agent_is_told_of_a_dead_sandbox(environment: Any) -> None:
    Sandbox.connect(environment.deployment.sandbox_id).kill()
    assert environment.execute({"command": "true"})["extra"]["exception_type"] == "SandboxEnded"


async def test_a_session_remembers(shell: PaddockRuntime) -> None:
    await shell.run_in_session(BashAction(command="cd /tmp; export A=42; f() { echo called; }"))
    observed = await shell.run_in_session(BashAction(command="f; echo $A $PWD"))
    assert (observed.output, observed.exit_code) == ("called\n42 /tmp\n", 0)


async def test_both_streams_come_in_the_order_of_printing(shell: PaddockRuntime) -> None:
    observed = await shell.run_in_session(BashAction(command="echo one; echo two >&2; echo three"))
    assert observed.output == "one\ntwo\nthree\n"


async def test_a_command_of_several_lines_and_a_comment(shell: PaddockRuntime) -> None:
    observed = await shell.run_in_session(BashAction(command="cat <<END\ntext\nEND\necho x # the end"))
    assert observed.output == "text\nx\n"


async def test_a_failing_command_is_told_as_asked(shell: PaddockRuntime) -> None:
    with pytest.raises(NonZeroExitCodeError, match=r"it broke: .* exit code 3"):
        await shell.run_in_session(BashAction(command="(exit 3)", error_msg="it broke"))
    assert (await shell.run_in_session(BashAction(command="(exit 3)", check="silent"))).exit_code == 3
    assert (await shell.run_in_session(BashAction(command="(exit 3)", check="ignore"))).exit_code is None


async def test_wrong_syntax_is_told(shell: PaddockRuntime) -> None:
    with pytest.raises(BashIncorrectSyntaxError):
        await shell.run_in_session(BashAction(command="if then"))


async def test_a_timeout_has_the_output_so_far_and_leaves_the_session(shell: PaddockRuntime) -> None:
    await shell.run_in_session(BashAction(command="A=kept"))
    with pytest.raises(CommandTimeoutError, match="begun\n"):
        await shell.run_in_session(BashAction(command="echo begun; sleep 60", timeout=1))
    assert (await shell.run_in_session(BashAction(command="echo $A"))).output == "kept\n"


async def test_a_command_is_interrupted(shell: PaddockRuntime) -> None:
    running = asyncio.create_task(shell.run_in_session(BashAction(command="touch begun; sleep 600", check="silent")))
    await shell.execute(Command(command="until test -e begun; do sleep 0.05; done", shell=True, timeout=60))
    await shell.run_in_session(BashInterruptAction(timeout=30))
    assert (await running).exit_code == 130
    assert (await shell.run_in_session(BashAction(command="echo alive"))).output == "alive\n"


async def test_an_interactive_program_is_driven_by_what_it_prints(shell: PaddockRuntime) -> None:
    await shell.run_in_session(BashAction(command="cd /tmp; export A=set"))
    asked = {"is_interactive_command": True, "expect": [r">>> $"], "timeout": 60}
    begun = await shell.run_in_session(BashAction(command="python3 -q", **asked))
    assert begun.expect_string == r">>> $"
    told = await shell.run_in_session(
        BashAction(command="import os; print(6 * 7, os.environ['A'], os.getcwd())", **asked)
    )
    assert told.output.splitlines()[-1] == "42 set /tmp"
    left = await shell.run_in_session(BashAction(command="quit()", is_interactive_quit=True, timeout=60))
    assert (left.expect_string, left.exit_code) == ("", 0)
    assert (await shell.run_in_session(BashAction(command="echo $A"))).output == "set\n"


async def test_an_expected_text_is_waited_for_and_the_program_answered(shell: PaddockRuntime) -> None:
    command = "read -p 'your name? ' name; echo hello $name"
    asked = await shell.run_in_session(BashAction(command=command, expect=[r"name\? "], timeout=60))
    assert (asked.expect_string, asked.exit_code, asked.output) == (r"name\? ", None, "your ")
    told = await shell.run_in_session(BashAction(command="world", is_interactive_quit=True, timeout=60))
    assert told.output.endswith("hello world")
    assert (await shell.run_in_session(BashAction(command="echo $name"))).output == "world\n"


async def test_an_interactive_program_that_says_nothing_times_out(shell: PaddockRuntime) -> None:
    action = BashAction(command="echo begun; cat", is_interactive_command=True, expect=["never"], timeout=1)
    with pytest.raises(CommandTimeoutError, match="begun"):
        await shell.run_in_session(action)
    assert (await shell.run_in_session(BashInterruptAction(timeout=30))).exit_code == 0
    assert (await shell.run_in_session(BashAction(command="echo alive"))).output == "alive\n"


async def test_a_program_that_ignores_interrupts_is_killed(shell: PaddockRuntime) -> None:
    program = "trap 'echo no' INT; echo begun; while :; do sleep 0.1; done"
    begun = BashAction(command=f'bash -c "{program}"', is_interactive_command=True, expect=["begun"], timeout=60)
    await shell.run_in_session(begun)
    assert (await shell.run_in_session(BashInterruptAction(timeout=0.5, n_retry=2))).exit_code == 0
    told = await shell.run_in_session(BashAction(command='test -z "$(jobs -p)" && echo gone', timeout=60))
    assert told.output.endswith("gone\n")


async def test_a_long_command_and_one_with_control_characters(shell: PaddockRuntime) -> None:
    long = "x" * 10_000
    assert (await shell.run_in_session(BashAction(command=f"printf {long}"))).output == long
    assert (await shell.run_in_session(BashAction(command="printf '\x03' | od -An -tx1"))).output.strip() == "03"
    with pytest.raises(ValueError, match="3500 bytes"):
        await shell.run_in_session(BashAction(command=long, is_interactive_command=True))


async def test_a_prompt_of_the_commands_own_changes_nothing(shell: PaddockRuntime) -> None:
    await shell.run_in_session(BashAction(command="PS1='mine> '; PS2='more> '"))
    observed = await shell.run_in_session(BashAction(command="echo one\necho two"))
    assert observed.output == "one\ntwo\n"


async def test_sessions_are_apart(shell: PaddockRuntime) -> None:
    await shell.create_session(CreateBashSessionRequest(session="other"))
    await shell.run_in_session(BashAction(command="A=1", session="other"))
    assert (await shell.run_in_session(BashAction(command="echo [$A]"))).output == "[]\n"
    with pytest.raises(SessionExistsError):
        await shell.create_session(CreateBashSessionRequest(session="other"))
    await shell.close_session(CloseBashSessionRequest(session="other"))
    with pytest.raises(SessionDoesNotExistError):
        await shell.run_in_session(BashAction(command="true", session="other"))


async def test_a_session_sources_files(deployment: PaddockDeployment) -> None:
    runtime = deployment.runtime
    await runtime.write_file(WriteFileRequest(path="/workspace/rc", content="A=sourced; echo hello"))
    made = await runtime.create_session(CreateBashSessionRequest(startup_source=["/workspace/rc"], startup_timeout=30))
    assert made.output == "hello\n"
    assert (await runtime.run_in_session(BashAction(command="echo $A"))).output == "sourced\n"


async def test_the_start_of_a_session_is_bounded(deployment: PaddockDeployment) -> None:
    runtime = deployment.runtime
    await runtime.write_file(WriteFileRequest(path="/workspace/rc", content="echo begun; sleep 600"))
    with pytest.raises(CommandTimeoutError, match=r"begun\n.*not ready within 5 s"):
        await runtime.create_session(CreateBashSessionRequest(startup_source=["/workspace/rc"], startup_timeout=5))
    assert (await runtime.execute(Command(command="pgrep -x sleep", shell=True))).stdout == ""
    await runtime.create_session(CreateBashSessionRequest())
    await runtime.write_file(WriteFileRequest(path="/workspace/rc", content="exit 3"))
    with pytest.raises(SwerexException, match="ended with 3"):
        await runtime.create_session(CreateBashSessionRequest(session="b", startup_source=["/workspace/rc"]))


async def test_a_shell_that_exits_ends_its_session(shell: PaddockRuntime) -> None:
    assert (await shell.run_in_session(BashAction(command="exit 4", check="silent"))).exit_code == 4
    with pytest.raises(SessionDoesNotExistError):
        await shell.run_in_session(BashAction(command="true"))


async def test_commands_run_without_a_session(deployment: PaddockDeployment) -> None:
    runtime = deployment.runtime
    answer = await runtime.execute(
        Command(command=["sh", "-c", "echo $A; pwd >&2; exit 3"], env={"A": "b"}, cwd="/tmp")
    )
    assert (answer.stdout, answer.stderr, answer.exit_code) == ("b\n", "/tmp\n", 3)
    merged = await runtime.execute(Command(command="echo a >&2; echo b", shell=True, merge_output_streams=True))
    assert (merged.stdout, merged.stderr) == ("a\nb\n", "")
    with pytest.raises(NonZeroExitCodeError):
        await runtime.execute(Command(command=["false"], check=True))
    with pytest.raises(CommandTimeoutError, match="begun"):
        await runtime.execute(Command(command="echo begun; sleep 60", shell=True, timeout=1))


async def test_files_and_directories_are_moved(deployment: PaddockDeployment, tmp_path: Path) -> None:
    runtime = deployment.runtime
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "f").write_text("é")
    await runtime.upload(UploadRequest(source_path=str(tmp_path), target_path="/workspace/up"))
    assert (await runtime.read_file(ReadFileRequest(path="/workspace/up/sub/f"))).content == "é"
    with pytest.raises(FileNotFoundError):
        await runtime.read_file(ReadFileRequest(path="/workspace/absent"))
    with pytest.raises(ValueError, match="not a file or directory"):
        await runtime.upload(UploadRequest(source_path=str(tmp_path / "absent"), target_path="/workspace/x"))


async def test_a_deployment_tells_of_its_life(deployment: PaddockDeployment) -> None:
    assert bool(await deployment.is_alive())
    assert deployment.sandbox_id is not None
    Sandbox.connect(deployment.sandbox_id).kill()
    answer = await deployment.is_alive()
    assert not answer
    assert "ended" in answer.message
    with pytest.raises(SandboxEnded):
        await deployment.runtime.execute(Command(command=["true"]))
    await deployment.stop()
    with pytest.raises(DeploymentNotStartedError):
        await deployment.is_alive()


async def test_a_full_disk_is_an_error() -> None:
    deployment = PaddockDeployment(limits=SMALL_DISK)
    await deployment.start()
    with pytest.raises(OSError, match="large"):
        await deployment.runtime.write_file(WriteFileRequest(path="/workspace/large", content="x" * (80 << 20)))
    await deployment.stop()


async def test_a_start_that_fails_has_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeploymentStartupError, match="no-such-template"):
        await PaddockDeployment(template="no-such-template").start()
    monkeypatch.setenv("PADDOCK_URL", LOST_SERVER)
    with pytest.raises(DeploymentStartupError, match="no server listens"):
        await PaddockDeployment().start()


async def test_a_start_is_bounded_by_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    # A server that takes requests and answers none.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("PADDOCK_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        deployment = PaddockDeployment(startup_timeout=0.2)
        with pytest.raises(TimeoutError, match=r"did not start within 0\.2s"):
            await deployment.start()
    with pytest.raises(DeploymentNotStartedError):
        await deployment.is_alive()
    await deployment.stop()
    assert deployment.sandbox_id is None


async def test_a_sandbox_that_comes_after_the_timeout_is_killed() -> None:
    # Nothing is made in a millionth of a second.
    deployment = PaddockDeployment(startup_timeout=1e-6, metadata={"test": "late"})
    with pytest.raises(TimeoutError, match="did not start"):
        await deployment.start()
    await deployment.stop()
    assert [one.id for one in Sandbox.list(metadata={"test": "late"}) if one.state != "ended"] == []
    # Within its time it starts as ever.
    deployment = PaddockDeployment(startup_timeout=600)
    await deployment.start()
    assert await deployment.is_alive()
    await deployment.stop()


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_start_that_has_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="startup_timeout"):
        PaddockDeployment(startup_timeout=seconds)


def test_a_killed_program_leaves_nothing() -> None:
    killed_maker_leaves_nothing(
        "import asyncio\n"
        "from paddock_integrations.swe_rex import PaddockDeployment\n"
        "made = PaddockDeployment(lease_seconds=LEASE)\n"
        "asyncio.run(made.start())\n"
        "print(made.sandbox_id, flush=True)"
    )
