"""The guide's examples and those of the README, as they stand."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Dict, List

import pytest

from paddock import Sandbox

ROOT = Path(__file__).resolve().parent.parent.parent


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def living() -> List[str]:
    return [sandbox.id for sandbox in Sandbox.list() if sandbox.state != "ended"]


def test_run_code() -> None:
    before = living()
    run_code = load("run_code").run_code
    assert run_code("print(sum(range(101)))") == "5050"
    assert run_code("x = 1") == "(no output — did you forget to print?)"
    failed = run_code("print('before'); 1 / 0")
    assert failed.startswith("before\n\n[exit 1] ")
    assert "ZeroDivisionError" in failed
    assert living() == before


def test_per_session() -> None:
    before = living()
    conversation = load("per_session").conversation
    answers = conversation(["open('n.txt', 'w').write('42')", "print(open('n.txt').read())", "raise SystemExit('no')"])
    assert answers == ["", "42", "no"]
    assert living() == before


def test_cleanup() -> None:
    before = living()
    cleanup = load("cleanup")
    assert cleanup.killed_by_the_block() == "killed"
    assert cleanup.killed_by_its_time_to_live() == "time_to_live"
    assert cleanup.left_alone_when_persistent() == "running"
    assert living() == before


def test_the_agent_loop_as_a_program() -> None:
    before = living()
    script = str(ROOT / "examples" / "agent_loop.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("The answer is 832040.\n", "")
    assert living() == before


#: The one that needs a registry is run by test_templates.py.
BLOCKS = [
    block
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    if "Templates" not in block
]


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_readme(number: int) -> None:
    assert len(BLOCKS) >= 6
    names: Dict[str, Any] = {"__name__": "__main__"}
    exec(compile(BLOCKS[number], f"README.md, example {number + 1}", "exec"), names)
