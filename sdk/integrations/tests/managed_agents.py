"""The queue of a self-hosted environment of Claude Managed Agents, with one session; its program is the tests' own.

managed_agents.py SCRIPT LOG CERTIFICATE KEY

SCRIPT is a JSON array of commands, or of whole inputs, for the session's tool `bash`, one after the other; then the
turn ends. LOG gets one line of JSON for each request. It prints its port.
"""

from __future__ import annotations

import http.server
import json
import ssl
import sys
import threading
import urllib.parse
from pathlib import Path
from typing import Any

NOW = "2026-01-01T00:00:00Z"
ENVIRONMENT, SESSION, WORK = "env_1", "sesn_1", "work_1"
commands = json.loads(Path(sys.argv[1]).read_text())
log = Path(sys.argv[2]).open("a", buffering=1)  # noqa: SIM115
changed = threading.Condition()
#: Of the session, in order.
events: list[dict[str, Any]] = []
claimed = threading.Event()


def next_event() -> None:
    """The next call of the tool, or the end of the turn."""
    asked = sum(event["type"] == "agent.tool_use" for event in events)
    event: dict[str, Any] = {"id": f"sevt_{len(events)}", "processed_at": NOW}
    if asked < len(commands):
        wanted = commands[asked] if isinstance(commands[asked], dict) else {"command": commands[asked]}
        call = {"name": "bash", "input": wanted, "evaluated_permission": "allow"}
        events.append({**event, "type": "agent.tool_use", **call})
    else:
        events.append({**event, "type": "session.status_idle", "stop_reason": {"type": "end_turn"}})


def work(state: str) -> dict[str, Any]:
    item = {"id": WORK, "type": "work", "environment_id": ENVIRONMENT, "created_at": NOW, "metadata": {}}
    return {**item, "state": state, "data": {"type": "session", "id": SESSION}}


class Queue(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_arguments: Any) -> None:
        pass

    def answer(self, body: Any, status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def note(self, body: Any) -> str:
        path = urllib.parse.urlsplit(self.path).path
        headers = {name.lower(): value for name, value in self.headers.items()}
        log.write(json.dumps({"path": path, "headers": headers, "body": body}) + "\n")
        return path

    def do_GET(self) -> None:
        path = self.note(None)
        if path.endswith("/work/poll"):
            first = not claimed.is_set()
            claimed.set()
            self.answer(work("queued") if first else None)
        elif path.endswith("/events/stream"):
            self.stream()
        elif path.endswith("/events"):
            self.answer({"data": events, "next_page": None, "prev_page": None})
        elif path == f"/v1/sessions/{SESSION}":
            agent = {"id": "agent_1", "type": "agent", "version": 1, "name": "worker", "skills": [], "tools": []}
            self.answer({"id": SESSION, "type": "session", "status": "running", "resources": [], "agent": agent})
        else:
            self.answer({"type": "error", "error": {"type": "not_found_error", "message": path}}, 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        path = self.note(body)
        if path.endswith("/heartbeat"):
            self.answer(
                {
                    "type": "work_heartbeat",
                    "state": "active",
                    "lease_extended": True,
                    "last_heartbeat": NOW,
                    "ttl_seconds": 30,
                }
            )
        elif path.endswith("/events"):
            with changed:
                for event in body["events"]:
                    events.append({"id": f"sevt_{len(events)}", "processed_at": NOW, **event})
                next_event()
                changed.notify_all()
            self.answer({"data": body["events"]})
        else:
            self.answer(work("stopped" if path.endswith("/stop") else "active"))

    def stream(self) -> None:
        """What is new from now on. The calls of before are in the list."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        told = len(events)
        if not events:
            next_event()
        try:
            while True:
                with changed:
                    changed.wait_for(lambda told=told: len(events) > told, timeout=5)
                    new, told = events[told:], len(events)
                for event in new:
                    self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
                self.wfile.write(b": still here\n\n")
                self.wfile.flush()
        except OSError:
            return


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Queue)
server.daemon_threads = True
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[3], sys.argv[4])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
