"""The voxels of an image that hold an FOD, picked out while the file is read.

Most of an FOD volume is background. Only what is used is kept, so that reading needs little more
memory than the result. Called by :mod:`.fods`.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .stored_images import NumberStream, StoredImage

# Volumes are collected before they are written between the others: 64 bytes of each row at once.
BLOCK_VOLUMES = 16
# Values of voxels that are read together. While the window is busy each step waits for it, so
# that fewer and longer steps are better than those that fit into a cache.
BUFFER_VALUES = 1 << 22
KEPT_ROWS = 1 << 14  # moved at once, where some are dropped


@dataclass(frozen=True, slots=True)
class PackedVoxels:
    """The used voxels of an image: all coefficients finite, not all of them zero."""

    # (n_voxels, n_coefficients) float32: in the order of the voxels of an (x, y, z) array, z
    # fastest.
    values: NDArray[np.float32]
    # (x, y, z) int32: the row of each voxel in `values`, -1 where it is not used.
    rows: NDArray[np.int32]
    n_invalid: int  # voxels with a NaN or infinite coefficient


def pack_volumes(
    numbers: NumberStream,
    stored: StoredImage,
    isotropic: NDArray[np.float32],
    map_read: threading.Event,
) -> PackedVoxels:
    """Pack an image that is stored coefficient by coefficient, as NIfTI is.

    Axis 3 of `stored` is the slowest and runs forward; `numbers` are at the first. `isotropic`,
    (n,) float32, is filled with the first coefficient of each voxel in the order of the file, zero
    where the voxel is not used, and `map_read` then set; voxels of which another coefficient is not
    finite become zero at the end.
    """
    n_coefficients = stored.shape[3]
    volume = np.empty(isotropic.size, np.float32)
    is_new = np.empty(isotropic.size, np.bool_)
    known = np.zeros(isotropic.size, np.bool_)  # voxels with a coefficient that is not zero
    cells = np.empty(0, np.int64)  # of voxels that are kept: place in an (x, y, z) array
    positions = np.empty(0, np.int64)  # and in the file
    is_finite = np.empty(0, np.bool_)
    columns = _Columns(n_coefficients)
    for k in range(n_coefficients):
        numbers.read(volume)
        if k == 0:
            np.copyto(isotropic, volume, where=np.isfinite(volume))
            map_read.set()
        np.not_equal(volume, 0, out=is_new)  # NaN is not zero either
        np.greater(is_new, known, out=is_new)
        if is_new.any():  # usually in the first volume only
            known |= is_new
            is_new &= np.isfinite(volume)
            cells_now, positions_now = _find(stored, is_new)
            cells, positions = np.append(cells, cells_now), np.append(positions, positions_now)
            is_finite = np.append(is_finite, np.ones(len(cells_now), np.bool_))
            stored.check_memory(len(cells) * n_coefficients * volume.itemsize)
            columns.grow(len(cells))
        column = volume.take(positions)
        is_finite &= np.isfinite(column)
        columns.add(column)
    n_used = int(np.count_nonzero(known))
    del volume, is_new, known
    values = columns.values()
    if not is_finite.all():
        isotropic[positions[~is_finite]] = 0.0
        values, cells = _kept(values, is_finite), cells[is_finite]
    if (np.diff(cells) < 0).any():  # found in several volumes
        order = np.argsort(cells)
        values, cells = values[order], cells[order]
    rows = np.full(stored.shape[:3], -1, np.int32)
    rows.reshape(-1)[cells] = np.arange(len(cells), dtype=np.int32)
    return PackedVoxels(values, rows, n_used - len(cells))


def pack_voxels(
    numbers: NumberStream, stored: StoredImage, isotropic: NDArray[np.float32]
) -> PackedVoxels:
    """Pack an image that is stored voxel by voxel, as MRtrix writes FODs: axis 3 is the fastest.

    See :func:`pack_volumes`.
    """
    n_coefficients = stored.shape[3]
    buffer = np.empty((max(BUFFER_VALUES // n_coefficients, 1), n_coefficients), np.float32)
    parts: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = []  # positions in the file, values
    n_invalid = n_kept = 0
    for first in range(0, isotropic.size, len(buffer)):
        chunk = buffer[: isotropic.size - first]
        numbers.read(chunk.reshape(-1))
        used = np.flatnonzero(chunk[:, 0] != 0)
        values = chunk.take(used, axis=0)
        if np.count_nonzero(chunk != 0) > np.count_nonzero(values != 0):
            used = np.flatnonzero((chunk != 0).any(axis=1))
            values = chunk.take(used, axis=0)
        is_finite = np.isfinite(values)
        if not is_finite.all():
            whole = is_finite.all(axis=1)
            n_invalid += len(used) - int(whole.sum())
            used, values = used[whole], values[whole]
        n_kept += len(used)
        stored.check_memory(n_kept * n_coefficients * values.itemsize)
        isotropic[first + used] = values[:, 0]
        parts.append((first + used, values))
    in_file = np.zeros(isotropic.size, np.bool_)
    for positions, _ in parts:
        in_file[positions] = True
    cells, found = _find(stored, in_file)
    rows = np.full(stored.shape[:3], -1, np.int32)
    rows.reshape(-1)[cells] = np.arange(len(cells), dtype=np.int32)
    row_at = np.empty(isotropic.size, np.int32)  # of each place in the file
    row_at[found] = np.arange(len(cells), dtype=np.int32)
    packed = np.empty((len(cells), n_coefficients), np.float32)
    while parts:
        positions, values = parts.pop()
        packed[row_at[positions]] = values
    return PackedVoxels(packed, rows, n_invalid)


def _find(
    stored: StoredImage, in_file: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where voxels lie in an (x, y, z) array, ascending, and where in the file."""
    cells = np.flatnonzero(stored.arranged(in_file, 3))
    at = stored.arranged(np.arange(math.prod(stored.shape[:3])), 3)
    return cells, at.reshape(-1).take(cells)


def _kept(values: NDArray[np.float32], is_kept: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Move the rows that are kept to the front of the array itself, and return those."""
    n = 0
    for first in range(0, len(values), KEPT_ROWS):
        rows = values[first : first + KEPT_ROWS][is_kept[first : first + KEPT_ROWS]]
        values[n : n + len(rows)] = rows
        n += len(rows)
    return values[:n]


class _Columns:
    """A (n_rows, n_columns) float32 array that is filled column by column; rows may be added."""

    def __init__(self, n_columns: int) -> None:
        self._values = np.empty((0, n_columns), np.float32)
        self._block = np.empty((BLOCK_VOLUMES, 0), np.float32)
        self._first = self._next = 0  # columns: of the block, and to be added

    def grow(self, n_rows: int) -> None:
        """Append rows of zeros until there are so many."""
        self._write()
        values = np.zeros((n_rows, self._values.shape[1]), np.float32)
        values[: len(self._values)] = self._values
        self._values = values
        self._block = np.empty((BLOCK_VOLUMES, n_rows), np.float32)

    def add(self, column: NDArray[np.float32]) -> None:
        """Fill the next column."""
        if self._next - self._first == BLOCK_VOLUMES:
            self._write()
        self._block[self._next - self._first] = column
        self._next += 1

    def values(self) -> NDArray[np.float32]:
        """Return the array."""
        self._write()
        return self._values

    def _write(self) -> None:
        n = self._next - self._first
        self._values[:, self._first : self._next] = self._block[:n].T
        self._first = self._next
