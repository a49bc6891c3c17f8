"""The source of both surfaces: `_sync` is made from it by scripts/unasync.py."""
