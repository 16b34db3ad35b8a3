"""The table of an FOD, and the directions at which kernels sample it; on the CPU.

The rows of a table are filled by the kernel when a streamline first comes near, so that no time
goes into those that no streamline reaches: see ``fill_row`` of
:mod:`napari_tractography.tracking.cpu.cells`. Where the coefficients lie on a GPU,
:mod:`napari_tractography.tracking.cuda.tables` fills all of them there.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...fields.polynomials import change_of_basis, polynomial_matrix
from ...geometry.directions import GOLDEN_ANGLE_RAD, direction_set
from ...model.fod import Fod
from ...runtime.buffers import aligned
from ..codes import ABOVE, EXCESS, PADDING, POINTS_AT_ONCE
from .data import FodTable, empty_rows

# Directions of the half sphere at which the FOD of a voxel is evaluated once, over lmax squared:
# 736 for lmax 8, with none further than 4.4 degrees from any direction.
BOUND_DIRECTIONS = 11.5
# Of the cone, per direction at which it is sampled; a lobe of lmax 8 is ten
# times as large.
SOLID_ANGLE = 1.9  # steradians, over lmax squared
WORD = 64  # voxels, a bit each
LARGEST_HALF = 60000.0  # float
SIGNIFICANT = 9  # digits of the change of basis: the same numbers with every linear algebra library


def build_table(fod: Fod) -> FodTable:
    """Make the table of an FOD, its rows empty."""
    n_rows, n_coefficients = fod.values.shape
    change = padded_change(fod)
    scale = suitable_scale(fod.values, change, fod.lmax, fod.is_asymmetric)
    return FodTable(
        voxel_rows=fod.voxel_rows,
        words=words_of(fod.voxel_rows),
        values=fod.values,
        change=change * scale,
        **empty_rows(n_rows, n_coefficients, change.shape[1]),
        to_voxel=to_voxel_matrix(fod),
        lmax=fod.lmax,
        is_asymmetric=fod.is_asymmetric,
        scale=scale,
    )


def words_of(voxel_rows: NDArray[np.int32]) -> NDArray[np.uint64]:
    """Return `words` of a :class:`FodTable`, by the rows of its voxels, which ascend."""
    held = voxel_rows >= 0
    bits = bits_of_voxels(held)
    words = aligned((len(bits), 2), np.uint64)
    words[:, 0] = bits
    before = np.cumsum(held.ravel(), dtype=np.int32)[WORD - 1 :: WORD]
    words[1:, 1] = before[: len(bits) - 1]
    return words


def bits_of_voxels(volume: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a bit for each voxel in C order, the lowest first: 1 where a volume is not 0."""
    bits = np.packbits(volume.ravel(), bitorder="little")
    return np.pad(bits, (0, -len(bits) % 8)).view("<u8").astype(np.uint64, copy=False)


def suitable_scale(
    values: Any, change: NDArray[np.float32], lmax: int, is_asymmetric: bool = False
) -> np.float32:
    """Return the power of two that brings a table's largest number near the largest half float.

    Half floats have 11 digits over 30 powers of two, of which voxels with little in them need the
    lower ones.

    Parameters
    ----------
    values : (n_rows, n_coefficients) float32
        The FOD's own coefficients, on the host or on a GPU, the current device.
    change : (n_coefficients, n_padded) float32
        To the basis of the table.
    lmax : int
        Largest degree.
    is_asymmetric : bool
        Whether there are odd degrees, too.
    """
    points = np.asarray(sphere_points(lmax, is_asymmetric)).T
    polynomials = polynomial_matrix(points, lmax, is_asymmetric)
    amplitudes = change[:, : values.shape[1]] @ polynomials.T
    # Of the coefficients, and of the bounds, which are larger with lmax 2 and below.
    most_each = max(_largest_sum(change), float(EXCESS * ABOVE) * _largest_sum(amplitudes))
    largest = max(float(values.max()), -float(values.min()))
    return np.float32(2.0 ** math.floor(math.log2(LARGEST_HALF / (largest * most_each))))


def _largest_sum(matrix: NDArray[Any]) -> float:
    """Return the largest that a column of a matrix gives for coefficients from -1 to 1."""
    return float(np.abs(matrix).sum(axis=0).max())


def padded_change(fod: Fod) -> NDArray[np.float32]:
    """Return the change to the polynomial basis, (n_coefficients, n_padded) float32."""
    change = change_of_basis(fod.sample_matrix, fod.lmax, fod.is_asymmetric).T
    digits = SIGNIFICANT - math.ceil(math.log10(float(np.abs(change).max())))
    n_coefficients = len(change)
    n_padded = (n_coefficients // PADDING + 1) * PADDING  # there is room for the bound, too
    padded = np.zeros((n_coefficients, n_padded), np.float32)
    padded[:, :n_coefficients] = np.round(change, digits)
    return padded


def to_voxel_matrix(fod: Fod) -> NDArray[np.float32]:
    """Return the (3, 4) float32 matrix from RAS+ mm to voxel coordinates."""
    return np.ascontiguousarray(fod.grid.inverse[:3], dtype=np.float32)


@lru_cache(maxsize=4)
def sphere_points(lmax: int, is_asymmetric: bool = False) -> NDArray[np.float32]:
    """Return directions of the half sphere, (3, n) float32, read-only.

    Of the whole sphere, as dense, for an asymmetric FOD.
    """
    n = _whole(BOUND_DIRECTIONS * lmax * lmax)
    points = np.ascontiguousarray(direction_set(2 * n)[: 2 * n if is_asymmetric else n].T)
    points.flags.writeable = False
    return points


@lru_cache(maxsize=8)
def cone_points(max_angle_deg: float, lmax: int) -> NDArray[np.float32]:
    """Return directions spread evenly over a cone around the z axis, (3, n) float32, read-only.

    They lie on a spiral, in rings of the same area (Vogel, Math. Biosci. 44, 1979).
    """
    height = 1.0 - math.cos(math.radians(max_angle_deg))
    n = _whole(2 * math.pi * height * max(lmax, 2) ** 2 / SOLID_ANGLE)
    index = np.arange(n)
    z = 1.0 - height * (index + 0.5) / n
    azimuth = index * GOLDEN_ANGLE_RAD
    radius = np.sqrt(1.0 - z * z)
    points = np.stack([radius * np.cos(azimuth), radius * np.sin(azimuth), z])
    points = np.ascontiguousarray(points, dtype=np.float32)
    points.flags.writeable = False
    return points


def _whole(wanted: float) -> int:
    """Return the smallest multiple of POINTS_AT_ONCE that is at least `wanted`, and not 0."""
    return max(math.ceil(wanted / POINTS_AT_ONCE), 1) * POINTS_AT_ONCE
