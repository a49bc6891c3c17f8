"""The client that is used where none is given: one per server of the environment, and per event loop."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Dict, Optional, Tuple

if TYPE_CHECKING:
    import asyncio

    from ._async.client import AsyncClient
    from ._sync.client import Client

_Key = Tuple[Optional[str], Optional[str], Optional[str], Optional[str]]

_guard = threading.Lock()
_clients: Dict[_Key, Client] = {}
_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Dict[_Key, AsyncClient]] = weakref.WeakKeyDictionary()


def default_client() -> Client:
    from ._sync.client import Client

    with _guard:
        key = _key()
        if key not in _clients:
            _clients[key] = Client()
        return _clients[key]


def async_default_client() -> AsyncClient:
    import asyncio

    from ._async.client import AsyncClient

    # Connections belong to the event loop that made them.
    with _guard:
        clients = _loops.setdefault(asyncio.get_running_loop(), {})
        key = _key()
        if key not in clients:
            clients[key] = AsyncClient()
            clients[key].close_when_unused = True
        return clients[key]


def _key() -> _Key:
    names = ("PADDOCK_URL", "PADDOCK_TOKEN", "PADDOCK_STATE_DIR", "XDG_RUNTIME_DIR")
    url, token, state, runtime = (os.environ.get(name) for name in names)
    return url, token, state, runtime


def _after_fork() -> None:
    # Another thread may have held it.
    global _guard
    _guard = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
