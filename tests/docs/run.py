"""Runs every shell and Python block of the README and of the guides, in order, and compares what is printed with what the document shows.

    python3 tests/docs/run.py PADDOCK [DOCUMENT...]

Each document gets a home, a state directory and a shell of its own, in network, mount and pid namespaces of the tests' own, so that it begins as a
new user does. `blocks.py` says how a document prepares files and what it may leave out. Exit code 77, with a line `SKIP reason`: this host
cannot run them.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import blocks
import blocks_test
import compare
from shell import Shell
from world import World

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SKIPPED = 77
ENTERED = "PADDOCK_DOCS_ENTERED"


def enter_namespaces():
    """Starts this program again, where no network is but its own and where its processes end with it."""
    namespaces = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    os.execvpe("unshare", [*namespaces, sys.executable, *sys.argv], {**os.environ, ENTERED: "yes"})


def python_with_sdk():
    sys.path.insert(0, os.path.join(ROOT, "sdk", "python"))
    import run_tests

    return str(run_tests.prepare(run_tests.environment_directory()))


class Document:
    def __init__(self, path, paddock, python, world):
        self.path, self.shown = path, os.path.relpath(path, ROOT)
        self.home = tempfile.mkdtemp(prefix="paddock-docs-")
        self.python, self.names = python, compare.Names()
        self.passed, self.failed, self.skips = 0, 0, []
        binaries = os.path.join(self.home, "bin")
        os.makedirs(binaries)
        os.symlink(paddock, os.path.join(binaries, "paddock"))
        os.symlink(os.path.join(os.path.dirname(python), "pip"), os.path.join(binaries, "pip"))
        self.state = os.path.join(self.home, "state")
        os.makedirs(self.state, mode=0o700)
        world.register(self.state)
        work = os.path.join(self.home, "work")
        shutil.copytree(os.path.join(HERE, "files"), work)
        environment = {
            "HOME": self.home, "PATH": f"{binaries}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
            "PADDOCK_STATE_DIR": self.state, "PADDOCK_DOCS_ROOT": ROOT, "PADDOCK_DOCS_PYTHON": sys.executable,
        }
        for name in ("PADDOCK_KERNEL", "PADDOCK_TEST_KERNEL"):
            if value := os.environ.get(name):
                environment["PADDOCK_KERNEL"] = value
        self.environment, self.shell = environment, Shell(work, environment)
        self.frameworks, self.e2b = frameworks(), e2b()

    def run(self):
        try:
            for block in blocks.read(self.path):
                self.run_block(block)
        finally:
            self.shell.run("paddock ps --quiet 2>/dev/null | xargs -r paddock kill; paddock server stop || kill $(cat $PADDOCK_STATE_DIR/server.lock)")
            self.shell.close()
            self.check_end()

    def run_block(self, block):
        if missing := block.needs and lacks(block.needs, self):
            return self.skip(f"{block.needs}: {self.shown}:{block.line}: {missing}")
        for script in block.hidden:
            code, output = self.shell.run(script)
            if code != 0:
                return self.tell(block.line, f"what prepares the block exits with {code}: {' / '.join(output)}")
        if block.skip:
            return self.skip(f"docs: {self.shown}:{block.line} is not run: {block.skip}")
        if block.shown and block.kind in ("console", "python"):
            return self.tell(block.line, f"it can be run, and a directive says that it is only shown: {block.shown}")
        if block.kind == "file":
            directory = self.shell.run("pwd")[1][0]
            with open(os.path.join(directory, block.name), "w", encoding="utf-8") as file:
                file.write(block.text + "\n")
        elif block.kind == "console":
            for command, shown in blocks.steps(block):
                self.tell(block.line, self.step(command, shown), command)
        elif block.kind == "python":
            python = {"integrations": self.frameworks, "rewards": self.frameworks, "e2b": self.e2b}.get(block.needs, self.python)
            self.tell(block.line, self.program(block.text, python))
        elif block.kind == "unknown":
            if not block.shown:
                return self.tell(block.line, "it is neither run nor data, and no directive says why: it may be commands or Python")
            print(f"SHOWN {self.shown}:{block.line}: {block.shown}", flush=True)

    def step(self, command, shown):
        """A file that a document shows by `cat`, and that is not there, is made of what is shown."""
        if found := re.fullmatch(r"cat ([\w.-]+)", command):
            directory = self.shell.run("pwd")[1][0]
            path = os.path.join(directory, found[1])
            if not os.path.exists(path):
                with open(path, "w", encoding="utf-8") as file:
                    file.write("\n".join(shown).rstrip("\n") + "\n")
        try:
            _, printed = self.shell.run(self.names.put(command))
        except (TimeoutError, EOFError) as error:
            return str(error)
        wrong = compare.differs(shown, printed, self.names)
        return wrong and wrong + "\n    all of it: " + "\n    ".join(printed)

    def program(self, source, python):
        path = os.path.join(self.home, "program.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.names.put(source))
        code, printed = self.shell.run(f"{python} {path}")
        wrong = f"the program exits with {code}" if code else compare.differs_python(source, printed, self.names)
        return wrong and wrong + "\n    all of it: " + "\n    ".join(printed)

    def tell(self, line, wrong, command=""):
        verdict = "FAIL" if wrong else "ok"
        print(f"CHECK {self.shown}:{line} {verdict} {command.splitlines()[0] if command else ''}", flush=True)
        if wrong:
            self.failed += 1
            print("  " + wrong, flush=True)
        else:
            self.passed += 1

    def skip(self, reason):
        self.skips.append(reason)
        print(f"SKIP {reason}", flush=True)

    def check_end(self):
        """Nothing of the document is left once its sandboxes are killed and its server is stopped."""
        left, end = guests(), time.monotonic() + 30
        while left and time.monotonic() < end:
            time.sleep(0.1)
            left = guests()
        self.tell("end", left and f"left behind: {left}")
        mounts = [line.split()[4] for line in open("/proc/self/mountinfo") if self.home in line.split()[4]]
        for mount in sorted(mounts, reverse=True):
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(self.home, ignore_errors=True)


def guests():
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                words = file.read()
        except OSError:
            continue
        if words.startswith((b"paddock-guest", b"paddock-janitor", b"runsc")) or b"/paddock\0serve\0" in words:
            found.append(f"process {path.split('/')[2]} {words[:80]!r}")
    return found


def frameworks():
    """The Python that has the agent frameworks, with both packages of this tree and the models of the examples; None without it."""
    python = os.path.join(os.environ.get("PADDOCK_TEST_INTEGRATIONS", ""), "agents", "bin", "python")
    places = [os.path.join(ROOT, "sdk", name, "src") for name in ("python", "integrations")]
    places.append(rewards())
    # Its messages, which are on standard error, are no part of an example.
    quiet = f"env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={':'.join([*places, os.path.join(HERE, 'integrations')])} {python} -W ignore"
    return quiet if os.path.exists(python) else None


def e2b():
    """A Python that has E2B's own SDKs; None without them."""
    place = os.environ.get("PADDOCK_TEST_E2B", "")
    there = os.path.exists(os.path.join(place, "e2b_code_interpreter", "__init__.py"))
    return f"env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={place} {sys.executable}" if there else None


def claude_code():
    """The Claude Code that comes with Anthropic's SDK; None without it."""
    place = os.path.join(os.environ.get("PADDOCK_TEST_AGENTS", ""), "@anthropic-ai")
    found = glob.glob(os.path.join(place, f"claude-agent-sdk-linux-{'x64' if os.uname().machine == 'x86_64' else 'arm64'}", "claude"))
    return found[0] if found else None


def rewards():
    """The clients of those who reward code, which the Python of the frameworks runs."""
    return os.path.join(os.environ.get("PADDOCK_TEST_INTEGRATIONS", ""), "rewards")


def lacks(component, document):
    """Why the host has not got a component, by the word of `paddock doctor`; None where it has."""
    if component == "integrations":
        return None if document.frameworks else "no agent frameworks: PADDOCK_TEST_INTEGRATIONS names them"
    if component == "rewards":
        there = document.frameworks and os.path.exists(os.path.join(rewards(), "complete"))
        return None if there else f"no sandbox-fusion in {rewards()}: PADDOCK_TEST_INTEGRATIONS names the place above it"
    if component == "e2b":
        return None if document.e2b else "no SDK of E2B: PADDOCK_TEST_E2B names its directory"
    if component == "claude":
        if not (program := claude_code()):
            return "no Claude Code: PADDOCK_TEST_AGENTS names the packages of the agents"
        command = os.path.join(document.home, "bin", "claude")
        if not os.path.lexists(command):
            os.symlink(program, command)
        return None
    if component in ("gvisor", "microvm"):
        code, output = document.shell.run(f"paddock run --backend {component} -- true")
        return None if code == 0 else " ".join(output).strip()
    raise ValueError(f"{document.shown}: needs {component}, which nothing can look for")


def own_mounts():
    """A run directory of its own. Copies of what other tests have mounted go: they would keep it busy until the end of this one."""
    subprocess.run("mount --make-rprivate / && mkdir -p /run/paddock && mount -t tmpfs -o mode=0700 tmpfs /run/paddock", shell=True, check=True)
    with open("/proc/self/mountinfo") as file:
        mounts = [line.split()[4] for line in file]
    for mount in mounts:
        if mount.startswith(os.path.join(tempfile.gettempdir(), "paddock-")):
            subprocess.run(["umount", "--lazy", mount], check=False)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if os.geteuid() != 0 or not shutil.which("ip"):
        print("SKIP docs: needs root, and `ip` of the package iproute2")
        sys.exit(SKIPPED)
    if os.environ.get(ENTERED) != "yes":
        # Both need what lies outside: pip's network.
        python_with_sdk()
        enter_namespaces()
    if wrong := blocks_test.wrong():
        sys.exit(f"CHECK blocks FAIL {wrong}")
    print("CHECK blocks ok", flush=True)
    python = python_with_sdk()
    own_mounts()
    world = World()
    chosen = [os.path.abspath(path) for path in sys.argv[2:]]
    everything = [os.path.join(ROOT, "README.md"), *sorted(glob.glob(os.path.join(ROOT, "docs/guides/*.md")))]
    ran = []
    try:
        for path in chosen or everything:
            document = Document(path, os.path.abspath(sys.argv[1]), python, world)
            document.run()
            ran.append(document)
    finally:
        world.close()
    failed = sum(document.failed for document in ran)
    print(f"documents: {sum(document.passed for document in ran)} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
