"""Cases that hold for this SDK and for the Rust crate `paddock-tools` alike: the same words for the same things."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List

import pytest

from paddock._models import Execution, Result, SandboxInfo
from paddock._tool_calls import BadCall, parse_call
from paddock._tool_definitions import definitions
from paddock._tool_texts import Outputs, edited, of_execution, of_file, of_result

CASES: Dict[str, List[Dict[str, Any]]] = json.loads(Path(__file__).with_name("tool_cases.json").read_text("utf-8"))
BUDGET = 400


@pytest.mark.parametrize("case", CASES["calls"])
def test_bad_calls(case: Dict[str, Any]) -> None:
    with pytest.raises(BadCall) as caught:
        parse_call({"type": "tool_use", "id": "t", "name": case["tool"], "input": case["arguments"]}).arguments()
    assert str(caught.value) == case["bad"]


@pytest.mark.parametrize("case", CASES["commands"])
def test_commands(case: Dict[str, Any]) -> None:
    assert of_result(Result.parse(case["exec"]), Outputs(BUDGET)) == (case["text"], case["failed"])


@pytest.mark.parametrize("case", CASES["code"])
def test_code(case: Dict[str, Any]) -> None:
    assert of_execution(Execution.parse(case["exec"]), Outputs(BUDGET)) == (case["text"], case["failed"])


@pytest.mark.parametrize("case", CASES["files"])
def test_files(case: Dict[str, Any]) -> None:
    arguments = (case["content"].encode(), "f", case["start_line"], case["lines"], case["budget"])
    if "bad" not in case:
        assert of_file(*arguments) == case["text"]
        return
    with pytest.raises(BadCall) as caught:
        of_file(*arguments)
    assert str(caught.value) == case["bad"]


@pytest.mark.parametrize("case", CASES["edits"])
def test_edits(case: Dict[str, Any]) -> None:
    arguments = (case["content"], "f", case["old"], case["new"], case["all"])
    if "bad" not in case:
        assert edited(*arguments) == (case["text"], case["count"])
        return
    with pytest.raises(BadCall) as caught:
        edited(*arguments)
    assert str(caught.value) == case["bad"]


@pytest.mark.parametrize("case", CASES["tools"])
def test_definitions(case: Dict[str, Any]) -> None:
    limits = {name: case[name] for name in ("memory", "cpus", "disk")}
    guarantees = {"network": case["network"]}
    body = {"id": "sb-1", "state": "running", "created_at_ms": 0, "limits": limits, "guarantees": guarantees}
    assert definitions(SandboxInfo.parse(body), case["timeout"], None) == case["definitions"]
