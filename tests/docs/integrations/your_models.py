"""The models of docs/guides/integrations.md: scripted, as the tests of sdk/integrations have them. Each is made when it is asked for."""

import os
import sys

for package in ("python", "integrations"):
    sys.path.insert(0, os.path.join(os.environ["PADDOCK_DOCS_ROOT"], "sdk", package, "tests"))
COMMAND = "echo $((6 * 7))"


def __getattr__(name):
    make = globals().get(f"make_{name}")
    if make is None:
        raise AttributeError(name)
    return make()


def make_langchain_model():
    from test_deepagents import Scripted, scripted
    from langchain_core.messages import AIMessage

    first = next(iter(scripted(("execute", {"command": COMMAND})).messages))
    return Scripted(messages=iter([first, AIMessage(content="42")]))


def make_pydantic_model():
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel

    def answer(messages, _info):
        returned = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        part = TextPart(str(returned[-1].content)) if returned else ToolCallPart("shell", {"command": COMMAND})
        return ModelResponse(parts=[part])

    return FunctionModel(answer)


def make_inspect_model():
    from test_inspect import scripted

    return scripted(("bash", {"command": f"{COMMAND} > answer"}))


def make_openai_model():
    from test_openai_agents import Scripted

    return Scripted(("exec_command", {"cmd": COMMAND}))


def make_smolagents_model():
    from test_smolagents import Scripted

    return Scripted("answer = 6 * 7", "final_answer(answer)")


def make_adk_model():
    import logging

    from test_google_adk import Scripted

    # It says that a scripted model counts no tokens.
    logging.getLogger("google_adk").setLevel(logging.ERROR)
    return Scripted(model="scripted", calls=[("Execute", {"command": COMMAND})])


def make_strands_model():
    from test_strands import Scripted

    return Scripted(("sandbox_shell", {"command": COMMAND}))


def make_autogen_model():
    from autogen_ext.models.replay import ReplayChatCompletionClient

    return ReplayChatCompletionClient(["```python\nprint(6 * 7)\n```", "42"])
