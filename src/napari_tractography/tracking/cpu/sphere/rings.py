"""The FOD of each lane in rings around its direction, side by side.

The FOD is turned until the direction is the z axis: about z, in the form of :mod:`.evaluation`;
then, as harmonics, about y, which is a turn about z between two exchanges of y and z (Pinchon &
Hoggan, J. Phys. A 40, 2007). On a ring around the z axis it is a sum of cosines and sines, one of
each for every order, which give four directions at once.

Harmonics are kept degree after degree; of a degree l the l / 2 + 1 cosines of even order come
first, then l / 2 sines of odd order, cosines of odd order and sines of even order each.

Parameters that recur: arrays of lanes are (n, N_LANES) float32, from the first of CLIMBERS lanes
on; `shifts` is a tuple for whose length, lmax + 1, the code is compiled, with all loops written
out.
"""
# mypy: ignore-errors

from __future__ import annotations

from functools import cache

import numpy as np

from ....compiling import inlined, unrolled
from ..lanes import CLIMBERS, N_LANES, load_some
from ..llvm import by_length, select
from ..memory import number_at, stay, store_to

WIDTH = np.int64(N_LANES)
LMAX = 0  # in the functions below


@inlined
def cosine_at(degree, m):
    """Return the place of the cosine of order m among the harmonics of a degree."""
    if m & 1:
        return ((degree * (degree - 1)) >> 1) + degree + 1 + (m >> 1)
    return ((degree * (degree - 1)) >> 1) + (m >> 1)


@inlined
def sine_at(degree, m):
    """Return the place of the sine of order m."""
    if m & 1:
        return ((degree * (degree - 1)) >> 1) + (degree >> 1) + 1 + (m >> 1)
    return ((degree * (degree - 1)) >> 1) + degree + (degree >> 1) + (m >> 1)


def _tilt(shifts, turning, turned, tilted, cosine, sine):
    """Turn FODs about y until (sine, 0, cosine) is the z axis.

    Parameters
    ----------
    turning : (n,) float32
        See :func:`napari_tractography.tracking.tables.looks.turning`.
    turned : (n_padded, N_LANES) float32
        Coefficients as of :mod:`.evaluation`; overwritten.
    tilted : (n_padded, N_LANES) float32
        Of harmonics; written.
    """
    k = to_harmonics(shifts, turning, turned, tilted)
    exchange_y_and_z(shifts, turning, k, tilted, turned)
    re, im = cosine, sine  # of (cosine + i sine)^m
    for m in range(1, LMAX + 1):
        for row in range(((LMAX - m) >> 1) + 1):
            a, b = cosine_at(LMAX - 2 * row, m) * WIDTH, sine_at(LMAX - 2 * row, m) * WIDTH
            first, second = load_some(turned, a), load_some(turned, b)
            store_to(turned, a, first * re - second * im)
            store_to(turned, b, first * im + second * re)
        re, im = cosine * re - sine * im, cosine * im + sine * re
    exchange_y_and_z(shifts, turning, k, turned, tilted)


def _to_harmonics(shifts, turning, source, target):
    """Write the harmonics of polynomials to `target`; return how many numbers that took."""
    k, at = 0, 0
    for m in range(LMAX + 1):
        cosines, sines = (), ()
        for _ in range(((LMAX - m) >> 1) + 1):
            cosines = (*cosines, load_some(source, at * WIDTH))
            at += 1
            if m > 0:
                sines = (*sines, load_some(source, at * WIDTH))
                at += 1
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
        evens, odds, cosines, sines = (), (), (), ()
        for j in range(half + 1):
            evens = (*evens, load_some(source, (at + j) * WIDTH))
        for j in range(half):
            odds = (*odds, load_some(source, (at + half + 1 + j) * WIDTH))
            cosines = (*cosines, load_some(source, (at + 2 * half + 1 + j) * WIDTH))
            sines = (*sines, load_some(source, (at + 3 * half + 1 + j) * WIDTH))
        for i in range(half + 1):
            total = number_at(turning, k) * evens[0]
            for j in range(1, half + 1):
                total = total + number_at(turning, k + j) * evens[j]
            k += half + 1
            store_to(target, (at + i) * WIDTH, total)
        for i in range(half):
            total = number_at(turning, k) * odds[0]
            for j in range(1, half):
                total = total + number_at(turning, k + j) * odds[j]
            k += half
            store_to(target, (at + half + 1 + i) * WIDTH, total)
        for i in range(half):
            cosine = number_at(turning, k + i * half) * sines[0]
            sine = number_at(turning, k + i) * cosines[0]
            for j in range(1, half):
                cosine = cosine + number_at(turning, k + i * half + j) * sines[j]
                sine = sine + number_at(turning, k + i + j * half) * cosines[j]
            store_to(target, (at + 2 * half + 1 + i) * WIDTH, cosine)
            store_to(target, (at + 3 * half + 1 + i) * WIDTH, sine)
        k += half * half


def _ring(shifts, tilted, heights, at):
    """Return cosines and sines of each order on a ring, whose heights begin at `at`."""
    parts = ()
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
ring = _for(_ring)
around = _for(_around)


@inlined
def look_at_rings(field, scratch, radius, uz, ahead):
    """Look at rings around (radius, 0, uz), of all lanes.

    Coefficients of the FODs are in ``scratch.turned``, which is overwritten. Amplitudes are left in
    ``scratch.lane_amplitudes``, `ahead`, that of the axis, as the last; the number of the largest
    and it in rows 1 and 3 of ``scratch.tried``.
    """
    shifts, rings, azimuths = field.shifts, field.look_rings, field.look_azimuths
    n_points, n_heights, n_azimuths = (
        field.look_points.shape[1],
        field.look_heights.shape[1],
        azimuths.shape[1],
    )
    tried = scratch.tried
    store_to(scratch.lane_amplitudes, 4 * n_points * N_LANES, ahead)
    store_to(tried, 0, radius)
    store_to(tried, N_LANES, uz)
    for first in range(0, N_LANES, CLIMBERS):
        turned, tilted = scratch.turned[:, first:], scratch.tilted[:, first:]
        seen = scratch.lane_amplitudes[:, first:]
        sine, cosine = load_some(tried, first), load_some(tried, N_LANES + first)
        tilt(shifts, field.turning, turned, tilted, cosine, sine)
        best = load_some(seen, 4 * n_points * N_LANES)
        place = select(best < best, best, np.float32(4 * n_points))
        for i in range(len(rings) - 1):
            stay()
            parts = ring(shifts, tilted, field.look_heights, rings[i] * n_heights)
            for k in range(rings[i], rings[i + 1]):
                values = around(shifts, parts, azimuths, k * n_azimuths)
                for mirror in range(4):
                    value, j = values[mirror], 4 * k + mirror
                    store_to(seen, j * N_LANES, value)
                    higher = value > best
                    best = select(higher, value, best)
                    place = select(higher, np.float32(j), place)
        store_to(tried, N_LANES + first, place)
        store_to(tried, 3 * N_LANES + first, best)
