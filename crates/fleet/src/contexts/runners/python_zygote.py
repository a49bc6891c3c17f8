# The interpreter of a nursery: it imports what its template names, and then waits to be forked into sandboxes. It never
# runs code of a caller's. What it does in a child is the child's own confinement; the guest in there looks at what came
# of it before it takes the child in, so that nothing here has to be believed.
# Python 3.9 and later, with ctypes: no other way leads from here to setns and to the layers.
# What is the same for all children is made before the first of them: every page that a child writes to is copied for it.

import _signal
import array
import ctypes
import gc
import importlib
import json
import mmap
import os
import platform
import signal
import socket
import stat
import struct
import sys

LARGEST_PACKET = 1 << 20
MOST_DESCRIPTORS = 16
CONTROL_NUMBER = 3
ANSWER_NUMBER = 4

PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_SECUREBITS, PR_CAP_AMBIENT = 4, 22, 24, 28, 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
SECCOMP_MODE_FILTER = 2
# No root, no change of capabilities with the id, no raising of ambient ones; each locked.
SECURE_BITS = 1 | 2 | 4 | 8 | 64 | 128
SYS_SETNS = {"x86_64": 308, "aarch64": 268}.get(platform.machine())
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
# Python rewrites a function's code for the kinds of values that it saw, some calls after the first: enough of them that
# it has been done once for all children.
REHEARSALS = 20

library = ctypes.CDLL(None, use_errno=True)
library.syscall.restype = ctypes.c_long
library.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
library.mmap.restype = ctypes.c_void_p

CAPABILITIES, NO_CAPABILITIES = struct.pack("Ii", 0x20080522, 0), bytes(24)
MOST_OPEN = os.sysconf("SC_OPEN_MAX")


def call(name, *arguments):
    if getattr(library, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (name, os.strerror(number)))


def system_call(number, *arguments):
    result = library.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, "system call %d: %s" % (number, os.strerror(error)))
    return result


def prctl(option, one, two=0):
    call("prctl", option, one, two, 0, 0)


class Plan:
    """What all children with one request are to be. Each of a template comes with the same, which is its own and no caller's."""

    def __init__(self, packet):
        self.packet = packet
        request = json.loads(packet)
        self.names, self.uid, self.gid, self.cwd = (request[name] for name in ("namespaces", "uid", "gid", "cwd"))
        self.groups = [self.gid]
        self.landlock = Landlock(request["writable"], request["scope_abstract_sockets"])
        self.last_filter = Filter(SYS_SETNS)
        # A child has the environment that its nursery has when it is forked.
        os.environ.clear()
        os.environ.update(request["env"])


class Birth:
    """One child."""

    def __init__(self, plan, descriptors):
        self.plan = plan
        self.namespaces = dict(zip(plan.names, descriptors))
        self.stdout, self.stderr, self.control, self.answer = descriptors[len(plan.names) :]

    def tell(self, text):
        try:
            os.write(self.answer, text.encode("utf-8", "replace")[:1000])
        except OSError:
            pass

    def enter(self):
        """In the child of the child, which is in the sandbox's pid namespace and its guest's own from here on."""
        call("setns", self.namespaces.pop("user"), 0)
        self.namespaces.pop("pid")
        for descriptor in self.namespaces.values():
            call("setns", descriptor, 0)
        os.setsid()
        # Without the names of signals, which the other one looks up.
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        self.take_streams()
        self.give_up()
        os.chdir(self.plan.cwd)
        while os.getppid() != 1:
            os.sched_yield()

    def take_streams(self):
        null = os.open("/dev/null", os.O_RDONLY)
        # Away from the numbers that they are to have.
        above = max(self.stdout, self.stderr, self.control, self.answer, null, ANSWER_NUMBER)
        wanted = (null, self.stdout, self.stderr, self.control, self.answer)
        for place, number in enumerate(wanted):
            os.dup2(number, above + 1 + place, inheritable=False)
        for place in range(len(wanted)):
            os.dup2(above + 1 + place, place, inheritable=place < CONTROL_NUMBER)
        self.control, self.answer = CONTROL_NUMBER, ANSWER_NUMBER
        os.closerange(ANSWER_NUMBER + 1, MOST_OPEN)

    def give_up(self):
        """Everything that entering took, and the layers of all work."""
        plan, drop = self.plan, library.prctl
        for number in range(64):
            if drop(PR_CAPBSET_DROP, number, 0, 0, 0) < 0:
                break
        prctl(PR_SET_SECUREBITS, SECURE_BITS)
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
        os.setgroups(plan.groups)
        os.setresgid(plan.gid, plan.gid, plan.gid)
        os.setresuid(plan.uid, plan.uid, plan.uid)
        call("capset", CAPABILITIES, NO_CAPABILITIES)
        # Changing ids hides a process from its own guest, too.
        prctl(PR_SET_DUMPABLE, 1)
        plan.landlock.restrict()
        plan.last_filter.put_on()


class Landlock:
    """As the guest has it for commands: reads everywhere, writes where the sandbox may."""

    def __init__(self, writable, scope_abstract_sockets):
        self.paths = []
        try:
            abi = system_call(LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(1))
        except OSError:
            return  # A kernel without it has it for nobody.
        rights = (1 << 13) - 1
        for since, bit in ((2, 13), (3, 14), (5, 15)):
            if abi >= since:
                rights |= 1 << bit
        reading = 1 << 0 | 1 << 2 | 1 << 3
        self.for_files = (1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15) & rights
        self.attributes = struct.pack("QQQ", rights, 0, 1 if scope_abstract_sockets and abi >= 6 else 0)
        self.size = ctypes.c_size_t(8 if abi < 4 else 16 if abi < 6 else 24)
        self.paths = [("/", reading)] + [(path, rights) for path in writable]
        self.nothing, self.beneath = ctypes.c_uint(0), ctypes.c_int(1)

    def restrict(self):
        if not self.paths:
            return
        rules = system_call(LANDLOCK_CREATE, self.attributes, self.size, self.nothing)
        number = ctypes.c_int(rules)
        for path, allowed in self.paths:
            try:
                place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue
            if not stat.S_ISDIR(os.fstat(place).st_mode):
                allowed &= self.for_files
            rule = struct.pack("=Qi", allowed, place)
            system_call(LANDLOCK_ADD, number, self.beneath, rule, self.nothing)
            os.close(place)
        system_call(LANDLOCK_RESTRICT, number, self.nothing)
        os.close(rules)


class Filter:
    """One system call more that does not exist for it; those of foreign architectures kill it already."""

    def __init__(self, number):
        load, equal, answer = 0x20, 0x15, 0x06
        program = b"".join(
            struct.pack("HBBI", *instruction)
            for instruction in (
                (load, 0, 0, 0),
                (equal, 0, 1, number),
                (answer, 0, 0, 0x00050001),  # EPERM
                (answer, 0, 0, 0x7FFF0000),  # allowed
            )
        )
        self.program = ctypes.create_string_buffer(program, len(program))
        length, place = len(program) // 8, ctypes.addressof(self.program)
        self.description = ctypes.create_string_buffer(struct.pack("HxxxxxxP", length, place), 16)
        self.place = ctypes.addressof(self.description)

    def put_on(self):
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, self.place)


def shared_memory():
    """What the template shares with its children, before they are told apart."""
    with open("/proc/self/maps") as maps:
        fields = [line.split(None, 2)[:2] for line in maps]
    return [(place, rights) for place, rights in fields if "w" in rights and "s" in rights]


def separate(shared):
    """Memory that the template shares with its children becomes a copy of their own."""
    for place, rights in shared:
        start, end = (int(number, 16) for number in place.split("-"))
        content = ctypes.string_at(start, end - start) if "r" in rights else b""
        protection = sum(bit for letter, bit in (("r", 1), ("w", 2), ("x", 4)) if letter in rights)
        # Private, anonymous, in the same place.
        flags = 0x02 | 0x20 | 0x10
        arguments = (ctypes.c_void_p(start), ctypes.c_size_t(end - start), protection, flags, -1, ctypes.c_long(0))
        if library.mmap(*arguments) != start:
            raise OSError("memory at %s cannot be separated" % place)
        ctypes.memmove(start, content, len(content))


class Forks:
    """Forks whose parent is gone at once, so that they become children of their pid namespace's first process."""

    # int between(int (*fork)(void), int *forked): a vfork, and in it the fork. Who stands between has this memory and no
    # copy of it, which is what costs. It touches no stack above its own, tells what fork said, and ends.
    BETWEEN = bytes.fromhex(
        "53"  # push rbx
        "4154"  # push r12
        "4883ec08"  # sub rsp, 8
        "4889fb"  # mov rbx, rdi
        "4989f4"  # mov r12, rsi
        "b83a000000"  # mov eax, vfork
        "0f05"  # syscall
        "85c0"  # test eax, eax
        "7513"  # jnz out: this is who called
        "ffd3"  # call rbx
        "85c0"  # test eax, eax
        "740d"  # jz out: this is the child
        "41890424"  # mov [r12], eax
        "31ff"  # xor edi, edi
        "b83c000000"  # mov eax, exit
        "0f05"  # syscall
        "4883c408"  # out: add rsp, 8
        "415c"  # pop r12
        "5b"  # pop rbx
        "c3"  # ret
    )

    def __init__(self):
        self.between = None
        if platform.machine() != "x86_64":
            return
        self.code = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE)
        self.code.write(self.BETWEEN)
        place = ctypes.addressof(ctypes.c_char.from_buffer(self.code))
        size, rights = ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ | mmap.PROT_EXEC
        if library.mprotect(ctypes.c_void_p(place), size, rights) == 0:
            self.fork = ctypes.cast(library.fork, ctypes.c_void_p)
            self.forked = ctypes.c_int(0)
            # Not let go of the interpreter's lock: between the two there is to be nobody else.
            self.between = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(place)

    def one(self):
        """0 in the child."""
        if self.between is None:
            return self.two()
        python = ctypes.pythonapi
        self.forked.value = 0
        python.PyOS_BeforeFork()
        result = self.between(self.fork, ctypes.addressof(self.forked))
        if result == 0:
            python.PyOS_AfterFork_Child()
            return 0
        python.PyOS_AfterFork_Parent()
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        if self.forked.value < 0:
            raise OSError("the second fork failed")
        return result

    @staticmethod
    def two():
        """The same where there is no code for the machine."""
        child = os.fork()
        if child == 0 and os.fork() != 0:
            os._exit(0)
        return child


class Requests:
    """What comes over the socket, read into memory that stays."""

    def __init__(self, host):
        self.host = host
        self.buffer = bytearray(LARGEST_PACKET)
        self.room = socket.CMSG_SPACE(MOST_DESCRIPTORS * array.array("i").itemsize)

    def next(self):
        """The packet, and the descriptors with it; none when the host has gone."""
        length, ancillary, _, _ = self.host.recvmsg_into([self.buffer], self.room, socket.MSG_CMSG_CLOEXEC)
        descriptors = array.array("i")
        for _, _, data in ancillary:
            descriptors.frombytes(data)
        return self.buffer[:length], descriptors


def serve(host, renew):
    """Returns in children only."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    forks, requests, plan = Forks(), Requests(host), None
    home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    # Looked for once: what comes later the guest finds, and does not take such a child in.
    shared = shared_memory()
    while True:
        packet, descriptors = requests.next()
        if not packet:
            os._exit(0)
        if plan is None or plan.packet != packet:
            plan = Plan(packet)
        birth = Birth(plan, descriptors)
        try:
            call("setns", birth.namespaces["pid"], 0)
            child = forks.one()
        except OSError as failure:
            birth.tell("the zygote could not fork: %s" % failure)
            child = -1
        if child == 0:
            return born(birth, shared, renew)
        call("setns", home, 0)
        for descriptor in descriptors:
            os.close(descriptor)


def born(birth, shared, renew):
    try:
        if shared:
            separate(shared)
        birth.enter()
        renew(True)
        birth.tell("born %d" % os.getpid())
        os.close(birth.answer)
        return birth
    except BaseException as failure:
        birth.tell("the child could not become one of the sandbox: %s: %s" % (type(failure).__name__, failure))
        os._exit(1)


def warm_up(runner):
    """What every first call does is done here, so that children find it done."""
    streams = ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__")
    before = [(name, getattr(sys, name)) for name in streams]
    program, arguments, handler = sys.modules["__main__"], sys.argv, signal.getsignal(signal.SIGINT)
    for _ in range(REHEARSALS):
        one, other = socket.socketpair()
        with one:
            control = runner["Control"](other.detach())
            rehearsed = runner["Runner"](control)
            rehearsed.rehearse()
            rehearsed.standard.close()
            control.close()
    for name, stream in before:
        setattr(sys, name, stream)
    sys.modules["__main__"], sys.argv = program, arguments
    signal.signal(signal.SIGINT, handler)


def keep_page_tables():
    """What is mapped of files a child would look up again, page by page, at its first touch; what a process has changed is
    handed down at the fork. So one byte of each such mapping is written, as it was."""
    try:
        with open("/proc/self/maps") as maps:
            mapped = [line.split(None, 5) for line in maps]
        memory = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return  # It only would have been quicker.
    for fields in mapped:
        if len(fields) == 6 and fields[5].startswith("/") and fields[1] in ("r--p", "r-xp"):
            place = int(fields[0].partition("-")[0], 16)
            try:
                os.pwrite(memory, os.pread(memory, 1, place), place)
            except OSError:
                continue
    os.close(memory)


def prepare_interactive(runner):
    """What a child uses at its first call where the template has it, and does not look for where it has not."""
    try:
        importlib.import_module("IPython.core.interactiveshell")
        importlib.import_module("IPython.display")
    except ImportError:
        runner["ipython"] = lambda _: None


def main():
    host = socket.socket(fileno=int(os.environ.pop("PADDOCK_ZYGOTE")))
    runner = {"__name__": "paddock_runner", "CONTROL": -1}
    exec(compile(host.recv(LARGEST_PACKET), "<paddock runner>", "exec"), runner)
    try:
        if SYS_SETNS is None:
            raise OSError("no fork into sandboxes on %s" % platform.machine())
        for name in json.loads(host.recv(LARGEST_PACKET)):
            importlib.import_module(name)
        warm_up(runner)
        prepare_interactive(runner)
        runner["Loaded"].look()
    except BaseException as failure:
        host.send(("%s: %s" % (type(failure).__name__, failure)).encode("utf-8", "replace")[:1000])
        os._exit(1)
    sys.stdout.flush()
    sys.stderr.flush()
    gc.collect()
    gc.freeze()
    keep_page_tables()
    host.send(b"ready")
    birth = serve(host, runner["renew"])
    host.detach()
    runner["CONTROL"] = birth.control
    return runner["main"]


program = main()(rehearsed=True)
if program is not None:
    program()
