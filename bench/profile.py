"""Where the processor's time of one throw-away use goes: create, run_code('print(1)') and kill, with what fills the pool
again and what the kernel takes apart afterwards. Needs root and perf (Debian's linux-perf).

    python3 bench/profile.py target/x86_64-unknown-linux-gnu/release/paddock > bench/results/code-profile.md
"""

import collections
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROUNDS, RATE, PAUSE = 300, 999, 0.03
KINDS = [
    ("python3", "Python: the interpreter that is forked, its children, and this script"),
    ("tokio-rt-worker", "the server"),
    ("scribe", "the server's timelines and copies"),
    ("guest", "the guests"),
    ("kernel", "threads of the kernel: namespaces, cgroups and disks that are taken apart"),
    ("other", "everything else"),
]


class Socket(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)

    def ask(self, method, path, body=None):
        content = json.dumps(body or {}) if method in ("POST", "PUT") else None
        self.request(method, path, content, {"Content-Type": "application/json"})
        answer = self.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise SystemExit("%s %s: %d %s" % (method, path, answer.status, text.decode()))
        return json.loads(text) if text else None


def use(caller):
    sandbox = "/v1/sandboxes/" + caller.ask("POST", "/v1/sandboxes")["id"]
    caller.ask("POST", sandbox + "/code", {"code": "print(1)"})
    caller.ask("DELETE", sandbox)


def kind(name):
    if name in ("python3", "tokio-rt-worker", "scribe"):
        return name
    if re.match(r"(kworker|ksoftirqd|rcu_|btrfs-|kcompactd|migration|kthreadd)", name):
        return "kernel"
    # The guest is executed from memory; the kernel calls it by what it finds there.
    return "guest" if re.match(r"([0-9a-f]{15}|memfd)", name) else "other"


def doing(stack):
    for frame in stack:
        if re.match(r"__(?:x64|arm64)_sys_\w+", frame):
            return "system calls"
        if "exc_page_fault" in frame or "do_mem_abort" in frame:
            return "page faults"
        if frame.startswith("do_exit"):
            return "taking itself apart"
    return "its own code"


def samples(data):
    command = ["perf", "script", "-i", data, "-F", "comm,ip,sym"]
    output = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    for block in output.split("\n\n"):
        lines = block.strip("\n").split("\n")
        if lines[0].strip():
            yield lines[0].strip(), [line.strip().partition(" ")[2] for line in lines[1:]]


def report(data):
    counts = collections.defaultdict(collections.Counter)
    for name, stack in samples(data):
        if not name.startswith("swapper"):
            counts[kind(name)][doing(stack)] += 1
    def milliseconds(count):
        return count / RATE * 1e3 / ROUNDS
    print("| processor time of one use, ms | all |", " | ".join(columns := [
        "its own code", "system calls", "page faults", "taking itself apart"]), "|")
    print("|---" * (2 + len(columns)) + "|")
    for name, title in KINDS:
        cells = [sum(counts[name].values())] + [counts[name][column] for column in columns]
        print("| %s | %s |" % (title, " | ".join("%.1f" % milliseconds(cell) for cell in cells)))
    print("| all of it | %.1f | | | | |" % milliseconds(sum(sum(count.values()) for count in counts.values())))


def main():
    paddock = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as place:
        address = os.path.join(place, "api.sock")
        environment = {**os.environ, "PADDOCK_STATE_DIR": os.path.join(place, "state")}
        command = [paddock, "serve", "--socket", address]
        server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not os.path.exists(address):
                time.sleep(0.05)
            caller = Socket(address)
            caller.ask("PUT", "/v1/pools/code-interpreter", {"min": 16, "max": 64})
            while caller.ask("GET", "/v1/pools/code-interpreter")["ready"] < 16:
                time.sleep(0.1)
            data = os.path.join(place, "perf.data")
            perf = ["perf", "record", "-o", data, "-a", "-g", "-e", "cpu-clock", "-F", str(RATE), "--", "sleep", "3600"]
            recorder = subprocess.Popen(perf, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.5)
            for _ in range(ROUNDS):
                use(caller)
                time.sleep(PAUSE)
            recorder.send_signal(signal.SIGINT)
            recorder.wait()
            print("# Where the time of one throw-away use goes\n\n`bench/profile.py`: %d uses, %s.\n" % (ROUNDS, os.uname().release))
            report(data)
        finally:
            server.terminate()
            server.wait()


main()
