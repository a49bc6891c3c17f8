"""Hooks for the requests of E2B's clients: they put messages of streams into envelopes, count the answers, and end the sandboxes that
requests have made."""
import atexit
import collections
import json
import os
import struct
import urllib.error
import urllib.request

import schemathesis

import e2b

URL, KEY = os.environ["PADDOCK_SCHEMA_URL"], os.environ["PADDOCK_SCHEMA_TOKEN"]
tally = collections.defaultdict(collections.Counter)
problems = []


def end(sandbox):
    request = urllib.request.Request(f"{URL}/sandboxes/{sandbox}", method="DELETE", headers={"X-API-KEY": KEY})
    try:
        urllib.request.urlopen(request, timeout=60).close()
    except urllib.error.HTTPError as error:
        if error.code != 404:
            problems.append(f"sandbox {sandbox} was not ended: {error}")


STREAMS = ("/process.Process/Start", "/process.Process/Connect", "/process.Process/StreamInput", "/filesystem.Filesystem/WatchDir")
# A watch, and a command that waits for input, end by it.
STREAM_MILLISECONDS = "500"
LAST = 2


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.path not in STREAMS:
        return
    if case.headers is None:
        case.headers = {}
    case.headers["Connect-Timeout-Ms"] = STREAM_MILLISECONDS
    case.headers["Content-Type"] = e2b.STREAM
    if isinstance(case.body, (dict, list, str, int, float, type(None))):
        messages = [json.dumps(message, default=str).encode() for message in messages_of(case.path, case.body)]
        case.body = b"".join(struct.pack(">BI", 0, len(message)) + message for message in messages)


def messages_of(path, body):
    if not path.endswith("/StreamInput") or not isinstance(body, dict):
        return [body]
    first = [{"start": body["start"]}] if "start" in body else []
    return first + (body["data"] if isinstance(body.get("data"), list) else [])


def told(case, response):
    """The status, or the error that is the only message of a stream, which is no success."""
    if case.path not in STREAMS or response.status_code != 200:
        return str(response.status_code)
    messages = envelopes(response.content)
    if not messages or messages[-1][0] != LAST:
        problems.append(f"{case.path}: the stream was not ended: {response.content[-100:]!r}")
        return "no end"
    if len(messages) > 1:
        return "200"
    error = messages[0][1].get("error", {})
    if error.get("code") in (None, "internal", "unknown"):
        problems.append(f"{case.path}: the server failed: {error}")
    return f"in the stream: {error.get('code')}"


def envelopes(content):
    """Flags and message of each; nothing where something is left over."""
    found = []
    while len(content) >= 5:
        flags, length = struct.unpack(">BI", content[:5])
        if len(content) < 5 + length:
            break
        found.append((flags, json.loads(content[5:5 + length])))
        content = content[5 + length:]
    return [] if content else found


@schemathesis.hook
def after_call(context, case, response):
    tally[f"{case.method.upper()} {case.path}"][told(case, response)] += 1
    if response.status_code != 201:
        return
    if case.path in ("/sandboxes", "/v2/sandboxes"):
        end(json.loads(response.content)["sandboxID"])
    if case.path == "/sandboxes/{id}/fork":
        for made in json.loads(response.content):
            if "sandbox" in made:
                end(made["sandbox"]["sandboxID"])


@atexit.register
def write_tally():
    with open(os.environ["PADDOCK_SCHEMA_TALLY"], "w") as file:
        json.dump({"operations": tally, "problems": problems[:20]}, file)
