"""smolagents: a code agent whose Python runs in a sandbox. The model is a script; the agent, its executor and the sandbox are real.

The executor installs packages with `!pip`, which is no Python, so that its template needs IPython. `code-interpreter-v1`, its default, has it;
TEMPLATE names another, where that is not built.
"""
import os

from smolagents import CodeAgent, Model, tool
from smolagents.models import ChatMessage, MessageRole

STEPS = [
    "I count first.\n<code>\nnumbers = [n * n for n in range(5)]\nprint(sum(numbers))\n</code>",
    "A mistake.\n<code>\nnumbers[99]\n</code>",
    "A tool, and where this runs.\n<code>\nimport os\nplace = os.path.realpath(os.path.expanduser('~'))\nprint(shout(place))\n</code>",
    "Done.\n<code>\nfinal_answer({'sum': sum(numbers), 'place': place})\n</code>",
]


class Scripted(Model):
    def __init__(self):
        super().__init__(model_id="scripted")
        self.asked = []

    def generate(self, messages, **options):
        self.asked.append("\n".join(str(message.content) for message in messages))
        return ChatMessage(role=MessageRole.ASSISTANT, content=STEPS[len(self.asked) - 1])


@tool
def shout(text: str) -> str:
    """Makes a text loud.

    Args:
        text: what is said
    """
    return text.upper() + "!"


def main():
    model = Scripted()
    options = {"template": os.environ["TEMPLATE"]} if "TEMPLATE" in os.environ else {}
    home = "/home/agent" if options else "/home/user"
    with CodeAgent(tools=[shout], model=model, executor_type="e2b", executor_kwargs=options, verbosity_level=0) as agent:
        answer = agent.run("Add the squares below five.")
    assert answer == {"sum": 30, "place": home}, answer
    assert "30" in model.asked[1], "the model sees what the code printed"
    assert "IndexError" in model.asked[2], "and its mistakes"
    assert f"{home.upper()}!" in model.asked[3], "and what tools say that run inside"
    print("smolagents: the sandbox answered", answer)


if __name__ == "__main__":
    main()
