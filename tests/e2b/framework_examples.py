"""Runs the examples of frameworks/, each in a process of its own with the packages of its framework, beside the other cases."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TIME_LIMIT = 240
# The example, and the directory of its packages below PADDOCK_TEST_E2B_FRAMEWORKS.
EXAMPLES = {"smolagents_executor": "smolagents", "langchain_backend": "langchain", "openai_agents_client": "openai-agents"}
TEMPLATE = "with-ipython"


class Examples:
    """Begun at once, because most of their time is that of importing; ended when somebody asks how they went."""

    def __init__(self, world, words):
        self.running, self.skips = {}, []
        wanted = {name for name in EXAMPLES if not words or any(word in f"frameworks.{name}" for word in words)}
        if not wanted:
            return
        add_template(world)
        for name in sorted(wanted):
            self.begin(world, name)

    def begin(self, world, name):
        place = os.path.join(os.environ.get("PADDOCK_TEST_E2B_FRAMEWORKS", ""), EXAMPLES[name])
        if not os.path.exists(os.path.join(place, "e2b", "__init__.py")):
            self.skips.append(f"e2b-frameworks: the packages of {EXAMPLES[name]} are not there")
            return
        if name == "smolagents_executor" and not os.environ.get("PADDOCK_TEST_IPYTHON"):
            self.skips.append("e2b-frameworks: PADDOCK_TEST_IPYTHON does not name a directory with IPython")
            return
        environment = {**os.environ, **world.variables, "PYTHONPATH": place, "TEMPLATE": TEMPLATE}
        command = [sys.executable, os.path.join(HERE, "frameworks", f"{name}.py")]
        self.running[name] = subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def results(self):
        """Name, whether it passed, and what else there is to say."""
        for reason in self.skips:
            print(f"SKIP {reason}", flush=True)
        for name, process in self.running.items():
            try:
                said, _ = process.communicate(timeout=TIME_LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                said, _ = process.communicate()
            yield f"frameworks.{name}", process.returncode == 0, "" if process.returncode == 0 else f"\n{said}"

    def close(self):
        for process in self.running.values():
            process.kill()
            process.wait()


def add_template(world):
    """With IPython, as E2B's own template has it."""
    packages = os.environ.get("PADDOCK_TEST_IPYTHON")
    if packages:
        inside = "/opt/ipython"
        world.server.run("template", "add", TEMPLATE, "--read", f"{packages}:{inside}", "--env", f"PYTHONPATH={inside}")
