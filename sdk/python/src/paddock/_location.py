"""Where the server is: PADDOCK_URL, else the socket of this user."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, NamedTuple, Optional
from urllib.parse import urlsplit

from ._errors import InvalidRequest, ServerNotStarted
from ._streams import Address

# What the kernel takes in sockaddr_un, without the closing zero.
_LONGEST_SOCKET_PATH = 107


@dataclass(frozen=True)
class Location:
    """Either `socket` or an address."""

    #: What requests are relative to; for a socket only the Host header comes of it.
    base_url: str
    socket: Optional[str] = None
    #: Nobody configured a server, so one may be started.
    may_start: bool = False

    @property
    def shown(self) -> str:
        return f"unix:{self.socket}" if self.socket else self.base_url

    def plain(self) -> Optional[Plain]:
        """How to reach it without encryption; None where only https will do, or the URL has a password in it."""
        parts = urlsplit(self.base_url)
        if parts.scheme != "http" or "@" in parts.netloc or not parts.hostname:
            return None
        address = Address(path=self.socket) if self.socket else Address(host=parts.hostname, port=parts.port or 80)
        return Plain(address, parts.netloc.encode("idna").decode("ascii"), parts.path)


class Plain(NamedTuple):
    address: Address
    #: For the Host header, with the port if there is one.
    host: str
    #: What stands before every path.
    prefix: str


def locate(url: Optional[str] = None, environment: Optional[Mapping[str, str]] = None) -> Location:
    """`url` is http://HOST:PORT, https://HOST:PORT or unix:/PATH; None is PADDOCK_URL or the user's own socket."""
    environment = os.environ if environment is None else environment
    configured = url or environment.get("PADDOCK_URL")
    if not configured:
        return _on_socket(str(default_socket(environment)), may_start=True)
    if configured.startswith("unix:"):
        path = configured[len("unix:") :]
        if path.startswith("//"):
            path = path[2:]
        if not path.startswith("/"):
            raise InvalidRequest(
                f"the server's address {configured!r} has no absolute path",
                hint="write it as unix:/path/to/api.sock",
            )
        return _on_socket(path, may_start=False)
    if configured.startswith(("http://", "https://")):
        return Location(configured.rstrip("/"))
    raise InvalidRequest(
        f"the server's address {configured!r} begins with neither http://, https:// nor unix:",
        hint="set PADDOCK_URL to something like http://127.0.0.1:7777 or unix:/run/paddock/api.sock",
    )


def default_socket(environment: Mapping[str, str]) -> Path:
    """The socket of the server of this state directory, as the command finds it. No two state directories share one."""
    state = Path(os.path.realpath(state_directory(environment)))
    if state != _usual_state_directory(environment):
        return state / "run" / "api.sock"
    if os.geteuid() == 0:
        return Path("/run/paddock/api.sock")
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        return Path(runtime) / "paddock" / "api.sock"
    return state / "run" / "api.sock"


def _usual_state_directory(environment: Mapping[str, str]) -> Optional[Path]:
    """The one of this user where no variable names another."""
    if os.geteuid() == 0:
        return Path(os.path.realpath("/var/lib/paddock"))
    home = environment.get("HOME", "")
    return Path(os.path.realpath(os.path.join(home, ".local/state/paddock"))) if home.startswith("/") else None


def state_directory(environment: Mapping[str, str]) -> Path:
    """The same as the command's own."""
    chosen = environment.get("PADDOCK_STATE_DIR")
    if chosen:
        return Path(chosen)
    if os.geteuid() == 0:
        return Path("/var/lib/paddock")
    parent = environment.get("XDG_STATE_HOME")
    if parent:
        return Path(parent) / "paddock"
    home = environment.get("HOME")
    if not home:
        raise ServerNotStarted(
            "there is no place for Paddock's state: neither PADDOCK_STATE_DIR nor HOME is set",
            hint="set PADDOCK_STATE_DIR, or PADDOCK_URL to a server that runs elsewhere",
        )
    return Path(home) / ".local" / "state" / "paddock"


def _on_socket(path: str, *, may_start: bool) -> Location:
    if len(os.fsencode(path)) > _LONGEST_SOCKET_PATH:
        raise InvalidRequest(
            f"the socket's path {path!r} is longer than the {_LONGEST_SOCKET_PATH} bytes that the kernel takes",
            hint="set PADDOCK_URL to unix: and a shorter path",
        )
    return Location("http://localhost", socket=path, may_start=may_start)
