#!/usr/bin/env python3
"""Boots another kernel than this machine's, with cgroup v2, and checks Paddock there. See README.md.

Exit codes: 0 every check is ok; 1 a check failed; 77 skipped, with a line `SKIP reason`.
"""

import argparse
import os
import pathlib
import signal
import stat
import sys
import tempfile
import time

import debian
from debian import KERNELS, Skip, find_or_install, output, succeeds
from machine import Archive, boot, libraries, merged, module_content, module_order, name_of

HERE = pathlib.Path(__file__).resolve().parent
# Drivers that this kernel has as modules; their dependencies come with them. Built-in ones are not found, and not
# missed.
MODULES = ["overlay", "virtio_pci", "virtio_blk"]
DISK_BYTES = 64 << 20
# Three minutes alone, and several times that where other tests have the processors.
TIME_LIMIT = 1500
SKIPPED = 77


def main():
    arguments = parse_arguments()
    # So that `finally` and `with` clean up when a signal ends this.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="paddock-kernels-") as directory:
            result = run(arguments, pathlib.Path(directory))
    except Skip as reason:
        print(f"SKIP {reason}")
        return SKIPPED
    print(f"{time.monotonic() - started:.0f} s")
    return result


def run(arguments, directory):
    debian.check_machine()
    qemu = find_or_install("qemu-system-x86_64", "qemu-system-x86")
    mke2fs = find_or_install("mke2fs", "e2fsprogs")
    kernel = KERNELS[arguments.kernel](arguments.cache)
    initramfs, disk = directory / "initramfs", directory / "disk"
    write_initramfs(initramfs, arguments.paddock, kernel, debian.busybox(arguments.cache))
    make_disk(disk, mke2fs)
    print(f"kernel {kernel.version}", flush=True)

    def show(line):
        return arguments.verbose or line.startswith("CHECK ")

    return judge(*boot(qemu, kernel, initramfs, disk, TIME_LIMIT, show))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paddock", type=pathlib.Path, required=True, help="the paddock executable to check")
    parser.add_argument("--kernel", choices=KERNELS, default="release", help="which one; the one of this Debian release where none is named")
    parser.add_argument("--cache", type=pathlib.Path, default=debian.default_cache(), help="where downloaded packages are kept")
    parser.add_argument("--verbose", action="store_true", help="show the whole console as it comes")
    arguments = parser.parse_args()
    if not os.access(arguments.paddock, os.X_OK):
        parser.error(f"{arguments.paddock} is not an executable")
    return arguments


def write_initramfs(path, paddock, kernel, busybox):
    with open(path, "wb") as file:
        archive = Archive(file)
        for name in ["bin", "sbin", "lib", "lib64"]:
            archive.directory(f"usr/{name}")
            archive.link(name, f"usr/{name}")
        archive.program("init", (HERE / "init.sh").read_bytes())
        archive.program("usr/bin/busybox", busybox.read_bytes())
        # busybox has no cgroup namespaces, so its own unshare gives way.
        for name, program in [("paddock", paddock), ("unshare", pathlib.Path("/usr/bin/unshare"))]:
            archive.program(f"usr/bin/{name}", program.read_bytes())
            for library in libraries(program):
                archive.program(merged(library), pathlib.Path(library).read_bytes())
        for applet in output([str(busybox), "--list"]).split():
            archive.link(f"usr/bin/{applet}", "busybox")
        for number, module in enumerate(module_order(kernel.modules, MODULES)):
            archive.program(f"modules/{number:02}-{name_of(module)}.ko", module_content(module))
        users = b"root:x:0:0::/root:/usr/bin/sh\nuser:x:1000:1000::/home/user:/usr/bin/sh\n"
        archive.put("etc/passwd", stat.S_IFREG | 0o644, users)
        archive.put("etc/group", stat.S_IFREG | 0o644, b"root:x:0:\nuser:x:1000:\n")
        archive.end()


def make_disk(path, mke2fs):
    """A real disk: ids cannot be mapped on memory's file systems before Linux 6.3."""
    with open(path, "wb") as file:
        file.truncate(DISK_BYTES)
    if not succeeds([mke2fs, "-q", "-F", "-t", "ext4", str(path)]):
        raise Skip("mke2fs cannot make a file system")


def judge(console, timed_out):
    checks = [line for line in console if line.startswith("CHECK ")]
    failed = [line for line in checks if not line.endswith(" ok")]
    # A check that was never run is no check that passed.
    complete = f"DONE {len(checks)}" in console
    if checks and complete and not failed:
        print(f"{len(checks)} checks ok")
        return 0
    print("--- the end of the console")
    print("\n".join(console[-80:]))
    print("---")
    for line in failed:
        print(line)
    if timed_out:
        print(f"the machine was stopped after {TIME_LIMIT} s")
    elif not complete:
        print(f"the machine ended after {len(checks)} checks, before it was done")
    return 1


if __name__ == "__main__":
    sys.exit(main())
