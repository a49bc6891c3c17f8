"""What a command or code says while it runs, event by event."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Optional, Union

from ._models import CodeError, CodeResult, Json, Result


@dataclass(frozen=True)
class Output:
    """Bytes that a command printed."""

    #: `stdout` or `stderr`.
    stream: str
    #: Of the first byte, in its stream.
    offset: int
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True)
class Gap:
    """Bytes in the middle that were not kept."""

    stream: str
    offset: int
    bytes: int


@dataclass(frozen=True)
class Ended:
    """The last event. `result` is without the output, which the events before it had."""

    result: Result


@dataclass(frozen=True)
class Shown:
    """Something that code displayed, or the value of its last expression."""

    result: CodeResult


@dataclass(frozen=True)
class Failed:
    """Code did not come to its end."""

    error: CodeError


OutputEvent = Union[Output, Gap, Shown, Failed, Ended]


def parse_output_event(body: Json) -> Optional[OutputEvent]:
    """None for what only says that the connection lives, and for kinds of a newer server."""
    kind = body["type"]
    if kind == "output":
        return Output(body["stream"], body["offset"], base64.b64decode(body["data"], validate=True))
    if kind == "gap":
        return Gap(body["stream"], body["offset"], body["bytes"])
    if kind == "result":
        return Shown(CodeResult.parse(body["result"]))
    if kind == "error":
        return Failed(CodeError.parse(body["error"]))
    if kind == "ended":
        return Ended(Result.parse(body["exec"]))
    return None
