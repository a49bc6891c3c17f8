"""Secrets that are kept under a name."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from .._defaults import async_default_client
from .._secrets import SecretInfo
from .client import AsyncClient, quoted


class AsyncSecrets:
    """The secrets of a server, encrypted at rest. No call shows a value again.

    A sandbox has one with `secrets={"VARIABLE": {"from": "secret:NAME", "hosts": [...]}}`, for hosts it is bound to.

    Args:
        client: the server to use; default is the one of the environment, started if need be.
    """

    def __init__(self, client: Optional[AsyncClient] = None) -> None:
        self._client = client or async_default_client()

    async def create(
        self,
        name: str,
        value: str,
        *,
        metadata: Optional[Mapping[str, str]] = None,
        hosts: Sequence[str] = (),
    ) -> SecretInfo:
        """Keeps a secret.

        Args:
            name: 1 to 256 characters.
            value: 8 to 16,384 printable characters.
            metadata: words about it, which are shown.
            hosts: those that it may be sent to.
        """
        body: Dict[str, Any] = {"name": name, "value": value, "metadata": dict(metadata or {}), "hosts": list(hosts)}
        return SecretInfo.parse(await self._client.call("POST", "/v1/secrets", json=body))

    async def update(
        self,
        name: str,
        value: str,
        *,
        metadata: Optional[Mapping[str, str]] = None,
        hosts: Optional[Sequence[str]] = None,
    ) -> SecretInfo:
        """A new value, as the next version; metadata and hosts stay where they are not given."""
        body: Dict[str, Any] = {"value": value}
        if metadata is not None:
            body["metadata"] = dict(metadata)
        if hosts is not None:
            body["hosts"] = list(hosts)
        return SecretInfo.parse(await self._client.call("PUT", _at(name), json=body))

    async def get(self, name: str) -> SecretInfo:
        """One of them, by its name or id, without its value."""
        return SecretInfo.parse(await self._client.call("GET", _at(name)))

    async def list(self) -> List[SecretInfo]:
        """All of one's own, the newest first."""
        found: List[SecretInfo] = []
        query: Dict[str, str] = {"limit": "1000"}
        while True:
            page = await self._client.call("GET", "/v1/secrets", query=query)
            found.extend(SecretInfo.parse(item) for item in page["secrets"])
            if not page.get("next_cursor"):
                return found
            query["cursor"] = page["next_cursor"]

    async def remove(self, name: str) -> None:
        """Forgets it."""
        await self._client.request("DELETE", _at(name))

    async def aclose(self) -> None:
        """Closes the connections; the next request opens new ones."""
        await self._client.aclose()


def _at(name: str) -> str:
    return f"/v1/secrets/{quoted(name)}"
