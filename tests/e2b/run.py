#!/usr/bin/env python3
"""Drives a real server with the real SDKs of E2B, unmodified, through what docs/guides/e2b.md says that works.

Usage: run.py PADDOCK [WORD...]

The cases are the functions `case_*` of cases_*.py and the calls of `test` in cases*.mjs. Only cases whose name holds one of the words run,
where there are words; those for Node begin with `node.`, the examples of frameworks/ with `frameworks.`, those that run again with the
asynchronous classes of the SDK with `async.`. The cases of network/ run in a
network of their own, as root. The server listens on a port of its own with a state directory of its own.

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
    for name, function in itertools.chain(cases(place), again):
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
    if len(sys.argv) < 2 or not os.access(sys.argv[1], os.X_OK):
        sys.exit(f"usage: {sys.argv[0]} PADDOCK [WORD...], where PADDOCK is the executable to test")
    # So that `finally` cleans up when somebody ends this with a signal.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    reason = packages()
    if reason:
        print(f"SKIP {reason}")
        return SKIPPED
    if outside_world.is_entered():
        return run_place(outside_world.CASES, sys.argv[1], sys.argv[2:])
    code = run_place(HERE, sys.argv[1], sys.argv[2:])
    reason = outside_world.missing()
    if reason:
        print(f"SKIP e2b-network: {reason}", flush=True)
        return code
    return outside_world.enter(sys.argv) or code


def run_place(place, paddock, words):
    """The cases of one directory, with a server of their own."""
    directory = tempfile.mkdtemp(prefix="paddock-e2b-")
    server = Server(os.path.abspath(paddock), directory)
    passed, failed, outside = 0, ["the server did not start"], None
    try:
        if outside_world.is_entered():
            outside = outside_world.Outside(directory)
        server.start()
        passed, failed = asyncio.run(run_all(World(server), place, words))
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
