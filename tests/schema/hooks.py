"""What schemathesis loads: puts things that exist into the requests that it makes up, and counts the answers.

Random ids reach no further than a 404. So most requests get the id of a real sandbox, command, file or snapshot; a
part of each stays as it was made up. What ends or changes a sandbox as a whole gets one of its own, so that the
sandbox of all other requests lives.
"""
import atexit
import collections
import io
import json
import os
import random
import tarfile
import urllib.error
import urllib.request

import schemathesis

URL, TOKEN = os.environ["PADDOCK_SCHEMA_URL"], os.environ["PADDOCK_SCHEMA_TOKEN"]
REAL = 0.85
# After so many requests it is looked whether all that requests are pointed at still exists.
REFRESH = 40
# A sandbox that calls may pause, hibernate and shorten the life of is replaced after so many of them.
MORTAL = 12
PATHS = ["/tmp/there/file", "/tmp/there/full", "/tmp/there/empty", "/tmp/there/link", "/tmp/there/../there/file",
         "/tmp/there/new", "/tmp/there/pipe", "/etc/passwd", "/proc/self/mem", "/dev/null", "/nowhere/at/all"]
DIRECTORIES = ["/tmp/there", "/tmp/there/full", "/tmp/there/empty"]
COMMANDS = ["true", "echo one; echo two >&2; exit 3", "printf '\\377\\000'", "kill -9 $$", "yes | head -c 300000", "cat",
            "nonesuch", "echo changed >> /tmp/there/file"]
CODES = ["print(6 * 7)", "1 / 0", "import sys; sys.exit(4)"]
FURNISH = ("rm -rf /tmp/there; mkdir -p /tmp/there && cd /tmp/there && echo hello > file && ln -s file link && "
           "mkfifo pipe && mkdir empty full && echo inner > full/inner")
ENDS_OR_CHANGES = ("/pause", "/resume", "/hibernate", "/wake", "/extend", "/merge")

chance = random.Random(1)
tally = collections.defaultdict(collections.Counter)
problems = []


def call(method, target, body=None):
    request = urllib.request.Request(URL + target, method=method)
    request.add_header("Authorization", f"Bearer {TOKEN}")
    if body is not None:
        request.add_header("Content-Type", "application/json")
        request.data = json.dumps(body).encode()
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return {"refused": error.code, "body": error.read().decode(errors="replace")}


class Farm:
    """What requests are pointed at."""

    def __init__(self):
        self.steady, self.mortal, self.child, self.mortal_uses, self.asked = None, None, None, 0, 0
        self.ended, self.running, self.terminal = None, None, None
        self.mounted, self.volumes, self.builds = None, 0, 0
        self.ended_job = None
        self.own_token = call("GET", "/v1/tokens")["tokens"][0]["id"]

    def create(self, **more):
        made = call("POST", "/v1/sandboxes", {"ttl_seconds": 3600, **more})
        if "id" not in made:
            problems.append(f"a plain create was refused: {made}")
        return made.get("id", "sb-none")

    def look_after(self):
        """Everything is there at the first request, and after that again when it was used up."""
        self.asked += 1
        if self.asked % REFRESH != 1:
            return
        if self.steady is None or call("GET", f"/v1/sandboxes/{self.steady}").get("state") != "running":
            if self.steady is not None:
                problems.append(f"{self.steady} did not stay running: {call('GET', f'/v1/sandboxes/{self.steady}')}")
            self.steady = self.create(volumes=[{"name": f"mounted-{self.asked}", "path": "/data/mounted"}])
            self.mounted = f"mounted-{self.asked}"
            self.running = self.terminal = None
            self.ended = self.execute({"command": "echo out; echo err >&2"})
        self.execute({"command": FURNISH})
        if not self.runs(self.running):
            self.running = self.execute({"command": "cat", "open_stdin": True, "background": True})
        if not self.runs(self.terminal):
            self.terminal = self.execute({"command": "cat", "open_stdin": True, "background": True,
                                          "terminal": {"rows": 24, "columns": 80}})

    def needs(self, *names):
        return any(name in (self.steady, self.own_token) for name in names)

    def execute(self, body):
        return call("POST", f"/v1/sandboxes/{self.steady}/execs", body).get("exec", 1)

    def runs(self, number):
        return number and call("GET", f"/v1/sandboxes/{self.steady}/execs/{number}").get("state") == "running"

    def to_change(self):
        self.mortal_uses += 1
        if self.mortal_uses % MORTAL == 1:
            for sandbox in filter(None, (self.mortal, self.child)):
                call("DELETE", f"/v1/sandboxes/{sandbox}")
            self.mortal, self.child = self.create(), None
        return self.mortal

    def fork(self):
        """A child of the sandbox that may change."""
        if self.child is None:
            made = call("POST", f"/v1/sandboxes/{self.mortal or self.to_change()}/fork", {"count": 1})
            if "sandboxes" not in made:
                return "sb-none"
            self.child = made["sandboxes"][0]["id"]
            call("POST", f"/v1/sandboxes/{self.child}/execs", {"command": FURNISH + " && rm pipe"})
        return self.child

    def snapshot(self):
        return call("POST", f"/v1/sandboxes/{self.steady}/snapshots", {}).get("id", "snap-none")

    def volume(self):
        """One with a file in its first version."""
        self.volumes += 1
        name = f"made-{self.volumes}"
        call("POST", "/v1/volumes", {"name": name})
        call("PUT", f"/v1/volumes/{name}/files/content?path=file", {})
        return name

    def template(self):
        """One whose only build failed: no registry answers there."""
        return self.built().get("template", "tp-none")

    def build(self):
        return self.built().get("id", "none")

    def built(self):
        self.builds += 1
        wanted = {"name": f"built-{self.builds % 50}", "image": "127.0.0.1:1/none", "steps": []}
        return call("POST", "/v1/template-builds", wanted)

    def resource(self):
        # Without a `/`, which the client would have to encode and does not.
        call("PUT", "/v1/resources/kept", {"value": {"key": "a text of some length"}})
        return "kept"

    def job(self, method):
        """One that has ended and left a file; for a DELETE one of its own."""
        if self.ended_job is None or method == "DELETE":
            wanted = {"command": "echo said; echo left > file", "outputs": ["file"], "timeout_seconds": 60}
            made = call("POST", "/v1/jobs", wanted)
            call("GET", f"/v1/jobs/{made.get('id', 'job-none')}?wait_seconds=30")
            if method == "DELETE":
                return made.get("id", "job-none")
            self.ended_job = made.get("id", "job-none")
        return self.ended_job

    def token(self):
        return call("POST", "/v1/tokens", {"role": "user"}).get("id", "tk-none")

    def signed(self, method):
        operation = "write" if method == "PUT" else "read"
        wanted = {"path": "/tmp/there/file", "operation": operation, "expires_seconds": 60}
        made = call("POST", f"/v1/sandboxes/{self.steady}/files/sign", wanted)
        return made.get("url", "/none").rsplit("/", 1)[1]


farm = Farm()


@schemathesis.serializer("application/x-tar")
def archive(context, value):
    """An archive, where made-up bytes are none."""
    if chance.random() > REAL:
        return value if isinstance(value, bytes) else str(value).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        entry = tarfile.TarInfo(chance.choice(["unpacked", "unpacked", "full/unpacked", "../outside", "/absolute"]))
        entry.type = chance.choice([tarfile.REGTYPE, tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE])
        entry.linkname = "/etc/passwd" if entry.issym() else ""
        tar.addfile(entry)
    return packed.getvalue()


@schemathesis.hook
def before_call(context, case, kwargs):
    farm.look_after()
    method, path = case.method.upper(), case.path
    point_path(case.path_parameters, method, path)
    bound(case, path)
    if case.query:
        point_query(case.query, path)
    if isinstance(case.body, dict):
        point_body(case.body, path)


def point_path(parameters, method, path):
    """The names in the path."""
    if path == "/v1/tenants/{tenant}/tokens":
        # The token of all other requests is one of its own tenant's.
        parameters["tenant"] = "others"
        return
    # schemathesis learns names from answers, too: the sandbox and the token of all other requests are not to end.
    if not parameters or (chance.random() > REAL and not farm.needs(*parameters.values())):
        return
    if "id" in parameters:
        if path == "/v1/sandboxes/{id}" and method in ("DELETE", "PATCH"):
            parameters["id"] = farm.create() if method == "DELETE" else farm.to_change()
        elif path.endswith(ENDS_OR_CHANGES):
            parameters["id"] = farm.to_change()
        else:
            parameters["id"] = farm.steady
    if "exec" in parameters:
        if path.endswith(("/output", "/stdout", "/stderr")):
            parameters["exec"] = farm.ended
        elif path.endswith("/resize"):
            parameters["exec"] = farm.terminal
        else:
            parameters["exec"] = chance.choice([farm.ended, farm.running, farm.running, farm.terminal])
    if "snapshot" in parameters:
        parameters["snapshot"] = farm.snapshot()
    if "volume" in parameters:
        parameters["volume"] = farm.mounted if path.endswith("/checkpoint") else farm.volume()
    if "template" in parameters and not path.startswith("/v1/pools"):
        parameters["template"] = farm.template()
    if "build" in parameters:
        parameters["build"] = farm.build()
    if "hash" in parameters:
        parameters["hash"] = f"{chance.randrange(100):064x}"
    if "resource" in parameters:
        parameters["resource"] = farm.resource()
    if "job" in parameters:
        parameters["job"] = farm.job(method)
        if "index" in parameters:
            parameters["index"] = 0
    if "token" in parameters:
        parameters["token"] = farm.signed(method) if "/signed/" in path else farm.token()
    if "tenant" in parameters:
        parameters["tenant"] = "schema"


def bound(case, path):
    """Nothing that is endless is asked for."""
    number = (case.path_parameters or {}).get("exec")
    if path.endswith(("/output", "/stdout", "/stderr")) and str(number) in (str(farm.running), str(farm.terminal)):
        case.path_parameters["exec"] = farm.ended
    query = case.query or {}
    if path.endswith(("/output", "/stdout", "/stderr")) and str((case.path_parameters or {}).get("exec")) != str(farm.ended):
        # A command that a request of this test started may run for long.
        case.query = query = {name: value for name, value in query.items() if name != "follow"}
    if path == "/v1/events" and query.get("follow") in (None, True, "true", ""):
        case.query = {**query, "follow": "false"}
    if path.endswith("/wait") and is_long(query.get("timeout_seconds")):
        case.query = {**query, "timeout_seconds": "0.05"}
    if path.startswith("/v1/jobs/") and (query.get("follow") or is_long(query.get("wait_seconds", 0))):
        case.query = {name: value for name, value in query.items() if name not in ("follow", "wait_seconds")}
    if path.endswith("/network") and query.get("wait_seconds") and is_long(query["wait_seconds"]):
        case.query = {**query, "wait_seconds": "0"}


def is_long(seconds):
    try:
        return seconds is None or float(seconds) > 1
    except (TypeError, ValueError, OverflowError):
        return seconds == ""


def point_query(query, path):
    if path.startswith("/v1/jobs"):
        for name in ("task", "attempt", "from", "state", "cursor"):
            if chance.random() < REAL:
                query.pop(name, None)
        if "path" in query and chance.random() < REAL:
            query["path"] = "file"
        return
    if path.startswith("/v1/volumes"):
        for name in ("tenant", "version"):
            if chance.random() < REAL:
                query.pop(name, None)
        if "path" in query and chance.random() < REAL:
            query["path"] = "file"
        return
    if isinstance(query.get("path"), str):
        if path.endswith("/watch"):
            # An existing path would be watched without an end.
            query["path"] = "/nowhere/" + query["path"].lstrip("/")
        elif chance.random() < REAL:
            # Mostly directories where directories belong, and once in a while everything else.
            wants_directory = path.endswith(("/files", "/archive")) and chance.random() < REAL
            query["path"] = chance.choice(DIRECTORIES if wants_directory else PATHS)
    if "user" in query and chance.random() < REAL:
        query["user"] = chance.choice(["agent", "agent", "root", "1000", "nobody-of-that-name"])
    if "cursor" in query and chance.random() < REAL:
        del query["cursor"]


def succeeded(method, path):
    return any(status.startswith("2") for status in tally[f"{method} {path}"])


def point_body(body, path):
    """Requests that mean something, and that end."""
    for name in ("path", "from", "to"):
        if isinstance(body.get(name), str) and chance.random() < REAL:
            body[name] = farm.fork() if path.endswith("/merge") else chance.choice(PATHS)
            if name == "to" or path.endswith("/directory"):
                body[name] = f"/tmp/there/new-{chance.randrange(1000)}"
            if name == "from" and path.endswith("/move") and chance.random() < 0.5:
                body[name] = "/tmp/there/" + chance.choice(["file", "full", "link", "empty"])
    if path.endswith("/move") and not succeeded("POST", path):
        # One move of another takes away the files that the next would move, so the first success is not left to chance.
        farm.execute({"command": FURNISH})
        body.update({"from": "/tmp/there/file", "to": "/tmp/there/moved"})
    if path.endswith("/merge") and isinstance(body.get("paths"), list) and chance.random() < REAL:
        body["paths"] = chance.choice([[], ["/tmp/there"], ["/nowhere"], ["relative"]])
    if path.endswith("/execs"):
        if ("command" in body or "argv" in body) and chance.random() < REAL:
            body["command"] = chance.choice(COMMANDS)
            body.pop("argv", None)
            for name in chance.sample(list(body), len(body) // 2):
                if name != "command":
                    del body[name]
        if body.get("timeout_seconds") is None:
            body["timeout_seconds"] = 0.5
    if path.endswith("/code"):
        if isinstance(body.get("code"), str) and chance.random() < REAL:
            body["code"] = chance.choice(CODES)
        if body.get("timeout_seconds") is None:
            body["timeout_seconds"] = 5
    if path.endswith("/fork") and isinstance(body.get("count"), int) and 3 < body["count"] <= 100:
        body["count"] = 3
    for name in ("user", "cwd", "template", "backend", "image", "snapshot", "network", "workspace"):
        # One of these that exists nowhere refuses the whole request; all of them together would refuse all requests.
        if name in body and isinstance(body[name], (str, type(None))) and chance.random() < REAL:
            del body[name]
    if path == "/v1/sandboxes":
        for name in ("require", "protect", "unprotect", "read", "write", "tmpfs"):
            if isinstance(body.get(name), list) and chance.random() < REAL:
                del body[name]
    if path == "/v1/jobs" and chance.random() < REAL:
        # Most made-up fields refuse the whole: some of them at a time, and something that ends.
        for name in chance.sample(list(body), len(body) - min(len(body), 3)):
            del body[name]
        for name in ("code", "script", "best_of", "language"):
            body.pop(name, None)
        body["command"] = chance.choice(["true", "echo one; exit 3", "sleep 0.1"])
    if path == "/v1/jobs":
        body["timeout_seconds"] = 1
        if isinstance(body.get("array"), int) and not isinstance(body["array"], bool) and 3 < body["array"] <= 10000:
            body["array"] = 3
    if path.endswith("/restore") and "version" in body and chance.random() < REAL:
        body["version"] = 1
    if path.endswith("/share") and "tenant" in body and chance.random() < REAL:
        body["tenant"] = "others"
    if path == "/v1/template-builds" and chance.random() < REAL:
        for name in chance.sample(list(body), len(body) - min(len(body), 2)):
            del body[name]
        body.update({"name": f"own-{chance.randrange(50)}", "image": "127.0.0.1:1/none", "steps": []})
        body.pop("template", None)
    if path == "/v1/volumes/{volume}/files/directory" and (chance.random() < REAL or not succeeded("POST", path)):
        body.update({"path": f"new-{chance.randrange(1000)}", "mode": 0o755})
    if path.endswith("/files/mode") and (chance.random() < REAL or not succeeded("POST", path)):
        if not succeeded("POST", path):
            farm.execute({"command": FURNISH})
        body.update({"path": "file" if path.startswith("/v1/volumes/") else "/tmp/there", "mode": 0o755})
    if path in ("/v1/volumes", "/v1/secrets") and "name" in body and chance.random() < REAL:
        body["name"] = f"own-{chance.randrange(10**9)}"
    if path.endswith("/sign") and isinstance(body.get("operation"), str) and chance.random() < REAL:
        body["operation"] = chance.choice(["read", "write"])
    if path.endswith("/signal") and isinstance(body.get("signal"), str) and chance.random() < REAL:
        body["signal"] = chance.choice(["USR1", "SIGWINCH", "28", "0", "-1", "4096"])


@schemathesis.hook
def after_call(context, case, response):
    if case.method.upper() == case.operation.method.upper():
        # Other methods are tried as well, to see them refused.
        tally[f"{case.method.upper()} {case.path}"][str(response.status_code)] += 1
    if response.status_code == 204 and case.path.endswith("/files"):
        farm.execute({"command": FURNISH})
    if response.status_code == 201 and case.path in ("/v1/sandboxes", "/v1/sandboxes/{id}/fork"):
        made = json.loads(response.content)
        for sandbox in made.get("sandboxes", [made]):
            call("DELETE", f"/v1/sandboxes/{sandbox['id']}")
    if response.status_code == 201 and case.path == "/v1/jobs":
        call("POST", f"/v1/jobs/{json.loads(response.content)['id']}/cancel")


@atexit.register
def write_tally():
    with open(os.environ["PADDOCK_SCHEMA_TALLY"], "w") as file:
        json.dump({"operations": tally, "problems": problems[:20]}, file)
