"""The network that the documents speak of: the hosts of their examples, in network namespaces of the tests' own.

Nothing leaves this host. The documents run in one namespace, and every name of the table below is a server in a second one, reached by a pair of
virtual devices. The addresses look public, because a name never leads to a private one.
"""

import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
INSIDE, OUTSIDE = "93.184.216.1", "93.184.216.34"
NAMES = [
    "example.com", "example.org", "packages.example.org", "files.example.org", "api.example.com", "models.example.org", "web.example", "other.example",
    "api.anthropic.com", "api.openai.com", "registry.npmjs.org",
]


def run(*command, **options):
    return subprocess.run(command, check=True, **options)


class World:
    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="paddock-docs-world-")
        self.certificates()
        run("ip", "link", "set", "lo", "up")
        server = [sys.executable, os.path.join(HERE, "outside.py"), self.directory, OUTSIDE]
        self.server = subprocess.Popen(["unshare", "--net", *server], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.line()
        run("ip", "link", "add", "docs0", "type", "veth", "peer", "name", "docs1")
        run("ip", "link", "set", "docs1", "netns", str(self.server.pid))
        run("ip", "addr", "add", f"{INSIDE}/24", "dev", "docs0")
        run("ip", "link", "set", "docs0", "up")
        self.server.stdin.write(b"connected\n")
        self.server.stdin.flush()
        self.line()

    def line(self):
        if not self.server.stdout.readline():
            raise OSError("the servers of the examples do not start")

    def certificates(self):
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        quiet = {"cwd": self.directory, "stderr": subprocess.DEVNULL}
        run("openssl", "req", "-x509", *key, "-days", "2", "-subj", "/CN=docs", "-keyout", "authority.key", "-out", "authority.pem", **quiet)
        run("openssl", "req", *key, "-subj", "/CN=example.com", "-keyout", "server.key", "-out", "request.pem", **quiet)
        with open(os.path.join(self.directory, "names"), "w") as file:
            file.write("subjectAltName=" + ",".join(f"DNS:{name}" for name in NAMES))
        signing = ["-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]
        run("openssl", "x509", "-req", "-in", "request.pem", *signing, "-out", "server.pem", **quiet)

    def register(self, state):
        """Tells a state directory the names, and the authority that signs for them."""
        net = os.path.join(state, "net")
        os.makedirs(net, mode=0o700)
        with open(os.path.join(net, "hosts"), "w") as file:
            file.write(f"{OUTSIDE} {' '.join(NAMES)}\n")
        with open(os.path.join(self.directory, "authority.pem")) as authority, open(os.path.join(net, "roots.pem"), "w") as roots:
            roots.write(authority.read())

    def close(self):
        self.server.kill()
        self.server.wait()
        shutil.rmtree(self.directory)
