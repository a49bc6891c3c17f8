"""Requests that are answered while their client still sends: the answer is read whole, and the connection ends or stays as it says."""
import json
import urllib.parse

from cases_bad_input import head, open_socket
from cases_wire import envelope, of_sandbox

PIECE = b"x" * (64 << 10)
PIECES = 256
LONG = len(PIECE) * PIECES
NO_SUCH_PID = 4_000_000


class Answers:
    """Those of one connection, each whole."""

    def __init__(self, connection):
        self.connection, self.read = connection, b""

    def more(self):
        piece = self.connection.recv(1 << 16)
        assert piece, f"the connection ended within an answer: {self.read[:300]!r}"
        self.read += piece

    def next(self):
        while b"\r\n\r\n" not in self.read:
            self.more()
        top, self.read = self.read.split(b"\r\n\r\n", 1)
        first, *lines = top.decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        length = int(headers.get("content-length", 0))
        while len(self.read) < length:
            self.more()
        body, self.read = self.read[:length], self.read[length:]
        return int(first.split()[1]), headers, body

    def ended(self):
        return self.connection.recv(1) == b""


def refused_while_sending(world, method, path, headers, before=b""):
    """Sends sixteen megabytes before it reads a byte, as clients do that first write and then read."""
    with open_socket(world) as connection:
        connection.sendall(head(world, method, path, {**headers, "Content-Length": str(len(before) + LONG)}) + before)
        for _ in range(PIECES):
            connection.sendall(PIECE)
        answers = Answers(connection)
        found = answers.next()
        assert found[1].get("connection") == "close", (method, path, found)
        assert answers.ended(), (method, path)
    return found


def case_a_refusal_outlives_what_its_client_still_sends(world):
    octets, as_json = {"Content-Type": "application/octet-stream"}, {"Content-Type": "application/json"}
    signature = urllib.parse.urlencode({"path": "/tmp/x", "signature": "v1_" + "A" * 43})
    for method, path, headers, status in (
        ("POST", "/files?path=/tmp/x", of_sandbox(world, token="wrong", **octets), 401),
        ("POST", f"/files?{signature}", octets, 401),
        ("POST", "/process.Process/Start", of_sandbox(world, token="wrong"), 401),
        ("PUT", "/e2b/uploads/no-such-grant", {}, 403),
        ("PUT", "/volumecontent/no-such/file?path=/x", {"Authorization": "Bearer no-such", **octets}, 401),
        ("POST", "/v2/sandboxes", {"X-API-KEY": "wrong", **as_json}, 401),
        ("POST", "/v2/sandboxes", {"X-API-KEY": world.key, **as_json}, 413),
        ("POST", "/secrets", {"X-API-KEY": world.reading_key, **as_json}, 403),
        ("POST", "/no/such/operation", {"X-API-KEY": world.key, **as_json}, 501),
        ("POST", "/v1/sandboxes", {"Authorization": "Bearer no-such", **as_json}, 401),
        ("POST", "/v1/sandboxes", {"Authorization": f"Bearer {world.server.run('token', 'create', '--tenant', 'e2b').strip()}", **as_json}, 413),
    ):
        found = refused_while_sending(world, method, path, headers)
        assert found[0] == status and json.loads(found[2]), (method, path, found)


def case_a_refused_stream_outlives_what_its_client_still_sends(world):
    start = envelope({"start": {"process": {"pid": NO_SUCH_PID}}})
    status, _, body = refused_while_sending(world, "POST", "/process.Process/StreamInput", of_sandbox(world), start)
    assert status == 200 and json.loads(body[5:])["error"]["code"] == "not_found", (status, body)


def case_a_connection_stays_for_the_next_call_or_says_that_it_ends(world):
    """The body comes after the answer could be there: it must not be taken for the next request, nor end the connection in silence."""
    body = b"{}"
    json_of_sandbox = of_sandbox(world, **{"Content-Type": "application/json"})
    for method, path, headers, status in (
        ("POST", "/process.Process/List", json_of_sandbox, 200),
        ("POST", "/process.Process/Dance", json_of_sandbox, 501),
        ("GET", "/health", of_sandbox(world), 204),
        ("DELETE", "/sandboxes/sb-0000000000000000", {"X-API-KEY": world.key}, 404),
        ("GET", "/v2/sandboxes?limit=1", {"X-API-KEY": world.key}, 200),
    ):
        with open_socket(world) as connection:
            answers = Answers(connection)
            for _ in range(3):
                connection.sendall(head(world, method, path, {**headers, "Content-Length": str(len(body))}))
                connection.sendall(body)
                found = answers.next()
                assert found[0] == status, (path, found)
                if found[1].get("connection") == "close":
                    assert answers.ended(), path
                    break


def case_who_waits_to_be_asked_for_a_body_is_refused_without_it(world):
    headers = of_sandbox(world, token="wrong", **{"Content-Type": "application/octet-stream", "Content-Length": str(LONG), "Expect": "100-continue"})
    with open_socket(world) as connection:
        connection.sendall(head(world, "POST", "/files?path=/tmp/x", headers))
        answers = Answers(connection)
        status, said, _ = answers.next()
        assert (status, said.get("connection")) == (401, "close"), (status, said)
        assert answers.ended()
