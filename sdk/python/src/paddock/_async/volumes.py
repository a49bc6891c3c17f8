"""Directories that outlive sandboxes."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Union

from .._defaults import async_default_client
from .._volumes import VolumeFile, VolumeInfo, VolumeVersion
from .client import LONG_PATIENCE, AsyncClient, quoted


class AsyncVolumes:
    """The volumes of a server. A name is one's own volume, TENANT/NAME one that was shared.

    Args:
        client: the server to use; default is the one of the environment, started if need be.
    """

    def __init__(self, client: Optional[AsyncClient] = None) -> None:
        self._client = client or async_default_client()

    async def create(self, name: str) -> VolumeInfo:
        """An empty one. Mounting one to write makes it too."""
        return VolumeInfo.parse(await self._client.call("POST", "/v1/volumes", json={"name": name}))

    async def list(self) -> List[VolumeInfo]:
        """All of one's own."""
        body = await self._client.call("GET", "/v1/volumes")
        return [VolumeInfo.parse(item) for item in body["volumes"]]

    async def get(self, name: str) -> VolumeInfo:
        """One of them."""
        path, query = _at(name)
        return VolumeInfo.parse(await self._client.call("GET", path, query=query))

    async def remove(self, name: str) -> None:
        """With all its versions; refused while a sandbox writes to it."""
        path, query = _at(name)
        await self._client.request("DELETE", path, query=query, patience=LONG_PATIENCE)

    async def history(self, name: str) -> List[VolumeVersion]:
        """Versions that are kept, the newest first."""
        path, query = _at(name, "/history")
        body = await self._client.call("GET", path, query=query)
        return [VolumeVersion.parse(item) for item in body["versions"]]

    async def restore(self, name: str, version: int) -> VolumeVersion:
        """An earlier version again, as a new one."""
        path, query = _at(name, "/restore")
        return VolumeVersion.parse(await self._client.call("POST", path, query=query, json={"version": version}))

    async def share(self, name: str, tenant: str, mode: Optional[str] = "ro") -> VolumeInfo:
        """Another tenant has it too, `ro` or `rw`; `None` takes that back."""
        path, _ = _at(name, "/share")
        return VolumeInfo.parse(await self._client.call("POST", path, json={"tenant": tenant, "mode": mode}))

    async def files(
        self,
        name: str,
        path: Optional[str] = None,
        *,
        version: Optional[int] = None,
        depth: Optional[int] = None,
        live: bool = False,
    ) -> List[VolumeFile]:
        """What is in it, at or below a path, so many levels deep; at most 10,000.

        Args:
            live: as the sandbox that has it to write has it now; a version of that is made first.
        """
        place, query = _at(name, "/files", path=path, version=version, depth=depth, live=_live(live))
        body = await self._client.call("GET", place, query=query)
        return [VolumeFile.parse(item) for item in body["files"]]

    async def stat(self, name: str, path: str = "", *, version: Optional[int] = None, live: bool = False) -> VolumeFile:
        """What a path is; the empty one is the volume itself. Links are not followed."""
        place, query = _at(name, "/files/stat", path=path, version=version, live=_live(live))
        return VolumeFile.parse(await self._client.call("GET", place, query=query))

    async def read(self, name: str, path: str, *, version: Optional[int] = None, live: bool = False) -> bytes:
        """The content of a file."""
        place, query = _at(name, "/files/content", path=path, version=version, live=_live(live))
        return (await self._client.request("GET", place, query=query, patience=LONG_PATIENCE)).content

    async def write(
        self,
        name: str,
        path: str,
        content: Union[str, bytes],
        *,
        mode: Optional[int] = None,
        live: bool = False,
    ) -> VolumeVersion:
        """Puts a file into it, as a new version.

        Args:
            live: through the sandbox that has it to write, if there is one; without this such a volume is refused.
        """
        data = content.encode() if isinstance(content, str) else content
        octal = None if mode is None else f"{mode:o}"
        place, query = _at(name, "/files/content", path=path, mode=octal, live=_live(live))
        response = await self._client.request("PUT", place, query=query, content=lambda: data, patience=LONG_PATIENCE)
        return VolumeVersion.parse(response.json())

    async def make_directory(
        self, name: str, path: str, *, mode: Optional[int] = None, parents: bool = False, live: bool = False
    ) -> VolumeVersion:
        """Makes a directory in it, as a new version."""
        place, query = _at(name, "/files/directory", live=_live(live))
        body = {"path": path, "mode": mode, "parents": parents}
        return VolumeVersion.parse(await self._client.call("POST", place, query=query, json=body))

    async def change_mode(self, name: str, path: str, mode: int, *, live: bool = False) -> VolumeVersion:
        """Other permission bits, as a new version."""
        place, query = _at(name, "/files/mode", live=_live(live))
        body = {"path": path, "mode": mode}
        return VolumeVersion.parse(await self._client.call("POST", place, query=query, json=body))

    async def delete(self, name: str, path: str, *, live: bool = False) -> VolumeVersion:
        """Takes a file, or a directory with what is in it, out of it, as a new version."""
        place, query = _at(name, "/files", path=path, live=_live(live))
        return VolumeVersion.parse(await self._client.call("DELETE", place, query=query))

    async def aclose(self) -> None:
        """Closes the connections; the next request opens new ones."""
        await self._client.aclose()


def _live(live: bool) -> Optional[str]:
    return "true" if live else None


def _at(name: str, more: str = "", **query: Any) -> Any:
    tenant, slash, own = name.rpartition("/")
    given: Dict[str, str] = {key: str(value) for key, value in query.items() if value is not None}
    if slash:
        given["tenant"] = tenant
    return f"/v1/volumes/{quoted(own)}{more}", given
