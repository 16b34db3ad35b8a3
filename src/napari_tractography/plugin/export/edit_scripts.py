"""Edits by hand in a copied script: which of a run's streamlines were kept.

Called by the output menu. A run gives the same streamlines in the same order each time, so that
their numbers say it all.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..session.runs import Request

MAX_RANGES = 2000  # beyond, a script would be numbers and nothing else
LAST_LINE = "print(streamlines.digest())\n"
# What does not change the streamlines.
WITHOUT_EFFECT = {"preview", "full", "execution"}


def with_edits(script: str, kept: NDArray[np.int64], n_whole: int) -> str | None:
    """Return a script that keeps the same streamlines; None when that would take too many numbers.

    Parameters
    ----------
    script : str
        Of the run, by :func:`.scripts.as_python`.
    kept : (n_kept,) int64, rising
        Numbers of the streamlines.
    n_whole : int
        How many there were.
    """
    last = np.flatnonzero(np.diff(kept) != 1)
    starts = kept[np.concatenate([[0], last + 1])] if len(kept) else kept
    stops = kept[np.concatenate([last, [len(kept) - 1]])] + 1 if len(kept) else kept
    if len(starts) > MAX_RANGES or not script.endswith(LAST_LINE):
        return None
    ranges = [
        f"    {start}," if stop == start + 1 else f"    *range({start}, {stop}),"
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
    ]
    lines = [f"kept = [  # by hand, {len(kept)} of {n_whole}", *ranges, "]"]
    lines += ["streamlines = streamlines[kept]", LAST_LINE]
    return script.removesuffix(LAST_LINE) + "\n".join(lines)


def same_streamlines(one: Request | None, other: Request | None) -> bool:
    """Tell whether two runs give the same streamlines."""
    return one is not None and other is not None and _same(one, other)


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(_same, one, other))
    if is_dataclass(one):
        names = {field.name for field in fields(one)} - WITHOUT_EFFECT
        return all(_same(getattr(one, name), getattr(other, name)) for name in names)
    return bool(one == other)
