"""The waiting times of a program that rewards a model for its code, beside bare Python. Prints seconds as JSON.

    rewards.py ROUNDS REWARDS AT_ONCE

SANDBOX_FUSION_ENDPOINT is the server, with a token in it, and VERL the directory of verl's module.
"""
import importlib.util
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from sandbox_fusion import RunCodeRequest, run_code

WARM_UP = 20
ENDPOINT = os.environ["SANDBOX_FUSION_ENDPOINT"]
TIMEOUT, MEMORY_MB = 10, 1024
#: What a small model writes: answers that are right, wrong, and programs that fail.
PROGRAMS = [
    ("print(sum(map(int, input().split())))", "{0} {1}", "Success", lambda a, b: f"{a + b}\n"),
    ("a, b = map(int, input().split())\nprint(a * b if a else 0)", "{0} {1}", "Success", lambda a, b: f"{a * b}\n"),
    ("import sys\nprint(max(map(int, sys.stdin)))", "{0}\n{1}", "Success", lambda a, b: f"{max(a, b)}\n"),
    ("from math import gcd\nprint(gcd(*map(int, input().split())))", "{0} 0", "Success", lambda a, b: f"{a}\n"),
    ("n = int(input())\nprint(sum(i * i for i in range(n)))", "{0}", "Success", lambda a, b: f"{sum(i * i for i in range(a))}\n"),
    ("print(int(input()) // 0)", "{0}", "Failed", lambda a, b: ""),
]


def timed(action):
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def one():
    told = run_code(RunCodeRequest(code="print(1)", language="python"), max_attempts=1)
    assert told.run_result.stdout == "1\n", told


def bare():
    subprocess.run(["/usr/bin/python3", "-c", "print(1)"], capture_output=True, check=True)


def verl():
    place = os.environ["VERL"]
    spec = importlib.util.spec_from_file_location("verl_rewards", os.path.join(place, "utils.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reward(call, number):
    code, stdin, status, expected = PROGRAMS[number % len(PROGRAMS)]
    a, b = number % 97 + 1, number % 31
    began = time.perf_counter()
    told, error = call(f"{ENDPOINT}/run_code", code, stdin.format(a, b), TIMEOUT, TIMEOUT, MEMORY_MB, "python")
    good = error is None and told["status"] == status and told["run_result"]["stdout"] == expected(a, b)
    if not good:
        print(f"reward {number}: {error or told}"[:500], file=sys.stderr)
    return time.perf_counter() - began, good


def main():
    rounds, rewards, at_once = map(int, sys.argv[1:])
    told = {"one": [], "bare": []}
    # In turns, so that both see the same host.
    for _ in range(WARM_UP + rounds):
        told["one"].append(timed(one))
        told["bare"].append(timed(bare))
    told = {name: samples[WARM_UP:] for name, samples in told.items()}
    call = verl().call_sandbox_api
    began = time.perf_counter()
    with ThreadPoolExecutor(at_once) as together:
        done = list(together.map(lambda number: reward(call, number), range(rewards)))
    told["batch_seconds"] = time.perf_counter() - began
    told["rewards"] = [seconds for seconds, _ in done]
    told["failed"] = sum(not good for _, good in done)
    print(json.dumps(told))


main()
