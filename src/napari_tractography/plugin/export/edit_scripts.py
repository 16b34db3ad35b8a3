"""Edits by hand in a copied script: the numbers of the streamlines that were kept.

Called by the output menu. A run gives the same streamlines in the same order each time, so that
their numbers are enough to make the edits again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MAX_RANGES = 2000  # more would make a script unreadable
LAST_LINE = "print(streamlines.digest())\n"


def with_edits(script: str, kept: NDArray[np.int64], n_whole: int) -> str | None:
    """Return a script that keeps the same streamlines; None when that would take too many numbers.

    Parameters
    ----------
    script : str
        Of the run, by :func:`.scripts.as_python`.
    kept : (n_kept,) int64, ascending
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
