"""Results and languages of E2B's code interpreter with its Python SDK."""
import base64
import os

import pytest_like as expect
from e2b import SandboxException, TimeoutException
from e2b_code_interpreter import Sandbox
from e2b_code_interpreter.charts import ChartType, ScaleType

FIGURES = "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\n"
# A picture of one pixel in each format.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def shown(world, method, value):
    """The result of an object with one representation."""
    code = f"class Shown:\n  def {method}(self): return {value}\n  def __repr__(self): return 'shown'\nShown()"
    execution = world.interpreter.run_code(code)
    assert execution.error is None, execution.error
    return execution.results[0]


def case_text_representations(world):
    assert shown(world, "_repr_markdown_", "'# title'").markdown == "# title"
    assert shown(world, "_repr_latex_", "'$x^2$'").latex == "$x^2$"
    assert shown(world, "_repr_javascript_", "'alert(1)'").javascript == "alert(1)"
    svg = shown(world, "_repr_svg_", "'<svg xmlns=\"http://www.w3.org/2000/svg\"/>'")
    assert svg.svg.startswith("<svg") and svg.text == "shown" and set(svg.formats()) == {"text", "svg"}


def case_binary_representations_are_base64(world):
    raw = f"__import__('base64').b64decode('{PNG}')"
    assert base64.b64decode(shown(world, "_repr_png_", raw).png) == base64.b64decode(PNG)
    assert base64.b64decode(shown(world, "_repr_jpeg_", "b'\\xff\\xd8\\xff'").jpeg) == b"\xff\xd8\xff"
    assert base64.b64decode(shown(world, "_repr_pdf_", "b'%PDF-1.4'").pdf) == b"%PDF-1.4"


def case_a_bundle_has_several_at_once_and_others_beside(world):
    bundle = "{'text/plain': 'plain', 'text/html': '<i>h</i>', 'application/json': {'a': 1}, 'application/x-own': 'own'}"
    code = f"class Bundle:\n  def _repr_mimebundle_(self, include=None, exclude=None): return {bundle}\nBundle()"
    result = world.interpreter.run_code(code).results[0]
    assert (result.text, result.html, result.json) == ("plain", "<i>h</i>", {"a": 1})
    assert result.extra == {"application/x-own": "own"}, result.extra


def case_results_come_in_their_order(world):
    seen = []
    code = (
        "from IPython.display import display\n" if has_ipython(world) else "") + "display('first')\ndisplay('second')\n'last'"
    execution = world.interpreter.run_code(code, on_result=lambda one: seen.append(one.text))
    assert seen == ["first", "second", "last"], seen
    assert [one.is_main_result for one in execution.results] == [False, False, True]
    assert execution.text == "last"


def has_ipython(world):
    return world.interpreter.run_code("import importlib.util; importlib.util.find_spec('IPython') is not None").text == "True"


def case_nothing_is_no_result(world):
    execution = world.interpreter.run_code("x = 1")
    assert execution.results == [] and execution.text is None
    assert world.interpreter.run_code("None").results == []
    empty = world.interpreter.run_code("")
    assert empty.results == [] and empty.error is None


def case_an_execution_is_json(world):
    import json

    execution = world.interpreter.run_code("print('said'); 5")
    told = json.loads(execution.to_json())
    assert told["error"] is None and "".join(json.loads(told["logs"])["stdout"]) == "said\n", told


def case_a_table_has_its_columns(world):
    need(world, "pandas")
    execution = world.interpreter.run_code(
        "import pandas\npandas.DataFrame({'name': ['a', 'b'], 'value': [1, 2.5]})")
    assert execution.error is None, execution.error
    result = execution.results[0]
    assert result.data == {"name": ["a", "b"], "value": [1.0, 2.5]}, result.data
    assert "<table" in result.html and "name" in result.text


def need(world, module):
    if world.interpreter.run_code(f"import importlib.util; importlib.util.find_spec('{module}') is not None").text != "True":
        raise expect.Skip(f"figures: the Python of sandboxes has no {module}")


def figure(world, code):
    need(world, "matplotlib")
    execution = world.interpreter.run_code(FIGURES + code)
    assert execution.error is None, execution.error
    (result,) = [one for one in execution.results if one.chart]
    assert base64.b64decode(result.png).startswith(b"\x89PNG")
    return result.chart


def case_a_chart_of_lines(world):
    chart = figure(world, "plt.plot([1, 2, 3], [4, 5, 6], label='up'); plt.title('T'); plt.xlabel('X'); plt.ylabel('Y'); plt.show()")
    assert (chart.type, chart.title, chart.x_label, chart.y_label) == (ChartType.LINE, "T", "X", "Y")
    (line,) = chart.elements
    assert line.label == "up" and [tuple(map(float, point)) for point in line.points] == [(1, 4), (2, 5), (3, 6)]


def case_a_chart_has_units_scales_and_ticks(world):
    code = "plt.plot([1, 10, 100], [0, 5, 10]); plt.xscale('log'); plt.xlabel('Time (s)'); plt.ylabel('Speed [m/s]'); plt.yticks([0, 5], ['low', 'high'])"
    chart = figure(world, code + "; plt.show()")
    assert (chart.x_unit, chart.y_unit) == ("s", "m/s")
    assert (chart.x_scale, chart.y_scale) == (ScaleType.LOG, ScaleType.LINEAR)
    assert (chart.y_ticks, chart.y_tick_labels) == ([0, 5], ["low", "high"])
    assert {1, 10, 100} <= set(chart.x_ticks) and len(chart.x_ticks) == len(chart.x_tick_labels)
    assert chart.elements[0].label == "Line 0"


def case_a_chart_over_dates_and_names(world):
    chart = figure(world, "import datetime; plt.plot([datetime.date(2026, 1, 1), datetime.date(2026, 1, 3)], [1, 2]); plt.show()")
    assert chart.x_scale == ScaleType.DATETIME and chart.x_ticks[0].startswith("2026-01-01T"), chart.x_ticks
    assert chart.elements[0].points[0][0] == "2026-01-01"
    chart = figure(world, "plt.scatter(['a', 'b'], [1, 2]); plt.show()")
    assert (chart.x_scale, chart.x_ticks, chart.x_tick_labels) == (ScaleType.CATEGORICAL, [0, 1], ["a", "b"])


def case_a_chart_of_points(world):
    chart = figure(world, "plt.scatter([1, 2], [3, 4], label='dots'); plt.show()")
    assert chart.type == ChartType.SCATTER
    assert [tuple(map(float, point)) for point in chart.elements[0].points] == [(1, 3), (2, 4)]


def case_a_chart_of_bars(world):
    chart = figure(world, "plt.bar(['a', 'b'], [3, 7]); plt.show()")
    assert chart.type == ChartType.BAR
    assert [(one.label, float(one.value)) for one in chart.elements] == [("a", 3), ("b", 7)]


def case_a_chart_of_slices(world):
    chart = figure(world, "plt.pie([1, 3], labels=['a', 'b']); plt.title('P'); plt.show()")
    assert (chart.type, chart.title) == (ChartType.PIE, "P")
    assert [(one.label, round(one.angle)) for one in chart.elements] == [("a", 90), ("b", 270)]


def case_a_chart_of_boxes(world):
    chart = figure(world, "plt.boxplot([[1, 2, 3, 4, 5]], patch_artist=True); plt.show()")
    assert chart.type == ChartType.BOX_AND_WHISKER
    (box,) = chart.elements
    assert (box.min, box.first_quartile, box.median, box.third_quartile, box.max) == (1, 2, 3, 4, 5)


def case_several_charts_in_one_figure(world):
    chart = figure(world, "_, (a, b) = plt.subplots(1, 2); a.plot([1, 2]); b.bar(['x'], [1]); plt.show()")
    assert chart.type == ChartType.SUPERCHART
    assert [one.type for one in chart.elements] == [ChartType.LINE, ChartType.BAR]


def case_javascript_has_results_errors_and_state(world):
    sandbox = world.interpreter
    assert sandbox.run_code("const state = {a: [1, 2]}; state.a.length", language="javascript").text == "2"
    assert sandbox.run_code("state.a[1] + 40", language="js").text == "42"
    execution = sandbox.run_code("console.log('out'); console.error('err'); await Promise.resolve(7)", language="javascript")
    assert ("".join(execution.logs.stdout), "".join(execution.logs.stderr), execution.text) == ("out\n", "err\n", "7")
    error = sandbox.run_code("throw new TypeError('wrong')", language="javascript").error
    assert (error.name, error.value) == ("TypeError", "wrong") and "TypeError" in error.traceback


def case_typescript_has_types(world):
    sandbox = world.interpreter
    code = "interface P { x: number }\nconst p: P = { x: 41 }\nfunction next<T extends P>(of: T): number { return of.x + 1 }\nnext(p)"
    assert sandbox.run_code(code, language="typescript").text == "42"
    assert sandbox.run_code("p.x", language="ts").text == "41"
    assert sandbox.run_code("const x: = 1", language="ts").error.name == "SyntaxError"


def case_bash_remembers_and_fails(world):
    sandbox = world.interpreter
    sandbox.run_code("cd /tmp; mark=7", language="bash")
    assert "".join(sandbox.run_code("echo $PWD $mark", language="bash").logs.stdout) == "/tmp 7\n"
    execution = sandbox.run_code("echo before; ls /no/such/place", language="bash")
    assert "".join(execution.logs.stdout) == "before\n" and "/no/such/place" in "".join(execution.logs.stderr)


def installed(world, program):
    return world.interpreter.commands.run(f"command -v {program} || true").stdout.strip() != ""


def case_a_language_that_is_not_installed_is_said_to_be(world):
    missing = [name for name, program in (("r", "Rscript"), ("java", "jshell")) if not installed(world, program)]
    for language in (*missing, "cobol"):
        error = expect.raises(SandboxException, world.interpreter.run_code, "1", language=language)
        assert language in str(error) and "template has" in str(error), error
    error = expect.raises(SandboxException, world.interpreter.create_code_context, language="cobol")
    assert "cobol" in str(error), error


def case_java_remembers_shows_fails_and_is_interrupted(world):
    if not installed(world, "jshell"):
        raise expect.Skip("e2b-java: the host has no JDK")
    with Sandbox.create(timeout=300) as sandbox:
        execution = sandbox.run_code("record Point(int x) {}\nint base = 40;\nSystem.out.println(\"said\");\nnew Point(base + 2)", language="java")
        assert execution.error is None and (execution.text, execution.logs.stdout) == ("Point[x=42]", ["said\n"]), execution
        assert sandbox.run_code("base + 1", language="java").text == "41"
        assert sandbox.run_code("System.getProperty(\"WORD\")", language="java", envs={"WORD": "given"}).text == "given"
        error = sandbox.run_code("throw new IllegalStateException(\"no\");", language="java").error
        assert error.name == "java.lang.IllegalStateException" and error.value == "no"
        assert sandbox.run_code("int wrong = \"text\";", language="java").error.name == "CompilationError"
        expect.raises(TimeoutException, sandbox.run_code, "while (true) {}", language="java", timeout=2)
        assert expect.until(lambda: sandbox.run_code("base", language="java").text, lambda text: text == "40") == "40"


def case_r_remembers_shows_and_fails(world):
    if not installed(world, "Rscript"):
        raise expect.Skip("e2b-r: the host has no R")
    sandbox = world.interpreter
    assert "".join(sandbox.run_code("values <- c(1, 2, 3); cat('said\\n'); sum(values)", language="r").logs.stdout) == "said\n"
    assert sandbox.run_code("sum(values)", language="R").text == "[1] 6"
    assert sandbox.run_code("stop('no')", language="r").error.value == "no"


def case_a_language_of_the_template_has_its_runner(world):
    """A template that brings a runner: one for a language that is not known here, and one that goes before the one that is."""
    runners = os.path.join(world.server.directory, "runners")
    os.makedirs(runners, exist_ok=True)
    for name in ("counting", "r"):
        path = os.path.join(runners, name)
        with open(path, "w") as file:
            file.write(RUNNER)
        os.chmod(path, 0o755)
    world.server.run("template", "add", "with-runners", "--read", f"{runners}:/etc/paddock/runners")
    with Sandbox.create("with-runners") as sandbox:
        for language in ("counting", "r"):
            assert sandbox.run_code("four", language=language).text == "4", language
            assert sandbox.run_code("seven..", language=language).text == "7", language


# Says how many letters its code has.
RUNNER = """#!/usr/bin/python3
import os
control = int(os.environ["PADDOCK_CONTROL"])

def line():
    read = b""
    while not read.endswith(b"\\n"):
        byte = os.read(control, 1)
        if not byte:
            os._exit(0)
        read += byte
    return read.split()

def send(kind, **fields):
    os.write(control, b"%s %d\\n" % (kind, len(fields)) + b"".join(b"%s %d\\n%s\\n" % (n.encode(), len(v), v) for n, v in fields.items()))

send(b"ready", version=b"1")
while True:
    kind, count = line()
    fields = {}
    for _ in range(int(count)):
        name, length = line()
        value = b""
        while len(value) <= int(length):
            value += os.read(control, int(length) + 1 - len(value))
        fields[name] = value[:-1]
    send(b"result", **{"main": b"1", "text/plain": str(len(fields[b"code"])).encode()})
    send(b"done", call=fields[b"call"])
"""


def case_contexts_of_other_languages_and_directories(world):
    sandbox = world.interpreter
    context = sandbox.create_code_context(language="javascript", cwd="/tmp")
    assert (context.language, context.cwd) == ("javascript", "/tmp")
    assert sandbox.run_code("process.cwd()", context=context).text == "/tmp"
    sandbox.remove_code_context(context.id)


def case_the_variables_of_the_sandbox_are_there_too(world):
    with Sandbox.create(envs={"FROM": "the sandbox"}) as sandbox:
        assert sandbox.run_code("import os; os.environ['FROM']").text == "the sandbox"
        assert sandbox.run_code("os.environ['FROM']", envs={"FROM": "the call"}).text == "the call"
        assert sandbox.run_code("os.environ['FROM']").text == "the sandbox"
        assert sandbox.run_code("process.env.FROM", language="js").text == "the sandbox"
