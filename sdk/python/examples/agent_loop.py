"""The agent loop: the model proposes, you run, you feed back.

`ScriptedLocalModel` stands where a client of a model's provider would: it answers from a script, without a network, in
the shape of the Anthropic Messages API. With `anthropic.Anthropic()` in its place, `agent` stays as it is.
"""

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

from paddock import Sandbox

RUN_CODE_TOOL = {
    "name": "run_code",
    "description": (
        "Execute Python code in an isolated sandbox and return its output. "
        "Use this whenever you need to compute, transform data, or test code. "
        "The sandbox has no network and is reset between sessions."
    ),
    "input_schema": {
        "type": "object",
        "properties": {
            "code": {
                "type": "string",
                "description": "The Python source to run. Print results you want back.",
            }
        },
        "required": ["code"],
    },
}


@dataclass
class Block:
    type: str
    text: str = ""
    id: str = ""
    name: str = ""
    input: Dict[str, Any] = field(default_factory=dict)


@dataclass
class Reply:
    content: List[Block]
    stop_reason: str


class ScriptedLocalModel:
    """No model at all: asks to run the given snippets one after the other, then repeats the last result."""

    def __init__(self, snippets: List[str]) -> None:
        self._snippets = list(snippets)
        self.messages = self

    def create(self, *, messages: List[Dict[str, Any]], **_options: Any) -> Reply:
        if self._snippets:
            call = Block("tool_use", id=f"call-{len(messages)}", name="run_code", input={"code": self._snippets.pop(0)})
            return Reply([call], "tool_use")
        last = messages[-1]["content"][-1]["content"]
        return Reply([Block("text", text=f"The answer is {last}.")], "end_turn")


def agent(user_request: str, client: ScriptedLocalModel, sandbox: Optional[Sandbox] = None) -> str:
    if sandbox is None:
        with Sandbox.create(template="code-interpreter", ttl_seconds=600) as sandbox:
            return agent(user_request, client, sandbox)
    messages: List[Dict[str, Any]] = [{"role": "user", "content": user_request}]
    while True:
        resp = client.messages.create(model="scripted", max_tokens=2048, tools=[RUN_CODE_TOOL], messages=messages)
        messages.append({"role": "assistant", "content": resp.content})

        if resp.stop_reason != "tool_use":
            # No more tools requested: return the final text.
            return "".join(b.text for b in resp.content if b.type == "text")

        # Run every tool the model asked for, collect results.
        results = []
        for block in resp.content:
            if block.type == "tool_use" and block.name == "run_code":
                r = sandbox.run_code(block.input["code"])
                output = (r.stdout + (r.stderr if r.exit_code else "")).strip()
                results.append({"type": "tool_result", "tool_use_id": block.id, "content": output})
        messages.append({"role": "user", "content": results})


FIBONACCI = """
a, b = 0, 1
for _ in range(30):
    a, b = b, a + b
open("fibonacci.txt", "w").write(str(a))
"""

if __name__ == "__main__":
    model = ScriptedLocalModel([FIBONACCI, "print(open('fibonacci.txt').read())"])
    print(agent("What is the 30th Fibonacci number? Compute it, don't guess.", model))  # -> The answer is 832040.
