"""How the runner of these tests counts: a suite that was not run whole fails, and each skip has its name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from run_tests import PARTS, WHOLE_SUITES, counted, left_out_line, shrinks


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("38 passed in 9.10s", None),
        ("36 passed, 2 xfailed in 71.20s (0:01:11)", None),
        ("37 passed in 9.10s", "37 tests and 0 skipped, and 38 are the whole"),
        ("36 passed, 2 skipped in 9.10s", "36 tests and 2 skipped"),
        ("no tests ran in 0.1s", "0 tests"),
    ],
)
def test_a_suite_that_shrinks_is_told(said: str, wrong: str | None) -> None:
    told = shrinks("test_pydantic_ai_suite", counted(f"....\n{said}\n"))
    assert (wrong or "") in (told or "")
    assert (told is None) is (wrong is None)


def test_the_suite_of_another_version_is_counted_too() -> None:
    assert shrinks("test_deepagents_suite of its own version", counted("85 passed in 1.0s"))
    assert shrinks("test_deepagents", counted("1 passed in 1.0s")) is None
    assert all((Path(__file__).parent / name).exists() for name in WHOLE_SUITES)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "SKIPPED [2] tests/test_a.py:15: nemo-gym: it needs Python 3.12",
            "SKIP integrations-nemo-gym: it needs Python 3.12",
        ),
        (
            "SKIPPED [1] tests/test_a.py:15: could not import 'x'",
            "SKIP integrations-tests: test_a.py:15: could not import 'x'",
        ),
        ("XFAIL tests/test_a.py::test_b - since 0.7", "SKIP integrations: test_a.py::test_b - since 0.7"),
        ("2 passed in 1.0s", None),
    ],
)
def test_a_skip_has_the_name_of_its_part(line: str, told: str | None) -> None:
    assert left_out_line(line) == told


def test_ci_requires_the_parts() -> None:
    required = (Path(__file__).resolve().parents[3] / ".ci" / "run").read_text().split()
    assert [part for part in ("tests", *PARTS) if f"integrations-{part}" not in required] == []
