# The Python runner of a code context. It shares its process with the code that it runs, so that nothing here is a
# fence: it only has to work for code that means well, and to fail for itself alone with code that does not.
# Python 3.8 and later, standard library only; IPython, pandas and matplotlib are used where they are.
# python_values.py, python_charts.py, python_ipython.py, python_packages.py, python_program.py and python_end.py come before it: the seven are
# one program, put together in languages.rs.
# ruff: noqa: F821

import ast
import builtins
import fcntl
import gc
import importlib
import linecache
import signal
import socket
import struct
import termios
import time
import traceback
import types

DRAIN_SECONDS = 0.05
PARSER = ast.__file__
ONLY_TREE = ast.PyCF_ONLY_AST

# Kept here, so that code which replaces them in their modules does not break the next call.
_getpid, _exit, _dup2, _close = os.getpid, os._exit, os.dup2, os.close
_compile, _exec, _eval = compile, exec, eval
_set_signal, _monotonic, _sleep = signal.signal, time.monotonic, time.sleep
_INTERRUPT = signal.default_int_handler


class Control:
    """The private stream to the host."""

    encode = staticmethod(encode)

    def __init__(self, number):
        os.set_inheritable(number, False)
        self.socket = socket.socket(fileno=number)
        self.socket.setblocking(True)
        self.received = self.socket.makefile("rb", 65536)
        self.send = self.socket.sendall

    def close(self):
        self.received.close()
        self.socket.close()

    def wait(self):
        """Until there is something, which stays where it is."""
        self.socket.recv(1, socket.MSG_PEEK)

    def has_more(self):
        return bool(unread(self.socket.fileno()))

    def line(self):
        word, number = self.received.readline(200).split()
        return word.decode(), int(number)

    def read(self):
        """The next frame: its kind, and its fields; None when the host has gone."""
        head = self.received.readline(200)
        if not head:
            return None, []
        kind, count = head.split()
        fields = []
        for _ in range(int(count)):
            name, length = self.line()
            fields.append((name, self.received.read(length)))
            self.received.read(1)
        return kind.decode(), fields


class Stream(io.RawIOBase):
    """Standard output or error. Before one follows the other, the other is read empty: so they keep their order."""

    last = None

    def __init__(self, number):
        self.number = number
        self.mode = "wb"

    def writable(self):
        return True

    def fileno(self):
        return self.number

    def isatty(self):
        return False

    def write(self, data):
        if Stream.last is not self:
            if Stream.last is not None:
                drained(Stream.last.number)
            Stream.last = self
        return os.write(self.number, data)

    def __repr__(self):
        return "<output of the context>"


def unread(number, question=termios.FIONREAD):
    return struct.unpack("i", fcntl.ioctl(number, question, b"\0\0\0\0"))[0]


def drained(number, question=termios.FIONREAD):
    """Waits a moment until what was written there has been read."""
    until = None
    while True:
        try:
            waiting = unread(number, question)
        except OSError:
            return
        if not waiting:
            return
        now = _monotonic()
        if until is None:
            until = now + DRAIN_SECONDS
        elif now > until:
            return
        _sleep(0.00005)


def text_stream(number):
    return io.TextIOWrapper(
        Stream(number), encoding="utf-8", errors="backslashreplace", newline="\n", write_through=True
    )


class Standard:
    """The standard streams, put back in order before each call: code may close or replace them."""

    def __init__(self):
        self.kept = {number: fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 100) for number in (1, 2)}
        self.null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        self.install()

    def install(self):
        sys.stdout = sys.__stdout__ = text_stream(1)
        sys.stderr = sys.__stderr__ = text_stream(2)
        sys.stdin = sys.__stdin__ = open(0, "r", encoding="utf-8", errors="replace", closefd=False)

    def prepare(self, given):
        for number, kept in self.kept.items():
            if not same(number, kept):
                _dup2(kept, number)
        Stream.last = None
        for name in ("stdout", "stderr"):
            stream = _getattr(sys, name, None)
            try:
                usable = not stream.closed and callable(stream.write)
            except Exception:
                usable = False
            if not usable:
                self.install()
        self.feed(given)

    def feed(self, given):
        if given is None:
            source = self.null
        else:
            source = os.memfd_create("stdin", os.MFD_CLOEXEC)
            view = memoryview(given)
            while view:
                view = view[os.write(source, view):]
            os.lseek(source, 0, os.SEEK_SET)
        _dup2(source, 0)
        if source != self.null:
            _close(source)
        sys.stdin = open(0, "r", encoding="utf-8", errors="replace", closefd=False)

    def close(self):
        for number in (*self.kept.values(), self.null):
            _close(number)

    @staticmethod
    def flush():
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException:
                pass


def tell(text):
    """On the real standard error, whatever the code made of it."""
    if Stream.last is not None and Stream.last.number != 2:
        drained(Stream.last.number)
    try:
        view = memoryview(text.encode("utf-8", "backslashreplace"))
        while view:
            view = view[os.write(2, view):]
    except OSError:
        pass


def same(one, other):
    try:
        first, second = os.fstat(one), os.fstat(other)
        return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)
    except OSError:
        return False


def renew(forked):
    """What no two interpreters may have in common though their memory was the same."""
    loaded = sys.modules.get
    if not forked and loaded("random") is not None:
        # At a fork it does so itself.
        loaded("random").seed()
    if loaded("numpy.random") is not None:
        loaded("numpy.random").seed()
    if loaded("torch") is not None:
        loaded("torch").seed()
    if loaded("tempfile") is not None:
        loaded("tempfile")._name_sequence = None
    if loaded("uuid") is not None:
        loaded("uuid")._last_timestamp = None
        loaded("uuid")._node = None
    if loaded("ssl") is not None:
        loaded("ssl").RAND_add(os.urandom(32), 32.0)


# Running


class Runner:
    def __init__(self, control):
        self.control = control
        self.process = _getpid()
        self.standard = Standard()
        self.module = types.ModuleType("__main__")
        self.module.__dict__["__builtins__"] = builtins
        sys.modules["__main__"] = self.module
        self.names = self.module.__dict__
        self.names["display"] = self.display
        self.count = 0
        self.loop = None
        self.pending = []
        self.shell = None
        # Between two calls, and whether the next one was interrupted before it began.
        self.idle = False
        self.interrupted = False
        _set_signal(signal.SIGINT, self.early)
        sys.argv = [""]
        os.environ.setdefault("MPLBACKEND", "Agg")

    def rehearse(self):
        """A call of nobody's: what is done at a first one is done before there is one, and leaves nothing behind."""
        send, names = self.control.send, dict(self.names)
        self.control.send = _len
        self.count = 1
        self.answer({"env": [], "call": b"0", "code": b"print(end='')\n1"})
        self.control.send = send
        linecache.cache.clear()
        self.names.clear()
        self.names.update(names)
        self.count = 0

    def early(self, number, frame):
        """An interrupt while no code runs: for the call that is on its way, if one is; else it came too late."""
        if not self.idle or self.control.has_more():
            self.interrupted = True

    def heed_no_more(self):
        """A second interrupt may come just here, and is for nobody: what it meant has ended."""
        while True:
            try:
                return _set_signal(signal.SIGINT, self.early)
            except KeyboardInterrupt:
                continue

    def serve(self):
        """Until the host has gone, or has a program that takes the place of the runner."""
        while True:
            if self.idle:
                # Looked at before it is taken: an interrupt has to know whether a call is on its way.
                self.control.wait()
                self.idle = False
            kind, fields = self.control.read()
            if kind is None:
                return None
            if kind == "setup":
                self.setup(fields)
            if kind == "carried":
                self.carried(dict(fields))
            if kind == "program":
                return Program(self, fields)
            if kind != "run":
                continue
            request = {"env": []}
            for name, value in fields:
                if name == "env":
                    request["env"].append(value)
                else:
                    request[name] = value
            self.answer(request)

    def carried(self, fields):
        """This is a copy, in another sandbox."""
        self.process = _getpid()
        renew(False)
        if "rehearse" in fields:
            self.touch()

    def touch(self):
        """Does of what a call does what nobody sees, by nothing that code could have replaced: a copy gets memory of its own
        where it writes first, which takes time."""
        try:
            names = {"__builtins__": {"len": _len}}
            _exec(_compile(_compile("len(())", "<cell>", "exec", ONLY_TREE), "<cell>", "exec"), names)
            _repr(_eval(_compile("len(())", "<cell>", "eval"), names))
            Control.encode("done", [("call", b"0"), ("exit_code", "0")])
        except BaseException:
            pass

    def setup(self, fields):
        """For an interpreter that was there before its sandbox had a caller."""
        failed = []
        for name, value in fields:
            if name == "env":
                name, _, value = value.partition(b"=")
                os.environb[name] = value
            elif name == "cwd":
                try:
                    os.chdir(value)
                except OSError as failure:
                    tell("%s\n" % failure)
            elif name == "preload":
                try:
                    importlib.import_module(value.decode())
                except Exception as failure:
                    failed.append("%s: %s: %s" % (value.decode(), _type(failure).__name__, failure))
                    tell("preload %s\n" % failed[-1])
            elif name == "settle":
                self.settle(failed)
            elif name == "renew":
                renew(False)

    def settle(self, failed):
        """Before its memory is kept for others to begin with: what a first call does is done."""
        for name in ("IPython.core.interactiveshell", "IPython.display"):
            try:
                importlib.import_module(name)
            except ImportError:
                break
        self.rehearse()
        Loaded.look()
        gc.collect()
        gc.freeze()
        self.control.send(Control.encode("settled", [("failed", "; ".join(failed))] if failed else []))

    def answer(self, request):
        """One call. Whatever happens in it, the host hears its end."""
        self.pending = []
        error, code = None, 0
        before = self.enter(request)
        try:
            try:
                _set_signal(signal.SIGINT, _INTERRUPT)
                if self.interrupted:
                    raise KeyboardInterrupt
                self.run(request["code"].decode("utf-8", "replace"))
                for found in figures():
                    self.result(found, False)
            finally:
                self.heed_no_more()
        except SystemExit as stop:
            code = exit_code(stop)
            if code:
                error = describe(stop)
        except BaseException as failure:
            error, code = describe(failure), 1
        if _getpid() != self.process:
            # A fork of the code's came this far: it is not the context.
            Standard.flush()
            _exit(code)
        self.leave(before)
        Standard.flush()
        if error is not None:
            # For whoever reads only what was printed.
            if error[0] != "SystemExit":
                tell(error[2])
            self.pending.append(Control.encode("error", list(zip(("name", "value", "traceback"), error))))
        done = [("call", request["call"]), ("exit_code", _str(code))]
        self.pending.append(Control.encode("done", done))
        pending, self.pending = self.pending, []
        self.idle, self.interrupted = True, False
        self.control.send(b"".join(pending))

    def enter(self, request):
        self.standard.prepare(request.get("stdin"))
        self.look_for_packages()
        env = {}
        for entry in request["env"]:
            name, _, value = entry.partition(b"=")
            env[name] = os.environb.get(name)
            os.environb[name] = value
        cwd = None
        if "cwd" in request:
            try:
                cwd = os.getcwd()
            except OSError:
                cwd = "/"
            try:
                os.chdir(request["cwd"])
            except OSError as failure:
                # Told as the code's own failure, in its place.
                request["code"] = ("raise %s(%d, %r, %r)" % (
                    _type(failure).__name__, failure.errno, failure.strerror, request["cwd"].decode()
                )).encode()  # fmt: skip
        return env, cwd

    @staticmethod
    def look_for_packages():
        """Between two calls somebody may have installed some. Code that broke the path has its own failure, in its place."""
        try:
            add_package_places()
        except Exception:
            pass

    def leave(self, before):
        env, cwd = before
        for name, value in env.items():
            if value is None:
                os.environb.pop(name, None)
            else:
                os.environb[name] = value
        if cwd is not None:
            try:
                os.chdir(cwd)
            except OSError:
                pass

    def run(self, source):
        self.count += 1
        if self.shell is None and self.count == 1:
            self.shell = ipython(self)
        if self.shell is not None:
            return self.shell.run(source)
        name = "<cell %d>" % self.count
        linecache.cache[name] = (_len(source), None, source.splitlines(True), name)
        tree = ast.parse(source, name)
        last = None
        if tree.body and _isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
            last = ast.Expression(tree.body.pop().value)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        if tree.body:
            self.finish(_eval(_compile(tree, name, "exec", flags, dont_inherit=True), self.names))
        if last is not None:
            value = self.finish(_eval(_compile(last, name, "eval", flags, dont_inherit=True), self.names))
            if value is not None:
                self.names["_"] = value
                self.show_value(value)

    def finish(self, value):
        """What is to be awaited is awaited, in one loop for all calls."""
        if not _isinstance(value, types.CoroutineType):
            return value
        import asyncio

        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        task = self.loop.create_task(value)
        try:
            return self.loop.run_until_complete(task)
        except KeyboardInterrupt:
            task.cancel()
            try:
                self.loop.run_until_complete(task)
            except BaseException:
                pass
            raise

    def show_value(self, value):
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None and _isinstance(value, sys.modules["matplotlib.figure"].Figure):
            self.result(figure_bundle(value), True)
            pyplot.close(value)
            return
        self.result(bundle(value), True)

    def display(self, *values, **options):
        """Shows values in every representation that they have."""
        for value in values:
            if options.get("raw") and _isinstance(value, dict):
                self.result(value, False)
            else:
                self.result(bundle(value), False)

    def result(self, representations, main):
        encoded = encode_result(representations, main)
        if main:
            # Goes out together with the end.
            self.pending.append(encoded)
        else:
            Standard.flush()
            self.control.send(encoded)
            # Read before the code goes on: what it prints next comes after this.
            drained(self.control.socket.fileno(), termios.TIOCOUTQ)


def exit_code(stop):
    if stop.code is None:
        return 0
    if _isinstance(stop.code, int):
        return stop.code & 0xFF
    print(stop.code, file=sys.stderr)
    return 1


def describe(failure):
    """Name, value and traceback, without the runner's own frames."""
    name = _type(failure).__name__
    try:
        value = _str(failure)
    except BaseException:
        value = "<its text could not be made>"
    try:
        told = traceback.TracebackException(_type(failure), failure, own_part(failure.__traceback__))
        text = "".join(told.format())
    except BaseException:
        text = "%s: %s" % (name, value)
    return name[:500], value[:TEXT_LIMIT], text[:TEXT_LIMIT]


def own_part(trace):
    while trace is not None and is_own(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def is_own(name):
    return name in ("<paddock runner>", PARSER) or "/IPython/core/" in name


def main(rehearsed=False):
    control = Control(CONTROL)  # noqa: F821 - given by the loader
    runner = Runner(control)
    if rehearsed:
        runner.rehearse()
    control.send(Control.encode("ready", [("version", sys.version.split()[0])]))
    return runner.serve()


if CONTROL >= 0:  # noqa: F821 - a zygote calls it in its children
    program = main()
    if program is not None:
        program()
