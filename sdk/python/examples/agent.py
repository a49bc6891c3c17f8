"""The loop of `paddock agent` in forty lines: a model proposes, a sandbox runs, the answer goes back.

    ANTHROPIC_API_KEY=... python agent.py "What is the 30th Fibonacci number? Compute it, don't guess."

The key stays with this program. The sandbox goes with its block, or by its time to live if this program is killed.
"""

import sys
from typing import Any, List

import anthropic

from paddock import Sandbox


def agent(task: str, client: anthropic.Anthropic, model: str = "claude-sonnet-4-5", steps: int = 50) -> str:
    with Sandbox.create(template="code-interpreter", ttl_seconds=3600) as sandbox:
        tools = sandbox.tools.anthropic()
        messages: List[Any] = [{"role": "user", "content": task}]
        for _ in range(steps):
            reply = client.messages.create(model=model, max_tokens=8192, tools=tools, messages=messages)
            messages.append({"role": "assistant", "content": reply.content})
            # Every call is answered, also one that fails: the model is told, and can do better.
            results = sandbox.tools.handle_all(reply)
            if not results:
                return "".join(block.text for block in reply.content if block.type == "text")
            messages += results
        raise TimeoutError(f"the model still wanted to go on after {steps} replies")


if __name__ == "__main__":
    print(agent(sys.argv[1], anthropic.Anthropic(max_retries=5)))
