"""Headings: tangents of streamlines whose steps are arcs, beside the directions of their chords.

A chord makes the same angle with the tangents at both its ends: each is the other, mirrored in it.
"""

from __future__ import annotations

import numpy as np

from ....runtime.compiling import inlined
from .tangents import normalised

TWO = np.float32(2)


@inlined
def mirrored(x, y, z, ax, ay, az):
    """Return a vector mirrored in the line along another, a, of any length."""
    twice = TWO * (x * ax + y * ay + z * az) / (ax * ax + ay * ay + az * az)
    return twice * ax - x, twice * ay - y, twice * az - z


@inlined
def head_on(state, lane):
    """Let a lane head along its direction."""
    heading = state.heading[lane]
    heading[0], heading[1], heading[2] = state.ux[lane], state.uy[lane], state.uz[lane]


@inlined
def bend(state, lane):
    """Turn the heading of a lane from the beginning of a chord, its direction, to the end."""
    heading = state.heading[lane]
    x, y, z = mirrored(
        heading[0], heading[1], heading[2], state.ux[lane], state.uy[lane], state.uz[lane]
    )
    heading[0], heading[1], heading[2] = normalised(x, y, z)
