"""smolagents: `CodeAgent(tools, model, executor=PaddockExecutor())` runs the agent's Python in a sandbox."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import PIL.Image
from paddock import CodeResult, Execution, SandboxEnded, SandboxNotFound
from smolagents.local_python_executor import CodeOutput, ExecutionTimeoutError
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import RemotePythonExecutor
from smolagents.utils import AgentExecutionError

from ._shared import check_alive, creation, make_now, timeout_note, with_note


class PaddockExecutor(RemotePythonExecutor):
    """Variables, imports and files stay from one step of the agent to the next. `cleanup` kills the sandbox.

    Args:
        additional_imports: packages to install with pip, for which the sandbox needs a way out (`network`).
        timeout_seconds: of one step; then the code is interrupted.
        allow_pickle: as smolagents has it. A pickle from a sandbox can run any code here: leave it off.
        options: of `Sandbox.create`: `template`, `image`, `limits`, `network`, `ttl_seconds`, ...
    """

    def __init__(
        self,
        additional_imports: list[str] | None = None,
        logger: Any = None,
        allow_pickle: bool = False,
        *,
        timeout_seconds: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(additional_imports or [], logger or AgentLogger(level=LogLevel.ERROR), allow_pickle)
        self._timeout_seconds = timeout_seconds
        self.sandbox = make_now(**creation(options, made_by="smolagents"))
        try:
            self.installed_packages = self.install_packages(self.additional_imports)
        except BaseException:
            self.cleanup()
            raise

    def __enter__(self) -> PaddockExecutor:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.cleanup()

    def install_packages(self, additional_imports: list[str]) -> list[str]:
        if additional_imports:
            installed = self.sandbox.exec(["python3", "-m", "pip", "install", "--quiet", "--user", *additional_imports])
            if not installed.ok:
                said = installed.stderr.strip() or str(installed.cause)
                raise AgentExecutionError(f"pip could not install {additional_imports}: {said}", self.logger)
        return additional_imports

    def run_code_raise_errors(self, code: str) -> CodeOutput:
        execution = self.sandbox.run_code(code, language="python", timeout_seconds=self._timeout_seconds)
        logs = execution.stdout
        check_alive(execution, self.sandbox.id)
        if execution.timed_out:
            raise ExecutionTimeoutError(with_note(logs, timeout_note(self._timeout_seconds or 0)))
        if execution.error is not None:
            if execution.error.name.rpartition(".")[2] == self.FINAL_ANSWER_EXCEPTION:
                answer = self._deserialize_final_answer(execution.error.value, self.allow_pickle)
                return CodeOutput(output=answer, logs=logs, is_final_answer=True)
            said = f"{execution.error.name}: {execution.error.value}\n{execution.error.traceback}"
            raise AgentExecutionError(f"{logs}\nExecuting code yielded an error:\n{said}", self.logger)
        if execution.exit_code != 0:
            raise AgentExecutionError(f"{logs}\nExecuting code ended with {execution.cause}", self.logger)
        return CodeOutput(output=_value(execution), logs=logs, is_final_answer=False)

    def cleanup(self) -> None:
        """Kills the sandbox. The agent calls it at its end."""
        try:
            self.sandbox.kill()
        except (SandboxEnded, SandboxNotFound):
            return


def _value(execution: Execution) -> Any:
    """The last expression's value, in the representation that an agent can use best."""
    main = next((result for result in execution.results if result.main), None)
    if main is None:
        return None
    if main.png or main.jpeg:
        return PIL.Image.open(BytesIO(main.png or main.jpeg or b""))
    return _first(main)


def _first(result: CodeResult) -> Any:
    names = ("json", "text", "markdown", "html", "latex", "svg", "javascript")
    return next((getattr(result, name) for name in names if getattr(result, name) is not None), None)
