"""An agent of OpenAI's SDK with a scripted model in a real sandbox: shell, terminal, files, ports, pause and resume."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from agents import RunConfig, Runner
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.entries import File
from agents.sandbox.errors import (
    ExecTimeoutError,
    ExecTransportError,
    ExposedPortUnavailableError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
    WorkspaceStartError,
)
from agents.sandbox.session import SandboxSession
from agents.usage import Usage
from helpers import FILL, LOST_SERVER, SMALL_DISK, killed_maker_leaves_nothing
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from paddock import Output, Sandbox
from real_server import Server, unmount_below

from paddock_integrations._lease import KEEPER
from paddock_integrations.openai_agents import PaddockSandboxClient, PaddockSandboxOptions, PaddockSession


class Scripted(Model):
    """Calls its tools one after the other, and then says `done`."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self._calls, self._said, self.outputs = calls, 0, []

    async def get_response(self, system_instructions: Any, input: Any, *_rest: Any, **_options: Any) -> ModelResponse:
        items = input if isinstance(input, list) else []
        self.outputs = [str(item["output"]) for item in items if item.get("type") == "function_call_output"]
        number, self._said = self._said, self._said + 1
        if number < len(self._calls):
            name, arguments = self._calls[number]
            item: Any = ResponseFunctionToolCall(
                type="function_call", call_id=f"call-{number}", name=name, arguments=json.dumps(arguments)
            )
        else:
            text = ResponseOutputText(type="output_text", text="done", annotations=[])
            item = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *_arguments: Any, **_options: Any) -> Any:
        raise NotImplementedError("the tests do not stream")


async def run(model: Scripted, **sandbox: Any) -> Any:
    agent = SandboxAgent(
        name="worker", model=model, instructions="work", default_manifest=sandbox.pop("manifest", None)
    )
    config = RunConfig(sandbox=SandboxRunConfig(client=PaddockSandboxClient(), **sandbox), tracing_disabled=True)
    return await Runner.run(agent, "go", run_config=config)


@pytest.fixture
async def session() -> AsyncIterator[SandboxSession]:
    client = PaddockSandboxClient()
    async with await client.create() as made:
        yield made


def inner(session: SandboxSession) -> PaddockSession:
    found = session._inner
    assert isinstance(found, PaddockSession)
    return found


def running() -> list[str]:
    return [one.id for one in Sandbox.list(state="running", metadata={"framework": "openai-agents"})]


async def test_an_agent_runs_commands() -> None:
    model = Scripted(("exec_command", {"cmd": "echo 40 > n"}), ("exec_command", {"cmd": "expr $(cat n) + 2"}))
    assert (await run(model)).final_output == "done"
    assert "42" in model.outputs[1]
    assert running() == []


async def test_an_agent_sees_the_files_of_its_manifest() -> None:
    model = Scripted(("exec_command", {"cmd": "cat data/in.txt"}))
    await run(model, manifest=Manifest(entries={"data/in.txt": File(content=b"from the manifest")}))
    assert "from the manifest" in model.outputs[0]


async def test_an_agent_writes_to_a_command_on_a_terminal(session: SandboxSession) -> None:
    started = await session.pty_exec_start("read line; echo got $line", tty=True, yield_time_s=0.3)
    assert started.process_id is not None
    model = Scripted(("write_stdin", {"session_id": started.process_id, "chars": "hello\n", "yield_time_ms": 5000}))
    await run(model, session=session)
    assert "got hello" in model.outputs[0]


async def test_a_terminal_is_one(session: SandboxSession) -> None:
    update = await session.pty_exec_start("tty; stty size", tty=True, yield_time_s=10)
    assert (update.exit_code, update.process_id) == (0, None)
    assert b"/dev/pts/" in update.output


async def test_a_command_without_a_terminal_takes_no_input(session: SandboxSession) -> None:
    update = await session.pty_exec_start("sleep 600", yield_time_s=0.3)
    assert update.process_id is not None
    with pytest.raises(RuntimeError, match="stdin is not available"):
        await session.pty_write_stdin(session_id=update.process_id, chars="x")
    await session.pty_terminate_all()


async def test_files_are_written_and_read(session: SandboxSession) -> None:
    await session.write(Path("sub/file.bin"), io.BytesIO(b"\0\xff"))
    assert (await session.read(Path("sub/file.bin"))).read() == b"\0\xff"
    with pytest.raises(WorkspaceReadNotFoundError):
        await session.read(Path("absent"))


async def test_a_workspace_is_persisted_and_hydrated(session: SandboxSession) -> None:
    await session.exec("mkdir -p a && echo kept > a/b && ln -s b a/link")
    archive = await session.persist_workspace()
    async with await PaddockSandboxClient().create() as other:
        await other.hydrate_workspace(archive)
        assert (await other.exec("cat a/link")).stdout == b"kept\n"


async def test_an_unsafe_archive_is_refused(session: SandboxSession) -> None:
    import tarfile

    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("../escape"))
    made.seek(0)
    with pytest.raises(WorkspaceArchiveWriteError):
        await session.hydrate_workspace(made)


async def test_a_paused_session_goes_on_with_its_processes() -> None:
    client = PaddockSandboxClient()
    session = await client.create(options=PaddockSandboxOptions(pause_on_exit=True))
    async with session:
        await session.exec("echo before > f; sleep 600 & echo $! > pid")
        payload = client.serialize_session_state(session.state)
    sandbox_id = inner(session).sandbox.id
    assert Sandbox.connect(sandbox_id).info().state == "paused"
    resumed = await client.resume(client.deserialize_session_state(payload))
    async with resumed:
        assert inner(resumed).sandbox.id == sandbox_id
        assert (await resumed.exec("cat f && kill -0 $(cat pid)")).exit_code == 0
    Sandbox.connect(sandbox_id).kill()


async def test_a_session_that_another_process_resumes_has_no_lease() -> None:
    client = PaddockSandboxClient()
    for options in (PaddockSandboxOptions(pause_on_exit=True), PaddockSandboxOptions(lease_seconds=None)):
        session = await client.create(options=options)
        sandbox = inner(session).sandbox
        payload = json.loads(json.dumps(client.serialize_session_state(session.state)))
        resumed = await client.resume(client.deserialize_session_state(payload))
        assert inner(resumed).sandbox.id == sandbox.id
        assert not KEEPER.keeps(sandbox.id)
        info = await sandbox.info()
        assert info.expires_at is not None
        assert info.expires_at - info.created_at > timedelta(minutes=50)
        await sandbox.kill()


async def test_a_resumed_session_has_a_lease_of_the_process_that_resumed_it() -> None:
    client = PaddockSandboxClient()
    session = await client.create(options=PaddockSandboxOptions())
    sandbox_id = inner(session).sandbox.id
    payload = client.serialize_session_state(session.state)
    KEEPER.let_go(sandbox_id)
    resumed = await client.resume(client.deserialize_session_state(payload))
    assert KEEPER.keeps(sandbox_id)
    await inner(resumed).sandbox.kill()


async def test_a_session_whose_sandbox_is_gone_begins_anew() -> None:
    client = PaddockSandboxClient()
    async with await client.create() as session:
        payload = client.serialize_session_state(session.state)
    async with await client.resume(client.deserialize_session_state(payload)) as resumed:
        assert (await resumed.exec("echo alive")).stdout == b"alive\n"


async def test_a_timeout_has_the_output_so_far(session: SandboxSession) -> None:
    with pytest.raises(ExecTimeoutError) as raised:
        await session.exec("echo begun; sleep 600", timeout=1)
    assert raised.value.context["stdout"] == "begun\n"


async def test_a_dead_sandbox_is_a_transport_error(session: SandboxSession) -> None:
    await inner(session).sandbox.kill()
    with pytest.raises(ExecTransportError, match="sandbox_ended"):
        await session.exec("true")
    assert not await session.running()


async def test_a_full_disk_is_an_error_of_the_write() -> None:
    async with await PaddockSandboxClient().create(options=PaddockSandboxOptions(limits=SMALL_DISK)) as session:
        await session.exec(FILL)
        with pytest.raises(WorkspaceArchiveWriteError) as raised:
            await session.write(Path("more"), io.BytesIO(b"x" * (8 << 20)))
        assert "disk_full" in str(raised.value.cause)


async def test_an_unknown_template_is_an_error_of_the_start() -> None:
    with pytest.raises(WorkspaceStartError, match="no-such-template"):
        await PaddockSandboxClient().create(options=PaddockSandboxOptions(template="no-such-template"))


async def test_a_lost_server_is_an_error_of_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_URL", LOST_SERVER)
    with pytest.raises(WorkspaceStartError, match="no server listens"):
        await PaddockSandboxClient().create()


async def test_a_lost_server_is_an_error_of_the_resume_too(monkeypatch: pytest.MonkeyPatch) -> None:
    client = PaddockSandboxClient()
    made = await client.create()
    state = client.deserialize_session_state(client.serialize_session_state(inner(made).state))
    await client.delete(made)
    monkeypatch.setenv("PADDOCK_URL", LOST_SERVER)
    with pytest.raises(WorkspaceStartError, match="no server listens"):
        await client.resume(state)


async def test_a_port_needs_an_address(session: SandboxSession) -> None:
    with pytest.raises(ExposedPortUnavailableError) as raised:
        await inner(session)._resolve_exposed_port(8000)
    assert "has no URL" in raised.value.context["detail"]


async def test_a_port_needs_a_domain(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_URL", server.tcp_url)
    monkeypatch.setenv("PADDOCK_TOKEN", server.token())
    options = PaddockSandboxOptions(exposed_ports=(8000,))
    async with await PaddockSandboxClient().create(options=options) as session:
        with pytest.raises(ExposedPortUnavailableError) as raised:
            await session.resolve_exposed_port(8000)
        assert "--domain" in raised.value.context["detail"]


@pytest.fixture
def with_domain() -> Iterator[Server]:
    """A server whose ports have names."""
    made = Server(Path(tempfile.mkdtemp(prefix="paddock-integrations-")), ["--domain", "box.example.org"])
    made.start()
    try:
        yield made
        made.sweep()
    finally:
        made.end(signal.SIGTERM)
        unmount_below(made.directory)
        shutil.rmtree(made.directory, ignore_errors=True)


async def test_a_port_is_fetched_through_its_endpoint(with_domain: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    token, resolve = with_domain.token(), socket.getaddrinfo

    def resolved(host: Any, *rest: Any, **more: Any) -> Any:
        # The name of the domain, which only the tests know.
        return resolve("127.0.0.1" if str(host).endswith(".box.example.org") else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    monkeypatch.setenv("PADDOCK_URL", with_domain.tcp_url)
    monkeypatch.setenv("PADDOCK_TOKEN", token)
    client = PaddockSandboxClient()
    async with await client.create(options=PaddockSandboxOptions(exposed_ports=(8000, 8001))) as session:
        await session.write(Path("index.html"), io.BytesIO(b"served"))
        serving = await inner(session).sandbox.exec(
            "python3 -um http.server 8001 & exec python3 -um http.server 8000 2>&1",
            cwd=inner(session).state.manifest.root,
            background=True,
        )
        said = b""
        async for event in serving.stream():
            said += event.data if isinstance(event, Output) else b""
            if b"port 8000" in said and b"port 8001" in said:
                break
        endpoint = await session.resolve_exposed_port(8000)
        name = f"8000-{inner(session).sandbox.id}.box.example.org"
        assert (endpoint.host, endpoint.port, endpoint.tls) == (name, with_domain.port, False)
        address = endpoint.url_for("http")
        # A right to this port, and neither the token nor a part of it.
        assert token not in address
        assert "paddock_token=pdp_" in address
        assert token not in json.dumps(client.serialize_session_state(inner(session).state))
        assert (await asyncio.to_thread(fetched, address)).text == "served"
        assert (await asyncio.to_thread(fetched, address.replace("//8000-", "//8001-"))).status_code == 403
        right = {"Authorization": f"Bearer {endpoint.query.removeprefix('paddock_token=')}"}
        async with httpx.AsyncClient(base_url=with_domain.tcp_url, trust_env=False, headers=right) as other:
            assert (await other.get("/v1/whoami")).status_code == 401
    assert (await asyncio.to_thread(fetched, address)).status_code == 403


def fetched(address: str) -> httpx.Response:
    """As anything fetches it that takes an address and nothing else."""
    with httpx.Client(trust_env=False) as client:
        return client.get(address)


def test_a_killed_program_leaves_nothing() -> None:
    killed_maker_leaves_nothing(
        "import asyncio\n"
        "from paddock_integrations.openai_agents import PaddockSandboxClient, PaddockSandboxOptions\n"
        "made = asyncio.run(PaddockSandboxClient().create(options=PaddockSandboxOptions(lease_seconds=LEASE)))\n"
        "print(made.state.sandbox_id, flush=True)"
    )
