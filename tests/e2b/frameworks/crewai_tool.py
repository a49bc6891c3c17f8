"""CrewAI: an agent whose tools are a sandbox's shell and its Python. The model is a script; the crew, its tools and the sandboxes are real."""
import json
import os
import sys
import tempfile

# Before CrewAI is imported: it would send telemetry and traces to its makers.
for switch in ("CREWAI_DISABLE_TELEMETRY", "CREWAI_DISABLE_TRACKING", "OTEL_SDK_DISABLED"):
    os.environ[switch] = "true"
os.environ["CREWAI_TRACING_ENABLED"] = "false"
# It keeps a database in the home directory.
KEPT = tempfile.TemporaryDirectory(prefix="paddock-e2b-crewai-")
os.environ.update(HOME=KEPT.name, CREWAI_STORAGE_DIR=os.path.join(KEPT.name, "storage"))
LOOPBACK = ("127.0.0.1", "localhost", "::1", None)


def stay_here(event, arguments):
    """No look-up and no connection of this program leaves the host."""
    if event == "socket.getaddrinfo" and arguments[0] not in LOOPBACK:
        raise PermissionError(f"a look-up of {arguments[0]}")
    if event == "socket.connect" and isinstance(arguments[1], tuple) and arguments[1][0] not in LOOPBACK:
        raise PermissionError(f"a connection to {arguments[1]}")


sys.addaudithook(stay_here)

from crewai import Agent, Crew, Task  # noqa: E402
from crewai.llms.base_llm import BaseLLM  # noqa: E402
from crewai_tools import E2BExecTool, E2BPythonTool  # noqa: E402


def action(tool, **arguments):
    return f"Thought: I use a tool.\nAction: {tool}\nAction Input: {json.dumps(arguments)}"


STEPS = [
    action("E2B Sandbox Exec", command="echo 'print(sum(range(10)))' > count.py; pwd"),
    action("E2B Sandbox Exec", command="python3 count.py; id -u"),
    action("E2B Sandbox Python", code="numbers = list(range(11))\nsum(numbers)"),
    "Thought: I know it.\nFinal Answer: It is 45, and then 55.",
]


class Scripted(BaseLLM):
    asked: list = []

    def call(self, messages, *others, **options):
        self.asked.append(messages if isinstance(messages, str) else "\n".join(str(one["content"]) for one in messages))
        return STEPS[len(self.asked) - 1]

    def supports_function_calling(self):
        return False


def main():
    model = Scripted(model="scripted")
    # One sandbox for all calls of the first, as its files are to stay; a fresh one for each call of the second.
    shell = E2BExecTool(persistent=True)
    agent = Agent(role="counter", goal="Count.", backstory="It counts.", llm=model, tools=[shell, E2BPythonTool()])
    task = Task(description="Count to ten.", expected_output="The sum.", agent=agent)
    ended = Crew(agents=[agent], tasks=[task]).kickoff()
    shell.close()
    assert ended.raw == "It is 45, and then 55.", ended.raw
    assert "/home/user" in model.asked[1], model.asked[1]
    assert "45" in model.asked[2] and "1000" in model.asked[2], model.asked[2]
    assert "55" in model.asked[3], model.asked[3]
    print("crewai: the sandboxes answered, in", len(model.asked), "turns")


if __name__ == "__main__":
    main()
