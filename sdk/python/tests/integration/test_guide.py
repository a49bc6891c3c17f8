"""The code of the guide "How to Give Your AI Agent a Sandbox", word for word, with only the import changed.

What stands for the provider of the model is a script without a network; where the guide says "run the agent loop here",
calls are put in.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Dict, List

import pytest

import paddock
from paddock import Sandbox

from .test_examples import living

GUIDE = Path(__file__).parent / "guide"
THEIRS = "from pandastack import Sandbox"
OURS = "from paddock import Sandbox"
LOOP = "    # ... run the agent loop here, all calls share `sb` ...\n"


def guide(name: str) -> str:
    return (GUIDE / f"{name}.txt").read_text()


def run(source: str, name: str, names: Dict[str, Any]) -> Dict[str, Any]:
    exec(compile(source, name, "exec"), names)
    return names


def test_run_code(capsys: pytest.CaptureFixture[str]) -> None:
    source = guide("run_code")
    assert source.count(THEIRS) == 1
    before = living()
    names = run(source.replace(THEIRS, OURS), "run_code", {"__name__": "__main__"})
    assert capsys.readouterr().out == "5050\n"
    assert names["run_code"]("print(1); raise SystemExit(3)") == "1\n\n[exit 3]"
    assert names["run_code"]("pass") == "(no output — did you forget to print?)"
    assert living() == before


def test_per_session() -> None:
    source = guide("per_session")
    assert source.count(LOOP) == 1
    calls = '    answers = [run_code(\'x = 1; open("f", "w").write("kept")\'), run_code(\'print(open("f").read())\')]\n'
    before = living()
    names = run(source.replace(LOOP, calls), "per_session", {"Sandbox": Sandbox})
    assert names["answers"] == ["", "kept"]
    assert living() == before

    failing = source.replace(LOOP, "    raise LookupError(run_code('import sys; sys.exit(\"told\")'))\n")
    with pytest.raises(LookupError, match="told"):
        run(failing, "per_session", {"Sandbox": Sandbox})
    assert living() == before


@dataclass
class Block:
    type: str
    text: str = ""
    id: str = ""
    name: str = ""
    input: Dict[str, str] = field(default_factory=dict)


@dataclass
class Reply:
    content: List[Block]
    stop_reason: str


class ScriptedLocalModel:
    """Stands for the provider's client: asks for one computation, then tells its result."""

    def __init__(self) -> None:
        self.messages = self

    def create(self, *, model: str, max_tokens: int, tools: List[Any], messages: List[Dict[str, Any]]) -> Reply:
        assert [tool["name"] for tool in tools] == ["run_code"]
        if len(messages) == 1:
            code = "a, b = 0, 1\nfor _ in range(30):\n    a, b = b, a + b\nprint(a)"
            return Reply([Block("tool_use", id="call-1", name="run_code", input={"code": code})], "tool_use")
        (result,) = messages[-1]["content"]
        assert result["tool_use_id"] == "call-1"
        return Reply([Block("text", text=f"It is {result['content']}.")], "end_turn")


def test_agent_loop(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("anthropic")
    module.Anthropic = ScriptedLocalModel  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "anthropic", module)
    names = run(guide("tool"), "tool", {"__name__": "guide"})
    run(guide("run_code").replace(THEIRS, OURS), "run_code", names)
    names["__name__"] = "__main__"
    run(guide("agent_loop"), "agent_loop", names)
    assert capsys.readouterr().out == "It is 832040.\n"


def test_raw_shell_instead() -> None:
    """`swap to sb.exec(cmd, timeout_seconds=30)`, and what the guide says of persistent sandboxes."""
    with Sandbox.create(template="code-interpreter", ttl_seconds=600) as sb:
        result = sb.exec("echo $((6 * 7))", timeout_seconds=30)
        assert (result.stdout, result.stderr, result.exit_code) == ("42\n", "", 0)
        sb.filesystem.write("a.txt", "x")
        assert sb.filesystem.read("a.txt") == "x"
    with pytest.raises(paddock.PaddockError):
        sb.exec("true")
    with Sandbox.create(persistent=True) as kept:
        pass
    assert kept.info().state == "running"
    kept.kill()
