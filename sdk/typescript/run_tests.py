#!/usr/bin/env python3
"""Checks the types, builds the package and runs its tests against a real server.

    PADDOCK_BIN=PADDOCK python3 sdk/typescript/run_tests.py [FILE...]

The packages come from PADDOCK_TEST_TYPESCRIPT_SDK (scripts/packages.py fetches them), else from `npm ci` in this directory. What else a
test needs (Bun, Deno, newer Nodes, workerd, Claude Code, busybox, Chromium with the packages of PADDOCK_TEST_DASHBOARD) it skips without, and says so. The server
has a state directory of its own and is ended, with all its sandboxes. Exit code 77, with a line `SKIP reason`: this host cannot run them.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = os.path.join(HERE, "node_modules")
SKIPPED = 77
START_SECONDS = 60


def packages():
    """Links the packages to the place where Node looks for them; says why they are not there."""
    given = os.environ.get("PADDOCK_TEST_TYPESCRIPT_SDK")
    if given and (os.path.islink(MODULES) or not os.path.exists(MODULES)):
        if os.path.islink(MODULES):
            os.unlink(MODULES)
        os.symlink(given, MODULES)
    if not shutil.which("node"):
        return "sdk-typescript: there is no node"
    if not os.path.exists(os.path.join(MODULES, "typescript", "package.json")):
        return "sdk-typescript: its packages are not there (npm ci --ignore-scripts)"
    return None


def check(name, command, **options):
    """Runs one check, and says how it went in the words that scripts/test.py counts."""
    print(f"--- {name}", flush=True)
    began = time.monotonic()
    good = subprocess.run(command, cwd=HERE, check=False, **options).returncode == 0
    print(f"CHECK sdk-typescript-{name} {'ok' if good else 'FAIL'} ({time.monotonic() - began:.1f} s)", flush=True)
    return good


class Server:
    def __init__(self, paddock):
        self.paddock, self.directory = paddock, tempfile.mkdtemp(prefix="paddock-ts-")
        self.url = f"unix:{self.directory}/api.sock"
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.port = found.getsockname()[1]
        self.environment = {name: value for name, value in os.environ.items() if name not in ("PADDOCK_URL", "PADDOCK_TOKEN")}
        self.environment["PADDOCK_STATE_DIR"] = os.path.join(self.directory, "state")
        self.process = None

    def start(self):
        command = [self.paddock, "serve", "--socket", f"{self.directory}/api.sock", "--listen", f"127.0.0.1:{self.port}"]
        with open(os.path.join(self.directory, "serve.log"), "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment)
        deadline = time.monotonic() + START_SECONDS
        while self.ask("ps", "--quiet") is None:
            if self.process.poll() is not None or time.monotonic() > deadline:
                with open(os.path.join(self.directory, "serve.log"), errors="replace") as log:
                    sys.exit(f"error: the server is not ready: {log.read()[-4000:]}")
            time.sleep(0.05)

    def ask(self, *arguments):
        environment = {**self.environment, "PADDOCK_URL": self.url}
        done = subprocess.run([self.paddock, *arguments], env=environment, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    def stop(self):
        """All that it has, and then itself."""
        for sandbox in (self.ask("ps", "--quiet") or "").split():
            self.ask("kill", sandbox)
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with open("/proc/self/mountinfo") as file:
            mounts = [line.split()[4] for line in file if line.split()[4].startswith(self.directory + "/")]
        for mount in sorted(mounts, key=len, reverse=True):
            subprocess.run(["umount", mount], check=False)
        shutil.rmtree(self.directory, ignore_errors=True)


def run_tests(paddock, chosen):
    """The tests of all files, or of the chosen ones, with one server for all of them."""
    names = sorted(name[:-3] for name in os.listdir(os.path.join(HERE, "tests")) if name.endswith(".test.ts"))
    files = [f"dist/tests/{name}.js" for name in names if not chosen or any(word in name for word in chosen)]
    server = Server(paddock)
    try:
        server.start()
        environment = {
            **server.environment, "PADDOCK_URL": server.url, "PADDOCK_BIN": paddock,
            "PADDOCK_TEST_CHROMIUM": os.environ.get("PADDOCK_TEST_CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium",
            "PADDOCK_TEST_TCP_URL": f"http://127.0.0.1:{server.port}",
            "PADDOCK_TEST_TOKEN": server.ask("token", "create", "--role", "admin") or "",
        }
        # A server that a test starts by itself has a state directory of that test.
        del environment["PADDOCK_STATE_DIR"]
        command = ["node", "--test", "--test-reporter=tap", "--test-concurrency=3", *files]
        process = subprocess.Popen(command, cwd=HERE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return report(process)
    finally:
        server.stop()


def report(process):
    """Prints only what failed and was skipped: the rest of TAP is long."""
    counts, quiet = {}, True
    for line in process.stdout:
        if counted := re.match(r"# (tests|pass|fail|skipped|cancelled) (\d+)", line):
            counts[counted[1]] = int(counted[2])
        if skipped := re.match(r"\s*ok \d+ - (.*) # SKIP (.*)", line):
            # The reason begins with the part that is missing, by which scripts/test.py can require it.
            print(f"SKIP sdk-typescript-{skipped[2]} ({skipped[1]})", flush=True)
        stripped = line.strip()
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


def main():
    reason = packages()
    if reason:
        print(f"SKIP {reason}")
        return SKIPPED
    tsc = ["node", os.path.join(MODULES, "typescript", "bin", "tsc")]
    if not all([
        check("generated", ["node", "scripts/types.mjs", "--check"]),
        check("build", ["node", "scripts/build.mjs"]),
        check("types", [*tsc, "-p", "tsconfig.tests.json"]),
    ]):
        return 1
    paddock = os.environ.get("PADDOCK_BIN")
    if not paddock:
        print("SKIP sdk-typescript: PADDOCK_BIN is not set, so nothing was tested against a server")
        return 0
    return 0 if run_tests(os.path.abspath(paddock), sys.argv[1:]) else 1


if __name__ == "__main__":
    sys.exit(main())
