"""Antipodally symmetric sets of directions and the cones between them.

Direction ``j`` of a set of ``n`` has its antipode at ``(j + n / 2) % n``: the first half covers a
half sphere. Tracking is continuous: sets are for sampling, tables and display.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameterError

N_NEIGHBOURS = 8  # of a direction: enough to surround it and to fit a quadratic
CANDIDATES = 4  # to be the nearest direction, of a cell
# Cells of a half sphere, over the directions of the set: two thirds of them have one or two
# candidates, and one in four hundred more than four.
CELLS_A_DIRECTION = 3.0
BEHIND = 1e-5  # cosine: above the rounding of cells and of cosines in 32 bits
GOLDEN_ANGLE_RAD = np.pi * (3.0 - np.sqrt(5.0))
ConeFunction = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.bool_]]


@lru_cache(maxsize=8)
def direction_set(n_directions: int) -> NDArray[np.float32]:
    """Return an antipodally symmetric set of an even number of unit vectors, read-only.

    The half set is the Fibonacci lattice on the half sphere (Swinbank & Purser, Q. J. R.
    Meteorol. Soc. 132, 2006): closed form for any size, without iterations that amplify
    rounding, and with 362 directions as even as electrostatic repulsion (mean distance of a
    random direction to the set 2.89 against 2.87 degrees). Returned are (n_directions, 3) float32;
    the second half is minus the first.
    """
    half = n_directions // 2
    index = np.arange(half)
    z = (index + 0.5) / half
    azimuth = index * GOLDEN_ANGLE_RAD
    radius = np.sqrt(1.0 - z * z)
    units = np.stack([radius * np.cos(azimuth), radius * np.sin(azimuth), z], axis=1)
    full = np.concatenate([units, -units]).astype(np.float32)
    full.flags.writeable = False
    return full


def function_cone(n_directions: int, function: ConeFunction) -> tuple[NDArray[np.uint8], float]:
    """Evaluate a boolean function of two directions on a set of so many, once.

    ``function(current, candidates)`` takes a (3,) unit vector and (n, 3) unit vectors, RAS+, and
    returns (n,) bool: which candidates may follow. Returned are (n_directions, n_directions) uint8,
    read-only, 1 where the second direction may follow the first, and how far, in degrees, a
    direction that is allowed may be from the current one at most. Raises InvalidParameterError when
    the function returns another shape or dtype, or allows nothing at all.
    """
    units = direction_set(n_directions).astype(np.float64)
    cone = np.empty((n_directions, n_directions), dtype=np.uint8)
    farthest = 1.0
    for i, current in enumerate(units):
        allowed = np.asarray(function(current, units))
        if allowed.shape != (n_directions,) or allowed.dtype != np.bool_:
            raise InvalidParameterError(
                f"The cone function returned {allowed.dtype} of shape {allowed.shape} for "
                f"{n_directions} candidate directions; return a bool array of shape "
                f"({n_directions},)."
            )
        cone[i] = allowed
        if allowed.any():
            farthest = min(farthest, float((units[allowed] @ current).min()))
    if not cone.any():
        raise InvalidParameterError(
            "The cone function allows no direction at all; return True for those that may follow."
        )
    cone.flags.writeable = False
    # Both directions stand for the cells around them, of which each is wider than half a spacing.
    spacing = np.degrees(np.sqrt(4.0 * np.pi / n_directions))
    return cone, min(float(np.degrees(np.arccos(max(farthest, -1.0)))) + 2 * spacing, 180.0)


@lru_cache(maxsize=8)
def neighbour_table(
    n_directions: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
    """Return what gives the derivatives of a function on the set, at each direction.

    The function is approximated by a quadratic of the coordinates (a, b) along two tangents of the
    direction, fitted to the differences to its neighbours by least squares.

    Returns
    -------
    neighbours : (n_directions, N_NEIGHBOURS) int32, read-only
        The nearest other directions of the full set, the nearest first.
    slopes : (n_directions, N_NEIGHBOURS, 5) float32, read-only
        The sum over neighbours of slope times difference is the derivative by a, b, aa, ab or bb.
    tangents : (n_directions, 2, 3) float32, read-only
        Orthonormal tangents.
    """
    units = direction_set(n_directions).astype(np.float64)
    neighbours = np.empty((n_directions, N_NEIGHBOURS), dtype=np.int32)
    slopes = np.empty((n_directions, N_NEIGHBOURS, 5), dtype=np.float32)
    tangents = np.empty((n_directions, 2, 3), dtype=np.float32)
    for i, unit in enumerate(units):
        cosines = units @ unit
        cosines[i] = -2.0
        neighbours[i] = np.argsort(-cosines, kind="stable")[:N_NEIGHBOURS]
        tangents[i] = np.linalg.svd(unit[None])[2][1:]
        a, b = (units[neighbours[i]] @ tangents[i].T.astype(np.float64)).T
        slopes[i] = np.linalg.pinv(np.stack([a, b, a * a / 2, a * b, b * b / 2], axis=1)).T
    for array in (neighbours, slopes, tangents):
        array.flags.writeable = False
    return neighbours, slopes, tangents


@lru_cache(maxsize=8)
def nearest_cells(n_directions: int) -> NDArray[np.float32]:
    """Return which directions of the set may be the nearest to a unit vector, by where it points.

    A unit vector (x, y, z) lies in a cell of the half sphere with z >= 0, or of the other, by x + y
    and x - y, both over |x| + |y| + |z| and from -1 to 1. In each octant the borders of cells are
    planes through the origin, and those between octants cut cells along their diagonals: what is
    in a cell is a sum of its corners. So a direction that is further from all corners
    than another one is further from all of the cell.

    Returns
    -------
    (2, n, n, 4, CANDIDATES) float32, read-only
        x, y, z and number of each candidate. Where there are fewer, the antipode of the first takes
        the place of others; where there are more, all are the same, and which is the nearest cannot
        be told.
    """
    units = direction_set(n_directions)
    side = math.ceil(math.sqrt(CELLS_A_DIRECTION * n_directions))
    edges = np.linspace(-1.0, 1.0, side + 1)
    x, y = (edges[:, None] + edges) / 2, (edges[:, None] - edges) / 2
    cells = np.empty((2, side, side, 4, CANDIDATES), np.float32)
    for half, sign in enumerate((1.0, -1.0)):
        corners = np.stack([x, y, sign * (1.0 - np.abs(x) - np.abs(y))], axis=2)
        corners /= np.linalg.norm(corners, axis=2, keepdims=True)
        cosines = corners.astype(np.float32) @ units.T
        for row in range(side):
            around = [at[k : k + side] for at in cosines[row : row + 2] for k in range(2)]
            first = np.minimum.reduce(around).argmax(axis=1)
            ahead = [at - np.take_along_axis(at, first[:, None], axis=1) for at in around]
            may_be = np.maximum.reduce(ahead) > -BEHIND
            may_be[np.arange(side), first] = False
            others = np.argsort(~may_be, axis=1, kind="stable")[:, : CANDIDATES - 1]
            is_one = np.take_along_axis(may_be, others, axis=1)
            antipodes = (first + n_directions // 2) % n_directions
            others = np.where(is_one, others, antipodes[:, None])
            too_many = may_be.sum(axis=1) >= CANDIDATES
            others[too_many] = first[too_many, None]
            found = np.column_stack([first, others])
            cells[half, row, :, :3] = units[found].transpose(0, 2, 1)
            cells[half, row, :, 3] = found
    cells.flags.writeable = False
    return cells
