# Sixth part of the Python runner: the end of a whole program. Python takes itself apart object by object, which in a fork copies every
# page that it touches, and takes longer than all that most programs do. A program of which nothing could notice that, because nothing
# that it made has anything left to do, ends as soon as it has written what it printed.
# ruff: noqa: F821

import _signal
import _thread
import _weakrefset
import atexit
import gc
import io
import itertools
import os
import sys
import types
import weakref

# Words of programs that end as ever: what they bring is done at the end, and no object that can be looked at says so.
ENDS_AS_EVER = tuple(b"__del__ __release_buffer__ _shutdown atexit audit builtins ctypes logging monitoring warn".split())
# Of the standard library, what has more to close than what its objects tell.
ENDS_WITH_MORE = frozenset(
    "_ctypes _curses _dbm _gdbm _interpreters _sqlite3 _tkinter _xxsubinterpreters ctypes curses dbm readline sqlite3 tkinter".split()
)
# Variables of which it is known that they do nothing at an end.
QUIET = ("LANG", "LC_", "TZ", "LD_LIBRARY_PATH", "MALLOC_ARENA_MAX")
QUIET_PYTHON = ("DONTWRITEBYTECODE", "HASHSEED", "IOENCODING", "NOUSERSITE", "PATH", "PYCACHEPREFIX", "UNBUFFERED", "USERBASE", "UTF8")
# More is not looked through: the list of it takes memory, of which there may be no more.
MOST_BLOCKS = 200_000
STANDARD = getattr(sys, "stdlib_module_names", ())
# Read past what a program's own classes answer.
_order, _namespace = type.__dict__["__mro__"].__get__, type.__dict__["__dict__"].__get__
_flags, _callback = type.__dict__["__flags__"].__get__, getattr(weakref.ref.__dict__.get("__callback__"), "__get__", None)
_IS_COLLECTED = 1 << 14
_OF_THE_LIBRARY = (vars(_weakrefset), vars(weakref))
_USUAL_HANDLERS = frozenset(map(id, (0, 1, None, _signal.default_int_handler)))
_objects, _freeze, _frozen = gc.get_objects, getattr(gc, "freeze", int), getattr(gc, "get_freeze_count", int)
_leave = os._exit
_FILES = (io.BufferedRandom, io.BufferedReader, io.BufferedRWPair, io.BufferedWriter, io.FileIO, io.TextIOWrapper)


class Ending:
    """Made before a program, and asked after it. It holds the program's streams, so that it must not outlive the program's call."""

    def __init__(self, code, foreign):
        self.modules = _len(sys.modules)
        self.callbacks = atexit._ncallbacks()
        self.blocks = sys.getallocatedblocks()
        self.streams = [sys.stdin, sys.stdout, sys.stderr]
        self.own = {id(part): list(vars(part)) for part in self.parts()}
        # Not every Python can set aside what was there before; this one would have to look at all of it.
        self.is_possible = _frozen() > 0 and is_quiet() and not any(word in code for word in (*ENDS_AS_EVER, *foreign))

    def leave(self, status):
        """Ends the process, or returns: Python does then all that it does at an end."""
        try:
            if self.is_possible and self.runs_nothing() and self.has_own_streams() and self.leaves_nothing():
                # Where this fails Python tries it again, and tells of it.
                for stream in self.streams[1:]:
                    stream.flush()
                _leave(status & 0xFF)
        except BaseException:
            pass

    def leave_with(self, stop):
        """For a SystemExit. Python prints one with an object itself."""
        status = 0 if stop.code is None else stop.code
        if _type(stop) is SystemExit and _type(status) in (int, bool) and -(1 << 31) <= status < 1 << 31:
            self.leave(status)

    def runs_nothing(self):
        """No thread of the program's is left, nor anything that it wants to be called. What a template's modules want is done."""
        if atexit._ncallbacks() != self.callbacks or not is_alone():
            return False
        if self.callbacks:
            atexit._run_exitfuncs()
        return is_alone()

    def parts(self):
        return [part for stream in self.streams for part in (stream, stream.buffer, stream.buffer.raw)]

    def has_own_streams(self):
        """As they were given to the program, with no function of its own on one of them."""
        now = (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__)
        are_there = all(one is other for one, other in zip(now, self.streams * 2))
        return are_there and all(self.own.get(id(part)) == list(vars(part)) for part in self.parts())

    def leaves_nothing(self):
        """No object has a finalizer that has something to do, and nobody wants to hear of an object's end."""
        if sys.getallocatedblocks() - self.blocks > MOST_BLOCKS or not self.knows_modules():
            return False
        objects = _objects()
        numbers = list(map(id, map(_type, objects)))
        kinds = dict(zip(numbers, map(_type, objects)))
        looked_at = {number for number, kind in kinds.items() if has_finalizer(kind) or is_kind_of(kind, type, weakref.ref)}
        found = itertools.compress(objects, map(looked_at.__contains__, numbers))
        return all(id(one) in self.own or ends_quietly(one, _type(one)) for one in found)

    def knows_modules(self):
        """True if the program imported modules of the standard library alone, which are known here."""
        more = _len(sys.modules) - self.modules
        roots = {name.partition(".")[0] for name in itertools.islice(reversed(sys.modules), more)}
        return all(root in STANDARD and root not in ENDS_WITH_MORE for root in roots)


def is_quiet():
    known = tuple("PYTHON" + name for name in QUIET_PYTHON) + QUIET
    flags = sys.flags
    return all(name.startswith(known) for name in BEGAN_WITH) and not (flags.verbose or flags.dev_mode or sys.warnoptions)


def is_alone():
    """No other thread, and no handler of a signal but the usual one."""
    handlers = map(_signal.getsignal, range(1, _signal.NSIG))
    return _thread._count() == 0 and _USUAL_HANDLERS.issuperset(map(id, handlers))


def has_finalizer(kind):
    return any("__del__" in _namespace(base) for base in _order(kind))


def is_kind_of(kind, *others):
    return any(base is other for base in _order(kind) for other in others)


def ends_quietly(one, kind):
    if is_kind_of(kind, type):
        # The objects of such a class are in no list of what is collected.
        return not has_finalizer(kind) and (_flags(one) & _IS_COLLECTED or not has_finalizer(one))
    if is_kind_of(kind, weakref.ref):
        return not has_finalizer(kind) and keeps_books(_callback(one))
    if kind is types.GeneratorType:
        # Before its first line, or after its last one.
        frame = one.gi_frame
        return frame is None or not getattr(one, "gi_suspended", frame.f_lasti != -1)
    if kind is io.StringIO or kind is io.BytesIO:
        return not vars(one)
    return any(kind is known for known in _FILES) and (one.closed or only_reads(one, kind))


def keeps_books(callback):
    """True if the end of an object only takes it out of a set or dictionary of the library's."""
    if _type(callback) is types.BuiltinFunctionType:
        # Of abstract classes: a function of this kind belongs to nobody else.
        return _type(callback.__self__) is weakref.ref
    is_function = _type(callback) is types.FunctionType
    return callback is None or is_function and any(callback.__globals__ is names for names in _OF_THE_LIBRARY)


def only_reads(file, kind):
    """A file that is open still and has nothing to write."""
    if any(name not in ("mode", "name") for name in vars(file)):
        return False
    if kind is io.TextIOWrapper:
        return _type(file.buffer) is io.BufferedReader
    if kind is io.BufferedReader:
        return _type(file.raw) is io.FileIO
    return kind is io.FileIO and file.mode == "rb"
