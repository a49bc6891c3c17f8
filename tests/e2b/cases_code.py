"""E2B's code interpreter with its Python SDK: contexts that remember, results, errors."""
import time

import pytest_like as expect
from e2b_code_interpreter import AsyncSandbox, Sandbox

SHARED = {}


def interpreter(world):
    with world.lock:
        if "sync" not in SHARED:
            SHARED["sync"] = Sandbox.create(timeout=600)
        return SHARED["sync"]


def case_code_runs_and_remembers(world):
    sandbox = interpreter(world)
    sandbox.run_code("x = 20")
    execution = sandbox.run_code("x += 1; x * 2")
    assert execution.text == "42" and execution.error is None
    assert execution.results[0].is_main_result
    assert sandbox.run_code("'text'").text == "text"
    assert sandbox.run_code("import os; os.getcwd()").text in ("/home/user", "/home/agent")


def case_output_comes_by_its_stream(world):
    out, err, results, errors = [], [], [], []
    execution = interpreter(world).run_code(
        "import sys\nprint('to out')\nprint('to err', file=sys.stderr)\n7",
        on_stdout=out.append, on_stderr=err.append, on_result=results.append, on_error=errors.append)
    assert "".join(execution.logs.stdout) == "to out\n" and "".join(execution.logs.stderr) == "to err\n"
    assert "".join(one.line for one in out) == "to out\n" and "".join(one.line for one in err) == "to err\n"
    assert [one.text for one in results] == ["7"] and errors == []


def case_an_exception_is_an_error_of_the_execution(world):
    execution = interpreter(world).run_code("1 / 0")
    assert execution.error.name == "ZeroDivisionError"
    assert "division" in execution.error.value and "1 / 0" in execution.error.traceback
    assert interpreter(world).run_code("1 + 1").text == "2"


def case_executions_are_counted(world):
    sandbox = interpreter(world)
    first = sandbox.run_code("1").execution_count
    assert sandbox.run_code("1").execution_count == first + 1


def case_html_and_json_are_results(world):
    code = "class T:\n  def _repr_html_(self): return '<b>t</b>'\n  def __repr__(self): return 'T'\nT()"
    result = interpreter(world).run_code(code).results[0]
    assert (result.html, result.text) == ("<b>t</b>", "T")
    assert interpreter(world).run_code("{'a': [1, 2]}").results[0].json == {"a": [1, 2]}


def case_variables_of_one_call(world):
    sandbox = interpreter(world)
    assert sandbox.run_code("import os; os.environ['ONE']", envs={"ONE": "1"}).text == "1"
    assert sandbox.run_code("os.environ.get('ONE')").text in (None, "None")


def case_contexts_are_apart(world):
    sandbox = interpreter(world)
    context = sandbox.create_code_context(cwd="/tmp")
    assert (context.language, context.cwd) == ("python", "/tmp")
    sandbox.run_code("y = 5", context=context)
    assert sandbox.run_code("y", context=context).text == "5"
    assert sandbox.run_code("y").error.name == "NameError"
    assert sandbox.run_code("import os; os.getcwd()", context=context).text == "/tmp"
    assert context.id in {one.id for one in sandbox.list_code_contexts()}
    sandbox.restart_code_context(context)
    assert sandbox.run_code("y", context=context).error.name == "NameError"
    sandbox.remove_code_context(context)
    assert context.id not in {one.id for one in sandbox.list_code_contexts()}
    error = expect.raises(Exception, sandbox.run_code, "1", context=context)
    assert "context" in str(error), error


def case_other_languages(world):
    sandbox = interpreter(world)
    assert sandbox.run_code("const a = 6; a * 7", language="js").text == "42"
    execution = sandbox.run_code("echo $((6 * 7))", language="bash")
    assert "".join(execution.logs.stdout) == "42\n"
    error = expect.raises(Exception, sandbox.run_code, "1", language="cobol")
    assert "cobol" in str(error), error


def case_a_client_that_goes_away_interrupts_its_code(world):
    sandbox = interpreter(world)
    began = time.monotonic()
    expect.raises(Exception, sandbox.run_code, "import time\nwhile True: time.sleep(0.1)", timeout=1)
    assert sandbox.run_code("'free again'").text == "free again"
    assert time.monotonic() - began < 20


def case_the_sandbox_has_commands_and_files_too(world):
    sandbox = interpreter(world)
    sandbox.files.write("/home/user/data.csv", "a,b\n1,2\n")
    assert sandbox.run_code("open('/home/user/data.csv').read()").text == "a,b\\n1,2\\n"
    assert sandbox.commands.run("cat /home/user/data.csv").stdout == "a,b\n1,2\n"


async def case_with_the_other_flavour(world):
    sandbox = await AsyncSandbox.create()
    try:
        out = []
        execution = await sandbox.run_code("print('hi'); 6 * 7", on_stdout=out.append)
        assert execution.text == "42" and "".join(one.line for one in out) == "hi\n"
        context = await sandbox.create_code_context(language="python")
        await sandbox.run_code("z = 1", context=context)
        assert (await sandbox.run_code("z", context=context)).text == "1"
        assert context.id in {one.id for one in await sandbox.list_code_contexts()}
        await sandbox.remove_code_context(context)
    finally:
        await sandbox.kill()


def case_the_interpreter_ends(world):
    sandbox = SHARED.pop("sync")
    assert sandbox.kill() is True
    expect.raises(Exception, sandbox.run_code, "1")
