"""The requests of E2B's clients as an OpenAPI document for schemathesis, with the ids of things that are there.

It is no second description of the dialect: of answers it has the statuses and fields without which the SDKs fail, and of requests what
may be sent. It is made for one server and forgotten.
"""
import base64
import hashlib
import http.client
import json
import os
import re
import struct
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
# All operations of the dialect. A test of the server's own holds that the list is the code's.
ROUTES = os.path.join(HERE, "e2b_routes.txt")

# Each operation that ends or changes a sandbox has some of its own.
MORTAL = ("kill", "timeout", "connect", "connect-v2", "pause", "fork", "snapshots", "network")
FILES = ["/tmp/there/file", "/etc/passwd", "/tmp/there", "/nowhere/at/all", "/proc/self/mem", ""]
DIRECTORIES = ["/tmp/there", "/tmp", "~", "/tmp/there/file", "/nowhere/at/all"]
# Each call for a process has one of its own, because most of them end it.
PROCESSES = ("SendSignal", "SendInput", "CloseStdin", "Update", "Connect", "StreamInput")
# Calls whose bodies and answers are envelopes: e2b_hooks.py puts the messages into them.
STREAM = "application/connect+json"
SIGNED_SECONDS = 3600
TEXT, NUMBER, FLAG = {"type": "string"}, {"type": "number"}, {"type": "boolean"}
TEXTS = {"type": "array", "items": TEXT}
PAIRS = {"type": "object", "additionalProperties": TEXT}
REFUSED = {"type": "object", "required": ["code", "message"], "properties": {"code": {"type": ["integer", "string"]}, "message": TEXT}}


def one_of(*values):
    return {"type": "string", "enum": list(values)}


def thing(required=(), **properties):
    return {"type": "object", "required": list(required), "properties": properties}


def answer_of(*fields):
    return {"type": "object", "required": list(fields)}


def list_of(*fields):
    return {"type": "array", "items": answer_of(*fields)}


# What may leave a sandbox, and headers that are set at the gate.
PLACES = {"type": "array", "items": one_of("0.0.0.0/0", "1.1.1.1", "8.0.0.0/8", "::/0", "web.example", "no address"), "maxItems": 3}
VALUES = one_of("a-long-value", "Bearer ${e2b.secrets.there}", "${e2b.secrets.no-such}", "${e2b.identity.tokens.aws}", "short", "")
HEADERS = thing(**{"X-Own": VALUES, "x-own": VALUES, "Authorization": VALUES, "Content-Length": one_of("100000000")})
RULE = thing(transform=thing(headers=HEADERS))
BY_HOST = thing(**{host: {"type": "array", "maxItems": 2, "items": RULE} for host in ("web.example", "*.web.example", "1.1.1.1", "no host")})
OUT = {"allowOut": PLACES, "denyOut": PLACES, "rules": BY_HOST}
MOUNT = thing(["name", "path"], name=one_of("mounted", "no-such", ""), path=one_of("/data", "/mnt/deep/er", "/etc", "relative", ""))
OPENED = answer_of("templateID", "sandboxID", "clientID", "envdVersion", "envdAccessToken", "trafficAccessToken")
LISTED = ("templateID", "sandboxID", "clientID", "startedAt", "endAt", "envdVersion", "cpuCount", "memoryMB", "diskSizeMB", "state")
SECRET = ("secretID", "name", "currentVersion", "metadata", "createdAt", "updatedAt")
STAT = ("name", "type", "path", "size", "mode", "uid", "gid", "atime", "mtime", "ctime")


class Furniture:
    """Things that requests are pointed at, made by the words of E2B."""

    def __init__(self, url, key):
        self.address, self.key = urllib.parse.urlsplit(url), key
        self.steady = self.control("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 3600})
        self.mortal = {name: [self.sandbox() for _ in range(2)] for name in MORTAL}
        for name in ("file", "move"):
            self.inside("POST", f"/files?path=/tmp/there/{name}", b"hello", "application/octet-stream")
        self.context = json.loads(self.inside("POST", "/contexts", b"{}", port="49999"))["id"]
        self.watcher = json.loads(self.inside("POST", "/filesystem.Filesystem/CreateWatcher", b'{"path": "/tmp"}'))["watcherId"]
        self.processes = {name: self.process(terminal=name == "Update") for name in PROCESSES}
        place = f"/sandboxes/{self.steady['sandboxID']}/snapshots"
        self.snapshots = [self.control("POST", place, {})["snapshotID"] for _ in range(2)]
        self.build = self.control("POST", "/v3/templates", {"name": "made-up"})
        place = f"/templates/{self.build['templateID']}/files/{'0' * 64}"
        self.grant = self.control("GET", place, None)["url"].rsplit("/", 1)[1]
        self.volume = self.control("POST", "/volumes", {"name": "there"})
        for name in ("short", "mounted"):
            self.control("POST", "/volumes", {"name": name})
        for name in ("there", "short"):
            self.control("POST", "/secrets", {"name": name, "value": "a-long-value"})

    def signature(self, path, operation, expiration=None):
        """As E2B's SDKs sign a path of the steady sandbox."""
        parts = [path, operation, "", self.steady["envdAccessToken"], *([str(expiration)] if expiration else [])]
        return "v1_" + base64.b64encode(hashlib.sha256(":".join(parts).encode()).digest()).decode().rstrip("=")

    def sandbox(self):
        return self.control("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 3600})["sandboxID"]

    def process(self, terminal):
        """The number of a command that reads until its input ends."""
        message = {"process": {"cmd": "/bin/cat"}, "stdin": True, **({"pty": {"size": {"cols": 80, "rows": 24}}} if terminal else {})}
        message = json.dumps(message).encode()
        connection = http.client.HTTPConnection(self.address.hostname, self.address.port, timeout=60)
        try:
            headers = {**self.headers("49983"), "Content-Type": "application/connect+json"}
            connection.request("POST", "/process.Process/Start", struct.pack(">BI", 0, len(message)) + message, headers)
            answer = connection.getresponse()
            _, length = struct.unpack(">BI", answer.read(5))
            return json.loads(answer.read(length))["event"]["start"]["pid"]
        finally:
            connection.close()

    def control(self, method, path, body):
        headers = {"X-API-KEY": self.key, "Content-Type": "application/json"}
        return json.loads(self.ask(method, path, json.dumps(body), headers) or "null")

    def inside(self, method, path, body, kind="application/json", port="49983"):
        return self.ask(method, path, body, {**self.headers(port), "Content-Type": kind})

    def headers(self, port):
        return {"E2b-Sandbox-Id": self.steady["sandboxID"], "E2b-Sandbox-Port": port, "X-Access-Token": self.steady["envdAccessToken"]}

    def ask(self, method, path, body, headers):
        connection = http.client.HTTPConnection(self.address.hostname, self.address.port, timeout=60)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        if answer.status >= 300:
            raise SystemExit(f"{method} {path} was answered with {answer.status}: {said[:300]!r}")
        return said


def document(there):
    """The document, for a server with these things."""
    return described(there, control, kept, inside, streams)


def signed_document(there):
    """The same for signed addresses, which have the path and the method of others."""
    return described(there, signed)


def differences(paths):
    """Operations of the dialect that the paths of a document lack, and those that the dialect does not have."""
    with open(ROUTES) as file:
        routes = {unnamed(line) for line in file.read().splitlines()}
    asked = {unnamed(f"{method.upper()} {path}") for path, methods in paths.items() for method in methods}
    return ([f"tests/schema/e2b.py does not ask {route}" for route in sorted(routes - asked)]
            + [f"tests/schema/e2b.py asks {route}, which the dialect does not have" for route in sorted(asked - routes)])


def unnamed(route):
    """Names of the parts in braces differ."""
    return re.sub(r"\{[^}]*\}", "{}", route)


def described(there, *parts):
    paths = {}

    def operation(method, path, statuses, body=None, query=None, headers=None, kind="application/json", always=(), **places):
        """`always`: the names of the query that no request is without."""
        parameters = [
            {"name": name, "in": where, "required": where != "query" or name in always, "schema": schema}
            for where, given in (("path", places), ("query", query or {}), ("header", headers or {})) for name, schema in given.items()
        ]
        refused = {"description": "refused", "content": {"application/json": {"schema": REFUSED}}}
        answers = {str(status): answered(schema) for status, schema in statuses.items()}
        one = {"operationId": f"{method} {path}", "parameters": parameters, "responses": {**answers, "4XX": refused}}
        if body is not None:
            one["requestBody"] = {"required": True, "content": {kind: {"schema": body}}}
        paths.setdefault(path, {})[method] = one

    for part in parts:
        part(operation, there)
    return {"openapi": "3.1.0", "info": {"title": "E2B's clients", "version": "0"}, "paths": paths}


def answered(schema):
    if schema is None:
        return {"description": "done"}
    kind, schema = schema if isinstance(schema, tuple) else ("application/json", schema)
    return {"description": "done", "content": {kind: {} if schema is None else {"schema": schema}}}


def control(operation, there):
    """Sandboxes, snapshots and templates."""
    new = thing(
        ["templateID"], templateID=one_of("base", "base", "base", "no-such"), timeout={"type": "number", "minimum": 1, "maximum": 600},
        metadata=PAIRS, envVars={"type": "object", "propertyNames": {"pattern": "^[A-Z]{1,9}$"}, "additionalProperties": one_of("x", "")},
        autoPause=FLAG, autoPauseMemory=FLAG, autoResume=thing(enabled=FLAG), allow_internet_access=FLAG,
        network=thing(**OUT, allowPublicTraffic=FLAG, maskRequestHost=one_of("app.example", "${PORT}.app.example:${PORT}", "a b", "")),
        volumeMounts={"type": "array", "maxItems": 2, "items": MOUNT})
    pages = {"limit": {"type": "integer", "minimum": 1, "maximum": 1000}}
    mortal = {name: one_of(*ids, "sb-0000000000000000") for name, ids in there.mortal.items()}
    steady = one_of(there.steady["sandboxID"], there.steady["sandboxID"], "sb-0000000000000000")
    for path in ("/v2/sandboxes", "/sandboxes"):
        operation("post", path, {201: OPENED}, new)
        query = {**pages, "state": one_of("running", "paused", "running,paused"), "order": one_of("asc", "desc"), "metadata": TEXT,
                 "template": TEXT, "startedAfter": {"type": "string", "format": "date-time"}}
        operation("get", path, {200: list_of(*LISTED)}, query=query)
    operation("get", "/sandboxes/{id}", {200: answer_of(*LISTED)}, id=steady)
    operation("delete", "/sandboxes/{id}", {204: None}, id=mortal["kill"])
    seconds = {"type": "number", "minimum": 600, "maximum": 3600}
    operation("post", "/sandboxes/{id}/timeout", {204: None}, thing(["timeout"], timeout=seconds), id=mortal["timeout"])
    for path, name in (("/sandboxes/{id}/connect", "connect"), ("/v2/sandboxes/{id}/connect", "connect-v2")):
        operation("post", path, {200: OPENED, 201: OPENED}, thing(timeout=seconds, memory=FLAG), id=mortal[name])
    operation("post", "/sandboxes/{id}/pause", {204: None}, thing(memory=FLAG, requireHealthyGuest=FLAG), id=mortal["pause"])
    times = {"start": {"type": "integer"}, "end": {"type": "integer"}}
    operation("get", "/sandboxes/{id}/metrics", {200: list_of("timestamp", "cpuCount", "memUsed", "diskTotal")}, query=times, id=steady)
    network = thing(**OUT, allow_internet_access=FLAG, allowPublicTraffic=FLAG, maskRequestHost=one_of("app.example", "a b"))
    operation("put", "/sandboxes/{id}/network", {204: None}, network, id=mortal["network"])
    operation("post", "/sandboxes/{id}/snapshots", {201: answer_of("snapshotID", "names")}, thing(memory={"const": False}), id=mortal["snapshots"])
    fork = thing(count={"type": "integer", "minimum": 1, "maximum": 2}, timeout=seconds)
    operation("post", "/sandboxes/{id}/fork", {201: {"type": "array", "items": {"type": "object"}}}, fork, id=mortal["fork"])
    operation("get", "/snapshots", {200: list_of("snapshotID", "names")}, query={**pages, "sandboxID": TEXT, "name": TEXT})
    operation("delete", "/templates/{id}", {204: None}, id=one_of(*there.snapshots, "no-such"))
    template, build = one_of(there.build["templateID"], "no-such"), one_of(there.build["buildID"], "no-such")
    made = answer_of("templateID", "buildID", "public", "names", "tags", "aliases")
    name = {"type": "string", "pattern": "^[a-z]{1,12}(:[a-z]{1,5})?$"}
    operation("post", "/v3/templates", {202: made}, thing(["name"], name=name, tags=TEXTS, cpuCount={"const": 1}, memoryMB={"const": 512}))
    digits = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
    operation("get", "/templates/{id}/files/{hash}", {201: answer_of("present")}, id=template, hash=digits)
    status = answer_of("templateID", "buildID", "status", "logs", "logEntries")
    offset = {"logsOffset": {"type": "integer", "minimum": 0}, "limit": {"type": "integer", "minimum": 1, "maximum": 100}}
    operation("get", "/templates/{id}/builds/{build}/status", {200: status}, query=offset, id=template, build=build)
    steps = {"type": "array", "maxItems": 3, "items": thing(["type"], type=one_of("RUN", "ENV", "WORKDIR", "USER", "COPY", "DANCE"), args=TEXTS)}
    start = thing(["fromImage"], fromImage={"const": "127.0.0.1:1/none"}, steps=steps)
    operation("post", "/v2/templates/{id}/builds/{build}", {202: None}, start, id=template, build=build)
    operation("get", "/templates/aliases/{alias}", {200: answer_of("templateID", "public")}, alias=one_of("base", "no-such", "a/b", "x:y"))
    operation("get", "/templates/{id}/tags", {200: list_of("tag", "buildID", "createdAt")}, id=template)
    names, tags = one_of("made-up", "made-up:default", "no-such", "a b", ""), {"type": "array", "maxItems": 3, "items": one_of("one", "default", "a:b", "")}
    operation("post", "/templates/tags", {201: answer_of("tags", "buildID")}, thing(["target", "tags"], target=names, tags=tags))
    operation("delete", "/templates/tags", {204: None}, thing(["name", "tags"], name=names, tags=tags))
    archive = {"type": "string", "format": "binary"}
    operation("put", "/e2b/uploads/{grant}", {200: None}, archive, kind="application/octet-stream", grant=one_of(there.grant, "no-such"))


def kept(operation, there):
    """Secrets, volumes and what is in them."""
    value, name = {"type": "string", "pattern": "^[ -~]{8,20}$"}, {"type": "string", "pattern": "^[a-z]{3,12}$"}
    pages = {"limit": {"type": "integer", "minimum": 1, "maximum": 1000}}
    operation("post", "/secrets", {201: answer_of(*SECRET)}, thing(["name", "value"], name=name, value=value, metadata=PAIRS))
    operation("get", "/secrets", {200: list_of(*SECRET)}, query=pages)
    operation("get", "/secrets/{name}", {200: answer_of(*SECRET)}, name=one_of("there", "no-such"))
    operation("post", "/secrets/{name}", {200: answer_of(*SECRET)}, thing(["value"], value=value, metadata=PAIRS), name=one_of("there"))
    operation("delete", "/secrets/{name}", {204: None}, name=one_of("short", "no-such"))
    operation("post", "/volumes", {201: answer_of("volumeID", "name", "token")}, thing(["name"], name=name))
    operation("get", "/volumes", {200: list_of("volumeID", "name")})
    operation("get", "/volumes/{volume}", {200: answer_of("volumeID", "name", "token")}, volume=one_of("there", "no-such"))
    operation("delete", "/volumes/{volume}", {204: None}, volume=one_of("short", "no-such"))
    token = {"headers": {"Authorization": one_of(f"Bearer {there.volume['token']}")}, "volume": one_of(there.volume["volumeID"])}
    path = {"path": one_of("/", "/file", "/new/deep", "/directory", "/../up", "", "relative")}
    extra = {"mode": {"type": "integer", "minimum": 0, "maximum": 511}, "force": FLAG}
    place = "/volumecontent/{volume}"
    operation("get", f"{place}/path", {200: answer_of(*STAT)}, query=path, **token)
    operation("patch", f"{place}/path", {200: answer_of(*STAT)}, thing(mode=extra["mode"]), query=path, **token)
    operation("delete", f"{place}/path", {204: None}, query={"path": one_of("/new/deep", "/directory", "/nowhere")}, **token)
    operation("get", f"{place}/dir", {200: list_of(*STAT)}, query={**path, "depth": {"type": "integer", "minimum": 1, "maximum": 3}}, **token)
    made = {"path": one_of("/directory", "/new/deep/directory", "/file"), **extra}
    operation("post", f"{place}/dir", {201: answer_of(*STAT)}, query=made, **token)
    octets = ("application/octet-stream", {"type": "string"})
    operation("get", f"{place}/file", {200: octets}, query=path, **token)
    operation("put", f"{place}/file", {201: answer_of(*STAT)}, {"type": "string", "format": "binary"}, {**path, **extra},
              kind="application/octet-stream", **token)


def inside(operation, there):
    """Commands, files and code of the sandbox that headers name."""
    envd = {"headers": {name: one_of(value) for name, value in there.headers("49983").items()}}
    code = {"headers": {name: one_of(value) for name, value in there.headers("49999").items()}}
    process = {name: thing(["pid"], pid={"enum": [pid, 999]}) for name, pid in there.processes.items()}
    path, directory, new = one_of(*FILES), one_of(*DIRECTORIES), "/tmp/there/new"
    size = thing(["cols", "rows"], cols={"type": "integer", "minimum": 1, "maximum": 500}, rows={"type": "integer", "minimum": 1, "maximum": 500})
    calls = {
        "process.Process/List": thing(),
        "process.Process/SendSignal": thing(
            ["process", "signal"], process=process["SendSignal"], signal=one_of("SIGNAL_SIGKILL", "SIGNAL_SIGTERM", "SIGNAL_DANCE")),
        "process.Process/SendInput": thing(
            ["process", "input"], process=process["SendInput"], input=thing(["stdin"], stdin=one_of("eA==", "", "*"))),
        "process.Process/CloseStdin": thing(["process"], process=process["CloseStdin"]),
        "process.Process/Update": thing(["process", "pty"], process=process["Update"], pty=thing(["size"], size=size)),
        "filesystem.Filesystem/Stat": thing(["path"], path=path),
        "filesystem.Filesystem/ListDir": thing(["path"], path=directory, depth={"type": "integer", "minimum": 0, "maximum": 3}),
        "filesystem.Filesystem/MakeDir": thing(["path"], path=one_of(new, f"{new}/deep", "/tmp/there/file", "")),
        "filesystem.Filesystem/Move": thing(
            ["source", "destination"], source=one_of("/tmp/there/move", new, "/nowhere"), destination=one_of("/tmp/there/move", new)),
        "filesystem.Filesystem/Remove": thing(["path"], path=one_of(new, "/nowhere", "/tmp/there/move", "")),
        "filesystem.Filesystem/CreateWatcher": thing(["path"], path=directory, recursive=FLAG, includeEntry=FLAG),
        "filesystem.Filesystem/GetWatcherEvents": thing(["watcherId"], watcherId=one_of(there.watcher, "no-such")),
        "filesystem.Filesystem/RemoveWatcher": thing(["watcherId"], watcherId=one_of(there.watcher, "no-such")),
    }
    for name, message in calls.items():
        operation("post", f"/{name}", {200: {"type": "object"}}, message, **envd)
    operation("get", "/health", {204: None}, **envd)
    user = {"path": one_of("/tmp/there/file", "/etc/passwd", "/nowhere/at/all"), "username": one_of("user", "root")}
    operation("get", "/files", {200: ("application/octet-stream", TEXT)}, query=user, **envd)
    operation("post", "/files", {200: list_of("name", "type", "path")}, {"type": "string", "format": "binary"},
              {"path": one_of("/tmp/there/file", "up.txt", "/tmp", "")}, kind="application/octet-stream", **envd)
    run = thing(["code"], code=one_of("1 + 1", "1 / 0", "print('x')", ""), context_id=one_of(there.context, "no-such"),
                language=one_of("python", "bash", "cobol"), env_vars={"type": "object", "additionalProperties": one_of("x")})
    operation("post", "/execute", {200: ("application/x-ndjson", TEXT)}, run, **code)
    context = answer_of("id", "language", "cwd")
    operation("get", "/contexts", {200: {"type": "array", "items": context}}, **code)
    operation("post", "/contexts", {200: context}, thing(language=one_of("python", "bash", "cobol"), cwd=one_of("/tmp", "/nowhere")), **code)
    operation("delete", "/contexts/{id}", {204: None}, id=one_of(there.context, "no-such"), **code)
    operation("post", "/contexts/{id}/restart", {204: None}, thing(), id=one_of(there.context, "no-such"), **code)


def streams(operation, there):
    """Calls of which a side, or both, sends one message after the other."""
    envd = {"headers": {name: one_of(value) for name, value in there.headers("49983").items()}}
    process = {name: thing(["pid"], pid={"enum": [there.processes[name], 999]}) for name in ("Connect", "StreamInput")}
    size = thing(["cols", "rows"], cols={"enum": [80, 0]}, rows={"enum": [24, 70000]})
    cmd = thing(
        ["cmd"], cmd=one_of("/bin/true", "/bin/cat", "/bin/bash", "no-such", ""), args={"type": "array", "maxItems": 2, "items": one_of("-c", "echo out", "")},
        cwd=one_of("/tmp", "/nowhere", ""), envs={"type": "object", "additionalProperties": one_of("x")})
    data = thing(["input"], input=thing(stdin=one_of("eA==", "", "*"), pty=one_of("eA==")))
    calls = {
        "process.Process/Start": thing(["process"], process=cmd, stdin=FLAG, pty=thing(["size"], size=size), tag=one_of("tag", "")),
        "process.Process/Connect": thing(["process"], process=process["Connect"]),
        # The first message, and those that follow it.
        "process.Process/StreamInput": thing(
            ["start"], start=thing(["process"], process=process["StreamInput"]),
            data={"type": "array", "maxItems": 3, "items": thing(["data"], data=data)}),
        "filesystem.Filesystem/WatchDir": thing(["path"], path=one_of(*DIRECTORIES), recursive=FLAG, includeEntry=FLAG),
    }
    for name, message in calls.items():
        operation("post", f"/{name}", {200: (STREAM, None)}, message, kind="application/octet-stream", **envd)


def signed(operation, there):
    """Files by addresses that name no sandbox."""
    path, expires = "/tmp/there/file", int(time.time()) + SIGNED_SECONDS

    def query(wanted):
        signatures = [there.signature(path, wanted, expires), there.signature(path, wanted), "v1_made-up"]
        return {"path": one_of(path), "signature": one_of(*signatures), "signature_expiration": one_of(str(expires))}

    # Without them an address is no signed one, and few of what is sent would be valid.
    always = ("path", "signature")
    operation("get", "/files", {200: ("application/octet-stream", TEXT)}, query=query("read"), always=always)
    operation("post", "/files", {200: list_of("name", "type", "path")}, {"type": "string", "format": "binary"}, query("write"),
              kind="application/octet-stream", always=always)
