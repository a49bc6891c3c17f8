"""Templates that are built by a real server from a small image of a registry of the tests' own."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import sys
import tempfile
import uuid
from importlib import import_module
from pathlib import Path
from typing import Iterator, List, NamedTuple

import pytest

from paddock import (
    AsyncTemplates,
    BuildLogEntry,
    FilesystemError,
    ImageFailed,
    InvalidRequest,
    NotFound,
    Sandbox,
    TemplateBuildFailed,
    TemplateNotFound,
    Templates,
    WaitTimeout,
)

from ..real_server import Server, unmount_below

REGISTRY = Path(__file__).resolve().parents[4] / "tests" / "e2b"


class Place(NamedTuple):
    url: str
    image: str
    private_image: str


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """A server that may fetch from a registry, and the reference of a busybox there."""
    if not REGISTRY.exists():
        pytest.skip("the package is tested without its sources")
    sys.path.insert(0, str(REGISTRY))
    Registry = import_module("registry").Registry

    registry = Registry()
    if registry.image is None:
        pytest.skip("this machine has no static /bin/busybox to make an image of")
    made = Server(Path(tempfile.mkdtemp(prefix="paddock-sdk-")), ["--registries", registry.address])
    made.start()
    yield Place(made.url, registry.image, registry.private_image)
    made.sweep()
    made.end(signal.SIGTERM)
    unmount_below(made.directory)
    shutil.rmtree(made.directory, ignore_errors=True)
    registry.close()


@pytest.fixture
def image(place: Place, _configured: None, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PADDOCK_URL", place.url)
    return place.image


def name() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def inside(template: str, command: str) -> str:
    with Sandbox.create(template=template, ttl_seconds=300) as sandbox:
        return sandbox.exec(command).stdout


def test_steps_become_a_template(image: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "f").write_text("in a directory")
    (tmp_path / "tool").write_text("#!/bin/sh\necho ran\n")
    templates, wanted = Templates(), name()
    log: List[BuildLogEntry] = []
    build = templates.build(
        f"{wanted}:v1",
        image=image,
        tags=["stable"],
        steps=[
            {"kind": "env", "variables": {"KIND": "built"}},
            {"kind": "workdir", "path": "/app"},
            {"kind": "run", "command": "echo $KIND > kind"},
            templates.copy(tmp_path / "tool", "/bin/tool", user="root", mode=0o755),
            templates.copy(tmp_path, "/app/copied"),
        ],
        start="echo up > /tmp/up; exec sleep 600",
        ready="test -e /tmp/up",
        memory_bytes=256 << 20,
        on_log=log.append,
    )
    assert (build.state, build.tags, build.name) == ("ready", ("stable", "v1"), wanted)
    assert build.finished
    assert build.size_bytes
    said = [entry.message for entry in log]
    assert any("RUN echo $KIND" in line for line in said), said
    assert [entry.message for entry in templates.log(build.id)] == said
    assert inside(f"{wanted}:stable", "cat kind copied/sub/f /tmp/up; tool") == "built\nin a directoryup\nran\n"
    assert templates.get(wanted).tags == {"v1": build.id, "stable": build.id}
    assert wanted in [template.name for template in templates.list()]
    assert templates.get_build(build.id) == build
    templates.delete(wanted)
    with pytest.raises(TemplateNotFound):
        templates.get(wanted)


def test_a_login_opens_a_private_image(image: str, place: Place) -> None:
    templates, wanted = Templates(), name()
    login = {"username": "ann", "password": import_module("registry").LOGINS["ann"]}
    templates.build(wanted, image=place.private_image, registry=login)
    assert inside(wanted, "cat /etc/greeting") == "from the private image\n"
    with pytest.raises(TemplateBuildFailed, match="does not let us read e2b/private"):
        templates.build(name(), image=place.private_image)

    async def with_a_wrong_password() -> None:
        await AsyncTemplates().build(name(), image=place.private_image, registry={**login, "password": "wrong"})

    with pytest.raises(TemplateBuildFailed, match="does not let us read e2b/private"):
        asyncio.run(with_a_wrong_password())
    with pytest.raises(InvalidRequest, match="goes with `image`"):
        templates.build(name(), template=wanted, registry=login)
    with pytest.raises(InvalidRequest, match="username"):
        templates.build(name(), image=image, registry={"username": "", "password": "x"})
    templates.delete(wanted)


def test_a_template_begins_with_another_and_steps_are_kept(image: str) -> None:
    templates, below, above = Templates(), name(), name()
    step = {"kind": "run", "command": "cat /proc/sys/kernel/random/uuid > /home/user/id"}
    templates.build(below, image=image, steps=[step])
    templates.build(above, template=below, steps=[{"kind": "run", "command": "cp id copy"}])
    one = inside(below, "cat id")
    assert inside(above, "cat id copy") == one * 2
    templates.build(below, image=image, steps=[step])
    assert inside(below, "cat id") == one
    templates.build(below, image=image, steps=[step], no_cache=True)
    assert inside(below, "cat id") != one


def test_a_failing_step_raises_its_reason_and_the_end_of_the_log(image: str) -> None:
    templates, wanted = Templates(), name()
    steps = [{"kind": "run", "command": "true"}, {"kind": "run", "command": "echo the reason; exit 3"}]
    with pytest.raises(TemplateBuildFailed, match=r"at step 2: .*exit code 3") as caught:
        templates.build(wanted, image=image, steps=steps)
    assert "the reason" in str(caught.value)
    assert caught.value.details["step"] == "2"
    failed = templates.get_build(caught.value.details["build"])
    assert (failed.state, failed.step) == ("failed", "2")
    assert [entry.level for entry in templates.log(failed.id, level="error")] == ["error"]
    with pytest.raises(TemplateNotFound):
        Sandbox.create(template=wanted)


def test_bad_builds_have_their_errors(image: str, tmp_path: Path) -> None:
    templates = Templates()
    with pytest.raises(InvalidRequest, match="step 1"):
        templates.build(name(), image=image, steps=[{"kind": "run", "command": " "}])
    with pytest.raises(InvalidRequest, match="fly"):
        templates.build(name(), image=image, steps=[{"kind": "fly"}])
    with pytest.raises(InvalidRequest, match="tags"):
        templates.build(name(), image=image, tags="one")
    with pytest.raises((TemplateBuildFailed, ImageFailed)):
        templates.build(name(), image=f"{image}-of-nobody")
    with pytest.raises(TemplateNotFound):
        templates.build(name(), template="no-such-template")
    with pytest.raises(FilesystemError, match="absent"):
        templates.copy(tmp_path / "absent", "/x")
    with pytest.raises(NotFound):
        templates.get_build(str(uuid.uuid4()))


def test_waiting_has_an_end_and_the_build_goes_on(image: str) -> None:
    templates = Templates()
    build = templates.start_build(name(), image=image, steps=[{"kind": "run", "command": "sleep 1"}])
    with pytest.raises(WaitTimeout, match="goes on"):
        templates.wait(build.id, timeout_seconds=0)
    assert templates.wait(build.id).state == "ready"
    assert build.id in [one.id for one in templates.builds()]


def test_the_example_of_the_readme(image: str, capsys: pytest.CaptureFixture[str]) -> None:
    readme = (REGISTRY.parents[1] / "sdk" / "python" / "README.md").read_text()
    (block,) = re.findall(r"```python\n(?=[^`]*Templates)(.*?)```", readme, re.DOTALL)
    assert '"busybox:1.37"' in block
    exec(compile(block.replace("busybox:1.37", image), "README.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.endswith("hello world\n\n")


async def without_blocking(image: str) -> None:
    templates = AsyncTemplates()
    steps = [{"kind": "run", "command": "echo $N", "force": True}]
    builds = await asyncio.gather(*[templates.build(name(), image=image, steps=steps) for _ in range(3)])
    assert [build.state for build in builds] == ["ready"] * 3
    assert [entry.message async for entry in templates.log(builds[0].id)]
    await templates.aclose()


def test_the_asynchronous_surface(image: str) -> None:
    asyncio.run(without_blocking(image))
