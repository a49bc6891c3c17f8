"""Programs for `test_run_code_programs.py`, by what they leave to be done at their end."""

# ruff: noqa: E501

#: What tells, when the C library ends the process, that Python ended it: a function of the C library's own end, which kills it. A program
#: that names `ctypes` in one word has Python's end.
PROBE = "_ = __import__('cty' + 'pes').CDLL(None)\ngetattr(_, '__cxa_at' + 'exit')(_.abort, None, None)\n"

#: Programs that leave nothing to do at their end: no more is done than to write what they printed.
QUICK = {
    "nothing": "",
    "print": "print('x' * 300000)",
    "exit code": "import sys\nprint('x', end='')\nsys.exit(7)",
    "exit of a function": "def main():\n    print(1)\n    raise SystemExit(-2)\nmain()",
    "failure": "import sys\nsys.stderr.write('told ')\nprint(int(input().strip(chr(13) + 'first') or 4) // 0)",
    "own exception": "class E(Exception): pass\ntry: raise E(1)\nexcept E as e: kept = e\nraise E(2) from kept",
    "syntax": "exec('x = (')",
    "class": "class A:\n    def __init__(self): self.other = self\nmade = [A() for _ in range(1000)]\nprint(len(made))",
    "generators": "def f():\n    yield 1\nspent = f()\nprint(list(spent)); unused = f()\nprint(sum(i * i for i in range(9)))",
    "closed files": "f = open('x', 'w'); f.write('x'); f.close()\nwith open('x') as g: print(g.read())",
    "open readers": "lines = open('/etc/passwd', 'rb'); lines.readline()\nmore = open('/etc/passwd').readline\nread = open(0).readline\nprint(repr(read()))",
    "buffers": "import io\ntext, data = io.StringIO('x'), io.BytesIO(b'x')\nprint(text.read(), data.read())",
    "library": "import bisect, collections, copy, datetime, decimal, enum, fractions, functools, heapq, itertools, json, math, operator, random, re, string\n"
    "from typing import List, Optional\nfrom dataclasses import dataclass\n@dataclass\nclass A:\n    x: Optional['A'] = None\n"
    "@functools.lru_cache(None)\ndef f(n): return n if n < 2 else f(n - 1) + f(n - 2)\nprint(A(A()), f(30), collections.Counter('aab'), List[A])",
    "metaclass": "from abc import ABC, abstractmethod\nclass A(ABC):\n    @abstractmethod\n    def f(self): pass\nclass B(A):\n    def f(self): return 1\nprint(B().f())",
    "spent thread": "import threading\nt = threading.Thread(target=print, args=('x',)); t.start(); t.join(); print('y')",
    "recursion": "import sys\nsys.setrecursionlimit(10 ** 6)\ndef f(n): return n and f(n - 1)\nprint(f(5000))",
    "fork": "import os\nif not os.fork(): print('child'); raise SystemExit(0)\nos.wait()\nprint('parent')",
    "unlistening": "import sys\nsys.stdout.write('a'); sys.stdout.flush(); sys.stderr.write('b'); print('c', file=sys.stderr)",
    "reconfigured": "import sys\nsys.stdout.reconfigure(line_buffering=True); sys.stdout.reconfigure(encoding='latin-1')\nprint('\xe9')",
}

#: Of these the traceback has the number of the line, which the probe moves.
TRACED = ("failure", "own exception", "syntax")

#: Programs of which something is left to do, each of another kind. Python ends them, after which the probe does its work.
LATE = {
    "open writer": "f = open(1, 'w', closefd=False); f.write('late\\n'); print('x')",
    "open raw writer": "import os\nf = open(os.dup(1), 'wb', 0); f.write(b'x')",
    "writer in a module": "import json\njson.kept = open(1, 'w', closefd=False); json.kept.write('late')",
    "writer in a class that is kept": "from typing import Optional\nclass A: f = open(1, 'w', closefd=False)\nA.f.write('late'); kept = Optional[A]",
    "second stream": "import io, sys\nout = io.TextIOWrapper(sys.stdout.buffer); out.write('late'); print('x')",
    "other stdout": "import io, sys\nsys.stdout = io.StringIO(); print('lost')",
    "own stdout": "import sys\nclass Out:\n    def write(self, text): sys.__stdout__.write(text.upper())\n    def flush(self): sys.__stdout__.write('flushed')\nsys.stdout = Out(); print('x')",
    "own flush": "import sys\nsys.stdout.flush = lambda: sys.stderr.write('flushed')\nprint('x')",
    "own flush below": "import sys\nsys.stdout.buffer.mark = 1\nprint('x')",
    "archive": "import sys, zipfile\nz = zipfile.ZipFile(open(1, 'wb', closefd=False), 'w'); z.writestr(zipfile.ZipInfo('a'), 'x')",
    "suspended generator": "def f():\n    try: yield 1\n    finally: print('closed')\ng = f(); next(g)",
    "coroutine": "async def f(): pass\nc = f()",
    "asynchronous generator": "async def f(): yield 1\ng = f()\ntry: g.asend(None).send(None)\nexcept StopIteration as s: print(s.value)",
    "finalizer": "def end(self): print('del', self is not None)\nA = type('A', (), {'__d' + 'el__': end}); a = A()",
    "finalizer without a list": "def end(self): print('del')\nA = type('A', (), {'__d' + 'el__': end, '__slots__': ()}); a = A()",
    "inherited finalizer": "import subprocess\np = subprocess.Popen(['true']); p.wait()",
    "finalizer of a class": "def end(self): print('del')\nM = type('M', (type,), {'__d' + 'el__': end})\nA = M('A', (), {})",
    "finalizer that prints much": "def end(self): print('x' * 100000)\nA = type('A', (), {'__d' + 'el__': end}); a = A(); a.a = a",
    "finalizer in an exception": "class E(Exception): pass\nE.__dict__\nsetattr(E, '__d' + 'el__', lambda self: print('del'))\nraise E",
    "who hears of an end": "import weakref\nclass A: pass\na = A(); a.a = a; r = weakref.ref(a, lambda _: print('gone'))",
    "function at the end": "at = __import__('at' + 'exit')\nat.register(print, 'exit')",
    "finalizer of weakref": "import weakref\nclass A: pass\na = A(); weakref.finalize(a, print, 'final')",
    "temporary file": "import tempfile\nf = tempfile.NamedTemporaryFile()",
    "handler of a signal": "import signal\nsignal.signal(signal.SIGTERM, lambda *_: print('rang'))",
    "ignoring handler": "import signal\nsignal.signal(signal.SIGINT, print)",
    "thread": "import threading, time\nt = threading.Thread(target=lambda: (time.sleep(0.05), print('thread'))); t.start(); print('x')",
    "daemon": "import threading, time\nt = threading.Thread(target=time.sleep, args=(60,), daemon=True); t.start(); print('x')",
    "exit with words": "import sys\nprint('x')\nsys.exit('words')",
    "exit with a number of its own": "class N(int): pass\nraise SystemExit(N(3))",
    "exit with too much": "raise SystemExit(1 << 40)",
    "closed standard output": "import sys\nprint('x'); sys.stdout.close()",
    "nobody reads": "import os\nr, w = os.pipe(); os.dup2(w, 1); os.close(w); os.close(r)\nprint('x')",
    "nobody reads a failure": "import os\nr, w = os.pipe(); os.dup2(w, 1); os.close(w); os.close(r)\nprint('x')\n1 / 0",
    "nobody reads an exit": "import os, sys\nr, w = os.pipe(); os.dup2(w, 1); os.close(w); os.close(r)\nprint('x')\nsys.exit(3)",
    "detached": "import sys\nprint('x'); out = sys.stdout.detach()",
    "no stdout": "import sys\nprint('x'); del sys.stdout",
    "shown warning": "import warnings\nwarnings.simplefilter('always')\nf = open('/etc/passwd')",
    "data base": "import sqlite3\nc = sqlite3.connect(':memory:')",
    "module of its own": "open('own_module.py', 'w').write('x = 1')\nimport own_module\nprint(own_module.x)",
}
