#!/usr/bin/env python3
"""Writes `vectors.json` anew: what E2B's package says of each figure of figures.py.

    python3 -m venv DIRECTORY
    DIRECTORY/bin/pip install e2b_charts==1.0.0 matplotlib==3.11.2
    DIRECTORY/bin/python tests/e2b/charts/make_vectors.py

tests/e2b/cases_charts.py draws the same figures inside sandboxes and compares what the SDK gets. The package itself cannot run there: it wants a
newer matplotlib than Debian 12 has. A figure of CORRECTED for which the package has become right is an error here."""
import json
import os
import warnings

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt  # noqa: E402
from e2b_charts import chart_figure_to_dict  # noqa: E402
from figures import CORRECTED, FIGURES  # noqa: E402


def chart_of(code):
    exec(code, {"plt": plt})
    try:
        # As the picture is drawn before the package is asked.
        plt.gcf().canvas.draw()
        # The integers of numpy are no JSON by themselves.
        return json.loads(json.dumps(chart_figure_to_dict(plt.gcf()), default=int))
    finally:
        plt.close("all")


def is_told_right(code, elements):
    try:
        return chart_of(code).get("elements") == elements
    except KeyError:
        return False


def main():
    warnings.simplefilter("ignore")
    right = [name for name, (code, elements) in CORRECTED.items() if is_told_right(code, elements)]
    if right:
        raise SystemExit(f"the package is right about {', '.join(right)}: these belong into FIGURES")
    lines = [f"{json.dumps(name)}: {json.dumps(chart_of(code))}" for name, code in FIGURES.items()]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "vectors.json"), "w") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
