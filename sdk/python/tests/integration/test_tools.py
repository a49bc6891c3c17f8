"""A model with a sandbox: the real packages of two providers, a server that speaks their formats, a real sandbox."""

from __future__ import annotations

import asyncio
from typing import Any, Dict, List

import anthropic
import openai
import pytest

from paddock import AsyncSandbox, Sandbox, Tools

from ..model_server import ModelServer, Wish
from .test_examples import BLOCKS, living, load

TURNS: List[List[Wish]] = [
    [("write_file", {"path": "src/numbers.py", "content": "def answer():\n    return 41\n"})],
    [
        ("edit_file", {"path": "src/numbers.py", "old_text": "41", "new_text": "42"}),
        ("read_file", {"path": "/workspace/src/numbers.py"}),
        ("list_files", {"recursive": True}),
    ],
    [("run_shell", {"command": "echo oops >&2; exit 3", "cwd": "/tmp"})],
    [("run_code", {"code": "import sys; sys.path.append('src'); from numbers import answer"}), ("dance", {})],
    [("run_code", {"code": "exec(open('src/numbers.py').read()); print(answer())"})],
]


def turns() -> List[List[Wish]]:
    return [list(turn) for turn in TURNS]


def said(answer: anthropic.types.Message) -> str:
    return "".join(block.text for block in answer.content if block.type == "text")


def check(model: ModelServer, told: str) -> None:
    texts = [text for text, _ in model.results]
    assert told == "The answer is 42."
    assert texts[0] == "[wrote 28 bytes to src/numbers.py]"
    assert texts[1] == "[replaced 1 time in src/numbers.py]"
    assert texts[2] == "def answer():\n    return 42\n"
    assert [line.split()[-1] for line in texts[3].splitlines()] == ["src", "src/numbers.py"]
    assert texts[4].endswith("[stderr]\noops\n[exit code 3]")
    assert "ImportError" in texts[5]
    assert "there is no tool 'dance'" in texts[6]
    assert texts[7] == "42"


def test_anthropic(sandbox: Sandbox) -> None:
    with ModelServer(turns()) as model:
        client = anthropic.Anthropic(base_url=model.url, api_key="none", max_retries=0)
        messages: List[Any] = [{"role": "user", "content": "go"}]
        while True:
            answer = client.messages.create(
                model="scripted", max_tokens=100, tools=sandbox.tools.anthropic(), messages=messages
            )
            messages.append({"role": "assistant", "content": answer.content})
            results = sandbox.tools.handle_all(answer)
            if not results:
                break
            messages += results
        check(model, said(answer))
        assert [failed for _, failed in model.results] == [False] * 4 + [True] * 3 + [False]
        client.close()


def test_the_loop_of_the_readme() -> None:
    names: Dict[str, Any] = {}
    [block] = [block for block in BLOCKS if "def agent(" in block]
    exec(compile(block, "README.md", "exec"), names)
    with ModelServer(turns()) as model:
        client = anthropic.Anthropic(base_url=model.url, api_key="none", max_retries=0)
        check(model, names["agent"]("go", client, "scripted"))
        client.close()


def test_the_loop_of_the_example() -> None:
    agent = load("agent").agent
    before = living()
    with ModelServer(turns()) as model:
        client = anthropic.Anthropic(base_url=model.url, api_key="none", max_retries=0)
        check(model, agent("go", client, "scripted"))
        client.close()
    endless: List[List[Wish]] = [[("run_shell", {"command": "true"})] for _ in range(4)]
    with ModelServer(endless) as model:
        client = anthropic.Anthropic(base_url=model.url, api_key="none", max_retries=0)
        with pytest.raises(TimeoutError, match="after 2 replies"):
            agent("go", client, "scripted", steps=2)
        client.close()
    assert living() == before


def test_openai_chat_completions(sandbox: Sandbox) -> None:
    with ModelServer(turns()) as model:
        client = openai.OpenAI(base_url=f"{model.url}/v1", api_key="none", max_retries=0)
        messages: List[Any] = [{"role": "user", "content": "go"}]
        while True:
            answer = client.chat.completions.create(model="scripted", tools=sandbox.tools.openai(), messages=messages)
            messages.append(answer.choices[0].message)
            results = sandbox.tools.handle_all(answer)
            if not results:
                break
            messages += results
        check(model, answer.choices[0].message.content or "")
        assert model.results[4][0].startswith("error: ")
        client.close()


def test_openai_responses(sandbox: Sandbox) -> None:
    with ModelServer(turns()) as model:
        client = openai.OpenAI(base_url=f"{model.url}/v1", api_key="none", max_retries=0)
        items: List[Any] = [{"role": "user", "content": "go"}]
        while True:
            answer = client.responses.create(model="scripted", tools=sandbox.tools.openai_responses(), input=items)
            items += answer.output
            results = sandbox.tools.handle_all(answer)
            if not results:
                break
            items += results
        check(model, answer.output_text)
        client.close()


def test_asyncio_and_one_block_at_a_time() -> None:
    async def main() -> str:
        with ModelServer(turns()) as model:
            client = anthropic.AsyncAnthropic(base_url=model.url, api_key="none", max_retries=0)
            messages: List[Any] = [{"role": "user", "content": "go"}]
            async with await AsyncSandbox.create(ttl_seconds=300) as sandbox:
                while True:
                    answer = await client.messages.create(
                        model="scripted", max_tokens=100, tools=sandbox.tools.anthropic(), messages=messages
                    )
                    messages.append({"role": "assistant", "content": answer.content})
                    calls = [block for block in answer.content if block.type == "tool_use"]
                    if not calls:
                        break
                    messages.append({"role": "user", "content": [await sandbox.tools.handle(call) for call in calls]})
            check(model, said(answer))
            await client.close()
            # The package's transport closes in the background.
            await asyncio.sleep(0.05)
            return said(answer)

    assert asyncio.run(main()) == "The answer is 42."


def handled(tools: Tools, name: str, **arguments: Any) -> Any:
    return tools.handle({"type": "tool_use", "id": "t", "name": name, "input": arguments})


def text(result: Any) -> str:
    return str(result["content"][0]["text"])


def test_long_output_is_cut_and_read_on(sandbox: Sandbox) -> None:
    tools = Tools(sandbox, output_budget=2000)
    shown = text(handled(tools, "run_shell", command="seq 1 5000"))
    assert len(shown) < 2300
    assert shown.startswith("1\n2\n")
    assert shown.endswith("\n5000")
    head = shown.split("\n[")[0]
    offset = int(shown.split("offset=")[1].split(")")[0])
    more = text(handled(tools, "read_output", output="output-1", offset=offset))
    assert head.endswith(f"{int(more.split()[0]) - 1}\n")


def test_what_goes_wrong_inside_is_told(sandbox: Sandbox) -> None:
    tools = Tools(sandbox, timeout_seconds=120)
    late = handled(tools, "run_code", code="print('begun', flush=True)\nwhile True: pass", timeout_seconds=1)
    assert text(late).startswith("begun\n")
    assert text(late).endswith("KeyboardInterrupt\n[stopped: the time limit was reached]")
    assert late["is_error"]
    assert text(handled(tools, "run_code", code="kept = 6 * 7\nkept")) == "42"
    assert text(handled(tools, "run_code", code="print(kept)")) == "42"
    assert text(handled(tools, "run_code", code="x = 1")) == "[no output; it ended well. Print what you want to see.]"
    assert "No such file" in text(handled(tools, "read_file", path="/workspace/none"))
    assert "is a directory" in text(handled(tools, "read_file", path="/tmp"))
    assert "no text" in text(handled(tools, "read_file", path="/usr/bin/env"))
    assert handled(tools, "write_file", path="/usr/bin/env", content="x")["is_error"]
    assert "line 1" in text(handled(tools, "run_code", code="1 / 0"))


def test_an_edit_keeps_the_mode(sandbox: Sandbox) -> None:
    sandbox.exec("printf 'echo one' > run.sh; chmod 750 run.sh")
    handled(sandbox.tools, "edit_file", path="run.sh", old_text="one", new_text="two")
    assert sandbox.exec("./run.sh; stat -c %a run.sh").stdout == "two\n750\n"


def test_a_sandbox_that_is_gone_is_told(sandbox: Sandbox) -> None:
    sandbox.kill()
    result = handled(sandbox.tools, "run_code", code="print(1)")
    assert result["is_error"]
    assert "ended" in text(result)


@pytest.mark.parametrize("number", [0, 600])
def test_directories_in_an_answer(sandbox: Sandbox, number: int) -> None:
    sandbox.exec(f"mkdir d; cd d; seq 1 {number} | xargs -r touch")
    listed = text(handled(sandbox.tools, "list_files", path="d"))
    assert listed == "[d is empty]" if number == 0 else "the first 500 entries" in listed
