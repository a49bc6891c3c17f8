"""Runs the examples of frameworks/, each in a process of its own with the packages of its framework, beside the other cases."""
import os
import subprocess
import sys

import built_templates

HERE = os.path.dirname(os.path.abspath(__file__))
TIME_LIMIT = 240
# The example, and the directory of its packages below PADDOCK_TEST_E2B_FRAMEWORKS.
EXAMPLES = {"smolagents_executor": "smolagents", "langchain_backend": "langchain", "openai_agents_client": "openai-agents"}
# Those that run when they are named: `make test-integrations` fetches their packages, and `make test` does not.
SLOW_EXAMPLES = {"crewai_tool": "crewai"}
# Those that get the newest SDKs before the packages of their framework, whose own know no E2B_SANDBOX_URL.
WITH_NEWEST_SDKS = {"crewai_tool"}
# For smolagents, where `code-interpreter-v1` is not built: with it the example names no template, as a program of smolagents' users.
TEMPLATE = "with-ipython"


class Examples:
    """Begun at once, because most of their time is that of importing; ended when somebody asks how they went."""

    def __init__(self, world, words):
        self.running, self.skips, self.missing = {}, [], []
        wanted = {name for name in EXAMPLES if not words}
        wanted |= {name for name in {**EXAMPLES, **SLOW_EXAMPLES} if any(word in f"frameworks.{name}" for word in words)}
        if not wanted:
            return
        self.is_built = built_templates.is_built(world.server)
        if not self.is_built:
            add_template(world)
        for name in sorted(wanted):
            self.begin(world, name)

    def begin(self, world, name):
        framework = {**EXAMPLES, **SLOW_EXAMPLES}[name]
        place = os.path.join(os.environ.get("PADDOCK_TEST_E2B_FRAMEWORKS", ""), framework)
        if not os.path.exists(os.path.join(place, "e2b", "__init__.py")):
            reason = f"the packages of {framework} are not there"
            if name in SLOW_EXAMPLES:
                # It runs only where somebody asked for it.
                self.missing.append((f"frameworks.{name}", False, f"\n{reason}"))
            else:
                self.skips.append(f"e2b-frameworks: {reason}")
            return
        if name == "smolagents_executor" and not self.is_built and not os.environ.get("PADDOCK_TEST_IPYTHON"):
            self.skips.append("e2b-frameworks: PADDOCK_TEST_IPYTHON does not name a directory with IPython")
            return
        if name in WITH_NEWEST_SDKS:
            place = os.pathsep.join((os.environ.get("PADDOCK_TEST_E2B", ""), place))
        environment = {**os.environ, **world.variables, "PYTHONPATH": place}
        if not self.is_built:
            environment["TEMPLATE"] = TEMPLATE
        command = [sys.executable, os.path.join(HERE, "frameworks", f"{name}.py")]
        self.running[name] = subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def results(self):
        """Name, whether it passed, and what else there is to say."""
        for reason in self.skips:
            print(f"SKIP {reason}", flush=True)
        yield from self.missing
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
    """With IPython, as `code-interpreter-v1` has it."""
    packages = os.environ.get("PADDOCK_TEST_IPYTHON")
    if packages:
        inside = "/opt/ipython"
        world.server.run("template", "add", TEMPLATE, "--read", f"{packages}:{inside}", "--env", f"PYTHONPATH={inside}")
