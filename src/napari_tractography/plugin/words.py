"""Numbers of things, in words: for whatever the panel says."""

from __future__ import annotations


def plural(n: int, noun: str) -> str:
    """Return "1 streamline" or "2,000 streamlines"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
