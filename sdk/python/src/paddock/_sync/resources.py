# Made from _async by scripts/unasync.py: change it there.
"""Typed values that are kept for scripts."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from .._defaults import default_client
from .._resources import ResourceInfo
from .client import Client, quoted


class Resources:
    """The resources of a server, encrypted at rest. Scripts name them in their arguments: `$res:NAME`.

    Args:
        client: the server to use; default is the one of the environment, started if need be.
    """

    def __init__(self, client: Optional[Client] = None) -> None:
        self._client = client or default_client()

    def set(
        self,
        name: str,
        value: Any,
        *,
        type: Optional[str] = None,
        secrets: Optional[Mapping[str, Sequence[str]]] = None,
    ) -> ResourceInfo:
        """Keeps a value, or another in its place.

        Args:
            name: letters, digits, `_` and `-`, with `/` between parts.
            value: whatever JSON has.
            type: what it is, in your own word.
            secrets: by the field (`apiKey`, `auth.token`; empty for the value itself) the hosts its text is bound to.
                It never enters a sandbox then: a placeholder stands for it.
        """
        body: Dict[str, Any] = {"value": value}
        if type is not None:
            body["type"] = type
        if secrets:
            body["secrets"] = {name: list(hosts) for name, hosts in secrets.items()}
        return ResourceInfo.parse(self._client.call("PUT", _at(name), json=body, repeatable=True))

    def get(self, name: str) -> ResourceInfo:
        """One of them; what is bound to hosts is not shown."""
        return ResourceInfo.parse(self._client.call("GET", _at(name)))

    def list(self) -> List[ResourceInfo]:
        """All of one's own, without their values."""
        body = self._client.call("GET", "/v1/resources")
        return [ResourceInfo.parse(item) for item in body["resources"]]

    def remove(self, name: str) -> None:
        """Forgets it."""
        self._client.request("DELETE", _at(name))

    def close(self) -> None:
        """Closes the connections; the next request opens new ones."""
        self._client.close()


def _at(name: str) -> str:
    return f"/v1/resources/{quoted(name)}"
