"""A client as people write them, inside a fence or outside: one large answer, many connections, many requests.

Arguments: what to do, the way (direct or proxy), host, port, count. Prints one JSON list.
"""

import json
import socket
import sys
import time

what, way, host, port, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])


def opened(path):
    if way == "proxy":
        address, target = ("127.0.0.1", 3128), f"http://{host}:{port}{path}"
    else:
        address, target = (host, port), path
    stream = socket.create_connection(address, timeout=60)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
    return stream


def drained(stream):
    space, received = bytearray(1 << 20), 0
    while True:
        got = stream.recv_into(space)
        if got == 0:
            stream.close()
            return received
        received += got


def flow():
    began = time.perf_counter()
    received = drained(opened(f"/{count}"))
    if received < count:
        sys.exit(f"{received} bytes came of {count}")
    return [received / (1 << 20) / (time.perf_counter() - began)]


def connections():
    began = time.perf_counter()
    for _ in range(count):
        drained(opened("/2"))
    return [count / (time.perf_counter() - began)]


def requests():
    samples = []
    for _ in range(count):
        began = time.perf_counter()
        drained(opened("/2"))
        samples.append((time.perf_counter() - began) * 1e6)
    return samples


print(json.dumps({"flow": flow, "connections": connections, "requests": requests}[what]()))
