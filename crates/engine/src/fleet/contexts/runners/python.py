# The Python runner of a code context. It shares its process with the code that it runs, so that nothing here is a
# fence: it only has to work for code that means well, and to fail for itself alone with code that does not.
# Python 3.8 and later, standard library only; IPython, pandas and matplotlib are used where they are.

import ast
import builtins
import fcntl
import importlib
import io
import json
import linecache
import os
import signal
import socket
import struct
import sys
import termios
import time
import traceback
import types

TEXT_LIMIT = 1 << 20  # characters of one textual representation
BINARY_LIMIT = 8 << 20  # bytes of one image or document
FRAME_LIMIT = 12 << 20
DATA_ROWS = 1000
CHART_POINTS = 10000
FIGURES = 20
DRAIN_SECONDS = 0.05

TEXTUAL = (
    "text/plain", "text/html", "text/markdown", "image/svg+xml", "text/latex",
    "application/javascript", "application/json",
)  # fmt: skip
METHODS = (
    ("_repr_html_", "text/html"), ("_repr_markdown_", "text/markdown"), ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg"), ("_repr_pdf_", "application/pdf"),
    ("_repr_latex_", "text/latex"), ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
)  # fmt: skip
DATA = "application/vnd.paddock.data+json"
PARSER = ast.__file__
CHART = "application/vnd.paddock.chart+json"

# Kept here, so that code which replaces them in their modules does not break the next call.
_len, _repr, _str, _bytes, _isinstance, _getattr, _type = len, repr, str, bytes, isinstance, getattr, type
_getpid, _exit, _dup2, _close = os.getpid, os._exit, os.dup2, os.close
_compile, _exec, _eval = compile, exec, eval
_set_signal, _monotonic, _sleep = signal.signal, time.monotonic, time.sleep
_IGNORE, _INTERRUPT = signal.SIG_IGN, signal.default_int_handler


class Control:
    """The private stream to the host."""

    def __init__(self, number):
        os.set_inheritable(number, False)
        self.socket = socket.socket(fileno=number)
        self.socket.setblocking(True)
        self.received = self.socket.makefile("rb", 65536)
        self.send = self.socket.sendall

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

    @staticmethod
    def encode(kind, fields):
        out = [b"%s %d\n" % (kind.encode(), _len(fields))]
        for name, value in fields:
            if _isinstance(value, _str):
                value = value.encode("utf-8", "replace")
            out.append(b"%s %d\n" % (name.encode(), _len(value)))
            out.append(value)
            out.append(b"\n")
        return b"".join(out)


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


def drained(number, question=termios.FIONREAD):
    """Waits a moment until what was written there has been read."""
    until = None
    while True:
        try:
            waiting = struct.unpack("i", fcntl.ioctl(number, question, b"\0\0\0\0"))[0]
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


# Representations


def cut_text(text, cut, name):
    if _len(text) > TEXT_LIMIT:
        cut.append(name)
        return "%s\n... %d characters were cut" % (text[:TEXT_LIMIT], _len(text) - TEXT_LIMIT)
    return text


def bundle(value, use_repr=True):
    """Every representation that the value has, by media type. What a method raises costs its representation only,
    but for the plain text, which is the code's own failure."""
    found = {}
    kind = _type(value)
    if hasattr(kind, "_repr_mimebundle_"):
        try:
            made = value._repr_mimebundle_()
            found.update(made[0] if _isinstance(made, tuple) else made or {})
        except Exception:
            pass
    for method, name in METHODS:
        if name not in found and hasattr(kind, method):
            try:
                made = _getattr(value, method)()
            except Exception:
                continue
            if _isinstance(made, tuple):
                made = made[0]
            if made is not None:
                found[name] = made
    if "text/plain" not in found and use_repr:
        found["text/plain"] = _repr(value)
    if "application/json" not in found and _isinstance(value, (dict, list)):
        found["application/json"] = value
    table = data_of(value)
    if table is not None:
        found[DATA] = table
    return found


def data_of(value):
    """A data frame or series as columns and rows, the first of them."""
    kind = _type(value)
    module = _getattr(kind, "__module__", "") or ""
    if module.partition(".")[0] != "pandas" or kind.__name__ not in ("DataFrame", "Series"):
        return None
    try:
        frame = value.to_frame() if kind.__name__ == "Series" else value
        head = frame.head(DATA_ROWS)
        made = json.loads(head.to_json(orient="split", date_format="iso", default_handler=_str))
        return {
            "columns": [_str(name) for name in made["columns"]],
            "types": [_str(kind) for kind in frame.dtypes],
            "index": made["index"],
            "rows": made["data"],
            "total_rows": int(_len(frame)),
        }
    except Exception:
        return None


def encode_result(representations, main):
    fields, cut, size = [], [], 0
    if main:
        fields.append(("main", b"1"))
    for name, value in representations.items():
        if not _isinstance(name, _str) or not name.isascii() or not name.isprintable() or " " in name or _len(name) > 100:
            continue
        if name in ("application/json", DATA, CHART) or name.endswith("+json"):
            if not _isinstance(value, (_str, _bytes)):
                try:
                    value = json.dumps(value, default=_str)
                except Exception:
                    continue
            if _len(value) > TEXT_LIMIT:
                cut.append(name)
                continue
        elif _isinstance(value, (bytearray, memoryview)):
            value = _bytes(value)
        elif not _isinstance(value, (_str, _bytes)):
            value = _str(value)
        if _isinstance(value, _str) and name in ("image/png", "image/jpeg", "application/pdf"):
            # As Jupyter's protocol has them.
            import base64

            try:
                value = base64.b64decode(value)
            except Exception:
                continue
        if _isinstance(value, _str):
            if name == "text/plain":
                value = cut_text(value, cut, name)
            elif _len(value) > BINARY_LIMIT:
                cut.append(name)
                continue
            value = value.encode("utf-8", "replace")
        if _len(value) > BINARY_LIMIT or size + _len(value) > FRAME_LIMIT or _len(fields) > 50:
            cut.append(name)
            continue
        size += _len(value)
        fields.append((name, value))
    if cut:
        fields.append(("cut", ",".join(cut)))
    return Control.encode("result", fields)


# Figures


def figures():
    """Open matplotlib figures, drawn, and closed: the next call begins with none."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return []
    drawn = []
    for number in pyplot.get_fignums()[:FIGURES]:
        figure = pyplot.figure(number)
        if not figure.get_axes():
            continue
        drawn.append(figure_bundle(figure))
    pyplot.close("all")
    return drawn


def figure_bundle(figure):
    out = io.BytesIO()
    figure.savefig(out, format="png", bbox_inches="tight")
    found = {"image/png": out.getvalue(), "text/plain": _repr(figure)}
    try:
        chart = chart_of(figure)
    except Exception:
        chart = None
    if chart:
        found[CHART] = chart
    return found


def plain(value):
    """A number or text that JSON has."""
    if hasattr(value, "item"):
        value = value.item()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if _isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if _isinstance(value, (int, bool)) or value is None:
        return value
    return _str(value)


def listed(values):
    return [plain(value) for value in list(values)[:CHART_POINTS]]


def chart_of(figure):
    axes = [axis_chart(axis) for axis in figure.get_axes()]
    axes = [chart for chart in axes if chart["elements"]]
    if not axes:
        return None
    return axes[0] if _len(axes) == 1 else {"type": "superchart", "title": title_of(figure), "elements": axes}


def title_of(figure):
    title = _getattr(figure, "_suptitle", None)
    return title.get_text() if title is not None else None


def axis_chart(axis):
    kind, elements = None, []
    pies = [patch for patch in axis.patches if _type(patch).__name__ == "Wedge"]
    bars = [box for box in axis.containers if _type(box).__name__ == "BarContainer"]
    boxes = box_elements(axis)
    if pies:
        kind = "pie"
        labels = [text.get_text() for text in axis.texts]
        names = [label for label in labels if not label.endswith("%")]
        for index, wedge in enumerate(pies):
            label = wedge.get_label() if not wedge.get_label().startswith("_") else ""
            label = label or (names[index] if index < _len(names) else "")
            angle = wedge.theta2 - wedge.theta1
            elements.append({"label": label, "angle": plain(angle), "share": plain(angle / 360.0)})
    elif boxes:
        kind, elements = "box", boxes
    elif bars:
        kind = "bar"
        for container in bars:
            group = container.get_label()
            group = "" if _str(group).startswith("_") else group
            ticks = tick_labels(axis)
            for bar in list(container)[:CHART_POINTS]:
                flat = _getattr(container, "orientation", "vertical") == "horizontal"
                middle = bar.get_y() + bar.get_height() / 2 if flat else bar.get_x() + bar.get_width() / 2
                label = ticks.get(round(float(middle), 6), plain(middle))
                value = bar.get_width() if flat else bar.get_height()
                elements.append({"label": label, "group": group, "value": plain(value)})
    else:
        for line in axis.get_lines():
            x, y = listed(line.get_xdata()), listed(line.get_ydata())
            elements.append({"label": name_of(line), "points": [list(point) for point in zip(x, y)]})
            kind = "line"
        for collection in axis.collections:
            if _type(collection).__name__ != "PathCollection":
                continue
            points = [[plain(x), plain(y)] for x, y in list(collection.get_offsets())[:CHART_POINTS]]
            elements.append({"label": name_of(collection), "points": points})
            kind = "scatter" if kind in (None, "scatter") else kind
    return {
        "type": kind or "unknown",
        "title": axis.get_title() or None,
        "x_label": axis.get_xlabel() or None,
        "y_label": axis.get_ylabel() or None,
        "x_scale": axis.get_xscale(),
        "y_scale": axis.get_yscale(),
        "elements": elements,
    }


def name_of(artist):
    label = _str(artist.get_label())
    return "" if label.startswith("_") else label


def width(line):
    return float(max(line.get_xdata())) - float(min(line.get_xdata()))


def tick_labels(axis):
    found = {}
    for side in (axis.xaxis, axis.yaxis):
        for place, label in zip(side.get_majorticklocs(), side.get_majorticklabels()):
            text = label.get_text()
            if text:
                found.setdefault(round(float(place), 6), text)
    return found


def box_elements(axis):
    """A box plot is six lines a box: the box, two whiskers, two caps, the median."""
    lines = [line for line in axis.get_lines() if _len(line.get_ydata()) in (2, 5)]
    boxes = [line for line in lines if _len(line.get_ydata()) == 5]
    elements = []
    ticks = tick_labels(axis)
    for box in boxes:
        x, y = [float(value) for value in box.get_xdata()], [float(value) for value in box.get_ydata()]
        middle, low, high = (min(x) + max(x)) / 2, min(y), max(y)
        inside = [line for line in lines if line is not box and min(x) <= float(min(line.get_xdata())) <= max(x)]
        flat = [line for line in inside if float(line.get_ydata()[0]) == float(line.get_ydata()[1])]
        levels = sorted(float(line.get_ydata()[0]) for line in flat)
        # As wide as the box; the caps of the whiskers are narrower.
        wide = [line for line in flat if abs(width(line) - (max(x) - min(x))) < 1e-9]
        medians = [float(line.get_ydata()[0]) for line in wide]
        elements.append({
            "label": ticks.get(round(middle, 6), plain(middle)),
            "min": plain(levels[0]) if levels else None,
            "first_quartile": plain(low),
            "median": plain(medians[0]) if medians else None,
            "third_quartile": plain(high),
            "max": plain(levels[-1]) if levels else None,
        })  # fmt: skip
    return elements


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
        sys.argv = [""]
        os.environ.setdefault("MPLBACKEND", "Agg")

    def serve(self):
        _set_signal(signal.SIGINT, _IGNORE)
        while True:
            kind, fields = self.control.read()
            if kind is None:
                return
            if kind == "setup":
                self.setup(fields)
            if kind != "run":
                continue
            request = {"env": []}
            for name, value in fields:
                if name == "env":
                    request["env"].append(value)
                else:
                    request[name] = value
            self.answer(request)

    def setup(self, fields):
        """For an interpreter that was there before its sandbox had a caller."""
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
                    tell("preload %s: %s: %s\n" % (value.decode(), _type(failure).__name__, failure))

    def answer(self, request):
        """One call. Whatever happens in it, the host hears its end."""
        self.pending = []
        error, code = None, 0
        before = self.enter(request)
        try:
            try:
                _set_signal(signal.SIGINT, _INTERRUPT)
                self.run(request["code"].decode("utf-8", "replace"))
                for found in figures():
                    self.result(found, False)
            finally:
                _set_signal(signal.SIGINT, _IGNORE)
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
        self.control.send(b"".join(pending))

    def enter(self, request):
        self.standard.prepare(request.get("stdin"))
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


def ipython(runner):
    """IPython in the place of our own loop, where it is installed."""
    if os.environ.get("PADDOCK_PLAIN_PYTHON"):
        return None
    import importlib.util

    if importlib.util.find_spec("IPython") is None:
        return None
    try:
        return Shell(runner)
    except Exception:
        return None


class Shell:
    """IPython's shell, whose displays become results."""

    def __init__(self, runner):
        os.environ.setdefault("IPYTHONDIR", "/tmp/.ipython-%d" % os.getuid())
        from IPython.core.displayhook import DisplayHook
        from IPython.core.displaypub import DisplayPublisher
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        outer = self

        class Hook(DisplayHook):
            def __call__(self, value=None):
                self.check_for_underscore()
                if value is None or outer.hidden:
                    return
                self.update_user_ns(value)
                formatted, _ = self.compute_format_data(value)
                pyplot = sys.modules.get("matplotlib.pyplot")
                if pyplot is not None and _isinstance(value, sys.modules["matplotlib.figure"].Figure):
                    formatted = figure_bundle(value)
                    pyplot.close(value)
                runner.result(complete(formatted, value), True)

        class Publisher(DisplayPublisher):
            def publish(self, data, metadata=None, source=None, **_):
                runner.result(data, False)

            def clear_output(self, wait=False):
                pass

        class Interactive(InteractiveShell):
            def enable_gui(self, gui=None):
                pass

            def init_virtualenv(self):
                pass

            def _showtraceback(self, etype, evalue, stb):
                # Told by the error, not printed.
                pass

        self.hidden = False
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "NoColor"
        config.InteractiveShell.cache_size = 0
        Interactive.displayhook_class = Hook
        Interactive.display_pub_class = Publisher
        self.shell = Interactive.instance(config=config, user_module=runner.module, user_ns=runner.names)
        self.shell.ast_node_interactivity = "last_expr"
        import warnings

        warnings.filterwarnings("ignore", "To exit: use")
        from IPython.display import display

        runner.names["display"] = display
        self.runner = runner

    def run(self, source):
        shell = self.shell
        self.hidden = source.rstrip().endswith(";")
        transformed, failure = source, None
        try:
            transformed = shell.transform_cell(source)
        except Exception:
            failure = sys.exc_info()
        run = shell.run_cell_async(
            source, store_history=False, transformed_cell=transformed, preprocessing_exc_tuple=failure
        )
        if shell.should_run_async(source, transformed_cell=transformed):
            outcome = self.runner.finish(run)
        else:
            outcome = self.driven(run)
        error = outcome.error_before_exec or outcome.error_in_exec
        if error is not None:
            raise error

    @staticmethod
    def driven(run):
        """Code that awaits nothing needs no loop."""
        try:
            run.send(None)
        except StopIteration as end:
            return end.value
        raise RuntimeError("the code awaits something outside of a coroutine")


def complete(formatted, value):
    table = data_of(value)
    if table is not None:
        formatted[DATA] = table
    if "application/json" not in formatted and _isinstance(value, (dict, list)):
        formatted["application/json"] = value
    return formatted


def main():
    control = Control(CONTROL)  # noqa: F821 - given by the loader
    runner = Runner(control)
    control.send(Control.encode("ready", [("version", sys.version.split()[0])]))
    runner.serve()


if CONTROL >= 0:  # noqa: F821 - a zygote calls it in its children
    main()
