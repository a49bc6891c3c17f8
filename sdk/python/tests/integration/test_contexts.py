from __future__ import annotations

import asyncio
from typing import List

import pytest

import paddock
from paddock import AsyncSandbox, CodeError, CodeResult, Sandbox

from ..real_server import Server


def test_code_remembers_and_gives_its_last_value(sandbox: Sandbox) -> None:
    execution = sandbox.run_code("x = 41")
    assert (execution.text, execution.results, execution.error, execution.ok) == (None, [], None, True)
    execution = sandbox.run_code("print('out')\nx + 1")
    assert (execution.stdout, execution.text, execution.context) == ("out\n", "42", "python")
    assert sandbox.run_code("{'a': 1}").results[0].json == {"a": 1}
    assert sandbox.run_code("x=1; echo $x", "sh").stdout == "1\n"


def test_an_exception_is_an_answer(sandbox: Sandbox) -> None:
    execution = sandbox.run_code("1 / 0")
    assert execution.error is not None
    assert (execution.error.name, execution.exit_code, execution.ok) == ("ZeroDivisionError", 1, False)
    assert "1 / 0" in execution.error.traceback
    # For those who only read what was printed.
    assert "ZeroDivisionError" in execution.stderr


def test_everything_as_it_happens(sandbox: Sandbox) -> None:
    seen: List[str] = []
    errors: List[CodeError] = []
    results: List[CodeResult] = []
    code = "print('one')\ndisplay('shown')\nprint('two')\n1 / 0"
    execution = sandbox.run_code(code, on_stdout=seen.append, on_result=results.append, on_error=errors.append)
    assert "".join(seen) == execution.stdout == "one\ntwo\n"
    assert [result.text for result in results] == [result.text for result in execution.results] == ["'shown'"]
    assert errors == [execution.error]


def test_contexts_from_making_to_deleting(sandbox: Sandbox) -> None:
    context = sandbox.contexts.create("bash", id="shell", cwd="/tmp", env={"A": "b"})
    assert (context.language, context.state, context.default) == ("bash", "idle", False)
    assert sandbox.run_code("pwd; echo $A; x=1", context=context).stdout == "/tmp\nb\n"
    assert sandbox.run_code("echo [$x]", context="shell").stdout == "[1]\n"
    restarted = sandbox.contexts.restart(context)
    assert restarted.exec != context.exec
    assert sandbox.run_code("echo [$x]", context=context).stdout == "[]\n"
    assert sandbox.contexts.interrupt(context) is False
    assert [each.id for each in sandbox.contexts.list()] == ["shell"]
    assert sandbox.run_code("exit 3", context=context).exit_code == 3
    assert sandbox.contexts.get("shell").state == "ended"
    with pytest.raises(paddock.ContextEnded, match="exit code 3"):
        sandbox.run_code("true", context=context)
    sandbox.contexts.delete(context)
    with pytest.raises(paddock.ContextNotFound):
        sandbox.run_code("true", context=context)


def test_input_and_a_time_limit(sandbox: Sandbox) -> None:
    assert sandbox.run_code("input()", stdin="given\n").text == "'given'"
    execution = sandbox.run_code("print('before')\nwhile True: pass", timeout_seconds=0.5)
    assert (execution.timed_out, execution.stdout) == (True, "before\n")
    execution = sandbox.run_code("import os; os._exit(1)")
    assert execution.error is not None
    assert execution.error.name == "ContextDied"
    restarted = sandbox.run_code("1").context_restarted
    assert restarted is not None
    assert restarted.kind == "exited"


async def _side_by_side() -> None:
    async with await AsyncSandbox.create(ttl_seconds=60) as sandbox:
        contexts = [await sandbox.contexts.create() for _ in range(3)]
        code = "import time; time.sleep(0.2); {}"
        runs = (sandbox.run_code(code.format(index), context=context) for index, context in enumerate(contexts))
        assert [run.text for run in await asyncio.gather(*runs)] == ["0", "1", "2"]


def test_side_by_side(server: Server) -> None:
    asyncio.run(_side_by_side())


def test_code_is_scanned_before_it_runs(server: Server) -> None:
    with Sandbox.create(scan="warn", allowed_imports=["json"], ttl_seconds=60) as sandbox:
        execution = sandbox.run_code("import os\nos.system('echo ran')")
        assert [(finding.kind, finding.line, finding.column) for finding in execution.findings] == [
            ("import_not_allowed", 1, 8),
            ("subprocess", 2, 1),
        ]
        assert execution.ok
        assert execution.findings_missing == 0
        seen: List[str] = []
        streamed = sandbox.run_code("print(eval('1'))", on_stdout=seen.append)
        assert ([finding.kind for finding in streamed.findings], "".join(seen)) == (["eval_exec"], "1\n")
        assert sandbox.run_code("import json; json.dumps(1)").findings == []
    with Sandbox.create(scan="deny", ttl_seconds=60) as sandbox:
        with pytest.raises(paddock.ScanDenied) as caught:
            sandbox.run_code("x = 1\neval('x')")
        assert [finding.kind for finding in caught.value.findings] == ["eval_exec"]
        assert "line 2, column 1: eval_exec: eval" in str(caught.value)
        with pytest.raises(paddock.ScanDenied):
            sandbox.run_code("echo hello", "sh")
        assert sandbox.run_code("1 + 1").text == "2"
