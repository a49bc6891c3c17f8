"""Files in an image with busybox alone: its tools lack options that GNU's have, and no provider needs them."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from paddock import AsyncSandbox, Sandbox

from paddock_integrations.google_adk import PaddockEnvironment
from paddock_integrations.inspect import PaddockConfig, PaddockSandboxEnvironment
from paddock_integrations.pydantic_ai import PaddockWorkspace
from paddock_integrations.strands import PaddockSandbox

SET_UP = "mkdir -p real && echo old > real/file && ln -s real link && ln -s file real/again && ln -s loop loop"


class Editor(NamedTuple):
    sandbox_id: str
    write: Callable[[str, bytes], Awaitable[None]]


async def inspect(image: str) -> AsyncIterator[Editor]:
    config = PaddockConfig(image=image)
    made = await PaddockSandboxEnvironment.sample_init("busybox", config, {})
    environment = made["default"].as_type(PaddockSandboxEnvironment)
    yield Editor(environment.sandbox.id, environment.write_file)
    await PaddockSandboxEnvironment.sample_cleanup("busybox", config, made, False)
    await PaddockSandboxEnvironment.task_cleanup("busybox", config, True)


async def pydantic_ai(image: str) -> AsyncIterator[Editor]:
    workspace = PaddockWorkspace(image=image)
    where = await workspace.working_dir()
    assert workspace.ref is not None
    yield Editor(workspace.ref.id, lambda path, data: workspace.write_bytes(f"{where}/{path}", data))
    await workspace.delete()


async def google_adk(image: str) -> AsyncIterator[Editor]:
    environment = PaddockEnvironment(image=image)
    await environment.initialize()
    yield Editor(environment.id, lambda path, data: environment.write_file(Path(path), data))
    await environment.close()


async def strands(image: str) -> AsyncIterator[Editor]:
    async with PaddockSandbox(image=image) as sandbox:
        yield Editor(sandbox.id, sandbox.write_file)


@pytest.fixture(params=[inspect, pydantic_ai, google_adk, strands], ids=lambda made: made.__name__)
async def editor(request: pytest.FixtureRequest, busybox: str) -> AsyncIterator[Editor]:
    async for made in request.param(busybox):
        yield made


async def test_a_file_is_written_as_an_editor_does(editor: Editor) -> None:
    sandbox = await AsyncSandbox.connect(editor.sandbox_id)
    assert (await sandbox.exec(SET_UP)).ok
    await editor.write("new/er/file", b"made")
    await editor.write("link/again", b"new")
    told = await sandbox.exec("cat new/er/file real/file; readlink real/again")
    assert told.stdout == "madenewfile\n"


async def test_a_file_that_cannot_be_written_is_told_with_its_reason(editor: Editor) -> None:
    sandbox = await AsyncSandbox.connect(editor.sandbox_id)
    assert (await sandbox.exec(f"{SET_UP}; chmod 444 real/file")).ok
    for path, number in (("loop", errno.ELOOP), ("link", errno.EISDIR), ("real/file/x", errno.ENOTDIR)):
        with pytest.raises(OSError, match=path) as raised:
            await editor.write(path, b"x")
        assert raised.value.errno == number, path
    assert (await sandbox.exec("cat real/file")).stdout == "old\n"
    if (await sandbox.exec("id -u")).stdout != "0\n":
        with pytest.raises(PermissionError):
            await editor.write("real/file", b"x")


async def test_a_workspace_looks_through_links(busybox: str) -> None:
    workspace = PaddockWorkspace(image=busybox)
    here = await workspace.working_dir()
    assert (await workspace.run(SET_UP, shell=True)).exit_code == 0
    assert await workspace.realpath(f"{here}/link/../link/again") == f"{here}/real/file"
    assert await workspace.realpath(f"{here}/link/no/where") == f"{here}/real/no/where"
    found = [await workspace.exists(f"{here}/{name}") for name in ("link", "link/again", "loop", "no")]
    assert found == [True, True, False, False]
    entry = await workspace.stat(f"{here}/link")
    assert (entry.is_dir, entry.name) == (True, "link")
    listed = {entry.name: entry.is_dir for entry in await workspace.list_dir(here)}
    assert listed == {"link": True, "loop": False, "real": True}
    with pytest.raises(ValueError, match="working directory"):
        await workspace.remove(f"{here}/real/../../{here}")
    await workspace.remove(f"{here}/link")
    assert (await workspace.run(["cat", "real/file"])).stdout == "old\n"
    await workspace.delete()


def test_nothing_is_left() -> None:
    frameworks = {"inspect-ai", "pydantic-ai", "google-adk", "strands"}
    assert [one.id for one in Sandbox.list(state="running") if one.info().metadata.get("framework") in frameworks] == []
