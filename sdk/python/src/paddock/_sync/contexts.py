# Made from _async by scripts/unasync.py: change it there.
"""The code contexts of a sandbox: interpreters that remember what ran in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Mapping, Optional, Union

from .._requests import given
from .client import Client, quoted

if TYPE_CHECKING:
    from .._models import Json
    from .._models_more import CodeContext


class Contexts:
    """Each language has a default context, made at its first use; others are made here."""

    def __init__(self, client: Client, sandbox: str) -> None:
        self._client = client
        self._path = f"/v1/sandboxes/{quoted(sandbox)}/contexts"

    def create(
        self,
        language: Optional[str] = None,
        *,
        id: Optional[str] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
    ) -> CodeContext:
        """A new interpreter; `id` is a name of your own for it."""
        body = given(id=id, language=language, cwd=cwd, env=dict(env) if env else None)
        return _parsed(self._client.call("POST", self._path, json=body))

    def list(self) -> List[CodeContext]:
        """All of them, those that have ended too."""
        body = self._client.call("GET", self._path)
        return [_parsed(item) for item in body["contexts"]]

    def get(self, context: Union[str, CodeContext]) -> CodeContext:
        """As it is now."""
        return _parsed(self._client.call("GET", self._of(context)))

    def restart(self, context: Union[str, CodeContext]) -> CodeContext:
        """Begins anew: what runs in it ends, and what it remembered is gone."""
        return _parsed(self._client.call("POST", f"{self._of(context)}/restart"))

    def interrupt(self, context: Union[str, CodeContext]) -> bool:
        """As Ctrl-C: what runs is interrupted, and the context keeps what it remembers. Whether something ran."""
        body = self._client.call("POST", f"{self._of(context)}/interrupt")
        return bool(body["interrupted"])

    def delete(self, context: Union[str, CodeContext]) -> None:
        """Ends it, and what runs in it."""
        self._client.request("DELETE", self._of(context), repeatable=True)

    def _of(self, context: Union[str, CodeContext]) -> str:
        return f"{self._path}/{quoted(context if isinstance(context, str) else context.id)}"


def _parsed(body: Json) -> CodeContext:
    from .._models_more import CodeContext

    return CodeContext.parse(body)
