# Third part of the Python runner: IPython in the place of our own loop, where it is installed.
# ruff: noqa: F821

import os


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
                # Without a cache of values IPython does not keep the last one either.
                self.shell.user_ns["_"] = value
                formatted, _ = self.compute_format_data(value)
                if "text/plain" not in formatted:
                    # What it raises is the code's own failure; IPython would have swallowed it.
                    formatted["text/plain"] = _repr(value)
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
            # Without a terminal in between, which would change line ends.
            system = InteractiveShell.system_raw

            def enable_gui(self, gui=None):
                pass

            def enable_matplotlib(self, gui=None):
                # Figures are results already, with their data, which no other backend would give.
                return gui, "agg"

            def init_virtualenv(self):
                pass

            def ask_exit(self):
                # What `exit()` is there.
                raise SystemExit(0)

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
