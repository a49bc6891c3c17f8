"""Tool definitions, what models write, and what is cut, without a server."""

from __future__ import annotations

import json
from typing import Any, Dict

import pytest

from paddock import InvalidRequest
from paddock._models import SandboxInfo
from paddock._tool_calls import BadCall, calls_of, parse_call
from paddock._tool_definitions import anthropic, definitions, known, openai, openai_responses
from paddock._tool_texts import Outputs, edited, of_file

INFO = SandboxInfo.parse(
    {
        "id": "sb-1",
        "state": "running",
        "created_at_ms": 0,
        "limits": {"memory": 512 << 20, "cpus": 1.5, "disk": 2 << 30},
        "guarantees": {"network": "none"},
    }
)


def use(name: str, arguments: Any) -> Dict[str, Any]:
    return {"type": "tool_use", "id": "t1", "name": name, "input": arguments}


def test_definitions_tell_what_this_sandbox_allows() -> None:
    tools = {tool["name"]: tool for tool in definitions(INFO, 60, None)}
    assert set(tools) == set(known())
    run_code = tools["run_code"]["description"]
    assert "There is no network" in run_code
    assert "512 MiB of memory, 1.5 processors, 2 GiB of disk" in run_code
    assert "{" not in json.dumps([tool["description"] for tool in tools.values()])
    assert tools["run_shell"]["parameters"]["properties"]["timeout_seconds"]["description"].endswith("Default: 60.")
    assert [tool["name"] for tool in definitions(INFO, 60, ["read_file", "run_code"])] == ["run_code", "read_file"]
    with pytest.raises(InvalidRequest, match="no tool 'rm'"):
        definitions(INFO, 60, ["rm"])
    with pytest.raises(InvalidRequest, match="not a list"):
        definitions(INFO, 60, "run_code")


def test_the_shapes_of_the_providers() -> None:
    [tool] = definitions(INFO, 60, ["run_code"])
    assert set(anthropic(tool)) == {"name", "description", "input_schema"}
    assert openai(tool) == {"type": "function", "function": tool}
    assert openai_responses(tool)["name"] == "run_code"
    assert tool["parameters"]["required"] == ["code"]
    assert tool["parameters"]["additionalProperties"] is False


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("fly", {}, "there is no tool 'fly'; the tools are run_code"),
        ("run_code", {}, "needs the argument 'code'"),
        ("run_code", {"code": None}, "needs the argument 'code'"),
        ("run_code", {"code": "1", "lang": "r"}, "has no argument 'lang'; it takes code, language"),
        ("run_code", {"code": 1}, "code of run_code is 1, not of type string"),
        ("run_code", {"code": "1", "language": "cobol"}, 'is "cobol", not one of python'),
        ("run_code", {"code": "1", "timeout_seconds": 0}, "1 is the least"),
        ("run_code", {"code": "1", "timeout_seconds": 1e9}, "3600 is the most"),
        ("run_code", {"code": "1", "timeout_seconds": float("nan")}, "is NaN"),
        ("run_code", {"code": "1", "timeout_seconds": True}, "not of type number"),
        ("read_file", {"path": "x", "start_line": 1.5}, "not of type integer"),
        ("run_code", [], "are no object but list"),
        ("run_code", "{", "are not JSON"),
        ("run_code", '"text"', "are no object but str"),
    ],
)
def test_what_models_get_wrong_is_told_to_them(name: str, arguments: Any, said: str) -> None:
    with pytest.raises(BadCall) as caught:
        parse_call(use(name, arguments)).arguments()
    assert said in str(caught.value)


def test_what_models_write_otherwise_is_understood() -> None:
    assert parse_call(use("read_file", {"path": "x", "start_line": 3.0, "lines": None})).arguments() == {
        "path": "x",
        "start_line": 3,
    }
    call = {"id": "c", "type": "function", "function": {"name": "list_files", "arguments": ""}}
    assert parse_call(call).arguments() == {}


def test_what_is_no_call_at_all_is_the_programs_mistake() -> None:
    for block in (None, {}, {"type": "text", "text": "x"}, {"type": "tool_use", "name": "run_code"}):
        with pytest.raises(InvalidRequest):
            parse_call(block)
    assert calls_of({"role": "assistant", "content": "done"}) == []
    assert calls_of({"choices": [{"message": {"content": "done"}}]}) == []


def test_long_output_keeps_head_and_tail_and_can_be_read_on() -> None:
    outputs = Outputs(1000)
    text = "".join(f"line {number}\n" for number in range(2000))
    shown = outputs.shown(text)
    assert len(shown) < 1200
    assert shown.startswith("line 0\n")
    assert shown.endswith("line 1999\n")
    assert "characters left out; read_output(output='output-1', offset=" in shown
    offset = int(shown.split("offset=")[1].split(")")[0])
    read = shown.split("\n[")[0]
    while True:
        piece = outputs.piece("output-1", offset)
        taken, note = piece.rsplit("\n[", 1)
        read += taken
        offset += len(taken)
        if "end of" in note:
            break
    assert read == text
    assert outputs.shown("short") == "short"
    with pytest.raises(BadCall, match="not kept"):
        outputs.piece("output-9", 0)
    with pytest.raises(BadCall, match="behind its end"):
        outputs.piece("output-1", len(text))


def test_kept_outputs_are_bounded() -> None:
    outputs = Outputs(200)
    for _ in range(100):
        outputs.shown("x" * 1000)
    with pytest.raises(BadCall):
        outputs.piece("output-1", 0)
    assert outputs.piece("output-100", 0)


def test_files_in_pieces() -> None:
    content = b"".join(b"%d\n" % number for number in range(1, 101))
    assert of_file(b"a\nb", "f", 1, None, 1000) == "a\nb"
    assert of_file(b"", "f", 1, None, 1000) == "[f is empty]"
    assert of_file(content, "f", 10, 2, 1000) == "10\n11\n[lines 10 to 11 of 100; read on with start_line=12]"
    assert of_file(content, "f", 1, None, 20).endswith("read on with start_line=10]")
    assert "has 5000 characters and is cut" in of_file(b"x" * 5000, "f", 1, None, 300)
    for bad, said in ((b"\xff\xfe", "no text"), (b"a\0b", "NUL")):
        with pytest.raises(BadCall, match=said):
            of_file(bad, "f", 1, None, 1000)
    with pytest.raises(BadCall, match="has 100 lines"):
        of_file(content, "f", 101, None, 1000)


def test_edits() -> None:
    assert edited("a b a", "f", "b", "c", False) == ("a c a", 1)
    assert edited("a b a", "f", "a", "c", True) == ("c b c", 2)
    for old, new, said in (
        ("a", "c", r"stands 2 times in f \(lines 1, 1\)"),
        ("z", "c", "does not stand in f; read the file again"),
        ("", "c", "old_text is empty"),
        ("b", "b", "the same"),
    ):
        with pytest.raises(BadCall, match=said):
            edited("a b a", "f", old, new, False)
    with pytest.raises(BadCall, match="nearly does at line 2, with other white space"):
        edited("def f():\n    return 1\n", "f", "\treturn 1", "x", False)
