"""Runs the cases of cases*.mjs with the SDKs for Node, where they are there."""
import contextlib
import json
import os
import shutil
import subprocess
import threading
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
# In seconds, from one line of output to the next: a case has a limit of its own, and a busy host takes its time for all of them.
SILENCE_LIMIT = 400


def run(world, directory, words=()):
    """Of the cases of a directory: name, whether it passed, and what else there is to say."""
    place, node = os.environ.get("PADDOCK_TEST_E2B_NODE"), shutil.which("node")
    if not place or not os.path.exists(os.path.join(place, "e2b", "package.json")) or not node:
        print("SKIP e2b-node: the SDK for Node is not there", flush=True)
        return
    forget_templates(world)
    environment = dict(os.environ, **world.variables, PADDOCK_TEST_E2B_NODE=place)
    environment.update(OTHER_KEY=world.other_key, READING_KEY=world.reading_key, IMAGE=world.image or "")
    command = [node, os.path.join(HERE, "run.mjs"), directory, *words]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    limit = Limit(process)
    try:
        for line in process.stdout:
            limit.begin_again()
            try:
                case = json.loads(line)
            except ValueError:
                print(line, end="", flush=True)
                continue
            detail = f" ({case['seconds']:.2f} s)" if case["ok"] else f"\n{case['error']}"
            yield f"node.{case['name']}", case["ok"], detail
    finally:
        limit.cancel()
        code = process.wait()
    if code != 0:
        yield "node.all_cases_ran", False, f" (exit code {code}{limit.said})"


def forget_templates(world):
    """A tenant has 200 templates at the most, and the cases for Python made many."""
    address, token = world.variables["E2B_API_URL"], world.server.run("token", "create", "--tenant", "e2b", "--role", "admin").strip()

    def call(method, path):
        request = urllib.request.Request(address + path, method=method)
        request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()

    for template in json.loads(call("GET", "/v1/templates"))["templates"]:
        # Those of the server are not this tenant's to delete.
        with contextlib.suppress(urllib.error.HTTPError):
            call("DELETE", f"/v1/templates/{template['name']}")


class Limit:
    """Kills a process that says nothing for too long."""

    def __init__(self, process, seconds=SILENCE_LIMIT):
        self.process, self.seconds, self.said, self.timer = process, seconds, "", None
        self.begin_again()

    def begin_again(self):
        self.cancel()
        self.timer = threading.Timer(self.seconds, self.over)
        self.timer.daemon = True
        self.timer.start()

    def over(self):
        self.said = f", it said nothing for {self.seconds} s"
        self.process.kill()

    def cancel(self):
        if self.timer is not None:
            self.timer.cancel()
