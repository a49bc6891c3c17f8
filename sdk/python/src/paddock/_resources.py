"""Values that are kept for scripts, as the server describes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, List, Mapping

from ._models import Json


@dataclass(frozen=True)
class ResourceInfo:
    name: str
    #: What it is, in its owner's word.
    type: str
    updated_at: datetime
    #: By the field: the hosts that its text is bound to. It enters no sandbox, and is not shown again.
    secrets: Mapping[str, List[str]]
    #: None in lists, and for a read-only token.
    value: Any = field(repr=False)
    raw: Mapping[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def parse(cls, body: Json) -> ResourceInfo:
        return cls(
            name=body["name"],
            type=body["type"],
            updated_at=datetime.fromtimestamp(body["updated_at_ms"] / 1000, timezone.utc),
            secrets=body.get("secrets") or {},
            value=body.get("value"),
            raw=body,
        )
