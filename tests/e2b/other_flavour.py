"""The cases for programs that wait, again with the asynchronous classes of the same SDK.

A module of cases is loaded a second time, and in the place of `Sandbox`, `Volume`, `Template` and `Secret` it has the `Async...` class
of the same name behind a `Sync`: every call runs as a coroutine on one event loop, and its caller waits for it in another thread. The
requests, streams and exceptions are those of the asynchronous code of the SDK; only output, terminals and watches, for which it takes
callbacks, are collected here, so that a case may ask for them as it asks the other flavour.
"""
import asyncio
import functools
import importlib.util
import inspect
import os
import queue
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Modules whose cases run with both flavours, and the cases of them that do not: those about the client of the other flavour, and those
# that are slow, or about the server alone.
MODULES = {
    "commands": set(),
    "streams": set(),
    # More streams than watchers that are asked may be open at a time.
    "files": {"a_hundred_watchers_are_too_many_and_harm_nothing", "a_compressed_body_that_is_none_is_refused"},
    "transfers": {
        "a_download_is_packed_where_the_client_takes_it", "a_form_may_be_packed",
        "an_address_for_writing_ends_and_only_writes",
    },
    "metadata": set(),
    # A stream is told of its end by a callback, for which cases_watch.py has cases of its own.
    "watch": {"a_watcher_that_has_stopped_says_nothing", "a_watcher_ends_with_its_sandbox"},
    "life": {
        "the_variables_are_those_of_the_guide", "a_fence_that_keeps_memory_has_it_in_snapshots", "metrics_have_a_history",
    },
    "lists": {
        "fifty_sandboxes_come_and_go", "the_name_of_a_port", "the_same_idempotency_key_is_the_same_sandbox", "metrics_of_a_time_and_of_load",
        "metrics_tell_the_cache_of_files_apart",
    },
    "sleep": {"it_cannot_resume_by_itself_without_memory"},
    # Servers of their own, and about the server alone.
    "kept": {"ports_of_a_fork_are_public_for_the_key_that_forks"},
    "volumes": {"what_the_sdk_would_never_send_is_refused"},
    "secrets": {"the_value_is_visible_nowhere", "mcp_is_refused_with_the_way_to_go", "an_sdk_that_is_not_tested_is_warned"},
    "code": set(),
    # It would make the same template again.
    "results": {"a_language_of_the_template_has_its_runner"},
    "template_helpers": set(),
    "templates": {"templates_are_in_the_servers_own_api_too", "levels_of_the_log_are_chosen"},
    "template_refusals": {
        "names_and_tags_that_are_none_are_refused", "a_wrong_hash_is_refused", "an_upload_wants_its_signed_address_and_has_a_bound",
        "hostile_archives_are_refused_or_stay_inside", "descriptions_that_are_wrong_are_refused_by_name",
        "a_build_reaches_no_private_address", "a_step_that_writes_without_end_fails_and_the_server_stays",
    },
}
# What several of them import, and what calls the SDK itself.
HELPERS = ("template_builds",)
# Parameters that the SDK calls with what comes. It waits for coroutines, so that a callback may use the sandbox itself.
CALLBACKS = ("on_stdout", "on_stderr", "on_result", "on_error")


def cases(world):
    """Name and function of each case, with what it wants of the world."""
    loop = asyncio.get_running_loop()
    for module, left_out in MODULES.items():
        found = {key[5:]: value for key, value in vars(loaded(module, loop)).items() if key.startswith("case_")}
        unknown = left_out - set(found)
        assert not unknown, f"cases_{module}.py has no {unknown}"
        for name, function in found.items():
            if name not in left_out and not inspect.iscoroutinefunction(function):
                yield f"async.{module}.{name}", with_async_world(function, world, loop)


def loaded(module, loop):
    """The module again, with the asynchronous classes in it and in its helpers."""
    kept = {name: sys.modules.get(name) for name in HELPERS}
    try:
        for name in HELPERS:
            sys.modules[name] = loaded_file(name, loop)
        return loaded_file(f"cases_{module}", loop)
    finally:
        for name, before in kept.items():
            sys.modules.pop(name)
            if before:
                sys.modules[name] = before


def loaded_file(file, loop):
    import e2b
    import e2b_code_interpreter

    name = f"async_{file}"
    spec = importlib.util.spec_from_file_location(name, os.path.join(HERE, f"{file}.py"))
    again = importlib.util.module_from_spec(spec)
    sys.modules[name] = again
    spec.loader.exec_module(again)
    others = {getattr(e2b, kind): getattr(e2b, f"Async{kind}") for kind in ("Sandbox", "Volume", "Template", "Secret")}
    others[e2b_code_interpreter.Sandbox] = e2b_code_interpreter.AsyncSandbox
    for key, value in list(vars(again).items()):
        if inspect.isclass(value) and value in others:
            setattr(again, key, Sync(others[value], loop))
    return again


def with_async_world(function, world, loop):
    def case(_):
        before = Sync.calls
        function(AsyncWorld(world, loop))
        assert Sync.calls > before, "the case called nothing of the asynchronous classes"
    return case


class AsyncWorld:
    """The world, whose shared sandboxes are asynchronous ones."""

    def __init__(self, world, loop):
        self.world, self.loop = world, loop

    def __getattr__(self, name):
        return getattr(self.world, name)

    @property
    def sandbox(self):
        return wrapped(waited(self.world.async_sandbox, self.loop), self.loop)

    @property
    def interpreter(self):
        return wrapped(waited(self.world.async_interpreter, self.loop), self.loop)


def waited(function, loop, *arguments, **options):
    """Calls it on the loop, and waits for the result in this thread."""

    async def call():
        result = function(*arguments, **options)
        return await result if inspect.isawaitable(result) else result

    return asyncio.run_coroutine_threadsafe(call(), loop).result()


def wrapped(value, loop):
    """A result that a case uses without awaiting it."""
    if isinstance(value, list):
        return [wrapped(one, loop) for one in value]
    if hasattr(value, "__anext__"):
        return pieces(value, loop)
    kind = type(value)
    if not has_coroutines(kind):
        return value
    return {"Commands": Commands, "Pty": Commands, "Filesystem": Files, "AsyncVolume": VolumeFiles}.get(kind.__name__, Sync)(value, loop)


@functools.cache
def has_coroutines(kind):
    return kind.__module__.startswith(("e2b.", "e2b_code_interpreter.")) and any(
        inspect.iscoroutinefunction(inspect.unwrap(member)) for _, member in inspect.getmembers(kind, callable))


def unwrapped(value):
    """An argument of a case as the SDK takes it."""
    if isinstance(value, Sync):
        return value.inner
    if isinstance(value, dict):
        return {key: unwrapped(one) for key, one in value.items()}
    if inspect.isgenerator(value):
        return asynchronous(value)
    return value


async def asynchronous(generator):
    for one in generator:
        yield one


def pieces(stream, loop):
    while True:
        try:
            yield waited(stream.__anext__, loop)
        except StopAsyncIteration:
            return


def in_a_thread(callback):
    async def call(piece):
        await asyncio.to_thread(callback, piece)
    return call


class Sync:
    """An object or a class of the SDK, whose coroutines are waited for."""

    calls = 0

    def __init__(self, inner, loop):
        self.inner, self.loop = inner, loop

    def __getattr__(self, name):
        value = getattr(self.inner, name)
        if not callable(value):
            return wrapped(value, self.loop)

        def call(*arguments, **options):
            return self.call(value, *arguments, **options)
        call.__name__ = name
        return call

    def __call__(self, *arguments, **options):
        return wrapped(self.inner(*arguments, **options), self.loop)

    def __enter__(self):
        waited(self.inner.__aenter__, self.loop)
        return self

    def __exit__(self, *error):
        waited(self.inner.__aexit__, self.loop, *error)

    def call(self, function, *arguments, **options):
        Sync.calls += 1
        for name in CALLBACKS:
            if options.get(name):
                options[name] = in_a_thread(options[name])
        result = waited(function, self.loop, *map(unwrapped, arguments), **unwrapped(options))
        return wrapped(result, self.loop)


class VolumeFiles(Sync):
    def read_file(self, path, format="text", **options):
        def stream():
            yield from self.call(self.inner.read_file, path, format=format, **options)
        # Nothing is asked before the first piece is wanted, as with the other flavour.
        return stream() if format == "stream" else self.call(self.inner.read_file, path, format=format, **options)


class Files(Sync):
    def watch_dir(self, path, **options):
        events = queue.SimpleQueue()
        return Watch(self.call(self.inner.watch_dir, path, on_event=events.put, **options), events)


class Watch:
    """Events that came, for a case that asks for them."""

    def __init__(self, handle, events):
        self.handle, self.events = handle, events

    def get_new_events(self):
        if self.events is None:
            from e2b import SandboxException
            raise SandboxException("The watch is already stopped")
        found = []
        while not self.events.empty():
            found.append(self.events.get())
        return found

    def stop(self):
        self.handle.stop()
        self.events = None


class Commands(Sync):
    """Commands, or terminals."""

    def run(self, command, background=False, **options):
        if not background:
            return self.call(self.inner.run, command, **options)
        return self.handle(self.inner.run, command, background=True, **options)

    def create(self, **options):
        return self.handle(self.inner.create, **options)

    def connect(self, pid, **options):
        return self.handle(self.inner.connect, pid, **options)

    def handle(self, function, *arguments, **options):
        output = queue.SimpleQueue()
        takers = {
            "on_stdout": lambda piece: output.put((piece, None, None)), "on_stderr": lambda piece: output.put((None, piece, None)),
            "on_data": lambda piece: output.put((None, None, piece)),
        }
        taken = inspect.signature(function).parameters
        options.update({name: taker for name, taker in takers.items() if name in taken and name not in options})
        Sync.calls += 1
        return Handle(waited(function, self.loop, *arguments, **options), self.loop, output)

    def stream_input(self, pid, data, **options):
        async def send():
            stream = self.inner.stream_input(pid, **options)
            for one in data:
                await stream.send(one)
            await stream.close()
        Sync.calls += 1
        waited(send, self.loop)


class Handle(Sync):
    """A command whose output is kept until a case iterates over it or waits."""

    def __init__(self, inner, loop, output):
        super().__init__(inner, loop)
        self.output, self.ended = output, asyncio.run_coroutine_threadsafe(inner.wait(), loop)
        self.ended.add_done_callback(lambda _: output.put(None))

    def __iter__(self):
        while (piece := self.output.get()) is not None:
            yield piece
        # For the next that iterates.
        self.output.put(None)
        from e2b import CommandExitException
        error = None if self.ended.cancelled() else self.ended.exception()
        if error is not None and not isinstance(error, CommandExitException):
            raise error

    def wait(self, **callbacks):
        takers = [callbacks.get(name) for name in ("on_stdout", "on_stderr", "on_pty")]
        for output in self:
            for taker, piece in zip(takers, output):
                if taker and piece is not None:
                    taker(piece)
        return self.ended.result()
