"""An evaluation of Inspect whose samples are forks of one prepared sandbox. Prints seconds as JSON.

    inspect_samples.py SAMPLES FRESH LOGS

PADDOCK_URL names the server. The model is scripted: each sample calls the tool `bash` once, and says what it printed.
"""

import asyncio
import json
import sys
import time

from inspect_ai import Task, eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash
from inspect_ai.util import SandboxEnvironmentSpec
from paddock import AsyncSandbox

from paddock_integrations.inspect import PaddockConfig, PaddockSandboxEnvironment

MODEL = "mockllm/model"
SETUP = "mkdir data; seq 1000 > data/numbers"
SAMPLES, FRESH, LOGS = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


def answer(messages, *_rest):
    """The first reply calls the tool, the second says its result."""
    results = [message.text for message in messages if message.role == "tool"]
    command = {"command": "echo $(($(tail -n 1 data/numbers) - 958))"}
    output = ModelOutput.from_content(MODEL, results[-1]) if results else ModelOutput.for_tool_call(MODEL, "bash", command)
    # Without it Inspect would count, with a vocabulary from the internet.
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


def timed(name, times):
    """The provider as it is; what Inspect waits for is timed from outside."""
    inner = getattr(PaddockSandboxEnvironment, name)

    async def call(*arguments):
        began = time.perf_counter()
        try:
            return await inner(*arguments)
        finally:
            times.append(time.perf_counter() - began)

    setattr(PaddockSandboxEnvironment, name, staticmethod(call))


async def fresh():
    """A sample's sandbox without the fork: made, and set up by itself."""
    times = []
    for _ in range(FRESH):
        began = time.perf_counter()
        sandbox = await AsyncSandbox.create(ttl_seconds=300)
        assert (await sandbox.exec(SETUP)).ok
        times.append(time.perf_counter() - began)
        await sandbox.kill()
    return times


def run(at_once):
    """The times of all samples, with so many at the same time; None is Inspect's own choice."""
    set_up, taken_down = [], []
    inner = {name: vars(PaddockSandboxEnvironment)[name] for name in ("sample_init", "sample_cleanup")}
    timed("sample_init", set_up)
    timed("sample_cleanup", taken_down)
    samples = [Sample(input="What is 6 * 7?", target="42", id=number) for number in range(SAMPLES)]
    sandbox = SandboxEnvironmentSpec("paddock", PaddockConfig(setup=[SETUP]))
    task = Task(samples, [use_tools(bash(timeout=60)), generate()], scorer=includes(), sandbox=sandbox)
    model = get_model(MODEL, custom_outputs=answer)
    began = time.perf_counter()
    (log,) = evaluate(task, model=model, log_dir=LOGS, display="none", max_samples=at_once)
    whole = time.perf_counter() - began
    assert log.status == "success", log.error
    assert log.results.scores[0].metrics["accuracy"].value == 1, log.results
    for name, method in inner.items():
        setattr(PaddockSandboxEnvironment, name, method)
    return {"set_up": set_up, "taken_down": taken_down, "whole": whole}


print(json.dumps({"alone": run(1), "crowd": run(None), "fresh": asyncio.run(fresh())}))
