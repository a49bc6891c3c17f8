"""What no SDK sends: half envelopes, wrong flags, lengths of a gigabyte, tokens of others. The server answers, and stays well."""
import http.client
import json
import socket
import struct
import urllib.parse


def ask(world, method, path, body=None, headers=None):
    address = urllib.parse.urlsplit(world.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())
    finally:
        connection.close()


def of_sandbox(world, token=None, **more):
    sandbox = world.sandbox
    return {
        "E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "49983",
        "X-Access-Token": sandbox._envd_access_token if token is None else token,
        "Content-Type": "application/connect+json", "Connect-Protocol-Version": "1", **more,
    }


def envelope(message, flags=0):
    message = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">BI", flags, len(message)) + message


def frames(body):
    found = []
    while body:
        flags, length = struct.unpack(">BI", body[:5])
        found.append((flags, json.loads(body[5:5 + length])))
        body = body[5 + length:]
    return found


START = {"process": {"cmd": "/bin/bash", "args": ["-l", "-c", "echo hi"]}, "stdin": False}
PATH = "/process.Process/Start"


def case_a_stream_is_start_data_end_and_last(world):
    status, body, headers = ask(world, "POST", PATH, envelope(START), of_sandbox(world))
    assert (status, headers["content-type"]) == (200, "application/connect+json")
    found = frames(body)
    assert list(found[0][1]["event"]) == ["start"] and found[0][1]["event"]["start"]["pid"] > 0
    assert found[1][1] == {"event": {"data": {"stdout": "aGkK"}}}
    assert found[-2][1] == {"event": {"end": {"exitCode": 0, "exited": True, "status": "exit status 0"}}}
    assert found[-1] == (2, {})


def case_a_timeout_is_an_error_and_no_end(world):
    message = {"process": {"cmd": "/bin/sleep", "args": ["30"]}, "stdin": False}
    status, body, _ = ask(world, "POST", PATH, envelope(message), of_sandbox(world, **{"Connect-Timeout-Ms": "300"}))
    found = frames(body)
    assert status == 200 and found[-1][0] == 2
    assert found[-1][1]["error"]["code"] == "deadline_exceeded", found
    assert not any("end" in one.get("event", {}) for _, one in found)


def case_bad_envelopes_are_refused_in_the_protocols_own_way(world):
    whole = envelope(START)
    for body, code in (
        (whole[:3], "invalid_argument"),
        (whole[:20], "invalid_argument"),
        (b"", "invalid_argument"),
        (envelope(START, 1), "unimplemented"),
        (envelope(START, 2), "invalid_argument"),
        (envelope(START, 0x80), "invalid_argument"),
        (struct.pack(">BI", 0, 1 << 30), "resource_exhausted"),
        (struct.pack(">BI", 0, 0xFFFFFFFF), "resource_exhausted"),
        (envelope(b"{"), "invalid_argument"),
        (envelope(b"[]"), "invalid_argument"),
        (envelope({"process": {"cmd": ""}}), "invalid_argument"),
        (envelope({"process": {"cmd": "/bin/true"}, "pty": {"size": {"cols": 0, "rows": 1}}}), "invalid_argument"),
        (whole + whole, "invalid_argument"),
    ):
        status, answer, _ = ask(world, "POST", PATH, body, of_sandbox(world))
        found = frames(answer)
        assert status == 200 and len(found) == 1 and found[0][0] == 2, (body[:9], status, answer)
        assert found[0][1]["error"]["code"] == code, (body[:9], found)


def case_a_gigabyte_is_refused_before_it_comes(world):
    address = urllib.parse.urlsplit(world.url)
    head = "".join(f"{name}: {value}\r\n" for name, value in of_sandbox(world).items())
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        connection.sendall(
            f"POST {PATH} HTTP/1.1\r\nHost: {address.netloc}\r\n{head}Content-Length: 1073741829\r\n\r\n".encode()
            + struct.pack(">BI", 0, 1 << 30))
        connection.settimeout(20)
        seen = b""
        while b"resource_exhausted" not in seen:
            piece = connection.recv(4096)
            assert piece, seen
            seen += piece


def case_a_message_of_too_many_values_is_refused_before_it_is_kept(world):
    many = {"process": {"cmd": "/bin/true", "args": [""] * 300_000}}
    _, answer, _ = ask(world, "POST", PATH, envelope(many), of_sandbox(world))
    said = frames(answer)[-1][1]["error"]
    assert said["code"] == "invalid_argument" and "more than 200000 values" in said["message"], said
    status, answer, _ = ask(world, "POST", PATH, envelope(START), of_sandbox(world))
    assert status == 200 and frames(answer)[-1] == (2, {}), answer


def case_a_stream_that_is_cut_in_the_middle_harms_nothing(world):
    address = urllib.parse.urlsplit(world.url)
    head = "".join(f"{name}: {value}\r\n" for name, value in of_sandbox(world).items())
    for _ in range(10):
        with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
            connection.sendall(
                f"POST {PATH} HTTP/1.1\r\nHost: {address.netloc}\r\n{head}Transfer-Encoding: chunked\r\n\r\n".encode()
                + b"4\r\n\0\0\0\0\r\n")
    assert world.sandbox.commands.run("echo well").stdout == "well\n"


def case_tokens_open_one_sandbox_and_only_whole(world):
    sandbox, token = world.sandbox, world.sandbox._envd_access_token
    from e2b import Sandbox

    other = Sandbox.create(api_key=world.other_key)
    try:
        for wrong in ("", "x", token[:-1], token + "0", token.split(".")[0], "." + token.split(".")[1],
                      other._envd_access_token, sandbox.traffic_access_token, world.key):
            for path in (PATH, "/filesystem.Filesystem/Stat", "/files?path=/etc/hostname", "/health"):
                method = "GET" if path.startswith(("/files", "/health")) else "POST"
                status, body, _ = ask(world, method, path, envelope(START) if method == "POST" else None,
                                      of_sandbox(world, token=wrong))
                assert status in (400, 401), (wrong, path, status, body)
        # Somebody's token for somebody else's sandbox.
        headers = of_sandbox(world, **{"E2b-Sandbox-Id": other.sandbox_id})
        assert ask(world, "GET", "/health", None, headers)[0] == 401
        headers = of_sandbox(world, token=other._envd_access_token)
        assert ask(world, "GET", "/health", None, headers)[0] == 401
    finally:
        other.kill(api_key=world.other_key)


def case_without_a_token_a_sandbox_says_nothing_of_itself(world):
    for identity in (world.sandbox.sandbox_id, "sb-0000000000000000", "..", "x" * 127):
        headers = {"E2b-Sandbox-Id": identity, "E2b-Sandbox-Port": "49983"}
        status, body, _ = ask(world, "GET", "/health", None, headers)
        assert status == 401 and b"access token" in body, (identity, status, body)


def case_a_gone_sandbox_is_502_with_its_words(world):
    from e2b import Sandbox

    sandbox = Sandbox.create()
    headers = of_sandbox(world, token=sandbox._envd_access_token, **{"E2b-Sandbox-Id": sandbox.sandbox_id})
    assert ask(world, "GET", "/health", None, headers)[0] == 204
    sandbox.kill()
    for method, path in (("GET", "/health"), ("GET", "/files?path=/x"), ("POST", PATH)):
        status, body, _ = ask(world, method, path, envelope(START) if method == "POST" else None, headers)
        said = json.loads(body)
        assert status == 502 and said == {
            "sandboxId": sandbox.sandbox_id, "message": "The sandbox was not found", "code": 502}, (path, status, said)


def case_a_port_that_nothing_listens_on_is_said_to_be_closed(world):
    headers = of_sandbox(world, **{"E2b-Sandbox-Port": "3999"})
    status, body, _ = ask(world, "GET", "/", None, headers)
    assert status == 502 and "port is not open" in json.loads(body)["message"], body


def case_a_port_inside_is_reached_and_gets_no_token(world):
    sandbox = world.sandbox
    program = (
        "import http.server\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "  def do_GET(self):\n"
        "    self.send_response(200); self.end_headers(); self.wfile.write((self.path + '\\n' + str(self.headers)).encode())\n"
        "http.server.HTTPServer(('127.0.0.1', 3456), H).serve_forever()\n")
    sandbox.files.write("/tmp/web.py", program)
    running = sandbox.commands.run("python3 /tmp/web.py", background=True, timeout=0)
    try:
        headers = {
            "E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "3456",
            "E2B-Traffic-Access-Token": sandbox.traffic_access_token, "X-Mine": "1",
        }
        for _ in range(100):
            status, body, _ = ask(world, "GET", "/a?b=c", None, headers)
            if status == 200:
                break
            import time
            time.sleep(0.05)
        assert status == 200 and body.startswith(b"/a?b=c\n"), body
        assert b"X-Mine" in body or b"x-mine" in body
        assert sandbox.traffic_access_token.encode() not in body
    finally:
        running.kill()


def case_operations_that_are_not_there_are_named(world):
    key = {"X-API-KEY": world.key}
    for method, path in (
        ("GET", "/templates"), ("GET", "/v3/templates"), ("PUT", "/volumes"), ("PUT", "/secrets/a/b"), ("GET", "/default-templates"),
        ("GET", "/templates/x/tags/count"),
        ("GET", f"/sandboxes/{world.sandbox.sandbox_id}/logs"), ("POST", "/templates/x"), ("GET", "/teams"),
    ):
        status, body, _ = ask(world, method, path, "{}", key)
        said = json.loads(body)
        assert status == 501 and said["code"] == 501 and f"{method} {path}" in said["message"], (path, status, said)
    # By the key, by the name of the client, and by the path: none gets this server's own words, nor a bare 404.
    agent = {"User-Agent": "e2b-python-sdk/2.63.0"}
    for method, path, headers in (
        ("GET", "/v9/anything/else", key), ("POST", "/sandboxes/x/dance", key), ("PATCH", "/v2/sandboxes", {}), ("GET", "/brand-new", agent),
        ("GET", "/teams/x/metrics/max", {}), ("POST", "/v4/templates", agent), ("DELETE", "/files", agent), ("PUT", "/snapshots/a", {}),
    ):
        status, body, _ = ask(world, method, path, "{}", headers)
        said = json.loads(body)
        assert status in (401, 501) and said["code"] == status and said["error_code"], (path, status, said)
        assert status == 401 or f"{method} {path}" in said["message"], (path, said)
    for path in ("/execute", "/contexts", "/process.Process/List"):
        status, body, _ = ask(world, "POST", path, "{}", key)
        assert status == 400 and "E2b-Sandbox-Id" in json.loads(body)["message"], (path, status, body)
    status, body, _ = ask(world, "GET", "/v1/no-such", None, {"Authorization": "Bearer x"})
    assert status == 404 and b"there is nothing at" in body, "others get the words of this server"
    for port, path in (("49983", "/metrics"), ("49999", "/dance")):
        status, body, _ = ask(world, "GET", path, None, of_sandbox(world, **{"E2b-Sandbox-Port": port}))
        assert status == 501 and path in json.loads(body)["message"], (port, path, status, body)
    for path in ("/process.Process/Dance", "/filesystem.Filesystem/Dance"):
        status, body, _ = ask(world, "POST", path, "{}", of_sandbox(world, **{"Content-Type": "application/json"}))
        assert status == 501 and "Dance" in json.loads(body)["message"], body


def case_the_control_plane_refuses_what_is_no_request(world):
    key = {"X-API-KEY": world.key, "Content-Type": "application/json"}
    for body in ("", "{", "[]", "null", '{"templateID": 7}', '{"templateID": "base", "timeout": "x"}',
                 '{"templateID": "base", "timeout": -5}', '{"templateID": "base", "metadata": {"paddock.x": "1"}}'):
        status, answer, _ = ask(world, "POST", "/v2/sandboxes", body, key)
        said = json.loads(answer)
        assert status == 400 and said["code"] == 400 and said["message"], (body, status, answer)
    status, answer, _ = ask(world, "POST", "/v2/sandboxes", '{"templateID":"base"}', {})
    assert status == 401 and json.loads(answer)["code"] == 401
    for query in ("state=ended", "limit=0", "limit=x", "order=sideways", "startedAfter=soon", "nextToken=%00"):
        status, answer, _ = ask(world, "GET", f"/v2/sandboxes?{query}", None, key)
        assert status == 400, (query, status, answer)


def case_older_addresses_answer(world):
    key = {"X-API-KEY": world.key, "Content-Type": "application/json"}
    body = {"templateID": "base", "timeout": 300, "secure": True, "allow_internet_access": True, "metadata": {}, "envVars": {}}
    status, answer, _ = ask(world, "POST", "/sandboxes", json.dumps(body), key)
    made = json.loads(answer)
    assert status == 201 and made["envdAccessToken"] and made["sandboxID"], answer
    status, answer, _ = ask(world, "POST", f"/sandboxes/{made['sandboxID']}/connect", '{"timeout": 300}', key)
    assert status == 200 and json.loads(answer)["sandboxID"] == made["sandboxID"]
    assert ask(world, "DELETE", f"/sandboxes/{made['sandboxID']}", None, key)[0] == 204
    assert ask(world, "DELETE", f"/sandboxes/{made['sandboxID']}", None, key)[0] == 404


def case_the_same_key_makes_the_same_sandbox(world):
    key = {"X-API-KEY": world.key, "Content-Type": "application/json", "Idempotency-Key": "once-only"}
    first = json.loads(ask(world, "POST", "/v2/sandboxes", '{"templateID":"base"}', key)[1])
    second = json.loads(ask(world, "POST", "/v2/sandboxes", '{"templateID":"base"}', key)[1])
    assert first["sandboxID"] == second["sandboxID"]
    assert ask(world, "DELETE", f"/sandboxes/{first['sandboxID']}", None, key)[0] == 204


def case_a_revoked_key_ends_what_it_opened(world):
    from e2b import Sandbox
    import pytest_like as expect

    created = json.loads(world.server.run("token", "create", "--tenant", "e2b", "--json"))
    sandbox = Sandbox.create(api_key=created["secret"])
    assert sandbox.commands.run("echo hi").stdout == "hi\n"
    url = sandbox.download_url("/etc/hostname")
    running = sandbox.commands.run("sleep 60", background=True)
    world.server.run("token", "revoke", created["id"])
    expect.raises(Exception, running.wait)
    expect.raises(Exception, sandbox.commands.run, "true")
    address = urllib.parse.urlsplit(url)
    assert ask(world, "GET", f"{address.path}?{address.query}")[0] == 401
    assert Sandbox.kill(sandbox.sandbox_id) is True


def case_input_in_a_stream(world):
    sandbox = world.sandbox
    handle = sandbox.commands.run("cat", background=True, stdin=True)
    body = envelope({"start": {"process": {"pid": handle.pid}}}) + envelope({"data": {"input": {"stdin": "YWI="}}}) \
        + envelope({"keepalive": {}}) + envelope({"data": {"input": {"stdin": "Yw=="}}})
    status, answer, _ = ask(world, "POST", "/process.Process/StreamInput", body, of_sandbox(world))
    assert status == 200 and frames(answer) == [(0, {}), (2, {})], answer
    handle.close_stdin()
    assert handle.wait().stdout == "abc"
    early = envelope({"data": {"input": {"stdin": "YWI="}}})
    status, answer, _ = ask(world, "POST", "/process.Process/StreamInput", early, of_sandbox(world))
    assert frames(answer)[0][1]["error"]["code"] == "invalid_argument", answer


def case_v1_and_e2b_are_the_same_sandboxes(world):
    own = {"Authorization": f"Bearer {world.server.run('token', 'create', '--tenant', 'e2b').strip()}"}
    status, body, _ = ask(world, "GET", f"/v1/sandboxes/{world.sandbox.sandbox_id}", None, own)
    assert status == 200 and json.loads(body)["tenant"] == "e2b"
    # An API key of E2B's header opens nothing of /v1.
    assert ask(world, "GET", "/v1/sandboxes", None, {"X-API-KEY": world.key})[0] == 401
