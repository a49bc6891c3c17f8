#!/usr/bin/env python3
"""Boots another kernel than this machine's, with cgroup v2, and checks Paddock there. See README.md.

Exit codes: 0 every check is ok; 1 a check failed; 77 skipped, with a line `SKIP reason`.
"""

import argparse
import contextlib
import ctypes
import lzma
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
KERNEL_PACKAGE = "linux-image-cloud-amd64"
# What this kernel keeps in modules; those that they need come with them. Built-in ones are not found, and not missed.
MODULES = ["overlay", "virtio_pci", "virtio_blk"]
DISK_BYTES = 64 << 20
TIME_LIMIT = 300
SKIPPED = 77


class Skip(Exception):
    """The machine cannot do this test; the message says why."""


def main():
    arguments = parse_arguments()
    # So that `finally` and `with` clean up when somebody ends this with a signal.
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
    ready_made = prepare(arguments)
    initramfs, disk = directory / "initramfs", directory / "disk"
    write_initramfs(initramfs, arguments.paddock, ready_made)
    make_disk(disk, ready_made.mke2fs)
    print(f"kernel {ready_made.version}", flush=True)
    return judge(*boot(ready_made, initramfs, disk, arguments.verbose))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paddock", type=pathlib.Path, required=True, help="the paddock executable to check")
    default = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "paddock", "kernels")
    parser.add_argument("--cache", type=pathlib.Path, default=default, help="where downloaded packages are kept")
    parser.add_argument("--verbose", action="store_true", help="show the whole console as it comes")
    arguments = parser.parse_args()
    if not os.access(arguments.paddock, os.X_OK):
        parser.error(f"{arguments.paddock} is not an executable")
    return arguments


# What has to be there


class ReadyMade:
    """The parts that come from Debian's packages."""

    def __init__(self, qemu, mke2fs, kernel, busybox):
        self.qemu = qemu
        self.mke2fs = mke2fs
        self.image = only(kernel.glob("boot/vmlinuz-*"), "a kernel image")
        self.version = self.image.name.removeprefix("vmlinuz-")
        folders = [kernel / "usr/lib/modules", kernel / "lib/modules"]
        self.modules = only((f / self.version for f in folders if (f / self.version).is_dir()), "kernel modules")
        self.busybox = only((p for p in [busybox / "usr/bin/busybox", busybox / "bin/busybox"] if p.exists()), "busybox")


def prepare(arguments):
    if os.uname().machine != "x86_64":
        raise Skip(f"the kernel is for x86_64, not {os.uname().machine}")
    for tool in ["apt-get", "apt-cache", "dpkg"]:
        if not shutil.which(tool):
            raise Skip(f"no {tool}: the kernel comes from a Debian package")
    qemu = find_or_install("qemu-system-x86_64", "qemu-system-x86")
    mke2fs = find_or_install("mke2fs", "e2fsprogs")
    kernel = unpacked(real_kernel_package(), arguments.cache)
    return ReadyMade(qemu, mke2fs, kernel, unpacked("busybox-static", arguments.cache))


def find_or_install(program, package):
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    if not shutil.which(program, path=path):
        if os.geteuid() != 0:
            raise Skip(f"no {program}, and only root can install {package}")
        install = ["apt-get", "install", "-y", "--no-install-recommends", package]
        if not succeeds(install) and not (succeeds(["apt-get", "update"]) and succeeds(install)):
            raise Skip(f"apt-get cannot install {package}")
    return shutil.which(program, path=path)


def real_kernel_package():
    """The package that the name without a version stands for."""
    for attempt in range(2):
        text = output(["apt-cache", "depends", "--important", KERNEL_PACKAGE])
        found = re.search(r"Depends: (linux-image-\d\S*)", text)
        if found:
            return found[1]
        if attempt == 0 and not (os.geteuid() == 0 and succeeds(["apt-get", "update"])):
            break
    raise Skip(f"apt knows no {KERNEL_PACKAGE}")


def unpacked(package, cache):
    """The directory of a package's files, downloaded once; nothing is installed."""
    versions = re.search(r"^Version: (\S+)", output(["apt-cache", "show", "--no-all-versions", package]), re.M)
    if not versions:
        raise Skip(f"apt knows no {package}")
    place = cache / f"{package}_{versions[1].replace(':', '%3a')}"
    if os.path.isdir(place):
        return place
    try:
        cache.mkdir(parents=True, exist_ok=True)
        working = tempfile.TemporaryDirectory(prefix=".download-", dir=cache)
    except OSError as error:
        raise Skip(f"the cache cannot be written: {error}") from error
    with working as directory:
        # The sandbox user of apt cannot write to a directory of root's.
        download = ["apt-get", "-o", "APT::Sandbox::User=root", "download", package]
        if not succeeds(download, directory):
            updated = os.geteuid() == 0 and succeeds(["apt-get", "update"])
            if not (updated and succeeds(download, directory)):
                raise Skip(f"apt-get cannot download {package}")
        archive = only(pathlib.Path(directory).glob("*.deb"), "a package")
        if not succeeds(["dpkg", "-x", str(archive), str(pathlib.Path(directory, "files"))]):
            raise Skip(f"dpkg cannot unpack {package}")
        # Whole or not at all; another run may have been faster.
        with contextlib.suppress(OSError):
            os.rename(pathlib.Path(directory, "files"), place)
    return place


def only(found, what):
    found = sorted(found)
    if not found:
        raise Skip(f"the packages hold no {what}")
    return found[0]


def succeeds(command, directory=None):
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    quiet = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    ended = subprocess.run(command, cwd=directory, env=environment, check=False, **quiet)
    if ended.returncode != 0:
        print("".join(f"  {line}\n" for line in ended.stderr.splitlines()[-5:]), end="")
    return ended.returncode == 0


def output(command):
    """What a command prints, nothing when it fails."""
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return ended.stdout if ended.returncode == 0 else ""


# What is booted


class Archive:
    """A cpio archive in the `newc` format, which is what the kernel unpacks."""

    def __init__(self, file):
        self.file = file
        self.inode = 0
        self.known = set()

    def directory(self, path):
        path = path.strip("/")
        if path and path not in self.known:
            self.directory(os.path.dirname(path))
            self.known.add(path)
            self.add(path, stat.S_IFDIR | 0o755)

    def link(self, path, target):
        self.put(path, stat.S_IFLNK | 0o777, target.encode())

    def program(self, path, content):
        self.put(path, stat.S_IFREG | 0o755, content)

    def put(self, path, mode, content):
        path = path.strip("/")
        self.directory(os.path.dirname(path))
        if path not in self.known:
            self.known.add(path)
            self.add(path, mode, content)

    def add(self, path, mode, content=b""):
        self.inode += 1
        name = path.encode() + b"\0"
        owner, links, modified, device, checksum = 0, 1, 0, 0, 0
        fields = [self.inode, mode, owner, owner, links, modified, len(content), device, device, device, device]
        header = b"070701" + b"".join(b"%08x" % field for field in [*fields, len(name), checksum])
        self.padded(header + name)
        self.padded(content)

    def padded(self, content):
        self.file.write(content + b"\0" * (-len(content) % 4))

    def end(self):
        self.add("TRAILER!!!", 0)


def write_initramfs(path, paddock, ready_made):
    with open(path, "wb") as file:
        archive = Archive(file)
        for name in ["bin", "sbin", "lib", "lib64"]:
            archive.directory(f"usr/{name}")
            archive.link(name, f"usr/{name}")
        archive.program("init", (HERE / "init.sh").read_bytes())
        archive.program("usr/bin/busybox", ready_made.busybox.read_bytes())
        # busybox has no cgroup namespaces, so its own unshare gives way.
        for name, program in [("paddock", paddock), ("unshare", pathlib.Path("/usr/bin/unshare"))]:
            archive.program(f"usr/bin/{name}", program.read_bytes())
            for library in libraries(program):
                archive.program(merged(library), pathlib.Path(library).read_bytes())
        for applet in output([str(ready_made.busybox), "--list"]).split():
            archive.link(f"usr/bin/{applet}", "busybox")
        for number, module in enumerate(module_order(ready_made.modules)):
            archive.program(f"modules/{number:02}-{name_of(module)}.ko", module_content(module))
        users = b"root:x:0:0::/root:/usr/bin/sh\nuser:x:1000:1000::/home/user:/usr/bin/sh\n"
        archive.put("etc/passwd", stat.S_IFREG | 0o644, users)
        archive.put("etc/group", stat.S_IFREG | 0o644, b"root:x:0:\nuser:x:1000:\n")
        archive.end()


def libraries(program):
    """What a dynamic executable loads, none for a static one."""
    return re.findall(r"(/\S+) \(0x", output(["ldd", str(program)]))


def merged(path):
    return path if path.startswith("/usr/") else f"/usr{path}"


def module_order(modules):
    """Modules in an order in which each finds those that it needs."""
    by_name = {name_of(path): path for path in modules.glob("kernel/**/*.ko*")}
    ordered = []

    def add(name):
        path = by_name.get(name)
        if path is None or path in ordered:
            return
        needed = re.search(rb"\0depends=([^\0]*)\0", module_content(path))
        for other in needed[1].decode().split(",") if needed else []:
            add(other.replace("-", "_"))
        ordered.append(path)

    for name in MODULES:
        add(name)
    return ordered


def name_of(module):
    return module.name.split(".")[0].replace("-", "_")


def module_content(path):
    if path.suffix == ".xz":
        return lzma.decompress(path.read_bytes())
    if path.suffix == ".zst":
        if not shutil.which("zstd"):
            raise Skip("the kernel's modules are compressed, and zstd is missing")
        return subprocess.run(["zstd", "-dcq", str(path)], stdout=subprocess.PIPE, check=True).stdout
    return path.read_bytes()


def make_disk(path, mke2fs):
    """A real disk: ids cannot be mapped on memory's file systems before Linux 6.3."""
    with open(path, "wb") as file:
        file.truncate(DISK_BYTES)
    if not succeeds([mke2fs, "-q", "-F", "-t", "ext4", str(path)]):
        raise Skip("mke2fs cannot make a file system")


def boot(ready_made, initramfs, disk, verbose):
    """Returns the console's lines, and whether time ran out."""
    command = [
        ready_made.qemu,
        # One processor: under emulation a second one costs more than it brings.
        *["-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", "1G"],
        *["-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot"],
        *["-kernel", str(ready_made.image), "-initrd", str(initramfs)],
        *["-drive", f"file={disk},if=virtio,format=raw,cache=unsafe"],
        *["-append", "console=ttyS0 loglevel=1 panic=-1 mitigations=off rdinit=/init"],
    ]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=die_with_parent,
    )
    timed_out = threading.Event()

    def end():
        timed_out.set()
        process.kill()

    timer = threading.Timer(TIME_LIMIT, end)
    timer.start()
    lines = []
    try:
        for raw in process.stdout:
            line = raw.decode(errors="replace").rstrip()
            lines.append(line)
            if verbose or line.startswith("CHECK "):
                print(line, flush=True)
        process.wait()
    finally:
        timer.cancel()
        process.kill()
        process.wait()
    return lines, timed_out.is_set()


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


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
