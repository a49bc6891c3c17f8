"""What a scan found in code before it ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Mapping


@dataclass(frozen=True)
class Finding:
    """One thing in the code that its sandbox's policy objects to."""

    #: `import_not_allowed`, `subprocess`, `socket`, `eval_exec`, `file_outside_workspace`, `dynamic_import`,
    #: `not_parsed` or `not_scanned`.
    kind: str
    #: Both from one; a column is a character.
    line: int
    column: int
    #: The code in question, or in words what hindered the parser.
    text: str

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.kind}: {self.text}"

    @classmethod
    def parse_all(cls, body: Mapping[str, Any]) -> List[Finding]:
        items = body.get("findings") or []
        return [
            cls(
                str(item.get("kind", "")),
                int(item.get("line", 0)),
                int(item.get("column", 0)),
                str(item.get("text", "")),
            )
            for item in items
        ]
