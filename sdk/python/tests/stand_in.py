"""An executable that behaves as `paddock serve` does on its socket, for the tests of who starts it and how often.

It notes each start, and is slow to listen, so that a race would show.
"""

from __future__ import annotations

import os
import socket
import sys
import time


def main() -> None:
    notes = os.environ["STAND_IN_NOTES"]
    with open(notes, "a") as file:
        file.write(f"{os.getpid()} {os.getsid(0)} {' '.join(sys.argv[1:])} {os.environ.get('PADDOCK_TOKEN')}\n")
    if os.environ.get("STAND_IN_FAILS"):
        sys.exit("error: no backend of this machine is usable")
    path = sys.argv[sys.argv.index("--socket") + 1]
    time.sleep(0.2)
    if os.path.exists(path):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(100)
    begin = time.monotonic()
    listener.settimeout(20)
    while True:
        try:
            connection, _ = listener.accept()
        except socket.timeout:
            return
        with connection:
            request = connection.recv(65536).decode()
            ready = time.monotonic() - begin > 0.2
            body = '{"code":"sandbox_not_found","message":"none","request_id":"r"}'
            status = "404 Not Found"
            if request.startswith("GET /healthz"):
                body, status = "{}", "200 OK" if ready else "503 Service Unavailable"
            elif request.startswith("GET /stop"):
                return
            head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n"
            try:
                connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            except OSError:
                pass


if __name__ == "__main__":
    main()
