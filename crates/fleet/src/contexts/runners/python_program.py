# Fifth part of the Python runner: a whole program, which runs as `python3 FILE` would run it, in an interpreter that was there
# before it was asked for. The runner is left first: no frame of its own is below the program, and the process ends with it.
# ruff: noqa: F821

import builtins
import gc
import importlib.machinery
import io
import os
import pwd
import signal
import sys
import types

# As the interpreter began: a runner puts streams of its own in their place.
BEGAN = {name: (getattr(sys, name).encoding, getattr(sys, name).errors) for name in ("stdin", "stdout", "stderr")}
MATPLOTLIB_BEGAN = os.environ.get("MPLBACKEND")
# Python, the dynamic linker and the C library read variables of these names once, when a process begins.
READ_AT_THE_BEGINNING = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "MALLOC_", "GLIBC_")
# Packages that import all of their submodules that are loaded here.
WHOLE_PACKAGES = {"collections", "ctypes", "encodings", "json", "os", "re"}
# Of the loader, the runner and `Program.__call__`, which a program in a process of its own has not below it. Before 3.12 each call of
# `exec` counted twice.
FRAMES_BELOW = 6 if sys.version_info < (3, 12) else 3
_open, _exec_program, _compile_program = open, exec, compile


def read_at_the_beginning():
    return {name: value for name, value in os.environ.items() if name.startswith(READ_AT_THE_BEGINNING)}


BEGAN_WITH = read_at_the_beginning()
# With modules that every interpreter imports when it begins: this is read before a template's.
PACKAGES_BEGAN = {name.partition(".")[0] for name in sys.modules if "." in name}


class Loaded:
    """Modules that were loaded for others: the runner, IPython, or what a template preloads."""

    count = 0
    packages = foreign = ()

    @classmethod
    def look(cls):
        """Done before the fork: a name that is read is a page that is copied."""
        if cls.count == _len(sys.modules):
            return
        cls.count = _len(sys.modules)
        standard = getattr(sys, "stdlib_module_names", None)
        packages = {name.partition(".")[0] for name in sys.modules if "." in name} - WHOLE_PACKAGES - PACKAGES_BEGAN
        cls.packages = [name.encode() for name in packages if standard is None or name in standard]
        roots = {name.partition(".")[0] for name in sys.modules} - {"__main__"}
        cls.foreign = [name.encode() for name in roots if standard is None or name not in standard]


class Program:
    """Called when every frame of the runner is gone. What it raises ends the interpreter, in the interpreter's own way."""

    def __init__(self, runner, fields):
        self.fields = {name: value for name, value in fields if name != "env"}
        self.path = self.fields["path"].decode()
        with _open(self.path, "wb") as file:
            file.write(self.fields["code"])
        runner.standard.feed(self.fields.get("stdin"))
        runner.standard.close()
        runner.control.close()
        self.take_home()
        if self.would_differ():
            os.execv(sys.executable, ["python3", self.path])
        # Objects of the runner are as little the program's as those that were there before a fork.
        _freeze()
        self.take_streams()
        self.take_names()

    def would_differ(self):
        """True for a program that could tell this interpreter from a new one: it has other variables that are read once, or names a
        package of the standard library of which more is loaded than the package itself imports. `import urllib` alone would give it
        `urllib.parse`. Modules that were imported for others are the reason: IPython's, or those that a template preloads."""
        if read_at_the_beginning() != BEGAN_WITH:
            return True
        Loaded.look()
        return any(name in self.fields["code"] for name in Loaded.packages)

    @staticmethod
    def take_streams():
        for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
            encoding, errors = BEGAN[name]
            binary = _open(number, mode + "b", closefd=False)
            binary.raw.name = "<%s>" % name
            stream = io.TextIOWrapper(binary, encoding, errors, "\n", name == "stderr")
            stream.mode = mode
            setattr(sys, name, stream)
            setattr(sys, "__%s__" % name, stream)

    @staticmethod
    def take_home():
        """Variables as a command has them. An interpreter that was forked into its sandbox began before it had a user."""
        try:
            os.environ.setdefault("HOME", pwd.getpwuid(os.getuid()).pw_dir)
        except KeyError:
            os.environ["HOME"] = "/"
        if MATPLOTLIB_BEGAN is None:
            os.environ.pop("MPLBACKEND", None)

    def take_names(self):
        add_package_places()
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not Packages]
        sys.path[:] = [os.path.dirname(self.path), *(place for place in sys.path if place)]
        sys.argv = [self.path]
        if hasattr(sys, "orig_argv"):
            sys.orig_argv = ["python3", self.path]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        module = types.ModuleType("__main__")
        self.names = module.__dict__
        self.names["__loader__"] = importlib.machinery.SourceFileLoader("__main__", self.path)
        if sys.version_info < (3, 14):
            self.names["__annotations__"] = {}
        self.names["__builtins__"] = builtins
        self.names["__file__"] = self.path
        self.names["__cached__"] = None
        sys.modules["__main__"] = module

    def __call__(self):
        # Everything that stays here outlives the program: the runner is never collected in a fork, and what it held would not end either.
        code, names = self.fields.pop("code"), self.__dict__.pop("names")
        ending = Ending(code, Loaded.foreign)
        sys.setrecursionlimit(sys.getrecursionlimit() + FRAMES_BELOW)
        failure = None
        try:
            _exec_program(_compile_program(code, self.path, "exec", dont_inherit=True), names)
        except SystemExit as stop:
            self.flush()
            ending.leave_with(stop)
            raise
        except BaseException as raised:
            raised.__traceback__ = raised.__traceback__.tb_next
            failure = raised
        self.flush()
        if failure is None:
            ending.leave(0)
        else:
            trace = failure.__traceback__
            self.tell(failure, trace)
            hook = getattr(sys, "excepthook", None)

            def told(*_):
                """In the place of the hook, which was called: this leaves all as the interpreter leaves it."""
                failure.__traceback__ = sys.last_traceback = trace
                sys.excepthook = hook

            sys.excepthook = told
            # Python ends itself by SIGINT after a KeyboardInterrupt.
            if not isinstance(failure, KeyboardInterrupt):
                ending.leave(1)
            raise failure

    @staticmethod
    def flush():
        """As Python does after a file. What fails here fails at the end again, and is told then."""
        for name in ("stderr", "stdout"):
            try:
                getattr(sys, name).flush()
            except BaseException:
                pass

    @staticmethod
    def tell(failure, trace):
        """As the interpreter does, which would show the frames below the program."""
        sys.last_type, sys.last_value, sys.last_traceback = type(failure), failure, trace
        if sys.version_info >= (3, 12):
            sys.last_exc = failure
        try:
            hook = sys.excepthook
        except AttributeError:
            sys.stderr.write("sys.excepthook is missing\n")
            return sys.__excepthook__(type(failure), failure, trace)
        other = None
        try:
            hook(type(failure), failure, trace)
        except SystemExit:
            raise
        except BaseException as raised:
            other = raised
        if other is not None:
            sys.stderr.write("Error in sys.excepthook:\n")
            other.__traceback__ = other.__traceback__.tb_next
            sys.__excepthook__(type(other), other, other.__traceback__)
            sys.stderr.write("\nOriginal exception was:\n")
            sys.__excepthook__(type(failure), failure, trace)
