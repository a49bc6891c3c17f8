"""Templates from Dockerfiles: `name = await DockerfileTemplate("directory").build()` for `create(template=name)`.

The Dockerfile becomes steps of a build by the server: RUN, COPY and ADD of files of the directory, ENV, ARG, WORKDIR,
USER, SHELL, VOLUME, CMD and ENTRYPOINT of one stage. Everything else is refused with its line (`DockerfileError`), but
for a HEALTHCHECK, which changes nothing that runs: it is left out, with a warning in the log.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import platform
import posixpath
import re
import shlex
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paddock import AsyncClient, AsyncTemplates, BuildLogEntry, NotFound

from ._build_context import BuildContext, inline, new_archive
from ._dockerfile import DockerfileError, Instruction, in_document, many_words, one_word, pairs, read
from ._shared import make

__all__ = ["DockerfileError", "DockerfileTemplate", "ImageSettings"]

log = logging.getLogger("paddock_integrations")

#: Goes into the name of a template, and changes when the same Dockerfile would become other steps.
GENERATION = 2
#: The sandbox that tells the settings of an image lives this long at most.
LOOK_SECONDS = 300.0
#: Asks a sandbox of the base image for its directory, its machine and its variables.
LOOK = "pwd; uname -m; env"
#: The directory and the variables that a sandbox has where its image has none.
OWN_DIRECTORY = "/workspace"
OWN_VARIABLES = {"HOME", "USER", "LOGNAME", "PWD", "OLDPWD", "SHLVL", "TERM", "LANG", "_"}
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class ImageSettings:
    """What a base image brings."""

    cwd: str = "/"
    #: As the image names it: a name or a number, and perhaps a group after a colon.
    user: str = "root"
    env: Mapping[str, str] = field(default_factory=dict)
    machine: str = platform.machine()


class DockerfileTemplate:
    """A template of the directory of a Dockerfile. The same files have the same name, so that it is built once.

    Args:
        directory: where the Dockerfile is, and what it may copy from.
        dockerfile: another than `Dockerfile` in there.
        arguments: values for its ARG instructions.
        prefix: the beginning of the template's name.
        entrypoint_with: words that the ENTRYPOINT is started with, in the place of CMD.
        client: the server to use; default is the one of the environment.
    """

    def __init__(
        self,
        directory: Path | str,
        *,
        dockerfile: Path | str | None = None,
        arguments: Mapping[str, str] | None = None,
        prefix: str = "dockerfile",
        entrypoint_with: list[str] | None = None,
        client: AsyncClient | None = None,
    ) -> None:
        self._directory = Path(directory)
        self._file = Path(dockerfile) if dockerfile is not None else self._directory / "Dockerfile"
        self._arguments = dict(arguments or {})
        self._entrypoint_with = entrypoint_with
        self._prefix = prefix
        self._client = client
        self.instructions = read(self._file.read_text())
        for one in self.instructions:
            if one.name == "HEALTHCHECK":
                log.warning(
                    "%s, line %d: HEALTHCHECK is left out: nothing asks for the health of a sandbox",
                    self._file,
                    one.line,
                )
        self.instructions = [one for one in self.instructions if one.name != "HEALTHCHECK"]
        self.image, self._platform = _base(self.instructions, self._arguments)

    def name(self) -> str:
        """Of the template, by the content of the Dockerfile and of all that it can copy. Reads all of it."""
        known = [GENERATION, self._file.read_text(), sorted(self._arguments.items()), self._entrypoint_with]
        digest = hashlib.sha256(json.dumps(known).encode())
        digest.update(BuildContext(self._directory).digest().encode())
        return f"{self._prefix}-{digest.hexdigest()[:24]}"

    async def build(
        self,
        *,
        force: bool = False,
        on_log: Callable[[BuildLogEntry], object] | None = None,
        timeout_seconds: float | None = None,
    ) -> str:
        """The name of the template, which is built unless it is there; `force` does every step again."""
        templates = AsyncTemplates(self._client)
        name = await asyncio.to_thread(self.name)
        if not force and await _there(templates, name):
            return name
        settings = await self.look()
        with tempfile.TemporaryDirectory(prefix="paddock-dockerfile-") as place:
            steps, start, archives = await asyncio.to_thread(self.steps, settings, Path(place))
            for step, archive in zip([step for step in steps if step["kind"] == "copy"], archives, strict=True):
                with archive.open("rb") as file:
                    step["files"] = await templates.upload(file)
        await templates.build(
            name,
            image=self.image,
            steps=steps,
            start=start,
            no_cache=force,
            on_log=on_log,
            timeout_seconds=timeout_seconds,
        )
        return name

    async def look(self) -> ImageSettings:
        """The settings of the base image, as a sandbox of it has them: they are not in the Dockerfile."""
        options: dict[str, Any] = {"network": "none", "ttl_seconds": LOOK_SECONDS, "client": self._client}
        async with await make(image=self.image, **options) as sandbox:
            seen = await sandbox.exec(["/bin/sh", "-c", LOOK])
            user = (await sandbox.info()).image_user
        if not seen.ok:
            raise self.instructions[0].refuse(f"{self.image} cannot run /bin/sh, which every step needs: {seen.stderr}")
        cwd, machine, *variables = seen.stdout.splitlines()
        wanted = self._platform.removeprefix("linux/").partition("/")[0]
        if wanted and ARCHITECTURES.get(machine, machine) != wanted:
            reason = f"--platform={self._platform} cannot be done: the sandboxes of this server run on {machine}"
            raise next(one for one in self.instructions if one.name == "FROM").refuse(reason)
        env = dict(line.split("=", 1) for line in variables if re.match(r"[A-Za-z_]\w*=", line))
        return ImageSettings(
            cwd="/" if cwd == OWN_DIRECTORY else cwd,
            user=user or "root",
            env={name: value for name, value in env.items() if name not in OWN_VARIABLES},
            machine=machine,
        )

    def steps(self, settings: ImageSettings, place: Path) -> tuple[list[dict[str, Any]], str | None, list[Path]]:
        """The steps of the build, the start command, and in their order the archives of the steps that copy."""
        reading = _Reading(settings, self._arguments, BuildContext(self._directory), place)
        begun = False
        for one in self.instructions:
            if one.name == "FROM":
                begun = True
                reading.set_user(one, settings.user)
                continue
            if one.name == "ARG" and not begun:
                reading.global_argument(one)
                continue
            reading.instruction(one)
        return reading.made, reading.start(self._entrypoint_with), reading.archives


def _base(instructions: list[Instruction], given: Mapping[str, str]) -> tuple[str, str]:
    known: dict[str, str] = {}
    for one in instructions:
        if one.name == "ARG":
            known.update({name: given.get(name, value) for name, value in pairs(one, known).items()})
            continue
        found = many_words(one, known)
        if len(found) not in (1, 3) or (len(found) == 3 and found[1].upper() != "AS"):
            raise one.refuse(f"{one.text!r} is not an image, or IMAGE AS NAME")
        if found[0] == "scratch":
            raise one.refuse("scratch has no shell, which every step needs")
        if found[0].startswith((".", "/", "~")):
            raise one.refuse(f"{found[0]!r} is a path, not an image of a registry")
        return found[0], one.flags.get("platform", "")
    raise DockerfileError(1, "there is no FROM")


async def _there(templates: AsyncTemplates, name: str) -> bool:
    """Whether a build of this name is ready: its tag is given at the end."""
    try:
        return bool((await templates.get(name)).tags)
    except NotFound:
        return False


class _Reading:
    """The settings that hold at an instruction, and the steps so far."""

    def __init__(self, settings: ImageSettings, given: Mapping[str, str], context: BuildContext, place: Path) -> None:
        self._user, self._cwd = "root", settings.cwd
        self._image_env, self._env = dict(settings.env), dict[str, str]()
        self._given, self._global, self._arguments = given, dict[str, str](), dict[str, str]()
        architecture = ARCHITECTURES.get(settings.machine, settings.machine)
        self._global.update(TARGETOS="linux", TARGETARCH=architecture, TARGETPLATFORM=f"linux/{architecture}")
        self._shell = ["/bin/sh", "-c"]
        self._entrypoint: list[str] | None = None
        self._command: list[str] | None = None
        self._context, self._place = context, place
        self.archives: list[Path] = []
        # Docker makes a missing directory for root, whoever works in it.
        self.made: list[dict[str, Any]] = [
            {"kind": "user", "name": "root"},
            {"kind": "workdir", "path": self._cwd},
        ]

    @property
    def _variables(self) -> dict[str, str]:
        return {**self._arguments, **self._image_env, **self._env}

    def global_argument(self, one: Instruction) -> None:
        self._global.update({name: self._given.get(name, value) for name, value in pairs(one, self._global).items()})

    def instruction(self, one: Instruction) -> None:
        handlers: dict[str, Callable[[Instruction], None]] = {
            "RUN": self._run,
            "COPY": self._copy,
            "ADD": self._add,
            "ENV": self._set_env,
            "ARG": self._set_argument,
            "WORKDIR": self._set_cwd,
            "USER": self._set_user,
            "SHELL": self._set_shell,
            "VOLUME": self._make_volumes,
            "CMD": self._set_command,
            "ENTRYPOINT": self._set_entrypoint,
        }
        handlers[one.name](one)

    def start(self, entrypoint_with: list[str] | None) -> str | None:
        """The line that is started in every sandbox: the ENTRYPOINT with CMD, or with other words in its place."""
        words = self._command if entrypoint_with is None else entrypoint_with
        if self._entrypoint is None:
            return None if entrypoint_with is not None or words is None else shlex.join(words)
        return shlex.join([*self._entrypoint, *(words or [])])

    def _run(self, one: Instruction) -> None:
        words = one.exec_form()
        if words is None:
            words = [*self._shell, _script(one)]
        set_already = {*self._env, *self._image_env}
        known = {name: value for name, value in self._arguments.items() if name not in set_already and value}
        before = "".join(f"{name}={shlex.quote(value)} " for name, value in known.items())
        self.made.append({"kind": "run", "command": before + shlex.join(words)})

    def _copy(self, one: Instruction) -> None:
        *sources, target = many_words(one, self._variables) or [""]
        if not sources:
            raise one.refuse("has to name a source and a target")
        place = posixpath.join(self._cwd, target)
        try:
            self._archive(one, sources, place)
        except (OSError, ValueError) as error:
            if isinstance(error, DockerfileError):
                raise
            raise one.refuse(str(error)) from error

    def _add(self, one: Instruction) -> None:
        for source in (many_words(one, self._variables) or [""])[:-1]:
            if re.match(r"[a-z+]+://|git@", source):
                raise one.refuse(f"{source} cannot be fetched: use RUN with curl, wget or git")
            for name in self._matching(one, source):
                path = self._context.directory / name
                if path.is_file() and tarfile.is_tarfile(path):
                    raise one.refuse(f"{source} is an archive, which is not unpacked: use COPY, and RUN with tar")
        self._copy(one)

    def _matching(self, one: Instruction, source: str) -> list[str]:
        try:
            return self._context.match(source)
        except ValueError as error:
            raise one.refuse(str(error)) from error

    def _archive(self, one: Instruction, sources: list[str], place: str) -> None:
        names = [name for source in sources if source not in one.documents for name in self._context.match(source)]
        documents = [one.documents[source] for source in sources if source in one.documents]
        single = len(names) + len(documents) == 1 and not any(map(self._context.is_directory, names))
        into = place.endswith("/") or place.endswith("/.")
        if len(names) + len(documents) > 1 and not into:
            raise one.refuse(f"several sources need a target that ends with a slash, and {place} does not")
        path = self._place / f"{len(self.archives)}.tar"
        with path.open("wb") as output, new_archive(output) as archive:
            for name in names:
                self._context.add(archive, name)
            for document in documents:
                text = document.text
                if document.expands:
                    text = in_document(text, self._variables)
                inline(archive, document.name, text)
        self.archives.append(path)
        step: dict[str, Any] = {"kind": "copy", "from": ".", "to": place if into else f"{place}/"}
        if single:
            name = posixpath.basename(names[0]) if names else documents[0].name
            step.update({"from": name, "to": place})
        step["user"] = one.flags.get("chown") or "root"
        if mode := one.flags.get("chmod"):
            step["mode"] = mode
        self.made.append(step)

    def _set_env(self, one: Instruction) -> None:
        variables = pairs(one, self._variables)
        self._env.update(variables)
        self.made.append({"kind": "env", "variables": variables})

    def _set_argument(self, one: Instruction) -> None:
        for name, value in pairs(one, self._variables).items():
            self._arguments[name] = self._given.get(name) or value or self._global.get(name, "")

    def _set_cwd(self, one: Instruction) -> None:
        self._cwd = posixpath.normpath(posixpath.join(self._cwd, one_word(one, self._variables)))
        # Docker makes it for root, whoever works in it later.
        around = self._user != "root"
        self.made += [{"kind": "user", "name": "root"}] if around else []
        self.made.append({"kind": "workdir", "path": self._cwd})
        self.made += [{"kind": "user", "name": self._user}] if around else []

    def _set_user(self, one: Instruction) -> None:
        self.set_user(one, one_word(one, self._variables))

    def set_user(self, one: Instruction, text: str) -> None:
        name, _, group = text.partition(":")
        user = "root" if name == "0" else name
        if name.isdigit() and group.isdigit() and user != "root":
            user = text
        elif group and group != name and not {name, group} <= {"0", "root"}:
            raise one.refuse(f"the group {group} cannot be chosen: a user works in the groups of the image")
        if user != self._user:
            self._user = user
            self.made.append({"kind": "user", "name": user})

    def _set_shell(self, one: Instruction) -> None:
        words = one.exec_form()
        if not words:
            raise one.refuse('has to be a list, as in ["/bin/bash", "-c"]')
        self._shell = words

    def _make_volumes(self, one: Instruction) -> None:
        places = shlex.join(many_words(one, self._variables))
        self.made.append({"kind": "run", "command": f"mkdir -p -- {places}", "user": "root"})

    def _set_command(self, one: Instruction) -> None:
        self._command = one.exec_form() or [*self._shell, one.text]

    def _set_entrypoint(self, one: Instruction) -> None:
        self._entrypoint = one.exec_form() or [*self._shell, one.text]


def _script(one: Instruction) -> str:
    """The text for the shell, with its here-documents behind it. A document alone is the script."""
    if one.text in one.documents:
        document = one.documents[one.text]
        if document.text.startswith("#!"):
            raise one.refuse("a here-document with an interpreter of its own: write `RUN INTERPRETER <<EOF`")
        return document.text
    return "\n".join([one.text, *(document.source for document in one.documents.values())])
