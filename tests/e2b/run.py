#!/usr/bin/env python3
"""Drives a real server with the real SDKs of E2B, unmodified, through what docs/guides/e2b.md says that works.

Usage: run.py PADDOCK [WORD...]

Only cases whose name holds one of the words run, where there are words. The server listens on a port of its own with a state directory
of its own. PADDOCK_TEST_E2B names the directory of the Python packages (scripts/packages.py fetches them), PADDOCK_TEST_E2B_NODE that of
the packages for Node.

Exit codes: 0 all passed; 1 some did not; 77 skipped, with a line `SKIP reason`.
"""
import asyncio
import inspect
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback

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


def cases():
    """By the files of this directory, in the order in which they are written."""
    for name in sorted(entry[:-3] for entry in os.listdir(HERE) if entry.startswith("cases_") and entry.endswith(".py")):
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


async def run_all(world, words):
    passed, failed = 0, []
    for name, function in cases():
        if words and not any(word in name for word in words):
            continue
        began = time.monotonic()
        try:
            await run_one(function, world)
            passed += 1
            print(f"test {name} ... ok ({time.monotonic() - began:.2f} s)", flush=True)
        except Exception:
            failed.append(name)
            print(f"test {name} ... FAILED\n{traceback.format_exc()}", flush=True)
    if not words or "node" in words:
        import node

        for name, ok, detail in node.run(world):
            passed += ok
            if not ok:
                failed.append(name)
            print(f"test {name} ... {'ok' if ok else 'FAILED'}{detail}", flush=True)
    await world.close()
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
    directory = tempfile.mkdtemp(prefix="paddock-e2b-")
    server = Server(os.path.abspath(sys.argv[1]), directory)
    passed, failed = 0, ["the server did not start"]
    try:
        server.start()
        passed, failed = asyncio.run(run_all(World(server), sys.argv[2:]))
        if server.process.poll() is not None:
            failed.append(f"the server ended with {server.process.returncode}")
        end_all(server)
        if server.stop() != 0:
            failed.append(f"the server ended with {server.process.returncode}")
        with open(server.log, errors="replace") as log:
            failed += [f"the server's log says: {line.strip()}" for line in log if "panicked" in line]
        failed += [f"left over: {left}" for left in leftovers(directory)]
    finally:
        try:
            end_all(server)
        finally:
            server.stop()
        if failed:
            print(f"kept for a look: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    for name in failed:
        print(f"  FAILED {name}")
    print(f"test result: {'FAILED' if failed else 'ok'}. {passed} passed; {len(failed)} failed; 0 ignored")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
