"""Makes an environment for the SDK, installs it there as a user would, and runs ruff, mypy and pytest.

    python3 sdk/python/run_tests.py [PYTEST ARGUMENTS]

The environment is kept in PADDOCK_SDK_ENV (default: a directory of the user's cache) and made anew when what it is
made from has changed. With PADDOCK_BIN set, the tests that need a server run as well. Exit code 77, with a line
`SKIP reason`: the environment could not be made.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import List

HERE = Path(__file__).resolve().parent
SKIPPED = 77


class Skip(Exception):
    """This machine cannot run the tests; the message says why."""


def environment_directory() -> Path:
    chosen = os.environ.get("PADDOCK_SDK_ENV")
    if chosen:
        return Path(chosen)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return cache / "paddock" / f"sdk-python-{version}"


def prepare(directory: Path) -> Path:
    """The environment's python, with the test dependencies and the package of this directory."""
    python = directory / "bin" / "python"
    made_from = hashlib.sha256((HERE / "pyproject.toml").read_bytes() + sys.version.encode()).hexdigest()
    mark = directory / "made-from"
    if not python.exists() or not mark.exists() or mark.read_text() != made_from:
        shutil.rmtree(directory, ignore_errors=True)
        venv.create(directory, with_pip=True)
        if not succeeds([str(python), "-m", "pip", "install", "--quiet", f"{HERE}[test]"]):
            raise Skip("python sdk: pip cannot install what the tests need; no network?")
        mark.write_text(made_from)
    # The package itself as it is now; not editable, so that what is installed is what is tested. No network is needed.
    again = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--force-reinstall", str(HERE)]
    if not succeeds([str(python), "-m", "pip", *again]):
        sys.exit("error: the package cannot be installed, as pip says above")
    return python


def succeeds(command: List[str]) -> bool:
    return subprocess.run(command, cwd=HERE, check=False).returncode == 0


def check(name: str, command: List[str]) -> bool:
    """Runs one check, and says how it went in the words that scripts/test.py counts."""
    print(f"--- {name}", flush=True)
    process = subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    counts = {"passed": 0, "failed": 0, "error": 0, "errors": 0}
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        if re.search(r" in [\d.]+s", line):
            for number, what in re.findall(r"(\d+) (passed|failed|errors?)\b", line):
                counts[what] = int(number)
    good = process.wait() == 0
    bad = counts["failed"] + counts["error"] + counts["errors"]
    if counts["passed"] + bad:
        print(f"test result: {'ok' if good else 'FAILED'}. {counts['passed']} passed; {bad} failed")
    else:
        print(f"CHECK sdk-python-{name} {'ok' if good else 'FAIL'}")
    return good


def main() -> int:
    try:
        python = str(prepare(environment_directory()))
    except Skip as reason:
        print(f"SKIP {reason}")
        return SKIPPED
    sources = ["src", "tests", "examples", "scripts", "run_tests.py"]
    results = [
        check("ruff", [python, "-m", "ruff", "check", *sources]),
        check("format", [python, "-m", "ruff", "format", "--check", *sources]),
        check("surface", [python, "scripts/unasync.py", "--check"]),
        check("mypy", [python, "-m", "mypy"]),
        check("pytest", [python, "-m", "pytest", "-q", "--color=no", *sys.argv[1:]]),
    ]
    if not os.environ.get("PADDOCK_BIN"):
        print("SKIP sdk-python: PADDOCK_BIN is not set, so nothing was tested against a server")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
