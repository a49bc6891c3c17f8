"""Where the processor's time of one throw-away use goes (create, run_code('print(1)') and kill, with what fills the pool again
and what the kernel takes apart afterwards), while the bench does nothing else on all processors; beside it the same of the
bench's floor. Needs root, perf (Debian's linux-perf), and `make bench` built.

    python3 bench/profile.py target/x86_64-unknown-linux-gnu/release/paddock > profile.md
"""

import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import time

RATE = 1499
BENCH = os.path.join(os.path.dirname(sys.argv[1]), "paddock-bench") if len(sys.argv) > 1 else ""
KINDS = [
    ("python3", "Python: the interpreter that is forked, and its children"),
    ("tokio-rt-worker", "the server"),
    ("audit_writer", "the server's timelines and copies"),
    ("guest", "the guests"),
    ("kernel", "threads of the kernel: namespaces, cgroups and disks that are taken apart"),
    ("other", "everything else, with the callers"),
]
COLUMNS = ["its own code", "system calls", "page faults", "taking itself apart"]


def kind(name):
    if name in ("python3", "tokio-rt-worker", "audit_writer"):
        return name
    if re.match(r"(kworker|ksoftirqd|rcu_|btrfs-|kcompactd|migration|kthreadd)", name):
        return "kernel"
    # The guest is executed from memory; the kernel calls it by what it finds there.
    return "guest" if re.match(r"([0-9a-f]{15}|memfd)", name) else "other"


def doing(stack):
    for frame in stack:
        found = re.match(r"__(?:x64|arm64|do|se)_sys_(\w+)", frame)
        if found:
            return "system calls", found.group(1)
        if "exc_page_fault" in frame or "do_mem_abort" in frame:
            return "page faults", None
        if frame.startswith("do_exit"):
            return "taking itself apart", None
    return "its own code", None


def samples(data):
    command = ["perf", "script", "-i", data, "-F", "comm,ip,sym"]
    output = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    for block in output.split("\n\n"):
        lines = block.strip("\n").split("\n")
        if lines[0].strip():
            yield lines[0].strip(), [line.strip().partition(" ")[2] for line in lines[1:]]


class Profile:
    """Of one part of the bench, from its middle."""

    def __init__(self, paddock, part, begin, seconds):
        self.counts = collections.defaultdict(collections.Counter)
        self.calls = collections.defaultdict(collections.Counter)
        with tempfile.TemporaryDirectory() as place:
            data = os.path.join(place, "perf.data")
            command = [BENCH, "--only", part, "--no-install", "--results", place]
            environment = {**os.environ, "PADDOCK_BIN": os.path.abspath(paddock)}
            bench = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
            time.sleep(begin)
            perf = ["perf", "record", "-o", data, "-a", "-g", "-F", str(RATE), "--", "sleep", str(seconds)]
            subprocess.run(perf, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            if bench.wait() != 0:
                raise SystemExit("%s failed" % " ".join(command))
            with open(os.path.join(place, "code.json")) as file:
                facts = json.load(file)["parts"][0]["facts"]
            self.rate = next(fact["value"] for fact in facts if fact["name"].startswith("per second"))
            for name, stack in samples(data):
                what, call = doing(stack)
                if not name.startswith("swapper"):
                    self.counts[kind(name)][what] += 1
                    self.calls[kind(name)][call] += 1
        self.all = sum(sum(count.values()) for count in self.counts.values())

    def milliseconds(self, count):
        return count / self.all * os.cpu_count() * 1e3 / self.rate

    def report(self):
        print("| processor time of one, ms | all |", " | ".join(COLUMNS), "|")
        print("|---" * (2 + len(COLUMNS)) + "|")
        for name, title in KINDS:
            cells = [sum(self.counts[name].values())] + [self.counts[name][column] for column in COLUMNS]
            print("| %s | %s |" % (title, " | ".join("%.2f" % self.milliseconds(cell) for cell in cells)))
        print("| all of it | %.2f |%s\n" % (self.milliseconds(self.all), " |" * len(COLUMNS)))

    def without_our_code(self):
        """What is left when the code of Paddock itself takes no time: Python, and the kernel for both."""
        ours = sum(self.counts[name]["its own code"] for name in ("tokio-rt-worker", "scribe", "guest"))
        return self.milliseconds(self.all - ours)

    def dearest(self, name, most):
        calls = [(call, count) for call, count in self.calls[name].most_common() if call][:most]
        return ", ".join("%s %.2f" % (call, self.milliseconds(count)) for call, count in calls)


def main():
    release = os.uname().release
    print("# Where the time of one throw-away use goes\n\n`bench/profile.py` on Linux %s, %d processors.\n" % (release, os.cpu_count()))
    use = Profile(sys.argv[1], "code-sustained", 35, 15)
    print("## A use: %.0f in a second\n" % use.rate)
    use.report()
    print("Dearest system calls of the server: %s. Of the guests: %s.\n" % (use.dearest("tokio-rt-worker", 8), use.dearest("guest", 8)))
    rest = use.without_our_code()
    print("With our own code free of charge: %.2f ms, which would be %.0f in a second.\n" % (rest, os.cpu_count() * 1e3 / rest))
    floor = Profile(sys.argv[1], "code-floor", 12, 6)
    print("## The floor: %.0f in a second\n" % floor.rate)
    floor.report()
    print("Dearest system calls: %s." % floor.dearest("python3", 8))


main()
