"""langchain-e2b: a deep agent whose shell and files are a sandbox's. The model is a script; the graph, its tools and the sandbox are real."""
from deepagents import create_deep_agent
from e2b import Sandbox
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_e2b import E2BSandbox


def call(number, name, **arguments):
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"call-{number}"}])


STEPS = [
    call(1, "write_file", file_path="/home/user/count.py", content="print(sum(range(10)))\n"),
    call(2, "execute", command="python3 count.py; id -u"),
    call(3, "edit_file", file_path="/home/user/count.py", old_string="10", new_string="11"),
    call(4, "execute", command="python3 count.py && exit 3"),
    call(5, "grep", pattern="range", path="/home/user"),
    call(6, "read_file", file_path="/home/user/count.py"),
    AIMessage("It is 55."),
]


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools, **options):
        return self


def main():
    with Sandbox.create() as sandbox:
        agent = create_deep_agent(model=Scripted(messages=iter(STEPS)), backend=E2BSandbox(sandbox=sandbox))
        ended = agent.invoke({"messages": [{"role": "user", "content": "Count to ten."}]})
        said = {one.tool_call_id: str(one.content) for one in ended["messages"] if isinstance(one, ToolMessage)}
        assert sandbox.files.read("/home/user/count.py") == "print(sum(range(11)))\n"
    assert "45" in said["call-2"] and "1000" in said["call-2"], said
    assert "55" in said["call-4"] and "3" in said["call-4"], said
    assert "count.py" in said["call-5"] and "range(11)" in said["call-6"], said
    assert ended["messages"][-1].content == "It is 55."
    print("langchain-e2b: the sandbox answered", said["call-4"].strip().splitlines()[0])


if __name__ == "__main__":
    main()
