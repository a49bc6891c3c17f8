"""Secrets that are kept under a name, as the server describes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, List, Mapping

from ._models import Json


@dataclass(frozen=True)
class SecretInfo:
    id: str
    name: str
    #: 1 for the first value; each new value is one more.
    version: int
    created_at: datetime
    updated_at: datetime
    metadata: Mapping[str, str]
    #: The hosts that it may be sent to.
    hosts: List[str]
    raw: Mapping[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def parse(cls, body: Json) -> SecretInfo:
        return cls(
            id=body["id"],
            name=body["name"],
            version=body["version"],
            created_at=datetime.fromtimestamp(body["created_at_ms"] / 1000, timezone.utc),
            updated_at=datetime.fromtimestamp(body["updated_at_ms"] / 1000, timezone.utc),
            metadata=body.get("metadata") or {},
            hosts=list(body.get("hosts") or []),
            raw=body,
        )
