# Made from _async by scripts/unasync.py: change it there.
"""A sandbox, from its creation to its end."""

from __future__ import annotations

import os
from functools import cached_property
from typing import (
    IO,
    TYPE_CHECKING,
    Any,
    Iterator,
    Callable,
    Iterable,
    List,
    Literal,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Union,
    overload,
)

from .. import _requests as requests
from .._defaults import default_client
from .._errors import InvalidRequest, PaddockError, SandboxEnded, SandboxNotFound
from .._models import CodeError, CodeResult, Execution, Json, Result, SandboxInfo, Usage
from .._requests import Command, HostPath, Terminal, VolumeMounts, given
from .._waiting import CHUNK, chunks
from .client import LONG_PATIENCE, Client, quoted
from .contexts import Contexts
from .filesystem import Filesystem
from .process import Process

if TYPE_CHECKING:
    import httpx

    from .._following import Callbacks
    from .._models_more import Change, CodeContext, Limits, MergeReport, Network, Snapshot
    from .tools import Tools

Input = Union[str, bytes, IO[bytes], IO[str]]
TextCallback = Callable[[str], object]


class Sandbox:
    """A place to run code that nobody has read. Made by `create`, found again by `connect`.

    As a context manager it is killed at the end of the block, also when an exception passes, unless it is persistent.
    """

    def __init__(self, client: Client, info: SandboxInfo) -> None:
        self._client = client
        self._info = info
        self._path = f"/v1/sandboxes/{quoted(info.id)}"
        self._process = os.getpid()
        client.users.add(self)
        #: Files inside; `files` is another name of it.
        self.filesystem = Filesystem(client, info.id)
        self.files = self.filesystem
        #: Interpreters inside that remember.
        self.contexts = Contexts(client, info.id)

    @classmethod
    def create(
        cls,
        template: Optional[str] = None,
        *,
        image: Optional[HostPath] = None,
        snapshot: Union[str, Snapshot, None] = None,
        ttl_seconds: Optional[float] = None,
        idle_seconds: Optional[float] = None,
        idle_action: str = "kill",
        persistent: bool = False,
        under_pressure: Optional[str] = None,
        name: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        metadata: Optional[Mapping[str, str]] = None,
        limits: Union[Limits, Mapping[str, Any], None] = None,
        network: Union[str, Mapping[str, Any], None] = None,
        secrets: Optional[Mapping[str, Mapping[str, Any]]] = None,
        host_certs: Optional[bool] = None,
        user: Optional[str] = None,
        cwd: Optional[str] = None,
        workspace: Optional[HostPath] = None,
        require: Optional[Sequence[str]] = None,
        backend: Optional[str] = None,
        hostname: Optional[str] = None,
        protect: Optional[Sequence[str]] = None,
        unprotect: Optional[Sequence[str]] = None,
        read: Optional[Sequence[HostPath]] = None,
        write: Optional[Sequence[HostPath]] = None,
        tmpfs: Optional[Sequence[str]] = None,
        volumes: Optional[VolumeMounts] = None,
        scan: Optional[str] = None,
        allowed_imports: Optional[Sequence[str]] = None,
        live_forks: Optional[bool] = None,
        audit_outputs: Optional[bool] = None,
        live: Optional[bool] = None,
        client: Optional[Client] = None,
    ) -> Sandbox:
        """A new sandbox, ready to run something.

        Args:
            template: named settings of the server; `code-interpreter` always exists.
            image: a directory, an archive or a registry reference.
            snapshot: begin with the files of a snapshot.
            ttl_seconds: it ends so many seconds from now, whatever happens (the server's default is an hour, and
                none with `persistent`).
            idle_seconds: it ends, or what `idle_action` (`kill`, `pause`, `hibernate`) says, after so long without a
                running command, a stream and use of the processor.
            persistent: left alone by the idle reaper and by context managers.
            under_pressure: whether it may be hibernated when idle while the host is short of memory: `hibernate` or
                `keep`. By default where nothing in it is lost: its backend keeps memory, or no process runs in it;
                and not with `persistent`.
            name: of one's own, usable wherever an id is.
            limits: a `Limits`, or a mapping such as {"memory": "256MiB", "cpus": 0.5}.
            network: `none` (default), `host`, or rules: `{"allow": ["packages.example.org", "*.example.org:443"]}`.
            secrets: values that never enter: `{"API_KEY": {"from": "env:API_KEY", "hosts": ["api.example.com"]}}`.
                Inside, the variable holds a placeholder; requests to those hosts get the value. `value` instead of
                `from` is the value itself; `from` (`env:NAME`, `file:PATH`) is read here. The usual headers for
                credentials carry it (`Authorization`, `X-API-Key`, ...), and those of `headers`; `header` names the
                only one.
            host_certs: whether clients inside believe the certificates that the server's machine believes, as a network
                that inspects TLS needs it; by default as the template has it, else not.
            user: who commands run as: `agent` (default), `root`, a name of the image, UID or UID:GID.
            workspace: a directory of this machine, at /workspace.
            require: guarantees without which nothing is created, such as `memory-limit` or `own-kernel`.
            protect: names in the workspace that stay read-only besides the built-in ones; `unprotect` lets go of those.
            read: HOST[:INSIDE] paths of this machine to show read-only; `write` those to show writable.
            volumes: directories that outlive it: `{"memory": "/data/memory", "models": "/data/models:ro"}`, or a list
                of mappings with `name`, `path`, `mode`, `on_failure`, `checkpoint_seconds` and `version`.
            scan: look at code before it runs: `off` (default), `warn` (`Execution.findings` tells) or `deny`
                (`ScanDenied` is raised); never weaker than the template's.
            allowed_imports: modules that code may import, with what is below them; any without it. Needs `scan`.
            live_forks: whether its code contexts can be forked as they stand: by default where that is possible. `True`
                refuses to create it where it is not; `False` gives it a fence with nothing weaker for forks.
            audit_outputs: whether the audit keeps what commands and code print, encrypted (default), or their digests
                only; the template's word counts before this one.
            live: with `snapshot`, whether it begins with the contexts that the snapshot keeps: by default where it can,
                unless another token made the sandbox that they come from. `True` refuses to create it where it cannot.
            client: the server to use; default is the one of the environment, started if need be.
        """
        body = given(
            name=name,
            template=template,
            image=requests.image(image),
            snapshot=snapshot if snapshot is None or isinstance(snapshot, str) else snapshot.id,
            backend=backend,
            require=_strings("require", require),
            ttl_seconds=ttl_seconds,
            idle=requests.idle(idle_seconds, idle_action),
            persistent=persistent or None,
            under_pressure=under_pressure,
            env=dict(env) if env else None,
            metadata=dict(metadata) if metadata else None,
            limits=requests.limits(limits),
            network=requests.network(network),
            secrets=requests.secrets(secrets),
            host_certs=host_certs,
            user=user,
            cwd=cwd,
            hostname=hostname,
            workspace=requests.host_path(workspace),
            protect=_strings("protect", protect),
            unprotect=_strings("unprotect", unprotect),
            read=requests.host_mounts(read),
            write=requests.host_mounts(write),
            tmpfs=_strings("tmpfs", tmpfs),
            volumes=requests.volume_mounts(volumes),
            scan=scan,
            allowed_imports=_strings("allowed_imports", allowed_imports),
            live_forks=live_forks,
            audit_outputs=audit_outputs,
            live=live,
        )
        client = client or default_client()
        made = client.call("POST", "/v1/sandboxes", json=body, idempotent=True, patience=LONG_PATIENCE)
        return cls(client, SandboxInfo.parse(made))

    @classmethod
    def connect(cls, id_or_name: str, *, client: Optional[Client] = None) -> Sandbox:
        """A sandbox that exists, in any state."""
        client = client or default_client()
        body = client.call("GET", f"/v1/sandboxes/{quoted(id_or_name)}")
        return cls(client, SandboxInfo.parse(body))

    @classmethod
    def list(
        cls,
        *,
        state: Optional[str] = None,
        name: Optional[str] = None,
        template: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        page_size: Optional[int] = None,
        client: Optional[Client] = None,
    ) -> Iterator[Sandbox]:
        """All sandboxes that fit, those that ended within a day included; asks for page after page."""
        client = client or default_client()
        fields = given(state=state, name=name, template=template)
        query: List[Tuple[str, str]] = list(fields.items())
        query += [("metadata", f"{key}={value}") for key, value in (metadata or {}).items()]
        if page_size is not None:
            query.append(("limit", str(page_size)))
        for body in client.pages("/v1/sandboxes", "sandboxes", query):
            yield cls(client, SandboxInfo.parse(body))

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, kind: object, exception: Optional[BaseException], trace: object) -> None:
        # A forked child that leaves the block must not end what its parent uses.
        if self._info.persistent or self._process != os.getpid():
            self._release()
            return
        try:
            self.kill()
        except (SandboxNotFound, SandboxEnded):
            self._release()
        except Exception as error:
            self._release()
            if exception is None:
                raise
            # The caller's own exception counts; the time to live ends the sandbox.
            _warn("could not kill sandbox %s: %s", self.id, error)

    def __repr__(self) -> str:
        named = f" {self.name}" if self.name else ""
        return f"<{type(self).__name__} {self.id}{named} {self.state}>"

    @property
    def id(self) -> str:
        return self._info.id

    @property
    def name(self) -> Optional[str]:
        return self._info.name

    @property
    def state(self) -> str:
        """As the server last said it; `info()` asks again."""
        return self._info.state

    @property
    def persistent(self) -> bool:
        return self._info.persistent

    @cached_property
    def tools(self) -> Tools:
        """For a model to call; `Tools(sandbox, output_budget=...)` makes others."""
        from .tools import Tools

        return Tools(self)

    def info(self) -> SandboxInfo:
        """Everything that the server knows of it, now."""
        return self._act("GET", "")

    @overload
    def exec(
        self,
        command: Command,
        *,
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        user: Optional[str] = None,
        stdin: Optional[Input] = None,
        timeout_seconds: Optional[float] = None,
        on_stdout: Optional[TextCallback] = None,
        on_stderr: Optional[TextCallback] = None,
        background: Literal[False] = False,
        terminal: Optional[Terminal] = None,
        open_stdin: Optional[bool] = None,
    ) -> Result: ...

    @overload
    def exec(
        self,
        command: Command,
        *,
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        user: Optional[str] = None,
        stdin: Optional[Input] = None,
        timeout_seconds: Optional[float] = None,
        background: Literal[True],
        terminal: Optional[Terminal] = None,
        open_stdin: Optional[bool] = None,
    ) -> Process: ...

    def exec(
        self,
        command: Command,
        *,
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        user: Optional[str] = None,
        stdin: Optional[Input] = None,
        timeout_seconds: Optional[float] = None,
        on_stdout: Optional[TextCallback] = None,
        on_stderr: Optional[TextCallback] = None,
        background: bool = False,
        terminal: Optional[Terminal] = None,
        open_stdin: Optional[bool] = None,
    ) -> Union[Result, Process]:
        """Runs a command: text for `/bin/sh -c`, or a list of arguments.

        A command that fails is no exception: look at `Result.exit_code`, `.ok` and `.cause`.

        Args:
            stdin: all of its input: text, bytes or an open file. Without it the command reads nothing.
            timeout_seconds: then it and all that it started are killed; `Result.timed_out` says so, and what was
                printed is there.
            on_stdout: called with text as soon as it is printed; so is `on_stderr`.
            background: return a process at once.
            terminal: True, (rows, columns) or a `TerminalSize`: run it on a terminal, with stdout and stderr as one.
            open_stdin: keep its input open for `write_stdin`. Default: for background commands without `stdin`.
        """
        if open_stdin is None:
            open_stdin = background and stdin is None
        if open_stdin and not background:
            raise InvalidRequest(
                "open_stdin without background: nobody could write to it", hint="pass background=True, or stdin"
            )
        if isinstance(stdin, str) and len(stdin) > CHUNK:
            # More than belongs into the body of a request.
            stdin = stdin.encode()
        streamed = stdin if stdin is not None and not isinstance(stdin, str) else None
        followed = on_stdout is not None or on_stderr is not None
        waits = not background and not followed and streamed is None
        body = requests.start_exec(
            command,
            env=env,
            cwd=cwd,
            user=user,
            stdin=stdin if isinstance(stdin, str) else None,
            open_stdin=open_stdin or streamed is not None,
            timeout_seconds=timeout_seconds,
            terminal=terminal,
            background=not waits,
        )
        # The server answers when the command has ended: only the command's own time limit counts.
        patience = None if waits else LONG_PATIENCE
        started = self._client.call("POST", f"{self._path}/execs", json=body, idempotent=True, patience=patience)
        if waits and started["state"] == "ended":
            return Result.parse(started)
        process = Process(self._client, self.id, started["exec"], stdin_offset=0)
        if streamed is not None:
            _feed(process, streamed)
        if background:
            return process
        if not followed:
            return process.wait()
        return _followed(process, _callbacks(on_stdout, on_stderr))

    def run_code(
        self,
        code: str,
        language: Optional[str] = None,
        timeout_seconds: Optional[float] = None,
        *,
        context: Union[str, CodeContext, None] = None,
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        stdin: Optional[str] = None,
        on_stdout: Optional[TextCallback] = None,
        on_stderr: Optional[TextCallback] = None,
        on_result: Optional[Callable[[CodeResult], object]] = None,
        on_error: Optional[Callable[[CodeError], object]] = None,
    ) -> Execution:
        """Runs code in a context, which remembers what ran in it before: `python` (default), `javascript`,
        `typescript`, `bash`, or what the template has a runner for; `sh` remembers nothing.

        Without `context` it is the default one of the language. An exception of the code is not raised here: it is the
        `error` of what comes back. After `timeout_seconds` the code is interrupted; what it printed comes back.
        """
        followed = any(callback is not None for callback in (on_stdout, on_stderr, on_result, on_error))
        body = given(
            code=code,
            language=language,
            context=context if context is None or isinstance(context, str) else context.id,
            env=dict(env) if env else None,
            cwd=cwd,
            stdin=stdin,
            timeout_seconds=timeout_seconds,
            background=followed or None,
        )
        # As with exec: where the server answers at the end, only the code's own time limit counts.
        patience = LONG_PATIENCE if followed else None
        started = self._client.call("POST", f"{self._path}/code", json=body, idempotent=True, patience=patience)
        process = Process(self._client, self.id, started["exec"])
        if followed:
            return Execution.of(_followed(process, _callbacks(on_stdout, on_stderr, on_result, on_error)))
        return Execution.parse(started) if started["state"] == "ended" else Execution.of(process.wait())

    def process(self, exec: int) -> Process:
        """A command that was started before, by its number; from another program too."""
        return Process(self._client, self.id, exec)

    def processes(self) -> List[Process]:
        """All commands, running and ended."""
        body = self._client.call("GET", f"{self._path}/execs")
        return [Process(self._client, self.id, item["exec"]) for item in body["execs"]]

    def extend(self, ttl_seconds: float) -> SandboxInfo:
        """It ends so many seconds from now instead."""
        return self._act("POST", "/extend", json={"ttl_seconds": ttl_seconds}, repeatable=True)

    def pause(self) -> SandboxInfo:
        """Freezes it: no processor time, memory kept."""
        return self._act("POST", "/pause")

    def resume(self) -> SandboxInfo:
        return self._act("POST", "/resume")

    def hibernate(self) -> SandboxInfo:
        """Ends its processes and frees its memory; files stay, and any request wakes it."""
        return self._act("POST", "/hibernate", patience=LONG_PATIENCE)

    def wake(self) -> SandboxInfo:
        return self._act("POST", "/wake", patience=LONG_PATIENCE)

    def snapshot(self, name: Optional[str] = None, *, live: bool = False) -> Snapshot:
        """Keeps its files, and if `live` its code contexts, in memory; `create(snapshot=...)` begins with it."""
        wanted = given(name=name, live=live or None)
        body = self._client.call("POST", f"{self._path}/snapshots", json=wanted, patience=LONG_PATIENCE)
        from .._models_more import Snapshot

        return Snapshot.parse(body)

    @overload
    def fork(
        self,
        count: None = None,
        *,
        ttl_seconds: Optional[float] = None,
        metadata: Optional[Mapping[str, str]] = None,
        secrets: bool = False,
        live: Optional[bool] = None,
    ) -> Sandbox: ...

    @overload
    def fork(
        self,
        count: int,
        *,
        ttl_seconds: Optional[float] = None,
        metadata: Optional[Mapping[str, str]] = None,
        secrets: bool = False,
        live: Optional[bool] = None,
    ) -> List[Sandbox]: ...

    def fork(
        self,
        count: Optional[int] = None,
        *,
        ttl_seconds: Optional[float] = None,
        metadata: Optional[Mapping[str, str]] = None,
        secrets: bool = False,
        live: Optional[bool] = None,
    ) -> Union[Sandbox, List[Sandbox]]:
        """New sandboxes that begin with what this one has, which goes on running.

        Its files, and the Python and bash contexts that can be forked as they stand, with all that they know; others
        begin anew. `live=True` raises where one cannot; `live=False` forks only files.

        `fork()` is one sandbox; `fork(3)` is a list of three (and `fork(1)` a list of one). 100 at most.
        They have none of its secrets, unless `secrets` is true.
        """
        body = given(
            count=count,
            ttl_seconds=ttl_seconds,
            metadata=dict(metadata) if metadata else None,
            secrets=secrets or None,
            live=live,
        )
        forked = self._client.call(
            "POST", f"{self._path}/fork", json=body, idempotent=True, patience=LONG_PATIENCE
        )
        children = [type(self)(self._client, SandboxInfo.parse(item)) for item in forked["sandboxes"]]
        return children[0] if count is None else children

    def changes(self, since: str = "start") -> List[Change]:
        """What it changed since its `start`, its `snapshot` or its `parent`, sorted by path."""
        body = self._client.call("GET", f"{self._path}/changes", query={"since": since}, patience=LONG_PATIENCE)
        from .._models_more import Change

        return [Change.parse(change) for change in body["changes"]]

    def changes_patch(self, since: str = "start") -> str:
        """The same as a patch for `patch -p1` and `git apply`; what is no text is only named in it."""
        answer = self._client.request(
            "GET", f"{self._path}/changes/patch", query={"since": since}, patience=LONG_PATIENCE
        )
        return answer.text

    def merge(self, from_: Union[Sandbox, str], paths: Iterable[str] = ()) -> MergeReport:
        """Brings what the fork `from_` changed into this, its parent: all of it, or only the given paths.

        Where both changed the same path nothing at all is merged, and `MergeReport.conflicts` says where.
        """
        source = from_ if isinstance(from_, str) else from_.id
        chosen = _strings("paths", list(paths) if not isinstance(paths, str) else paths)
        body = {"from": source, "paths": chosen or []}
        report = self._client.call("POST", f"{self._path}/merge", json=body, patience=LONG_PATIENCE)
        from .._models_more import MergeReport

        return MergeReport.parse(report)

    def network(self, after: int = 0) -> Network:
        """What may leave it, what went through, and the decisions after number `after`."""
        from .._models_more import Network

        return Network.parse(self._client.call("GET", f"{self._path}/network?after={int(after)}"))

    def usage(self) -> Usage:
        return Usage.parse(self._client.call("GET", f"{self._path}/usage"))

    def set_metadata(self, metadata: Mapping[str, str]) -> SandboxInfo:
        """Replaces all metadata."""
        return self.update(metadata=metadata)

    def update(
        self,
        *,
        metadata: Optional[Mapping[str, str]] = None,
        idle_seconds: Optional[float] = None,
        idle_action: str = "kill",
        persistent: Optional[bool] = None,
        under_pressure: Optional[str] = None,
        memory_bytes: Optional[int] = None,
        cpus: Optional[float] = None,
        pids: Optional[int] = None,
        disk_bytes: Optional[int] = None,
        open_files: Optional[int] = None,
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        user: Optional[str] = None,
        network: Union[str, Mapping[str, Any], None] = None,
    ) -> SandboxInfo:
        """Changes what is given, all of it or nothing; `metadata` and `env` are replaced as a whole.

        Limits hold at once; `open_files`, `env`, `cwd` and `user` are for commands from now on. Where a limit cannot be
        changed while the sandbox runs, hibernate it first. `network` puts other rules in the place of those it has,
        and cuts connections that they forbid; `none` closes the gate.
        """
        limits = given(memory_bytes=memory_bytes, cpus=cpus, pids=pids, disk_bytes=disk_bytes, open_files=open_files)
        body = given(
            metadata=None if metadata is None else dict(metadata),
            idle=requests.idle(idle_seconds, idle_action),
            persistent=persistent,
            under_pressure=under_pressure,
            limits=limits or None,
            env=None if env is None else dict(env),
            cwd=cwd,
            user=user,
            network=requests.network(network),
        )
        return self._act("PATCH", "", json=body, repeatable=True)

    def port_url(self, port: int, path: str = "/") -> str:
        """The address of an HTTP server inside. Requests to it need the token that requests to Paddock need."""
        return self._client.url_of(self._port_path(port) + path.lstrip("/"))

    def port_client(self, port: int) -> httpx.Client:
        """An HTTP client for a server inside, to be closed by the caller: `client.get("/index.html")`."""
        return self._client.http_below(self._port_path(port))

    def kill(self, *, failed: bool = False) -> SandboxInfo:
        """Ends it at once. Ending what has ended is fine.

        Args:
            failed: the work in it failed; its volumes are treated as their `on_failure` says.
        """
        query = {"failed": "true"} if failed else None
        info = self._act("DELETE", "", query=query, repeatable=True)
        self._release()
        return info

    def _port_path(self, port: int) -> str:
        if not 1 <= port <= 65535:
            raise InvalidRequest(f"port {port} is not between 1 and 65535")
        return f"{self._path}/ports/{port}/"

    def _act(self, method: str, path: str, **options: Any) -> SandboxInfo:
        body: Json = self._client.call(method, self._path + path, **options)
        self._info = SandboxInfo.parse(body)
        return self._info

    def _release(self) -> None:
        self._client.release(self)


def _feed(process: Process, stdin: Union[bytes, IO[bytes], IO[str]]) -> None:
    """All of its input. A command that ends before it has read all is no failure."""
    try:
        if isinstance(stdin, (bytes, bytearray, memoryview)):
            process.write_stdin(bytes(stdin))
        else:
            for piece in chunks(stdin):
                process.write_stdin(piece)
        process.close_stdin()
    except PaddockError:
        if process.poll() is None:
            raise


def _followed(process: Process, callbacks: Callbacks) -> Result:
    try:
        return process._follow(callbacks)
    except BaseException:
        # A callback raised, or the caller was interrupted: nobody waits for the command any more.
        try:
            process.kill()
        except PaddockError as error:
            _warn("could not kill %r: %s", process, error)
        raise


def _callbacks(*functions: Any) -> Callbacks:
    from .._following import Callbacks

    return Callbacks(*functions)


def _warn(text: str, *values: object) -> None:
    import logging

    logging.getLogger("paddock").warning(text, *values)


def _strings(what: str, values: Optional[Sequence[str]]) -> Optional[List[str]]:
    """A single text where a list belongs would be taken apart into letters."""
    if values is None:
        return None
    if isinstance(values, str):
        raise InvalidRequest(f"{what} is the text {values!r}, not a list", hint=f"write {what}=[{values!r}]")
    return [*values]
