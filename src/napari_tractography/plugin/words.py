"""Numbers of things, and what is tracked in, in words: for whatever the panel says."""

from __future__ import annotations

from ..model.fod import Fod


def plural(n: int, noun: str) -> str:
    """Return "1 streamline" or "2,000 streamlines"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def in_words(fod: Fod | None, text: str) -> str:
    """Return what is said of an FOD as it is said of what is tracked in, such as an image."""
    return text if fod is None else fod.input_kind.in_words(text)
