#!/usr/bin/env python3
"""Lets schemathesis ask the server whatever its OpenAPI document allows and forbids, and looks at the answers: none is
a 5xx, and every status, content type and body is one that the document names.

Usage: run.py PADDOCK

The server is a real one with a state directory of its own. hooks.py puts ids of real sandboxes, commands, files and
snapshots into most requests, and the test fails if an operation was never reached, so that more than the refusal of
unknown ids is tested. Not asked: /ports/ answers as the program inside does. /v1/events, watch and the output of a
running command are endless when followed, so hooks.py asks them only for what ends.

The words of E2B, which that document leaves out, are asked in the same way, by documents that e2b.py makes for this server. An operation
of the dialect (e2b_routes.txt) that they do not ask is a finding.

Exit codes: 0 nothing found; 1 findings, as schemathesis prints them; 77 skipped, with a line `SKIP reason`.
PADDOCK_SCHEMA_SEED and PADDOCK_SCHEMA_EXAMPLES look elsewhere and longer; PADDOCK_SCHEMA_ONLY is `v1` or `e2b`.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv

import e2b

HERE = os.path.dirname(os.path.abspath(__file__))
VERSION = "4.32.5"
SEED = os.environ.get("PADDOCK_SCHEMA_SEED", "1")
ONLY = os.environ.get("PADDOCK_SCHEMA_ONLY", "")
EXAMPLES = os.environ.get("PADDOCK_SCHEMA_EXAMPLES", "20")
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
START_PATIENCE = 30.0
# Three minutes alone, and more where other tests have the processors.
TIME_LIMIT = 1800.0
SKIPPED = 77
TENANT = "schema"
# Only a build that is ready has a tag, and no registry is there to build from. Quotas, pools and the end of the server are the owner's to set, and this token is not the owner's, who alone sees the load of the server, its report as a node and its last verify; nobody guesses a code to sign in; the tokens of its own tenant are to stay; what is there is watched without an end.
NO_SUCCESS = ("/quota", "/watch", "/v1/pools", "/v1/pools/{template}", "/v1/server/stop", "/v1/server/load", "/v1/node", "/v1/node/cordon", "/v1/node/uncordon", "/v1/verify", "/v1/sign-in", "/v1/tenants/{tenant}/tokens", "/tags/{tag}", "/templates/tags")


class Skip(Exception):
    """The machine cannot do this test; the message says why."""


def schemathesis():
    """The program, in an environment of its own that is kept in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    directory = os.path.join(cache, "paddock", "schemathesis")
    program, mark = os.path.join(directory, "bin", "schemathesis"), os.path.join(directory, "made-from")
    made_from = f"{VERSION} {sys.version}"
    if os.path.exists(program) and os.path.exists(mark):
        with open(mark) as file:
            if file.read() == made_from:
                return program
    if sys.version_info < (3, 10):
        raise Skip(f"schema: schemathesis needs Python 3.10, this is {sys.version.split()[0]}")
    shutil.rmtree(directory, ignore_errors=True)
    venv.create(directory, with_pip=True)
    install = [os.path.join(directory, "bin", "python"), "-m", "pip", "install", "--quiet", f"schemathesis=={VERSION}"]
    if subprocess.run(install, check=False).returncode:
        raise Skip(f"schema: pip cannot install schemathesis {VERSION}; no network?")
    with open(mark, "w") as file:
        file.write(made_from)
    return program


class Server:
    def __init__(self, paddock, directory):
        self.paddock, self.directory = paddock, directory
        self.log = os.path.join(directory, "server.log")
        self.environment = dict(os.environ, PADDOCK_STATE_DIR=os.path.join(directory, "state"))
        self.environment["PADDOCK_URL"] = "unix:" + os.path.join(directory, "api.sock")
        self.environment.pop("PADDOCK_TOKEN", None)
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.port = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None

    def start(self):
        command = [self.paddock, "serve", "--build-on-first-use", "none", "--socket", os.path.join(self.directory, "api.sock")]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*command, "--listen", f"127.0.0.1:{self.port}", "--open-metrics"],
                env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + START_PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            try:
                with urllib.request.urlopen(self.url + "/readyz", timeout=5):
                    return
            except OSError:
                time.sleep(0.02)
        raise SystemExit(f"the server was not ready within {START_PATIENCE} s:\n{self.last_words()}")

    def token(self):
        # Not the owner: no made up request may touch a path of this host.
        command = [self.paddock, "token", "create", "--tenant", TENANT, "--role", "admin"]
        return subprocess.run(command, env=self.environment, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    def stop(self):
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode

    def last_words(self):
        with open(self.log, errors="replace") as file:
            return file.read()[-4000:]


def ask_all(server, program, token, directory):
    """Both interfaces: whether nothing was found, and what was answered to each operation."""
    clean, operations, problems = True, {}, []
    furniture = None
    for name in ("v1", "e2b", "e2b-signed"):
        if ONLY not in ("", name.split("-")[0]):
            continue
        if name == "v1":
            source, hooks = [f"{server.url}/openapi.json", "--phases", "examples,coverage,fuzzing"], "hooks"
            source += ["--header", f"Authorization: Bearer {token}", "--exclude-path-regex", "/ports/"]
        else:
            furniture = furniture or e2b.Furniture(server.url, token)
            described = e2b.document(furniture) if name == "e2b" else e2b.signed_document(furniture)
            if name == "e2b":
                problems += e2b.differences(described["paths"])
            document = os.path.join(directory, f"{name}.json")
            with open(document, "w") as file:
                json.dump(described, file)
            # The coverage phase tries methods that the document lacks, which the dialect refuses with 501, as it promises.
            source, hooks = [document, "--url", server.url, "--phases", "examples,fuzzing", "--header", f"X-API-KEY: {token}"], "e2b_hooks"
        found_nothing, answers = ask(server, program, token, os.path.join(directory, f"{name}-tally.json"), source, hooks)
        clean = clean and found_nothing and bool(answers)
        by = " by a signed address" if name == "e2b-signed" else ""
        operations.update({operation + by: statuses for operation, statuses in answers.get("operations", {}).items()})
        problems += answers.get("problems", [])
    return clean, {"operations": operations, "problems": problems} if operations else {}


def ask(server, program, token, tally, source, hooks):
    """Runs schemathesis, and returns whether it found nothing and what was answered to each operation."""
    environment = dict(
        os.environ, SCHEMATHESIS_HOOKS=hooks, PYTHONPATH=HERE, PYTHONDONTWRITEBYTECODE="1",
        PADDOCK_SCHEMA_URL=server.url, PADDOCK_SCHEMA_TOKEN=token, PADDOCK_SCHEMA_TALLY=tally)
    command = [
        program, "run", *source, "--checks", CHECKS, "--seed", SEED, "--generation-database", "none", "--max-examples", EXAMPLES,
        "--request-timeout", "60", "--continue-on-failure", "--suppress-health-check", "all", "--no-shrink",
        "--warnings", "off", "--no-color", "--output-sanitize", "true",
    ]
    process = subprocess.Popen(command, cwd=os.path.dirname(tally), env=environment, start_new_session=True)
    try:
        code = process.wait(TIME_LIMIT)
    except subprocess.TimeoutExpired:
        print(f"  FAILED schemathesis did not end within {TIME_LIMIT:.0f} s")
        code = 1
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    answers = {}
    if os.path.exists(tally):
        with open(tally) as file:
            answers = json.load(file)
    return code == 0, answers


def judge(answers, log):
    """What schemathesis does not look at."""
    problems = []
    for operation, statuses in sorted(answers["operations"].items()):
        print(f"  {operation:<58} {'  '.join(f'{status}: {count}' for status, count in sorted(statuses.items()))}")
        if not any(status.startswith("2") for status in statuses) and not operation.endswith(NO_SUCCESS):
            problems.append(f"{operation} was never answered with success, so it was not really tested")
    problems += answers["problems"]
    problems += [f"the server's log says: {line.strip()}" for line in log.splitlines() if "panicked" in line]
    return problems


def leftovers(directory):
    """Mounts and processes that name the state directory."""
    with open("/proc/self/mountinfo") as table:
        found = [f"mount {line.split()[4]}" for line in table if directory in line]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if directory.encode() in file.read():
                    found.append(f"process {pid}")
        except OSError:
            pass
    return found


def end_all(server):
    """Sandboxes outlive their server; these are not to."""
    if server.process is None or server.process.poll() is not None:
        return
    token = server.token()

    def call(method, target):
        request = urllib.request.Request(server.url + target, method=method)
        request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    found = [box["id"] for box in call("GET", "/v1/sandboxes?limit=1000")["sandboxes"] if box["state"] != "ended"]
    for sandbox in found:
        call("DELETE", f"/v1/sandboxes/{sandbox}")
    for snapshot in call("GET", "/v1/snapshots?limit=1000")["snapshots"]:
        call("DELETE", f"/v1/snapshots/{snapshot['id']}")


def main():
    if len(sys.argv) != 2 or not os.access(sys.argv[1], os.X_OK):
        sys.exit(f"usage: {sys.argv[0]} PADDOCK, where PADDOCK is the executable to test")
    # So that `finally` cleans up when a signal ends this.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    started = time.monotonic()
    try:
        program = schemathesis()
    except Skip as reason:
        print(f"SKIP {reason}")
        return SKIPPED
    directory = tempfile.mkdtemp(prefix="paddock-schema-")
    server, problems, answers = Server(os.path.abspath(sys.argv[1]), directory), [], {}
    try:
        server.start()
        clean, answers = ask_all(server, program, server.token(), directory)
        if not clean:
            problems.append("schemathesis found something, as said above")
        if server.process.poll() is not None:
            problems.append(f"the server ended with {server.process.returncode}:\n{server.last_words()}")
        end_all(server)
        if server.stop() != 0:
            problems.append(f"the server ended with {server.process.returncode}")
        with open(server.log, errors="replace") as file:
            problems += judge(answers, file.read()) if answers else ["schemathesis asked nothing"]
        problems += [f"left over: {left}" for left in leftovers(directory)]
    finally:
        try:
            end_all(server)
        finally:
            server.stop()
        if problems:
            print(f"kept for a look: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    asked = sum(sum(statuses.values()) for statuses in answers.get("operations", {}).values())
    print(f"schema: {asked} requests in {time.monotonic() - started:.0f} s, seed {SEED}, {EXAMPLES} examples")
    for problem in problems:
        print(f"  FAILED {problem}")
    print(f"CHECK schema {'FAIL' if problems else 'ok'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
