"""How long `run_code` takes, and the same call through `sandbox.tools.handle`, in turns. Prints seconds as JSON."""

import json
import sys
import time

from paddock import Sandbox

WARM_UP = 20


def main(rounds: int) -> None:
    call = {"type": "tool_use", "id": "t", "name": "run_code", "input": {"code": "print(1)"}}
    plain, handled = [], []
    with Sandbox.create(ttl_seconds=900) as sandbox:
        for number in range(WARM_UP + rounds):
            began = time.perf_counter()
            assert sandbox.run_code("print(1)", language="python", timeout_seconds=120).stdout == "1\n"
            between = time.perf_counter()
            result = sandbox.tools.handle(call)
            ended = time.perf_counter()
            assert result["content"][0]["text"] == "1", result
            if number >= WARM_UP:
                plain.append(between - began)
                handled.append(ended - between)
    print(json.dumps({"plain": plain, "handled": handled}))


main(int(sys.argv[1]))
