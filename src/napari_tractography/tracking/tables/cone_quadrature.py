"""The directions at which deterministic tracking samples a cone, and the numbers that turn an FOD.

They lie in rings around the axis of the cone. With the FOD in axes of which that is the z axis, a
ring takes one number for each order of the harmonics, and they give four directions at once.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import Legendre
from numpy.typing import NDArray

from ...fields.polynomials import shifts
from ...geometry.directions import direction_set
from ..codes import N_AROUND

# Between the rings, and within a ring, times lmax: half the distance of lobes.
RING_DEG, ALONG_RING_DEG = 90.0, 80.0
FEWEST, FEWEST_RINGS = 2, 2  # directions of a quarter of a ring, and rings
# How much closer directions are on the border of a cone with that few rings. All of it is near one
# lobe there, and what is largest may lie on the border between two directions: of 10,000 steps in a
# brain of lmax 4 with a cone of 25.7 degrees 8 missed it, by up to 6 %, now 1 by 0.3 %.
RIM = 2
# A direction of the first quarter of a ring, and its mirror images.
MIRRORED = np.array([[1, 1, 1], [1, -1, 1], [-1, 1, 1], [-1, -1, 1]])
FIT_DIRECTIONS = 512
SIGNIFICANT = 9  # digits: the same numbers with every linear algebra library


class ConeQuadrature(NamedTuple):
    """The directions at which a cone is sampled, with their weights; all arrays are read-only."""

    # (4, n) float32: a unit vector in the first quarter of a ring around the z axis, x and y
    # positive, and what fraction of the cone it stands for; so do its mirror images (x, -y), (-x,
    # y) and (-x, -y). What is missing from 1 in all is that of the axis.
    points: NDArray[np.float32]
    # (4 n + 1, N_AROUND) int32: the nearest of them; 4 k is number k, then come its mirror images,
    # and 4 n is the axis.
    neighbours: NDArray[np.int32]
    # (n_rings + 1,) int64: the first of `points` of each ring, and their number.
    rings: NDArray[np.int64]
    # (n, n_heights) float32: what harmonics of degree l and order m have in common there, m after
    # m.
    heights: NDArray[np.float32]
    # (n, 2 lmax) float32: cosine and sine of m times the azimuth, from m = 1 on.
    azimuths: NDArray[np.float32]
    # (4, lmax / 2 + 1) float32: on the axis, of degrees lmax, lmax - 2, ...: the value of order 0
    # and minus its second derivative, the derivative of order 1, the second derivative of order 2;
    # 0 where a degree has no such order.
    axis: NDArray[np.float32]


@lru_cache(maxsize=8)
def cone_quadrature(max_angle_deg: float, lmax: int) -> ConeQuadrature:
    """Return the directions at which a cone of this half-angle is sampled."""
    degree = max(lmax, 2)
    n_rings = max(math.ceil(max_angle_deg * degree / RING_DEG - 0.01), FEWEST_RINGS)
    apart = math.radians(max_angle_deg) / n_rings
    whole = 1.0 - math.cos(n_rings * apart)
    polar = apart * np.arange(1, n_rings + 1)
    sizes, azimuth, fraction = [], [], []
    for angle in polar:
        around = math.tau * math.sin(angle) * degree / math.radians(ALONG_RING_DEG)
        if n_rings == FEWEST_RINGS and angle == polar[-1]:
            around *= RIM
        n = max(math.ceil(around / 4 - 0.05), FEWEST)
        outer = min(angle + apart / 2, n_rings * apart)
        part = (math.cos(angle - apart / 2) - math.cos(outer)) / whole / (4 * n)
        sizes.append(n)
        azimuth += [(k + 0.5) * math.pi / (2 * n) for k in range(n)]
        fraction += [part] * n
    across = np.repeat(np.sin(polar), sizes)
    units = np.stack(
        [across * np.cos(azimuth), across * np.sin(azimuth), np.repeat(np.cos(polar), sizes)]
    )
    orders = np.array(azimuth)[:, None] * np.arange(1, lmax + 1)
    return ConeQuadrature(
        points=_read_only(np.stack([*units, fraction]), np.float32),
        neighbours=_read_only(_neighbours(units), np.int32),
        rings=_read_only([0, *np.cumsum(sizes)], np.int64),
        heights=_read_only(np.repeat(_heights(polar, lmax), sizes, axis=0), np.float32),
        azimuths=_read_only(
            np.stack([np.cos(orders), np.sin(orders)], axis=2).reshape(len(orders), -1), np.float32
        ),
        axis=along_axis(lmax),
    )


def _neighbours(units: NDArray[np.float64]) -> NDArray[Any]:
    """Return `neighbours` of :class:`ConeQuadrature`."""
    every = (units.T[:, None] * MIRRORED).reshape(-1, 3)
    every = np.concatenate([every, [[0, 0, 1]]])
    nearness = np.round(every @ every.T, 9) - 9.0 * np.eye(len(every))
    nearest = np.argsort(-nearness, axis=1, kind="stable")[:, :N_AROUND]
    return np.pad(nearest, ((0, 0), (0, N_AROUND - nearest.shape[1])), mode="edge")


def _heights(polar: NDArray[Any], lmax: int) -> NDArray[Any]:
    """Return `heights` of :class:`ConeQuadrature`, of rings at these angles."""
    columns = [
        np.sin(polar) ** m * harmonic(degree, m, np.cos(polar))
        for m in range(lmax + 1)
        for degree in degrees(m, lmax)
    ]
    return np.stack(columns, axis=1)


@lru_cache(maxsize=4)
def along_axis(lmax: int) -> NDArray[np.float32]:
    """Return `axis` of :class:`ConeQuadrature`.

    A harmonic of order 0 changes with z = 1 - (x^2 + y^2) / 2, by l (l + 1) / 2 of it; those of
    orders 1 and 2 are x and y, x^2 - y^2 and 2 x y, times what :func:`harmonic` gives.
    """
    every = range(lmax, -1, -2)
    values = [float(harmonic(degree, 0, np.ones(1))[0]) for degree in every]
    bends = [value * degree * (degree + 1) / 2 for value, degree in zip(values, every, strict=True)]
    first, second = (
        [float(harmonic(degree, m, np.ones(1))[0]) if degree else 0.0 for degree in every]
        for m in (1, 2)
    )
    return _read_only([values, bends, first, [2 * number for number in second]], np.float32)


@lru_cache(maxsize=4)
def turning(lmax: int) -> NDArray[np.float32]:
    """Return the numbers by which kernels turn an FOD, (n,) float32, read-only.

    First those that take it from polynomials, see :mod:`napari_tractography.fields.polynomials`, to
    orthonormal harmonics: for each order those of each degree, of as many coefficients as count.
    Then, for each degree, what exchanges y and z: of cosines of even order; of sines of odd order;
    and the cosines of odd order by the sines of even order, the transpose of which leads back. By
    exchanging y and z before and after, a turn about y is one about z (Pinchon & Hoggan, J. Phys.
    A 40, 2007).
    """
    numbers: list[float] = []
    for m in range(lmax + 1):
        change = from_polynomials(m, lmax)
        for row in range(len(change)):
            numbers += list(change[row, : row + 1])
    for degree in range(0, lmax + 1, 2):
        exchange = _exchange(degree)
        even, odd = slice(0, degree // 2 + 1), slice(degree // 2 + 1, degree + 1)
        cosines, sines = slice(degree + 1, 3 * degree // 2 + 1), slice(3 * degree // 2 + 1, None)
        for rows, columns in ((even, even), (odd, odd), (cosines, sines)):
            numbers += list(exchange[rows, columns].ravel())
    return _read_only(numbers, np.float32)


def degrees(m: int, lmax: int) -> range:
    """Return the degrees of harmonics of order m, the highest first; odd ones if `lmax` is odd."""
    return range(lmax, m - 1 if m > 0 else -1, -2)


def harmonic(degree: int, m: int, z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what an orthonormal harmonic has besides the real part of (x + i y)^m."""
    ratio = math.factorial(degree - m) / math.factorial(degree + m)
    scale = math.sqrt((2 * degree + 1) / (4 * math.pi) * ratio * (2 if m else 1))
    return np.asarray(scale * Legendre.basis(degree).deriv(m)(z), np.float64)


def from_polynomials(m: int, lmax: int) -> NDArray[Any]:
    """Return the change to harmonics of order m: a row for each, a column for each power."""
    n = len(degrees(m, lmax))
    z = np.cos((np.arange(4 * n) + 0.5) * math.pi / (8 * n))
    parity = z if (lmax - m) % 2 else np.ones_like(z)
    shift = float(shifts(lmax)[m])
    powers = np.stack([parity * (z * z - shift) ** k for k in range(n - 1, -1, -1)], axis=1)
    harmonics = np.stack([harmonic(degree, m, z) for degree in degrees(m, lmax)], axis=1)
    change = np.tril(np.linalg.lstsq(harmonics, powers, rcond=None)[0])
    return np.round(change, SIGNIFICANT)


def _exchange(degree: int) -> NDArray[Any]:
    """Return the matrix that exchanges y and z for harmonics of one degree.

    In the order in which kernels keep them: cosines of even orders, sines of odd orders, cosines
    of odd orders, sines of even orders.
    """
    units = direction_set(FIT_DIRECTIONS).astype(np.float64)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    here, there = (_harmonics(degree, units[:, axes]) for axes in ([0, 1, 2], [0, 2, 1]))
    exchange: NDArray[Any] = np.linalg.lstsq(here, there, rcond=None)[0]
    return np.round(exchange, SIGNIFICANT)


def _harmonics(degree: int, units: NDArray[np.float64]) -> NDArray[Any]:
    x, y, z = units.T
    powers = {m: (x + 1j * y) ** m * harmonic(degree, m, z) for m in range(degree + 1)}
    even, odd = range(0, degree + 1, 2), range(1, degree + 1, 2)
    columns = [powers[m].real for m in even] + [powers[m].imag for m in odd]
    columns += [powers[m].real for m in odd] + [powers[m].imag for m in even if m]
    return np.stack(columns, axis=1)


def _read_only(numbers: Any, dtype: Any) -> NDArray[Any]:
    array = np.ascontiguousarray(numbers, dtype)
    array.flags.writeable = False
    return array
