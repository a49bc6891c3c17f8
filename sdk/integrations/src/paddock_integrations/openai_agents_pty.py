"""Commands of OpenAI Agents that run on a terminal and are written to later."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field

from agents.sandbox.errors import PtySessionNotFoundError
from agents.sandbox.session.pty_output import collect_pty_output
from agents.sandbox.session.pty_types import (
    PTY_PROCESSES_MAX,
    PtyExecUpdate,
    allocate_pty_process_id,
    process_id_to_prune_from_meta,
)
from paddock import AsyncProcess, Ended, Output, PaddockError


@dataclass
class Terminal:
    """One command, the part of its output that nobody has taken yet, and the task that reads it."""

    process: AsyncProcess
    tty: bool
    chunks: deque[bytes] = field(default_factory=deque)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    notify: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    last_used: float = field(default_factory=time.monotonic)
    exit_code: int | None = None
    reader: asyncio.Task[None] | None = None

    async def read(self) -> None:
        try:
            async for event in self.process.stream():
                if isinstance(event, Output):
                    async with self.lock:
                        self.chunks.append(event.data)
                    self.notify.set()
                elif isinstance(event, Ended):
                    self.exit_code = event.result.exit_code
        except PaddockError:
            # The sandbox has gone; a command that did not end by itself has no better code.
            self.exit_code = 255
        finally:
            self.ended.set()
            self.notify.set()

    async def end(self) -> None:
        try:
            await self.process.kill()
        except PaddockError:
            pass
        if self.reader is not None:
            self.reader.cancel()
            await asyncio.gather(self.reader, return_exceptions=True)


class Terminals:
    """Those of one session, by the numbers that the model sees."""

    def __init__(self) -> None:
        self._open: dict[int, Terminal] = {}

    async def add(self, process: AsyncProcess, *, tty: bool) -> int:
        terminal = Terminal(process, tty)
        terminal.reader = asyncio.create_task(terminal.read())
        if len(self._open) >= PTY_PROCESSES_MAX:
            known = [(number, one.last_used, one.ended.is_set()) for number, one in self._open.items()]
            oldest = process_id_to_prune_from_meta(known)
            if oldest is not None:
                await self._open.pop(oldest).end()
        number = allocate_pty_process_id(set(self._open))
        self._open[number] = terminal
        return number

    def find(self, number: int) -> Terminal:
        terminal = self._open.get(number)
        if terminal is None:
            raise PtySessionNotFoundError(session_id=number)
        terminal.last_used = time.monotonic()
        return terminal

    async def update(self, number: int, *, yield_time_ms: int, max_output_tokens: int | None) -> PtyExecUpdate:
        """New output, for as long as the model wants to wait, and the exit code if the command has ended."""
        terminal = self.find(number)
        output, tokens, closed = await collect_pty_output(
            output_chunks=terminal.chunks,
            output_lock=terminal.lock,
            output_notify=terminal.notify,
            is_done=terminal.ended.is_set,
            yield_time_ms=yield_time_ms,
            max_output_tokens=max_output_tokens,
        )
        if closed:
            self._open.pop(number, None)
        return PtyExecUpdate(
            process_id=None if closed else number,
            output=output,
            exit_code=terminal.exit_code if closed else None,
            original_token_count=tokens,
        )

    async def end_all(self) -> None:
        terminals, self._open = list(self._open.values()), {}
        for terminal in terminals:
            await terminal.end()
