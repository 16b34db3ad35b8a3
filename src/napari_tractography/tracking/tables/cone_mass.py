"""A lower bound of the mass in a cone, from the FOD along its axis alone.

The mass is a sum over directions, each with its weight, of what is positive. No such sum is less
than that of the FOD with weights that are as large at the most. With those for which all moments
of order m > 0 about the axis vanish it is a convolution: the parts of the FOD of each degree, times
a number each, along the axis. Kernels sum over all directions only where this bound is too low to
tell that a streamline goes on.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.polynomial import Legendre
from numpy.typing import NDArray

from ...fields.polynomials import largest_degrees
from ..codes import EXCESS
from .builders import cone_points, sphere_points
from .cone_quadrature import MIRRORED, cone_quadrature, degrees, from_polynomials, harmonic

# Singular values below this part of the largest are dropped: with fewer dropped the moments that
# are left are smaller, and so are the weights. Projections in turn onto weights without moments and
# onto those between none and all of each come near to both: a cone of 45 degrees at lmax 8 keeps
# 0.91 of all weights.
CUT = 0.1
PROJECTIONS = 20
ROUNDING = 2e-3  # of the mean size of the FOD: above the rounding of sums in 32 bits up to lmax 16


@lru_cache(maxsize=8)
def cone_mass(max_angle_deg: float, lmax: int, is_asymmetric: bool = False) -> NDArray[np.float32]:
    """Return the numbers of the bound for sums over :func:`.builders.cone_points`.

    Returns
    -------
    (n,) float32, read-only
        Twice the uncertainty, in units of the mean size of the FOD. Then, for m = 0 to lmax and
        each power of the polynomials in the order of their coefficients, the polynomial in its
        place, the highest power first; see :mod:`napari_tractography.fields.polynomials`. The
        uncertainty times the mean of the FOD is added: with twice the mean of what is positive it
        makes that of the size.
    """
    points = cone_points(max_angle_deg, lmax)
    n_points = points.shape[1]
    return _numbers(points, np.full(n_points, 1.0 / n_points), lmax, is_asymmetric)


@lru_cache(maxsize=8)
def quadrature_mass(max_angle_deg: float, lmax: int) -> NDArray[np.float32]:
    """Return the same for sums over the rings of :func:`.cone_quadrature.cone_quadrature`."""
    quarter = cone_quadrature(max_angle_deg, lmax).points.astype(np.float64)
    points = (quarter[:3, :, None] * MIRRORED.T[:, None]).reshape(3, -1)
    weights = np.repeat(quarter[3], len(MIRRORED))
    points = np.concatenate([points, [[0.0], [0.0], [1.0]]], axis=1)
    return _numbers(points, np.append(weights, 1.0 - weights.sum()), lmax)


def _numbers(
    points: NDArray[Any], weights: NDArray[Any], lmax: int, is_asymmetric: bool = False
) -> NDArray[np.float32]:
    """Return them for directions (3, n) around the z axis, and their weights, 1 in all."""
    every_degree = largest_degrees(lmax, is_asymmetric)
    moments = weights * _around_axis(points, every_degree)
    squared = np.linalg.pinv(moments @ moments.T, rcond=CUT * CUT, hermitian=True)
    parts = np.ones(len(weights))  # of each weight
    for _ in range(PROJECTIONS):
        parts = np.clip(parts - moments.T @ (squared @ (moments @ parts)), 0.0, 1.0)
    sphere = _around_axis(sphere_points(lmax, is_asymmetric), every_degree)
    left = np.abs((moments @ parts) @ sphere).max(initial=0.0)
    uncertainty = 4.0 * math.pi * float(EXCESS) * float(left) + ROUNDING
    z = points[2].astype(np.float64)
    numbers = [2.0 * uncertainty]
    for largest, m in _sums(every_degree):
        change = from_polynomials(m, largest)
        factors = [(weights * parts) @ Legendre.basis(degree)(z) for degree in degrees(m, largest)]
        convolved = np.linalg.solve(change, np.array(factors)[:, None] * change)
        if m == 0 and largest == lmax:  # the mean over the sphere is that of degree 0
            convolved[-1] += uncertainty * change[-1] * harmonic(0, 0, np.ones(1))
        for k in range(len(change)):
            numbers += list(convolved[k:, k])
    array = np.array(numbers, np.float32)
    array.flags.writeable = False
    return array


def _sums(every_degree: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the largest degree and the order m of each polynomial, in the order of kernels."""
    return [(largest, m) for largest in every_degree for m in range(largest + 1)]


def _around_axis(points: NDArray[Any], every_degree: tuple[int, ...]) -> NDArray[np.float64]:
    """Return orthonormal harmonics of orders m > 0, a row for each, at directions (3, n)."""
    x, y, z = points.astype(np.float64)
    rows = [np.zeros((0, len(z)))]
    for largest, m in _sums(every_degree):
        if m == 0:
            continue
        power = (x + 1j * y) ** m
        for degree in degrees(m, largest):
            scaled = power * harmonic(degree, m, z)
            rows.append(np.stack([scaled.real, scaled.imag]))
    return np.concatenate(rows)
