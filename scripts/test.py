"""Runs every stage of the tests, then says in one table what passed, what failed and what this machine could not run.

With a name of SLOW only that, which is too slow for every time.

PADDOCK_REQUIRE names components that must not be skipped (CI names all that it installs).
"""

import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import packages

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CARGO = os.environ.get("CARGO", "cargo")
# The lines by which a failing test is found. They are repeated at the end, because thousands of lines come in between.
COMPLAINT = re.compile(r"^thread '.*panicked at |^Error: |^error(\[|:)|^CHECK \S+ FAIL|^(FAIL|ERROR): |\.\.\. FAILED$|^\s*not ok \d+ ")
LINES_OF_A_COMPLAINT = 12
# Of a stage that failed and had no such line.
LAST_LINES = 60
COMPLAINTS = 200
# The one test of the conformance suite that has a target of its own.
WITHOUT_LAYERS = "without_any_one_layer_an_attack_succeeds"
# Targets of their own, because they take too long for every time.
SLOW = {
    "crash": "a thousand kills of a busy server",
    "integrations": "agent frameworks that take long to install: Harbor, and CrewAI with E2B's SDK",
    "kernels": "the conformance suite behind four other kernels with cgroup v2",
    "layers": "attacks on a build without each layer in turn",
    "microvm": "the conformance suite on the microvm backend, whole",
    "templates": "each template that comes with Paddock, built and used, and E2B's SDKs with `base` and `code-interpreter-v1`",
}


class Time:
    """How long something took, and how busy the processors of the machine were. What waits could run beside something else."""

    def __init__(self):
        self.seconds, self.worked, self.idled = 0.0, 0.0, 0.0

    def __enter__(self):
        self.add(-1)
        return self

    def __exit__(self, *_):
        self.add(1)

    def add(self, sign):
        with open("/proc/stat") as file:
            user, nice, system, idle, waiting, *interrupts = map(int, file.readline().split()[1:8])
        self.seconds += sign * time.monotonic()
        self.worked += sign * (user + nice + system + sum(interrupts))
        self.idled += sign * (idle + waiting)

    def __str__(self):
        return f"{self.seconds:7.1f} s  {100 * self.worked / max(self.worked + self.idled, 1):3.0f} % busy"


SET_UP, BUILT, FETCHED = Time(), Time(), Time()
SPEAKING = threading.Lock()


class Stage:
    """One or more commands, each with the directory that it runs in."""

    def __init__(self, name, *commands, environment=None):
        self.name, self.environment = name, environment or {}
        self.commands = [command if isinstance(command, tuple) else (command, ROOT) for command in commands]
        self.state, self.passed, self.failed, self.ignored, self.skips = "not run", 0, 0, 0, []
        self.time, self.complaints, self.last = Time(), [], collections.deque(maxlen=LAST_LINES)

    def run(self):
        with self.time:
            codes = [self.run_one(*command) for command in self.commands]
        self.state = "FAILED" if set(codes) - {0, 77} else "passed" if 0 in codes else "skipped"
        return self.state

    def run_one(self, command, place):
        say(f"\n=== {self.name}: {' '.join(command)}\n")
        process = subprocess.Popen(
            command, cwd=place, env={**os.environ, **self.environment}, text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        wanted = 0
        for line in process.stdout:
            say(f"{self.name} | {line}")
            self.last.append(line)
            if COMPLAINT.search(line):
                wanted = LINES_OF_A_COMPLAINT
            if wanted:
                self.complaints.append(line)
                wanted = 0 if line.startswith("stack backtrace:") else wanted - 1
            if result := re.match(r"test result: \w+\. (\d+) passed; (\d+) failed(?:; (\d+) ignored)?", line):
                self.passed += int(result[1])
                self.failed += int(result[2])
                self.ignored += int(result[3] or 0)
            elif result := re.match(r"CHECK \S+ (ok|FAIL)", line):
                self.passed += result[1] == "ok"
                self.failed += result[1] == "FAIL"
            if line.startswith("SKIP "):
                self.skips.append(line[5:].strip())
        return process.wait()

    def told(self):
        """The part of its output that is repeated at the end when it failed."""
        return f"\n=== what {self.name} said\n\n{''.join(self.complaints[:COMPLAINTS] or self.last)}"


def say(text):
    """Several stages speak at the same time, each in whole lines."""
    with SPEAKING:
        print(text, end="", flush=True)


def build():
    """Builds everything once: the executable that is tried, and the programs of the tests by their package. Cargo asked for one
    package alone would choose other features for what they share, and build it again."""
    command = [CARGO, "test", "--locked", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]
    print(f"\n=== build: {' '.join(command)}", flush=True)
    output = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    programs, paddock = {}, None
    for message in map(json.loads, output.splitlines()):
        executable = message.get("executable")
        if not executable:
            continue
        if message["profile"]["test"]:
            place = os.path.dirname(message["manifest_path"])
            programs.setdefault(os.path.relpath(place, ROOT), []).append((executable, place))
        elif message["target"]["name"] == "paddock":
            paddock = executable
    # A copy, because one of the tests builds another executable into the same place.
    tried = os.path.join(os.path.dirname(paddock), "tried", "paddock")
    os.makedirs(os.path.dirname(tried), exist_ok=True)
    shutil.copy2(paddock, tried)
    return programs, tried


def fetch():
    with FETCHED:
        return packages.fetch(ROOT)


def stages():
    """In lanes that run at the same time: most stages wait for most of their time, and all of them leave other people's sandboxes
    alone. Within a lane one stage comes after the other; a lane that is through takes stages of the other one."""
    with ThreadPoolExecutor() as beside:
        # The fetching waits for the network while the build has the processors.
        fetching = beside.submit(fetch)
        with BUILT:
            programs, paddock = build()
        fetched = fetching.result()
    given = {"PADDOCK_BIN": paddock}

    def tests(places, *options):
        return [([program, *options], place) for name in places for program, place in sorted(programs[name])]

    unit = sorted(set(programs) - {"crates/volumes", "tests/conformance", "tests/e2e", "tests/minimal"})
    # The backends' unit tests boot VMs with this kernel, as any user does who has set one.
    kernel = fetched.get("PADDOCK_TEST_KERNEL")
    unit_given = {**fetched, **({"PADDOCK_KERNEL": kernel} if kernel else {})}
    return [
        [
            Stage("formatting", [CARGO, "fmt", "--all", "--check"]),
            Stage("clippy", [CARGO, "clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"]),
            Stage("unit", *tests(unit, "--nocapture"), environment=unit_given),
            Stage("volumes", *tests(["crates/volumes"], "--nocapture"), environment=fetched),
            Stage("python sdk", [sys.executable, "sdk/python/run_tests.py"], environment=given),
            Stage("typescript sdk", [sys.executable, "sdk/typescript/run_tests.py"], environment={**given, **fetched}),
            Stage("dashboard", [sys.executable, "web/run_tests.py"], environment={**given, **fetched}),
            Stage("documents", [sys.executable, "tests/docs/run.py", paddock], environment=unit_given),
            Stage("templates", [sys.executable, "tests/templates/run.py"]),
            Stage("schema", [sys.executable, "tests/schema/run.py", paddock]),
            Stage("e2b", [sys.executable, "tests/e2b/run.py", paddock], environment=fetched),
            Stage("integrations", [sys.executable, "sdk/integrations/run_tests.py"], environment={**given, **fetched}),
            Stage("crash", [sys.executable, "tests/crash/run.py", paddock, "100"]),
            Stage("subordinate ids", [sys.executable, "tests/identities/run.py", "--paddock", paddock]),
            Stage("second kernel", [sys.executable, "tests/kernels/run.py", "--paddock", paddock]),
        ],
        [
            Stage("conformance", *tests(["tests/conformance", "tests/minimal"], "--nocapture", "--skip", WITHOUT_LAYERS), environment=given),
            Stage("end to end", *tests(["tests/e2e"], "--nocapture", "--test-threads=3"), environment={**given, **fetched}),
        ],
    ]


def run_lanes(lanes):
    """All stages, in the order of the table."""
    everything = [stage for lane in lanes for stage in lane]
    left = [collections.deque(lane) for lane in lanes]

    def next_stage(own):
        """The next one of its own lane, else of the lane that has most left."""
        for lane in (own, max(left, key=len)):
            try:
                return lane.popleft()
            except IndexError:
                pass
        return None

    def run_lane(own):
        while stage := next_stage(own):
            stage.run()

    with ThreadPoolExecutor(len(lanes)) as beside:
        try:
            list(beside.map(run_lane, left))
        except KeyboardInterrupt:
            # The stages that run have got the signal as well; no further one begins.
            for lane in left:
                lane.clear()
            raise
    return everything


def slow_stages(which):
    programs, paddock = build()

    def suite(name, *options):
        of = [one for one in programs["tests/conformance"] if os.path.basename(one[0]).startswith(f"{name}-")]
        return [([program, "--nocapture", *options], place) for program, place in of]

    if which == "layers":
        return [Stage("layers", *suite("layers", WITHOUT_LAYERS), environment={"PADDOCK_BIN": paddock})]
    if which == "kernels":
        conformance = ["tests/kernels/conformance.py", "--paddock", paddock, "--suite", suite("attacks")[0][0][0]]
        return [Stage("other kernels", [sys.executable, *conformance])]
    if which == "templates":
        return [
            Stage("templates", [sys.executable, "tests/templates/run.py", "--build", paddock]),
            Stage("e2b", [sys.executable, "tests/e2b/run.py", "--built", paddock], environment=packages.fetch(ROOT)),
        ]
    if which == "crash":
        return [Stage("crash", [sys.executable, "tests/crash/run.py", paddock, "1000"])]
    if which == "integrations":
        found = {**packages.fetch(ROOT, slow=True), "PADDOCK_BIN": paddock}
        return [
            Stage("integrations", [sys.executable, "sdk/integrations/run_tests.py", "harbor"], environment=found),
            Stage("e2b", [sys.executable, "tests/e2b/run.py", paddock, "frameworks.crewai"], environment=found),
        ]
    kernel = packages.fetch(ROOT).get("PADDOCK_TEST_KERNEL")
    if not kernel:
        sys.exit("test: there is no kernel for machines")
    given = {"PADDOCK_BIN": paddock, "PADDOCK_BACKENDS": "microvm", "PADDOCK_KERNEL": kernel}
    return [Stage("conformance of microvm", *suite("attacks"), environment=given)]


def run_slow(which):
    """Here nothing may be skipped: who asks for it wants to know."""
    ran = slow_stages(which)
    for stage in ran:
        stage.run()
    table(ran)
    for stage in ran:
        print("".join(f"  skip: {skip}\n" for skip in stage.skips), end="")
        if stage.state != "passed":
            print(stage.told())
    sys.exit(0 if all(stage.state == "passed" for stage in ran) else 1)


def components(ran):
    """What the machine could be tested for: name, whether it was, and the reason if not."""
    state = {stage.name: stage for stage in ran}
    skips = [skip for stage in ran for skip in stage.skips]

    def stage(name):
        if state[name].state == "FAILED":
            return "the stage failed"
        return None if state[name].state == "passed" else (state[name].skips or ["it did not run"])[0]

    def part(name, of="end to end"):
        """Of a stage, by what begins its lines of SKIP."""
        return next((skip for skip in skips if skip.startswith(name)), None) or stage(of)

    return [
        ("process-root", stage("conformance") if os.geteuid() == 0 else "the tests do not run as root"),
        ("process-rootless", stage("conformance")),
        ("subordinate-ids", stage("subordinate ids")),
        ("images", part("images")),
        ("figures", part("figures")),
        ("typescript", part("typescript")),
        ("agents", part("agents")),
        ("packages", part("packages")),
        ("ipython", part("ipython")),
        ("second-kernel", stage("second kernel")),
        ("python-sdk", stage("python sdk")),
        ("typescript-sdk", stage("typescript sdk")),
        *((f"typescript-sdk-{what}", part(f"sdk-typescript-{what}:", "typescript sdk")) for what in ("bun", "deno", "node24", "node26", "workerd", "claude", "busybox", "browser")),
        # Its flows that need a program of the host, too: scripts/setup.py installs busybox and matplotlib.
        ("dashboard", part("dashboard:", "dashboard")),
        ("documents", stage("documents")),
        ("templates", stage("templates")),
        ("schema", stage("schema")),
        ("e2b", stage("e2b")),
        ("e2b-node", part("e2b-node:", "e2b")),
        ("e2b-templates", part("e2b-templates:", "e2b")),
        ("e2b-node-templates", part("e2b-node-templates:", "e2b")),
        ("e2b-gvisor", part("e2b-gvisor:", "e2b")),
        ("e2b-java", part("e2b-java:", "e2b")),
        ("e2b-r", part("e2b-r:", "e2b")),
        ("e2b-network", part("e2b-network:", "e2b")),
        ("e2b-tls", part("e2b-tls:", "e2b")),
        ("e2b-frameworks", part("e2b-frameworks:", "e2b")),
        ("integrations", stage("integrations")),
        # The languages are those whose tools the build needs anyway, or that scripts/setup.py installs.
        *((f"integrations-{what}", part(f"integrations-{what}:", "integrations")) for what in ("tests", "nemo-gym", "codex", "rewards", "dockerfiles", "languages", "cpp", "java", "go")),
        ("crash", stage("crash")),
        ("s3", part("s3:", "volumes")),
        ("btrfs", part("btrfs:", "unit")),
        ("live-forks", part("live forks:", "unit")),
        ("zygotes", part("zygotes:", "unit")),
        # No host offers these two backends to an ordinary user, so only root tests them.
        ("microvm", part("microvm:") if os.geteuid() == 0 else "the tests do not run as root"),
        ("gvisor", part("gvisor:") if os.geteuid() == 0 else "the tests do not run as root"),
    ]


def leftovers():
    """What a test must not leave: guests, servers, mounts, loop devices, cgroups, records."""
    found = set()
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                words = file.read()
                server = b"/paddock\0serve\0" in words and b"paddock-e2e-" in words
                if server or words.startswith((b"paddock-guest", b"paddock-janitor", b"runsc")):
                    found.add(f"process {path.split('/')[2]}")
        except OSError:
            pass
    with open("/proc/self/mountinfo") as file:
        found.update(f"mount {line.split()[4]}" for line in file)
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        try:
            with open(path) as file:
                found.add(f"loop device {path.split('/')[3]} of {file.read().strip()}")
        except OSError:
            pass
    for depth in ("*", "*/*", "*/*/*", "*/*/*/*"):
        found.update(f"cgroup {path}" for path in glob.glob(f"/sys/fs/cgroup/{depth}/paddock-sb-*"))
    for run in ("/run/paddock", "/dev/shm/paddock"):
        found.update(f"record {path}" for path in glob.glob(f"{run}/*.json"))
        found.update(f"directory of a sandbox {path}" for path in glob.glob(f"{run}/sb-*"))
    return found


def table(ran):
    print("\n=== result\n")
    for name, spent in (("set-up", SET_UP), ("build", BUILT), ("packages", FETCHED)):
        print(f"  {name:<16} {'':<8} {spent}")
    for stage in ran:
        counted = f"{stage.passed} passed, {stage.failed} failed" if stage.passed + stage.failed else ""
        counted += f", {stage.ignored} ignored" if stage.ignored else ""
        print(f"  {stage.name:<16} {stage.state:<8} {stage.time}  {counted}")
    print()


def main():
    os.chdir(ROOT)
    with SET_UP:
        subprocess.run([sys.executable, "scripts/setup.py", "--tests"], check=False)
    if sys.argv[1:]:
        if sys.argv[1:] not in [[name] for name in SLOW]:
            sys.exit(f"test: nothing is called `{' '.join(sys.argv[1:])}`: {', '.join(SLOW)}, or nothing for every stage")
        run_slow(sys.argv[1])
    before = leftovers()
    ran = run_lanes(stages())
    new = leftovers() - before
    table(ran)

    required = os.environ.get("PADDOCK_REQUIRE", "").replace(",", " ").split()
    failures = [f"{stage.name} failed" for stage in ran if stage.state == "FAILED"]
    names = set()
    for name, reason in components(ran):
        names.add(name)
        print(f"  {name:<16} {'skipped: ' + reason if reason else 'tested'}")
        if reason and name in required:
            failures.append(f"{name} is required but was skipped: {reason}")
    failures += [f"PADDOCK_REQUIRE names {name}, which nobody knows" for name in set(required) - names]
    failures += [f"left behind: {item}" for item in sorted(new)]
    for skip in sorted({skip for stage in ran for skip in stage.skips}):
        print(f"  skip: {skip}")
    for name, what in SLOW.items():
        print(f"  not run: {what}: make test-{name}")
    for stage in ran:
        if stage.state == "FAILED":
            print(stage.told())
    for failure in failures:
        print(f"  FAILED: {failure}")
    passed, failed = sum(s.passed for s in ran), sum(s.failed for s in ran)
    print(f"\n{passed} passed, {max(failed, len(failures))} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
