"""The files of a sandbox. Everything is done inside, by the sandbox's own user unless another is named."""

from __future__ import annotations

import json as json_module
import os
from contextlib import AsyncExitStack
from typing import IO, TYPE_CHECKING, Any, AsyncIterator, Callable, List, Mapping, Optional, Tuple, Union

from .._errors import FilesystemError, UnexpectedAnswer, UnsafeArchive
from .._requests import DEFAULT_MAXIMUM, given
from .._retrying import AnswerClosed, WireError
from .._waiting import async_chunks, async_off_loop, async_sleep
from .client import LONG_PATIENCE, AsyncClient, lines_of, quoted

if TYPE_CHECKING:
    from .._models import Json
    from .._models_files import FileEntry, FileEvent, ResolvedPath

#: A watch is given up after so many lines in a row that should have said that the server lives.
LINES_MISSED = 3

Data = Union[str, bytes, bytearray, memoryview, IO[bytes], IO[str]]


class AsyncFilesystem:
    """Paths are absolute, or relative to the sandbox's working directory."""

    def __init__(self, client: AsyncClient, sandbox: str) -> None:
        self._client = client
        self._path = f"/v1/sandboxes/{quoted(sandbox)}/files"

    async def read(
        self, path: str, *, encoding: str = "utf-8", errors: str = "strict", user: Optional[str] = None
    ) -> str:
        """A file as text."""
        return (await self.read_bytes(path, user=user)).decode(encoding, errors)

    async def read_bytes(
        self, path: str, *, offset: int = 0, length: Optional[int] = None, user: Optional[str] = None
    ) -> bytes:
        """A file, or `length` bytes of it from `offset` on."""
        query = given(
            path=path,
            offset=str(offset) if offset else None,
            length=None if length is None else str(length),
            user=user,
        )
        answer = await self._client.request("GET", f"{self._path}/content", query=query, patience=LONG_PATIENCE)
        return answer.content

    async def write(
        self,
        path: str,
        data: Data,
        *,
        mode: Optional[int] = None,
        parents: bool = True,
        user: Optional[str] = None,
        attributes: Optional[Mapping[str, str]] = None,
        follow_links: bool = False,
    ) -> FileEntry:
        """Text (as UTF-8), bytes or what an open file still has. Readers inside see the old file or the new one,
        never half of it; missing directories are made unless `parents` is False. `attributes` are extended
        attributes of the user's namespace, by their names without `user.`. A link is replaced; with `follow_links` the
        file that it leads to is written, as by an editor, and one that the user may not write is refused."""
        query = given(
            path=path,
            mode=None if mode is None else f"{mode:o}",
            parents="true" if parents else None,
            user=user,
            attributes=json_module.dumps(dict(attributes)) if attributes else None,
            follow_links="true" if follow_links else None,
        )
        content, repeatable = _body(data)
        body = await self._client.call(
            "PUT",
            f"{self._path}/content",
            query=query,
            content=content,
            repeatable=repeatable,
            patience=LONG_PATIENCE,
        )
        return _entry(body)

    async def list(self, path: str = ".", *, recursive: bool = False, user: Optional[str] = None) -> List[FileEntry]:
        """What is in a directory."""
        return [entry async for entry in self.walk(path, recursive=recursive, user=user)]

    async def walk(
        self, path: str = ".", *, recursive: bool = True, user: Optional[str] = None
    ) -> AsyncIterator[FileEntry]:
        """The same one by one, for directories too large to hold."""
        query = [("path", path), ("limit", "1000")]
        if recursive:
            query.append(("recursive", "true"))
        if user is not None:
            query.append(("user", user))
        async for entry in self._client.pages(self._path, "entries", query):
            yield _entry(entry)

    async def stat(self, path: str, *, user: Optional[str] = None) -> FileEntry:
        body = await self._client.call("GET", f"{self._path}/stat", query=given(path=path, user=user))
        return _entry(body)

    async def exists(self, path: str, *, user: Optional[str] = None) -> bool:
        body = await self._client.call("GET", f"{self._path}/exists", query=given(path=path, user=user))
        return bool(body["exists"])

    async def resolve(self, path: str, *, user: Optional[str] = None) -> ResolvedPath:
        """Where a path leads, through all links. Nothing has to be there: missing parts stay as they are written."""
        body = await self._client.call("GET", f"{self._path}/resolve", query=given(path=path, user=user))
        return _resolved(body)

    async def make_directory(
        self, path: str, *, mode: Optional[int] = None, parents: bool = True, user: Optional[str] = None
    ) -> FileEntry:
        """With `parents` (the default) also what is missing above it, and content if it exists."""
        body = await self._client.call(
            "POST",
            f"{self._path}/directory",
            query=given(user=user),
            json=given(path=path, mode=mode, parents=parents or None),
            repeatable=parents,
        )
        return _entry(body)

    async def move(self, source: str, target: str, *, overwrite: bool = False, user: Optional[str] = None) -> FileEntry:
        body = await self._client.call(
            "POST",
            f"{self._path}/move",
            query=given(user=user),
            json=given(**{"from": source, "to": target, "overwrite": overwrite or None}),
        )
        return _entry(body)

    async def remove(self, path: str, *, recursive: bool = False, user: Optional[str] = None) -> None:
        """A file, an empty directory, or with `recursive` everything below it."""
        query = given(path=path, recursive="true" if recursive else None, user=user)
        await self._client.request("DELETE", self._path, query=query)

    async def chmod(self, path: str, mode: int, *, user: Optional[str] = None) -> FileEntry:
        body = await self._client.call(
            "POST",
            f"{self._path}/mode",
            query=given(user=user),
            json={"path": path, "mode": mode},
            repeatable=True,
        )
        return _entry(body)

    def watch(self, path: str, *, recursive: bool = False, user: Optional[str] = None) -> AsyncWatch:
        """What happens to files from now on; iterate over it, best inside `async with`."""
        query = given(path=path, recursive="true" if recursive else None, user=user)
        return AsyncWatch(self._client, f"{self._path}/watch", query)

    async def upload(self, local: Union[str, "os.PathLike[str]"], remote: str, *, user: Optional[str] = None) -> None:
        """A file of this machine to the path `remote`, or what is in a directory into the directory `remote`."""
        import tempfile

        from .._archives import pack

        source = os.fspath(local)
        try:
            if not os.path.isdir(source):
                with open(source, "rb") as file:
                    await self.write(remote, file, mode=os.fstat(file.fileno()).st_mode & 0o777, user=user)
                return
            await self.make_directory(remote, user=user)
            with tempfile.TemporaryFile() as archive:
                await async_off_loop(pack, source, archive)
                archive.seek(0)
                content, repeatable = _body(archive)
                await self._client.request(
                    "PUT",
                    f"{self._path}/archive",
                    query=given(path=remote, user=user),
                    content=content,
                    repeatable=repeatable,
                    patience=LONG_PATIENCE,
                )
        except OSError as error:
            raise _local(error) from error

    async def download(
        self,
        remote: str,
        local: Union[str, "os.PathLike[str]"],
        *,
        unsafe_links: str = "error",
        max_bytes: int = DEFAULT_MAXIMUM,
        user: Optional[str] = None,
    ) -> None:
        """The file `remote` to the path `local`, or what is in the directory `remote` into the directory `local`.

        What is in a sandbox is not to be trusted: nothing is written outside `local`, and no owner, set-id bit,
        device or link that leads outside is taken over.

        Args:
            unsafe_links: `error` refuses a directory with a link that may lead outside, `skip` leaves it out.
            max_bytes: more than this is refused.
        """
        import tempfile

        if unsafe_links not in ("error", "skip"):
            raise ValueError(f"unsafe_links is {unsafe_links!r}, not 'error' or 'skip'")
        target = os.fspath(local)
        is_directory = (await self.stat(remote, user=user)).is_directory
        try:
            if is_directory:
                with tempfile.TemporaryFile() as archive:
                    await self._fetch(f"{self._path}/archive", remote, archive, max_bytes, user)
                    archive.seek(0)
                    await async_off_loop(_unpack, archive, target, unsafe_links == "skip", max_bytes)
                return
            above = os.path.dirname(os.path.abspath(target))
            os.makedirs(above, exist_ok=True)
            part = os.path.join(above, f".paddock-{os.urandom(16).hex()}.part")
            try:
                with open(part, "xb") as file:
                    await self._fetch(f"{self._path}/content", remote, file, max_bytes, user)
                os.replace(part, target)
            except BaseException:
                os.unlink(part)
                raise
        except OSError as error:
            raise _local(error) from error

    async def signed_url(self, path: str, *, operation: str = "read", expires_seconds: float = 3600) -> str:
        """An address that reads (or `write`s, by PUT) one file for a while, without a token.

        On a unix socket there is no host to name: it is then the path to ask for on that socket.
        """
        body = await self._client.call(
            "POST",
            f"{self._path}/sign",
            json={"path": path, "operation": operation, "expires_seconds": expires_seconds},
        )
        url = str(body["url"])
        if self._client.location.socket or not url.startswith("/"):
            return url
        return self._client.url_of(url)

    async def _fetch(self, path: str, remote: str, file: IO[bytes], max_bytes: int, user: Optional[str]) -> None:
        """All of an answer into a file; begun anew when it breaks off."""
        failures = 0
        while True:
            try:
                await self._fetch_once(path, remote, file, max_bytes, user)
                return
            except WireError as error:
                if failures >= self._client._retry.retries:
                    raise self._client.connection_failed(error) from error
                await async_sleep(self._client._retry.pause(failures))
                failures += 1

    async def _fetch_once(self, path: str, remote: str, file: IO[bytes], max_bytes: int, user: Optional[str]) -> None:
        file.seek(0)
        file.truncate()
        left = max_bytes
        async with self._client.stream(path, query=given(path=remote, user=user)) as response:
            async for chunk in response.aiter_bytes():
                left -= len(chunk)
                if left < 0:
                    raise UnsafeArchive(
                        f"{remote} is more than {max_bytes} bytes",
                        hint="raise max_bytes if that much is expected",
                    )
                await async_off_loop(file.write, chunk)


class AsyncWatch:
    """Iterates over `FileEvent`s until it is closed.

    Inside `async with`, all that happens after the first line of the block is seen. Where events were lost, by the
    kernel or because the connection broke off and was made again, one of kind `overflow` comes: list again. A server
    that says nothing for 45 s counts as a connection that broke off; one that is older than that promise (it lacks the
    header) is waited for without an end.
    """

    def __init__(self, client: AsyncClient, path: str, query: Any) -> None:
        self._client, self._path, self._query = client, path, query
        self._open = AsyncExitStack()
        self._lines: Optional[AsyncIterator[bytes]] = None

    async def __aenter__(self) -> AsyncWatch:
        await self._connect()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        self._lines = None
        await self._open.aclose()

    async def __aiter__(self) -> AsyncIterator[FileEvent]:
        failures = 0
        try:
            while True:
                lines = self._lines if self._lines is not None else await self._connect()
                lost: Exception = UnexpectedAnswer("the watch broke off")
                try:
                    async for line in lines:
                        event = _event(line)
                        failures = 0
                        if event is not None:
                            yield event
                except WireError as error:
                    lost = error
                except AnswerClosed:
                    # Closed by the caller, from elsewhere.
                    return
                if self._lines is None:
                    return
                await self.aclose()
                if failures >= self._client._retry.retries:
                    raise self._client.connection_failed(lost) from lost
                await async_sleep(self._client._retry.pause(failures))
                failures += 1
                await self._connect()
                yield _file_event("overflow", str(self._query["path"]))
        finally:
            await self.aclose()

    async def _connect(self) -> AsyncIterator[bytes]:
        # The answer begins when all directories are watched, which takes a while for a large tree.
        response = await self._open.enter_async_context(
            self._client.stream(self._path, query=self._query, patience=LONG_PATIENCE)
        )
        alive = float(response.headers.get("x-paddock-alive-seconds", 0))
        response.wait_at_most(LINES_MISSED * alive if alive > 0 else None)
        lines = lines_of(response)
        # The first line says that the watch is set.
        async for line in lines:
            if _event(line) is None:
                break
        self._lines = lines
        return lines


def _event(line: bytes) -> Optional[FileEvent]:
    """None for what is no event of a file."""
    if not line.strip():
        return None
    try:
        body = json_module.loads(line)
        event = _file_event(body["kind"], body["path"])
    except (ValueError, KeyError, TypeError) as error:
        raise UnexpectedAnswer(f"a line of the watch makes no sense: {line[:200]!r}") from error
    return None if event.kind in ("watching", "alive") else event


def _body(data: Data) -> Tuple[Callable[[], Any], bool]:
    """What makes the body for a try, and whether there can be a second one."""
    if isinstance(data, str):
        encoded = data.encode()
        return (lambda: encoded), True
    if isinstance(data, (bytes, bytearray, memoryview)):
        fixed = bytes(data)
        return (lambda: fixed), True
    file = data
    try:
        begin = file.tell() if file.seekable() else None
    except (OSError, AttributeError):
        begin = None

    def again() -> AsyncIterator[bytes]:
        if begin is not None:
            file.seek(begin)
        return async_chunks(file)

    return again, begin is not None


def _unpack(archive: IO[bytes], target: str, skip_unsafe_links: bool, max_bytes: int) -> None:
    from .._archives import unpack

    unpack(archive, target, skip_unsafe_links=skip_unsafe_links, max_bytes=max_bytes)


def _local(error: OSError) -> FilesystemError:
    return FilesystemError(f"on this machine: {error}", code="local_file_error")


def _entry(body: Json) -> FileEntry:
    from .._models_files import FileEntry

    return FileEntry.parse(body)


def _file_event(kind: str, path: str) -> FileEvent:
    from .._models_files import FileEvent

    return FileEvent(kind, path)


def _resolved(body: Json) -> ResolvedPath:
    from .._models_files import ResolvedPath

    return ResolvedPath.parse(body)
