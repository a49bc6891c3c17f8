# Made from _async by scripts/unasync.py: change it there.
"""One server: requests, tried again where that is safe."""

from __future__ import annotations

import json as json_module
import os
import threading
import warnings
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Iterator, Callable, Dict, List, Mapping, Optional, Tuple, Union
from urllib.parse import quote, urlencode

from .._errors import ConnectionFailed, PaddockError, UnexpectedAnswer, Unsupported, from_answer
from .._location import Location, locate
from .._models import Json
from .._requests import given
from .._retrying import NeverReached, RetryPolicy, WireError, may_repeat
from .._streams import tcp_options
from .._version import __version__
from .._waiting import off_loop, sleep
from .answer import Answer
from .wire import Wire, Patience

if TYPE_CHECKING:
    # Importing it takes longer than anything else here, and most programs never need it.
    import httpx

    from .._models_more import Snapshot
    from .wire_httpx import HttpxWire

Query = Union[Mapping[str, str], List[Tuple[str, str]]]

#: Seconds for requests that should answer at once, and for those that may pull an image or copy a disk.
PATIENCE = 120.0
LONG_PATIENCE = 900.0
#: Seconds for a connection.
CONNECT_PATIENCE = 10.0


class Client:
    """A connection to a Paddock server, shared by any number of sandboxes, tasks, threads and forked children.

    Without arguments it uses PADDOCK_URL and PADDOCK_TOKEN; where PADDOCK_URL is not set, the socket of this user, and
    it starts a server there if none answers.

    Args:
        url: `http://HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`.
        token: what `paddock token create` printed; the owner's socket needs none.
        start: start a server on the socket if none answers. Default: only where no address was configured.
        retry: how often and how fast to try again.
        transport: an httpx transport of one's own (a proxy, other certificates, tests).
    """

    def __init__(
        self,
        url: Optional[str] = None,
        token: Optional[str] = None,
        *,
        start: Optional[bool] = None,
        retry: Optional[RetryPolicy] = None,
        transport: Optional[httpx.BaseTransport] = None,
    ) -> None:
        self.location: Location = locate(url)
        # A token is for the server that it was configured with.
        self._token = token or (os.environ.get("PADDOCK_TOKEN") if url is None else None)
        self._start = self.location.may_start if start is None else start
        self._retry = retry or RetryPolicy()
        self._transport = transport
        self._wire: Union[Wire, HttpxWire, None] = None
        self._process = os.getpid()
        self._guard = threading.Lock()
        #: Sandboxes that have not ended, and whether their last one closes the connections.
        self.users: weakref.WeakSet[object] = weakref.WeakSet()
        self.close_when_unused = False

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections; the next request opens new ones."""
        wire, self._wire = self._wire, None
        if wire is not None and self._process == os.getpid():
            wire.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Query] = None,
        json: Optional[Json] = None,
        content: Optional[Callable[[], Any]] = None,
        repeatable: Optional[bool] = None,
        idempotent: bool = False,
        patience: Optional[float] = PATIENCE,
    ) -> Answer:
        """The answer, if it is a success; else raises what the server said.

        `content` makes the body anew for each try. `repeatable` says that doing it twice is as good as once (default:
        GET and HEAD); `idempotent` makes it so, by a key that the server knows again.
        """
        headers = {"Idempotency-Key": os.urandom(16).hex()} if idempotent else {}
        body = None
        if json is not None:
            headers["Content-Type"] = "application/json"
            body = json_module.dumps(json, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        if repeatable is None:
            repeatable = idempotent or method in ("GET", "HEAD")
        target = _target(path, query)
        attempt = 0
        while True:
            try:
                answer = self._open().send(
                    method,
                    target,
                    headers,
                    content() if content else body,
                    Patience(CONNECT_PATIENCE, PATIENCE, patience),
                )
                answer.read()
            except WireError as error:
                self._recover(error, attempt, repeatable=repeatable)
            else:
                if answer.is_success:
                    return answer
                failure = _failure(answer)
                if answer.status_code != 503 or not repeatable or attempt >= self._retry.retries:
                    raise failure
                sleep(self._retry.pause(attempt, failure.retry_after))
            attempt += 1

    def call(self, method: str, path: str, **options: Any) -> Json:
        """The answer's JSON object."""
        answer = self.request(method, path, **options)
        try:
            body = answer.json()
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise UnexpectedAnswer(
                f"{method} {path} was answered with something else than a JSON object: {answer.text[:200]!r}",
                status=answer.status_code,
                hint="is PADDOCK_URL the address of a Paddock server?",
            )
        missing = answer.headers.get("paddock-nodes-missing")
        if missing:
            warnings.warn(
                f"not all nodes behind the gateway answered, so that what they have is missing: {missing}",
                RuntimeWarning,
                stacklevel=2,
            )
        return body

    @contextmanager
    def stream(
        self, path: str, *, query: Optional[Query] = None, patience: Optional[float] = PATIENCE
    ) -> Iterator[Answer]:
        """An answer that is read piece by piece; only its beginning is tried again here."""
        target = _target(path, query)
        attempt = 0
        while True:
            try:
                answer = self._open().send(
                    "GET", target, {}, None, Patience(CONNECT_PATIENCE, PATIENCE, patience)
                )
                break
            except WireError as error:
                self._recover(error, attempt, repeatable=True)
            attempt += 1
        try:
            if not answer.is_success:
                answer.read()
                raise _failure(answer)
            yield answer
        finally:
            answer.close()

    def pages(self, path: str, name: str, query: List[Tuple[str, str]]) -> Iterator[Json]:
        """All objects of a list, page after page."""
        cursor: Optional[str] = None
        while True:
            asked = query + ([("cursor", cursor)] if cursor else [])
            page = self.call("GET", path, query=asked)
            for item in page[name]:
                yield item
            cursor = page.get("next_cursor")
            if not cursor:
                return

    def whoami(self) -> Json:
        """`{"tenant", "role", "owner"}` of the caller."""
        return self.call("GET", "/v1/whoami")

    def templates(self) -> List[str]:
        body = self.call("GET", "/v1/templates")
        return [template["name"] for template in body["templates"]]

    def snapshots(self, *, name: Optional[str] = None, sandbox: Optional[str] = None) -> List[Snapshot]:
        """All of one's own; the one of a name, or those of the sandbox with an id."""
        from .._models_more import Snapshot

        query = list(given(name=name, sandbox=sandbox).items())
        return [Snapshot.parse(item) for item in self.pages("/v1/snapshots", "snapshots", query)]

    def delete_snapshot(self, snapshot: Union[str, Snapshot]) -> None:
        named = snapshot if isinstance(snapshot, str) else snapshot.id
        self.request("DELETE", f"/v1/snapshots/{quoted(named)}")

    def url_of(self, path: str) -> str:
        """The address for programs that know nothing of this package."""
        if self.location.socket:
            raise Unsupported(
                f"the server listens only on {self.location.shown}, which has no URL for others",
                hint="run `paddock serve --listen 127.0.0.1:7777` and set PADDOCK_URL to it; "
                "from Python, port_client() works on the socket as well",
            )
        return self.location.base_url + path

    def http_below(self, path: str) -> httpx.Client:
        """An HTTP client of its own, to be closed by the caller, whose requests are relative to `path`."""
        return self._make_httpx(base_url=self.location.base_url + path)

    def _recover(self, error: WireError, attempt: int, *, repeatable: bool) -> None:
        """Returns when it makes sense to try again, else raises."""
        from .._connecting import is_final

        if attempt >= self._retry.retries or is_final(error) or not may_repeat(error, repeatable=repeatable):
            raise self.connection_failed(error) from (error.__cause__ or error)
        if isinstance(error, NeverReached) and self._start and self.location.socket:
            from .._starting import ensure_running

            off_loop(ensure_running, self.location.socket)
            if attempt == 0:
                return
        sleep(self._retry.pause(attempt))

    def connection_failed(self, error: Exception) -> ConnectionFailed:
        """What to raise for a loss of the connection."""
        from .._connecting import connection_failed

        return connection_failed(error, self.location)

    def release(self, user: object) -> None:
        """A sandbox is done with this client. A shared one then lets its connections go, lest its event loop end
        with them open."""
        self.users.discard(user)
        if self.close_when_unused and not self.users:
            self.close()

    def _open(self) -> Union[Wire, HttpxWire]:
        if self._process != os.getpid():
            # After a fork: the parent goes on using these connections, and its locks may be held for ever.
            self._guard, self._wire, self._process = threading.Lock(), None, os.getpid()
        with self._guard:
            if self._wire is None:
                self._wire = self._make_wire()
            return self._wire

    def _make_wire(self) -> Union[Wire, HttpxWire]:
        plain = self.location.plain()
        if self._transport is None and plain is not None:
            return Wire(plain, self._headers())
        from .wire_httpx import HttpxWire

        return HttpxWire(self._make_httpx(base_url=self.location.base_url))

    def _headers(self) -> Dict[str, str]:
        headers = {"User-Agent": f"paddock-python/{__version__}"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    def _make_httpx(self, base_url: str) -> httpx.Client:
        import httpx

        transport = self._transport or self._make_transport()
        return httpx.Client(base_url=base_url, headers=self._headers(), transport=transport, trust_env=False)

    def _make_transport(self) -> httpx.BaseTransport:
        import ssl

        import httpx

        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=30.0)
        # Loading the authorities takes 20 ms: only where they are needed.
        verify: Union[bool, ssl.SSLContext] = True
        if not self.location.base_url.startswith("https:"):
            verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self.location.socket:
            return httpx.HTTPTransport(uds=self.location.socket, limits=limits, verify=verify)
        return httpx.HTTPTransport(limits=limits, verify=verify, socket_options=tcp_options())


#: What may stand in a path and its query as it is; the rest is percent-encoded.
_TARGET_CHARACTERS = "/?&=%:@!$'()*+,;~-._"


def _target(path: str, query: Optional[Query]) -> str:
    if not path.isascii() or not path.isprintable() or " " in path:
        path = quote(path, safe=_TARGET_CHARACTERS)
    if not query:
        return path
    return f"{path}{'&' if '?' in path else '?'}{urlencode(query)}"


def lines_of(answer: Answer) -> Iterator[bytes]:
    """Lines of JSON. What follows the last line end broke off, and is left out. Only a line feed ends a line: JSON
    strings may hold other characters that some take for one."""
    rest = b""
    for chunk in answer.iter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line


def quoted(segment: str) -> str:
    """One segment of a path. Names cannot lead to another resource."""
    if segment in ("", ".", ".."):
        raise PaddockError(f"{segment!r} is no id and no name", code="invalid_request")
    return "".join(
        character if character.isascii() and (character.isalnum() or character in "-_.") else _percent(character)
        for character in segment
    )


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def _failure(answer: Answer) -> PaddockError:
    try:
        body: object = answer.json()
    except ValueError:
        body = answer.text
    return from_answer(answer.status_code, body, answer.headers)
