"""Headings: tangents of streamlines whose steps are arcs, beside the directions of their chords.

A chord makes the same angle with the tangents at both its ends: each is the other, mirrored in it.
"""

from __future__ import annotations

import numpy as np

from ....runtime.compiling import inlined

TWO = np.float32(2)


@inlined
def mirrored(x, y, z, ax, ay, az):
    """Return a vector mirrored in the line along another, a, of any length; of lanes or one."""
    twice = TWO * (x * ax + y * ay + z * az) / (ax * ax + ay * ay + az * az)
    return twice * ax - x, twice * ay - y, twice * az - z


@inlined
def head_on(state, lane):
    """Let a lane head along its direction."""
    state.heading[0, lane] = state.ux[lane]
    state.heading[1, lane] = state.uy[lane]
    state.heading[2, lane] = state.uz[lane]
