"""The hosts that sandboxes reach: a web server and a git server, in a network namespace of their own.

    outside.py ADDRESS DEVICE DIRECTORY CERTIFICATES

The first line on standard output says that the namespace is there, the second that the servers answer. Below /git lie the repositories of
DIRECTORY, by git's own http-backend; those whose name begins with `private` want the user and the password below. Over TLS the web server
answers with the headers of the request.
"""
import base64
import http.server
import json
import os
import ssl
import subprocess
import sys
import threading

ADDRESS, DEVICE, DIRECTORY, CERTIFICATES = sys.argv[1:]
USER, PASSWORD = "ann", "pass-word"
BACKEND = ["git", "http-backend"]


class Host(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        if self.path.startswith("/git/"):
            return self.git()
        if self.path == "/slow":
            # A line at once, and then nothing until somebody cuts the connection.
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"begun\n")
            self.wfile.flush()
            return self.rfile.read(1)
        self.answer(200, {}, f"{self.headers.get('Host')}\n".encode())

    def do_POST(self):
        self.git()

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def git(self):
        path, _, query = self.path.partition("?")
        wanted = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if path.startswith("/git/private") and self.headers.get("Authorization") != wanted:
            return self.answer(401, {"WWW-Authenticate": 'Basic realm="git"'}, b"")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        environment = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": DIRECTORY, "GIT_HTTP_EXPORT_ALL": "1", "REMOTE_USER": USER,
            "PATH_INFO": path[len("/git"):], "QUERY_STRING": query, "REQUEST_METHOD": self.command, "CONTENT_LENGTH": str(len(body)),
            "CONTENT_TYPE": self.headers.get("Content-Type", ""), "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        said = subprocess.run(BACKEND, input=body, stdout=subprocess.PIPE, env=environment, check=True).stdout
        head, _, body = said.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        status = int(headers.pop("Status", "200").split()[0])
        return self.answer(status, headers, body)


class TlsHost(Host):
    def do_GET(self):
        self.answer(200, {}, json.dumps([[name.lower(), value] for name, value in self.headers.items()]).encode())


def serve_tls():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(CERTIFICATES, "server.pem"), os.path.join(CERTIFICATES, "server.key"))
    server = http.server.ThreadingHTTPServer((ADDRESS, 443), TlsHost)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main():
    print("namespace", flush=True)
    sys.stdin.readline()
    for command in (["addr", "add", f"{ADDRESS}/24", "dev", DEVICE], ["link", "set", DEVICE, "up"], ["link", "set", "lo", "up"]):
        subprocess.run(["ip", *command], check=True)
    serve_tls()
    server = http.server.ThreadingHTTPServer((ADDRESS, 80), Host)
    print("listening", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
