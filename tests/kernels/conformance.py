#!/usr/bin/env python3
"""Runs the conformance suite of the process backend behind other kernels, with cgroup v2. See README.md.

Exit codes: 0 every attack was held on every kernel; 1 one was not; 77 skipped, with a line `SKIP reason`.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import time

import debian
from debian import KERNELS, Skip, find_or_install, succeeds
from machine import Archive, boot, module_content, module_order, name_of

HERE = pathlib.Path(__file__).resolve().parent
# For the VM itself, then for the fence and its storage.
MODULES = ["virtio_pci", "virtio_blk", "ext4", "overlay", "loop", "btrfs", "veth", "tun"]
# The system that sandboxes see in there.
PACKAGES = [
    *["bash", "coreutils", "dash", "findutils", "gawk", "git", "grep", "gzip", "iproute2", "mount", "procps", "sed", "tar"],
    *["python3", "util-linux", "uidmap", "btrfs-progs", "e2fsprogs"],
]
DISK_BYTES = 6 << 30
# Time goes with the number of executed instructions: a busy host changes nothing for a program that waits in the VM.
CLOCK = ["-icount", "shift=1,sleep=on"]
SKIPPED = 77


def main():
    arguments = parse_arguments()
    # So that `finally` and `with` clean up when a signal ends this.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        debian.check_machine()
        with tempfile.TemporaryDirectory(prefix="paddock-conformance-", dir=arguments.scratch) as directory:
            results = [run_unless_skipped(arguments, name, pathlib.Path(directory)) for name in arguments.kernel or KERNELS]
    except Skip as reason:
        print(f"SKIP {reason}")
        return SKIPPED
    results = [result for result in results if result is not None]
    if not results:
        return SKIPPED
    failed = results.count(False)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paddock", type=pathlib.Path, required=True, help="the paddock executable to attack, static")
    parser.add_argument("--suite", type=pathlib.Path, required=True, help="the program of tests/conformance's attacks, static")
    parser.add_argument("--kernel", action="append", choices=KERNELS, help="only this one; repeatable")
    parser.add_argument("--attacks", default="", help="beginnings of ids, by commas; all of them where none is named")
    parser.add_argument("--engines", default="", help="root, rootless; both where none is named")
    parser.add_argument("--cache", type=pathlib.Path, default=debian.default_cache(), help="where downloaded packages are kept")
    parser.add_argument("--scratch", type=pathlib.Path, help="where disks are made; the temporary directory where none is named")
    parser.add_argument("--time-limit", type=int, default=5400, help="seconds for one kernel")
    parser.add_argument("--verbose", action="store_true", help="show the whole console as it comes")
    arguments = parser.parse_args()
    for program in [arguments.paddock, arguments.suite]:
        if not os.access(program, os.X_OK):
            parser.error(f"{program} is not an executable")
    for value in [arguments.attacks, arguments.engines]:
        if not re.fullmatch(r"[A-Za-z0-9,_-]*", value):
            parser.error(f"`{value}` is no list")
    return arguments


def run_unless_skipped(arguments, name, directory):
    """None where this kernel cannot be had: the others are tried nevertheless."""
    try:
        return run(arguments, name, directory)
    except Skip as reason:
        print(f"SKIP kernels/{name}: {reason}", flush=True)
        return None


def run(arguments, name, directory):
    """Whether everything held."""
    started = time.monotonic()
    kernel = KERNELS[name](arguments.cache)
    qemu = find_or_install("qemu-system-x86_64", "qemu-system-x86")
    mke2fs = find_or_install("mke2fs", "e2fsprogs")
    print(f"kernel {kernel.version}", flush=True)
    initramfs, disk = directory / f"initramfs-{name}", directory / f"disk-{name}"
    write_initramfs(initramfs, kernel, debian.busybox(arguments.cache))
    make_disk(disk, arguments, mke2fs, directory)
    asked = f"paddock.attacks={arguments.attacks} paddock.engines={arguments.engines}"

    def show(line):
        return arguments.verbose or bool(re.match(r"CHECK |\d+/\d+ |test result|SKIP ", line))

    console, timed_out = boot(qemu, kernel, initramfs, disk, arguments.time_limit, show, "2G", CLOCK, asked)
    disk.unlink()
    held = judge(console)
    (directory / "console").write_text("\n".join(console))
    if not held:
        print("--- the end of the console")
        print("\n".join(console[-150:]))
        print(f"--- stopped after {arguments.time_limit} s" if timed_out else "---")
    print(f"CHECK conformance/{kernel.version} {'ok' if held else 'FAIL'} {time.monotonic() - started:.0f} s", flush=True)
    return held


def judge(console):
    """Both have to have come to their ends: what was never run has not held."""
    return "CHECK suite ok" in console and "CHECK verify ok" in console and "DONE 2" in console


def write_initramfs(path, kernel, busybox):
    """Only loads modules and goes on to the disk."""
    with open(path, "wb") as file:
        archive = Archive(file)
        archive.program("init", (HERE / "conformance-init.sh").read_bytes())
        archive.program("bin/busybox", busybox.read_bytes())
        for number, module in enumerate(module_order(kernel.modules, MODULES)):
            archive.program(f"modules/{number:02}-{name_of(module)}.ko", module_content(module))
        archive.end()


def make_disk(path, arguments, mke2fs, directory):
    """A Debian of packages that were only unpacked, with what is tried in it."""
    root = directory / "root"
    shutil.copytree(debian.root_of(PACKAGES, arguments.cache), root, symlinks=True)
    try:
        for name in ["proc", "sys", "dev", "run", "tmp", "root", "home/user", "var/lib", "usr/local/bin"]:
            (root / name).mkdir(parents=True, exist_ok=True)
        (root / "tmp").chmod(0o1777)
        users = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
        (root / "etc/passwd").write_text(users + "user:x:1000:1000::/home/user:/bin/sh\n")
        (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\nuser:x:1000:\n")
        (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        (root / "etc/resolv.conf").write_text("nameserver 192.0.2.53\n")
        (root / "etc/machine-id").write_text(f"{os.urandom(16).hex()}\n")
        os.chown(root / "home/user", 1000, 1000)
        for name, program in [("paddock", arguments.paddock), ("conformance", arguments.suite)]:
            shutil.copy2(program, root / "usr/local/bin" / name)
            (root / "usr/local/bin" / name).chmod(0o755)
        shutil.copy2(HERE / "conformance-init.sh", root / "conformance-init")
        (root / "conformance-init").chmod(0o755)
        with open(path, "wb") as file:
            file.truncate(DISK_BYTES)
        made = [mke2fs, "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-E", "root_owner=0:0", "-d", str(root), str(path)]
        if not succeeds(made):
            raise Skip("mke2fs cannot make a file system")
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    sys.exit(main())
