# Made from _async by scripts/unasync.py: change it there.
"""The copies that are made of a sandbox, and their differences: snapshots, forks, changes and merges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable, List, Literal, Mapping, Optional, TypeVar, Union, overload

from .. import _requests as requests
from .._errors import InvalidRequest, PaddockError, errors_in_their_places
from .._models import SandboxInfo
from .._requests import given
from .client import LONG_PATIENCE, Client, quoted

if TYPE_CHECKING:
    from .._models_more import Change, MergeReport, Snapshot

One = TypeVar("One", bound="Copies")


class Copies:
    """The part of a sandbox that is about its copies."""

    def __init__(self, client: Client, info: SandboxInfo) -> None:
        self._client = client
        self._info = info
        self._path = f"/v1/sandboxes/{quoted(info.id)}"

    @property
    def id(self) -> str:
        return self._info.id

    def snapshot(
        self, name: Optional[str] = None, *, live: bool = False, memory: Optional[bool] = None
    ) -> Snapshot:
        """Keeps its files, and if `live` its code contexts, in memory; `create(snapshot=...)` begins with it.

        Memory is kept too where the backend does that. With `memory` True it is an error where the backend does not;
        with False the files alone are kept.
        """
        wanted = given(name=name, live=live or None, memory=memory)
        body = self._client.call("POST", f"{self._path}/snapshots", json=wanted, patience=LONG_PATIENCE)
        from .._models_more import Snapshot

        return Snapshot.parse(body)

    @overload
    def fork(
        self: One,
        count: None = None,
        *,
        ttl_seconds: Optional[float] = None,
        metadata: Optional[Mapping[str, str]] = None,
        secrets: bool = False,
        live: Optional[bool] = None,
    ) -> One: ...

    @overload
    def fork(
        self: One,
        count: int,
        *,
        ttl_seconds: Optional[float] = None,
        metadata: Optional[Mapping[str, str]] = None,
        secrets: bool = False,
        live: Optional[bool] = None,
        partial: Literal[False] = False,
    ) -> List[One]: ...

    @overload
    def fork(
        self: One,
        count: int,
        *,
        ttl_seconds: Optional[float] = None,
        metadata: Optional[Mapping[str, str]] = None,
        secrets: bool = False,
        live: Optional[bool] = None,
        partial: Literal[True],
    ) -> List[Union[One, PaddockError]]: ...

    def fork(
        self: One,
        count: Optional[int] = None,
        *,
        ttl_seconds: Optional[float] = None,
        metadata: Optional[Mapping[str, str]] = None,
        secrets: bool = False,
        live: Optional[bool] = None,
        partial: bool = False,
    ) -> Union[One, List[One], List[Union[One, PaddockError]]]:
        """New sandboxes that begin with what this one has, which goes on running.

        Its files, and the Python and bash contexts that can be forked as they stand, with all that they know; others
        begin anew. `live=True` raises where one cannot; `live=False` forks only files.

        `fork()` is one sandbox; `fork(3)` is a list of three (and `fork(1)` a list of one). 100 at most.
        They have none of its secrets, unless `secrets` is true.

        All are made or none. With `partial` each is made or fails by itself, and none waits for room: `fork(3,
        partial=True)` is a list of three, with the error in the place of each that was not made.
        """
        if partial and count is None:
            raise InvalidRequest("partial is for several forks", hint="say how many: fork(3, partial=True)")
        body = given(
            count=count,
            ttl_seconds=ttl_seconds,
            metadata=dict(metadata) if metadata else None,
            secrets=secrets or None,
            live=live,
            partial=partial or None,
        )
        forked = self._client.call(
            "POST", f"{self._path}/fork", json=body, idempotent=True, patience=LONG_PATIENCE
        )
        children = [type(self)(self._client, SandboxInfo.parse(item)) for item in forked["sandboxes"]]
        if partial:
            return errors_in_their_places(children, forked.get("failed", []))
        return children[0] if count is None else children

    def changes(self, since: str = "start") -> List[Change]:
        """What it changed since its `start`, its `snapshot` or its `parent`, sorted by path."""
        body = self._client.call("GET", f"{self._path}/changes", query={"since": since}, patience=LONG_PATIENCE)
        from .._models_more import Change

        return [Change.parse(change) for change in body["changes"]]

    def changes_patch(self, since: str = "start") -> str:
        """The same as a patch for `patch -p1` and `git apply`; what is no text is only named in it."""
        answer = self._client.request(
            "GET", f"{self._path}/changes/patch", query={"since": since}, patience=LONG_PATIENCE
        )
        return answer.text

    def merge(self, from_: Union[Copies, str], paths: Iterable[str] = ()) -> MergeReport:
        """Brings what the fork `from_` changed into this, its parent: all of it, or only the given paths.

        Where both changed the same path nothing at all is merged, and `MergeReport.conflicts` says where.
        """
        source = from_ if isinstance(from_, str) else from_.id
        chosen = requests.strings("paths", list(paths) if not isinstance(paths, str) else paths)
        body = {"from": source, "paths": chosen or []}
        report = self._client.call("POST", f"{self._path}/merge", json=body, patience=LONG_PATIENCE)
        from .._models_more import MergeReport

        return MergeReport.parse(report)
