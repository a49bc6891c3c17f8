"""The waiting times of a program that was written for E2B, beside the same requests without its SDK. Prints seconds as JSON.

    e2b_sdk.py ROUNDS WARM_ROUNDS AT_ONCE

E2B_API_KEY, E2B_API_URL and E2B_SANDBOX_URL name the server, as for any such program.
"""
import asyncio
import http.client
import json
import os
import struct
import subprocess
import sys
import threading
import time
import urllib.parse

from e2b import AsyncSandbox, Sandbox
from e2b_code_interpreter import Sandbox as Interpreter

WARM_UP = 5
IMPORTS = 10
IMPORT = "import time; began = time.perf_counter(); import e2b_code_interpreter; print(time.perf_counter() - began)"
ADDRESS = urllib.parse.urlsplit(os.environ["E2B_API_URL"])
START = json.dumps({"process": {"cmd": "/bin/bash", "args": ["-l", "-c", "true"]}, "stdin": False}).encode()


def timed(action, *arguments):
    began = time.perf_counter()
    action(*arguments)
    return time.perf_counter() - began


class ByHand:
    """The least that a program could send, on one connection."""

    def __init__(self):
        self.connection = http.client.HTTPConnection(ADDRESS.hostname, ADDRESS.port, timeout=60)

    def ask(self, method, path, body, headers, wanted):
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        said = answer.read()
        assert answer.status == wanted, (method, path, answer.status, said[:300])
        return said

    def control(self, method, path, body, wanted):
        headers = {"X-API-KEY": os.environ["E2B_API_KEY"], "Content-Type": "application/json"}
        return self.ask(method, path, body, headers, wanted)

    def create(self, template="base"):
        return json.loads(self.control("POST", "/v2/sandboxes", json.dumps({"templateID": template}), 201))

    def kill(self, made):
        self.control("DELETE", f"/sandboxes/{made['sandboxID']}", None, 204)

    def inside(self, made, port, kind):
        return {
            "E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": port, "X-Access-Token": made["envdAccessToken"], "Content-Type": kind,
        }

    def run(self, made):
        headers = {**self.inside(made, "49983", "application/connect+json"), "Connect-Protocol-Version": "1"}
        said = self.ask("POST", "/process.Process/Start", struct.pack(">BI", 0, len(START)) + START, headers, 200)
        assert b'"exitCode":0' in said, said

    def code(self, made):
        said = self.ask("POST", "/execute", b'{"code":"1+1"}', self.inside(made, "49999", "application/json"), 200)
        assert b'"text":"2"' in said, said

    def use(self):
        made = self.create()
        self.run(made)
        self.kill(made)


def use():
    sandbox = Sandbox.create()
    assert sandbox.commands.run("true").exit_code == 0
    assert sandbox.kill()


def uses(rounds):
    """In turns, so that all of them see the same host."""
    by_hand = ByHand()
    told = {"use": [], "use_by_hand": [], "true": []}
    for _ in range(WARM_UP + rounds):
        told["use"].append(timed(use))
        told["use_by_hand"].append(timed(by_hand.use))
        told["true"].append(timed(lambda: subprocess.run(["true"], check=True)))
    return {name: samples[WARM_UP:] for name, samples in told.items()}


def codes(rounds):
    by_hand = ByHand()
    told = {"code": [], "code_by_hand": [], "python": []}
    made = by_hand.create("code-interpreter-v1")
    with Interpreter.create() as sandbox:
        def run_code():
            assert sandbox.run_code("1+1").text == "2"

        def python():
            subprocess.run(["/usr/bin/python3", "-c", "1+1"], check=True)

        for number in range(WARM_UP + rounds):
            told["code"].append(timed(run_code))
            told["code_by_hand"].append(timed(by_hand.code, made))
            # It takes ten times as long and varies little.
            if number % 10 == 0:
                told["python"].append(timed(python))
    by_hand.kill(made)
    return {name: samples if name == "python" else samples[WARM_UP:] for name, samples in told.items()}


async def crowd(count):
    """Each from the moment at which all of them were asked for until it has run a command."""
    began = time.perf_counter()

    async def one():
        sandbox = await AsyncSandbox.create()
        try:
            await sandbox.commands.run("true")
            return time.perf_counter() - began, sandbox
        except Exception:
            await sandbox.kill()
            raise

    ended = await asyncio.gather(*(one() for _ in range(count)), return_exceptions=True)
    made = [result for result in ended if not isinstance(result, BaseException)]
    for problem in [result for result in ended if isinstance(result, BaseException)][:3]:
        print(f"one of the crowd failed: {problem!r}", file=sys.stderr)
    await asyncio.gather(*(sandbox.kill() for _, sandbox in made))
    return {"crowd": [taken for taken, _ in made], "crowd_failed": count - len(made)}


def crowd_by_hand(count):
    taken, lock, together = [], threading.Lock(), threading.Barrier(count + 1)

    def one():
        by_hand, made = ByHand(), None
        together.wait()
        try:
            made = by_hand.create()
            by_hand.run(made)
            with lock:
                taken.append(time.perf_counter() - began)
        finally:
            # All of them are made before the first is ended, as with the SDK.
            together.wait()
            if made:
                by_hand.kill(made)

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    began = time.perf_counter()
    together.wait()
    together.wait()
    for thread in threads:
        thread.join()
    return {"crowd_by_hand": taken}


def imported():
    return float(subprocess.run([sys.executable, "-c", IMPORT], stdout=subprocess.PIPE, check=True).stdout)


def main():
    rounds, warm_rounds, at_once = map(int, sys.argv[1:])
    told = {**uses(rounds), **codes(warm_rounds), **asyncio.run(crowd(at_once)), **crowd_by_hand(at_once)}
    told["import"] = [imported() for _ in range(IMPORTS)]
    return told


print(json.dumps(main()))
