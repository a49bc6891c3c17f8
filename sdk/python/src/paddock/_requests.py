"""Request bodies made of what callers hand in. Nothing is sent for what was not said: the server's defaults hold."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._errors import InvalidRequest
from ._models import Json

if TYPE_CHECKING:
    from ._models_more import Limits, TerminalSize

Command = Union[str, Sequence[str]]
Terminal = Union[bool, "TerminalSize", Tuple[int, int]]
HostPath = Union[str, "os.PathLike[str]"]
VolumeMounts = Union[Mapping[str, str], Sequence[Mapping[str, Any]]]

#: Bytes that a download may unpack unless the caller says more: a sparse file of a few bytes can claim terabytes.
DEFAULT_MAXIMUM = 16 << 30


def given(**fields: Any) -> Json:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def idle(seconds: Optional[float], action: str) -> Optional[Json]:
    return None if seconds is None else {"seconds": seconds, "action": action}


#: Limits that count bytes: their short name, and the name that the server knows.
_SIZES = {"memory": "memory_bytes", "disk": "disk_bytes", "output": "output_bytes"}
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def limits(value: Union[Limits, Mapping[str, Any], None]) -> Optional[Json]:
    """Sizes may be text with a unit: `{"memory": "256MiB"}` is `{"memory_bytes": 268435456}`."""
    if value is None:
        return None
    fields: Mapping[str, Any] = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value  # type: ignore[assignment]
    found: Json = {}
    for name, amount in given(**fields).items():
        whole = _SIZES.get(name, name)
        if whole in found:
            raise InvalidRequest(f"limits: {whole!r} is there twice", hint=f"leave out {name!r} or {whole!r}")
        found[whole] = _bytes(name, amount) if whole in _SIZES.values() else amount
    return found


def _bytes(name: str, amount: Any) -> Any:
    """As the command line reads sizes: k, m, g and t count in 1024, with or without `i` and `B`."""
    if not isinstance(amount, str):
        return amount
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", amount, re.IGNORECASE)
    if not found:
        raise InvalidRequest(
            f"limits: {name} is {amount!r}, which is not a size",
            hint="write a number of bytes, or text such as '256MiB' or '2G'",
        )
    return int(float(found[1]) * (1 << _UNITS[found[2].lower()]))


def network(value: Union[str, Mapping[str, Any], None]) -> Union[str, Json, None]:
    return value if value is None or isinstance(value, str) else given(**value)


def ports(value: Optional[Mapping[str, Any]]) -> Optional[Json]:
    if value is None:
        return None
    public = value.get("public")
    if isinstance(public, int):
        raise InvalidRequest(f"ports: public is {public!r}, not a list", hint="write {'public': [8000]}, or 'all'")
    return given(**value)


def secrets(value: Optional[Mapping[str, Mapping[str, Any]]]) -> Optional[Json]:
    """What is to be read is read here: the server's environment and disk are not the caller's."""
    if not value:
        return None
    return {name: _secret(name, given(**secret)) for name, secret in value.items()}


def changed_secrets(value: Optional[Mapping[str, Optional[Mapping[str, Any]]]]) -> Optional[Json]:
    """By name; None takes one away."""
    if value is None:
        return None
    return {name: None if secret is None else _secret(name, given(**secret)) for name, secret in value.items()}


def _secret(name: str, secret: Json) -> Json:
    origin = secret.pop("from", None)
    if origin is None:
        return secret
    kind, _, where = str(origin).partition(":")
    if kind == "env" and where in os.environ:
        return {**secret, "value": os.environ[where]}
    if kind == "env":
        raise InvalidRequest(f"secret {name}: there is no variable {where!r}")
    if kind == "file":
        with open(os.path.expanduser(where), encoding="utf-8") as file:
            return {**secret, "value": file.read().rstrip("\r\n")}
    if kind in ("secret", "resource"):
        # The server keeps these, and finds them itself.
        return {**secret, "from": origin}
    raise InvalidRequest(
        f"secret {name}: `from` is {origin!r}, and has to be env:NAME, file:PATH, secret:NAME or resource:NAME.FIELD"
    )


def host_path(path: Optional[HostPath]) -> Optional[str]:
    """Absolute: the server's working directory is not the caller's."""
    return None if path is None else os.path.abspath(os.path.expanduser(os.fspath(path)))


def host_mounts(mounts: Optional[Sequence[HostPath]]) -> Optional[Sequence[str]]:
    """HOST[:INSIDE] with an absolute HOST."""
    if mounts is None:
        return None
    made = []
    for mount in mounts:
        host, colon, inside = os.fspath(mount).partition(":")
        made.append(f"{host_path(host)}{colon}{inside}")
    return made


def volume_mounts(value: Optional[VolumeMounts]) -> Optional[List[Json]]:
    """`{"memory": "/data/memory", "models": "/data/models:ro"}`, or a list of what the API takes."""
    if not value:
        return None
    if not isinstance(value, Mapping):
        return [dict(mount) for mount in value]
    made = []
    for name, place in value.items():
        path, colon, mode = place.rpartition(":")
        if not colon:
            path, mode = place, "rw"
        if mode not in ("ro", "rw"):
            raise InvalidRequest(f"volume {name}: {mode!r} is no mode", hint="write PATH, PATH:ro or PATH:rw")
        made.append({"name": name, "path": path, "mode": mode})
    return made


def image(value: Optional[HostPath]) -> Optional[str]:
    """A registry reference as it is; what is spelled as a path becomes absolute."""
    if value is None:
        return None
    text = os.fspath(value)
    is_path = not isinstance(value, str) or text.startswith(("./", "../", "~", "/")) or text in (".", "..")
    return host_path(text) if is_path else text


def start_exec(
    command: Command,
    *,
    env: Optional[Mapping[str, str]],
    cwd: Optional[str],
    user: Optional[str],
    stdin: Optional[str],
    open_stdin: bool,
    timeout_seconds: Optional[float],
    terminal: Optional[Terminal],
    background: bool,
) -> Json:
    body = given(
        env=dict(env) if env else None,
        cwd=cwd,
        user=user,
        stdin=stdin,
        open_stdin=open_stdin or None,
        timeout_seconds=timeout_seconds,
        terminal=terminal_size(terminal),
        background=background or None,
    )
    if isinstance(command, str):
        body["command"] = command
    else:
        body["argv"] = [os.fspath(argument) for argument in command]
    return body


def terminal_size(terminal: Optional[Terminal]) -> Optional[Dict[str, int]]:
    if terminal is None or terminal is False:
        return None
    from ._models_more import TerminalSize

    if terminal is True:
        terminal = TerminalSize()
    rows, columns = (terminal.rows, terminal.columns) if isinstance(terminal, TerminalSize) else terminal
    return {"rows": rows, "columns": columns}


def strings(what: str, values: Optional[Sequence[str]]) -> Optional[List[str]]:
    """A single text where a list belongs would be taken apart into letters."""
    if values is None:
        return None
    if isinstance(values, str):
        raise InvalidRequest(f"{what} is the text {values!r}, not a list", hint=f"write {what}=[{values!r}]")
    return [*values]
