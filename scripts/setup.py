"""Installs the system packages that building and testing need, or names the command that would."""

import os
import shutil
import subprocess
import sys

# The program that is looked for, and Debian's package that has it.
BUILD = {"cc": "gcc libc6-dev", "git": "git"}
TEST = {
    "newuidmap": "uidmap",
    "setpriv": "util-linux",
    "busybox": "busybox-static",
    "node": "nodejs",
    "npm": "npm",
    "pip3": "python3-pip",
    "strace": "strace",
    "runsc": "runsc",
    "qemu-system-x86_64": "qemu-system-x86",
    "mke2fs": "e2fsprogs",
    "ip": "iproute2",
    "mkfs.xfs": "xfsprogs",
    "chromium": "chromium",
}
# Modules of the host's own Python, which sandboxes see: code makes tables and figures with them.
PYTHON = {"pandas": "python3-pandas", "matplotlib": "python3-matplotlib"}
# Root's engine makes its storage with this program; without it disks are kept in memory.
STORAGE = {"mkfs.btrfs": "btrfs-progs"}


def missing(tools):
    return sorted({package for tool, package in tools.items() if package and not shutil.which(tool, path=search_path())})


def missing_modules(modules):
    """Of /usr/bin/python3: another one on the path is not what a sandbox sees."""

    def has(module):
        tried = subprocess.run(["/usr/bin/python3", "-c", f"import {module}"], capture_output=True, check=False)
        return tried.returncode == 0

    return sorted(package for module, package in modules.items() if not has(module))


def search_path():
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def install(packages):
    """True when they are there now."""
    if not packages:
        return True
    names = " ".join(packages).split()
    command = ["apt-get", "install", "-y", "--no-install-recommends", *names]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        print(f"setup: not installed: {' '.join(names)}; run as root: {' '.join(command)}", file=sys.stderr)
        return False
    print(f"setup: installing {' '.join(names)}", file=sys.stderr)
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    quiet = {"stdout": subprocess.DEVNULL, "env": environment}
    if subprocess.run(command, **quiet).returncode != 0:
        # The package lists of a fresh host are empty or old.
        subprocess.run(["apt-get", "update", "-qq"], **quiet)
        return subprocess.run(command, **quiet).returncode == 0
    return True


def main():
    tests = "--tests" in sys.argv
    if not install(missing(BUILD)):
        sys.exit("setup: a C compiler with a static C library is needed to build Paddock")
    if os.geteuid() == 0:
        install(missing(STORAGE))
    if tests:
        install(missing(TEST))
        install(missing_modules(PYTHON))


if __name__ == "__main__":
    main()
