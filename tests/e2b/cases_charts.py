"""The data of figures, in the shapes of E2B's own package."""
import json
import math
import os

import pytest_like as expect
from cases_results import FIGURES as SETUP
from cases_results import figure, need
from charts.figures import CORRECTED, FIGURES

VECTORS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "charts", "vectors.json")


def charts_of(world, code):
    need(world, "matplotlib")
    execution = world.interpreter.run_code(f"{SETUP}{code}; plt.show()")
    assert execution.error is None, execution.error
    return [result.chart for result in execution.results if result.chart]


def assert_alike(ours, theirs, where):
    """Numbers but for what is lost between two ways to reckon them."""
    if isinstance(theirs, dict):
        assert isinstance(ours, dict) and ours.keys() == theirs.keys(), (where, ours, theirs)
        for name, value in theirs.items():
            assert_alike(ours[name], value, f"{where}.{name}")
    elif isinstance(theirs, list):
        assert isinstance(ours, list) and len(ours) == len(theirs), (where, ours, theirs)
        for at, value in enumerate(theirs):
            assert_alike(ours[at], value, f"{where}[{at}]")
    elif isinstance(theirs, (int, float)):
        assert isinstance(ours, (int, float)) and math.isclose(ours, theirs, rel_tol=1e-6, abs_tol=1e-9), (where, ours, theirs)
    else:
        assert ours == theirs, (where, ours, theirs)


def case_charts_are_those_of_the_package(world):
    with open(VECTORS) as file:
        vectors = json.load(file)
    assert vectors.keys() == FIGURES.keys(), "charts/make_vectors.py was not run"
    for name, code in FIGURES.items():
        charts = charts_of(world, code)
        assert len(charts) == (1 if vectors[name] else 0), (name, charts)
        for chart in charts:
            assert_alike(chart.to_dict(), vectors[name], name)


def case_charts_show_what_the_package_tells_wrong(world):
    for name, (code, elements) in CORRECTED.items():
        (chart,) = charts_of(world, code)
        assert_alike(chart.to_dict()["elements"], elements, name)


def case_a_chart_has_all_points_or_is_left_out(world):
    chart = figure(world, "plt.plot(range(60000), range(60000)); plt.scatter(range(39000), range(39000)); plt.show()")
    assert chart.type == "unknown" and chart.elements == []
    chart = figure(world, "plt.plot(range(99000), range(99000)); plt.show()")
    assert len(chart.elements[0].points) == 99000 and chart.elements[0].points[-1] == (98999, 98999)
    execution = world.interpreter.run_code(SETUP + "plt.plot(range(100001), range(100001)); plt.show()")
    (result,) = execution.results
    assert result.png and result.chart is None


def case_boxes_drawn_with_lines_are_lines(world):
    """As E2B has it: a box is known there by `patch_artist`."""
    chart = figure(world, "plt.boxplot([[1, 2, 3, 4, 5]], labels=['a']); plt.show()")
    assert chart.type == "line"
    chart = figure(world, "plt.boxplot([[1, 2, 3, 4, 5]], patch_artist=True); plt.show()")
    assert chart.type == "box_and_whisker"
    expect.raises(KeyError, lambda: chart.to_dict()["lines"])
