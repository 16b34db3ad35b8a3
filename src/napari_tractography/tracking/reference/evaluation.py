"""The FOD at unit vectors, and its derivatives, in the form of :mod:`...fields.polynomials`.

The first axis of `coefficients` is that of the polynomials, the others go together with those of
x, y and z. As in :mod:`napari_tractography.tracking.cpu.sphere.evaluation`, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...fields.polynomials import largest_degrees
from ..codes import EXP, LIMIT, LOG, SIXTEENTH, SOFTPLUS, Settings

Array = Any  # of float32, or one number
ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)
HALF, FOUR, SIX = np.float32(0.5), np.float32(4), np.float32(6)


def degrees_of(shifts: tuple[Array, ...]) -> tuple[int, bool]:
    """Return the largest degree of an FOD, and whether there are odd ones, too."""
    return (len(shifts) - 1) // 2 * 2, len(shifts) % 2 == 0


def values_at(shifts: tuple[Array, ...], coefficients: Array, x: Array, y: Array, z: Array) -> Any:
    """Return the FOD at unit vectors, without any positivity."""
    numbers = iter(coefficients)
    w = z * z
    zero = np.zeros_like(x)  # sums are of the shape of all; in place, for speed
    value: Array = None
    for largest in largest_degrees(*degrees_of(shifts)):
        v = w - shifts[0]
        term = next(numbers) + zero
        for _ in range(largest // 2):
            term *= v
            term += next(numbers)
        value = term if value is None else value + term * z
        re, im = x, y  # of (x + i y)^m
        for m in range(1, largest + 1):
            v = w - shifts[m]
            cosine, sine = next(numbers) + zero, next(numbers) + zero
            for _ in range((largest - m) // 2):
                cosine *= v
                sine *= v
                cosine += next(numbers)
                sine += next(numbers)
            cosine *= re
            sine *= im
            cosine += sine
            if (largest - m) % 2:
                cosine *= z
            value += cosine
            re, im = x * re - y * im, x * im + y * re
    return value


def derivatives_at(
    shifts: tuple[Array, ...], coefficients: Array, x: Array, y: Array, z: Array
) -> tuple[Any, ...]:
    """Return the gradient of the FOD in space and its second derivatives.

    Returns
    -------
    gx, gy, gz, hxx, hxy, hxz, hyz, hzz
        The second derivative by y is minus that by x.
    """
    numbers = iter(coefficients)
    w, zero = z * z, np.zeros_like(x)

    def polynomial(degree: int, v: Array, is_complex: bool) -> Any:
        """Return value, first and half the second derivative by v, of real and imaginary part."""
        parts = [[next(numbers), zero, zero] for _ in range(1 + is_complex)]
        for _ in range(degree):
            for p in parts:
                p[2] = p[2] * v + p[1]
                p[1] = p[1] * v + p[0]
                p[0] = p[0] * v + next(numbers)
        return parts

    gx = gy = gz = hxx = hxy = hxz = hyz = hzz = zero
    for largest in largest_degrees(*degrees_of(shifts)):
        ((p0, p1, p2),) = polynomial(largest // 2, w - shifts[0], False)
        if largest % 2:  # with the factor z
            gz = gz + (p0 + TWO * w * p1)
            hzz = hzz + (SIX * z * p1 + FOUR * w * z * (p2 + p2))
        else:
            gz = TWO * z * p1
            hzz = TWO * p1 + FOUR * w * (p2 + p2)
        re, im = x, y  # of (x + i y)^m
        re_1, im_1 = zero + ONE, zero  # of the power m - 1
        re_2, im_2 = zero, zero  # of the power m - 2
        for m in range(1, largest + 1):
            (p0, p1, p2), (q0, q1, q2) = polynomial((largest - m) // 2, w - shifts[m], True)
            # From polynomials in v to functions of z, with the factor z where there is one.
            if (largest - m) % 2:
                slope, bend = TWO * w, FOUR * w * z
                p2, q2 = SIX * z * p1 + bend * (p2 + p2), SIX * z * q1 + bend * (q2 + q2)
                p1, q1 = p0 + slope * p1, q0 + slope * q1
                p0, q0 = p0 * z, q0 * z
            else:
                slope, bend = TWO * z, FOUR * w
                p2, q2 = TWO * p1 + bend * (p2 + p2), TWO * q1 + bend * (q2 + q2)
                p1, q1 = slope * p1, slope * q1
            order, pairs = np.float32(m), np.float32(m * (m - 1))
            gx = gx + order * (p0 * re_1 + q0 * im_1)
            gy = gy + order * (q0 * re_1 - p0 * im_1)
            gz = gz + (p1 * re + q1 * im)
            hxx = hxx + pairs * (p0 * re_2 + q0 * im_2)
            hxy = hxy + pairs * (q0 * re_2 - p0 * im_2)
            hxz = hxz + order * (p1 * re_1 + q1 * im_1)
            hyz = hyz + order * (q1 * re_1 - p1 * im_1)
            hzz = hzz + (p2 * re + q2 * im)
            re_2, im_2 = re_1, im_1
            re_1, im_1 = re, im
            re, im = x * re - y * im, x * im + y * re
    return gx, gy, gz, hxx, hxy, hxz, hyz, hzz


def positive(settings: Settings, amplitude: Array) -> Any:
    """Return the amplitudes that count; with clipping, negative ones stay."""
    if settings.positivity != SOFTPLUS:
        return amplitude
    scaled = settings.sharpness * amplitude
    size = np.where(scaled >= ZERO, scaled, ZERO - scaled)
    t = SIXTEENTH * np.where(size < LIMIT, size, LIMIT)
    power: Array = EXP[0]
    for factor in EXP[1:]:
        power = power * t + factor
    for _ in range(4):  # to the 16th
        power = power * power
    log: Array = LOG[0]
    for factor in LOG[1:]:
        log = log * power + factor
    return (np.where(scaled >= ZERO, scaled, ZERO) + power * log) / settings.sharpness
