"""Templates, and their builds by the server."""

from __future__ import annotations

import os
import tempfile
import time
from typing import IO, Any, AsyncIterator, Callable, List, Mapping, Optional, Sequence, Union

from .._defaults import async_default_client
from .._errors import FilesystemError, WaitTimeout
from .._models import Json
from .._requests import given, strings
from .._templates import BuildLogEntry, TemplateBuild, TemplateInfo, build_failed, hash_of, pack_for_copy
from .._waiting import async_chunks, async_off_loop, async_sleep
from .client import LONG_PATIENCE, AsyncClient, quoted

#: Seconds between two questions to a build that goes on.
_PAUSE = 0.2
#: Entries of a log in one answer; the server gives no more.
_PAGE = 1000


class AsyncTemplates:
    """The templates of a server, and builds of new ones.

    A step is a mapping as the API has it: `{"kind": "run", "command": "pip install numpy"}`, `env` with `variables`,
    `workdir` with a `path`, `user` with a `name`. Steps that copy files come from `copy`.

    Args:
        client: the server to use; default is the one of the environment, started if need be.
    """

    def __init__(self, client: Optional[AsyncClient] = None) -> None:
        self._client = client or async_default_client()

    async def build(
        self,
        name: str,
        *,
        image: Optional[str] = None,
        registry: Optional[Mapping[str, str]] = None,
        template: Optional[str] = None,
        steps: Sequence[Mapping[str, Any]] = (),
        tags: Optional[Sequence[str]] = None,
        start: Optional[str] = None,
        ready: Optional[str] = None,
        cpus: Optional[float] = None,
        memory_bytes: Optional[int] = None,
        min_free_disk_bytes: Optional[int] = None,
        no_cache: bool = False,
        on_log: Optional[Callable[[BuildLogEntry], object]] = None,
        timeout_seconds: Optional[float] = None,
    ) -> TemplateBuild:
        """Builds a template and waits for it; raises `TemplateBuildFailed` with the reason and the end of the log.

        Args:
            name: among one's own; `NAME:TAG` names a tag too.
            image, template: what it begins with: an image of a registry, or another template.
            registry: `username` and `password` for the registry of the image; the server does not keep them.
            start, ready: a line for the shell that runs in each of its sandboxes, and one that succeeds when it is up.
            min_free_disk_bytes: what each of its sandboxes can write at least; their disk has this limit where it were
                smaller.
            no_cache: do every step again.
            on_log: is called with each entry of the log as it comes.
            timeout_seconds: raises `WaitTimeout` after this; the build goes on.
        """
        build = await self.start_build(
            name,
            image=image,
            registry=registry,
            template=template,
            steps=steps,
            tags=tags,
            start=start,
            ready=ready,
            cpus=cpus,
            memory_bytes=memory_bytes,
            min_free_disk_bytes=min_free_disk_bytes,
            no_cache=no_cache,
        )
        return await self.wait(build.id, on_log=on_log, timeout_seconds=timeout_seconds)

    async def start_build(
        self,
        name: str,
        *,
        image: Optional[str] = None,
        registry: Optional[Mapping[str, str]] = None,
        template: Optional[str] = None,
        steps: Sequence[Mapping[str, Any]] = (),
        tags: Optional[Sequence[str]] = None,
        start: Optional[str] = None,
        ready: Optional[str] = None,
        cpus: Optional[float] = None,
        memory_bytes: Optional[int] = None,
        min_free_disk_bytes: Optional[int] = None,
        no_cache: bool = False,
    ) -> TemplateBuild:
        """Begins a build as `build` has it, and does not wait."""
        body = given(
            name=name,
            image=image,
            registry=dict(registry) if registry is not None else None,
            template=template,
            steps=[dict(step) for step in steps],
            tags=strings("tags", tags),
            start=start,
            ready=ready,
            cpus=cpus,
            memory_bytes=memory_bytes,
            min_free_disk_bytes=min_free_disk_bytes,
            no_cache=no_cache or None,
        )
        return TemplateBuild.parse(await self._client.call("POST", "/v1/template-builds", json=body))

    async def wait(
        self,
        build: str,
        *,
        on_log: Optional[Callable[[BuildLogEntry], object]] = None,
        timeout_seconds: Optional[float] = None,
    ) -> TemplateBuild:
        """A build when it is ready; raises as `build` does."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        seen = 0
        while True:
            now = await self.get_build(build)
            if on_log is not None:
                # After the state: a finished build has its whole log.
                async for entry in self.log(build, offset=seen):
                    seen += 1
                    on_log(entry)
            if now.state == "failed":
                raise build_failed(now, [entry async for entry in self.log(build)])
            if now.finished:
                return now
            if deadline is not None and time.monotonic() >= deadline:
                raise WaitTimeout(
                    f"build {build} of template {now.name} is {now.state} after {timeout_seconds} s",
                    hint="it goes on: wait again",
                )
            await async_sleep(_PAUSE)

    async def copy(
        self,
        local: Union[str, "os.PathLike[str]"],
        to: str,
        *,
        user: Optional[str] = None,
        mode: Optional[int] = None,
    ) -> Json:
        """Uploads a file, or what is in a directory, and returns the step that copies it to the path `to`.

        Args:
            to: with a slash at its end it is a directory.
            user: the owner, as `user` or `user:group`; default is the user of the steps.
            mode: other permission bits for all of it.
        """
        source = os.fspath(local)
        try:
            with tempfile.TemporaryFile() as archive:
                name = await async_off_loop(pack_for_copy, source, archive)
                files = await self.upload(archive)
        except OSError as error:
            raise FilesystemError(f"cannot read {source}: {error}", code="local_file_error") from error
        octal = None if mode is None else f"{mode:04o}"
        return {"kind": "copy", "files": files, "from": name, "to": to, **given(user=user, mode=octal)}

    async def upload(self, archive: IO[bytes]) -> str:
        """Sends a tar archive for steps that copy, and returns the hash by which they name it."""
        name = await async_off_loop(hash_of, archive)

        def again() -> AsyncIterator[bytes]:
            archive.seek(0)
            return async_chunks(archive)

        await self._client.request(
            "PUT", f"/v1/template-files/{name}", content=again, repeatable=True, patience=LONG_PATIENCE
        )
        return name

    async def list(self) -> List[TemplateInfo]:
        """One's own, and those of the owner of the host."""
        body = await self._client.call("GET", "/v1/templates")
        return [TemplateInfo.parse(item) for item in body["templates"]]

    async def get(self, template: str) -> TemplateInfo:
        """One of one's own, by name or id."""
        return TemplateInfo.parse(await self._client.call("GET", f"/v1/templates/{quoted(template)}"))

    async def delete(self, template: str) -> None:
        """Deletes one of one's own with its builds."""
        await self._client.request("DELETE", f"/v1/templates/{quoted(template)}", patience=LONG_PATIENCE)

    async def builds(self) -> List[TemplateBuild]:
        """All that are kept, the newest first."""
        query = [("limit", "1000")]
        return [TemplateBuild.parse(item) async for item in self._client.pages("/v1/template-builds", "builds", query)]

    async def get_build(self, build: str) -> TemplateBuild:
        """As it is now."""
        return TemplateBuild.parse(await self._client.call("GET", _at(build)))

    async def log(self, build: str, *, offset: int = 0, level: Optional[str] = None) -> AsyncIterator[BuildLogEntry]:
        """What a build has said so far, from the entry `offset` on, of this level (`debug`, ...) and above."""
        while True:
            query = given(offset=str(offset), limit=str(_PAGE), level=level)
            page = (await self._client.call("GET", _at(build, "/log"), query=query))["entries"]
            for entry in page:
                yield BuildLogEntry.parse(entry)
            if len(page) < _PAGE:
                return
            offset += len(page)

    async def aclose(self) -> None:
        """Closes the connections; the next request opens new ones."""
        await self._client.aclose()


def _at(build: str, more: str = "") -> str:
    return f"/v1/template-builds/{quoted(build)}{more}"
