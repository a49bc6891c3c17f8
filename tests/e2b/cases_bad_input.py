"""Requests that would break a careless server: bodies of the wrong kind, streams that stop, calls for others. It answers, and stays well."""
import gzip
import json
import socket
import struct
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest_like as expect
from e2b import AuthenticationException, Sandbox

from cases_wire import PATH, START, ask, envelope, frames, of_sandbox

UNARY = {"Content-Type": "application/json"}
STAT = "/filesystem.Filesystem/Stat"


def code_of(body):
    return json.loads(body)["code"]


def is_well(world):
    return world.sandbox.commands.run("echo well").stdout == "well\n"


def open_socket(world):
    address = urllib.parse.urlsplit(world.url)
    return socket.create_connection((address.hostname, address.port), timeout=20)


def head(world, method, path, headers):
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{method} {path} HTTP/1.1\r\nHost: {urllib.parse.urlsplit(world.url).netloc}\r\n{lines}\r\n".encode()


def case_a_call_with_one_answer_refuses_what_is_no_message(world):
    for body in (b"", b"{", b"[]", b"null", b"7", b'{"path": 7}', b'{"path": ""}', b"\xff\xfe"):
        status, answer, _ = ask(world, "POST", STAT, body, of_sandbox(world, **UNARY))
        assert status == 400 and code_of(answer) == "invalid_argument", (body, status, answer)


def case_a_message_of_the_wrong_kind_is_refused(world):
    for kind in ("application/proto", "application/connect+proto", "text/plain", "application/grpc"):
        status, answer, _ = ask(world, "POST", STAT, b'{"path": "/tmp"}', of_sandbox(world, **{"Content-Type": kind}))
        assert status in (400, 415), (kind, status, answer)
        _, answer, _ = ask(world, "POST", PATH, envelope(START), of_sandbox(world, **{"Content-Type": kind}))
        assert frames(answer)[0][1]["error"]["code"] == "invalid_argument", (kind, answer)
    assert is_well(world)


def case_compression_that_was_not_agreed_is_refused(world):
    packed = gzip.compress(json.dumps(START).encode())
    headers = of_sandbox(world, **{"Connect-Content-Encoding": "gzip"})
    status, answer, _ = ask(world, "POST", PATH, envelope(packed, 1), headers)
    assert status in (200, 415, 501), status
    if status == 200:
        assert frames(answer)[0][1]["error"]["code"] in ("unimplemented", "invalid_argument"), answer
    packed = gzip.compress(b'{"path": "/tmp"}')
    status, answer, _ = ask(world, "POST", STAT, packed, of_sandbox(world, **UNARY, **{"Content-Encoding": "gzip"}))
    assert status in (400, 415, 501), (status, answer)
    assert is_well(world)


def case_fields_that_are_not_known_are_left_out(world):
    status, answer, _ = ask(world, "POST", "/process.Process/List", b'{"new": {"deep": [1]}}', of_sandbox(world, **UNARY))
    assert status == 200 and "processes" in json.loads(answer), answer


def case_deep_nesting_is_refused(world):
    deep = b'{"path": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    status, _, _ = ask(world, "POST", STAT, deep, of_sandbox(world, **UNARY))
    assert status == 400
    status, _, _ = ask(world, "POST", "/v2/sandboxes", deep, {"X-API-KEY": world.key, **UNARY})
    assert status == 400
    assert is_well(world)


def case_messages_have_a_largest_size(world):
    large = json.dumps({"path": "/tmp", "padding": "x" * 9_000_000}).encode()
    status, answer, _ = ask(world, "POST", STAT, large, of_sandbox(world, **UNARY))
    assert status in (400, 413, 429), (status, answer)
    status, answer, _ = ask(world, "POST", "/v2/sandboxes", b'{"templateID": "' + b"x" * 9_000_000 + b'"}', {"X-API-KEY": world.key, **UNARY})
    assert status in (400, 413), (status, answer[:200])


def case_input_that_is_no_base64_is_refused(world):
    handle = world.sandbox.commands.run("cat", background=True, stdin=True)
    message = {"process": {"pid": handle.pid}, "input": {"stdin": "*not base64*"}}
    status, answer, _ = ask(world, "POST", "/process.Process/SendInput", json.dumps(message), of_sandbox(world, **UNARY))
    assert status == 400 and code_of(answer) == "invalid_argument", (status, answer)
    handle.close_stdin()
    assert handle.wait().stdout == ""


def case_signals_and_pids_that_are_none(world):
    for message in (
        {"process": {"pid": -1}, "signal": "SIGNAL_SIGKILL"}, {"process": {"pid": 1 << 40}, "signal": "SIGNAL_SIGKILL"},
        {"process": {"pid": "x"}, "signal": "SIGNAL_SIGKILL"}, {"process": {}, "signal": "SIGNAL_SIGKILL"}, {"signal": "SIGNAL_SIGKILL"},
        {"process": {"tag": "no-such-tag"}, "signal": "SIGNAL_SIGKILL"}, {"process": {"pid": 1}, "signal": "SIGNAL_DANCE"},
    ):
        status, answer, _ = ask(world, "POST", "/process.Process/SendSignal", json.dumps(message), of_sandbox(world, **UNARY))
        assert status in (400, 404) and code_of(answer) in ("invalid_argument", "not_found"), (message, status, answer)


def case_ports_that_are_none_are_refused(world):
    for port in ("0", "-1", "65536", "http", "", "49983 ", "4 9"):
        headers = of_sandbox(world, **{"E2b-Sandbox-Port": port, "E2B-Traffic-Access-Token": world.sandbox.traffic_access_token})
        status, answer, _ = ask(world, "GET", "/health", None, headers)
        assert status in (204, 400, 401, 502), (port, status, answer)
        assert status != 204 or port.strip() == "49983", port


def case_paths_that_are_none_are_refused(world):
    for query in ("", "path=", "path=%00", "path=/tmp/%00x", "path=/" + "x" * 5000, "username=user", "path=/tmp/a&username=no-such-user"):
        for method, body in (("GET", None), ("POST", b"x")):
            kind = {"Content-Type": "application/octet-stream"}
            status, answer, _ = ask(world, method, f"/files?{query}", body, of_sandbox(world, **kind))
            assert status in (400, 401, 404), (method, query[:40], status, answer[:200])
    assert is_well(world)


def case_forms_that_are_none_are_refused(world):
    for body, kind in (
        (b"", "multipart/form-data; boundary=XX"), (b"--XX\r\n", "multipart/form-data; boundary=XX"),
        (b"--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"/tmp/half\"\r\n\r\nhalf", "multipart/form-data; boundary=XX"),
        (b"x", "multipart/form-data"), (b"x", "multipart/form-data; boundary="), (b"x", "application/xml"),
        (b"--XX\r\n" + b"A: b\r\n" * 10_000 + b"\r\nx\r\n--XX--\r\n", "multipart/form-data; boundary=XX"),
    ):
        status, answer, _ = ask(world, "POST", "/files", body, of_sandbox(world, **{"Content-Type": kind}))
        assert status in (400, 413, 415), (body[:40], kind, status, answer[:200])
    assert not world.sandbox.files.exists("/tmp/half") or world.sandbox.files.read("/tmp/half") != "half"
    assert is_well(world)


def case_an_upload_that_stops_leaves_nothing(world):
    headers = of_sandbox(world, **{"Content-Type": "application/octet-stream", "Content-Length": "1000000"})
    with open_socket(world) as connection:
        connection.sendall(head(world, "POST", "/files?path=/tmp/stopped", headers) + b"x" * 1000)
    assert is_well(world)
    assert not world.sandbox.files.exists("/tmp/stopped")


def case_a_download_that_stops_harms_nothing(world):
    world.sandbox.files.write("/tmp/long", b"x" * 10_000_000)
    for _ in range(5):
        with open_socket(world) as connection:
            connection.sendall(head(world, "GET", "/files?path=/tmp/long", of_sandbox(world)))
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
    assert len(world.sandbox.files.read("/tmp/long", format="bytes")) == 10_000_000


def case_streams_that_are_left_do_not_pile_up(world):
    """A hundred readers that go away without a word, and one that stays."""
    sandbox = Sandbox.create()
    try:
        handle = sandbox.commands.run("read line; echo $line", background=True, stdin=True, timeout=0)
        headers = of_sandbox(world, token=sandbox._envd_access_token, **{"E2b-Sandbox-Id": sandbox.sandbox_id})
        body = envelope({"process": {"pid": handle.pid}})
        for _ in range(100):
            with open_socket(world) as connection:
                connection.sendall(
                    head(world, "POST", "/process.Process/Connect", {**headers, "Content-Length": str(len(body))}) + body)
                assert b"200 OK" in connection.recv(4096)
        handle.send_stdin("stayed\n")
        assert handle.wait().stdout == "stayed\n"
    finally:
        sandbox.kill()


def case_half_of_an_envelope_at_a_time(world):
    """The head and the message of one envelope in single bytes, as a slow network brings them."""
    body = envelope({**START, "process": {"cmd": "/bin/echo", "args": ["slow"]}})
    with open_socket(world) as connection:
        connection.sendall(head(world, "POST", PATH, {**of_sandbox(world), "Content-Length": str(len(body)), "Connection": "close"}))
        for at in range(len(body)):
            connection.sendall(body[at:at + 1])
        seen = b""
        while piece := connection.recv(4096):
            seen += piece
    assert b"c2xvdwo=" in seen, seen


def case_a_length_that_lies_is_refused(world):
    message = json.dumps(START).encode()
    for length in (len(message) - 1, len(message) + 1, 0):
        body = struct.pack(">BI", 0, length) + message
        status, answer, _ = ask(world, "POST", PATH, body, of_sandbox(world))
        found = frames(answer)
        assert status == 200 and "error" in found[-1][1] and len(found) == 1, (length, answer)


def case_code_that_is_no_request_is_refused(world):
    headers = of_sandbox(world, **UNARY, **{"E2b-Sandbox-Port": "49999"})
    for body, statuses in (
        (b"", (400,)), (b"{", (400,)), (b"{}", (400,)), (b'{"code": 7}', (400,)),
        (b'{"code": "1", "context_id": "x", "language": "python"}', (400,)), (b'{"code": "1", "context_id": "no-such"}', (404,)),
        (b'{"code": "1", "language": ""}', (400,)), (b'{"code": "1", "env_vars": {"A=B": "x"}}', (400,)),
        (b'{"code": "1", "env_vars": {"A": 7}}', (400,)),
    ):
        status, answer, _ = ask(world, "POST", "/execute", body, headers)
        assert status in statuses, (body, status, answer)
    for method, path in (("DELETE", "/contexts/no-such"), ("POST", "/contexts/no-such/restart"), ("POST", "/contexts/..%2fx/restart")):
        status, answer, _ = ask(world, method, path, b"{}", headers)
        assert status == 404, (path, status, answer)


def case_code_wants_a_token_as_well(world):
    for token in ("", "x", world.key):
        headers = of_sandbox(world, token=token, **UNARY, **{"E2b-Sandbox-Port": "49999"})
        status, _, _ = ask(world, "POST", "/execute", b'{"code": "1"}', headers)
        assert status == 401, (token, status)


def case_lines_of_code_are_json_without_blanks(world):
    headers = of_sandbox(
        world, token=world.interpreter._envd_access_token, **UNARY,
        **{"E2b-Sandbox-Port": "49999", "E2b-Sandbox-Id": world.interpreter.sandbox_id})
    status, answer, _ = ask(world, "POST", "/execute", json.dumps({"code": "print('a\\n\\nb')\n1"}), headers)
    lines = [json.loads(line) for line in answer.decode().rstrip("\n").split("\n")]
    assert status == 200 and lines[0]["type"] == "number_of_executions" and lines[-1]["type"] == "end_of_execution"
    assert "".join(line["text"] for line in lines if line["type"] == "stdout") == "a\n\nb\n"


def case_every_operation_is_closed_to_another_tenant(world):
    """By the control plane: what is somebody else's is not found, whatever is asked."""
    key = {"X-API-KEY": world.other_key, **UNARY}
    place = f"/sandboxes/{world.sandbox.sandbox_id}"
    for method, path, body in (
        ("GET", place, None), ("DELETE", place, None), ("POST", f"{place}/timeout", '{"timeout": 1}'), ("POST", f"{place}/pause", "{}"),
        ("POST", f"{place}/connect", '{"timeout": 1}'), ("POST", f"/v2{place}/connect", "{}"), ("GET", f"{place}/metrics", None),
        ("PUT", f"{place}/network", "{}"), ("POST", f"{place}/snapshots", "{}"), ("POST", f"{place}/fork", "{}"),
    ):
        status, answer, _ = ask(world, method, path, body, key)
        assert status == 404, (method, path, status, answer)
    assert is_well(world)


def case_a_key_that_only_reads_starts_nothing_inside(world):
    key = {"X-API-KEY": world.reading_key, **UNARY}
    place = f"/sandboxes/{world.sandbox.sandbox_id}"
    for method, path, body in (
        ("POST", f"{place}/timeout", '{"timeout": 1}'), ("POST", f"{place}/pause", "{}"), ("POST", f"{place}/snapshots", "{}"),
        ("POST", f"{place}/fork", "{}"), ("PUT", f"{place}/network", "{}"), ("POST", "/v2/sandboxes", '{"templateID": "base"}'),
    ):
        status, answer, _ = ask(world, method, path, body, key)
        assert status == 403, (method, path, status, answer)
    assert is_well(world)


def case_many_wrong_calls_at_once_harm_nobody(world):
    """Eight threads send rubbish while a command runs."""
    handle = world.sandbox.commands.run("for n in $(seq 50); do echo $n; sleep 0.01; done", background=True)
    problems = []

    def rubbish():
        try:
            for n in range(25):
                ask(world, "POST", PATH, envelope(b"\xff" * n, n), of_sandbox(world))
                ask(world, "POST", "/v2/sandboxes", b"{" * n, {"X-API-KEY": world.key})
        except OSError as problem:
            problems.append(problem)

    threads = [threading.Thread(target=rubbish) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems
    assert handle.wait().stdout.split()[-1] == "50"


def case_a_key_that_expired_opens_nothing_more(world):
    """Its sandbox, its access token and its signed addresses end with it, and the sandbox is the tenant's still."""
    key = world.server.variables("--tenant", "e2b", "--ttl", "20s")["E2B_API_KEY"]
    sandbox = Sandbox.create(api_key=key)
    sandbox.files.write("/tmp/a", "a")
    url = sandbox.download_url("/tmp/a")

    def is_refused():
        try:
            Sandbox.get_info(sandbox.sandbox_id, api_key=key)
        except AuthenticationException:
            return True
        return False

    assert expect.until(is_refused, bool, patience=90)
    expect.raises(AuthenticationException, sandbox.commands.run, "true")
    expect.raises(AuthenticationException, Sandbox.create, api_key=key)
    refused = expect.raises(urllib.error.HTTPError, urllib.request.urlopen, url)
    assert refused.code == 401, refused
    assert Sandbox.kill(sandbox.sandbox_id) is True
