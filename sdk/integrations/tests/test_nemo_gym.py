"""Sandboxes of NeMo Gym by the classes that its environments use. Its agents need a cluster of ray, and are not run."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from helpers import GUIDE, LOST_SERVER, SMALL_DISK, killed_maker_leaves_nothing, nothing_lives

nemo_gym = pytest.importorskip("nemo_gym.sandbox", reason="nemo-gym: NeMo Gym needs Python 3.12")

from nemo_gym.sandbox import AsyncSandbox, SandboxCreateError, SandboxSpec, SandboxStatus  # noqa: E402
from nemo_gym.sandbox import Sandbox as GymSandbox  # noqa: E402
from nemo_gym.sandbox.providers.registry import list_providers  # noqa: E402
from paddock import DiskFull, FileNotFound, Sandbox  # noqa: E402

PROVIDER = {"paddock": {"ttl_seconds": 600}}


@pytest.fixture
async def sandbox() -> AsyncIterator[AsyncSandbox]:
    async with AsyncSandbox(PROVIDER) as made:
        yield await made.start(SandboxSpec())


def identity(sandbox: AsyncSandbox) -> str:
    return str(sandbox._require_handle().sandbox_id)


def test_the_provider_is_found() -> None:
    assert "paddock" in list_providers()


async def test_commands_run(sandbox: AsyncSandbox) -> None:
    result = await sandbox.exec("echo $A $PWD; echo no >&2; exit 3", cwd="/tmp", env={"A": "b"})
    assert (result.stdout, result.stderr, result.return_code, result.error_type) == ("b /tmp\n", "no\n", 3, None)


async def test_a_user_is_chosen(sandbox: AsyncSandbox) -> None:
    assert (await sandbox.exec("whoami", user="root")).stdout == "root\n"
    assert (await sandbox.exec("id -u", user=1000)).stdout == "1000\n"


def test_a_sandbox_without_an_event_loop() -> None:
    with GymSandbox(PROVIDER, SandboxSpec(files={"/workspace/in": "from the request"})) as sandbox:
        sandbox.start()
        assert sandbox.exec("cat in").stdout == "from the request"
        assert sandbox.status() == SandboxStatus.RUNNING


async def test_a_request_has_its_resources_directory_and_variables() -> None:
    spec = SandboxSpec(
        workdir="/tmp", env={"A": "b"}, resources={"cpu": 1, "memory_mib": 300, "disk_gib": 1}, metadata={"run": "7"}
    )
    async with AsyncSandbox(PROVIDER) as sandbox:
        await sandbox.start(spec)
        assert (await sandbox.exec("echo $A $PWD")).stdout == "b /tmp\n"
        info = Sandbox.connect(identity(sandbox)).info()
    assert (info.limits["memory"], info.limits["disk"], info.limits["cpus"]) == (300 << 20, 1 << 30, 1)
    assert info.metadata == {"framework": "nemo-gym", "run": "7"}


async def test_files_are_moved(sandbox: AsyncSandbox, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\0\xff")
    await sandbox.upload(tmp_path / "f", "/workspace/sub/f")
    await sandbox.download("/workspace/sub/f", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"\0\xff"
    with pytest.raises(FileNotFound):
        await sandbox.download("/workspace/absent", tmp_path / "absent")


async def test_many_sandboxes_of_one_provider_are_apart() -> None:
    made = [AsyncSandbox(PROVIDER) for _ in range(6)]
    await asyncio.gather(*(one.start(SandboxSpec()) for one in made))
    await asyncio.gather(*(one.exec(f"echo {number} > n") for number, one in enumerate(made)))
    results = await asyncio.gather(*(one.exec("cat n") for one in made))
    assert [result.stdout for result in results] == [f"{number}\n" for number in range(6)]
    await asyncio.gather(*(one.stop() for one in made))


async def test_a_timeout_has_the_output_so_far(sandbox: AsyncSandbox) -> None:
    result = await sandbox.exec("echo begun; sleep 60", timeout_s=1)
    assert (result.return_code, result.stdout, result.error_type) == (124, "begun\n", "timeout")


async def test_a_dead_sandbox_is_told(sandbox: AsyncSandbox) -> None:
    Sandbox.connect(identity(sandbox)).kill()
    result = await sandbox.exec("true")
    assert (result.return_code, result.error_type) == (255, "sandbox")
    assert await sandbox.status() == SandboxStatus.STOPPED


async def test_stopping_kills_the_sandbox(sandbox: AsyncSandbox) -> None:
    made = Sandbox.connect(identity(sandbox))
    await sandbox.stop()
    assert made.info().state == "ended"


async def test_a_full_disk_raises_its_error(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (80 << 20))
    async with AsyncSandbox({"paddock": {"limits": SMALL_DISK}}) as sandbox:
        await sandbox.start(SandboxSpec())
        with pytest.raises(DiskFull):
            await sandbox.upload(tmp_path / "large", "/workspace/large")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (SandboxSpec(provider_options={"template": "no-such-template"}), "no-such-template"),
        (SandboxSpec(resources={"gpu": 1}), "1 GPUs"),
        (SandboxSpec(entrypoint=["server"]), "entrypoint"),
    ],
)
async def test_a_request_that_cannot_be_met_is_refused(spec: SandboxSpec, said: str) -> None:
    with pytest.raises(SandboxCreateError, match=said):
        await AsyncSandbox(PROVIDER).start(spec)


async def test_a_sandbox_that_is_not_ready_in_time_is_an_error_and_is_killed() -> None:
    from paddock_integrations.nemo_gym import PaddockProvider

    provider = PaddockProvider()
    with pytest.raises(SandboxCreateError, match="not ready within 0"):
        await provider.create(SandboxSpec(ready_timeout_s=0))
    await provider.aclose()
    nothing_lives()
    handle = await provider.create(SandboxSpec(ready_timeout_s=600))
    assert (await provider.exec(handle, "echo ready")).stdout == "ready\n"
    await provider.close(handle)


async def test_what_cannot_be_run_is_told(sandbox: AsyncSandbox) -> None:
    result = await sandbox.exec("true", cwd="/absent")
    assert (result.error_type, result.return_code != 0) == ("sandbox", True)
    result = await sandbox.exec("true", env={"A=B": "1"})
    assert result.error_type == "sandbox"
    assert "A=B" in (result.stderr or "")


async def test_a_lost_server_is_an_error_of_the_create(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_URL", LOST_SERVER)
    with pytest.raises(SandboxCreateError, match="no server listens"):
        await AsyncSandbox(PROVIDER).start(SandboxSpec())


def test_the_example_of_the_guide_runs() -> None:
    found = re.search(r"```python\n([^`]*nemo_gym[^`]*)```", GUIDE.read_text())
    assert found, "the guide has no example"
    ran = subprocess.run([sys.executable, "-c", found[1]], capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["42"], ran.stderr


def test_a_killed_program_leaves_nothing() -> None:
    killed_maker_leaves_nothing(
        "from nemo_gym.sandbox import Sandbox, SandboxSpec\n"
        "made = Sandbox({'paddock': {'lease_seconds': LEASE}}, SandboxSpec()).start()\n"
        "print(made._async_sandbox._require_handle().sandbox_id, flush=True)"
    )
