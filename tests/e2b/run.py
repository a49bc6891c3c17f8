#!/usr/bin/env python3
"""Drives a real server with the real SDKs of E2B, unmodified, through what docs/guides/e2b.md says that works.

Usage: run.py [--built] PADDOCK [WORD...]

The cases are the functions `case_*` of cases_*.py and the calls of `test` in cases*.mjs. Only cases whose name holds one of the words run,
where there are words; those for Node begin with `node.`, the examples of frameworks/ with `frameworks.`, those that run again with the
asynchronous classes of the SDK with `async.`. The cases of network/ run in a
network of their own, as root. The server listens on a port of its own with a state directory of its own.

With --built the templates `base` and `code-interpreter-v1` are built first, by first use, as root and from Debian's packages; then the cases
run against them that are about what is in a template, and those of built/.

PADDOCK_TEST_E2B names the directory of the Python packages (scripts/packages.py fetches them), PADDOCK_TEST_E2B_NODE that of the packages
for Node, PADDOCK_TEST_E2B_FRAMEWORKS those of the frameworks, PADDOCK_TEST_IPYTHON the IPython that one of them wants inside.

Exit codes: 0 all passed; 1 some did not; 77 skipped, with a line `SKIP reason`.
"""
import asyncio
import inspect
import itertools
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback

import built_templates
import node
import other_flavour
import outside_world
from framework_examples import Examples
from pytest_like import Skip
from world import Server, World, end_all, leftovers

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77
TIME_LIMIT = 120.0


def packages():
    """Puts the SDKs where Python finds them; says why they are not there."""
    place = os.environ.get("PADDOCK_TEST_E2B")
    if place:
        sys.path.insert(0, place)
    try:
        import e2b  # noqa: F401
        import e2b_code_interpreter  # noqa: F401
    except ImportError as error:
        return f"e2b: the Python SDK is not there: {error}"
    return None


def cases(place):
    """By the files of a directory, in the order in which they are written."""
    sys.path.insert(0, place)
    for name in sorted(entry[:-3] for entry in os.listdir(place) if entry.startswith("cases_") and entry.endswith(".py")):
        module = __import__(name)
        for key, value in list(vars(module).items()):
            if key.startswith("case_") and callable(value):
                yield f"{name[6:]}.{key[5:]}", value


async def run_one(function, world):
    if inspect.iscoroutinefunction(function):
        await asyncio.wait_for(function(world), TIME_LIMIT)
    else:
        # In a thread of its own, as the SDK waits there.
        await asyncio.wait_for(asyncio.to_thread(function, world), TIME_LIMIT)


async def run_all(world, place, words):
    examples = Examples(world, words) if place == HERE else None
    try:
        passed, failed = await run_cases(world, place, words)
        for name, ok, detail in itertools.chain(node.run(world, place, words), examples.results() if examples else ()):
            passed += ok
            if not ok:
                failed.append(name)
            print(f"test {name} ... {'ok' if ok else 'FAILED'}{detail}", flush=True)
    finally:
        if examples:
            examples.close()
    await world.close()
    return passed, failed


async def run_cases(world, place, words):
    passed, failed = 0, []
    again = other_flavour.cases(world) if place == HERE else ()
    only_built = cases(built_templates.CASES) if built_templates.is_built(world.server) else ()
    for name, function in itertools.chain(cases(place), only_built, again):
        if words and not any(word in name for word in words):
            continue
        if name.removeprefix("async.").startswith("template") and not world.image:
            print(f"SKIP e2b-templates: {name}: the host has no static busybox for an image", flush=True)
            continue
        began = time.monotonic()
        try:
            await run_one(function, world)
            passed += 1
            print(f"test {name} ... ok ({time.monotonic() - began:.2f} s)", flush=True)
        except Skip as reason:
            print(f"SKIP {reason}", flush=True)
        except Exception:
            failed.append(name)
            print(f"test {name} ... FAILED\n{traceback.format_exc()}", flush=True)
    return passed, failed


def main():
    built = sys.argv[1:2] == ["--built"]
    arguments = sys.argv[2:] if built else sys.argv[1:]
    if not arguments or not os.access(arguments[0], os.X_OK):
        sys.exit(f"usage: {sys.argv[0]} [--built] PADDOCK [WORD...], where PADDOCK is the executable to test")
    # So that `finally` cleans up when somebody ends this with a signal.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    reason = packages() or (built_templates.missing() if built else None)
    if reason:
        print(f"SKIP {reason}")
        return SKIPPED
    if built:
        return run_place(HERE, arguments[0], arguments[1:] or built_templates.WORDS, built_templates.BuiltServer)
    if outside_world.is_entered():
        return run_place(outside_world.CASES, sys.argv[1], sys.argv[2:])
    code = run_place(HERE, sys.argv[1], sys.argv[2:])
    reason = outside_world.missing()
    if reason:
        print(f"SKIP e2b-network: {reason}", flush=True)
        return code
    return outside_world.enter(sys.argv) or code


def run_place(place, paddock, words, kind=Server):
    """The cases of one directory, with a server of their own."""
    directory = tempfile.mkdtemp(prefix="paddock-e2b-")
    server = kind(os.path.abspath(paddock), directory)
    passed, failed, outside = 0, ["the server did not start"], None
    try:
        if outside_world.is_entered():
            outside = outside_world.Outside(directory)
        server.start()
        world = World(server)
        if built_templates.is_built(server):
            built_templates.build(world)
        passed, failed = asyncio.run(run_all(world, place, words))
        if server.process.poll() is not None:
            failed.append(f"the server ended with {server.process.returncode}")
        end_all(server)
        if server.stop() != 0:
            failed.append(f"the server ended with {server.process.returncode}")
        if outside:
            outside.close()
        with open(server.log, errors="replace") as log:
            failed += [f"the server's log says: {line.strip()}" for line in log if "panicked" in line]
        failed += [f"left over: {left}" for left in leftovers(directory)]
    finally:
        try:
            end_all(server)
        finally:
            server.stop()
            if outside:
                outside.close()
        if failed:
            print(f"kept for a look: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    for name in failed:
        print(f"  FAILED {name}")
    print(f"test result: {'FAILED' if failed else 'ok'}. {passed} passed; {len(failed)} failed; 0 ignored", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
