"""Peaks of FODs: the directions in which fibres run.

Called by the plugin, which shows them as vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..fields.input_kind import VECTORS
from ..geometry.directions import direction_set, neighbour_table
from ..model.fod import Fod

VOXELS_A_BLOCK = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Peaks:
    """The largest peaks of each voxel."""

    voxels: NDArray[np.int64]  # (n, 3) int64: voxel of each peak
    directions: NDArray[np.float32]  # (n, 3) float32: unit vectors, RAS+
    amplitudes: NDArray[np.float32]  # (n,) float32: FOD amplitudes at the peaks
    # Whether signs of directions mean something, as in an asymmetric FOD, where a fibre that runs
    # through is two peaks.
    is_one_way: bool = False


def fod_peaks(
    fod: Fod, *, n_peaks: int = 3, min_amplitude: float = 0.05, n_directions: int = 724
) -> Peaks:
    """Find the local maxima of each voxel's FOD; of an input of vectors, those themselves.

    Of a set of `n_directions` one is a peak when no neighbour has a larger amplitude; its position
    is then refined to the top of the quadratic through it and its neighbours. A voxel has its
    largest `n_peaks` at most, twice as many in an asymmetric FOD, none of them below
    `min_amplitude`.
    """
    if fod.input_kind.kernel == VECTORS:
        return _peaks_of_vectors(fod, n_peaks, min_amplitude)
    units = direction_set(n_directions)
    half = n_directions // 2  # opposite ones are alike
    if fod.is_asymmetric:
        half, n_peaks = n_directions, 2 * n_peaks
    neighbours, slopes, tangents = neighbour_table(n_directions)
    matrix = fod.sample_matrix(units[:half]).T.astype(np.float32)
    voxels = np.argwhere(fod.support)
    found: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]] = []
    for first in range(0, fod.n_voxels, VOXELS_A_BLOCK):
        amplitudes = fod.values[first : first + VOXELS_A_BLOCK] @ matrix
        around = amplitudes[:, neighbours[:half] % half]
        is_peak = (amplitudes >= around.max(axis=2)) & (amplitudes >= min_amplitude)
        order = np.argsort(np.where(is_peak, -amplitudes, np.inf), axis=1)[:, :n_peaks]
        rows = np.broadcast_to(np.arange(len(amplitudes))[:, None], order.shape)
        keep = is_peak[rows, order]
        rows, columns = rows[keep], order[keep]
        found.append(
            (rows + first, columns, around[rows, columns] - amplitudes[rows, columns, None])
        )
    rows, columns, differences = map(np.concatenate, zip(*found, strict=True))
    fa, fb, faa, fab, fbb = np.einsum("nm,nmd->dn", differences, slopes[columns])
    determinant = faa * fbb - fab * fab
    curved = (determinant > 0) & (faa < 0)
    safe = np.where(curved, determinant, 1.0)
    a = np.where(curved, (fab * fb - fbb * fa) / safe, 0.0)
    b = np.where(curved, (fab * fa - faa * fb) / safe, 0.0)
    reach = np.sqrt(4 * np.pi / n_directions)  # the distance between neighbours
    size = np.maximum(np.hypot(a, b) / reach, 1.0)
    shift = np.stack([a / size, b / size], axis=1)
    directions = units[columns] + np.einsum("ni,nij->nj", shift, tangents[columns])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    amplitudes = (fod.values[rows] * fod.sample_matrix(directions)).sum(axis=1)
    return Peaks(
        voxels=np.asarray(voxels[rows], dtype=np.int64),
        directions=np.asarray(directions, dtype=np.float32),
        amplitudes=np.asarray(amplitudes, dtype=np.float32),
        is_one_way=fod.is_asymmetric,
    )


def _peaks_of_vectors(fod: Fod, n_peaks: int, min_amplitude: float) -> Peaks:
    """Return the peaks that an FOD was made of."""
    assert fod.vectors is not None
    vectors = fod.vectors.numbers.reshape(fod.n_voxels, -1, 3)[:, :n_peaks]
    amplitudes = np.linalg.norm(vectors, axis=2)
    rows, columns = np.nonzero((amplitudes >= min_amplitude) & (amplitudes > 0))
    found = amplitudes[rows, columns]
    return Peaks(
        voxels=np.argwhere(fod.support)[rows].astype(np.int64),
        directions=vectors[rows, columns] / found[:, None],
        amplitudes=found,
    )
