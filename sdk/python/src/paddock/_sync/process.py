# Made from _async by scripts/unasync.py: change it there.
"""A command that runs in a sandbox, seen from outside."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Iterator, Callable, List, Optional, Union

from .._errors import ConnectionFailed, InvalidRequest, Unavailable, WaitTimeout
from .._models import Execution, Json, Result
from .._requests import given
from .._retrying import WireError
from .._waiting import lock, sleep
from .client import LONG_PATIENCE, Client, lines_of, quoted

if TYPE_CHECKING:
    from .._following import Callbacks
    from .._models_output import OutputEvent

#: The server answers a wait at the latest after this, and says a word on a silent stream every 15 s.
WAIT_SLICE = 30.0
SILENCE = 45.0


class Process:
    """A background command. It goes on whatever happens to this object, and `Sandbox.process` finds it again."""

    def __init__(self, client: Client, sandbox: str, exec: int, *, stdin_offset: Optional[int] = None) -> None:
        self._client = client
        self._path = f"/v1/sandboxes/{quoted(sandbox)}/execs/{exec}"
        self._stdin_offset = stdin_offset
        self._stdin_lock = lock()
        #: Id of the sandbox, and the command's number in it.
        self.sandbox_id = sandbox
        self.exec = exec

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.exec} of {self.sandbox_id}>"

    def poll(self) -> Optional[Result]:
        """The result if it has ended, else None; does not wait."""
        return _result(self._client.call("GET", self._path))

    def wait(
        self,
        timeout_seconds: Optional[float] = None,
        *,
        on_stdout: Optional[Callable[[str], object]] = None,
        on_stderr: Optional[Callable[[str], object]] = None,
    ) -> Result:
        """The result, once it has ended. Output so far and to come goes to the callbacks.

        Raises:
            WaitTimeout: after `timeout_seconds`, which does not go with callbacks; the command runs on.
        """
        if on_stdout is not None or on_stderr is not None:
            if timeout_seconds is not None:
                raise InvalidRequest("wait takes either timeout_seconds or callbacks", hint="use stream()")
            from .._following import Callbacks

            return self._follow(Callbacks(on_stdout, on_stderr))
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while True:
            left = WAIT_SLICE if deadline is None else min(WAIT_SLICE, max(0.0, deadline - time.monotonic()))
            body = self._client.call(
                "GET", f"{self._path}/wait", query={"timeout_seconds": f"{left:.3f}"}, patience=left + SILENCE
            )
            result = _result(body)
            if result is not None:
                return result
            if deadline is not None and time.monotonic() >= deadline:
                raise WaitTimeout(
                    f"{self!r} still runs after {timeout_seconds} s",
                    hint="wait again, or kill() it; a time limit of its own is exec(timeout_seconds=...)",
                )

    def stream(self, *, stdout_offset: int = 0, stderr_offset: int = 0) -> Iterator[OutputEvent]:
        """Output in the order in which it was printed, from the given offsets on, until `Ended`.

        A lost connection, also by a restart of the server, is taken up exactly where it was: no byte is missing and
        none comes twice. What the server did not keep is told as a `Gap`.
        """
        from .._following import Position

        position = Position(stdout_offset, stderr_offset)
        failures = 0
        while not position.ended:
            lost: Exception = ConnectionFailed(f"the output of {self!r} broke off")
            try:
                with self._client.stream(
                    f"{self._path}/output", query=position.query, patience=SILENCE
                ) as response:
                    for line in lines_of(response):
                        failures = 0
                        event = position.take(line)
                        if event is not None:
                            yield event
                        if position.ended:
                            return
            except (WireError, Unavailable) as error:
                lost = error
            if failures >= self._client._retry.retries:
                raise self._client.connection_failed(lost) from lost
            sleep(self._client._retry.pause(failures))
            failures += 1

    def output_bytes(self, stream: str = "stdout", *, offset: int = 0) -> bytes:
        """The exact bytes that were printed so far, from `offset` on. Those in the middle that were not kept are left
        out; `stream` tells where."""
        if stream not in ("stdout", "stderr"):
            raise InvalidRequest(f"stream is {stream!r}, not 'stdout' or 'stderr'")
        printed = int((self._client.call("GET", self._path))[f"{stream}_bytes"])
        pieces: List[bytes] = []
        while offset < printed:
            # An answer ends where something is missing; the next one begins behind it.
            query = {"offset": str(offset), "follow": "false"}
            answer = self._client.request("GET", f"{self._path}/{stream}", query=query, patience=LONG_PATIENCE)
            if not answer.content:
                break
            pieces.append(answer.content)
            offset = int(answer.headers.get("x-paddock-offset", offset)) + len(answer.content)
        return b"".join(pieces)

    def kill(self) -> None:
        """Ends it, and all that it started, at once. Nothing happens if it has ended already."""
        self._client.request("DELETE", self._path, repeatable=True)

    def signal(self, signal: Union[str, int]) -> None:
        """`TERM`, `SIGINT`, `signal.SIGHUP`, 10, ..."""
        # An enum of the signal module is an int as well; its number is what counts.
        text = signal if isinstance(signal, str) else str(int(signal))
        self._client.request("POST", f"{self._path}/signal", json={"signal": text})

    def write_stdin(self, data: Union[str, bytes]) -> None:
        """Hands bytes to the command; they arrive once, also when the connection is lost meanwhile."""
        self._send(data.encode() if isinstance(data, str) else bytes(data), close=False)

    def close_stdin(self) -> None:
        """The command sees the end of its input."""
        self._send(b"", close=True)

    def resize(self, rows: int, columns: int) -> None:
        """Of the command's terminal."""
        size = {"rows": rows, "columns": columns}
        self._client.request("POST", f"{self._path}/resize", json=size, repeatable=True)

    def _send(self, data: bytes, *, close: bool) -> None:
        with self._stdin_lock:
            if self._stdin_offset is None:
                # Found again: the server knows how much it has.
                received = self._client.call("POST", f"{self._path}/stdin", content=lambda: b"", repeatable=True)
                self._stdin_offset = int(received["offset"])
            query = given(offset=str(self._stdin_offset), close="true" if close else None)
            received = self._client.call(
                "POST",
                f"{self._path}/stdin",
                query=query,
                content=lambda: data,
                repeatable=True,
                # The command takes it when it likes.
                patience=None,
            )
            self._stdin_offset = int(received["offset"])

    def _follow(self, callbacks: Callbacks) -> Result:
        for event in self.stream():
            callbacks.feed(event)
        result = self.poll()
        return result if result is not None else self.wait()


def _result(body: Json) -> Optional[Result]:
    if body["state"] != "ended":
        return None
    # Code in a context has more to say than a command.
    return Execution.parse(body) if body.get("context") or body.get("findings") else Result.parse(body)
