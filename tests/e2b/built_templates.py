"""The server of `run.py --built`: `base` and `code-interpreter-v1` are the templates that come with Paddock, built from Debian's packages
because a program of E2B's asks for them first. It is what `make test-templates` runs, and takes many minutes."""
import os
import time

from world import Server

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = os.path.join(HERE, "built")
# The cases that run where none are named: those about what is in a template, and those of built/.
WORDS = ("life.", "files.", "metadata.", "code.", "results.", "root.", "built.", "frameworks.smolagents")
PATIENCE = 5400.0


class BuiltServer(Server):
    first_use = ()


def is_built(server):
    return isinstance(server, BuiltServer)


def missing():
    """Why the host cannot build them."""
    return "e2b-built: only root builds the templates" if os.geteuid() != 0 else None


def build(world):
    """Asks for both as a program does, and waits until they are there."""
    from e2b import Sandbox
    from e2b.exceptions import ServiceBusyException
    from e2b_code_interpreter import Sandbox as Interpreter

    # The first goes on with the host's programs until its template is there, the second is refused until then.
    Sandbox.create(timeout=60).kill()
    try:
        Interpreter.create(timeout=60).kill()
    except ServiceBusyException as busy:
        print(busy, flush=True)
    end, told = time.monotonic() + PATIENCE, {}
    while builds := under_way(world.server):
        for name, one in builds.items():
            if one["state"] != "building":
                raise SystemExit(f"{name} was not built: {one.get('failure')}\n{world.server.last_words()}")
            line = f"{name}: step {one['step']} of {one['steps']}: {one['doing']}"
            if told.get(name) != line:
                print(line, flush=True)
                told[name] = line
        if time.monotonic() > end:
            raise SystemExit(f"{' and '.join(builds)}: not built within {PATIENCE:.0f} s")
        time.sleep(5)


def under_way(server):
    templates = server.owner("templates", "/v1/templates")["templates"]
    return {one["name"]: one["first_build"] for one in templates if one.get("first_build")}
