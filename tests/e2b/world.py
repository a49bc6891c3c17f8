"""The server that is tried, the tokens for it, and sandboxes that several cases share."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request

from registry import Registry

START_PATIENCE = 30.0


class Server:
    # The cases are about the dialect, so that sandboxes show the host's own /usr and nothing is built for them.
    first_use = ("--build-on-first-use", "none")

    def __init__(self, paddock, directory, options=()):
        self.paddock, self.directory, self.options = paddock, directory, options
        self.log = os.path.join(directory, "server.log")
        self.socket = os.path.join(directory, "api.sock")
        self.environment = dict(os.environ, PADDOCK_STATE_DIR=os.path.join(directory, "state"))
        self.environment["PADDOCK_URL"] = f"unix:{self.socket}"
        self.environment.pop("PADDOCK_TOKEN", None)
        self.process = None
        self.registry = Registry()

    def start(self):
        command = [self.paddock, "serve", "--socket", self.socket, "--listen", "127.0.0.1:0",
                   *self.first_use, *self.options]
        if self.registry.image:
            command += ["--registries", self.registry.address]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command,
                env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + START_PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(subprocess.CalledProcessError):
                self.owner("whoami", "/v1/whoami")
                return
            time.sleep(0.05)
        raise SystemExit(f"the server was not ready within {START_PATIENCE} s:\n{self.last_words()}")

    def owner(self, _name, target):
        """A question of the owner's, by the socket."""
        command = ["curl", "-sSf", "--unix-socket", self.socket, f"http://localhost{target}"]
        answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
        return json.loads(answer.stdout)

    def run(self, *arguments):
        command = [self.paddock, *arguments]
        return subprocess.run(command, env=self.environment, stdout=subprocess.PIPE, text=True, check=True).stdout

    def variables(self, *options):
        """What `paddock token create --e2b` says."""
        lines = self.run("token", "create", "--e2b", *options).split()
        return dict(word.split("=", 1) for word in lines if "=" in word)

    def stop(self):
        self.registry.close()
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode

    def last_words(self):
        with open(self.log, errors="replace") as file:
            return file.read()[-4000:]


class World:
    """What cases are given."""

    def __init__(self, server):
        self.server = server
        self.variables = server.variables("--tenant", "e2b")
        self.url = self.variables["E2B_API_URL"]
        self.key = self.variables["E2B_API_KEY"]
        os.environ.update(self.variables)
        self.other_key = server.variables("--tenant", "other")["E2B_API_KEY"]
        self.reading_key = server.variables("--tenant", "e2b", "--role", "read-only")["E2B_API_KEY"]
        self.lock = threading.Lock()
        self.shared, self.shared_async, self.shared_interpreter, self.shared_async_interpreter = None, None, None, None
        self.image = server.registry.image

    @property
    def sandbox(self):
        """One for cases that leave it as it is."""
        from e2b import Sandbox

        with self.lock:
            if self.shared is None:
                self.shared = Sandbox.create(timeout=600)
            return self.shared

    @property
    def interpreter(self):
        """One whose contexts several cases use, each with names of its own."""
        from e2b_code_interpreter import Sandbox

        with self.lock:
            if self.shared_interpreter is None:
                self.shared_interpreter = Sandbox.create(timeout=600)
            return self.shared_interpreter

    async def async_sandbox(self):
        from e2b import AsyncSandbox

        if self.shared_async is None:
            self.shared_async = await AsyncSandbox.create(timeout=600)
        return self.shared_async

    async def async_interpreter(self):
        from e2b_code_interpreter import AsyncSandbox

        if self.shared_async_interpreter is None:
            self.shared_async_interpreter = await AsyncSandbox.create(timeout=600)
        return self.shared_async_interpreter

    async def close(self):
        for one in (self.shared, self.shared_interpreter):
            if one is not None:
                one.kill()
        for one in (self.shared_async, self.shared_async_interpreter):
            if one is not None:
                await one.kill()


@contextlib.contextmanager
def another_server(world, *options):
    """A server of its own with these options, and the variables of a client of it. Its disks, 2 GiB for each server, are kept for a
    look where the case fails."""
    directory = tempfile.mkdtemp(dir=world.server.directory)
    server = Server(world.server.paddock, directory, options)
    passed = False
    try:
        server.start()
        yield server, server.variables("--tenant", "e2b")
        passed = True
    finally:
        try:
            end_all(server)
        finally:
            server.stop()
        # A mount or a process that is left shows at the end of all cases, by the name of this directory.
        if passed and not leftovers(directory):
            shutil.rmtree(directory, ignore_errors=True)


def leftovers(directory):
    """Mounts and processes that name the state directory."""
    with open("/proc/self/mountinfo") as table:
        found = [f"mount {line.split()[4]}" for line in table if directory in line]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if directory.encode() in file.read():
                    found.append(f"process {pid}")
    return found


def end_all(server):
    """Sandboxes outlive their server; these are not to."""
    if server.process is None or server.process.poll() is not None:
        return
    token = {}
    for tenant in ("e2b", "other"):
        token[tenant] = server.run("token", "create", "--tenant", tenant, "--role", "admin").strip()
    address = server.owner("server", "/v1/server")["addresses"][0]

    def call(method, target, secret):
        request = urllib.request.Request(address + target, method=method)
        request.add_header("Authorization", f"Bearer {secret}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    for secret in token.values():
        for box in call("GET", "/v1/sandboxes?limit=1000", secret)["sandboxes"]:
            call("DELETE", f"/v1/sandboxes/{box['id']}", secret)
        for snapshot in call("GET", "/v1/snapshots?limit=1000", secret)["snapshots"]:
            call("DELETE", f"/v1/snapshots/{snapshot['id']}", secret)
