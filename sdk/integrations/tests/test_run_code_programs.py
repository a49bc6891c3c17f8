"""An interpreter that waited in its sandbox and becomes `python3 FILE` is no other than one that was started.

Each program runs both ways; a word of `fleet/execs/program.rs` in a comment makes the server start a process. `FACTS`
are small questions that one program asks; `PROGRAMS` are whole ones, with what they do to their process.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from program_ends import LATE, PROBE, QUICK, TRACED
from real_server import BINARY, Server

PROCESS = "\n# inspect"
COMMAND = "print(open('/proc/self/cmdline').read().split(chr(0))[1])"
STDIN = "first\r\nsecond\nthird"

#: Expressions. Each is asked alone, so that one that raises tells its exception.
FACTS = """
sys.argv
sys.orig_argv[1:]
sys.flags
sys.path
[type(finder).__name__ if not isinstance(finder, type) else finder.__name__ for finder in sys.meta_path]
len(sys.path_hooks)
sys.executable, sys.prefix, sys.base_prefix, sys.exec_prefix
sys.exc_info(), sys.warnoptions, sys._xoptions
sys.getswitchinterval(), sys.getdefaultencoding(), sys.getfilesystemencoding()
sys.dont_write_bytecode, sys.pycache_prefix
sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__
sys.unraisablehook is sys.__unraisablehook__, threading.excepthook is threading.__excepthook__
sys.stdin, sys.stdout, sys.stderr
sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__
[(stream.encoding, stream.errors, stream.newlines, stream.line_buffering, stream.write_through) for stream in (sys.stdin, sys.stdout, sys.stderr)]
[(type(stream), type(stream.buffer), type(stream.buffer.raw)) for stream in (sys.stdin, sys.stdout, sys.stderr)]
[(stream.name, stream.mode, stream.buffer.name, stream.buffer.mode) for stream in (sys.stdin, sys.stdout, sys.stderr)]
[(stream.fileno(), stream.isatty(), stream.closed, stream.buffer.raw.closefd) for stream in (sys.stdin, sys.stdout, sys.stderr)]
sys.stdin.seekable() == sys.stdin.buffer.seekable(), sys.stdout.seekable(), sys.stdout.readable(), sys.stdin.writable()
hasattr(sys, 'ps1'), hasattr(sys, 'last_value'), hasattr(sys, 'last_traceback')
sorted(os.environ.items())
sorted(os.environb)
subprocess.run(['env'], capture_output=True, text=True).stdout
os.getcwd(), os.listdir()
os.getuid(), os.geteuid(), os.getgid(), os.getegid(), os.getgroups()
os.getppid()
os.getpgrp() == os.getpid(), os.getsid(0) == os.getpid()
os.umask(0o22)
os.nice(0), os.sched_getscheduler(0), os.sched_getaffinity(0)
os.cpu_count()
os.open('/dev/null', os.O_RDONLY)
sorted(set(os.listdir('/proc/self/fd')))
[fcntl.fcntl(number, fcntl.F_GETFL) & (os.O_NONBLOCK | os.O_APPEND) for number in (0, 1, 2)]
[fcntl.fcntl(number, fcntl.F_GETFD) for number in (0, 1, 2)]
[stat.S_IFMT(os.fstat(number).st_mode) for number in (1, 2)]
[os.get_inheritable(number) for number in (0, 1, 2)]
[(number.name, str(signal.getsignal(number))) for number in signal.Signals]
signal.pthread_sigmask(signal.SIG_BLOCK, [])
signal.set_wakeup_fd(-1), signal.getitimer(signal.ITIMER_REAL)
threading.active_count(), threading.enumerate() == [threading.main_thread()]
threading.current_thread() is threading.main_thread(), threading.current_thread().name
threading.current_thread().native_id == os.getpid()
threading.stack_size()
atexit._ncallbacks()
warnings.filters
logging.root.handlers, logging.root.level, logging.lastResort
locale.setlocale(locale.LC_ALL), locale.getpreferredencoding(False)
time.tzname, time.strftime('%Z')
decimal.getcontext()
asyncio.get_event_loop_policy().__class__.__name__
multiprocessing.get_start_method(), multiprocessing.current_process().name, multiprocessing.active_children()
builtins.__dict__.keys() ^ set(dir(builtins))
sorted(dir(builtins))
[name for name in ('exit', 'quit', 'copyright', 'credits', 'license', 'help', '_', 'display') if name in builtins.__dict__]
sorted(globals())
list(globals())[:9]
__name__, __file__, __doc__, __package__, __spec__, __cached__ if '__cached__' in globals() else None
__builtins__ is builtins, type(__loader__).__name__, __loader__.name, __loader__.path, type(__loader__).__module__
__loader__.get_source('__main__') == open(__file__).read()
__import__('__main__').__dict__ is globals(), repr(__import__('__main__'))
type(__import__('__main__').__spec__)
linecache.getline(__file__, 1)
open(__file__, 'rb').read(12)
os.stat(__file__).st_mode, os.stat(__file__).st_uid, os.stat(__file__).st_gid
open('/proc/self/comm').read()
os.readlink('/proc/self/exe'), os.readlink('/proc/self/cwd')
[line for line in open('/proc/self/status') if line.split(':')[0] in ('Uid', 'Gid', 'Groups', 'CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'SigBlk', 'SigIgn', 'SigCgt', 'Threads', 'Umask', 'TracerPid', 'Seccomp')]
random.seed(7) or random.random()
random.getstate() == random.getstate()
codecs.lookup_error('strict').__name__
getattr(sys, 'getdlopenflags')()
sys.get_asyncgen_hooks(), sys.get_coroutine_origin_tracking_depth()
sys.stdout.line_buffering, os.get_terminal_size.__name__
site.ENABLE_USER_SITE, site.getsitepackages()
os.path.exists('__pycache__')
sys.float_repr_style, sys.int_info, sys.get_int_max_str_digits() if hasattr(sys, 'get_int_max_str_digits') else None
""".strip().splitlines()  # noqa: E501

PROGRAMS = {
    # Input, in the ways in which programs take it.
    "input": "print(repr(input()), repr(input()), repr(input()))\ninput()",
    "open 0": "print(repr(open(0).read()))",
    "read 0": "import os; print(os.read(0, 4), os.read(0, 100), os.read(0, 1))",
    "lines of stdin": "import sys\nfor line in sys.stdin: print(repr(line))\nprint(sys.stdin.read() == '')",
    "buffer of stdin": "import sys; print(sys.stdin.buffer.readlines())",
    "fileinput": "import fileinput\nfor line in fileinput.input(): print(fileinput.filename(), repr(line))",
    "input of a child": "import subprocess; subprocess.run(['cat'])",
    "reconfigured": "import sys; sys.stdin.reconfigure(newline=''); print(repr(sys.stdin.read()))",
    # Output, and its loss.
    "bytes": "import sys; sys.stdout.buffer.write(b'\\xff\\n'); sys.stdout.flush(); print('\\udcff')",
    "no encoding": "print('\\ud800')",
    "descriptors": "import os, sys; print('one'); os.write(1, b'two\\n'); os.system('echo three'); print('four')",
    "closed stdout": "import os; os.close(1); print('x')",
    "closed stream": "import sys; sys.stdout.close(); sys.stderr.write('still')",
    "replaced stdout": "import sys, io; sys.stdout = io.StringIO(); print('gone'); sys.__stdout__.write('kept')",
    "many bytes": "print('x' * 300000)",
    # Ends.
    "exit codes": "import sys\ntry: sys.exit(5)\nexcept SystemExit as stop: print(stop.code)\nsys.exit(-1)",
    "exit of 256": "raise SystemExit(256)",
    "exit with an object": "raise SystemExit({'a': 1})",
    "exit without": "import sys; sys.exit()",
    "quit": "print('x', end=''); quit(3)",
    "os._exit": "import os; print('lost'); os._exit(4)",
    "exit in a thread": "import threading, sys\nt = threading.Thread(target=sys.exit, args=(3,)); t.start(); t.join(); print('on')",  # noqa: E501
    "SIGTERM": "import os, signal; print('x', flush=True); os.kill(os.getpid(), signal.SIGTERM)",
    "SIGINT to itself": "import os, signal; print('x'); os.kill(os.getpid(), signal.SIGINT)",
    "SIGPIPE": "import os; r, w = os.pipe(); os.close(r)\ntry: os.write(w, b'x')\nexcept OSError as e: print(repr(e))",
    "segmentation fault": "import ctypes; print('x', flush=True); ctypes.string_at(0)",
    "abort": "import os; print('x', flush=True); os.abort()",
    "exec": "import os, sys; sys.stdout.flush(); os.execvp('python3', ['python3', '-c', 'import sys; print(sys.argv)'])",  # noqa: E501
    # Failures.
    "chain": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('x') from e",
    "context": "def f():\n    try: {}['k']\n    finally: raise OSError(2, 'no')\nf()",
    "group": "raise ExceptionGroup('g', [ValueError(1), TypeError(2)]) if 'ExceptionGroup' in dir(__builtins__) else ValueError(1)",  # noqa: E501
    "printed": "import traceback\ntry: 1 / 0\nexcept Exception: traceback.print_exc()\nprint(traceback.format_exc())",
    "own hook": "import sys\nsys.excepthook = lambda kind, value, trace: print('hook', kind.__name__, trace.tb_lineno, trace.tb_next)\n1 / 0",  # noqa: E501
    "hook that fails": "import sys\ndef hook(*_): raise KeyError('hook')\nsys.excepthook = hook\n1 / 0",
    "hook that exits": "import sys\nsys.excepthook = lambda *_: sys.exit(9)\n1 / 0",
    "last exception": "import sys, traceback\nsys.excepthook = lambda *_: traceback.print_last()\n1 / 0",
    "no hook": "import sys\ndel sys.excepthook\n1 / 0",
    "exception that cannot be told": "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
    "unraisable": "class A:\n    def __del__(self): raise ValueError('del')\nA()\nprint('on')",
    "exception in a thread": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='T'); t.start(); t.join(); print('on')",  # noqa: E501
    "exception at exit": "import atexit\n@atexit.register\ndef f(): raise ValueError('at exit')\nprint('x')",
    "async generator": "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    raise ValueError('async')\nasyncio.run(f())",  # noqa: E501
    "deep": "import sys\nsys.setrecursionlimit(20000)\ndef f(n): return n and f(n - 1) + 1\nprint(f(15000))",
    "syntax": "x = 1\nif x:\nprint(x)",
    "tabs": "if 1:\n\tprint(1)\n        print(2)",
    "warning of the compiler": "x = '\\d'\nprint(x is 'a')\nassert (1, 'x')",
    "own warning": "import warnings\nwarnings.warn('w')\nwarnings.warn('d', DeprecationWarning)\nwarnings.warn('w')",
    "carriage returns": "print(1)\r\nx = '''a\r\nb'''\r\nprint(repr(x))\r\n",
    "future": "from __future__ import annotations\ndef f(x: Nope): pass\nprint(f.__annotations__)",
    "annotations": "x: int = 1\nprint(__annotations__)",
    "docstring": "'''doc'''\nprint(__doc__)",
    "assert": "assert 1 == 2, 'no'",
    # Processes and threads.
    "fork": "import os\nprint('before')\npid = os.fork()\nif not pid:\n    print('child'); raise SystemExit(3)\nprint(os.waitpid(pid, 0)[1] >> 8)",  # noqa: E501
    "fork that fails": "import os, sys\nsys.stdout.flush()\npid = os.fork()\nif not pid: 1 / 0\nprint(os.waitpid(pid, 0)[1])",  # noqa: E501
    "spawn": "import multiprocessing as m\ndef f(x): return x + 1\nif __name__ == '__main__':\n    with m.get_context('spawn').Pool(1) as p: print(p.map(f, [1]))",  # noqa: E501
    "pool of processes": "from concurrent.futures import ProcessPoolExecutor as P\ndef f(x): return x + 1\nif __name__ == '__main__':\n    with P(2) as p: print(list(p.map(f, range(3))))",  # noqa: E501
    "pool of threads": "from concurrent.futures import ThreadPoolExecutor as P\nwith P(2) as p: print(list(p.map(str, range(3))))",  # noqa: E501
    "daemon": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nprint('x')",  # noqa: E501
    "alarm": "import signal, time\nsignal.signal(signal.SIGALRM, lambda *_: print('rang'))\nsignal.setitimer(signal.ITIMER_REAL, 0.05)\nsignal.pause()",  # noqa: E501
    "interrupt": "import os, signal\ntry: os.kill(os.getpid(), signal.SIGINT)\nexcept KeyboardInterrupt: print('caught')",  # noqa: E501
    "own Python": "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'import sys; print(sys.argv, sys.path[0])'], capture_output=True, text=True))",  # noqa: E501
    "descriptors of a child": "import subprocess\nprint(subprocess.run('ls -l /proc/self/fd | wc -l', shell=True, capture_output=True, text=True, close_fds=False).stdout)",  # noqa: E501
    "orphans": "import subprocess\nsubprocess.Popen(['sleep', '0.1'])\nprint('x')",
    "atexit and threads": "import atexit, threading, time\natexit.register(print, 'exit')\nthreading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()",  # noqa: E501
    "objects at the end": "class A:\n    def __del__(self): print('del', __name__)\na = A()\nb = [a]; b.append(b)",
    "weak references": "import weakref\nclass A: pass\na = A(); weakref.finalize(a, print, 'final')",
    # Modules of the standard library that look at the program.
    "unittest": "import unittest\nclass T(unittest.TestCase):\n    def test_x(self): self.assertEqual(1, 2)\nunittest.main()",  # noqa: E501
    "doctest": "'''\n>>> 1 + 1\n3\n'''\nimport doctest\nprint(doctest.testmod().failed)",
    "pickle": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))).__qualname__, A)",
    "dataclass": "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int = 1\nprint(A(), A.__module__)",
    "named tuple": "from collections import namedtuple\nA = namedtuple('A', 'x')\nprint(A(1), A.__module__)",
    "logging": "import logging\nlogging.basicConfig(format='%(filename)s %(funcName)s %(lineno)d %(message)s')\ndef f(): logging.warning('w')\nf(); logging.warning('m')",  # noqa: E501
    "argparse": "import argparse\np = argparse.ArgumentParser(); p.add_argument('--n', required=True); p.parse_args()",
    "import of itself": "import run_code\nprint(run_code.__name__, __name__)",
    "import that is not there": "import no_such_module_here",
    "runpy": "import runpy, sys\nif len(sys.argv) < 2:\n    sys.argv.append('x'); runpy.run_path(__file__, run_name='again')\nprint(__name__)",  # noqa: E501
    "getopt": "import sys, getopt\nprint(getopt.getopt(sys.argv[1:], 'a'))",
    "timeit": "import timeit\nprint(timeit.timeit('1', number=1) < 1)",
    "exec and eval": "exec('y = 2')\nprint(eval('y'), sorted(k for k in globals() if not k.startswith('_')))",
    "scope": "def f(): global z; z = 1\nf(); print(z, [z for z in range(2)], z)",
}


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(transport=httpx.HTTPTransport(uds=server.socket), base_url="http://paddock", timeout=300) as made:
        yield made


def paddock(server: Server, *words: str) -> str:
    environment = {**os.environ, "PADDOCK_URL": server.url}
    return subprocess.run([BINARY or "", *words], env=environment, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def ready(server: Server) -> Iterator[Callable[[], None]]:
    """Waits until the pool has sandboxes, in which an interpreter waits each."""
    paddock(server, "pool", "set", "code-interpreter", "--min", "2", "--max", "4")

    def wait() -> None:
        for _ in range(400):
            if paddock(server, "pool", "ls").splitlines()[1].split()[4] != "0":
                return
            time.sleep(0.05)
        raise AssertionError(paddock(server, "pool", "ls"))

    yield wait
    paddock(server, "pool", "rm", "code-interpreter")


def run(http: httpx.Client, code: str, path: str = "/run_code") -> dict[str, Any]:
    body = {"code": code, "language": "python", "stdin": STDIN, "run_timeout": 60}
    told = http.post(path, json=body).json()
    assert told["status"] in ("Success", "Failed"), told
    ran = told["run_result"]
    texts = {name: same_everywhere(ran[name]) for name in ("stdout", "stderr")}
    return {"status": ran["status"], "return_code": ran["return_code"], **texts}


def words() -> list[str]:
    """The server starts a process for programs with these."""
    source = (Path(__file__).resolve().parents[3] / "crates/fleet/src/execs/program.rs").read_text()
    listed = re.sub(r"\\\n\s*", "", source.partition('LOOKS_AROUND: &str = "')[2].partition('";')[0])
    return [word for word in listed.split("|") if word != r"\0"]


def same_everywhere(text: str) -> str:
    """Without addresses in memory and times."""
    return re.sub(r"\b\d+\.\d{3}s\b", "TIME", re.sub(r"\b0x[0-9a-f]+", "ADDRESS", text))


def both(http: httpx.Client, ready: Callable[[], None], code: str) -> list[dict[str, Any]]:
    assert not [word for word in words() if word in code], "a process would be started for both"
    told = []
    for comment in ("", PROCESS):
        ready()
        told.append(run(http, code + comment))
    return told


def asked() -> str:
    """One program for all facts: a dictionary of each expression with its value."""
    names = (
        "sys os signal threading atexit warnings logging locale time decimal asyncio multiprocessing builtins "
        "linecache random codecs site subprocess fcntl stat"
    )
    lines = [f"import {name} as _{name}" for name in names.split()]
    known = ", ".join(f"{name!r}: _{name}" for name in names.split())
    lines.append(f"_known = {{{known}}}")
    # The program has no other names than these and those that every program has.
    lines.append(f"for _fact in {FACTS!r}:")
    lines.append("    try: print(_fact, '->', repr(eval(_fact, {**_known, **globals()})))")
    lines.append("    except Exception as _failure: print(_fact, '->', repr(_failure))")
    lines.append(COMMAND)
    return "\n".join(lines)


def test_every_fact_of_the_process_is_the_same(http: httpx.Client, ready: Callable[[], None]) -> None:
    waited, started = both(http, ready, asked())
    assert started["return_code"] == 0, started["stderr"]
    assert len(started["stdout"].splitlines()) >= len(FACTS)
    *answers, commands = zip(*(told["stdout"].splitlines() for told in (waited, started)), strict=True)
    # The command line is the one thing that may differ, and shows that both ways were taken.
    assert commands == ("-c", "/workspace/run_code.py")
    assert not [pair for pair in answers if pair[0] != pair[1]]
    assert waited["stderr"] == started["stderr"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_ends_as_bare_python_ends_it(name: str, http: httpx.Client, ready: Callable[[], None]) -> None:
    waited, started = both(http, ready, PROGRAMS[name])
    assert waited == started


@pytest.mark.parametrize("name", QUICK)
def test_a_program_that_leaves_nothing_ends_at_once(name: str, http: httpx.Client, ready: Callable[[], None]) -> None:
    ready()
    version = run(http, "import sys; print(*sys.version_info[:2])")["stdout"]
    if os.geteuid() != 0 or tuple(map(int, version.split())) < (3, 10):
        pytest.skip("tests: no Python of a pool's that ends so: it takes root, and 3.10")
    waited, started = both(http, ready, QUICK[name])
    assert waited == started
    quick, whole = both(http, ready, PROBE + QUICK[name])
    assert (quick["return_code"], quick["status"]) == (waited["return_code"], waited["status"])
    assert whole["return_code"] != quick["return_code"], "the probe tells nothing"
    texts = ("stdout",) if name in TRACED else ("stdout", "stderr")
    assert [quick[text] for text in texts] == [waited[text] for text in texts]


@pytest.mark.parametrize("name", LATE)
def test_what_a_program_leaves_is_done_at_its_end(name: str, http: httpx.Client, ready: Callable[[], None]) -> None:
    waited, started = both(http, ready, LATE[name])
    assert waited == started
    waited, started = both(http, ready, PROBE + LATE[name])
    assert waited == started
    aborted = run(http, PROBE + PROCESS)
    assert waited["return_code"] == aborted["return_code"] != 0


def test_a_program_that_looks_around_has_a_process_of_its_own(http: httpx.Client, ready: Callable[[], None]) -> None:
    assert len(words()) > 20
    for line in [*(f"# {word}" for word in words()), "# -*- coding: utf-8 -*-", "#!/usr/bin/python3\n# coding=utf-8"]:
        ready()
        assert run(http, f"{line}\n{COMMAND}")["stdout"] == "/workspace/run_code.py\n", line


@pytest.fixture
def template(server: Server) -> Iterator[Callable[[str], str]]:
    """Makes a template of the owner's with a pool, and returns the path at which its sandboxes run programs."""
    made = []

    def make(text: str) -> str:
        name = f"programs-{len(made)}-{time.monotonic_ns()}"
        (server.state / "templates").mkdir(exist_ok=True)
        (server.state / "templates" / f"{name}.toml").write_text(text)
        made.append(name)
        paddock(server, "pool", "set", name, "--min", "1", "--max", "2")
        for _ in range(400):
            row = next(line for line in paddock(server, "pool", "ls").splitlines() if line.startswith(name))
            if row.split()[4] != "0":
                return f"/run_code/in/{name}/run_code"
            time.sleep(0.05)
        raise AssertionError(paddock(server, "pool", "ls"))

    yield make
    for name in made:
        paddock(server, "pool", "rm", name)


def test_variables_that_python_reads_when_it_begins_count(http: httpx.Client, template: Callable[[str], str]) -> None:
    path = template('[env]\nPYTHONHASHSEED = "7"\nPYTHONPATH = "/opt/own"\nPYTHONUTF8 = "0"\nTZ = "Asia/Tokyo"\n')
    code = (
        "import sys, time\nprint(hash('x'), sys.flags.hash_randomization, '/opt/own' in sys.path, time.strftime('%Z'))"
    )
    environment = {"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "7", "PYTHONPATH": "/opt/own", "TZ": "Asia/Tokyo"}
    expected = subprocess.run(
        ["/usr/bin/python3", "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert run(http, code, path)["stdout"] == expected


def test_modules_of_a_template_are_no_ones_own(http: httpx.Client, template: Callable[[str], str]) -> None:
    """`import concurrent` gives no `concurrent.futures`, though the template has imported it."""
    path = template('preload = ["concurrent.futures"]\n')
    asked = "import concurrent\nprint(hasattr(concurrent, 'futures'))\n" + COMMAND
    assert run(http, asked, path)["stdout"] == "False\n/workspace/run_code.py\n"
