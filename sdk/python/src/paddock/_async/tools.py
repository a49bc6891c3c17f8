"""A sandbox as tools of a model: definitions for the provider, and answers to what the model calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Awaitable, Callable, Dict, Iterable, List, Optional, Tuple

from .. import _tool_definitions as shapes
from .._errors import NotAFile, PaddockError
from .._models import Json
from .._models_files import FileEntry
from .._tool_calls import BadCall, Call, calls_of, messages_of, parse_call, told
from .._tool_texts import LARGEST_FILE, OUTPUT_BUDGET, Outputs, edited, of_entries, of_execution, of_file, of_result

if TYPE_CHECKING:
    from .sandbox import AsyncSandbox

#: Entries of a directory in one answer.
MOST_ENTRIES = 500

Handler = Callable[[Any], Awaitable[Tuple[str, bool]]]


class AsyncTools:
    """What a model may do with one sandbox.

        answer = client.messages.create(tools=sandbox.tools.anthropic(), messages=messages, ...)
        messages += sandbox.tools.handle_all(answer)

    Definitions and results are plain dictionaries; their types are left open, because each provider's package has names
    of its own for them. Calls are answered one after the other, in the model's order. What goes wrong is told to the
    model in the result's text; only a mistake of the program itself is raised.

    Args:
        output_budget: characters of one answer. What is longer comes with its head and its tail, and can be read on.
        timeout_seconds: of a call that names none.
    """

    def __init__(
        self, sandbox: AsyncSandbox, *, output_budget: int = OUTPUT_BUDGET, timeout_seconds: float = 120
    ) -> None:
        self._sandbox = sandbox
        self._budget = max(output_budget, 200)
        self._timeout = timeout_seconds
        self._outputs = Outputs(self._budget)
        self._handlers: Dict[str, Handler] = {
            "run_code": self._run_code,
            "run_shell": self._run_shell,
            "read_file": self._read_file,
            "write_file": self._write_file,
            "edit_file": self._edit_file,
            "list_files": self._list_files,
            "read_output": self._read_output,
        }

    def anthropic(self, only: Optional[Iterable[str]] = None) -> List[Any]:
        """Definitions for the `tools` of Anthropic's messages; `only` some of them by name."""
        return [shapes.anthropic(tool) for tool in self._definitions(only)]

    def openai(self, only: Optional[Iterable[str]] = None) -> List[Any]:
        """Definitions for the `tools` of OpenAI's chat completions, and of what speaks like it."""
        return [shapes.openai(tool) for tool in self._definitions(only)]

    def openai_responses(self, only: Optional[Iterable[str]] = None) -> List[Any]:
        """Definitions for the `tools` of OpenAI's responses."""
        return [shapes.openai_responses(tool) for tool in self._definitions(only)]

    async def handle(self, block: Any) -> Any:
        """Does what one tool call asks, and gives the result in the shape of the provider that the call is of.

        A call is an object of the provider's package or a mapping: a `tool_use` block of Anthropic's, a tool call of
        OpenAI's chat completions, or a `function_call` of its responses.
        """
        return await self._answer(parse_call(block))

    async def handle_all(self, answer: Any) -> List[Any]:
        """Handles every tool call of a model's answer; returns what to append to the conversation, after the answer.

        Empty where the model called nothing: then it is done.
        """
        calls = calls_of(answer)
        results = [await self._answer(call) for call in calls]
        return messages_of(calls, results)

    def _definitions(self, only: Optional[Iterable[str]]) -> List[Json]:
        return shapes.definitions(self._sandbox._info, self._timeout, only)

    async def _answer(self, call: Call) -> Json:
        try:
            arguments = call.arguments()
            text, failed = await self._handlers[call.name](arguments)
        except BadCall as error:
            text, failed = str(error), True
        except PaddockError as error:
            text, failed = told(error), True
        return call.result(text, failed)

    async def _run_code(self, arguments: Json) -> Tuple[str, bool]:
        result = await self._sandbox.run_code(
            arguments["code"],
            language=arguments.get("language", "python"),
            timeout_seconds=arguments.get("timeout_seconds", self._timeout),
        )
        return of_execution(result, self._outputs)

    async def _run_shell(self, arguments: Json) -> Tuple[str, bool]:
        result = await self._sandbox.exec(
            arguments["command"],
            cwd=arguments.get("cwd"),
            timeout_seconds=arguments.get("timeout_seconds", self._timeout),
        )
        return of_result(result, self._outputs)

    async def _read_file(self, arguments: Json) -> Tuple[str, bool]:
        path = arguments["path"]
        content = await self._content(path)
        start, lines = arguments.get("start_line", 1), arguments.get("lines")
        return of_file(content, path, start, lines, self._budget), False

    async def _write_file(self, arguments: Json) -> Tuple[str, bool]:
        written = await self._sandbox.filesystem.write(arguments["path"], arguments["content"])
        return f"[wrote {written.size} bytes to {written.path}]", False

    async def _edit_file(self, arguments: Json) -> Tuple[str, bool]:
        path = arguments["path"]
        try:
            before = (await self._content(path)).decode("utf-8")
        except UnicodeDecodeError:
            raise BadCall(f"{path} is no text: use run_shell to change it") from None
        old, new = arguments["old_text"], arguments["new_text"]
        after, count = edited(before, path, old, new, arguments.get("replace_all", False))
        entry = await self._sandbox.filesystem.stat(path)
        await self._sandbox.filesystem.write(path, after, mode=entry.mode & 0o7777)
        return f"[replaced {count} time{'s' if count > 1 else ''} in {path}]", False

    async def _list_files(self, arguments: Json) -> Tuple[str, bool]:
        path = arguments.get("path", ".")
        entries: List[FileEntry] = []
        more = False
        async for entry in self._sandbox.filesystem.walk(path, recursive=arguments.get("recursive", False)):
            if len(entries) == MOST_ENTRIES:
                more = True
                break
            entries.append(entry)
        return self._outputs.shown(of_entries(entries, path, more)), False

    async def _read_output(self, arguments: Json) -> Tuple[str, bool]:
        return self._outputs.piece(arguments["output"], arguments["offset"]), False

    async def _content(self, path: str) -> bytes:
        entry = await self._sandbox.filesystem.stat(path)
        if entry.kind == "directory":
            raise NotAFile(f"{path} is a directory", hint="list_files shows what is in it")
        content = await self._sandbox.filesystem.read_bytes(path, length=LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise BadCall(f"{path} is larger than {LARGEST_FILE >> 20} MiB: use run_shell with sed, grep or head")
        return content
