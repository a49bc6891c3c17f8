"""AutoGen: `CodeExecutorAgent("runner", code_executor=PaddockCodeExecutor())` runs the code blocks of its messages."""

from __future__ import annotations

import asyncio
from typing import Any

from autogen_core import CancellationToken, Component
from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult
from paddock import AsyncSandbox, Result, SandboxEnded, SandboxNotFound
from pydantic import BaseModel, Field
from typing_extensions import Self

from ._shared import Attached, check_alive, creation, make, run_to_end, timeout_note, with_note

#: The command that runs a file, by the language of its block.
LANGUAGES = {
    "python": ["python3"],
    "py": ["python3"],
    "python3": ["python3"],
    "sh": ["/bin/sh"],
    "shell": ["/bin/sh"],
    "bash": ["bash"],
    "javascript": ["node"],
    "js": ["node"],
}
EXTENSIONS = {"python3": "py", "/bin/sh": "sh", "bash": "sh", "node": "js"}


class PaddockCodeExecutorConfig(BaseModel):
    timeout: float = 60
    options: dict[str, Any] = Field(default_factory=dict)


class PaddockCodeExecutor(CodeExecutor, Component[PaddockCodeExecutorConfig]):
    """Each block is a program of its own; files stay from one to the next. The first block that fails is the last.

    Args:
        timeout: seconds for one block; then its exit code is 124.
        options: of `Sandbox.create`: `template`, `image`, `limits`, `network`, `ttl_seconds`, ...
    """

    component_config_schema = PaddockCodeExecutorConfig
    component_provider_override = "paddock_integrations.autogen.PaddockCodeExecutor"

    def __init__(self, *, timeout: float = 60, **options: Any) -> None:
        if not timeout > 0:
            raise ValueError(f"timeout is {timeout}, and has to be a positive number of seconds")
        self._timeout = timeout
        self._options = options
        self._attached: Attached | None = None
        self._blocks = 0

    @property
    def id(self) -> str | None:
        """Of the sandbox, once it is there."""
        return self._attached.id if self._attached else None

    async def start(self) -> None:
        if self._attached is None:
            sandbox = await make(**creation(self._options, made_by="autogen"))
            self._attached = Attached(sandbox.id)
            self._attached.know(sandbox)

    async def stop(self) -> None:
        attached, self._attached = self._attached, None
        if attached is None:
            return
        try:
            await (await attached.here()).kill()
        except (SandboxEnded, SandboxNotFound):
            return

    async def restart(self) -> None:
        """A new sandbox in the place of the old one."""
        await self.stop()
        await self.start()

    async def execute_code_blocks(
        self, code_blocks: list[CodeBlock], cancellation_token: CancellationToken
    ) -> CodeResult:
        await self.start()
        assert self._attached is not None
        sandbox = await self._attached.here()
        output = ""
        for block in code_blocks:
            program = LANGUAGES.get(block.language.lower())
            if program is None:
                return CodeResult(exit_code=1, output=with_note(output, f"unknown language {block.language}"))
            running = asyncio.create_task(self._run(sandbox, program, block.code))
            cancellation_token.link_future(running)
            result = check_alive(await running, self._attached.id)
            output += result.stdout + result.stderr
            if result.timed_out:
                return CodeResult(exit_code=124, output=with_note(output, timeout_note(self._timeout)))
            if not result.ok:
                note = "" if result.cause.kind in ("exited", "signaled") else f"[{result.cause}]"
                return CodeResult(exit_code=result.exit_code, output=with_note(output, note) if note else output)
        return CodeResult(exit_code=0, output=output)

    async def _run(self, sandbox: AsyncSandbox, program: list[str], code: str) -> Result:
        self._blocks += 1
        path = f"/tmp/block-{self._blocks}.{EXTENSIONS[program[0]]}"
        await sandbox.filesystem.write(path, code)
        return await run_to_end(sandbox, [*program, path], timeout_seconds=self._timeout)

    def _to_config(self) -> PaddockCodeExecutorConfig:
        return PaddockCodeExecutorConfig(timeout=self._timeout, options=self._options)

    @classmethod
    def _from_config(cls, config: PaddockCodeExecutorConfig) -> Self:
        return cls(timeout=config.timeout, **config.options)
