"""The tools that a model may call, in the shapes of the providers. Data is in _tools.json; this only fills it in."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any, Dict, Iterable, List, Mapping, Optional

from ._errors import InvalidRequest
from ._models import Json, SandboxInfo

#: Where commands start and relative paths begin.
WORKING_DIRECTORY = "/workspace"


@lru_cache(maxsize=1)
def known() -> Dict[str, Json]:
    """Name to description, parameters and those that are required."""
    text = files(__package__ or "paddock").joinpath("_tools.json").read_text("utf-8")
    tools: Dict[str, Json] = json.loads(text)
    return tools


def chosen(only: Optional[Iterable[str]]) -> List[str]:
    """The names of the tools to offer, in their order."""
    if only is None:
        return list(known())
    if isinstance(only, str):
        raise InvalidRequest(f"only is the text {only!r}, not a list", hint=f"write only=[{only!r}]")
    wanted = list(only)
    for name in wanted:
        if name not in known():
            raise InvalidRequest(f"there is no tool {name!r}", hint=f"the tools are {', '.join(known())}")
    return [name for name in known() if name in wanted]


def definitions(info: SandboxInfo, timeout_seconds: float, only: Optional[Iterable[str]]) -> List[Json]:
    """Name, description and JSON schema of each tool, telling what this very sandbox allows."""
    words = _words(info, timeout_seconds)
    return [_definition(name, words) for name in chosen(only)]


def _definition(name: str, words: Mapping[str, str]) -> Json:
    tool = known()[name]
    return {
        "name": name,
        "description": _filled(tool["description"], words),
        "parameters": {
            "type": "object",
            "properties": {
                parameter: {**schema, "description": _filled(schema["description"], words)}
                for parameter, schema in tool["parameters"].items()
            },
            "required": list(tool["required"]),
            "additionalProperties": False,
        },
    }


def anthropic(definition: Json) -> Json:
    return {
        "name": definition["name"],
        "description": definition["description"],
        "input_schema": definition["parameters"],
    }


def openai(definition: Json) -> Json:
    """Of chat completions."""
    return {"type": "function", "function": definition}


def openai_responses(definition: Json) -> Json:
    # Not strict: that would make every parameter a required one.
    return {"type": "function", **definition, "strict": False}


def _words(info: SandboxInfo, timeout_seconds: float) -> Dict[str, str]:
    return {
        "state": "Variables, imports and files of earlier calls are still there, for each language its own.",
        "network": _network(info.guarantees),
        "limits": _limits(info.limits),
        "directory": WORKING_DIRECTORY,
        "timeout": f"{timeout_seconds:g}",
    }


def _network(guarantees: Mapping[str, Any]) -> str:
    network = guarantees.get("network")
    if network == "none":
        return "There is no network: do not try to download or install anything."
    if network == "host":
        return "The network of the host can be reached."
    if network == "gate":
        return "Only some hosts can be reached; a refusal names the one that was refused."
    return f"Network: {network}." if network else ""


def _limits(limits: Mapping[str, Any]) -> str:
    said = []
    memory, disk = limits.get("memory"), limits.get("disk")
    if memory:
        said.append(f"{_size(memory)} of memory")
    if limits.get("cpus"):
        said.append(f"{limits['cpus']:g} processors")
    if disk:
        said.append(f"{_size(disk)} of disk")
    return f"It has {', '.join(said)}." if said else ""


def _size(count: int) -> str:
    for unit, step in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= step:
            return f"{count / step:.2f}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{count} bytes"


def _filled(text: str, words: Mapping[str, str]) -> str:
    for word, meaning in words.items():
        text = text.replace("{" + word + "}", meaning)
    return " ".join(text.split())
