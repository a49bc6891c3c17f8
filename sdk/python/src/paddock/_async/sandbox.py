"""A sandbox, from its creation to its end."""

from __future__ import annotations

import os
from datetime import datetime
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterator,
    Callable,
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
from .._defaults import async_default_client
from .._errors import InvalidRequest, SandboxEnded, SandboxNotFound
from .._models import CodeError, CodeResult, Execution, Json, Result, SandboxInfo, Usage, UsageSample
from .._requests import Command, HostPath, Terminal, VolumeMounts, given
from .._waiting import CHUNK
from .client import LONG_PATIENCE, AsyncClient, quoted
from .contexts import AsyncContexts
from .copies import AsyncCopies
from .filesystem import AsyncFilesystem
from .following import Input, TextCallback, feed, follow, warn
from .process import AsyncProcess

if TYPE_CHECKING:
    import httpx

    from .._models_more import CodeContext, Limits, Network, PortRight, Snapshot
    from .tools import AsyncTools


class AsyncSandbox(AsyncCopies):
    """A place to run code that nobody has read. Made by `create`, found again by `connect`.

    As a context manager it is killed at the end of the block, also when an exception passes, unless it is persistent.
    """

    def __init__(self, client: AsyncClient, info: SandboxInfo) -> None:
        super().__init__(client, info)
        self._process = os.getpid()
        client.users.add(self)
        #: Files inside; `files` is another name of it.
        self.filesystem = AsyncFilesystem(client, info.id)
        self.files = self.filesystem
        #: Interpreters inside that remember.
        self.contexts = AsyncContexts(client, info.id)

    @classmethod
    async def create(
        cls,
        template: Optional[str] = None,
        *,
        image: Optional[HostPath] = None,
        snapshot: Union[str, Snapshot, None] = None,
        ttl_seconds: Optional[float] = None,
        ttl_action: Optional[str] = None,
        idle_seconds: Optional[float] = None,
        idle_action: str = "kill",
        persistent: bool = False,
        under_pressure: Optional[str] = None,
        name: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        metadata: Optional[Mapping[str, str]] = None,
        limits: Union[Limits, Mapping[str, Any], None] = None,
        network: Union[str, Mapping[str, Any], None] = None,
        ports: Optional[Mapping[str, Any]] = None,
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
        root_may_install: Optional[bool] = None,
        become_root: Optional[bool] = None,
        audit_outputs: Optional[bool] = None,
        live: Optional[bool] = None,
        client: Optional[AsyncClient] = None,
    ) -> AsyncSandbox:
        """A new sandbox, ready to run something.

        Args:
            template: named settings of the server; `code-interpreter` always exists.
            image: a directory, an archive or a registry reference.
            snapshot: begin with the files of a snapshot.
            ttl_seconds: it ends so many seconds from now, whatever happens (the server's default is an hour, and
                none with `persistent`).
            ttl_action: `kill` (the default); or `pause` or `hibernate`: it then sleeps for 30 days, or until a call.
            idle_seconds: it ends, or what `idle_action` (`kill`, `pause`, `hibernate`) says, after so long without a
                running command, a stream and use of the processor.
            persistent: left alone by the idle reaper and by context managers.
            under_pressure: whether it may be hibernated when idle while the host is short of memory: `hibernate` or
                `keep`. By default where nothing in it is lost: its backend keeps memory, or no process runs in it;
                and not with `persistent`.
            name: of one's own, usable wherever an id is.
            limits: a `Limits`, or a mapping such as {"memory": "256MiB", "cpus": 0.5}.
            network: `none` (default), `host`, or rules: `{"allow": ["packages.example.org", "*.example.org:443"]}`.
            ports: `{"public": [3000]}` lets everybody who knows its id use that port at `PORT-ID.DOMAIN`, without a
                token (`"all"`: every port; only where the server has `--public-ports`); `{"request_host":
                "app.example"}` is the `Host` that programs there are asked as, with `${PORT}` for the number, instead
                of `localhost:${PORT}`.
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
            root_may_install: whether root inside may install packages and manage users: it then has capabilities over
                the sandbox's own files and ids, which `info().guarantees["root_capabilities"]` names. By default as the
                template has it, else root has none. `True` refuses to create it where that cannot be had or is
                forbidden.
            become_root: whether the ordinary user inside may become root by `sudo`, without a password. By default as
                the template has it, else no process becomes another user. `True` refuses to create it where that
                cannot be had or is forbidden.
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
            require=requests.strings("require", require),
            ttl_seconds=ttl_seconds,
            ttl_action=ttl_action,
            idle=requests.idle(idle_seconds, idle_action),
            persistent=persistent or None,
            under_pressure=under_pressure,
            env=dict(env) if env else None,
            metadata=dict(metadata) if metadata else None,
            limits=requests.limits(limits),
            network=requests.network(network),
            ports=requests.ports(ports),
            secrets=requests.secrets(secrets),
            host_certs=host_certs,
            user=user,
            cwd=cwd,
            hostname=hostname,
            workspace=requests.host_path(workspace),
            protect=requests.strings("protect", protect),
            unprotect=requests.strings("unprotect", unprotect),
            read=requests.host_mounts(read),
            write=requests.host_mounts(write),
            tmpfs=requests.strings("tmpfs", tmpfs),
            volumes=requests.volume_mounts(volumes),
            scan=scan,
            allowed_imports=requests.strings("allowed_imports", allowed_imports),
            live_forks=live_forks,
            root_may_install=root_may_install,
            become_root=become_root,
            audit_outputs=audit_outputs,
            live=live,
        )
        client = client or async_default_client()
        made = await client.call("POST", "/v1/sandboxes", json=body, idempotent=True, patience=LONG_PATIENCE)
        return cls(client, SandboxInfo.parse(made))

    @classmethod
    async def connect(cls, id_or_name: str, *, client: Optional[AsyncClient] = None) -> AsyncSandbox:
        """A sandbox that exists, in any state."""
        client = client or async_default_client()
        body = await client.call("GET", f"/v1/sandboxes/{quoted(id_or_name)}")
        return cls(client, SandboxInfo.parse(body))

    @classmethod
    async def list(
        cls,
        *,
        state: Optional[str] = None,
        name: Optional[str] = None,
        template: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        created_after: Optional[datetime] = None,
        oldest_first: bool = False,
        page_size: Optional[int] = None,
        client: Optional[AsyncClient] = None,
    ) -> AsyncIterator[AsyncSandbox]:
        """All sandboxes that fit, also those that ended within a day, the newest first; asks for page after page."""
        client = client or async_default_client()
        fields = given(state=state, name=name, template=template)
        query: List[Tuple[str, str]] = list(fields.items())
        query += [("metadata", f"{key}={value}") for key, value in (metadata or {}).items()]
        if created_after is not None:
            query.append(("created_after_ms", str(round(created_after.timestamp() * 1000))))
        if oldest_first:
            query.append(("order", "asc"))
        if page_size is not None:
            query.append(("limit", str(page_size)))
        async for body in client.pages("/v1/sandboxes", "sandboxes", query):
            yield cls(client, SandboxInfo.parse(body))

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(self, kind: object, exception: Optional[BaseException], trace: object) -> None:
        # A forked child that leaves the block must not end what its parent uses.
        if self._info.persistent or self._process != os.getpid():
            await self._release()
            return
        try:
            await self.kill()
        except (SandboxNotFound, SandboxEnded):
            await self._release()
        except Exception as error:
            await self._release()
            if exception is None:
                raise
            # The caller's own exception counts; the time to live ends the sandbox.
            warn("could not kill sandbox %s: %s", self.id, error)

    def __repr__(self) -> str:
        named = f" {self.name}" if self.name else ""
        return f"<{type(self).__name__} {self.id}{named} {self.state}>"

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
    def tools(self) -> AsyncTools:
        """For a model to call; `Tools(sandbox, output_budget=...)` makes others."""
        from .tools import AsyncTools

        return AsyncTools(self)

    async def info(self) -> SandboxInfo:
        """Everything that the server knows of it, now."""
        return await self._act("GET", "")

    @overload
    async def exec(
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
    async def exec(
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
    ) -> AsyncProcess: ...

    async def exec(
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
    ) -> Union[Result, AsyncProcess]:
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
        started = await self._client.call("POST", f"{self._path}/execs", json=body, idempotent=True, patience=patience)
        if waits and started["state"] == "ended":
            return Result.parse(started)
        process = AsyncProcess(self._client, self.id, started["exec"], stdin_offset=0)
        if streamed is not None:
            await feed(process, streamed)
        if background:
            return process
        if not followed:
            return await process.wait()
        return await follow(process, on_stdout, on_stderr)

    async def run_code(
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
        started = await self._client.call("POST", f"{self._path}/code", json=body, idempotent=True, patience=patience)
        process = AsyncProcess(self._client, self.id, started["exec"])
        if followed:
            return Execution.of(await follow(process, on_stdout, on_stderr, on_result, on_error))
        return Execution.parse(started) if started["state"] == "ended" else Execution.of(await process.wait())

    def process(self, exec: int) -> AsyncProcess:
        """A command that was started before, by its number; from another program too."""
        return AsyncProcess(self._client, self.id, exec)

    async def processes(self) -> List[AsyncProcess]:
        """All commands, running and ended."""
        body = await self._client.call("GET", f"{self._path}/execs")
        return [AsyncProcess(self._client, self.id, item["exec"]) for item in body["execs"]]

    async def extend(self, ttl_seconds: float) -> SandboxInfo:
        """It ends so many seconds from now instead."""
        return await self._act("POST", "/extend", json={"ttl_seconds": ttl_seconds}, repeatable=True)

    async def pause(self, *, ttl_seconds: Optional[float] = None, auto_resume: Optional[bool] = None) -> SandboxInfo:
        """Freezes it: no processor time, memory kept.

        `ttl_seconds` is its time to live while it is paused; resumed it has what is left of the present one. With
        `auto_resume` the next request that needs its processes resumes it.
        """
        wanted = given(ttl_seconds=ttl_seconds, auto_resume=auto_resume) or None
        return await self._act("POST", "/pause", json=wanted)

    async def resume(self, *, ttl_seconds: Optional[float] = None) -> SandboxInfo:
        """Lets it go on; `ttl_seconds` is its time to live from then on."""
        return await self._act("POST", "/resume", json=given(ttl_seconds=ttl_seconds) or None)

    async def hibernate(self, *, memory: Optional[bool] = None, ttl_seconds: Optional[float] = None) -> SandboxInfo:
        """Ends its processes and frees its memory; files stay, and any request wakes it.

        Where the backend keeps memory it goes on where it stood. With `memory` True it is an error where the backend
        does not; with False the files alone are kept. `ttl_seconds` is its time to live while it sleeps; awake it
        has what is left of the present one.
        """
        wanted = given(memory=memory, ttl_seconds=ttl_seconds) or None
        return await self._act("POST", "/hibernate", json=wanted, patience=LONG_PATIENCE)

    async def wake(self, *, ttl_seconds: Optional[float] = None) -> SandboxInfo:
        """Starts it again; `ttl_seconds` is its time to live from then on."""
        wanted = given(ttl_seconds=ttl_seconds) or None
        return await self._act("POST", "/wake", json=wanted, patience=LONG_PATIENCE)

    async def network(self, after: int = 0) -> Network:
        """What may leave it, what went through, and the decisions after number `after`."""
        from .._models_more import Network

        return Network.parse(await self._client.call("GET", f"{self._path}/network?after={int(after)}"))

    async def usage(self) -> Usage:
        return Usage.parse(await self._client.call("GET", f"{self._path}/usage"))

    async def metrics(self, start: Optional[datetime] = None, end: Optional[datetime] = None) -> List[UsageSample]:
        """What it used over the last minutes, the oldest first, and now: a sample every five seconds of work."""
        moments = {"start_ms": start, "end_ms": end}
        query = {name: str(int(at.timestamp() * 1000)) for name, at in moments.items() if at is not None}
        body = await self._client.call("GET", f"{self._path}/metrics", query=query)
        return [UsageSample.parse(sample) for sample in body["samples"]]

    async def set_metadata(self, metadata: Mapping[str, str]) -> SandboxInfo:
        """Replaces all metadata."""
        return await self.update(metadata=metadata)

    async def update(
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
        ports: Optional[Mapping[str, Any]] = None,
        secrets: Optional[Mapping[str, Optional[Mapping[str, Any]]]] = None,
    ) -> SandboxInfo:
        """Changes what is given, all of it or nothing; `metadata` and `env` are replaced as a whole.

        Limits hold at once; `open_files`, `env`, `cwd` and `user` are for commands from now on. Where a limit cannot be
        changed while the sandbox runs, hibernate it first. `network` puts other rules in the place of those it has,
        and cuts connections that they forbid; `none` closes the gate. `ports` as `create` takes them, each of the two
        by itself: `{"public": []}` closes the ports, and cuts the connections of visitors. `secrets` adds and replaces
        secrets with `inject` as `create` takes them, and removes those that are None; it comes with `network`: a secret
        opens its hosts.
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
            ports=requests.ports(ports),
            secrets=requests.changed_secrets(secrets),
        )
        return await self._act("PATCH", "", json=body, repeatable=True)

    def port_url(self, port: int, path: str = "/") -> str:
        """The address of an HTTP server inside. Requests to it need the token that requests to Paddock need."""
        return self._client.url_of(self._port_path(port) + path.lstrip("/"))

    async def sign_port(self, port: int, *, expires_seconds: float = 3600) -> PortRight:
        """A right to this port and nothing else, for somebody who gets no token, such as a browser or another service.

        It ends with its time (a day at most), with the sandbox, and with the token that this client has.
        """
        from .._models_more import PortRight

        self._port_path(port)
        wanted = {"port": port, "expires_seconds": expires_seconds}
        body = await self._client.call("POST", f"{self._path}/ports/sign", json=wanted, repeatable=True)
        return PortRight.parse(body, self._client.location)

    def port_client(self, port: int) -> httpx.AsyncClient:
        """An HTTP client for a server inside, to be closed by the caller: `client.get("/index.html")`."""
        return self._client.http_below(self._port_path(port))

    async def kill(self, *, failed: bool = False) -> SandboxInfo:
        """Ends it at once. Ending what has ended is fine.

        Args:
            failed: the work in it failed; its volumes are treated as their `on_failure` says.
        """
        query = {"failed": "true"} if failed else None
        info = await self._act("DELETE", "", query=query, repeatable=True)
        await self._release()
        return info

    def _port_path(self, port: int) -> str:
        if not 1 <= port <= 65535:
            raise InvalidRequest(f"port {port} is not between 1 and 65535")
        return f"{self._path}/ports/{port}/"

    async def _act(self, method: str, path: str, **options: Any) -> SandboxInfo:
        body: Json = await self._client.call(method, self._path + path, **options)
        self._info = SandboxInfo.parse(body)
        return self._info

    async def _release(self) -> None:
        await self._client.release(self)
