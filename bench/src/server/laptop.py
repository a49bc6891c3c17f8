"""The waiting times of one person with nothing set up, in seconds as JSON.

    laptop.py first            create, run_code and kill, once
    laptop.py later ROUNDS     the same again and again, beside a bare Python; calls of the SDK beside the same by hand; imports
"""

import http.client
import json
import os
import socket
import subprocess
import sys
import time

from paddock import Sandbox

# Between two uses a person thinks; sandboxes are made ready meanwhile.
PAUSE = 0.1
# From this use on, demand has been seen.
WARM_UP = 2
CALLS = 300
IMPORTS = 20
IMPORT = "import time; began = time.perf_counter(); import paddock; print(time.perf_counter() - began)"


def use():
    began = time.perf_counter()
    with Sandbox.create() as sandbox:
        assert sandbox.run_code("print(1)").stdout == "1\n"
    return time.perf_counter() - began


def bare():
    began = time.perf_counter()
    assert subprocess.run(["/usr/bin/python3", "-c", "print(1)"], stdout=subprocess.PIPE, check=True).stdout == b"1\n"
    return time.perf_counter() - began


class ByHand(http.client.HTTPConnection):
    """The least that a program could send, on one connection."""

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["PADDOCK_URL"].removeprefix("unix:"))

    def run_code(self, sandbox):
        began = time.perf_counter()
        self.request("POST", f"/v1/sandboxes/{sandbox}/code", b'{"code":"print(1)"}', {"content-type": "application/json"})
        assert json.loads(self.getresponse().read())["stdout"] == "1\n"
        return time.perf_counter() - began


def calls():
    by_sdk, by_hand = [], []
    connection = ByHand("localhost")
    with Sandbox.create() as sandbox:
        for _ in range(20 + CALLS):
            began = time.perf_counter()
            assert sandbox.run_code("print(1)").stdout == "1\n"
            by_sdk.append(time.perf_counter() - began)
            by_hand.append(connection.run_code(sandbox.id))
    return by_sdk[20:], by_hand[20:]


def imported():
    return float(subprocess.run([sys.executable, "-c", IMPORT], stdout=subprocess.PIPE, check=True).stdout)


def main():
    if sys.argv[1] == "first":
        return {"first": [use()], "bare": [bare()]}
    uses, bares = [], []
    for _ in range(WARM_UP + int(sys.argv[2])):
        time.sleep(PAUSE)
        uses.append(use())
        time.sleep(PAUSE)
        bares.append(bare())
    by_sdk, by_hand = calls()
    return {"later": uses[WARM_UP:], "bare": bares, "sdk": by_sdk, "hand": by_hand, "import": [imported() for _ in range(IMPORTS)]}


print(json.dumps(main()))
