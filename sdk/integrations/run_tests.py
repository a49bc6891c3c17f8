"""Runs ruff and the tests of the providers with the real frameworks, against a real server.

    python3 sdk/integrations/run_tests.py [WORD...]

Only files whose name holds one of the words run, where there are words. PADDOCK_BIN names the executable that serves
the tests, and PADDOCK_TEST_INTEGRATIONS the directory of the frameworks' environments (scripts/packages.py makes them).
Exit code 77, with a line `SKIP reason`: there are none.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
SKIPPED = 77
NOTHING_COLLECTED = 5
#: Most tests wait for their sandbox for most of their time.
AT_THE_SAME_TIME = 4
#: Files whose framework has an environment of its own, which is not there for every run. They run when they are named.
OWN_ENVIRONMENTS = {"test_harbor.py": "harbor"}
#: Run once more, with an older deepagents before the newer one.
SUITE = "test_deepagents_suite.py"
#: The frameworks' own tests: so many pass, or fail as it is expected. Fewer would be a suite that was not run whole.
WHOLE_SUITES = {"test_deepagents_suite.py": 86, "test_pydantic_ai_suite.py": 38, "test_inspect_suite.py": 44}
#: What a host may lack. The reason of a skipped test begins with one, and scripts/test.py tells of each apart.
PARTS = ("nemo-gym", "codex", "rewards", "dockerfiles", "languages", "cpp", "java", "go")
#: Directories of packages that the tests have beside those of the environment.
BESIDE = ("suite", "rewards", "loops")
#: The clients of a dialect of the server, which need no provider; and an agent that brings its loop to SWE-ReX.
USE = {"test_sandbox_fusion.py": "rewards", "test_skyrl.py": "rewards", "test_swe_rex.py": "loops"}


def install(python: Path, target: str) -> None:
    """Both packages as they are now, with their entry points; not editable, so that what is installed is tested."""
    command = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", target]
    subprocess.run([*command, HERE.parent / "python", HERE], check=True)


def run(name: str, command: list[object], environment: dict[str, str]) -> bool:
    """Runs one check, and says how it went in the words that scripts/test.py counts."""
    ran = subprocess.run(
        [str(word) for word in command],
        cwd=HERE,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    # The closing table of `make test` lists these with their reasons.
    left_out = [f"{told}\n" for told in map(left_out_line, ran.stdout.splitlines()) if told]
    counts = counted(ran.stdout)
    # A whole file may be skipped, in which case pytest has collected nothing.
    good = ran.returncode == 0 or (ran.returncode == NOTHING_COLLECTED and counts["skipped"] > 0)
    bad = counts["failed"] + counts["error"] + counts["errors"]
    if good and (shrunk := shrinks(name, counts)):
        good, bad = False, 1
        left_out.append(f"error: {shrunk}\n")
    told = f"CHECK integrations-{name} {'ok' if good else 'FAIL'}"
    if counts["passed"] + bad:
        told = f"test result: {'ok' if good else 'FAILED'}. {counts['passed']} passed; {bad} failed"
    print(f"--- {name}\n{ran.stdout}{''.join(left_out)}{told}", flush=True)
    return good


def counted(output: str) -> dict[str, int]:
    """What pytest says in its last line."""
    counts = dict.fromkeys(("passed", "failed", "error", "errors", "skipped", "xfailed"), 0)
    for line in output.splitlines():
        if re.search(r" in [\d.]+s", line):
            found = re.findall(r"(\d+) (passed|failed|errors?|skipped|xfailed)\b", line)
            counts.update({what: int(number) for number, what in found})
    return counts


def left_out_line(line: str) -> str | None:
    """The line of SKIP for a test that pytest lists as left out, below the name of the part that the host lacks."""
    found = re.match(r"(XFAIL|SKIPPED) (?:\[\d+\] )?(?:tests/)?(.*)", line)
    if not found or found[1] == "XFAIL":
        return found and f"SKIP integrations: {found[2]}"
    part = re.search(rf": ({'|'.join(PARTS)}): (.*)", found[2])
    return f"SKIP integrations-{part[1]}: {part[2]}" if part else f"SKIP integrations-tests: {found[2]}"


def shrinks(name: str, counts: dict[str, int]) -> str | None:
    """What is wrong with the count of a framework's own suite."""
    wanted = WHOLE_SUITES.get(f"{name.split()[0]}.py")
    told = counts["passed"] + counts["xfailed"]
    if wanted is None or told == wanted:
        return None
    return f"{name} has {told} tests and {counts['skipped']} skipped, and {wanted} are the whole suite"


def main() -> int:
    place = Path(os.environ.get("PADDOCK_TEST_INTEGRATIONS", "/nonexistent"))
    python = place / "agents" / "bin" / "python"
    if not os.environ.get("PADDOCK_BIN"):
        print("SKIP integrations: PADDOCK_BIN is not set")
        return SKIPPED
    words = sys.argv[1:]
    wanted = {"agents"} | {own for name, own in OWN_ENVIRONMENTS.items() if any(word in name for word in words)}
    if missing := sorted(name for name in wanted if not (place / name / "complete").exists()):
        print(f"SKIP integrations: no {' and no '.join(missing)} in {place}; PADDOCK_TEST_INTEGRATIONS names the place")
        return SKIPPED
    # They are put before the packages of the environment: without them other versions would be tested in their place.
    if missing := [name for name in BESIDE if not (place / name / "complete").exists()]:
        print(
            f"error: no {' and no '.join(missing)} in {place}: `python3 scripts/packages.py integrations` fetches them"
        )
        return 1
    with tempfile.TemporaryDirectory(prefix="paddock-integrations-") as target:
        install(python, target)
        environment = {**os.environ, "PYTHONPATH": target}
        results = [
            run("ruff", [python, "-m", "ruff", "check", "."], environment),
            run("format", [python, "-m", "ruff", "format", "--check", "."], environment),
        ]
        with ThreadPoolExecutor(AT_THE_SAME_TIME) as together:
            results += together.map(lambda task: run(*task), tasks(place, words, environment))
    return 0 if all(results) else 1


def tasks(place: Path, words: list[str], environment: dict[str, str]) -> list[tuple[str, list[object], dict[str, str]]]:
    found: list[tuple[str, list[object], dict[str, str]]] = []
    for path in sorted((HERE / "tests").glob("test_*.py"), key=lambda path: path.stat().st_size, reverse=True):
        own = OWN_ENVIRONMENTS.get(path.name)
        if not any(word in path.name for word in words) if words else own:
            continue
        command: list[object] = [
            place / (own or "agents") / "bin" / "python",
            "-m",
            "pytest",
            "-q",
            "--color=no",
            f"tests/{path.name}",
        ]
        own_packages = {}
        if beside := USE.get(path.name):
            own_packages["PYTHONPATH"] = f"{environment['PYTHONPATH']}:{place / beside}"
        found.append((path.stem, command, {**environment, **own_packages}))
        if path.name == SUITE:
            before = {**environment, "PYTHONPATH": f"{place / 'suite'}:{environment['PYTHONPATH']}"}
            found.insert(0, (f"{path.stem} of its own version", command, before))
    return found


if __name__ == "__main__":
    sys.exit(main())
