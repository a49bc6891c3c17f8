"""The servers of the examples' hosts: HTTP on port 80, HTTPS on port 443. Runs in a network namespace of its own.

    outside.py DIRECTORY ADDRESS

DIRECTORY has the certificate. The first line on standard output says that the namespace is there, the second that the servers answer.
"""

import hashlib
import http.server
import io
import json
import os
import ssl
import subprocess
import sys
import tarfile
import threading
import zipfile

DIRECTORY, ADDRESS = sys.argv[1:]
AGENT = "claude-code-1.0.0.tgz"
WHEEL = "requests-2.32.0-py3-none-any.whl"


def wheel():
    """A package called requests, for the example that installs it."""
    path = os.path.join(DIRECTORY, WHEEL)
    with zipfile.ZipFile(path, "w") as archive:
        about = "requests-2.32.0.dist-info"
        archive.writestr("requests/__init__.py", "")
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: requests\nVersion: 2.32.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: docs\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "requests/__init__.py,,\n")
    with open(path, "rb") as file:
        return file.read()


def agent():
    """Claude Code of the registry's own: the agent of the examples."""
    path = os.path.join(DIRECTORY, AGENT)
    about = {"name": "@anthropic-ai/claude-code", "version": "1.0.0", "bin": {"claude": "claude"}}
    with tarfile.open(path, "w:gz") as archive:
        described = tarfile.TarInfo("package/package.json")
        text = json.dumps(about).encode()
        described.size = len(text)
        archive.addfile(described, io.BytesIO(text))
        archive.add(os.path.join(os.path.dirname(os.path.abspath(__file__)), "files", "claude"), "package/claude")
    with open(path, "rb") as file:
        packed = file.read()
    dist = {"tarball": f"https://registry.npmjs.org/{AGENT}", "shasum": hashlib.sha1(packed).hexdigest()}
    page = {"name": about["name"], "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {**about, "dist": dist}}}
    return packed, json.dumps(page).encode()


PACKED, PAGE = agent()


class Host(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    pages = {
        "/": ("text/html", b"<h1>Example</h1>\n"),
        "/simple/requests/": ("text/html", f'<a href="/{WHEEL}">{WHEEL}</a>'.encode()),
        f"/{WHEEL}": ("application/zip", wheel()),
        "/@anthropic-ai%2fclaude-code": ("application/json", PAGE),
        f"/{AGENT}": ("application/octet-stream", PACKED),
        "/v1/messages": ("application/json", b"{}"),
    }

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        kind, body = self.pages.get(self.path, ("text/plain", b""))
        if self.path == "/v1/models":
            authorized = self.headers.get("Authorization") == "Bearer the-real-key-of-the-example"
            kind, body = "application/json", b'{"models":["example-1"]}\n' if authorized else b'{"error":"no key"}\n'
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()


def main():
    print("namespace", flush=True)
    sys.stdin.readline()
    for command in (["addr", "add", f"{ADDRESS}/24", "dev", "docs1"], ["link", "set", "docs1", "up"], ["link", "set", "lo", "up"]):
        subprocess.run(["ip", *command], check=True)
    clear = http.server.ThreadingHTTPServer((ADDRESS, 80), Host)
    secure = http.server.ThreadingHTTPServer((ADDRESS, 443), Host)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(DIRECTORY, "server.pem"), os.path.join(DIRECTORY, "server.key"))
    secure.socket = context.wrap_socket(secure.socket, server_side=True)
    threading.Thread(target=clear.serve_forever, daemon=True).start()
    print("listening", flush=True)
    secure.serve_forever()


if __name__ == "__main__":
    main()
