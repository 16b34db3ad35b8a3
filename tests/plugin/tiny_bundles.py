"""Streamlines drawn by hand, for tests of the streamlines layer."""

from __future__ import annotations

import numpy as np

from napari_tractography.streamlines.tractogram import Tractogram


def straight(start: tuple[float, float, float], end: tuple[float, float, float], n: int = 21):
    return np.linspace(start, end, n)


def cross() -> Tractogram:
    """A line along x in the plane z = 0 and one along y in the plane z = 20."""
    return Tractogram.from_streamlines(
        [straight((-20, 0, 0), (20, 0, 0)), straight((0, -20, 20), (0, 20, 20))]
    )


def asymmetric() -> Tractogram:
    r"""Red only at the left, green at the top right, seen from above::

    |   ||     green: along y, anterior right
    ---        red: along x, posterior left
    """
    left = [straight((-30, -15 + i, 0), (-10, -15 + i, 0)) for i in range(3)]
    right = [straight((10 + i, 5, 0), (10 + i, 25, 0)) for i in range(3)]
    return Tractogram.from_streamlines([*left, *right])
