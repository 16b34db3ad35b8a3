"""The FOD at unit vectors, and its derivatives, from interpolated coefficients.

The FOD at a position is a sum of even harmonics, in the form of
:mod:`napari_tractography.fields.polynomials`: for each order m the real and imaginary part of
(x + i y)^m, times z where m is odd, times a polynomial in v = z^2 - s(m). Of an asymmetric FOD the
odd harmonics are a second such sum, with z where m is even. All is by multiplication and addition
in one stated order, so that every backend has the same bits.

Parameters that recur: `coefficients` are those of one position, (n,) float32, or of all lanes,
(n, N_LANES) float32, as they are read by FETCH; `shifts` are the s(m), a tuple for
whose length, lmax + 1, or lmax + 2 of asymmetric FODs, the code is compiled, with all loops written
out; x, y and z are a unit vector in RAS+ axes, of numbers or vectors.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ....runtime.compiling import bound, inlined, unrolled
from ..lanes import N_LANES, filled, load_from, load_some
from ..llvm import by_length

WIDTH = np.uint64(N_LANES)
ONE = np.float32(1)
TWO = np.float32(2)
# Unsigned: Numba then compiles no test whether an index counts from the end.
FIRST, ONE_MORE, TWO_MORE = np.uint64(0), np.uint64(1), np.uint64(2)
FOUR = np.float32(4)
SIX = np.float32(6)


@inlined
def number(coefficients, at):
    """Return one coefficient of one position."""
    return coefficients[at]


@inlined
def everywhere(coefficients, at):
    """Return one coefficient of one position, for a vector of directions."""
    return filled(coefficients[at])


@inlined
def lanes(coefficients, at):
    """Return one coefficient of all lanes."""
    return load_from(coefficients, at * WIDTH)


@inlined
def some_lanes(coefficients, at):
    """Return one coefficient of CLIMBERS lanes, from the first of an array on."""
    return load_some(coefficients, at * WIDTH)


# In the functions below: how coefficients are read, `number` or one of the others; lmax; and the
# largest degree whose parity is left out, of the odd ones or of none.
FETCH, LMAX, REST = number, 0, -1


def _value(shifts, coefficients, x, y, z):
    """Return the FOD at unit vectors, without any positivity."""
    w = z * z
    at = FIRST
    for largest in range(LMAX, REST, -1):  # of the even degrees, and of the odd ones
        v = w - shifts[0]
        term = FETCH(coefficients, at)
        at += ONE_MORE
        for _ in range(largest >> 1):
            term = term * v + FETCH(coefficients, at)
            at += ONE_MORE
        if largest == LMAX:  # noqa: SIM108 - a statement, which is decided beforehand
            value = term
        else:
            value = value + term * z
        re, im = x, y  # of (x + i y)^m
        for m in range(1, largest + 1):
            v = w - shifts[m]
            cosine, sine = FETCH(coefficients, at), FETCH(coefficients, at + ONE_MORE)
            at += TWO_MORE
            for _ in range((largest - m) >> 1):
                cosine = cosine * v + FETCH(coefficients, at)
                sine = sine * v + FETCH(coefficients, at + ONE_MORE)
                at += TWO_MORE
            term = cosine * re + sine * im
            if (largest - m) & 1:
                term = term * z
            value = value + term
            re, im = x * re - y * im, x * im + y * re
    return value


def _convolved(shifts, coefficients, numbers, x, y, z):
    """Return the FOD at unit vectors, convolved about them; see :mod:`...tables.cone_mass`."""
    w = z * z
    at, k = FIRST, FIRST + ONE_MORE
    for largest in range(LMAX, REST, -1):
        v = w - shifts[0]
        term = x - x
        for power in range(largest >> 1, -1, -1):
            factor = numbers[k]
            k += ONE_MORE
            for _ in range(power):
                factor = factor * v + numbers[k]
                k += ONE_MORE
            term = term + factor * FETCH(coefficients, at)
            at += ONE_MORE
        if largest == LMAX:  # noqa: SIM108 - a statement, which is decided beforehand
            value = term
        else:
            value = value + term * z
        re, im = x, y  # of (x + i y)^m
        for m in range(1, largest + 1):
            v = w - shifts[m]
            cosine = sine = x - x
            for power in range((largest - m) >> 1, -1, -1):
                factor = numbers[k]
                k += ONE_MORE
                for _ in range(power):
                    factor = factor * v + numbers[k]
                    k += ONE_MORE
                cosine = cosine + factor * FETCH(coefficients, at)
                sine = sine + factor * FETCH(coefficients, at + ONE_MORE)
                at += TWO_MORE
            term = cosine * re + sine * im
            if (largest - m) & 1:
                term = term * z
            value = value + term
            re, im = x * re - y * im, x * im + y * re
    return value


def _derivatives(shifts, coefficients, x, y, z):
    """Return the FOD at unit vectors, its gradient in space and its second derivatives.

    What is zero whatever the coefficients is left out, a fifth of all: the compiler, which has to
    mind infinities, would work it out.

    Returns
    -------
    value, gx, gy, gz, hxx, hxy, hxz, hyz, hzz
        The second derivative by y is minus that by x.
    """
    w = z * z
    zero = x - x
    at = FIRST
    for largest in range(LMAX, REST, -1):
        v = w - shifts[0]
        # Value, first and half the second derivative.
        p0, p1, p2 = FETCH(coefficients, at), zero, zero
        at += ONE_MORE
        for k in range(largest >> 1):
            if k > 1:
                p2, p1 = p2 * v + p1, p1 * v + p0
            elif k == 1:
                p2, p1 = p1, p1 * v + p0
            else:
                p1 = p0
            p0 = p0 * v + FETCH(coefficients, at)
            at += ONE_MORE
        if largest == LMAX:
            value, gx, gy, gz = p0, zero, zero, TWO * z * p1
            hxx, hxy, hxz, hyz = zero, zero, zero, zero
            hzz = TWO * p1 + FOUR * w * (p2 + p2)
        else:  # with the factor z
            value, gz = value + p0 * z, gz + (p0 + TWO * w * p1)
            hzz = hzz + (SIX * z * p1 + FOUR * w * z * (p2 + p2))
        re, im = x, y  # of (x + i y)^m
        re_1, im_1 = zero + ONE, zero  # of the power m - 1
        re_2, im_2 = zero, zero  # of the power m - 2
        for m in range(1, largest + 1):
            v = w - shifts[m]
            p0, p1, p2 = FETCH(coefficients, at), zero, zero
            q0, q1, q2 = FETCH(coefficients, at + ONE_MORE), zero, zero
            at += TWO_MORE
            for k in range((largest - m) >> 1):
                if k > 1:
                    p2, p1 = p2 * v + p1, p1 * v + p0
                    q2, q1 = q2 * v + q1, q1 * v + q0
                elif k == 1:
                    p2, p1 = p1, p1 * v + p0
                    q2, q1 = q1, q1 * v + q0
                else:
                    p1, q1 = p0, q0
                p0 = p0 * v + FETCH(coefficients, at)
                q0 = q0 * v + FETCH(coefficients, at + ONE_MORE)
                at += TWO_MORE
            # From polynomials in v to functions of z, with the factor z where there is one.
            if (largest - m) & 1:
                if largest - m > 3:
                    bend = FOUR * w * z
                    p2 = SIX * z * p1 + bend * (p2 + p2)
                    q2 = SIX * z * q1 + bend * (q2 + q2)
                elif largest - m > 1:
                    p2 = SIX * z * p1
                    q2 = SIX * z * q1
                if largest - m > 1:
                    slope = TWO * w
                    p1 = p0 + slope * p1
                    q1 = q0 + slope * q1
                else:
                    p1, q1 = p0, q0
                p0 = p0 * z
                q0 = q0 * z
            elif largest - m > 1:
                slope = TWO * z
                if largest - m > 3:
                    bend = FOUR * w
                    p2 = TWO * p1 + bend * (p2 + p2)
                    q2 = TWO * q1 + bend * (q2 + q2)
                else:
                    p2 = TWO * p1
                    q2 = TWO * q1
                p1 = slope * p1
                q1 = slope * q1
            value = value + (p0 * re + q0 * im)
            order, pairs = np.float32(m), np.float32(m * (m - 1))
            if m > 1:
                gx = gx + order * (p0 * re_1 + q0 * im_1)
                gy = gy + order * (q0 * re_1 - p0 * im_1)
                hxx = hxx + pairs * (p0 * re_2 + q0 * im_2)
                hxy = hxy + pairs * (q0 * re_2 - p0 * im_2)
            elif largest == LMAX:
                gx, gy = p0, q0
            else:
                gx, gy = gx + p0, gy + q0
            if largest > m:
                gz = gz + (p1 * re + q1 * im)
                hxz = hxz + order * (p1 * re_1 + q1 * im_1)
                hyz = hyz + order * (q1 * re_1 - p1 * im_1)
            if largest - m > 1:
                hzz = hzz + (p2 * re + q2 * im)
            re_2, im_2 = re_1, im_1
            re_1, im_1 = re, im
            re, im = x * re - y * im, x * im + y * re
    return value, gx, gy, gz, hxx, hxy, hxz, hyz, hzz


def _for(function, fetch):
    @cache
    def make(length):
        lmax = (length - 1) & ~1
        rest = lmax - (1 if length & 1 else 2)
        return bound(unrolled(function, LMAX=lmax, REST=rest), FETCH=fetch)

    return by_length(function, make)


value_at = _for(_value, number)
values_of_lanes = _for(_value, lanes)
values_at = _for(_value, everywhere)
convolved_of_lanes = _for(_convolved, lanes)
derivatives_at = _for(_derivatives, number)
derivatives_of_some = _for(_derivatives, some_lanes)
values_of_some = _for(_value, some_lanes)
