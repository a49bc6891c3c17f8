"""Sessions of Claude Managed Agents: Anthropic's own worker in sandboxes, against a queue of the tests' own."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anthropic import AsyncAnthropic
from helpers import GUIDE, LOST_SERVER, killed_maker_leaves_nothing
from paddock import Sandbox
from real_server import BINARY, Server, unmount_below
from vendor import KEY, NAME, Vendor, vendor

from paddock_integrations.claude_managed_agents import PaddockWorker

QUEUE = Path(__file__).resolve().parent / "managed_agents.py"
#: The Python of the tests, with the SDK; its worker reads what `ant beta:worker poll` sets.
SITE = sysconfig.get_path("purelib")
PYTHON = f"/opt/python/bin/python{sys.version_info.major}.{sys.version_info.minor}"
ENVIRONMENT = "env_1"
INSIDE = """
import asyncio, os
from anthropic import AsyncAnthropic
from anthropic.lib.environments import EnvironmentWorker
client = AsyncAnthropic(auth_token=os.environ["ANTHROPIC_ENVIRONMENT_KEY"])
asyncio.run(EnvironmentWorker(client, workdir="/workspace", max_idle=1).handle_item())
"""
COMMAND = [PYTHON, "-c", INSIDE]


@pytest.fixture
def queue(server: Server, tmp_path: Path) -> Iterator[Callable[..., Vendor]]:
    opened: list[Any] = []

    def start(*commands: str | dict[str, Any]) -> Vendor:
        opened.append(vendor(server, tmp_path, list(commands), QUEUE))
        service: Vendor = opened[-1].__enter__()
        return service

    yield start
    for one in opened:
        one.__exit__(None, None, None)


def client(service: Vendor, directory: Path) -> AsyncAnthropic:
    """As the host reaches the queue, which has no name there."""
    trust = ssl.create_default_context(cafile=str(directory / "authority.pem"))
    base = f"https://127.0.0.1:{service.host.partition(':')[2]}"
    return AsyncAnthropic(auth_token=KEY, base_url=base, http_client=httpx2.AsyncClient(verify=trust))


def worker(service: Vendor, directory: Path, **more: Any) -> PaddockWorker:
    env = {"ANTHROPIC_BASE_URL": service.url, "PYTHONPATH": "/opt/site", "LD_LIBRARY_PATH": "/opt/python/lib"}
    place = {"read": [f"{SITE}:/opt/site", f"{sys.base_prefix}:/opt/python"], "network": service.network}
    options = {"command": COMMAND, "environment_id": ENVIRONMENT, "environment_key": KEY, "env": env, **place, **more}
    return PaddockWorker(client(service, directory), **{"ttl_seconds": 300, **options})


async def until(true: Callable[[], object]) -> None:
    for _ in range(600):
        if true():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("it did not come true")


async def until_stopped(service: Vendor, serving: PaddockWorker) -> None:
    """Serves the queue until the session's item has been given back."""
    running = asyncio.create_task(serving.run())
    try:
        await until(lambda: running.done() or any(one["path"].endswith("/stop") for one in service.asked()))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def results(service: Vendor) -> list[str]:
    """What tools gave back."""
    sent = [one["body"]["events"] for one in service.asked() if one["path"].endswith("/events") and one["body"]]
    return [event["content"][0]["text"] for events in sent for event in events if event["type"] == "user.tool_result"]


def living() -> list[str]:
    return [one.id for one in Sandbox.list(state="running", metadata={"framework": "claude-managed-agents"})]


async def nothing_lives() -> None:
    """Waits for the end of the last sandbox: a session is told as stopped by the worker inside it."""
    for _ in range(200):
        if not living():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{living()} still run")


async def test_a_session_runs_in_a_sandbox_that_ends_with_it(queue: Callable[..., Vendor], tmp_path: Path) -> None:
    service = queue("echo $((6 * 7)) > n; pwd; id -un", "cat n")
    await until_stopped(service, worker(service, tmp_path))
    first, second = results(service)
    assert first.split() == ["/workspace", "agent"]
    assert second.split() == ["42"]
    await nothing_lives()


async def test_the_key_stays_at_the_gate(queue: Callable[..., Vendor], tmp_path: Path) -> None:
    service = queue("env; cat /proc/*/environ | tr '\\0' '\\n'")
    await until_stopped(service, worker(service, tmp_path))
    (printed,) = results(service)
    assert "ANTHROPIC_SESSION_ID=" in printed
    assert KEY not in printed
    # The queue got the real one, also from inside.
    assert {one["headers"]["authorization"] for one in service.asked()} == {f"Bearer {KEY}"}


async def test_a_worker_that_fails_gives_its_item_back(
    queue: Callable[..., Vendor], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = queue("true")
    with caplog.at_level(logging.ERROR):
        await until_stopped(service, worker(service, tmp_path, command=["/bin/sh", "-c", "echo broken >&2; exit 3"]))
    assert "broken" in caplog.text
    await nothing_lives()


async def test_an_item_without_a_sandbox_is_given_back(
    queue: Callable[..., Vendor], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = queue("true")
    with caplog.at_level(logging.ERROR):
        await until_stopped(service, worker(service, tmp_path, template="no-such-template"))
    assert "no-such-template" in caplog.text


async def test_a_lost_server_gives_the_item_back(
    queue: Callable[..., Vendor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = queue("true")
    monkeypatch.setenv("PADDOCK_URL", LOST_SERVER)
    with caplog.at_level(logging.ERROR):
        await until_stopped(service, worker(service, tmp_path))
    assert "has no sandbox" in caplog.text


async def test_a_sandbox_that_dies_gives_the_item_back(
    queue: Callable[..., Vendor], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = queue("true")

    async def kill() -> None:
        await until(living)
        for one in living():
            await asyncio.to_thread(Sandbox.connect(one).kill)

    killing = asyncio.create_task(kill())
    with caplog.at_level(logging.ERROR):
        await until_stopped(service, worker(service, tmp_path, command=["/bin/sleep", "60"]))
    await killing
    assert "the worker of session sesn_1" in caplog.text or "has no sandbox" in caplog.text


async def test_a_full_disk_is_told_to_the_agent(queue: Callable[..., Vendor], tmp_path: Path) -> None:
    service = queue("head -c 100000000 /dev/zero > /workspace/fill; echo exit $?", "echo on")
    await until_stopped(service, worker(service, tmp_path, limits={"disk": "48MiB"}))
    full, after = results(service)
    # By the quota of the file system, or by its end.
    assert "head: error writing" in full
    assert after.split() == ["on"]


async def test_a_time_limit_of_the_tool_is_told_to_the_agent(queue: Callable[..., Vendor], tmp_path: Path) -> None:
    """The tool is Anthropic's own, inside. It has no word for the output so far: a file has it."""
    late = {"command": "echo so far | tee /workspace/said; sleep 600", "timeout_ms": 2000}
    service = queue(late, {"restart": True}, "cat /workspace/said; pgrep -x sleep || echo none")
    await until_stopped(service, worker(service, tmp_path))
    timed_out, restarted, after = results(service)
    assert "timed out after 2.0s" in timed_out
    assert "restarted" in restarted
    assert after.splitlines()[0] == "so far"


async def test_a_session_that_outlives_its_sandbox_is_given_back(
    queue: Callable[..., Vendor], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = queue("true")
    with caplog.at_level(logging.ERROR):
        await until_stopped(service, worker(service, tmp_path, command=["/bin/sleep", "600"], ttl_seconds=3))
    assert "session sesn_1" in caplog.text
    await nothing_lives()


async def test_a_command_that_is_not_there_gives_the_item_back(
    queue: Callable[..., Vendor], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = queue("true")
    with caplog.at_level(logging.ERROR):
        await until_stopped(service, worker(service, tmp_path, command=["/no/such/worker", "run"]))
    assert "not_started" in caplog.text
    assert "/no/such/worker" in caplog.text or "No such file" in caplog.text
    await nothing_lives()


async def test_nothing_but_the_vendor_is_reached(queue: Callable[..., Vendor], tmp_path: Path) -> None:
    reached = "import socket; socket.create_connection(('127.0.0.1', PORT), 5)"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        program = reached.replace("PORT", str(port))
        await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program], check=True)
        service = queue(f'{PYTHON} -c "{program}"; echo exit $?')
        await until_stopped(service, worker(service, tmp_path))
    (printed,) = results(service)
    assert "Error" in printed
    assert "exit 1" in printed


async def test_a_server_that_is_killed_gives_the_item_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mortal = Server(Path(tempfile.mkdtemp(prefix="paddock-integrations-")))
    await asyncio.to_thread(mortal.start)
    monkeypatch.setenv("PADDOCK_URL", mortal.url)
    try:
        with vendor(mortal, tmp_path, [], QUEUE) as service:
            serving = worker(service, tmp_path, command=["/bin/sleep", "600"])
            running = asyncio.create_task(until_stopped(service, serving))
            await until(lambda: any(one.info().running_execs for one in Sandbox.list(state="running")))
            await asyncio.to_thread(mortal.end, signal.SIGKILL)
            with caplog.at_level(logging.ERROR):
                await running
        assert "session sesn_1 has no sandbox" in caplog.text
    finally:
        # Its sandboxes run on, and the next server finds them.
        await asyncio.to_thread(mortal.restart)
        await asyncio.to_thread(mortal.sweep)
        await asyncio.to_thread(mortal.end, signal.SIGTERM)
        unmount_below(mortal.directory)
        shutil.rmtree(mortal.directory, ignore_errors=True)


async def test_a_cancelled_worker_leaves_no_sandbox(queue: Callable[..., Vendor], tmp_path: Path) -> None:
    service = queue("sleep 600")
    running = asyncio.create_task(worker(service, tmp_path).run())
    await until(lambda: any(one["path"].endswith("/heartbeat") for one in service.asked()))
    assert len(living()) == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await nothing_lives()


#: As a computer on which the name of the vendor leads somewhere.
RESOLVES = f"""
import socket
resolve = socket.getaddrinfo
def getaddrinfo(host, *rest, **more):
    name = host.decode() if isinstance(host, bytes) else host
    return resolve("127.0.0.1" if name == "{NAME}" else host, *rest, **more)
socket.getaddrinfo = getaddrinfo
"""


def heeds_interrupts() -> None:
    """Where the tests were started in the background, SIGINT is ignored by all that they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_the_recipe_of_the_guide_runs(queue: Callable[..., Vendor], server: Server, tmp_path: Path) -> None:
    """Both programs as the guide shows them, with the template that it describes."""
    service = queue("echo $((6 * 7)) > n; pwd", "cat n; env")
    host = re.search(r"```python\n([^`]*PaddockWorker[^`]*)```", GUIDE.read_text())
    inside = re.search(r"```text\n([^`]*EnvironmentWorker[^`]*)```", GUIDE.read_text())
    assert host is not None
    assert inside is not None
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "sitecustomize.py").write_text(RESOLVES)
    (tmp_path / "host" / "worker.py").write_text(host[1])
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "session.py").write_text(inside[1])
    reads = {SITE: "/opt/site", sys.base_prefix: "/opt/python", str(tmp_path / "inside"): "/opt/session"}
    variables = {"PATH": "/opt/python/bin:/usr/bin:/bin", "PYTHONPATH": "/opt/session:/opt/site"}
    options = [f"--read={place}:{seen}" for place, seen in reads.items()]
    options += [f"--env={name}={value}" for name, value in {**variables, "LD_LIBRARY_PATH": "/opt/python/lib"}.items()]
    options += [f"--allow-net={to}" for to in service.network["allow"]]
    environment = {**os.environ, "PADDOCK_STATE_DIR": str(server.state)}
    add = [str(BINARY), "template", "add", "sessions", *options]
    subprocess.run(add, env=environment, check=True, capture_output=True)
    environment.update(
        ANTHROPIC_ENVIRONMENT_KEY=KEY,
        ANTHROPIC_ENVIRONMENT_ID=ENVIRONMENT,
        ANTHROPIC_BASE_URL=service.url,
        SSL_CERT_FILE=str(tmp_path / "authority.pem"),
        PYTHONPATH=f"{tmp_path / 'host'}:{os.environ.get('PYTHONPATH', '')}",
    )
    words = [sys.executable, str(tmp_path / "host" / "worker.py")]
    with open(tmp_path / "said", "wb") as said:
        running = subprocess.Popen(words, env=environment, stdout=said, stderr=said, preexec_fn=heeds_interrupts)
    try:
        for _ in range(1800):
            if running.poll() is not None or any(one["path"].endswith("/stop") for one in service.asked()):
                break
            time.sleep(0.1)
        assert running.poll() is None, (tmp_path / "said").read_text()
        # It runs until somebody ends it, as the guide's does.
        running.send_signal(signal.SIGINT)
        running.wait(60)
    finally:
        running.kill()
        running.wait()
    first, second = results(service)
    assert first.split() == ["/workspace"]
    assert second.startswith("42\n")
    assert KEY not in second
    asyncio.run(nothing_lives())


def test_a_killed_program_leaves_nothing() -> None:
    killed_maker_leaves_nothing(
        "import asyncio\n"
        "from types import SimpleNamespace\n"
        "from anthropic import AsyncAnthropic\n"
        "from paddock import Sandbox\n"
        "from paddock_integrations._lease import KEEPER\n"
        "from paddock_integrations.claude_managed_agents import PaddockWorker\n"
        "work = SimpleNamespace(id='work_1', data=SimpleNamespace(id='sesn_1'))\n"
        "made = PaddockWorker(AsyncAnthropic(auth_token='a-key-of-the-tests'), environment_id='env_1',\n"
        "    environment_key='a-key-of-the-tests', command=['/bin/sleep', '60'], lease_seconds=LEASE)\n"
        "def found():\n"
        "    mine = {'framework': 'claude-managed-agents'}\n"
        "    return [one.id for one in Sandbox.list(state='running', metadata=mine)]\n"
        "async def main():\n"
        "    serving = asyncio.create_task(made.handle(work))\n"
        "    while not (ids := await asyncio.to_thread(found)) or not KEEPER.keeps(ids[0]):\n"
        "        await asyncio.sleep(0.05)\n"
        "    print(*ids, flush=True)\n"
        "    await serving\n"
        "asyncio.run(main())"
    )
