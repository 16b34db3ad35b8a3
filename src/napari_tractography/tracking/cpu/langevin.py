"""Diffusion and transport: Langevin dynamics of the direction on the sphere.

The direction u follows du = gamma grad log f dt + sqrt(2 gamma) gamma_noise dW while the position
follows dx = u dt, t in mm; transport is the same without noise. Each step moves along the
exponential map of the sphere (geometric Euler scheme; Cotter & Leimkuhler's review of such schemes
is in Leimkuhler & Matthews, "Molecular Dynamics", 2015), as in Tractography.jl. Where f does not
depend on the position, the stationary law of u is f^(1 / gamma_noise^2).

Orthonormal tangents after Duff et al., "Building an orthonormal basis, revisited", JCGT 6(1), 2017.
"""
# mypy: ignore-errors

from __future__ import annotations

import math

import numpy as np

from ...directions import N_NEIGHBOURS
from ...fod import SOFTPLUS_SHARPNESS
from ...parameters import LONGEST_ADAPTIVE, SHORTEST_ADAPTIVE
from ..codes import (
    DIFFUSION,
    DIRECT,
    LOW_AMPLITUDE,
    LOW_PROBABILITY,
    SOFTPLUS,
)
from .draw import HALF, UNIT_24, ZERO, interpolated_amplitude, is_cone_mass_below, philox_block
from .llvm import compiled, inlined

ONE_F = np.float32(1)
TWO_PI = np.float32(2.0 * math.pi)
SHARPNESS = np.float32(SOFTPLUS_SHARPNESS)
LONGEST = np.float32(LONGEST_ADAPTIVE)
STEEPEST = np.float32(LONGEST_ADAPTIVE / SHORTEST_ADAPTIVE)
SHIFT_8 = np.uint64(8)


@compiled
def nearest_index(field, i, ux, uy, uz):
    """Return the direction of the set nearest to a unit vector, climbing from direction i."""
    directions = field.directions
    best = directions[i, 0] * ux + directions[i, 1] * uy + directions[i, 2] * uz
    while True:
        start = i
        for n in range(N_NEIGHBOURS):
            j = field.neighbours[start, n]
            cosine = directions[j, 0] * ux + directions[j, 1] * uy + directions[j, 2] * uz
            if cosine > best:
                best = cosine
                i = np.int64(j)
        if i == start:
            return i


@inlined
def amplitude_of(field, rows, quanta, n, i):
    """Return the interpolated amplitude of one direction of the full set."""
    n_half = field.directions.shape[0] // 2
    j = i - n_half if i >= n_half else i
    return interpolated_amplitude(field, rows, quanta, n, j)


@compiled
def tabulated_fod(field, rows, quanta, n, i, ux, uy, uz):
    """Return FOD and gradient at a unit vector near direction i, from the table.

    To second order; the gradient is that of a function of space which agrees on the sphere.
    """
    centre = amplitude_of(field, rows, quanta, n, i)
    fa, fb, faa, fab, fbb = ZERO, ZERO, ZERO, ZERO, ZERO
    for m in range(N_NEIGHBOURS):
        difference = amplitude_of(field, rows, quanta, n, np.int64(field.neighbours[i, m])) - centre
        fa += field.slopes[i, m, 0] * difference
        fb += field.slopes[i, m, 1] * difference
        faa += field.slopes[i, m, 2] * difference
        fab += field.slopes[i, m, 3] * difference
        fbb += field.slopes[i, m, 4] * difference
    tangent = field.tangents[i]
    a = tangent[0, 0] * ux + tangent[0, 1] * uy + tangent[0, 2] * uz
    b = tangent[1, 0] * ux + tangent[1, 1] * uy + tangent[1, 2] * uz
    along_a = fa + faa * a + fab * b
    along_b = fb + fab * a + fbb * b
    value = centre + HALF * (a * (fa + along_a) + b * (fb + along_b))
    gx = along_a * tangent[0, 0] + along_b * tangent[1, 0]
    gy = along_a * tangent[0, 1] + along_b * tangent[1, 1]
    gz = along_a * tangent[0, 2] + along_b * tangent[1, 2]
    return max(value, ZERO), gx, gy, gz


@compiled
def evaluate_harmonics(coefficients, lmax, legendre, x, y, z):
    """Evaluate even harmonics and their gradient in space at a unit vector.

    The basis is that of harmonics.py: polynomials in x, y and z, so that nothing is special at
    the poles. `coefficients` may be of any voxel or an interpolation.
    """
    value, gx, gy, gz = ZERO, ZERO, ZERO, ZERO
    cos_m, sin_m = ONE_F, ZERO  # Re and Im of (x + i y)^m
    cos_below, sin_below = ZERO, ZERO  # of the power m - 1
    for m in range(lmax + 1):
        for column in range(2):  # derivatives of order m and m + 1 of the Legendre polynomials
            order = m + column
            row = legendre[column]
            if order <= lmax:
                row[order] = ONE_F
            if order + 1 <= lmax:
                row[order + 1] = np.float32(2 * order + 1) * z
            for degree in range(order + 2, lmax + 1):
                row[degree] = (
                    np.float32(2 * degree - 1) * z * row[degree - 1]
                    - np.float32(degree + order - 1) * row[degree - 2]
                ) / np.float32(degree - order)
        for degree in range(m + (m & 1), lmax + 1, 2):
            centre = degree * (degree + 1) // 2
            cosine = coefficients[centre + m]
            sine = coefficients[centre - m] if m > 0 else ZERO
            polar = legendre[0, degree]
            angular = cosine * cos_m + sine * sin_m
            value += polar * angular
            if m > 0:
                scaled = np.float32(m) * polar
                gx += scaled * (cosine * cos_below + sine * sin_below)
                gy += scaled * (sine * cos_below - cosine * sin_below)
            if degree > m:
                gz += np.float32(2 * m + 1) * legendre[1, degree] * angular
        cos_below, sin_below = cos_m, sin_m
        cos_m, sin_m = x * cos_below - y * sin_below, x * sin_below + y * cos_below
    return value, gx, gy, gz


@compiled
def direct_fod(field, settings, scratch, rows, n, ux, uy, uz):
    """Return FOD and gradient at a unit vector from the interpolated SH coefficients."""
    mixed = scratch.coefficients
    for c in range(mixed.shape[0]):
        total = ZERO
        for k in range(n):
            total += scratch.weights[k] * field.harmonics[rows[k], c]
        mixed[c] = total
    turn = field.to_frame
    vx = turn[0, 0] * ux + turn[0, 1] * uy + turn[0, 2] * uz
    vy = turn[1, 0] * ux + turn[1, 1] * uy + turn[1, 2] * uz
    vz = turn[2, 0] * ux + turn[2, 1] * uy + turn[2, 2] * uz
    value, hx, hy, hz = evaluate_harmonics(mixed, field.lmax, scratch.legendre, vx, vy, vz)
    gx = turn[0, 0] * hx + turn[1, 0] * hy + turn[2, 0] * hz
    gy = turn[0, 1] * hx + turn[1, 1] * hy + turn[2, 1] * hz
    gz = turn[0, 2] * hx + turn[1, 2] * hy + turn[2, 2] * hz
    if settings.positivity == SOFTPLUS:
        scaled = SHARPNESS * value
        small = np.float32(math.exp(-abs(scaled)))
        slope = (ONE_F if scaled > ZERO else small) / (ONE_F + small)
        value = (max(scaled, ZERO) + np.float32(math.log1p(small))) / SHARPNESS
        return value, slope * gx, slope * gy, slope * gz
    return max(value, ZERO), gx, gy, gz


@compiled
def gaussians(settings, stream, step, purpose):
    """Return two standard normal numbers, after Box and Muller (1958)."""
    r0, r1, _, _ = philox_block(
        np.uint64(stream),
        np.uint64(step),
        np.uint64(0),
        np.uint64(purpose),
        settings.key_0,
        settings.key_1,
    )
    first = (np.float32(r0 >> SHIFT_8) + ONE_F) * UNIT_24  # in (0, 1]
    angle = TWO_PI * (np.float32(r1 >> SHIFT_8) * UNIT_24)
    radius = np.float32(math.sqrt(np.float32(-2) * np.float32(math.log(first))))
    return radius * np.float32(math.cos(angle)), radius * np.float32(math.sin(angle))


@compiled
def turn_direction(field, settings, scratch, rows, n, i, ux, uy, uz, limit, stream, step, purpose):
    """Turn the direction by one step of the dynamics.

    Returns the nearest direction of the set, or minus a stop reason; the new unit vector; and the
    length of the step.
    """
    quanta = scratch.quanta
    if settings.evaluation == DIRECT:
        value, gx, gy, gz = direct_fod(field, settings, scratch, rows, n, ux, uy, uz)
    else:
        value, gx, gy, gz = tabulated_fod(field, rows, quanta, n, i, ux, uy, uz)
    length = settings.step
    if value < settings.min_amplitude or not value > ZERO:
        return -LOW_AMPLITUDE, ux, uy, uz, length
    if amplitude_of(field, rows, quanta, n, i) <= limit and is_cone_mass_below(
        field, rows, quanta, n, i, limit
    ):
        return -LOW_PROBABILITY, ux, uy, uz, length
    along = gx * ux + gy * uy + gz * uz
    dx, dy, dz = (gx - along * ux) / value, (gy - along * uy) / value, (gz - along * uz) / value
    if settings.adaptive:
        steepness = max(ONE_F, dx * dx + dy * dy + dz * dz)
        length = settings.step * LONGEST / min(steepness, STEEPEST)
    drift = settings.gamma * length
    tx, ty, tz = drift * dx, drift * dy, drift * dz
    if settings.algorithm == DIFFUSION:
        a, b = gaussians(settings, stream, step, purpose)
        size = np.float32(math.sqrt(np.float32(2) * drift)) * settings.gamma_noise
        a, b = size * a, size * b
        sign = ONE_F if uz >= ZERO else -ONE_F
        s = -ONE_F / (sign + uz)
        t = ux * uy * s
        tx += a * (ONE_F + sign * ux * ux * s) + b * t
        ty += a * sign * t + b * (sign + uy * uy * s)
        tz += -a * sign * ux - b * uy
    angle = np.float32(math.sqrt(tx * tx + ty * ty + tz * tz))
    if angle > ZERO:
        turned = min(angle, settings.max_angle)
        cosine = np.float32(math.cos(turned))
        sine = np.float32(math.sin(turned)) / angle
        ux, uy, uz = cosine * ux + sine * tx, cosine * uy + sine * ty, cosine * uz + sine * tz
        norm = np.float32(math.sqrt(ux * ux + uy * uy + uz * uz))
        ux, uy, uz = ux / norm, uy / norm, uz / norm
        i = nearest_index(field, i, ux, uy, uz)
    return i, ux, uy, uz, length
