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

USER, UID, FIRST, COUNT = "paddock-lent", 61236, 2_000_000, 65_536
TABLES = {
    "passwd": f"{USER}:x:{UID}:{UID}::/:/bin/sh\n",
    "group": f"{USER}:x:{UID}:\n",
    "subuid": f"{USER}:{FIRST}:{COUNT}\n",
    "subgid": f"{USER}:{FIRST}:{COUNT}\n",
}


def skip(reason):
    print(f"SKIP subordinate ids: {reason}")
    sys.exit(77)


class Checks:
    def __init__(self, paddock, home):
        self.paddock, self.home, self.failed = paddock, home, 0

    def run(self, *arguments):
        command = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", self.paddock, "run", *arguments]
        environment = {"HOME": str(self.home), "PATH": "/usr/bin:/bin"}
        return subprocess.run(command, env=environment, cwd="/", text=True, capture_output=True, timeout=60)

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
        wrote = self.run("--workspace", str(workspace), "--", "sh", "-c", "echo x > file; ! mkdir .git/hooks 2>/dev/null")
        owner = (workspace / "file").stat().st_uid if (workspace / "file").exists() else None
        self.check("workspace-keeps-its-owner", wrote.returncode == 0 and owner == UID, wrote)
        self.check("workspace-is-left-clean", os.listdir(workspace) == ["file"], os.listdir(workspace))

        hog = self.run("--memory", "64MiB", "--", "python3", "-c", "x = bytearray(200 << 20)")
        self.check("memory-is-watched", hog.returncode == 137 and "out of memory" in hog.stderr, hog)


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
