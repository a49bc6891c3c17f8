"""A network of the tests' own, for the cases of network/: their server and their sandboxes see a web and a git server, and nothing else.

The suite starts itself again in new namespaces. The addresses look public, because rules of E2B's open no others.
"""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = os.path.join(HERE, "network")
ENTERED = "PADDOCK_E2B_ENTERED"
NAMESPACES = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
INSIDE, OUTSIDE = "93.184.216.1", "93.184.216.34"
NAMES = ["web.example", "other.example", "git.example"]
REPOSITORIES = ["public.git", "private.git", "private-js.git"]


def is_entered():
    return ENTERED in os.environ


def missing():
    """Why the host cannot make such a network."""
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    lacking = [program for program in ("unshare", "ip", "git", "openssl") if not shutil.which(program)]
    return f"{' and '.join(lacking)} not found" if lacking else None


def enter(arguments):
    """Runs the cases of network/; the exit code."""
    return subprocess.run([*NAMESPACES, sys.executable, *arguments], env={**os.environ, ENTERED: "yes"}, check=False).returncode


def run(*command, **options):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)


def certificates(directory):
    """An authority, and the certificate of all names: `ca.pem`, `server.pem` and `server.key`."""
    def place(name):
        return os.path.join(directory, name)

    def openssl(*words):
        # It tells of its progress on standard error.
        run("openssl", *words, stderr=subprocess.DEVNULL)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-batch"]
    openssl("req", "-x509", *key, "-keyout", place("ca.key"), "-out", place("ca.pem"), "-days", "2", "-subj", "/CN=authority")
    openssl("req", *key, "-keyout", place("server.key"), "-out", place("server.csr"), "-subj", "/CN=hosts")
    with open(place("names"), "w") as file:
        file.write("subjectAltName=" + ",".join(f"DNS:{name}" for name in NAMES))
    openssl("x509", "-req", "-in", place("server.csr"), "-CA", place("ca.pem"), "-CAkey", place("ca.key"), "-CAcreateserial",
            "-days", "2", "-extfile", place("names"), "-out", place("server.pem"))


class Outside:
    """The hosts outside, below a directory that their owner removes."""

    def __init__(self, directory):
        repositories = os.path.join(directory, "repositories")
        for name in REPOSITORIES:
            place = os.path.join(repositories, name)
            run("git", "init", "--quiet", "--bare", "--initial-branch=main", place)
            run("git", "-C", place, "config", "http.receivepack", "true")
        certificates(directory)
        run("ip", "link", "set", "lo", "up")
        server = [sys.executable, os.path.join(CASES, "outside.py"), OUTSIDE, "e2b1", repositories, directory]
        self.process = subprocess.Popen(["unshare", "--net", *server], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.line()
        run("ip", "link", "add", "e2b0", "type", "veth", "peer", "name", "e2b1")
        run("ip", "link", "set", "e2b1", "netns", str(self.process.pid))
        run("ip", "addr", "add", f"{INSIDE}/24", "dev", "e2b0")
        run("ip", "link", "set", "e2b0", "up")
        self.process.stdin.write(b"connected\n")
        self.process.stdin.flush()
        self.line()
        net = os.path.join(directory, "state", "net")
        os.makedirs(net, mode=0o700)
        with open(os.path.join(net, "hosts"), "w") as file:
            file.write(f"{OUTSIDE} {' '.join(NAMES)}\n")
        # The gate believes the hosts' authority besides those of the host.
        shutil.copyfile(os.path.join(directory, "ca.pem"), os.path.join(net, "roots.pem"))

    def line(self):
        if not self.process.stdout.readline():
            raise OSError("the hosts outside do not start")

    def close(self):
        self.process.kill()
        self.process.wait()
