"""E2B's code interpreter with its Python SDK: contexts that remember, results, errors."""
import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest_like as expect
from e2b import InvalidArgumentException, SandboxException, TimeoutException
from e2b_code_interpreter import AsyncSandbox, Sandbox


def case_code_runs_and_remembers(world):
    sandbox = world.interpreter
    sandbox.run_code("x = 20")
    execution = sandbox.run_code("x += 1; x * 2")
    assert execution.text == "42" and execution.error is None
    assert execution.results[0].is_main_result
    assert sandbox.run_code("'text'").text == "text"
    assert sandbox.run_code("import os; os.getcwd()").text in ("/home/user", "/home/agent")


def case_output_comes_by_its_stream(world):
    out, err, results, errors = [], [], [], []
    execution = world.interpreter.run_code(
        "import sys\nprint('to out')\nprint('to err', file=sys.stderr)\n7",
        on_stdout=out.append, on_stderr=err.append, on_result=results.append, on_error=errors.append)
    assert "".join(execution.logs.stdout) == "to out\n" and "".join(execution.logs.stderr) == "to err\n"
    assert "".join(one.line for one in out) == "to out\n" and "".join(one.line for one in err) == "to err\n"
    assert [one.text for one in results] == ["7"] and errors == []


def case_an_exception_is_an_error_of_the_execution(world):
    execution = world.interpreter.run_code("1 / 0")
    assert execution.error.name == "ZeroDivisionError"
    assert "division" in execution.error.value and "1 / 0" in execution.error.traceback
    assert world.interpreter.run_code("1 + 1").text == "2"


def case_executions_are_counted(world):
    sandbox = world.interpreter
    first = sandbox.run_code("1").execution_count
    assert sandbox.run_code("1").execution_count == first + 1


def case_html_and_json_are_results(world):
    code = "class T:\n  def _repr_html_(self): return '<b>t</b>'\n  def __repr__(self): return 'T'\nT()"
    result = world.interpreter.run_code(code).results[0]
    assert (result.html, result.text) == ("<b>t</b>", "T")
    assert world.interpreter.run_code("{'a': [1, 2]}").results[0].json == {"a": [1, 2]}


def case_variables_of_one_call(world):
    sandbox = world.interpreter
    assert sandbox.run_code("import os; os.environ['ONE']", envs={"ONE": "1"}).text == "1"
    assert sandbox.run_code("os.environ.get('ONE')").text in (None, "None")


def case_contexts_are_apart(world):
    sandbox = world.interpreter
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
    sandbox = world.interpreter
    assert sandbox.run_code("const a = 6; a * 7", language="js").text == "42"
    execution = sandbox.run_code("echo $((6 * 7))", language="bash")
    assert "".join(execution.logs.stdout) == "42\n"
    error = expect.raises(Exception, sandbox.run_code, "1", language="cobol")
    assert "cobol" in str(error), error


def case_a_client_that_goes_away_interrupts_its_code(world):
    sandbox = world.interpreter
    began = time.monotonic()
    expect.raises(Exception, sandbox.run_code, "import time\nwhile True: time.sleep(0.1)", timeout=1)
    assert sandbox.run_code("'free again'").text == "free again"
    assert time.monotonic() - began < 20


def case_the_sandbox_has_commands_and_files_too(world):
    sandbox = world.interpreter
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


def case_the_end_of_a_sandbox_is_the_end_of_its_code(world):
    sandbox = Sandbox.create()
    begun = threading.Event()
    with ThreadPoolExecutor() as beside:
        running = beside.submit(
            sandbox.run_code, "print('begun', flush=True)\nimport time\ntime.sleep(60)", on_stdout=lambda _: begun.set())
        assert begun.wait(20)
        assert sandbox.kill() is True
        error = expect.raises(TimeoutException, running.result, 20)
    assert "killed" in str(error), error
    expect.raises(TimeoutException, sandbox.run_code, "1")
    expect.raises(SandboxException, sandbox.create_code_context)


def case_too_long_is_a_timeout_and_interrupts(world):
    sandbox = world.interpreter
    context = sandbox.create_code_context()
    sandbox.run_code("kept = 1", context=context)
    error = expect.raises(
        TimeoutException, sandbox.run_code, "import time\nwhile True: time.sleep(0.01)", context=context, timeout=1)
    assert "timed out" in str(error), error
    # The interpreter is interrupted and not ended: it remembers.
    assert sandbox.run_code("kept", context=context).text == "1"
    sandbox.remove_code_context(context)


def case_output_comes_while_the_code_still_runs(world):
    sandbox = world.interpreter
    begun = threading.Event()
    code = "print('begun', flush=True)\nimport os, time\nwhile not os.path.exists('/tmp/go-on'): time.sleep(0.02)\n'went on'"
    with ThreadPoolExecutor() as beside:
        running = beside.submit(sandbox.run_code, code, on_stdout=lambda _: begun.set())
        assert begun.wait(20)
        sandbox.files.write("/tmp/go-on", "")
        assert running.result(20).text == "went on"


def case_an_interpreter_that_dies_says_so_and_begins_anew(world):
    sandbox = world.interpreter
    sandbox.run_code("lost = 1")
    error = sandbox.run_code("import os; os._exit(3)").error
    assert error.name == "ContextDied" and "exit code 3" in error.value, error
    assert sandbox.run_code("lost").error.name == "NameError"


def case_the_ways_in_which_code_fails(world):
    run = world.interpreter.run_code
    assert run("def f(:\n  pass").error.name == "SyntaxError"
    assert run("import sys; sys.exit(4)").error.value == "4"
    assert run("input()").error.name == "EOFError"
    errors = []
    execution = run("raise ValueError('grün')", on_error=errors.append)
    assert (execution.error.name, execution.error.value) == ("ValueError", "grün")
    assert [(one.name, one.value) for one in errors] == [("ValueError", "grün")]
    assert run("40 + 2").text == "42"


def case_much_output_and_long_code_come_whole(world):
    execution = world.interpreter.run_code("for n in range(100000): print(n)")
    printed = "".join(execution.logs.stdout).split()
    assert len(printed) == 100000 and printed[-1] == "99999"
    assert world.interpreter.run_code("x = '" + "y" * 1_000_000 + "'\nlen(x)").text == "1000000"


def case_code_in_two_contexts_runs_at_the_same_time(world):
    sandbox = world.interpreter
    first, second = sandbox.create_code_context(), sandbox.create_code_context()
    meet = "import os, time\nopen('/tmp/{0}', 'w').close()\nwhile not os.path.exists('/tmp/{1}'): time.sleep(0.01)\n'met'"
    with ThreadPoolExecutor() as beside:
        one = beside.submit(sandbox.run_code, meet.format("m1", "m2"), context=first, timeout=20)
        two = beside.submit(sandbox.run_code, meet.format("m2", "m1"), context=second, timeout=20)
        assert (one.result().text, two.result().text) == ("met", "met")
    for context in (first, second):
        sandbox.remove_code_context(context)


def case_a_context_or_a_language_and_not_both(world):
    context = world.interpreter.create_code_context()
    expect.raises(InvalidArgumentException, world.interpreter.run_code, "1", context=context, language="python")
    world.interpreter.remove_code_context(context)
    expect.raises(SandboxException, world.interpreter.restart_code_context, context)
    expect.raises(SandboxException, world.interpreter.remove_code_context, context)


def case_contexts_are_kept_over_a_pause(world):
    sandbox = Sandbox.create()
    try:
        sandbox.run_code("kept = 42")
        assert sandbox.pause() is True
        assert sandbox.connect().run_code("kept").text == "42"
    finally:
        sandbox.kill()


async def case_code_of_the_other_flavour_streams_and_fails(world):
    sandbox = await AsyncSandbox.create(envs={"FROM": "the sandbox"})
    try:
        seen = []

        async def take(piece):
            seen.append(piece)

        code = "import os, sys\nprint('out')\nprint('err', file=sys.stderr)\nos.environ['FROM'] + os.environ.get('ONE', '')"
        execution = await sandbox.run_code(code, on_stdout=take, on_stderr=take, on_result=take, envs={"ONE": "1"})
        assert execution.text == "the sandbox1"
        # A line may come in pieces.
        lines = [one for one in seen if hasattr(one, "line")]
        assert ["".join(one.line for one in lines if one.error == error) for error in (False, True)] == ["out\n", "err\n"], seen
        assert [one.text for one in seen if one not in lines] == ["the sandbox1"], seen
        failed = await sandbox.run_code("1 / 0", on_error=take)
        assert failed.error.name == "ZeroDivisionError" == seen[-1].name
        await expect.raises_later(TimeoutException, sandbox.run_code("while True: pass", timeout=1))
        assert (await sandbox.run_code("6 * 7", language="js")).text == "42"
        assert "".join((await sandbox.run_code("echo $((6 * 7))", language="bash")).logs.stdout) == "42\n"
        await expect.raises_later(SandboxException, sandbox.run_code("1", language="cobol"))
    finally:
        await sandbox.kill()


async def case_contexts_of_the_other_flavour(world):
    sandbox = await AsyncSandbox.create()
    try:
        one, two = await asyncio.gather(
            sandbox.create_code_context(cwd="/tmp"), sandbox.create_code_context(language="javascript"))
        assert (one.cwd, two.language) == ("/tmp", "javascript")
        said = await asyncio.gather(
            sandbox.run_code("a = 1\na + 1", context=one), sandbox.run_code("const a = 2; a + 1", context=two))
        assert [one.text for one in said] == ["2", "3"]
        await sandbox.restart_code_context(one)
        assert (await sandbox.run_code("a", context=one)).error.name == "NameError"
        await sandbox.remove_code_context(two)
        assert {context.id for context in await sandbox.list_code_contexts()} >= {one.id}
        await expect.raises_later(SandboxException, sandbox.run_code("1", context=two))
    finally:
        await sandbox.kill()
