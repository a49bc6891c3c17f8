"""Inspect's evaluations with its scripted model, and what goes wrong in their sandboxes."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from helpers import LOST_SERVER, SMALL_DISK, ends, killed_maker_leaves_nothing
from inspect_ai import Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, Scorer, accuracy, scorer
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash, python
from inspect_ai.util import OutputLimitExceededError, SandboxEnvironmentSpec, sandbox
from inspect_ai.util._sandbox.environment import SandboxUnavailableError
from paddock import AsyncSandbox, AsyncTemplates, ConnectionFailed, Forbidden, Sandbox, TemplateNotFound

from paddock_integrations._lease import KEEPER
from paddock_integrations.inspect import PaddockConfig, PaddockSandboxEnvironment, read_config

MODEL = "mockllm/model"


def scripted(*calls: tuple[str, dict[str, Any]]) -> Any:
    """One model for all samples: each of them begins anew with the first call."""

    def answer(messages: Any, *_rest: Any) -> ModelOutput:
        said = sum(message.role == "tool" for message in messages)
        output = ModelOutput.from_content(MODEL, "done")
        if said < len(calls):
            output = ModelOutput.for_tool_call(MODEL, *calls[said])
        # Without it Inspect would count, with a vocabulary from the internet.
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    return get_model(MODEL, custom_outputs=answer)


@scorer(metrics=[accuracy()])
def says(command: str) -> Scorer:
    """Correct where the sample's sandbox prints the target."""

    async def score(state: Any, target: Any) -> Score:
        result = await sandbox().exec(["sh", "-c", command])
        return Score(value=result.stdout.strip() == target.text, answer=result.stdout + result.stderr)

    return score


async def evaluate(samples: list[Sample], model: Any, check: str, config: Any = None, **options: Any) -> EvalLog:
    task = Task(
        dataset=samples,
        solver=[use_tools([bash(timeout=30), python(timeout=30)]), generate()],
        scorer=says(check),
        sandbox=SandboxEnvironmentSpec("paddock", config),
    )
    (log,) = await eval_async(task, model=model, log_dir=options.pop("log_dir"), **options)
    return log


def accuracy_of(log: EvalLog) -> float:
    assert log.status == "success", log.error
    assert log.results is not None
    return log.results.scores[0].metrics["accuracy"].value


def running() -> list[str]:
    return [one.id for one in Sandbox.list(state="running", metadata={"framework": "inspect-ai"})]


async def test_a_sample_runs_tools_in_its_sandbox(tmp_path: Path) -> None:
    model = scripted(("bash", {"command": "echo 41 > n"}), ("python", {"code": "print(int(open('n').read()) + 1)"}))
    log = await evaluate([Sample(input="go", target="41")], model, "cat n", log_dir=str(tmp_path))
    assert accuracy_of(log) == 1
    assert log.samples is not None
    assert any("42" in message.text for message in log.samples[0].messages if message.role == "tool")
    assert running() == []


async def test_samples_are_forks_of_one_prepared_sandbox(tmp_path: Path) -> None:
    config = PaddockConfig(setup=["mkdir data", "od -An -N8 -tx1 /dev/urandom > data/prepared", "echo 0 > count"])
    model = scripted(("bash", {"command": "echo $(($(cat count) + 1)) > count"}))
    samples = [Sample(input="go", target="1 1", id=number) for number in range(12)]
    log = await evaluate(samples, model, "echo $(cat count) $(wc -l < data/prepared)", config, log_dir=str(tmp_path))
    assert accuracy_of(log) == 1
    assert running() == []


async def test_files_of_a_sample_are_there(tmp_path: Path) -> None:
    sample = Sample(input="go", target="hello", files={"in/greeting": "hello"})
    assert accuracy_of(await evaluate([sample], scripted(), "cat in/greeting", log_dir=str(tmp_path))) == 1


async def test_the_configuration_is_the_sandboxes_own(tmp_path: Path) -> None:
    config = PaddockConfig(env={"COLOUR": "blue"}, limits={"memory": "256MiB"}, network="none", cwd="/tmp")
    sample = Sample(input="go", target="blue /tmp lo")
    check = "echo $COLOUR $PWD $(ls /sys/class/net 2> /dev/null || cut -d: -f1 /proc/net/dev | tail -n +3 | tr -d ' ')"
    assert accuracy_of(await evaluate([sample], scripted(), check, config, log_dir=str(tmp_path))) == 1
    made = await PaddockSandboxEnvironment.sample_init("configured", config, {})
    inner = made["default"].as_type(PaddockSandboxEnvironment).sandbox
    assert (await inner.info()).limits["memory"] == 256 << 20
    assert (await inner.network()).network == "none"
    await PaddockSandboxEnvironment.sample_cleanup("configured", config, made, False)
    await PaddockSandboxEnvironment.task_cleanup("configured", config, True)


@pytest.mark.parametrize(("wanted", "has"), [(None, True), (True, True), (False, False)])
async def test_root_may_install_unless_it_is_turned_off(wanted: bool | None, has: bool) -> None:
    config = PaddockConfig(root_may_install=wanted, backend="process")
    made = await PaddockSandboxEnvironment.sample_init("rights", config, {})
    inner = made["default"].as_type(PaddockSandboxEnvironment)
    try:
        assert ("root_capabilities" in (await inner.sandbox.info()).guarantees) is has
        given = await inner.exec(["sh", "-c", "touch /tmp/x && chown 7 /tmp/x"], user="root")
        assert given.success is has, given
    finally:
        await PaddockSandboxEnvironment.sample_cleanup("rights", config, made, False)
        await PaddockSandboxEnvironment.task_cleanup("rights", config, True)


async def test_a_server_that_refuses_such_a_root_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    create = AsyncSandbox.create

    async def refuses(**options: Any) -> AsyncSandbox:
        asked.append(options.pop("root_may_install", None))
        if asked[-1]:
            raise Forbidden("`root_may_install`: the owner of this host forbids it")
        return await create(**options)

    monkeypatch.setattr(AsyncSandbox, "create", refuses)
    config = PaddockConfig()
    made = await PaddockSandboxEnvironment.sample_init("refused", config, {})
    await PaddockSandboxEnvironment.sample_cleanup("refused", config, made, False)
    await PaddockSandboxEnvironment.task_cleanup("refused", config, True)
    assert asked == [True, None]
    with pytest.raises(Forbidden):
        await PaddockSandboxEnvironment.sample_init("refused", PaddockConfig(root_may_install=True), {})


async def test_samples_begin_with_an_image_or_a_template(tmp_path: Path, busybox: str) -> None:
    sample = Sample(input="go", target="from the image")
    config = PaddockConfig(image=busybox)
    assert accuracy_of(await evaluate([sample], scripted(), "cat /etc/greeting", config, log_dir=str(tmp_path))) == 1
    steps = [{"kind": "run", "command": "echo built > /home/user/built"}]
    await AsyncTemplates().build("inspect-tests", image=busybox, steps=steps)
    sample, config = Sample(input="go", target="built user"), PaddockConfig(template="inspect-tests")
    log = await evaluate([sample], scripted(), "echo $(cat built) $(id -un)", config, log_dir=str(tmp_path))
    assert accuracy_of(log) == 1
    assert running() == []


async def test_a_timeout_of_a_tool_is_told_to_the_model(tmp_path: Path) -> None:
    model = scripted(("bash", {"command": "echo begun; sleep 60"}))
    task = Task(
        dataset=[Sample(input="go", target="x")],
        solver=[use_tools(bash(timeout=1)), generate()],
        scorer=says("echo x"),
        sandbox="paddock",
    )
    (log,) = await eval_async(task, model=model, log_dir=str(tmp_path))
    assert log.samples is not None
    (told,) = [message for message in log.samples[0].messages if message.role == "tool"]
    assert told.error is not None
    assert told.error.type == "timeout"


async def test_a_setup_that_fails_fails_the_task(tmp_path: Path) -> None:
    config = PaddockConfig(setup=["echo broken >&2; exit 3"])
    with pytest.raises(RuntimeError, match="exit code 3: broken"):
        await evaluate([Sample(input="go", target="x")], scripted(), "true", config, log_dir=str(tmp_path))
    assert running() == []


async def test_an_unknown_template_fails_the_task(tmp_path: Path) -> None:
    config = PaddockConfig(template="no-such-template")
    with pytest.raises(TemplateNotFound):
        await evaluate([Sample(input="go", target="x")], scripted(), "true", config, log_dir=str(tmp_path))


@pytest.fixture
async def environment() -> AsyncIterator[PaddockSandboxEnvironment]:
    made = await PaddockSandboxEnvironment.sample_init("own", None, {})
    yield made["default"].as_type(PaddockSandboxEnvironment)
    await PaddockSandboxEnvironment.sample_cleanup("own", None, made, False)
    await PaddockSandboxEnvironment.task_cleanup("own", None, True)


async def test_a_timeout_has_the_output_so_far(environment: PaddockSandboxEnvironment) -> None:
    with pytest.raises(TimeoutError, match=r"begun\n\[the command was killed after its time limit of 1 s\]"):
        await environment.exec(["sh", "-c", "echo begun; sleep 60"], timeout=1)


async def test_a_dead_sandbox_is_unavailable(environment: PaddockSandboxEnvironment) -> None:
    await environment.sandbox.kill()
    with pytest.raises(SandboxUnavailableError):
        await environment.exec(["true"])
    with pytest.raises(SandboxUnavailableError):
        await environment.read_file("/etc/passwd")


async def test_a_prepared_sandbox_that_died_is_made_anew(environment: PaddockSandboxEnvironment) -> None:
    for sandbox_id in running():
        if sandbox_id != environment.sandbox.id:
            Sandbox.connect(sandbox_id).kill()
    made = await PaddockSandboxEnvironment.sample_init("own", None, {})
    assert (await made["default"].exec(["echo", "alive"])).stdout == "alive\n"
    await PaddockSandboxEnvironment.sample_cleanup("own", None, made, False)


async def test_samples_at_the_same_time_share_one_prepared_sandbox_also_when_it_died() -> None:
    config = PaddockConfig(env={"OF": "samples at the same time"})
    parents = []
    for _ in range(2):
        begun = [PaddockSandboxEnvironment.sample_init("own", config, {}) for _ in range(6)]
        made = [one["default"].as_type(PaddockSandboxEnvironment) for one in await asyncio.gather(*begun)]
        found = {(await one.sandbox.info()).parent for one in made}
        assert len(found) == 1
        parents += found
        Sandbox.connect(parents[-1]).kill()
        for one in made:
            await PaddockSandboxEnvironment.sample_cleanup("own", config, {"default": one}, False)
    assert len(set(parents)) == 2
    await PaddockSandboxEnvironment.task_cleanup("own", config, True)
    assert [one for one in running() if Sandbox.connect(one).info().parent is None] == []


@pytest.mark.parametrize("input", [None, "told", b"told" * 100_000], ids=["none", "text", "bytes"])
async def test_a_cancelled_command_is_killed_also_with_input(
    environment: PaddockSandboxEnvironment, input: str | bytes | None
) -> None:
    command = environment.exec(["sh", "-c", "touch begun; sleep 600"], input=input)
    running = asyncio.create_task(command)
    while not (await environment.exec(["sh", "-c", "test -e begun"])).success:
        assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    for _ in range(100):
        if (await environment.sandbox.info()).running_execs == 0:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the command runs on")


async def test_a_prepared_sandbox_lives_on_while_it_is_used(
    environment: PaddockSandboxEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    (prepared,) = [one for one in running() if one != environment.sandbox.id]
    # Its lease is the shorter one, so that its life is what the keeper of the lease knows.
    first = KEEPER._held[prepared].until
    monkeypatch.setattr("paddock_integrations.inspect.RENEWED_SECONDS", 0.0)
    made = await PaddockSandboxEnvironment.sample_init("own", None, {})
    await PaddockSandboxEnvironment.sample_cleanup("own", None, made, False)
    assert KEEPER._held[prepared].until > first


async def test_without_a_lease_a_prepared_sandbox_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    config = PaddockConfig(lease_seconds=None)
    first = (await PaddockSandboxEnvironment.sample_init("own", config, {}))["default"]
    (prepared,) = [one for one in running() if one != first.as_type(PaddockSandboxEnvironment).sandbox.id]
    begun = Sandbox.connect(prepared).info().expires_at
    monkeypatch.setattr("paddock_integrations.inspect.RENEWED_SECONDS", 0.0)
    second = (await PaddockSandboxEnvironment.sample_init("own", config, {}))["default"]
    renewed = Sandbox.connect(prepared).info().expires_at
    assert begun is not None
    assert renewed is not None
    assert renewed > begun
    assert not KEEPER.keeps(prepared)
    for one in (first, second):
        made = await one.as_type(PaddockSandboxEnvironment).sandbox.info()
        assert made.expires_at is not None
        assert made.expires_at - made.created_at > timedelta(minutes=50)
    await PaddockSandboxEnvironment.sample_cleanup("own", config, {"a": first, "b": second}, False)
    await PaddockSandboxEnvironment.task_cleanup("own", config, True)
    assert running() == []


async def test_a_full_disk_is_no_space_left() -> None:
    config = PaddockConfig(limits=SMALL_DISK)
    made = await PaddockSandboxEnvironment.sample_init("full", config, {})
    with pytest.raises(OSError, match="large") as raised:
        await made["default"].write_file("large", b"x" * (80 << 20))
    assert raised.value.errno == errno.ENOSPC
    await PaddockSandboxEnvironment.sample_cleanup("full", config, made, False)
    await PaddockSandboxEnvironment.task_cleanup("full", config, True)


async def test_too_much_output_is_refused(environment: PaddockSandboxEnvironment) -> None:
    with pytest.raises(OutputLimitExceededError):
        await environment.exec(["sh", "-c", "head -c 12000000 /dev/zero | tr '\\0' x"])


async def test_a_lost_server_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_URL", LOST_SERVER)
    with pytest.raises(ConnectionFailed):
        await PaddockSandboxEnvironment.task_init("lost", None)


async def test_a_connection_names_the_command(environment: PaddockSandboxEnvironment) -> None:
    assert (await environment.connection(user="root")).command == (
        f"paddock exec -it --user root {environment.sandbox.id} /bin/sh"
    )


async def test_a_clean_up_by_hand_ends_what_was_left() -> None:
    await PaddockSandboxEnvironment.sample_init("left", None, {})
    assert len(running()) == 2
    await PaddockSandboxEnvironment.cli_cleanup(None)
    assert running() == []
    await PaddockSandboxEnvironment.task_cleanup("left", None, True)


def test_settings_come_from_a_file_too(tmp_path: Path) -> None:
    (tmp_path / "paddock.yaml").write_text("template: base\nsetup:\n  - make\n")
    assert read_config(str(tmp_path / "paddock.yaml")) == PaddockConfig(template="base", setup=["make"])
    (tmp_path / "bad.yaml").write_text("[]")
    with pytest.raises(ValueError, match="no mapping"):
        read_config(str(tmp_path / "bad.yaml"))
    with pytest.raises(ValueError, match="colour"):
        PaddockConfig(colour="red")  # type: ignore[call-arg]


def test_a_killed_program_leaves_nothing() -> None:
    killed_maker_leaves_nothing(
        "import asyncio\n"
        "from paddock_integrations.inspect import PaddockConfig, PaddockSandboxEnvironment as E\n"
        "made = asyncio.run(E.sample_init('killed', PaddockConfig(lease_seconds=LEASE), {}))\n"
        "print(made['default'].sandbox.id, flush=True)"
    )
    # The prepared one, too.
    for sandbox_id in running():
        ends(sandbox_id)
