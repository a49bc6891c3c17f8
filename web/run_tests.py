#!/usr/bin/env python3
"""Tests the dashboard: that what is built is of these sources, their types, and flows in a real browser against real servers.

    PADDOCK_BIN=PADDOCK python3 web/run_tests.py [FILE...]

The packages come from PADDOCK_TEST_DASHBOARD (scripts/packages.py fetches them), else from `npm ci` in this directory. PADDOCK_TEST_IMAGES
names a directory for pictures of the pages, else it is target/dashboard-images. PADDOCK_WRITE_IMAGES=1 copies those that docs/images has
from there, when all flows have passed. PADDOCK_TEST_DIST names a directory whose files (web/dist) are shown in the place of those in
the executable, so that a change is tried without compiling. Exit code 77, with a line `SKIP reason`: this host cannot run them.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = os.path.join(HERE, "node_modules")
SKIPPED = 77
# The files that the build reads besides `src`; the same list as in scripts/build.mjs.
OTHERS = ["package.json", "package-lock.json", "index.html", "frame.html", "tsconfig.json", "scripts/build.mjs"]


def sources():
    """The digest of what the dashboard is built from, as scripts/build.mjs writes it."""
    paths = list(OTHERS)
    for place, _, names in os.walk(os.path.join(HERE, "src")):
        paths.extend(os.path.relpath(os.path.join(place, name), HERE) for name in names)
    digest = hashlib.sha256()
    for path in sorted(paths):
        with open(os.path.join(HERE, path), "rb") as file:
            content = file.read()
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def built():
    try:
        with open(os.path.join(HERE, "dist", "sources.sha256")) as file:
            return file.read().strip()
    except OSError:
        return None


def packages():
    """Links the packages to the place where Node looks for them; says why they are not there."""
    given = os.environ.get("PADDOCK_TEST_DASHBOARD")
    if given and (os.path.islink(MODULES) or not os.path.exists(MODULES)):
        if os.path.islink(MODULES):
            os.unlink(MODULES)
        os.symlink(given, MODULES)
    if not shutil.which("node"):
        return "dashboard: there is no node"
    if not os.path.exists(os.path.join(MODULES, "playwright-core", "package.json")):
        return "dashboard: its packages are not there (npm ci --ignore-scripts)"
    return None


def check(name, good, seconds=0.0):
    print(f"CHECK dashboard-{name} {'ok' if good else 'FAIL'} ({seconds:.1f} s)", flush=True)
    return good


def run(name, *command):
    began = time.monotonic()
    done = subprocess.run(command, cwd=HERE, check=False)
    return check(name, done.returncode == 0, time.monotonic() - began)


def run_flows(paddock, chosen):
    """One file after the other: each has a server and a browser of its own. Only what failed is printed."""
    names = sorted(name for name in os.listdir(os.path.join(HERE, "tests")) if name.endswith(".test.mjs"))
    files = [f"tests/{name}" for name in names if not chosen or any(word in name for word in chosen)]
    command = ["node", "--test", "--test-reporter=tap", "--test-concurrency=1", *files]
    environment = {**os.environ, "PADDOCK_BIN": paddock}
    process = subprocess.Popen(command, cwd=HERE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    counts, quiet = {}, True
    for line in process.stdout:
        if counted := re.match(r"# (pass|fail|cancelled) (\d+)", line):
            counts[counted[1]] = int(counted[2])
        if skipped := re.match(r"\s*ok \d+ - (.*) # SKIP (.*)", line):
            print(f"SKIP dashboard: {skipped[1]}: {skipped[2]}", flush=True)
        stripped = line.strip()
        if "NUMBER dashboard" in line:
            print(stripped.lstrip("# "), flush=True)
        if stripped.startswith("not ok "):
            quiet = False
        elif stripped.startswith(("ok ", "# Subtest")):
            quiet = True
        if not quiet:
            print(line, end="", flush=True)
    good = process.wait() == 0
    bad = counts.get("fail", 0) + counts.get("cancelled", 0)
    print(f"test result: {'ok' if good else 'FAILED'}. {counts.get('pass', 0)} passed; {bad} failed")
    return good


def write_images():
    """The documents show pictures of this very run."""
    documents = os.path.join(os.path.dirname(HERE), "docs", "images")
    taken = os.environ.get("PADDOCK_TEST_IMAGES") or os.path.join(os.path.dirname(HERE), "target", "dashboard-images")
    for name in sorted(os.listdir(documents)):
        if name.startswith("dashboard-"):
            shutil.copyfile(os.path.join(taken, name), os.path.join(documents, name))
            print(f"written: docs/images/{name}", flush=True)


def main():
    fresh = check("is-built-from-these-sources", sources() == built())
    if not fresh:
        print("error: web/dist was built from other sources: run `make web`, and commit web/dist with the sources")
        return 1
    reason = packages()
    if reason:
        print(f"SKIP {reason}")
        return SKIPPED
    if not run("types", "node", os.path.join(MODULES, "typescript", "bin", "tsc"), "-p", "."):
        return 1
    paddock, chromium = os.environ.get("PADDOCK_BIN"), os.environ.get("PADDOCK_TEST_CHROMIUM") or shutil.which("chromium")
    if not paddock or not chromium:
        print(f"SKIP dashboard: {'there is no chromium' if paddock else 'PADDOCK_BIN is not set'}, so no flow was tried in a browser")
        return SKIPPED
    os.environ["PADDOCK_TEST_CHROMIUM"] = chromium
    good = run_flows(os.path.abspath(paddock), sys.argv[1:])
    if good and os.environ.get("PADDOCK_WRITE_IMAGES"):
        write_images()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
