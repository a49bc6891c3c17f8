"""OpenAI's Agents SDK: a sandbox agent by its E2B client. The model is a script; the runner, the session and the sandbox are real."""
import asyncio
import json

from agents import ModelResponse, RunConfig, Runner, Usage
from agents.extensions.sandbox.e2b import E2BSandboxClient, E2BSandboxClientOptions
from agents.models.interface import Model
from agents.sandbox import SandboxAgent, SandboxRunConfig
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

COMMANDS = ["echo 'print(sum(range(10)))' > count.py; pwd", "python3 count.py; id -u"]


class Scripted(Model):
    def __init__(self):
        self.asked = []

    async def get_response(self, system_instructions, input, model_settings, tools, *others, **options):
        self.asked.append(json.dumps(input, default=str))
        turn = len(self.asked) - 1
        if turn < len(COMMANDS):
            arguments = json.dumps({"cmd": COMMANDS[turn]})
            said = ResponseFunctionToolCall(type="function_call", call_id=f"call-{turn}", name="exec_command", arguments=arguments)
        else:
            text = ResponseOutputText(type="output_text", text="It is 45.", annotations=[])
            said = ResponseOutputMessage(type="message", id="m", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *arguments, **options):
        raise NotImplementedError("the script is not streamed")


async def main():
    model = Scripted()
    agent = SandboxAgent(name="counter", instructions="Count.", model=model)
    # Its defaults ask for a pause at the end of the time to live, and for a resume by the next request.
    options = E2BSandboxClientOptions(sandbox_type="e2b")
    assert (options.on_timeout, options.auto_resume) == ("pause", True)
    config = RunConfig(sandbox=SandboxRunConfig(client=E2BSandboxClient(), options=options), tracing_disabled=True)
    ended = await Runner.run(agent, "Count to ten.", run_config=config)
    assert ended.final_output == "It is 45."
    assert "/workspace" in model.asked[1], model.asked[1]
    assert "45" in model.asked[2] and "1000" in model.asked[2], model.asked[2]
    print("openai-agents: the sandbox answered, in", len(model.asked), "turns")


if __name__ == "__main__":
    asyncio.run(main())
