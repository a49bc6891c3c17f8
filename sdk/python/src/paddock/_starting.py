"""Starts `paddock serve` where no server is configured: one for all processes of the user, ended when idle."""

from __future__ import annotations

import fcntl
import http.client
import os
import shutil
import socket
import stat
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Dict, List, Optional, Tuple

from ._errors import ServerNotStarted
from ._location import state_directory

IDLE_SECONDS = 300
#: A first start may have to make the storage, and a server before it may have to end.
PATIENCE_SECONDS = 60.0
#: A server that serves and is not found at the socket within this time listens elsewhere.
ELSEWHERE_SECONDS = 5.0
_POLL_SECONDS = 0.01


def ensure_running(path: str) -> None:
    """Returns when a server answers at the socket `path`; starts one under a file lock if none does."""
    if _accepts(path) and not _not_ready(path):
        return
    _make_private_directory(Path(path).parent)
    with open(f"{path}.lock", "a") as lock:
        os.chmod(lock.fileno(), 0o600)
        if not _take(lock, path):
            return
        _wait_or_start(path)


def find_binary() -> str:
    named = os.environ.get("PADDOCK_BIN")
    found = shutil.which(named) if named else shutil.which("paddock")
    if found:
        return os.path.abspath(found)
    if named:
        raise ServerNotStarted(
            f"PADDOCK_BIN is {named!r}, which is no executable file",
            hint="set it to the path of the paddock executable, or unset it to use the one on PATH",
        )
    raise ServerNotStarted(
        "no Paddock server is configured, and there is no paddock executable on PATH to start one",
        hint="build it with `make build` in Paddock's repository and put it on PATH or name it in PADDOCK_BIN; "
        "or set PADDOCK_URL (and PADDOCK_TOKEN) to a server that runs elsewhere",
    )


def _wait_or_start(path: str) -> None:
    """A server that has the state directory already is waited for: it starts just now, or a person started it."""
    state = state_directory(os.environ)
    began = time.monotonic()
    serving_since: Optional[float] = None
    started: Optional[_Started] = None
    while True:
        reason = _not_ready(path)
        holder = server_of(state)
        if not reason:
            # Another server was quicker: one that waits for its turn would serve when nobody expects it.
            if started and holder and holder.process != started.process.pid:
                started.process.terminate()
            return
        if started and started.process.poll() is not None:
            if holder is None and _not_ready(path):
                raise started.failure()
            # Another one was quicker.
            started = None
        # One that ends needs a successor, which waits for it.
        if holder is None or holder.phase == "ending":
            serving_since = None
            started = started or _start(path, state)
        elif holder.phase == "starting":
            serving_since = None
        else:
            serving_since = serving_since or time.monotonic()
            if time.monotonic() - serving_since > ELSEWHERE_SECONDS:
                raise _elsewhere(path, holder)
        if time.monotonic() - began > PATIENCE_SECONDS:
            raise ServerNotStarted(
                f"the server at {path} is not ready after {PATIENCE_SECONDS:.0f} s: {reason}",
                hint=f"its output is in {state / 'serve.log'}",
            )
        time.sleep(_POLL_SECONDS)


@dataclass(frozen=True)
class Holder:
    """The server that has a state directory, as far as its note says."""

    process: Optional[int] = None
    #: `starting`, `serving`, `ending`; empty in the note of an older server.
    phase: str = ""
    addresses: Tuple[str, ...] = ()


def server_of(state: Path) -> Optional[Holder]:
    """None: no server has this state directory. The lock counts, the note only helps."""
    try:
        with open(state / "server.lock", "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None
            except BlockingIOError:
                process = file.read(32).decode("utf-8", "replace").strip()
    except OSError:
        return None
    try:
        with open(state / "server.note", "rb") as file:
            writer, phase, *addresses = [*file.read(16384).decode("utf-8", "replace").splitlines(), "", ""]
    except OSError:
        writer, phase, addresses = "", "", []
    if writer != process or phase not in ("starting", "serving", "ending"):
        # A note that an earlier server left.
        phase, addresses = "", []
    return Holder(
        int(process) if process.isdigit() else None, phase, tuple(address for address in addresses if address)
    )


def _elsewhere(path: str, holder: Holder) -> ServerNotStarted:
    process = f" (process {holder.process})" if holder.process else ""
    return ServerNotStarted(
        f"the server of this state directory{process} does not listen on {path}",
        hint=f"set PADDOCK_URL={holder.addresses[0]}" if holder.addresses else "name its address with PADDOCK_URL",
    )


class _Started:
    """A server that this process started, and where its output begins."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path, begin: int) -> None:
        self.process, self.log, self.begin = process, log, begin

    def failure(self) -> ServerNotStarted:
        said = self._said()
        return ServerNotStarted(
            f"`paddock serve` ended with exit code {self.process.poll()} while it started{f': {said}' if said else ''}",
            hint=f"its output is in {self.log}; `paddock doctor` says what this machine lacks",
        )

    def _said(self) -> str:
        try:
            with open(self.log, "rb") as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(self.begin, end - 2000))
                return file.read().decode("utf-8", "replace").strip()
        except OSError as error:
            return str(error)


def _start(path: str, state: Path) -> _Started:
    binary = find_binary()
    _make_private_directory(state)
    log_path = state / "serve.log"
    with open(log_path, "ab") as log:
        begin = log.tell()
        process = subprocess.Popen(
            [binary, "serve", "--socket", path, "--idle-exit", str(IDLE_SECONDS)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=_server_environment(),
            # Not ended by a Ctrl-C or a hang-up that was meant for us.
            start_new_session=True,
        )
    # It may end long before us: somebody has to reap it.
    threading.Thread(target=process.wait, name="paddock-serve-reaper", daemon=True).start()
    return _Started(process, log_path, begin)


def _server_environment() -> Dict[str, str]:
    # The server serves all of the user's processes: an address or token of this one is not its own.
    ours = ("PADDOCK_URL", "PADDOCK_TOKEN")
    return {name: value for name, value in os.environ.items() if name not in ours}


def _not_ready(path: str) -> str:
    """Empty when the server answers, else what is in the way. One that starts answers when it has its sandboxes."""
    connection = _UnixConnection(path)
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        text = answer.read(500).decode("utf-8", "replace").strip()
        return "" if answer.status == 200 else f"{answer.status} {text}"
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    finally:
        connection.close()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE_SECONDS)
        self.sock.connect(self._path)


def _accepts(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(10)
        try:
            probe.connect(path)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return False
        except PermissionError as error:
            raise ServerNotStarted(
                f"the server's socket {path} belongs to somebody else: {error}",
                hint="set PADDOCK_URL and PADDOCK_TOKEN to use another user's server",
            ) from error
        except (BlockingIOError, socket.timeout):
            # Its queue is full: it is there, and busy.
            return True
    return True


def _take(lock: IO[str], path: str) -> bool:
    """False without the lock, when its holder has the server running meanwhile."""
    deadline = time.monotonic() + 2 * PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if _accepts(path) and not _not_ready(path):
                return False
            if time.monotonic() > deadline:
                raise ServerNotStarted(
                    f"another process holds {path}.lock and no server became ready",
                    hint="end the process that holds it (`fuser` names it) and try again",
                ) from None
            time.sleep(_POLL_SECONDS)


def _make_private_directory(directory: Path) -> None:
    missing: List[Path] = []
    while not directory.exists():
        missing.append(directory)
        directory = directory.parent
    try:
        for path in reversed(missing):
            # 0700 for each that is made: mkdir(parents=True) would use the umask for all but the last.
            path.mkdir(mode=0o700, exist_ok=True)
        directory = missing[0] if missing else directory
        found = directory.stat()
    except OSError as error:
        raise ServerNotStarted(
            f"cannot make the directory {error.filename}: {error.strerror}",
            hint="set PADDOCK_STATE_DIR or XDG_RUNTIME_DIR to a directory of yours, or PADDOCK_URL to a server",
        ) from error
    if found.st_uid not in (os.geteuid(), 0) or stat.S_IMODE(found.st_mode) & 0o022:
        raise ServerNotStarted(
            f"{directory} is not safe for a socket: others may write to it (owner {found.st_uid}, "
            f"mode {stat.S_IMODE(found.st_mode):o})",
            hint=f"chmod go-w {directory}, or set PADDOCK_STATE_DIR or XDG_RUNTIME_DIR to a directory of yours",
        )
