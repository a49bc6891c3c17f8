"""Where a reader of a command's output is, so that a lost connection is taken up exactly there."""

from __future__ import annotations

import codecs
import json
from typing import Callable, Dict, Optional

from ._errors import UnexpectedAnswer
from ._models import CodeError, CodeResult
from ._models_output import Ended, Failed, Gap, Output, OutputEvent, Shown, parse_output_event

Callback = Callable[[str], object]


class Position:
    """Offsets of the next byte of each stream; `take` turns a line into what was not seen before."""

    def __init__(self, stdout: int = 0, stderr: int = 0) -> None:
        self.offsets: Dict[str, int] = {"stdout": stdout, "stderr": stderr}
        #: Results and errors of code that were seen.
        self.results = 0
        self.ended = False

    @property
    def query(self) -> Dict[str, str]:
        return {
            "stdout_offset": str(self.offsets["stdout"]),
            "stderr_offset": str(self.offsets["stderr"]),
            **({"results_offset": str(self.results)} if self.results else {}),
            "follow": "true",
        }

    def take(self, line: bytes) -> Optional[OutputEvent]:
        """None for a line that brings nothing new."""
        if not line.strip():
            return None
        try:
            event = parse_output_event(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            raise UnexpectedAnswer(f"a line of output makes no sense ({error!r}): {line[:200]!r}") from error
        if isinstance(event, Output):
            return self._output(event)
        if isinstance(event, Gap):
            return self._gap(event)
        if isinstance(event, (Shown, Failed)):
            self.results += 1
        if isinstance(event, Ended):
            self.ended = True
        return event

    def _output(self, event: Output) -> Optional[Output]:
        known = self._known(event.stream, event.offset)
        fresh = event.data[known - event.offset :]
        if not fresh:
            return None
        self.offsets[event.stream] = known + len(fresh)
        return Output(event.stream, known, fresh)

    def _gap(self, event: Gap) -> Optional[Gap]:
        known = self._known(event.stream, event.offset)
        end = event.offset + event.bytes
        if end <= known:
            return None
        self.offsets[event.stream] = end
        return Gap(event.stream, known, end - known)

    def _known(self, stream: str, offset: int) -> int:
        if stream not in self.offsets:
            raise UnexpectedAnswer(f"output of an unknown stream {stream!r}")
        known = self.offsets[stream]
        if offset > known:
            raise UnexpectedAnswer(
                f"{offset - known} bytes of {stream} before offset {offset} are missing from the stream",
                hint="this is a bug of the server: output may only be left out by a gap that says so",
            )
        return known


class Callbacks:
    """Hands text to the caller's functions; a character that comes in two pieces is handed over whole."""

    def __init__(
        self,
        on_stdout: Optional[Callback],
        on_stderr: Optional[Callback],
        on_result: Optional[Callable[[CodeResult], object]] = None,
        on_error: Optional[Callable[[CodeError], object]] = None,
    ) -> None:
        self._functions = {"stdout": on_stdout, "stderr": on_stderr}
        self._on_result = on_result
        self._on_error = on_error
        make = codecs.getincrementaldecoder("utf-8")
        self._decoders = {"stdout": make("replace"), "stderr": make("replace")}

    def feed(self, event: OutputEvent) -> None:
        if isinstance(event, Output):
            self._call(event.stream, self._decoders[event.stream].decode(event.data))
        elif isinstance(event, Gap):
            self._call(event.stream, self._decoders[event.stream].decode(b"", final=True))
        elif isinstance(event, Shown):
            if self._on_result is not None:
                self._on_result(event.result)
        elif isinstance(event, Failed):
            if self._on_error is not None:
                self._on_error(event.error)
        else:
            for stream, decoder in self._decoders.items():
                self._call(stream, decoder.decode(b"", final=True))

    def _call(self, stream: str, text: str) -> None:
        function = self._functions[stream]
        if function is not None and text:
            function(text)
