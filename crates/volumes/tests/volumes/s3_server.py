"""A real S3 server on loopback, one request at a time, so that its conditional puts are atomic; with faults on demand.

python3 s3_server.py: prints its port. Faults are asked for by PUT /_faults/KIND/COUNT; the next COUNT requests meet them.
"""

import socket
import struct
import time

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

faults = {"kind": None, "left": 0, "met": 0}


class Application:
    def __init__(self):
        self.moto = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environment, start):
        path = environment["PATH_INFO"]
        if path.startswith("/_faults/"):
            _, _, kind, count = path.split("/")
            faults.update(kind=kind, left=int(count), met=0)
            start("200 OK", [("Content-Length", "0")])
            return [b""]
        if faults["left"] > 0 and (faults["kind"] != "full" or environment["REQUEST_METHOD"] == "PUT"):
            faults["left"] -= 1
            return self.fault(environment, start)
        return self.moto(environment, start)

    def fault(self, environment, start):
        kind = faults["kind"]
        if kind == "slow":
            time.sleep(2)
            return self.moto(environment, start)
        if kind == "lost":
            # The request is carried out; the answer never arrives.
            list(self.moto(environment, lambda *_: lambda _: None))
        if kind in ("reset", "lost"):
            sock = environment["werkzeug.socket"]
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
            raise ConnectionError("reset on demand")
        conditional = environment.get("HTTP_IF_MATCH") or environment.get("HTTP_IF_NONE_MATCH")
        if kind == "conditions" and not conditional:
            return self.moto(environment, start)
        status, code = {
            "conditions": ("400 Bad Request", "InvalidRequest"),
            "503": ("503 Service Unavailable", "SlowDown"),
            "full": ("507 Insufficient Storage", "XMinioStorageFull"),
            "denied": ("403 Forbidden", "AccessDenied"),
        }[kind]
        body = f"<Error><Code>{code}</Code><Message>on demand</Message></Error>".encode()
        start(status, [("Content-Length", str(len(body))), ("Content-Type", "application/xml")])
        return [body]


class Quiet(WSGIRequestHandler):
    def log(self, *_):
        pass


server = make_server("127.0.0.1", 0, Application(), threaded=False, request_handler=Quiet)
print(server.server_port, flush=True)
server.serve_forever()
