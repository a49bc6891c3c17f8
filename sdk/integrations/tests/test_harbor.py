"""Harbor's trials of small tasks with its oracle agent, in real sandboxes."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from harbor.models.task.config import EnvironmentConfig as TaskEnvironment
from harbor.models.task.config import NetworkMode, NetworkPolicy
from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig
from harbor.models.trial.paths import TrialPaths
from harbor.trial.trial import Trial
from helpers import GUIDE, LOST_SERVER, ends, killed_maker_leaves_nothing
from paddock import (
    AsyncTemplates,
    ConnectionFailed,
    DiskFull,
    FileNotFound,
    Sandbox,
    SandboxEnded,
    TemplateBuildFailed,
    TemplateNotFound,
)

from paddock_integrations.dockerfile import DockerfileError
from paddock_integrations.harbor import IDLE_SECONDS, PaddockEnvironment

SOLVE = "#!/bin/sh\necho 42 > /app/answer.txt\n"
TEST = """#!/bin/sh
if [ "$(cat /app/answer.txt)" = 42 ]; then reward=1; else reward=0; fi
echo $reward > /logs/verifier/reward.txt
"""
TEMPLATE = "code-interpreter"


def task(place: Path, solve: str, dockerfile: str = "FROM debian:12\nRUN mkdir /app\n", **more: str) -> Path:
    """A task of Harbor that wants 42 in a file; `__` in a name of another file stands for a slash."""
    made = place / "task"
    for name, content in {
        "task.toml": 'version = "1.0"\n[verifier]\ntimeout_sec = 60.0\n[agent]\ntimeout_sec = 60.0\n[environment]\n',
        "instruction.md": "Write 42 to /app/answer.txt.",
        "environment/Dockerfile": dockerfile,
        "solution/solve.sh": solve,
        "tests/test.sh": TEST,
        **{name.replace("__", "/"): content for name, content in more.items()},
    }.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(content)
    return made


async def trial(
    place: Path, solve: str = SOLVE, *, made: Path | None = None, force_build: bool = False, **kwargs: Any
) -> Any:
    environment = EnvironmentConfig(
        import_path="paddock_integrations.harbor:PaddockEnvironment",
        force_build=force_build,
        kwargs=kwargs if made else {"template": TEMPLATE, **kwargs},
    )
    config = TrialConfig(
        task=TaskConfig(path=made or task(place, solve)),
        trials_dir=place / "trials",
        agent=AgentConfig(name="oracle"),
        environment=environment,
    )
    return await (await Trial.create(config)).run()


def running() -> list[str]:
    return [one.id for one in Sandbox.list(state="running", metadata={"framework": "harbor"})]


def environment(place: Path, policy: NetworkPolicy | None = None, **kwargs: Any) -> PaddockEnvironment:
    (place / "environment").mkdir(exist_ok=True)
    settings = TaskEnvironment(**kwargs.pop("task_environment", {}))
    return PaddockEnvironment(
        environment_dir=place / "environment",
        environment_name="tests",
        session_id="tests__env",
        trial_paths=TrialPaths(place / "trial"),
        task_env_config=settings,
        logger=logging.getLogger("tests"),
        network_policy=policy or NetworkPolicy(network_mode=NetworkMode.NO_NETWORK),
        **{"template": TEMPLATE, **kwargs},
    )


@pytest.fixture
async def started(tmp_path: Path) -> AsyncIterator[PaddockEnvironment]:
    made = environment(tmp_path)
    await made.start(False)
    yield made
    await made.stop(True)


async def test_the_oracle_solves_a_task(tmp_path: Path) -> None:
    result = await trial(tmp_path, "#!/bin/sh\nmkdir -p /app\n" + SOLVE)
    assert result.exception_info is None
    assert result.verifier_result.rewards == {"reward": 1}
    assert running() == []


async def test_a_wrong_solution_has_no_reward(tmp_path: Path) -> None:
    result = await trial(tmp_path, "#!/bin/sh\nmkdir -p /app\necho 41 > /app/answer.txt\n")
    assert result.verifier_result.rewards == {"reward": 0}


async def test_limits_of_the_task_are_the_sandboxes_own(tmp_path: Path) -> None:
    made = environment(tmp_path, task_environment={"memory_mb": 300, "cpus": 1, "storage_mb": 500})
    await made.start(False)
    limits = (await made.sandbox.info()).limits
    assert (limits["memory"], limits["disk"], limits["cpus"]) == (300 << 20, 500 << 20, 1)
    await made.stop(True)


async def test_commands_have_directory_variables_and_user(started: PaddockEnvironment) -> None:
    result = await started.exec("echo $A $PWD; whoami; echo no >&2; exit 3", cwd="/tmp", env={"A": "b"})
    assert (result.stdout, result.stderr, result.return_code) == ("b /tmp\nroot\n", "no\n", 3)
    assert (await started.exec("whoami", user="agent")).stdout == "agent\n"


async def test_a_timeout_is_exit_code_124_with_the_output_so_far(started: PaddockEnvironment) -> None:
    result = await started.exec("echo begun; sleep 60", timeout_sec=1)
    assert (result.return_code, result.stdout) == (124, "begun\n")
    assert "time limit of 1 s" in (result.stderr or "")


async def test_files_and_directories_are_moved(started: PaddockEnvironment, tmp_path: Path) -> None:
    (tmp_path / "up" / "sub").mkdir(parents=True)
    (tmp_path / "up" / "sub" / "f").write_bytes(b"\0\xff")
    await started.upload_dir(tmp_path / "up", "/app/up")
    await started.upload_file(tmp_path / "up" / "sub" / "f", "/app/one")
    await started.download_file("/app/one", tmp_path / "one")
    await started.download_dir("/app/up", tmp_path / "down")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "down" / "sub" / "f").read_bytes() == b"\0\xff"
    with pytest.raises(FileNotFound):
        await started.download_file("/app/absent", tmp_path / "absent")


async def test_the_network_can_be_changed(tmp_path: Path) -> None:
    made = environment(tmp_path, NetworkPolicy(network_mode=NetworkMode.ALLOWLIST, allowed_hosts=["example.org"]))
    await made.start(False)
    assert "example.org" in str((await made.sandbox.network()).rules)
    await made.set_network_policy(NetworkPolicy(network_mode=NetworkMode.NO_NETWORK))
    assert "example.org" not in str((await made.sandbox.network()).rules)
    await made.stop(True)


async def test_an_environment_that_is_kept_is_hibernated(tmp_path: Path) -> None:
    made = environment(tmp_path)
    await made.start(False)
    sandbox_id = made.sandbox.id
    await made.exec("echo kept > /tmp/f")
    await made.stop(False)
    sandbox = Sandbox.connect(sandbox_id)
    info = sandbox.info()
    assert info.state == "hibernated"
    # It has the rest of its day, with or without this process.
    assert info.expires_at - info.created_at > timedelta(hours=23)
    assert sandbox.exec("cat /tmp/f").stdout == "kept\n"
    sandbox.kill()


DOCKERFILE = """FROM {image}
ARG ANSWER=42
ENV PLACE=/app/answer.txt PATH=/opt/tools:$PATH
WORKDIR /app
COPY tools/ /opt/tools/
RUN <<EOF
chmod 755 /opt/tools/*
echo "$ANSWER" > wanted
EOF
ENTRYPOINT ["/opt/tools/enter"]
"""
#: What each instruction of the Dockerfile left: RUN `wanted`, COPY `give`, ENTRYPOINT `entered`, ENV the place.
SOLVE_BUILT = "#!/bin/sh\nuntil test -e /tmp/entered; do sleep 0.1; done\ncat /tmp/entered && give wanted > $PLACE\n"


def dockerfile_task(place: Path, image: str, solve: str = SOLVE_BUILT) -> Path:
    files = {
        "environment__tools__give": '#!/bin/sh\nexec cat "$1"\n',
        "environment__tools__enter": '#!/bin/sh\necho "$@" > /tmp/entered\nexec "$@"\n',
    }
    return task(place, solve, DOCKERFILE.format(image=image), **files)


#: As the tasks of Terminal-Bench 2.1 have it, with an image of the tests' own.
TERMINAL_BENCH_TOML = """schema_version = "1.1"
artifacts = []

[task]
name = "terminal-bench/count-words"
description = "Count words."
keywords = ["text"]
[[task.authors]]
name = "Nobody"
email = "nobody@example.org"

[metadata]
author_name = "Nobody"
author_email = "nobody@example.org"
difficulty = "easy"
category = "software-engineering"
tags = ["text"]
expert_time_estimate_min = 1.0
junior_time_estimate_min = 2.0

[verifier]
timeout_sec = 120.0

[agent]
timeout_sec = 120.0

[environment]
build_timeout_sec = 600.0
docker_image = "{image}"
cpus = 1
memory_mb = 2048
storage_mb = 10240
gpus = 0
allow_internet = true
mcp_servers = []

[verifier.env]

[environment.env]

[solution.env]
"""
#: The base image has another user, as many have, and a check of its health.
TERMINAL_BENCH_DOCKERFILE = """FROM {image}

USER root
WORKDIR /app
RUN mkdir -p /data
COPY words.txt /data/words.txt
HEALTHCHECK --interval=30s CMD true
"""
TERMINAL_BENCH_TEST = """#!/bin/bash

if [ "$PWD" = "/" ]; then
    echo "Error: No working directory set. Please set a WORKDIR in your Dockerfile before running this script."
    exit 1
fi

sh /tests/test_outputs.sh > /logs/verifier/output.txt

if [ $? -eq 0 ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
"""


def terminal_bench_task(place: Path, image: str, solve: str) -> Path:
    made = place / "count-words"
    for name, content in {
        "task.toml": TERMINAL_BENCH_TOML.format(image=image),
        "instruction.md": "Write how many words are in /data/words.txt to /app/count.txt.\n",
        "environment/Dockerfile": TERMINAL_BENCH_DOCKERFILE.format(image=image),
        "environment/words.txt": "one two three\n",
        "solution/solve.sh": f"#!/bin/bash\n{solve}\n",
        "tests/test.sh": TERMINAL_BENCH_TEST,
        "tests/test_outputs.sh": 'test "$(cat /app/count.txt)" -eq 3\n',
    }.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(content)
    return made


@pytest.mark.parametrize(
    ("solve", "reward"), [("wc -w < /data/words.txt > /app/count.txt", 1), ("echo 4 > count.txt", 0)]
)
async def test_a_task_of_the_shape_of_terminal_bench(
    tmp_path: Path, busybox_of_nobody: str, solve: str, reward: int
) -> None:
    made = terminal_bench_task(tmp_path, busybox_of_nobody, solve)
    # Else Harbor takes the image that the task names, which was built from the Dockerfile.
    result = await trial(tmp_path, made=made, force_build=True)
    assert result.exception_info is None, result.exception_info
    assert result.verifier_result.rewards == {"reward": reward}
    assert running() == []


async def templates() -> list[str]:
    return [one.name for one in await AsyncTemplates().list() if one.name.startswith("harbor-")]


async def test_a_task_runs_from_its_dockerfile_which_is_built_once(tmp_path: Path, busybox: str) -> None:
    before = await templates()
    made = dockerfile_task(tmp_path, busybox)
    results = [await trial(tmp_path, made=made), await trial(tmp_path, made=made)]
    for result in results:
        assert result.exception_info is None
        assert result.verifier_result.rewards == {"reward": 1}
    assert len(await templates()) == len(before) + 1
    assert running() == []


def test_the_example_of_the_guide_runs(tmp_path: Path, busybox: str) -> None:
    dockerfile_task(tmp_path, busybox)
    found = re.search(r"```python\n([^`]*harbor\.trial[^`]*)```", GUIDE.read_text())
    assert found, "the guide has no example"
    command = [sys.executable, "-c", found[1]]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.stdout.strip().endswith("{'reward': 1.0}"), ran.stdout + ran.stderr


async def test_a_wrong_solution_in_a_built_template_has_no_reward(tmp_path: Path, busybox: str) -> None:
    made = dockerfile_task(tmp_path, busybox, "#!/bin/sh\nrm /app/wanted\n")
    assert (await trial(tmp_path, made=made)).verifier_result.rewards == {"reward": 0}


async def test_a_step_that_fails_fails_the_trial_with_its_log(tmp_path: Path, busybox: str) -> None:
    made = task(tmp_path, SOLVE, f"FROM {busybox}\nRUN echo the reason; exit 3\n")
    result = await trial(tmp_path, made=made)
    assert result.exception_info.exception_type == TemplateBuildFailed.__name__
    assert "the reason" in result.exception_info.exception_message
    assert running() == []


async def test_commands_run_as_the_user_of_the_dockerfile(tmp_path: Path, busybox: str) -> None:
    place = tmp_path / "environment"
    place.mkdir()
    (place / "Dockerfile").write_text(f"FROM {busybox}\nWORKDIR /srv\nUSER nobody\n")
    made = environment(tmp_path, template=None)
    await made.start(False)
    assert (await made.exec("id -un; pwd")).stdout == "nobody\n/srv\n"
    assert (await made.exec("id -un", user="root")).stdout == "root\n"
    await made.stop(True)


def test_what_cannot_be_built_is_refused_by_its_line(tmp_path: Path) -> None:
    place = tmp_path / "environment"
    place.mkdir()
    (place / "Dockerfile").write_text("FROM a AS one\nRUN true\nFROM b\n")
    with pytest.raises(DockerfileError, match="line 3: FROM: a second stage"):
        environment(tmp_path, template=None)
    (place / "Dockerfile").unlink()
    (place / "docker-compose.yaml").write_text("services: {}\n")
    with pytest.raises(FileNotFoundError, match="Docker Compose is not supported"):
        environment(tmp_path, template=None)


async def test_a_dead_sandbox_raises_its_error(started: PaddockEnvironment) -> None:
    await started.sandbox.kill()
    with pytest.raises(SandboxEnded):
        await started.exec("true")


async def test_a_sandbox_that_dies_while_a_command_runs_raises_its_error(started: PaddockEnvironment) -> None:
    calling = asyncio.create_task(started.exec("echo so far; touch /tmp/begun; sleep 600"))
    while not await started.sandbox.filesystem.exists("/tmp/begun"):
        assert not calling.done(), calling
        await asyncio.sleep(0.05)
    await started.sandbox.kill()
    with pytest.raises(SandboxEnded, match="so far"):
        await calling


async def test_a_trial_that_is_left_alone_ends_before_its_time_to_live(tmp_path: Path) -> None:
    made = environment(tmp_path)
    await made.start(False)
    idle = (await made.sandbox.info()).idle
    assert idle is not None
    assert (idle.seconds, idle.action) == (IDLE_SECONDS, "kill")
    await made.stop(True)
    made = environment(tmp_path, idle_seconds=1)
    await made.start(False)
    sandbox_id = made.sandbox.id
    # A sandbox in which a command runs is not idle.
    assert (await made.exec("sleep 3; echo done")).stdout == "done\n"
    ends(sandbox_id, "idle")


async def test_a_full_disk_raises_its_error(tmp_path: Path) -> None:
    made = environment(tmp_path, task_environment={"storage_mb": 48})
    await made.start(False)
    (tmp_path / "large").write_bytes(b"x" * (80 << 20))
    with pytest.raises(DiskFull):
        await made.upload_file(tmp_path / "large", "/large")
    await made.stop(True)


async def test_an_unknown_template_fails_the_trial(tmp_path: Path) -> None:
    result = await trial(tmp_path, template="no-such-template")
    assert result.exception_info.exception_type == TemplateNotFound.__name__


async def test_a_lost_server_raises_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_URL", LOST_SERVER)
    with pytest.raises(ConnectionFailed):
        await environment(tmp_path).start(False)


def test_a_killed_program_leaves_nothing() -> None:
    killed_maker_leaves_nothing(
        f"import asyncio, sys, tempfile\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path\n"
        "from test_harbor import environment\n"
        "with tempfile.TemporaryDirectory() as place:\n"
        "    made = environment(Path(place), lease_seconds=LEASE)\n"
        "    asyncio.run(made.start(False))\n"
        "print(made.sandbox.id, flush=True)"
    )
