#!/usr/bin/env python3
"""Kills the server, again and again, at random moments of its work, and checks that nothing that it had
acknowledged is lost and that nothing is left over.

Usage: run.py PADDOCK [ROUNDS]            (ROUNDS is 200 unless said)

Workers create, run, fork, snapshot and end sandboxes without pause while the server is killed with SIGKILL. After
every restart: sandboxes that were acknowledged are there, those whose end was acknowledged have ended, output that
was acknowledged can be read whole, a create that was cut off happened once or not at all when it is tried again, and
a time to live held although nobody was there to hold it. At the end nothing runs and nothing is mounted.
"""
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid

WORKERS = 4
MOST_SANDBOXES = 16
START_PATIENCE = 30.0
# A server waits for the last user of its storage for 30 seconds.
STOP_PATIENCE = 60.0
SHORT_LIFE = 2.0


class Unavailable(Exception):
    """The server was not there, or went away in the middle."""


class Connection(http.client.HTTPConnection):
    def __init__(self, path, timeout=60):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(path, method, target, body=None, key=None):
    connection = Connection(path)
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Idempotency-Key"] = key
    try:
        connection.request(method, target, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        data = answer.read()
        kind = answer.headers.get("Content-Type", "")
        return answer.status, json.loads(data) if data and "json" in kind and "ndjson" not in kind else data
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unavailable(str(error)) from error
    finally:
        connection.close()


class Server:
    def __init__(self, paddock, state):
        self.paddock, self.state = paddock, state
        self.socket = os.path.join(state, "api.sock")
        self.log = open(os.path.join(state, "server.log"), "ab")
        self.process = None

    def start(self):
        environment = dict(os.environ, PADDOCK_STATE_DIR=os.path.join(self.state, "state"))
        command = [self.paddock, "serve", "--socket", self.socket]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        end = time.monotonic() + START_PATIENCE
        while time.monotonic() < end:
            try:
                if ask(self.socket, "GET", "/readyz")[0] == 200:
                    return
            except Unavailable:
                pass
            if self.process.poll() is not None:
                raise SystemExit(f"the server ended with {self.process.returncode} at its start")
            time.sleep(0.01)
        raise SystemExit(f"the server was not ready within {START_PATIENCE} s")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=STOP_PATIENCE)


class Book:
    """What was acknowledged."""

    def __init__(self):
        self.lock = threading.Lock()
        self.alive = {}       # id -> {exec number: expected stdout}
        self.ended = set()
        self.doubtful = set()  # an end was asked for, and never answered
        self.short = {}       # id -> when its life is over
        self.cut_off = []     # (key, body) of creates that were never answered
        self.problems = []
        self.counts = {}

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def problem(self, text):
        with self.lock:
            self.problems.append(text)


def expected_output(lines):
    return "".join(f"line {number}\n" for number in range(lines)).encode()


def create(server, book, randomness):
    key, mark = str(uuid.uuid4()), str(uuid.uuid4())
    body = {"ttl_seconds": 3600, "metadata": {"mark": mark}}
    short = randomness.random() < 0.1
    if short:
        body["ttl_seconds"] = SHORT_LIFE
    before = time.time()
    try:
        status, answer = ask(server.socket, "POST", "/v1/sandboxes", body, key)
    except Unavailable:
        with book.lock:
            book.cut_off.append((key, body))
        raise
    if status != 201:
        return book.problem(f"create answered {status}: {answer}")
    book.count("create")
    with book.lock:
        if short:
            book.short[answer["id"]] = before + SHORT_LIFE
        else:
            book.alive[answer["id"]] = {}


def run(server, book, randomness, sandbox):
    lines = randomness.choice([0, 1, 50, 2000, 20000])
    command = f"i=0; while [ $i -lt {lines} ]; do echo line $i; i=$((i+1)); done"
    body = {"command": command, "background": randomness.random() < 0.7}
    status, answer = ask(server.socket, "POST", f"/v1/sandboxes/{sandbox}/execs", body, str(uuid.uuid4()))
    if status in (200, 201):
        book.count("exec")
        with book.lock:
            if sandbox in book.alive:
                book.alive[sandbox][answer["exec"]] = expected_output(lines)
    elif status not in (404, 409, 410):
        book.problem(f"exec answered {status}: {answer}")


def fork(server, book, sandbox):
    status, answer = ask(server.socket, "POST", f"/v1/sandboxes/{sandbox}/fork", {"count": 2}, str(uuid.uuid4()))
    if status == 201:
        book.count("fork")
        with book.lock:
            for child in answer["sandboxes"]:
                book.alive[child["id"]] = {}
    elif status not in (404, 409, 410):
        book.problem(f"fork answered {status}: {answer}")


def snapshot(server, book, sandbox):
    status, answer = ask(server.socket, "POST", f"/v1/sandboxes/{sandbox}/snapshots", {})
    if status == 201:
        book.count("snapshot")
        status, _ = ask(server.socket, "GET", f"/v1/snapshots/{answer['id']}")
        if status != 200:
            book.problem(f"snapshot {answer['id']} was acknowledged, then {status}")
        ask(server.socket, "DELETE", f"/v1/snapshots/{answer['id']}")
    elif status not in (404, 409, 410):
        book.problem(f"snapshot answered {status}: {answer}")


def end(server, book, sandbox):
    with book.lock:
        if book.alive.pop(sandbox, None) is None:
            return
        book.doubtful.add(sandbox)
    status, answer = ask(server.socket, "DELETE", f"/v1/sandboxes/{sandbox}")
    if status != 200:
        return book.problem(f"kill answered {status}: {answer}")
    book.count("kill")
    with book.lock:
        book.doubtful.discard(sandbox)
        book.ended.add(sandbox)


def work(server, book, seed, stop):
    randomness = random.Random(seed)
    while not stop.is_set():
        with book.lock:
            known = list(book.alive)
        try:
            choice = randomness.random()
            if not known or (choice < 0.25 and len(known) < MOST_SANDBOXES):
                create(server, book, randomness)
            elif choice < 0.75:
                run(server, book, randomness, randomness.choice(known))
            elif choice < 0.82 and len(known) < MOST_SANDBOXES:
                fork(server, book, randomness.choice(known))
            elif choice < 0.88:
                snapshot(server, book, randomness.choice(known))
            else:
                end(server, book, randomness.choice(known))
        except Unavailable:
            time.sleep(0.01)


def check(server, book, everything):
    """What was acknowledged before the last kill. Precondition: no worker runs."""
    if book.problems:
        return
    for sandbox in sorted(book.doubtful):
        # Cut off: it may have ended or not, but asked again it ends.
        status, answer = ask(server.socket, "DELETE", f"/v1/sandboxes/{sandbox}")
        if status != 200:
            book.problem(f"{sandbox}: ending it again answered {status}: {answer}")
        book.ended.add(sandbox)
    book.doubtful.clear()
    for key, body in book.cut_off:
        status, answer = ask(server.socket, "POST", "/v1/sandboxes", body, key)
        if status != 201:
            book.problem(f"a create that was cut off answered {status}: {answer}")
            continue
        mark = body["metadata"]["mark"]
        status, page = ask(server.socket, "GET", f"/v1/sandboxes?metadata=mark%3D{mark}")
        same = [found["id"] for found in page["sandboxes"]]
        if body["ttl_seconds"] == SHORT_LIFE:
            book.short[answer["id"]] = time.time() + SHORT_LIFE
        elif answer["id"] not in same:
            book.problem(f"{answer['id']}: created again, but the list has {same}")
        else:
            book.alive[answer["id"]] = {}
            # The one that was cut off may have come to be: then it is the same, or it is ended here.
            for other in same:
                if other != answer["id"]:
                    book.problem(f"{other} and {answer['id']}: one request, two sandboxes")
    book.cut_off.clear()
    for sandbox, execs in sorted(book.alive.items()):
        status, answer = ask(server.socket, "GET", f"/v1/sandboxes/{sandbox}")
        if status != 200 or answer["state"] != "running":
            book.problem(f"{sandbox} was acknowledged; now {status} {answer}")
            continue
        chosen = execs if everything else dict(list(execs.items())[-3:])
        for number, output in chosen.items():
            status, data = ask(
                server.socket, "GET", f"/v1/sandboxes/{sandbox}/execs/{number}/stdout?follow=true")
            if status != 200 or data != output:
                book.problem(f"{sandbox} exec {number}: {status}, {len(data)} of {len(output)} bytes")
    for sandbox in list(book.ended)[-20:]:
        status, answer = ask(server.socket, "GET", f"/v1/sandboxes/{sandbox}")
        if status != 200 or answer["state"] != "ended":
            book.problem(f"{sandbox} had ended; now {status} {answer.get('state')}")
    for sandbox, over in list(book.short.items()):
        if time.time() < over + 3:
            continue
        status, answer = ask(server.socket, "GET", f"/v1/sandboxes/{sandbox}")
        cause = (answer.get("end") or {}).get("cause", {}).get("kind")
        if status != 200 or answer["state"] != "ended" or cause != "time_to_live":
            book.problem(f"{sandbox} had {SHORT_LIFE} s to live; now {status} {answer}")
        del book.short[sandbox]


def leftovers(state):
    """Processes, mounts, cgroups and directories that name the state directory or its sandboxes."""
    found = []
    with open("/proc/self/mountinfo") as table:
        found += [line.strip() for line in table if state in line]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if state.encode() in file.read() and int(pid) != os.getpid():
                    found.append(f"process {pid}")
        except OSError:
            pass
    return found


def cgroups_of(sandboxes):
    found = []
    for root, names, _ in os.walk("/sys/fs/cgroup"):
        found += [os.path.join(root, name) for name in names if any(sandbox in name for sandbox in sandboxes)]
    return found


def end_all(server):
    """After a failure its state is kept for a look, but nothing goes on running."""
    try:
        for found in ask(server.socket, "GET", "/v1/sandboxes?limit=1000")[1]["sandboxes"]:
            ask(server.socket, "DELETE", f"/v1/sandboxes/{found['id']}")
        server.stop()
    except (Unavailable, subprocess.TimeoutExpired) as error:
        print(f"sandboxes were left behind: {error}")


def main():
    paddock = os.path.abspath(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    seed = int(os.environ.get("PADDOCK_CRASH_SEED", random.randrange(2**32)))
    randomness = random.Random(seed)
    state = tempfile.mkdtemp(prefix="paddock-crash-")
    server, book = Server(paddock, state), Book()
    started, everyone = time.monotonic(), set()
    try:
        server.start()
        for number in range(rounds):
            stop = threading.Event()
            workers = [
                threading.Thread(target=work, args=(server, book, randomness.random(), stop))
                for _ in range(WORKERS)
            ]
            for worker in workers:
                worker.start()
            time.sleep(randomness.uniform(0.005, 0.25))
            server.kill()
            stop.set()
            for worker in workers:
                worker.join()
            everyone |= set(book.alive) | book.ended | set(book.short)
            server.start()
            check(server, book, everything=number % 20 == 19 or number == rounds - 1)
            if book.problems:
                break
        for sandbox in list(book.alive) + list(book.short):
            ask(server.socket, "DELETE", f"/v1/sandboxes/{sandbox}")
        # A fork that was cut off may exist, whole; its request was not repeated.
        for found in ask(server.socket, "GET", "/v1/sandboxes?limit=1000")[1]["sandboxes"]:
            if found.get("parent"):
                everyone.add(found["id"])
                ask(server.socket, "DELETE", f"/v1/sandboxes/{found['id']}")
        status, page = ask(server.socket, "GET", "/v1/sandboxes?limit=1000")
        if not book.problems and page["sandboxes"]:
            book.problem(f"still alive: {[found['id'] for found in page['sandboxes']]}")
        code = server.stop()
        if code != 0:
            book.problem(f"the server ended with {code}")
        everyone |= book.ended
        for left in leftovers(state) + cgroups_of(everyone):
            book.problem(f"left over: {left}")
    finally:
        if server.process.poll() is None and book.problems:
            end_all(server)
        if server.process.poll() is None:
            server.kill()
        if book.problems:
            print(f"kept for a look: {state}")
        else:
            shutil.rmtree(state, ignore_errors=True)
    counts = ", ".join(f"{count} {what}" for what, count in sorted(book.counts.items()))
    print(f"crash: {rounds} kills in {time.monotonic() - started:.0f} s, seed {seed}; acknowledged: {counts}")
    for problem in book.problems[:20]:
        print(f"  FAILED {problem}")
    print(f"CHECK crash {'FAIL' if book.problems else 'ok'}")
    return 1 if book.problems else 0


if __name__ == "__main__":
    sys.exit(main())
