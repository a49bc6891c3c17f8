"""A model's tool calls, from each provider's shape and back to it. What a model wrote may be anything."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, List, Mapping, Optional, Union

from ._errors import InvalidRequest, PaddockError
from ._models import Json
from ._tool_definitions import known

ANTHROPIC = "anthropic"
OPENAI = "openai"
OPENAI_RESPONSES = "openai-responses"


class BadCall(Exception):
    """The model's mistake; the message is for the model."""


@dataclass(frozen=True)
class Call:
    shape: str
    id: str
    name: str
    #: As the model wrote them; `arguments` checks them.
    given: Any

    def arguments(self) -> Json:
        """Checked against the tool's parameters."""
        tool = known().get(self.name)
        if tool is None:
            raise BadCall(f"there is no tool {self.name!r}; the tools are {', '.join(known())}")
        given = self.given
        if isinstance(given, str):
            try:
                given = json.loads(given or "{}")
            except ValueError as error:
                raise BadCall(f"the arguments of {self.name} are not JSON: {error}") from None
        if not isinstance(given, Mapping):
            raise BadCall(f"the arguments of {self.name} are no object but {type(given).__name__}")
        parameters = tool["parameters"]
        for name in given:
            if name not in parameters:
                raise BadCall(f"{self.name} has no argument {name!r}; it takes {', '.join(parameters)}")
        for name in tool["required"]:
            if given.get(name) is None:
                raise BadCall(f"{self.name} needs the argument {name!r}: {parameters[name]['type']}")
        # Some models write null for what they leave out.
        return {
            name: _checked(self.name, name, value, parameters[name])
            for name, value in given.items()
            if value is not None
        }

    def result(self, text: str, failed: bool) -> Json:
        """The result in the shape that this call came in."""
        if self.shape == ANTHROPIC:
            content = [{"type": "text", "text": text}]
            return {"type": "tool_result", "tool_use_id": self.id, "content": content, "is_error": failed}
        # Nothing but the text says that it failed.
        text = f"error: {text}" if failed else text
        if self.shape == OPENAI:
            return {"role": "tool", "tool_call_id": self.id, "content": text}
        return {"type": "function_call_output", "call_id": self.id, "output": text}


def _checked(tool: str, name: str, value: Any, schema: Mapping[str, Any]) -> Any:
    wanted = schema["type"]
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if wanted == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    fits = {
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "integer": number and isinstance(value, int),
        "number": number,
    }[wanted]
    if not fits:
        raise BadCall(f"{name} of {tool} is {_shown(value)}, not of type {wanted}")
    if "enum" in schema and value not in schema["enum"]:
        raise BadCall(f"{name} of {tool} is {_shown(value)}, not one of {', '.join(schema['enum'])}")
    if value != value or ("minimum" in schema and value < schema["minimum"]):
        raise BadCall(f"{name} of {tool} is {_shown(value)}; {schema['minimum']} is the least")
    if "maximum" in schema and value > schema["maximum"]:
        raise BadCall(f"{name} of {tool} is {_shown(value)}; {schema['maximum']} is the most")
    return value


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else text[:77] + "..."


def parse_call(block: Any) -> Call:
    """A `tool_use` of Anthropic's, a tool call of OpenAI's chat completions, or a `function_call` of its responses."""
    kind = field(block, "type")
    if kind == "tool_use":
        return Call(ANTHROPIC, _text(block, "id"), _text(block, "name"), field(block, "input"))
    if kind == "function_call":
        return Call(OPENAI_RESPONSES, _text(block, "call_id"), _text(block, "name"), field(block, "arguments"))
    function = field(block, "function")
    if function is not None:
        return Call(OPENAI, _text(block, "id"), _text(function, "name"), field(function, "arguments"))
    raise InvalidRequest(
        f"this is no tool call of a model: {_shown(block)}",
        hint="pass a tool_use block of a message, a tool call of a chat completion or a function_call of a response",
    )


def calls_of(answer: Any) -> List[Call]:
    """All tool calls of a model's answer, in their order."""
    choices = field(answer, "choices")
    if choices:
        answer = field(choices[0], "message")
    called = field(answer, "tool_calls")
    if called:
        return [parse_call(call) for call in called]
    blocks: Union[List[Any], str, None] = field(answer, "content")
    if blocks is None:
        blocks = field(answer, "output")
    if not isinstance(blocks, (list, tuple)):
        return []
    return [parse_call(block) for block in blocks if field(block, "type") in ("tool_use", "function_call")]


def messages_of(calls: List[Call], results: List[Json]) -> List[Json]:
    """What to append to the conversation, as each provider wants it."""
    if calls and calls[0].shape == ANTHROPIC:
        return [{"role": "user", "content": results}]
    return results


def told(error: PaddockError) -> str:
    """An error of the server's, for the model."""
    return f"{error.message} (hint: {error.hint})" if error.hint else error.message


def field(thing: Any, name: str) -> Any:
    """Of a mapping or of an object of a provider's package."""
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def _text(thing: Any, name: str) -> str:
    value: Optional[Any] = field(thing, name)
    if not isinstance(value, str) or not value:
        raise InvalidRequest(f"a tool call without {name}: {_shown(thing)}")
    return value
