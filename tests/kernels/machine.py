"""Boots a kernel in QEMU's software emulation and reads its console."""

import ctypes
import lzma
import os
import re
import shutil
import signal
import stat
import subprocess
import threading

from debian import Skip, output


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


def libraries(program):
    """What a dynamic executable loads, none for a static one."""
    return re.findall(r"(/\S+) \(0x", output(["ldd", str(program)]))


def merged(path):
    return path if path.startswith("/usr/") else f"/usr{path}"


def module_order(modules, wanted):
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

    for name in wanted:
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


# Features that cost emulated code most, and that no test here is about (docs/decisions/0043): programs at other
# addresses each time are translated each time, and RCU grace periods take ticks of the clock.
FASTER = "mitigations=off norandmaps rcupdate.rcu_expedited=1"


def boot(qemu, kernel, initramfs, disk, limit, show, memory="1G", processor=(), parameters=""):
    """Returns the console's lines, and whether time ran out. `show`: whether a line is printed as it comes."""
    command = [
        qemu,
        # One processor: under emulation a second one costs more than it brings.
        *["-accel", "tcg", "-cpu", "max,-erms", "-smp", "1", "-m", memory, *processor],
        *["-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot"],
        *["-kernel", str(kernel.image), "-initrd", str(initramfs)],
        *["-drive", f"file={disk},if=virtio,format=raw,cache=unsafe"],
        *["-append", f"console=ttyS0 loglevel=1 panic=-1 rdinit=/init {FASTER} {parameters}"],
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

    timer = threading.Timer(limit, end)
    timer.start()
    lines = []
    try:
        for raw in process.stdout:
            line = raw.decode(errors="replace").rstrip()
            lines.append(line)
            if show(line):
                print(line, flush=True)
        process.wait()
    finally:
        timer.cancel()
        process.kill()
        process.wait()
    return lines, timed_out.is_set()


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
