"""A bash session of SWE-ReX: a shell on a terminal, so that interactive programs, expected texts and Ctrl-C work."""

from __future__ import annotations

import asyncio
import codecs
import re
import secrets
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from paddock import AsyncProcess, AsyncSandbox, Ended, Output, PaddockError, Result, SandboxEnded

#: A terminal takes no more than 4095 bytes before a program reads them.
INLINE_BYTES = 3500
#: Seconds that the shell itself has to begin, which a busy machine may need.
START_SECONDS = 60.0
#: Seconds that a command has after its time limit to end by Ctrl-C, before its job is killed.
GRACE_SECONDS = 2.0
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
ESCAPES = re.compile(r"\x1B[@-_][0-?]*[ -/]*[@-~]")


class SessionTimeout(Exception):
    """Nothing that was waited for came in time; `output` is what came."""

    def __init__(self, output: str) -> None:
        super().__init__(output)
        self.output = output


class ShellEnded(Exception):
    """The shell is no more: `exit` does that."""

    def __init__(self, output: str, exit_code: int) -> None:
        super().__init__(output)
        self.output, self.exit_code = output, exit_code


@dataclass(frozen=True)
class Seen:
    """What was printed until something that was waited for."""

    output: str
    #: The text that was expected; empty at the prompt.
    expected: str
    #: Of the last command, at the prompt.
    exit_code: int | None


class Session:
    """Everything that the shell has printed is kept until the next command begins; several callers may wait at once."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox
        self._token = secrets.token_hex(8)
        self._number = 0
        self._text = ""
        self._process: AsyncProcess | None = None
        self._reader: asyncio.Task[None] | None = None
        self._news = asyncio.Condition()
        self._callers = 0
        self._result: Result | None = None
        self._error: PaddockError | None = None

    async def start(self, startup: list[str], timeout: float) -> str:
        """Begins the shell, and returns what the startup commands printed. They have this time, all together."""
        environment = {"PS1": "", "PS2": "", "PS0": "", "TERM": "dumb"}
        self._process = await self._sandbox.exec(
            ["bash", "--noediting", "-i"], terminal=(24, 200), background=True, open_stdin=True, env=environment
        )
        self._reader = asyncio.create_task(self._read(self._process))
        prompt = f"{self._token}:$PADDOCK_COMMAND:$?:"
        # After every command, because activated environments write a prompt of their own.
        reset = f"PROMPT_COMMAND={shlex.quote(f'PS1={shlex.quote(prompt)} PS2= PS0=')}; stty -echo"
        await self.run(reset, [], START_SECONDS)
        output, begun = "", asyncio.get_running_loop().time()
        for command in startup:
            left = timeout - (asyncio.get_running_loop().time() - begun)
            output += (await self.run(command, [], max(left, 0.001))).output
        return output

    async def run(self, command: str, expect: list[str], timeout: float | None) -> Seen:
        """A whole command, until its prompt or an expected text. One that takes longer is interrupted."""
        with self._looking() as begin:
            self._number += 1
            number = self._number
            await self._type(f"PADDOCK_COMMAND={number}; {await self._line(command)}\n")
            try:
                return await self._wait(begin, expect, timeout, number)
            except SessionTimeout as late:
                with suppress(SessionTimeout):
                    await self._end_job(begin, number)
                raise late

    async def type(self, line: str, expect: list[str], timeout: float | None) -> Seen:
        """A line for the program in the foreground, until an expected text or the shell's prompt."""
        if len(line.encode()) > INLINE_BYTES:
            raise ValueError(f"a line for an interactive program has {INLINE_BYTES} bytes at most, and this one more")
        with self._looking() as begin:
            await self._type(f"{line}\n")
            return await self._wait(begin, expect, timeout, None)

    async def reset(self) -> None:
        """The terminal as the shell wants it, after a program that changed it."""
        await self.run("stty sane -echo", [], GRACE_SECONDS)

    async def interrupt(self, expect: list[str], timeout: float, attempts: int) -> Seen:
        """Ctrl-C, so often until the prompt or an expected text comes; then the job in the foreground is killed."""
        with self._looking() as begin:
            for _ in range(attempts):
                await self._type("\x03")
                with suppress(SessionTimeout):
                    return await self._wait(begin, expect, timeout, None)
            await self._type("\x1a")
            seen = await self._wait(begin, expect, max(timeout, GRACE_SECONDS), None)
            await self._kill_job()
            return seen

    async def close(self) -> None:
        """Ends the shell and what runs in it."""
        if self._process is not None:
            await self._process.kill()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    @contextmanager
    def _looking(self) -> Iterator[int]:
        """Where the text begins that the caller looks at. What was printed before is let go when nobody looks at it."""
        if not self._callers:
            self._text = ""
        self._callers += 1
        try:
            yield len(self._text)
        finally:
            self._callers -= 1

    async def _line(self, command: str) -> str:
        line = f"eval {shlex.quote(command)}"
        if len(line.encode()) <= INLINE_BYTES and not CONTROL.search(command):
            return line
        path = f"/tmp/.swe-rex-{self._token}"
        await self._sandbox.filesystem.write(path, command)
        return f". {path}"

    async def _type(self, text: str) -> None:
        assert self._process is not None
        try:
            await self._process.write_stdin(text)
        except PaddockError:
            # The reader knows better why.
            if self._reader is not None:
                await asyncio.wait([self._reader], timeout=GRACE_SECONDS)
            self._raise_end(self._text)
            raise

    async def _end_job(self, begin: int, number: int) -> None:
        for key in ("\x03", "\x03", "\x1a"):
            await self._type(key)
            try:
                await self._wait(begin, [], GRACE_SECONDS, number)
            except SessionTimeout:
                continue
            if key == "\x1a":
                await self._kill_job()
            return

    async def _kill_job(self) -> None:
        """The one that was stopped last."""
        with self._looking() as begin:
            self._number += 1
            # `jobs` takes the shell's word on its end, which would come with the next command.
            ending = "kill -9 %%; wait -f %% 2> /dev/null; jobs > /dev/null"
            await self._type(f"PADDOCK_COMMAND={self._number}; {ending}\n")
            await self._wait(begin, [], GRACE_SECONDS, self._number)

    async def _wait(self, begin: int, expect: list[str], timeout: float | None, number: int | None) -> Seen:
        """`number`: of the command whose prompt it is; None is any prompt."""
        of_whom = "[0-9]*" if number is None else str(number)
        prompt = re.compile(rf"{self._token}:({of_whom}):(\d+):")
        patterns = [(text, re.compile(text, re.DOTALL)) for text in expect]

        async def look() -> Seen:
            async with self._news:
                while True:
                    text = self._text[begin:]
                    found = [(match.start(), word, match) for word, one in patterns if (match := one.search(text))]
                    if match := prompt.search(text):
                        found.append((match.start(), "", match))
                    if found:
                        at, word, match = min(found, key=lambda one: one[0])
                        return Seen(self._plain(text[:at]), word, None if word else int(match[2]))
                    self._raise_end(text)
                    await self._news.wait()

        try:
            return await asyncio.wait_for(look(), timeout)
        except asyncio.TimeoutError:
            raise SessionTimeout(self._plain(self._text[begin:])) from None

    def _raise_end(self, text: str) -> None:
        if self._error is not None:
            raise self._error
        if self._result is not None:
            if self._result.cause.kind in ("sandbox_ended", "guest_lost"):
                raise SandboxEnded(
                    f"the sandbox ended while the session ran: {self._result.cause}; {self._plain(text)}"
                )
            raise ShellEnded(self._plain(text), self._result.exit_code)

    def _plain(self, text: str) -> str:
        """Without escape sequences, prompts and the carriage returns of a terminal."""
        plain = re.sub(rf"{self._token}:\d*:\d+:", "", text)
        return ESCAPES.sub("", plain).replace("\r\n", "\n")

    async def _read(self, process: AsyncProcess) -> None:
        # A letter of several bytes may come in two pieces.
        decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        try:
            async for event in process.stream():
                if isinstance(event, Output):
                    async with self._news:
                        self._text += decoder.decode(event.data)
                        self._news.notify_all()
                elif isinstance(event, Ended):
                    self._result = event.result
        except PaddockError as error:
            self._error = error
        async with self._news:
            self._news.notify_all()
