"""Which streamlines two tractograms have in common, by their points.

Called by :meth:`.tractogram.Tractogram.found_in`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

KEY_BYTES = 16  # of a streamline: two of 10^9 have the same by chance once in 10^20 times


def found_among(
    streamlines: Iterable[NDArray[np.float32]], others: Iterable[NDArray[np.float32]]
) -> NDArray[np.bool_]:
    """Tell for each streamline, (n,) bool, whether one of the others has the same points."""
    known = set(_keys(others))
    return np.fromiter((key in known for key in _keys(streamlines)), np.bool_)


def _keys(streamlines: Iterable[NDArray[np.float32]]) -> Iterator[bytes]:
    for points in streamlines:
        # Of -0.0, which equals 0.0, the bits differ.
        yield blake2b((points + np.float32(0)).tobytes(), digest_size=KEY_BYTES).digest()
