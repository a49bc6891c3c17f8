"""Runs Paddock as an ordinary user to whom the system lends subordinate ids, and looks at whose ids the code inside has.

The user exists only in a mount namespace of this script's: nothing of the machine's /etc is changed.
Exit code 0: every check is ok; 1: one failed; 77: skipped, with a line `SKIP reason`.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

USER, UID, FIRST, COUNT = "paddock-lent", 61236, 2_000_000, 65_536
TABLES = {
    "passwd": f"{USER}:x:{UID}:{UID}::/:/bin/sh\n",
    "group": f"{USER}:x:{UID}:\n",
    "subuid": f"{USER}:{FIRST}:{COUNT}\n",
    "subgid": f"{USER}:{FIRST}:{COUNT}\n",
}
# The threads of the host that a sentry may have: some for each process of the work's limit, and some of its own.
SENTRY_THREADS_EACH, SENTRY_THREADS = 6, 256


def skip(reason):
    print(f"SKIP subordinate ids: {reason}")
    sys.exit(77)


class Checks:
    def __init__(self, paddock, home):
        self.paddock, self.home, self.failed = paddock, home, 0

    def command(self, *arguments):
        return ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", self.paddock, "run", *arguments]

    def environment(self):
        return {"HOME": str(self.home), "PATH": "/usr/bin:/bin"}

    def run(self, *arguments):
        command = self.command(*arguments)
        return subprocess.run(command, env=self.environment(), cwd="/", text=True, capture_output=True, timeout=60)

    def check(self, name, fine, detail):
        self.failed += not fine
        print(f"CHECK subordinate/{name} {'ok' if fine else 'FAIL ' + repr(detail)}", flush=True)

    def all(self):
        inside = self.run("--", "cat", "/proc/self/uid_map")
        lines = [[int(field) for field in line.split()] for line in inside.stdout.splitlines()]
        lent = range(FIRST, FIRST + COUNT)
        self.check("ids-are-lent", len(lines) == 3 and all(line[1] in lent and line[2] == 1 for line in lines), inside)

        said = self.run("--json", "--require", "own-identity", "--", "true")
        identity = json.loads(said.stdout)["guarantees"]["identity"] if said.returncode == 0 else None
        self.check("identity-is-own", identity == "own", said)

        guest = self.run("--", "sh", "-c", "kill -0 1")
        self.check("guest-has-another-id", guest.returncode != 0 and "not permitted" in guest.stderr, guest)

        for user, expected in {"root": "0 0", "agent": "1000 1000", "33:44": "33 44"}.items():
            who = self.run("--user", user, "--", "sh", "-c", "echo $(id -u) $(id -g)")
            self.check(f"user-{user}", who.stdout.strip() == expected, who)

        workspace = self.home / "workspace"
        workspace.mkdir()
        os.chown(workspace, UID, UID)
        wrote = self.run("--workspace", str(workspace), "--", "sh", "-c", "echo x > file; ! mkdir .cargo/x 2>/dev/null")
        owner = (workspace / "file").stat().st_uid if (workspace / "file").exists() else None
        self.check("workspace-keeps-its-owner", wrote.returncode == 0 and owner == UID, wrote)
        self.check("workspace-is-left-clean", os.listdir(workspace) == ["file"], os.listdir(workspace))

        hog = self.run("--memory", "64MiB", "--", "python3", "-c", "x = bytearray(200 << 20)")
        self.check("memory-is-watched", hog.returncode == 137 and "out of memory" in hog.stderr, hog)
        if shutil.which("runsc"):
            self.gvisor()
        else:
            print("SKIP subordinate ids of gVisor: runsc is not installed")

    def gvisor(self):
        """The three ids are enough for a kernel in user space, too."""
        def run(*arguments):
            return self.run("--backend", "gvisor", *arguments)

        inside = run("--json", "--", "sh", "-c", "uname -r; id -u; echo x > /tmp/x && cat /tmp/x; kill -0 1")
        report = json.loads(inside.stdout) if inside.stdout else {}
        kernel, *rest = report.get("stdout", "").splitlines() or [""]
        self.check("gvisor/kernel-is-another", kernel not in ("", os.uname().release), inside)
        self.check("gvisor/work-and-guest", rest == ["1000", "x"] and report["exit_code"] == 1, inside)
        self.check("gvisor/identity-is-own", report["guarantees"]["identity"] == "own", inside)

        begun = subprocess.Popen(self.command("--backend", "gvisor", "--", "sh", "-c", "echo up; sleep 60"),
                                 env=self.environment(), cwd="/", text=True, stdout=subprocess.PIPE)  # fmt: skip
        begun.stdout.readline()
        owners = owners_of(begun.pid, "runsc-sandbox") | owners_of(begun.pid, "runsc-gofer")
        begun.terminate()
        begun.wait(60)
        self.check("gvisor/its-processes-have-lent-ids", owners and owners <= set(range(FIRST, FIRST + COUNT)), owners)

        denied = run("--allow-net", "web.test:80", "--", "sh", "-c", "curl -sS http://other.test/; getent hosts web.test")
        self.check("gvisor/rules", denied.returncode == 0 and "no rule allows it" in denied.stdout, denied)

        shared = self.home / "shared"
        shared.mkdir()
        os.chown(shared, UID, UID)
        wrote = run("--workspace", str(shared), "--", "sh", "-c", "echo x > file")
        owner = (shared / "file").stat().st_uid if (shared / "file").exists() else None
        self.check("gvisor/workspace-keeps-its-owner", wrote.returncode == 0 and owner == UID, wrote)

        hog = run("--memory", "64MiB", "--", "python3", "-c", "x = bytearray(200 << 20)")
        self.check("gvisor/memory-is-watched", hog.returncode == 137 and "out of memory" in hog.stderr, hog)

        forks = "import os, signal\nfor made in range(200):\n    if os.fork() == 0: signal.pause()"
        held = run("--pids", "64", "--timeout", "40s", "--", "python3", "-c", forks)
        self.check("gvisor/processes-are-held", held.returncode == 1 and "unavailable" in held.stderr, held.stderr[-400:])
        self.bomb()

    def bomb(self):
        """Whether it runs into the work's limit until its time is over or takes the sentry's threads and ends its sandbox is a
        matter of speed. That the host lends it so many threads and no more, and has all of them back, is not."""
        bomb = subprocess.Popen(self.command("--backend", "gvisor", "--pids", "64", "--timeout", "20s", "--",
                                             "sh", "-c", "b() { b | b & }; b; sleep 60"),
                                env=self.environment(), cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        most = 0
        while bomb.poll() is None:
            most = max(most, max(threads_of_lent_ids().values(), default=0))
            time.sleep(0.2)
        self.check("gvisor/a-bomb-does-not-succeed", bomb.returncode != 0, bomb.returncode)
        self.check("gvisor/a-bomb-is-held", 0 < most <= 64 * SENTRY_THREADS_EACH + SENTRY_THREADS, most)
        self.check("gvisor/nothing-is-left-of-a-bomb", not threads_of_lent_ids(), threads_of_lent_ids())


def threads_of_lent_ids():
    """How many threads each of the lent host ids has."""
    threads = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            owner = process.stat().st_uid
            if owner in range(FIRST, FIRST + COUNT):
                threads[owner] = threads.get(owner, 0) + len(os.listdir(process / "task"))
        except OSError:
            # It has ended meanwhile.
            continue
    return threads


def owners_of(ancestor, name):
    """Host ids of the descendants of a process that call themselves so. Other tests have processes of that name, too."""
    parents, named = {}, {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            # Behind the name, which may hold anything: the state, then the parent.
            parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if (process / "cmdline").read_bytes().startswith(name.encode()):
                named[int(process.name)] = process.stat().st_uid
        except OSError:
            # It has ended meanwhile.
            continue

    def descends(process):
        while process and process != ancestor:
            process = parents.get(process)
        return process == ancestor

    return {owner for process, owner in named.items() if descends(process)}


def in_own_namespace(paddock):
    with tempfile.TemporaryDirectory(prefix="paddock-identities-") as place:
        place = pathlib.Path(place)
        place.chmod(0o755)
        for name, line in TABLES.items():
            original = pathlib.Path("/etc", name)
            if not original.exists():
                skip(f"this machine has no {original}")
            (place / name).write_text(original.read_text() + line)
            subprocess.run(["mount", "--bind", place / name, original], check=True)
        executable = place / "paddock"
        shutil.copy(paddock, executable)
        executable.chmod(0o755)
        home = place / "home"
        home.mkdir()
        os.chown(home, UID, UID)
        checks = Checks(str(executable), home)
        checks.all()
        return 1 if checks.failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--paddock", required=True)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        skip("only root can make a user to lend ids to")
    for tool in ["newuidmap", "newgidmap", "setpriv", "unshare", "mount"]:
        if not shutil.which(tool):
            skip(f"{tool} is not installed")
    if arguments.inside:
        sys.exit(in_own_namespace(arguments.paddock))
    again = [sys.executable, os.path.abspath(__file__), "--inside", "--paddock", os.path.abspath(arguments.paddock)]
    sys.exit(subprocess.run(["unshare", "--mount", "--propagation", "private", *again]).returncode)


if __name__ == "__main__":
    main()
