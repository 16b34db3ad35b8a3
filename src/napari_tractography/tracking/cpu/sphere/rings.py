"""The FOD of each lane in rings around its direction, side by side.

The FOD is turned until the direction is the z axis: about z, in the form of :mod:`.evaluation`;
then, as harmonics, about y, which is a turn about z between two exchanges of y and z (Pinchon &
Hoggan, J. Phys. A 40, 2007). On a ring around the z axis it is a sum of cosines and sines, one of
each for every order, which give four directions at once.

Harmonics are kept degree after degree; of a degree l the l / 2 + 1 cosines of even order come
first, then l / 2 sines of odd order, cosines of odd order and sines of even order each.

All lanes are turned at once, so that each number of a matrix is read once; rings are sampled for
CLIMBERS lanes at a time, whose sums stay in registers.

Parameters that recur: arrays of lanes are (n, N_LANES) float32; `shifts` is a tuple for whose
length, lmax + 1, the code is compiled, with all loops written out.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ....runtime.compiling import inlined, unrolled
from ...codes import FAR
from ..lanes import CLIMBERS, N_LANES, load_from, load_some
from ..llvm import by_length, roots, select
from ..memory import number_at, stay, store_to
from .peaks import degree_of
from .tangents import newton_step

WIDTH = np.int64(N_LANES)
ZERO, HALF, ONE, SMALL = np.float32(0), np.float32(0.5), np.float32(1), np.float32(1e-3)
LMAX = 0  # in the functions below


@inlined
def cosine_at(degree, m):
    """Return the index of the cosine of order m among the harmonics of a degree."""
    if m & 1:
        return ((degree * (degree - 1)) >> 1) + degree + 1 + (m >> 1)
    return ((degree * (degree - 1)) >> 1) + (m >> 1)


@inlined
def sine_at(degree, m):
    """Return the index of the sine of order m."""
    if m & 1:
        return ((degree * (degree - 1)) >> 1) + (degree >> 1) + 1 + (m >> 1)
    return ((degree * (degree - 1)) >> 1) + degree + (degree >> 1) + (m >> 1)


def _tilt(shifts, turning, coefficients, azimuth, polar, turned, tilted):
    """Turn the FODs of all lanes until a direction is the z axis: about z, then about y.

    Parameters
    ----------
    turning : (n,) float32
        See :func:`napari_tractography.tracking.tables.cone_quadrature.turning`.
    coefficients : (n_padded, N_LANES) float32
        See :mod:`.evaluation`.
    azimuth, polar : tuple
        Cosine and sine, vectors.
    turned : (n_padded, N_LANES) float32
        Overwritten.
    tilted : (n_padded, N_LANES) float32
        Of harmonics; written.
    """
    k = to_harmonics(shifts, turning, coefficients, azimuth, tilted)
    exchange_y_and_z(shifts, turning, k, tilted, turned)
    cosine, sine = polar
    re, im = cosine, sine  # of (cosine + i sine)^m
    for m in range(1, LMAX + 1):
        for row in range(((LMAX - m) >> 1) + 1):
            a, b = cosine_at(LMAX - 2 * row, m) * WIDTH, sine_at(LMAX - 2 * row, m) * WIDTH
            first, second = load_from(turned, a), load_from(turned, b)
            store_to(turned, a, first * re - second * im)
            store_to(turned, b, first * im + second * re)
        re, im = cosine * re - sine * im, cosine * im + sine * re
    exchange_y_and_z(shifts, turning, k, turned, tilted)


def _to_harmonics(shifts, turning, source, azimuth, target):
    """Write the harmonics of polynomials, turned about z; return how many numbers that took."""
    k, at = 0, 0
    re, im = azimuth  # of (cosine + i sine)^m
    for m in range(LMAX + 1):
        cosines: tuple[Any, ...] = ()
        sines: tuple[Any, ...] = ()
        for _ in range(((LMAX - m) >> 1) + 1):
            first = load_from(source, at * WIDTH)
            at += 1
            if m > 0:
                second = load_from(source, at * WIDTH)
                at += 1
                cosines = (*cosines, first * re + second * im)
                sines = (*sines, second * re - first * im)
            else:
                cosines = (*cosines, first)
        if m > 0:
            re, im = azimuth[0] * re - azimuth[1] * im, azimuth[0] * im + azimuth[1] * re
        for row in range(((LMAX - m) >> 1) + 1):
            number = number_at(turning, k)
            cosine = number * cosines[0]
            if m > 0:
                sine = number * sines[0]
            for j in range(1, row + 1):
                number = number_at(turning, k + j)
                cosine = cosine + number * cosines[j]
                if m > 0:
                    sine = sine + number * sines[j]
            k += row + 1
            store_to(target, cosine_at(LMAX - 2 * row, m) * WIDTH, cosine)
            if m > 0:
                store_to(target, sine_at(LMAX - 2 * row, m) * WIDTH, sine)
    return k


def _exchange_y_and_z(shifts, turning, k, source, target):
    """Write harmonics of (x, z, y) to `target`; `k` is where the numbers for that begin.

    What a matrix is multiplied by is read once, before anything is written: the compiler cannot
    know that `source` and `target` are apart.
    """
    for half in range((LMAX >> 1) + 1):
        at = half * (2 * half - 1)
        evens: tuple[Any, ...] = ()
        odds: tuple[Any, ...] = ()
        cosines: tuple[Any, ...] = ()
        sines: tuple[Any, ...] = ()
        for j in range(half + 1):
            evens = (*evens, load_from(source, (at + j) * WIDTH))
        for i in range(half + 1):
            total = number_at(turning, k) * evens[0]
            for j in range(1, half + 1):
                total = total + number_at(turning, k + j) * evens[j]
            k += half + 1
            store_to(target, (at + i) * WIDTH, total)
        for j in range(half):
            odds = (*odds, load_from(source, (at + half + 1 + j) * WIDTH))
        for i in range(half):
            total = number_at(turning, k) * odds[0]
            for j in range(1, half):
                total = total + number_at(turning, k + j) * odds[j]
            k += half
            store_to(target, (at + half + 1 + i) * WIDTH, total)
        for j in range(half):
            cosines = (*cosines, load_from(source, (at + 2 * half + 1 + j) * WIDTH))
            sines = (*sines, load_from(source, (at + 3 * half + 1 + j) * WIDTH))
        for i in range(half):
            cosine = number_at(turning, k + i * half) * sines[0]
            sine = number_at(turning, k + i) * cosines[0]
            for j in range(1, half):
                cosine = cosine + number_at(turning, k + i * half + j) * sines[j]
                sine = sine + number_at(turning, k + i + j * half) * cosines[j]
            store_to(target, (at + 2 * half + 1 + i) * WIDTH, cosine)
            store_to(target, (at + 3 * half + 1 + i) * WIDTH, sine)
        k += half * half


def _ahead(shifts, tilted, axis):
    """Return the FOD of CLIMBERS lanes along the z axis, and its derivatives there.

    Returns
    -------
    value, ga, gb, haa, hab, hbb
        The derivatives along x and y; the first ones, then the second ones, on the sphere.
    """
    n = (LMAX >> 1) + 1
    cosine = load_some(tilted, cosine_at(LMAX, 0) * WIDTH)
    value, down = number_at(axis, 0) * cosine, number_at(axis, n) * cosine
    ga = gb = along = across = value - value
    for row in range(1, n):
        cosine = load_some(tilted, cosine_at(LMAX - 2 * row, 0) * WIDTH)
        value = value + number_at(axis, row) * cosine
        down = down + number_at(axis, n + row) * cosine
    for row in range(LMAX >> 1):
        number, degree = number_at(axis, 2 * n + row), LMAX - 2 * row
        ga = ga + number * load_some(tilted, cosine_at(degree, 1) * WIDTH)
        gb = gb + number * load_some(tilted, sine_at(degree, 1) * WIDTH)
        number = number_at(axis, 3 * n + row)
        along = along + number * load_some(tilted, cosine_at(degree, 2) * WIDTH)
        across = across + number * load_some(tilted, sine_at(degree, 2) * WIDTH)
    return value, ga, gb, along - down, across, ZERO - along - down


def _ring(shifts, tilted, heights, at):
    """Return cosines and sines of each order on a ring, for CLIMBERS lanes.

    Its heights begin at `at`.
    """
    parts: tuple[Any, ...] = ()
    for m in range(LMAX + 1):
        number = number_at(heights, at)
        cosine = number * load_some(tilted, cosine_at(LMAX, m) * WIDTH)
        if m > 0:
            sine = number * load_some(tilted, sine_at(LMAX, m) * WIDTH)
        for row in range(1, ((LMAX - m) >> 1) + 1):
            number = number_at(heights, at + row)
            cosine = cosine + number * load_some(tilted, cosine_at(LMAX - 2 * row, m) * WIDTH)
            if m > 0:
                sine = sine + number * load_some(tilted, sine_at(LMAX - 2 * row, m) * WIDTH)
        at += ((LMAX - m) >> 1) + 1
        parts = (*parts, cosine)
        if m > 0:
            parts = (*parts, sine)
    return parts


def _around(shifts, parts, azimuths, at):
    """Return the FOD at a direction of a ring and at its mirror images.

    They are those of (x, y), (x, -y), (-x, y) and (-x, -y).
    """
    even = parts[0]
    odd = side_even = side_odd = even - even
    for m in range(1, LMAX + 1):
        cosine = number_at(azimuths, at + 2 * m - 2) * parts[2 * m - 1]
        sine = number_at(azimuths, at + 2 * m - 1) * parts[2 * m]
        if m == 1:
            odd, side_odd = cosine, sine
        elif m == 2:
            even, side_even = even + cosine, sine
        elif m & 1:
            odd, side_odd = odd + cosine, side_odd + sine
        else:
            even, side_even = even + cosine, side_even + sine
    along, against = even + odd, even - odd
    same, other = side_odd + side_even, side_odd - side_even
    return along + same, along - same, against + other, against - other


def _for(function):
    @cache
    def make(length):
        return unrolled(function, LMAX=length - 1)

    return by_length(function, make)


to_harmonics = _for(_to_harmonics)
exchange_y_and_z = _for(_exchange_y_and_z)
tilt = _for(_tilt)
along_axis = _for(_ahead)
ring = _for(_ring)
around = _for(_around)


@inlined
def secant_of(shifts, settings):
    """Return that of the longest step from the axis: some FAR, and within the cone."""
    far = FAR / degree_of(shifts)
    return min(ONE + HALF * far * far, ONE / max(settings.cone_cosine, SMALL))


@inlined
def sample_rings(field, settings, coefficients, scratch, cosine, sine, radius, uz):
    """Sample rings around (radius cosine, radius sine, uz), of all lanes.

    Amplitudes are left in ``scratch.lane_amplitudes``, that of the axis as the last; in rows of
    ``scratch.tried`` the number of the largest, 1, and it, 3; and a Newton step from the axis, 0,
    2 and 4, which is the axis where there is none that stays in the cone.
    """
    shifts, rings, azimuths = field.shifts, field.quadrature_rings, field.quadrature_azimuths
    n_points, n_heights, n_azimuths = (
        field.quadrature_points.shape[1],
        field.quadrature_heights.shape[1],
        azimuths.shape[1],
    )
    tried, furthest = scratch.tried, secant_of(shifts, settings)
    tilt(
        shifts,
        field.turning,
        coefficients,
        (cosine, sine),
        (uz, radius),
        scratch.turned,
        scratch.tilted,
    )
    for first in range(0, N_LANES, CLIMBERS):
        tilted, seen = scratch.tilted[:, first:], scratch.lane_amplitudes[:, first:]
        best, ga, gb, haa, hab, hbb = along_axis(shifts, tilted, field.quadrature_axis)
        a, b, bent_down = newton_step(ga, gb, haa, hab, hbb)
        length = roots(ONE + a * a + b * b)
        leads_up = bent_down & (length < furthest)
        store_to(tried, first, select(leads_up, a / length, ZERO))
        store_to(tried, 2 * N_LANES + first, select(leads_up, b / length, ZERO))
        store_to(tried, 4 * N_LANES + first, select(leads_up, ONE / length, ONE))
        store_to(seen, 4 * n_points * N_LANES, best)
        best_j = select(best < best, best, np.float32(4 * n_points))
        for i in range(len(rings) - 1):
            stay()
            parts = ring(shifts, tilted, field.quadrature_heights, rings[i] * n_heights)
            for k in range(rings[i], rings[i + 1]):
                values = around(shifts, parts, azimuths, k * n_azimuths)
                for mirror in range(4):
                    value, j = values[mirror], 4 * k + mirror
                    store_to(seen, j * N_LANES, value)
                    higher = value > best
                    best = select(higher, value, best)
                    best_j = select(higher, np.float32(j), best_j)
        store_to(tried, N_LANES + first, best_j)
        store_to(tried, 3 * N_LANES + first, best)
