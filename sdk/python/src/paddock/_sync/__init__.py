# Made from _async by scripts/unasync.py: change it there.
"""The surface without `async`."""
