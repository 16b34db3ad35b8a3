"""When compiled loops work on what is drawn, in place of NumPy: where they are compiled already.

A live preview has half a million points. Called for the colours and the places of points.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..streamlines import compiled_loops
from ..tracking import kernels

FEWEST = 50_000  # points; with less, NumPy takes less than a millisecond


def may_loop(points: NDArray[np.float32]) -> bool:
    """Tell whether compiled loops are to be called for points, (n, 3) float32.

    Where they are not compiled they will be, after the kernels that tracking waits for.
    """
    is_usual = points.flags.c_contiguous and points.flags.writeable  # what loops are compiled for
    if len(points) < FEWEST or not is_usual:
        return False
    return compiled_loops.are_ready(begin=not kernels.is_at_work())
