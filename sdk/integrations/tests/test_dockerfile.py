"""Dockerfiles: what is read, what is refused, and templates that are built from a small image of the tests' own."""

from __future__ import annotations

import asyncio
import os
import tarfile
from pathlib import Path

import pytest
from helpers import LOST_SERVER, living, nothing_lives
from paddock import AsyncTemplates, ConnectionFailed, Sandbox, TemplateBuildFailed

from paddock_integrations._build_context import BuildContext
from paddock_integrations.dockerfile import DockerfileError, DockerfileTemplate, ImageSettings

SETTINGS = ImageSettings(env={"PATH": "/bin"}, machine="x86_64")


def files(place: Path, **contents: str) -> Path:
    """A directory; `__` in a name stands for a slash, and a leading `_` for a dot."""
    for name, content in contents.items():
        path = place / name.replace("__", "/").replace("_", ".", 1 if name.startswith("_") else 0)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return place


def read(place: Path, text: str, **options: object) -> DockerfileTemplate:
    (place / "Dockerfile").write_text(text)
    return DockerfileTemplate(place, **options)  # type: ignore[arg-type]


def steps(place: Path, text: str, settings: ImageSettings = SETTINGS, **options: object) -> list[dict[str, object]]:
    """Without the first ones, which set what the image brings."""
    (place / "archives").mkdir()
    made, _, _ = read(place, text, **options).steps(settings, place / "archives")
    return made[2:]


def commands(place: Path, text: str, **options: object) -> list[object]:
    return [step["command"] for step in steps(place, text, **options) if step["kind"] == "run"]


def packed(place: Path, text: str) -> list[str]:
    """What the first step that copies sends."""
    archives = place.parent / f"{place.name}-archives"
    archives.mkdir()
    _, _, made = read(place, text).steps(SETTINGS, archives)
    with tarfile.open(made[0]) as archive:
        return archive.getnames()


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("FROM a\nRUN true\nFROM b\n", 3, "second stage"),
        ("FROM a\nRUN --mount=type=cache,target=/x make\n", 2, "--mount cannot be done"),
        ("FROM a\n\nCOPY --from=other /x /y\n", 3, "--from cannot be done"),
        ("FROM a\nADD https://example.org/x /x\n", 2, "cannot be fetched"),
        ("FROM a\nONBUILD RUN true\n", 2, "ONBUILD"),
        ("FROM scratch\n", 1, "no shell"),
        ("RUN true\nFROM a\n", 1, "before FROM"),
        ("FROM a\nUSER one:two\n", 2, "group two"),
        ("FROM a\nCOPY absent /x\n", 2, "names nothing"),
        ("FROM a\nCOPY ../x /x\n", 2, "outside"),
        ("FROM a\nFLY away\n", 2, "no instruction"),
        ("FROM a\nSHELL bash\n", 2, "list"),
        ("FROM a\nENV A=1 B\n", 2, "NAME=VALUE"),
        ('FROM a\nENV A="1\n', 2, "not closed"),
        ("FROM a\nRUN <<EOF\ntrue\n", 2, "no end"),
        ("FROM a\nRUN\n", 2, "no argument"),
        ("# only a comment\n", 1, "no FROM"),
    ],
)
def test_what_cannot_be_built_is_refused_with_its_line(tmp_path: Path, text: str, line: int, reason: str) -> None:
    with pytest.raises(DockerfileError, match=reason) as caught:
        steps(tmp_path, text)
    assert caught.value.line == line
    assert f"line {line}" in str(caught.value)


def test_a_health_check_is_left_out_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = "FROM a\nRUN one\nHEALTHCHECK --interval=5m --retries=3 \\\n CMD curl -f http://localhost/\nRUN two\n"
    assert commands(tmp_path, text) == ["/bin/sh -c one", "/bin/sh -c two"]
    (warned,) = [record.getMessage() for record in caplog.records]
    assert "line 3: HEALTHCHECK is left out" in warned


@pytest.mark.parametrize(
    ("user", "wanted"), [("root", []), ("0:0", []), ("app", ["app"]), ("app:app", ["app"]), ("1001:0", ["1001:0"])]
)
def test_a_build_begins_as_the_user_of_the_base_image(tmp_path: Path, user: str, wanted: list[str]) -> None:
    settings = ImageSettings(user=user, machine="x86_64")
    found = steps(tmp_path, "FROM a\nRUN one\nUSER root\n", settings)
    names = [step["name"] for step in found if step["kind"] == "user"]
    assert names == [*wanted, *(["root"] if wanted else [])]
    assert [step["kind"] for step in found][: len(wanted) + 1] == [*(["user"] if wanted else []), "run"]


def test_an_archive_is_not_added(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        archive.add(__file__, "f")
    with pytest.raises(DockerfileError, match="is not unpacked"):
        steps(tmp_path, "FROM a\nADD x.tar.gz /x\n")


def test_lines_are_continued_and_comments_left_out(tmp_path: Path) -> None:
    text = "FROM a\nRUN echo one && \\\n  # a comment\n\n  echo two\n# RUN echo three\n"
    assert commands(tmp_path, text) == ["/bin/sh -c 'echo one &&   echo two'"]


def test_the_exec_form_and_another_shell(tmp_path: Path) -> None:
    text = 'FROM a\nRUN ["echo", "$A b"]\nSHELL ["/bin/bash", "-o", "pipefail", "-c"]\nRUN a | b\n'
    assert commands(tmp_path, text) == ["echo '$A b'", "/bin/bash -o pipefail -c 'a | b'"]


def test_here_documents_are_scripts_or_input(tmp_path: Path) -> None:
    text = "FROM a\nRUN <<EOF\necho one\necho two\nEOF\nRUN cat <<-'END' > /x\n\t$A\n\tEND\n"
    assert commands(tmp_path, text) == [
        "/bin/sh -c 'echo one\necho two\n'",
        "/bin/sh -c 'cat <<-'\"'\"'END'\"'\"' > /x\n\t$A\n\tEND\n'",
    ]


def test_variables_are_those_of_the_image_and_of_the_file(tmp_path: Path) -> None:
    text = (
        'FROM a\nENV A=1 B="two $A words" PATH=/opt/bin:$PATH\nENV OLD all the rest\n'
        "ENV C=${A:-no} D=${NONE:-yes} E=${A:+set} F='$A' G=\\$A\n"
    )
    found = [step["variables"] for step in steps(tmp_path, text)]
    # As Docker has it, variables of one line are not known to one another.
    assert found == [
        {"A": "1", "B": "two  words", "PATH": "/opt/bin:/bin"},
        {"OLD": "all the rest"},
        {"C": "1", "D": "yes", "E": "set", "F": "$A", "G": "$A"},
    ]


def test_arguments_are_for_commands_and_not_kept(tmp_path: Path) -> None:
    text = "ARG TAG=1\nFROM image:${TAG}\nARG TAG\nARG A=default\nARG TARGETARCH\nENV B=$A\nRUN true\n"
    template = read(tmp_path, text, arguments={"A": "it's"})
    assert template.image == "image:1"
    assert steps(tmp_path, text, arguments={"A": "it's"}) == [
        {"kind": "env", "variables": {"B": "it's"}},
        {"kind": "run", "command": "TAG=1 A='it'\"'\"'s' TARGETARCH=amd64 /bin/sh -c true"},
    ]
    assert read(tmp_path, text, arguments={"TAG": "2"}).image == "image:2"


def test_directories_users_and_volumes(tmp_path: Path) -> None:
    settings = ImageSettings(cwd="/srv", machine="x86_64")
    text = "FROM a\nUSER app\nWORKDIR sub\nUSER 0\nVOLUME /data /more\n"
    made, start, _ = read(tmp_path, text).steps(settings, tmp_path)
    assert made == [
        {"kind": "user", "name": "root"},
        {"kind": "workdir", "path": "/srv"},
        {"kind": "user", "name": "app"},
        {"kind": "user", "name": "root"},
        {"kind": "workdir", "path": "/srv/sub"},
        {"kind": "user", "name": "app"},
        {"kind": "user", "name": "root"},
        {"kind": "run", "command": "mkdir -p -- /data /more", "user": "root"},
    ]
    assert start is None


@pytest.mark.parametrize(
    ("text", "given", "wanted"),
    [
        ('CMD ["serve", "a b"]', None, "serve 'a b'"),
        ("CMD serve it", None, "/bin/sh -c 'serve it'"),
        ('ENTRYPOINT ["/enter"]\nCMD ["serve"]', None, "/enter serve"),
        ('ENTRYPOINT ["/enter"]\nCMD ["serve"]', ["sleep", "infinity"], "/enter sleep infinity"),
        ('CMD ["serve"]', ["sleep", "infinity"], None),
    ],
)
def test_what_is_started(tmp_path: Path, text: str, given: list[str] | None, wanted: str | None) -> None:
    template = read(tmp_path, f"FROM a\n{text}\n", entrypoint_with=given)
    assert template.steps(SETTINGS, tmp_path)[1] == wanted


def test_what_dockerignore_leaves_out_is_not_sent(tmp_path: Path) -> None:
    place = files(
        tmp_path / "context",
        a__keep="1",
        a__drop_log="2",
        a__deep__x_log="3",
        b__secret="4",
        b__public="5",
        _dockerignore="# a comment\n**/*_log\nb\n!b/public\nDockerfile\n",
    )
    assert packed(place, "FROM a\nCOPY . /x/\n") == [".", ".dockerignore", "a", "a/deep", "a/keep", "b", "b/public"]
    with pytest.raises(DockerfileError, match="dockerignore leaves it out"):
        steps(place, "FROM a\nCOPY b/secret /x\n")


def test_links_are_copied_and_lead_nowhere_outside(tmp_path: Path) -> None:
    place = files(tmp_path / "context", a__f="1")
    os.symlink("/etc/passwd", place / "a" / "link")
    os.symlink("/etc/passwd", place / "passwd")
    assert packed(place, "FROM a\nCOPY a /x\n") == [".", "f", "link"]
    with pytest.raises(DockerfileError, match="leads to no file"):
        steps(place, "FROM a\nCOPY passwd /x\n")


def test_the_name_is_that_of_the_content(tmp_path: Path) -> None:
    place = files(tmp_path, data="1", _dockerignore="ignored\n")
    text = "FROM a\nCOPY data /x\n"
    first = read(place, text).name()
    (place / "ignored").write_text("x")
    os.utime(place / "data", (1, 1))
    assert read(place, text).name() == first
    assert read(place, text, arguments={"A": "1"}).name() != first
    (place / "data").chmod(0o755)
    second = read(place, text).name()
    (place / "data").write_text("2")
    assert len({first, second, read(place, text).name(), read(place, text + "RUN true\n").name()}) == 4
    assert len(BuildContext(place).digest()) == 64


TEXT = """
ARG BASE
FROM ${BASE} AS only
LABEL a=b
ARG VERSION=7
ENV KIND=docker GREETED="$FROM_IMAGE indeed"
WORKDIR /app
RUN echo $KIND $VERSION > kind; pwd >> kind; id -un >> kind
COPY one* nested ./
COPY --chmod=755 --chown=nobody:nogroup tool /bin/tool
COPY <<EOF /app/inline
inline for $KIND
EOF
ADD one /app/renamed
RUN <<EOF
tool > ran
EOF
USER nobody
RUN id -un > /tmp/who
CMD echo up > /tmp/up; exec sleep 600
"""


async def test_a_dockerfile_becomes_a_template(tmp_path: Path, busybox: str) -> None:
    place = files(tmp_path, one="1", one_more="2", nested__deep__f="3", tool="#!/bin/sh\necho tool ran\n")
    lines: list[str] = []
    template = read(place, TEXT, arguments={"BASE": busybox}, prefix="tests")
    name = await template.build(on_log=lambda entry: lines.append(entry.message))
    assert name.startswith("tests-")
    assert any("echo $KIND" in line for line in lines)
    with Sandbox.create(template=name, ttl_seconds=300) as sandbox:
        seen = sandbox.exec(
            "cat kind inline ran /tmp/who renamed; echo; ls; cat one one_more deep/f; echo; id -un; pwd"
        )
        assert seen.stdout.splitlines() == [
            *("docker 7", "/app", "root", "inline for docker", "tool ran", "nobody", "1"),
            *("deep", "inline", "kind", "one", "one_more", "ran", "renamed", "123", "nobody", "/app"),
        ]
        assert sandbox.exec("echo $KIND $GREETED; echo [$VERSION]").stdout == "docker yes indeed\n[]\n"
        assert sandbox.exec("ls -l /bin/tool").stdout.split()[0:3:2] == ["-rwxr-xr-x", "nobody"]
        assert sandbox.exec("until test -e /tmp/up; do sleep 0.1; done", timeout_seconds=60).ok
    again: list[str] = []
    assert await template.build(on_log=lambda entry: again.append(entry.message)) == name
    assert again == []
    assert [build.name for build in await AsyncTemplates().builds()].count(name) == 1


async def test_a_template_has_the_user_of_its_base_image(tmp_path: Path, busybox_of_nobody: str) -> None:
    text = (
        f"FROM {busybox_of_nobody}\nWORKDIR /app\nRUN id -un > /tmp/who\n"
        "USER root\nRUN id -un > /app/who\nUSER nobody\n"
    )
    name = await read(tmp_path, text).build()
    with Sandbox.create(template=name, ttl_seconds=300) as sandbox:
        assert sandbox.exec("cat /tmp/who /app/who; id -un").stdout.split() == ["nobody", "root", "nobody"]
        assert sandbox.exec("ls -ld /app | awk '{print $3}'").stdout == "root\n"
    name = await read(tmp_path, f"FROM {busybox_of_nobody}\nRUN id -un > /tmp/who\n").build()
    with Sandbox.create(template=name, ttl_seconds=300) as sandbox:
        assert sandbox.exec("cat /tmp/who; id -un").stdout.split() == ["nobody", "nobody"]


async def test_force_builds_again(tmp_path: Path, busybox: str) -> None:
    text = f"FROM {busybox}\nRUN cat /proc/sys/kernel/random/uuid > /id\n"
    template = read(tmp_path, text)
    seen = []
    for force in (False, False, True):
        with Sandbox.create(template=await template.build(force=force), ttl_seconds=300) as sandbox:
            seen.append(sandbox.exec("cat /id").stdout)
    assert seen[0] == seen[1] != seen[2]


async def test_a_step_that_fails_is_told_with_its_log(tmp_path: Path, busybox: str) -> None:
    template = read(tmp_path, f"FROM {busybox}\nRUN echo the reason; exit 3\n")
    with pytest.raises(TemplateBuildFailed, match="exit code 3") as caught:
        await template.build()
    assert "the reason" in str(caught.value)
    with pytest.raises(TemplateBuildFailed):
        # A template that failed is not taken for one that is there.
        await template.build()


async def test_the_machine_is_that_of_the_server(tmp_path: Path, busybox: str) -> None:
    other = "arm64" if os.uname().machine == "x86_64" else "amd64"
    with pytest.raises(DockerfileError, match="line 2: FROM: --platform"):
        await read(tmp_path, f"\nFROM --platform=linux/{other} {busybox}\n").build()
    own = "amd64" if other == "arm64" else "arm64"
    assert await read(tmp_path, f"FROM --platform=linux/{own} {busybox}\n").build()
    nothing_lives()


async def test_a_build_leaves_no_sandbox(tmp_path: Path, busybox: str) -> None:
    await read(tmp_path, f"FROM {busybox}\nRUN true # alone\n").build()
    nothing_lives()
    building = asyncio.create_task(read(tmp_path, f"FROM {busybox}\nRUN sleep 1 # cancelled\n").build())
    while not living():
        # A look after each step of the build: its sandbox lives for a few of them.
        await asyncio.sleep(0)
        assert not building.done()
    building.cancel()
    await asyncio.gather(building, return_exceptions=True)
    nothing_lives()


async def test_a_lost_server_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_URL", LOST_SERVER)
    with pytest.raises(ConnectionFailed):
        await read(tmp_path, "FROM image\n").build()
