"""One shell that runs the commands of a document one after another, as a person would type them."""

import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

PATIENCE_SECONDS = 300


class Shell:
    def __init__(self, directory, environment):
        self.scratch = tempfile.mkdtemp(prefix="paddock-docs-shell-")
        read, write = os.pipe()
        self.done = os.fdopen(read, "rb", buffering=0)
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], cwd=directory, env=environment, stdin=subprocess.PIPE, pass_fds=[write],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )
        os.close(write)
        self.signal, self.count = write, 0

    def run(self, command, patience=PATIENCE_SECONDS):
        """Its exit code and the lines that it printed, on both streams."""
        self.count += 1
        script, output = (os.path.join(self.scratch, f"{self.count}.{kind}") for kind in ("sh", "out"))
        with open(script, "w", encoding="utf-8") as file:
            file.write(command + "\n")
        line = f". {script} > {output} 2>&1 < /dev/null; echo $? >&{self.signal}\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()
        code = self.wait(patience)
        with open(output, encoding="utf-8", errors="replace") as file:
            return code, file.read().split("\n")

    def wait(self, patience):
        said, end = b"", time.monotonic() + patience
        while not said.endswith(b"\n"):
            ready, _, _ = select.select([self.done], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError(f"the command has not ended after {patience} s")
            more = self.done.read(64)
            if not more:
                raise EOFError("the shell has ended")
            said += more
        return int(said)

    def close(self):
        self.process.stdin.close()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        shutil.rmtree(self.scratch, ignore_errors=True)
