"""What the cases of templates share: requests that no SDK would send, contexts, builds, and a look inside."""
import json
import os
import tempfile
import time
import urllib.error
import urllib.request
import uuid

from e2b import Sandbox, Template

HASH = "0123456789abcdef" * 4


def call(world, method, target, body=None, key=None, headers=None):
    """Status and JSON of a request that no SDK would send."""
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    address = target if target.startswith("http") else world.url + target
    request = urllib.request.Request(address, data=data, method=method)
    if key is not False:
        request.add_header("X-API-KEY", key or world.key)
    for name, value in (headers or {}).items():
        request.add_header(name, value)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text else None


def context(**files):
    """A directory with these files; `__` in a name stands for a slash, a value may be (content, mode)."""
    place = tempfile.mkdtemp(prefix="paddock-e2b-context-")
    for name, content in files.items():
        content, mode = content if isinstance(content, tuple) else (content, 0o644)
        path = os.path.join(place, name.replace("__", "/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(content)
        os.chmod(path, mode)
    return place


def name(word):
    return f"{word}-{uuid.uuid4().hex[:8]}"


def built(world, template, word="t", **options):
    """Builds it; the lines of its log."""
    lines = []
    try:
        info = Template.build(template, options.pop("name", None) or name(word), on_build_logs=lines.append, **options)
    except Exception as error:
        if hasattr(error, "add_note"):
            error.add_note("\n".join(entry.message for entry in lines[-20:]))
        raise
    return info, [entry.message for entry in lines]


def inside(info, command, **options):
    with Sandbox.create(info.template_id, timeout=120) as sandbox:
        return sandbox.commands.run(command, **options).stdout


def requested(world):
    status, answer = call(world, "POST", "/v3/templates", {"name": name("raw")})
    assert status == 202, answer
    return answer


def finished(world, answer):
    target = f"/templates/{answer['templateID']}/builds/{answer['buildID']}/status"
    end = time.monotonic() + 60
    while time.monotonic() < end:
        status, told = call(world, "GET", target)
        assert status == 200, told
        if told["status"] in ("ready", "error"):
            return told
        time.sleep(0.1)
    raise AssertionError("the build does not end")
