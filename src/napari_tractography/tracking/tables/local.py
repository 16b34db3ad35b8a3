"""The table of an FOD around streamlines alone, so that many subjects fit into memory.

The rows of a table are filled where streamlines come near, and those tell where more of the FOD is
needed: by :func:`track_near` a run is tracked again until nothing that it could have read is
missing, and its streamlines are those in the whole FOD, to the bit. Called by
:mod:`napari_tractography.recipes.cohort`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...geometry.grid import Grid
from ...model.fod import Fod
from ...model.parameters import LONGEST_ADAPTIVE, TrackingParameters
from ..codes import UNFILLED_BITS, WAY_VOXELS
from .builders import padded_change, suitable_scale, to_voxel_matrix, words_of
from .cache import provide_table
from .data import FodTable, empty_rows

BRICK = 4  # voxels along each axis that are read together
GROWTH = 1  # bricks beyond those that are missing, so that streamlines take few rounds
_WITHIN = np.indices((BRICK, BRICK, BRICK)).reshape(3, -1).T

# Takes (n,) voxels, numbered in C order and rising; returns their (n, n_coefficients) float32.
ReadRows = Callable[[NDArray[np.int64]], NDArray[np.float32]]


class LocalTable:
    """What kernels read of an FOD, as far as streamlines have come near.

    For one thread at a time.

    Parameters
    ----------
    fod : Fod
        Of SH coefficients, on the host; it is not kept.
    read : callable
        Returns coefficients of voxels, as the FOD has them.

    Attributes
    ----------
    fod : Fod
        To be tracked in: one of the same grid and degree, without coefficients.
    """

    def __init__(self, fod: Fod, read: ReadRows) -> None:
        self._read = read
        self._all_words = words_of(fod.voxel_rows)
        n_coefficients = fod.values.shape[1]
        self.fod = stand_in(
            fod.grid, n_coefficients, basis=fod.basis, frame=fod.frame, name=fod.name
        )
        change = padded_change(fod)
        scale = suitable_scale(fod.values, change, fod.lmax, fod.is_asymmetric)
        nothing = np.empty((0, change.shape[0]), np.float32)
        self._none = self._table = FodTable(
            voxel_rows=_rows_for_their_shape(fod.grid.shape),
            words=np.zeros_like(self._all_words),
            values=nothing,
            change=change * scale,
            **empty_rows(0, *change.shape),
            to_voxel=to_voxel_matrix(fod),
            lmax=fod.lmax,
            is_asymmetric=fod.is_asymmetric,
            scale=scale,
        )
        self._n_bricks = tuple(-(-n // BRICK) for n in fod.grid.shape)
        self.clear()

    def clear(self) -> None:
        """Forget all voxels."""
        self._is_here = np.zeros(self._n_bricks, np.bool_)
        self._voxels = np.empty(0, np.int64)
        self._take(self._none)

    @property
    def n_bytes(self) -> int:
        """Memory in bytes."""
        return (
            self._table.n_bytes
            + self._table.values.nbytes
            + self._voxels.nbytes
            + self._all_words.nbytes
            + self._is_here.nbytes
        )

    @property
    def n_voxels(self) -> int:
        """How many voxels with an FOD are in memory."""
        return len(self._voxels)

    def read_near(self, points_mm: NDArray[np.float32], rings: int) -> bool:
        """Read the FOD around (n, 3) RAS+ mm points; return whether any of it was missing.

        And of the bricks in so many `rings` around theirs.
        """
        return self._add(_dilated(self._bricks_of(points_mm), rings))

    def read_more(self, rings: int) -> bool:
        """Read what streamlines could have read but did not find; return whether there is any."""
        filled = self._table.coefficients[:-1, self._table.values.shape[1]] != UNFILLED_BITS
        near = np.zeros(self._n_bricks, np.bool_)
        near[self._brick_of(self._voxels[filled])] = True
        return self._add(_dilated(near, rings))

    def keep_near(self, points_mm: NDArray[np.float32], rings: int) -> None:
        """Forget all voxels but those around points, see :meth:`read_near`."""
        self._rearrange(self._is_here & _dilated(self._bricks_of(points_mm), rings + 1))

    def _add(self, needed: NDArray[np.bool_]) -> bool:
        missing = needed & ~self._is_here
        if not missing.any():
            return False
        self._rearrange(self._is_here | _dilated(missing, GROWTH))
        return True

    def _rearrange(self, bricks: NDArray[np.bool_]) -> None:
        """Have the voxels of these bricks in memory, and no others."""
        old = self._table
        kept = np.flatnonzero(bricks[self._brick_of(self._voxels)])
        new = self._voxels_of(bricks & ~self._is_here)
        voxels = np.concatenate([self._voxels[kept], new])
        order = np.argsort(voxels, kind="stable")
        rows = np.empty_like(order)
        rows[order] = np.arange(len(order))
        of_kept, of_new = rows[: len(kept)], rows[len(kept) :]
        values = np.empty((len(voxels), old.values.shape[1]), np.float32)
        values[of_kept], values[of_new] = old.values[kept], self._read(new)
        # All rows are filled anew: what was seen from them of others may have been missing.
        filled = empty_rows(len(voxels), *old.change.shape)
        self._is_here, self._voxels = bricks, voxels[order]
        words = np.zeros_like(old.words)
        np.bitwise_or.at(words[:, 0], self._voxels >> 6, _bits(self._voxels))
        counts = np.bincount(self._voxels >> 6, minlength=len(words))
        words[1:, 1] = np.cumsum(counts)[:-1]
        self._take(replace(old, words=words, values=values, **filled))

    def _take(self, table: FodTable) -> None:
        self._table = table
        provide_table(self.fod, table)

    def _bricks_of(self, points_mm: NDArray[np.float32]) -> NDArray[np.bool_]:
        found = np.zeros(self._n_bricks, np.bool_)
        voxels = np.floor(self.fod.grid.to_voxel(points_mm) + 0.5)
        inside = ((voxels >= 0) & (voxels < self.fod.grid.shape)).all(axis=1)
        found[tuple((voxels[inside].astype(np.int64) // BRICK).T)] = True
        return found

    def _brick_of(self, voxels: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        return tuple(index // BRICK for index in np.unravel_index(voxels, self.fod.grid.shape))

    def _voxels_of(self, bricks: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the voxels of bricks that hold an FOD, rising."""
        shape = self.fod.grid.shape
        found = (BRICK * np.argwhere(bricks)[:, None] + _WITHIN).reshape(-1, 3)
        found = found[(found < shape).all(axis=1)]
        voxels = np.ravel_multi_index(tuple(found.T), shape)
        has_fod = self._all_words[voxels >> 6, 0] & _bits(voxels) != 0
        return np.sort(voxels[has_fod])


def rings_of(grid: Grid, parameters: TrackingParameters) -> int:
    """Return how many bricks around a row that is filled hold all that is read next.

    From a position whose row is filled, or that of a corner of its cell, a streamline steps on or
    looks ahead, and reads the corners of the cell there. Whether a voxel is among crossings is told
    by what lies around it.
    """
    farthest_mm = max(
        parameters.step_mm
        * (LONGEST_ADAPTIVE if parameters.adaptive and parameters.uses("adaptive") else 1.0),
        parameters.look_ahead_mm,
    )
    voxels_a_mm = float(np.linalg.norm(grid.inverse[:3, :3], axis=1).max())
    most = math.ceil(farthest_mm * voxels_a_mm)
    if parameters.uses("min_roundness") and parameters.min_roundness > 0:
        most = max(most, WAY_VOXELS)
    return math.ceil((2 + most) / BRICK)


def rows_of_voxels(words: NDArray[np.uint64], voxels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows of voxels that hold an FOD, by `words` of a :class:`.data.FodTable`."""
    below = words[voxels >> 6, 0] & (_bits(voxels) - np.uint64(1))
    counts = np.unpackbits(below.view(np.uint8).reshape(-1, 8), axis=1).sum(axis=1, dtype=np.int64)
    return np.asarray(words[voxels >> 6, 1].astype(np.int64) + counts)


def _bits(voxels: NDArray[np.int64]) -> NDArray[np.uint64]:
    return np.uint64(1) << (voxels & 63).astype(np.uint64)


def _dilated(bricks: NDArray[np.bool_], rings: int) -> NDArray[np.bool_]:
    """Return bricks with those around them, diagonal ones too."""
    found = bricks.copy()
    for axis in range(3):
        for _ in range(rings):
            before = found.copy()
            one, other = np.moveaxis(found, axis, 0), np.moveaxis(before, axis, 0)
            one[1:] |= other[:-1]
            one[:-1] |= other[1:]
    return found


def stand_in(
    grid: Grid,
    n_coefficients: int = 1,
    *,
    basis: str = "tournier07",
    frame: str = "",
    name: str = "FOD",
) -> Fod:
    """Return an FOD without coefficients, whose table is provided, or which is replaced yet."""
    return Fod.of_voxels(
        np.zeros((1, n_coefficients), np.float32),
        _rows_for_their_shape(grid.shape),
        grid,
        basis=basis,
        frame=frame or None,
        name=name,
    )


@lru_cache(maxsize=4)
def _rows_for_their_shape(shape: tuple[int, int, int]) -> NDArray[np.int32]:
    """Return rows of voxels of which kernels read the shape: zeros, which take no memory."""
    return np.zeros(shape, np.int32)
