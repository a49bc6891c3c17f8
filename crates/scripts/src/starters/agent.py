# sandbox
# volume: agent-memory memory

import json
import os

MEMORY = "memory/history.json"


def main(prompt: str):
    history = json.load(open(MEMORY)) if os.path.exists(MEMORY) else []
    history.append({"role": "user", "content": prompt})

    # Ask your model here: `net:` and `secret:` lines of the header open the way to it.
    history.append({"role": "assistant", "content": f"I have been asked {len(history) // 2 + 1} times."})

    with open(MEMORY, "w") as file:
        json.dump(history, file)
    return history[-1]
