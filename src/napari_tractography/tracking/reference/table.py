"""Rows of the table filled, and interpolated at points; as the kernel does, bit for bit.

The twin of :mod:`napari_tractography.tracking.cpu.cells`, for many points and rows at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..codes import (
    ABOVE,
    EVERYWHERE,
    EXCESS,
    NEAR,
    POINTS_AT_ONCE,
    UNFILLED_BITS,
    Field,
)
from .evaluation import HALF, ONE, TWO, ZERO, Array, degrees_of, values_at
from .search import climb, cosine_of, dot

ROWS_AT_ONCE = 64  # so that what is evaluated stays in the cache


def to_voxel(matrix: Array, position: Array) -> Any:
    """Map RAS+ mm, (3, n) float32, to voxel coordinates by a (3, 4) float32 matrix."""
    return dot(matrix.T[:, :, None], position) + matrix[:, 3:]


def are_inside(field: Field, voxels: Array) -> Any:
    """Tell which voxels, (3, ...) int, are those of the image."""
    shape = np.reshape(field.voxel_rows.shape, (3,) + (1,) * (voxels.ndim - 1))
    return ((voxels >= 0) & (voxels < shape)).all(0)


def rows_at(field: Field, voxels: Array) -> Any:
    """Return the rows of voxels, (3, ...) int; the last row stands for those without an FOD."""
    is_inside = are_inside(field, voxels)
    rows = field.voxel_rows[tuple(np.where(is_inside, voxels, 0))]
    return np.where(is_inside & (rows >= 0), rows, len(field.values))


def cells_at(field: Field, position: Array, is_nearest: bool) -> tuple[Any, Any, Any]:
    """Find the voxels around points whose FODs mix there.

    Returns
    -------
    rows, weights
        (1 or 8, n), of the corners of the cell. Corner k is at its far end along x, y and z where
        bits 2, 1 and 0 of k are set.
    row
        (n,), of the voxel that is nearest to each point.
    """
    v = to_voxel(field.to_voxel, position)
    if is_nearest:
        rows = rows_at(field, np.floor(v + HALF).astype(np.int64)[:, None])
        return rows, np.ones(rows.shape, np.float32), rows[0]
    corner = np.floor(v)
    f = v - corner
    ends = np.stack([ONE - f, f])  # (2, 3, n)
    weights = ends[:, None, None, 0] * ends[None, :, None, 1] * ends[None, None, :, 2]
    far = np.indices((2, 2, 2)).reshape(3, 8, 1)
    rows = rows_at(field, corner.astype(np.int64)[:, None] + far)
    nearest = ((f >= HALF) * [[4], [2], [1]]).sum(0)
    return rows, weights.reshape(8, -1), rows[nearest, np.arange(len(nearest))]


def mixed(table: Array, weights: Array) -> Any:
    """Return sums over corners, in their order, of (corners, n, ...) weighted by (corners, n)."""
    weights = weights.reshape(weights.shape + (1,) * (table.ndim - 2))
    total = weights[0] * table[0]
    for weight, numbers in zip(weights[1:], table[1:], strict=True):
        total = total + weight * numbers
    return total


def are_filled(field: Field, rows: Array) -> Any:
    """Tell for which points the rows of their cells, (corners, n), are filled, all of them."""
    return (field.coefficients[rows, field.values.shape[1]] != UNFILLED_BITS).all(0)


def ensure_rows(field: Field, rows: Array) -> None:
    """Fill those of some rows of the table that are not filled yet."""
    empty = np.unique(rows[~are_filled(field, rows[None])])
    if len(empty):
        fill_rows(field, empty)


def coefficients_at(field: Field, rows: Array) -> Any:
    """Return the coefficients in (n,) rows, filled or not, (n_coefficients, n) float32.

    Of those that are not, what :func:`fill_rows` would write; bounds, which take long, are left.
    """
    found = field.coefficients[rows, : field.values.shape[1]].view(np.float16)
    is_empty = ~are_filled(field, rows[None])
    if is_empty.any():
        found[is_empty] = half_floats_of(field, rows[is_empty])[:, : found.shape[1]]
    return np.ascontiguousarray(found.astype(np.float32).T)


def half_floats_of(field: Field, rows: Array) -> Any:
    """Return the polynomials of the FODs in rows, (n, n_padded) float16."""
    values = field.values[rows]
    total = values[:, 0, None] * field.change[0]
    for k in range(1, values.shape[1]):
        total = total + values[:, k, None] * field.change[k]
    return total.astype(np.float16)


def fill_rows(field: Field, rows: Array) -> None:
    """Fill rows of the table: coefficients, mean amplitudes and, last of all, bounds."""
    n_coefficients = field.values.shape[1]
    half_floats = half_floats_of(field, rows)
    coefficients = np.ascontiguousarray(half_floats.astype(np.float32).T)  # as they are read
    points = field.sphere_points
    parts = np.split(coefficients, range(ROWS_AT_ONCE, len(rows), ROWS_AT_ONCE), axis=1)
    amplitudes = np.concatenate(
        [values_at(field.shifts, part, *points[:, :, None]) for part in parts], axis=1
    )
    means = sum_of_positive(amplitudes) / np.float32(len(amplitudes))
    best = amplitudes.argmax(0)
    largest = amplitudes[best, np.arange(len(rows))]
    u = np.zeros((3, len(rows)), np.float32)
    top, bounds = climb(field.shifts, coefficients, u, EVERYWHERE, ZERO, points[:, best], largest)
    cosines = dot(points[:, :, None], top)
    near = cosine_of(field.shifts, NEAR)
    opposite = -TWO if degrees_of(field.shifts)[1] else -near  # a lobe of its own, or the same
    is_elsewhere = (cosines < near) & (cosines > opposite)  # other lobes may be higher
    others = np.where(is_elsewhere, amplitudes, ZERO).max(0)
    bounds = np.where(largest > ZERO, np.maximum(bounds, EXCESS * others), ZERO)
    bound_bits = (np.asarray(bounds) * ABOVE).astype(np.float16).view(np.uint16)
    is_bound = np.arange(half_floats.shape[1]) == n_coefficients
    field.coefficients[np.ix_(rows, ~is_bound)] = half_floats[:, ~is_bound].view(np.uint16)
    field.masses[rows] = means
    field.coefficients[rows, n_coefficients] = bound_bits


def sum_of_positive(amplitudes: Array) -> Any:
    """Return the sums of (n_directions, n) amplitudes where they are positive, as kernels add."""
    total = np.zeros((POINTS_AT_ONCE, amplitudes.shape[1]), np.float32)
    for first in range(0, len(amplitudes), POINTS_AT_ONCE):
        some = amplitudes[first : first + POINTS_AT_ONCE]
        total = total + np.where(some > ZERO, some, ZERO)
    while len(total) > 1:
        half = len(total) // 2
        total = total[:half] + total[half:]
    return total[0]
