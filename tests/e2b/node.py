"""Runs the cases of cases.mjs with the SDK for Node, where it is there."""
import json
import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
TIME_LIMIT = 180


def run(world):
    """Name, whether it passed, and what else there is to say."""
    place, node = os.environ.get("PADDOCK_TEST_E2B_NODE"), shutil.which("node")
    if not place or not os.path.exists(os.path.join(place, "e2b", "package.json")) or not node:
        print("SKIP e2b-node: the SDK for Node is not there", flush=True)
        return
    environment = dict(os.environ, **world.variables, PADDOCK_TEST_E2B_NODE=place, OTHER_KEY=world.other_key)
    command = [node, os.path.join(HERE, "cases.mjs")]
    process = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=TIME_LIMIT, check=False)
    for line in process.stdout.splitlines():
        try:
            case = json.loads(line)
        except ValueError:
            print(line)
            continue
        yield f"node.{case['name']}", case["ok"], "" if case["ok"] else f"\n{case['error']}"
    yield "node.all_cases_ran", process.returncode == 0, f" (exit code {process.returncode})"
