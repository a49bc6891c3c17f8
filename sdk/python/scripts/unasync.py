"""Makes src/paddock/_sync from src/paddock/_async, so that the two surfaces cannot come apart.

`--check` only compares.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "paddock"
HEADER = "# Made from _async by scripts/unasync.py: change it there.\n"

REPLACEMENTS = [
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsync([A-Z]\w*)", r"\1"),
    (r"\basync_(\w+)", r"\1"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\benter_async_context\b", "enter_context"),
    (r"\b__a(enter|exit|iter)__\b", r"__\1__"),
    (r"\ba(close|read|iter_bytes)\b", r"\1"),
    # What a coroutine gives, a function gives at once.
    (r"\bAwaitable\[(.*)\]\]$", r"\1]"),
    (r"\bAwaitable, ", ""),
]


def converted(text: str) -> str:
    for pattern, replacement in REPLACEMENTS:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return HEADER + text


def main() -> int:
    stale = []
    for source in sorted((PACKAGE / "_async").glob("*.py")):
        target = PACKAGE / "_sync" / source.name
        if source.name == "__init__.py":
            wanted = f'{HEADER}"""The surface without `async`."""\n'
        else:
            wanted = converted(source.read_text())
        if not target.exists() or target.read_text() != wanted:
            stale.append(target.name)
            if "--check" not in sys.argv:
                target.write_text(wanted)
    if "--check" in sys.argv and stale:
        print(f"_sync is older than _async ({', '.join(stale)}): run python3 scripts/unasync.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
