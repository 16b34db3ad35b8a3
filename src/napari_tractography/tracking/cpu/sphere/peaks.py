"""The largest amplitude in a cone: looked for at directions spread over it, then climbed to.

Both work on one streamline; the directions are looked at side by side. A direction u and the
half-angle of the cone around it are given, as cosine and sine; a cosine of EVERYWHERE stands for
the whole sphere.
"""
# mypy: ignore-errors

from __future__ import annotations

import math

import numpy as np

from ....compiling import compiled, inlined
from ...codes import (
    CLIMBS,
    FAR,
    LOBES,
    NEAR,
    NOWHERE,
    POINTS_AT_ONCE,
    PROMISING,
    STILL,
)
from ..lanes import load_from
from ..llvm import bits_of, largest_of, lowest_bit, select
from ..memory import store_to
from .evaluation import derivatives_at, value_at, values_at

ZERO, ONE = np.float32(0), np.float32(1)


@inlined
def tangents_of(x, y, z):
    """Return two unit vectors at right angles to a unit vector and to each other.

    After Duff et al., "Building an orthonormal basis, revisited", JCGT 6(1), 2017.
    """
    sign = ONE if z >= ZERO else -ONE
    a = -ONE / (sign + z)
    b = x * y * a
    return ONE + sign * x * x * a, sign * b, -sign * x, b, sign + y * y * a, -y


@inlined
def normalised(x, y, z):
    """Return a vector of length 1."""
    length = np.float32(math.sqrt(x * x + y * y + z * z))
    return x / length, y / length, z / length


@inlined
def largest_value(amplitudes, n):
    """Return the largest of n amplitudes, and the first place of it."""
    best, place = NOWHERE, 0
    for j in range(0, n, POINTS_AT_ONCE):
        some = load_from(amplitudes, j)
        largest = largest_of(some)
        if largest > best:
            best, place = largest, j + lowest_bit(bits_of(some == largest))
    return best, place


@inlined
def onto_border(ux, uy, uz, cosine, sine, x, y, z):
    """Return the direction of the border of the cone that is nearest to a direction outside."""
    along = ux * x + uy * y + uz * z
    x, y, z = normalised(x - along * ux, y - along * uy, z - along * uz)
    return cosine * ux + sine * x, cosine * uy + sine * y, cosine * uz + sine * z


@compiled
def climb(shifts, coefficients, ux, uy, uz, cosine, sine, x, y, z, value):
    """Climb from a direction, of amplitude `value`, to the peak of its lobe within the cone.

    Newton's method on the sphere. On the border of the cone, where the amplitude still rises
    outwards, it goes along the border.

    Returns
    -------
    x, y, z, value
        The peak, never below where it began.
    """
    first_x, first_y, first_z = x, y, z
    on_border = False
    for _ in range(CLIMBS):
        _, gx, gy, gz, hxx, hxy, hxz, hyz, hzz = derivatives_at(shifts, coefficients, x, y, z)
        along = gx * x + gy * y + gz * z
        outwards = ZERO
        if on_border:
            outwards = (
                gx * (cosine * x - ux) + gy * (cosine * y - uy) + gz * (cosine * z - uz)
            ) / sine
        if outwards > ZERO:
            ax, ay, az = uy * z - uz * y, uz * x - ux * z, ux * y - uy * x
            ax, ay, az = ax / sine, ay / sine, az / sine
            ha = hxx * ax + hxy * ay + hxz * az
            hb = hxy * ax - hxx * ay + hyz * az
            hc = hxz * ax + hyz * ay + hzz * az
            slope = gx * ax + gy * ay + gz * az
            bend = ha * ax + hb * ay + hc * az - along - outwards * cosine / sine
            uphill = FAR if slope > ZERO else -FAR
            a = -slope / bend if bend < ZERO else uphill
            a = min(max(a, -FAR), FAR)
            x, y, z = x + a * ax, y + a * ay, z + a * az
            size = a * a
        else:
            ax, ay, az, bx, by, bz = tangents_of(x, y, z)
            ga, gb = gx * ax + gy * ay + gz * az, gx * bx + gy * by + gz * bz
            ha = hxx * ax + hxy * ay + hxz * az
            hb = hxy * ax - hxx * ay + hyz * az
            hc = hxz * ax + hyz * ay + hzz * az
            haa = ha * ax + hb * ay + hc * az - along
            hab = ha * bx + hb * by + hc * bz
            ha = hxx * bx + hxy * by + hxz * bz
            hb = hxy * bx - hxx * by + hyz * bz
            hc = hxz * bx + hyz * by + hzz * bz
            hbb = ha * bx + hb * by + hc * bz - along
            a, b = ga, gb
            determinant = haa * hbb - hab * hab
            newton = haa < ZERO and determinant > ZERO
            if newton:
                a = (hab * gb - hbb * ga) / determinant
                b = (hab * ga - haa * gb) / determinant
            size = a * a + b * b
            if size > FAR * FAR or not newton:
                if not size > ZERO:
                    break
                scale = FAR / np.float32(math.sqrt(size))
                a, b = scale * a, scale * b
            x, y, z = x + a * ax + b * bx, y + a * ay + b * by, z + a * az + b * bz
        x, y, z = normalised(x, y, z)
        on_border = outwards > ZERO or ux * x + uy * y + uz * z < cosine
        if on_border:
            x, y, z = onto_border(ux, uy, uz, cosine, sine, x, y, z)
        if size < STILL:
            break
    reached = value_at(shifts, coefficients, x, y, z)
    if reached >= value:
        return x, y, z, reached
    return first_x, first_y, first_z, value


@compiled
def squared_slope(shifts, coefficients, x, y, z):
    """Return the square of the FOD's slope at a direction, per radian, where it is steepest."""
    _, gx, gy, gz, _, _, _, _, _ = derivatives_at(shifts, coefficients, x, y, z)
    along = gx * x + gy * y + gz * z
    return gx * gx + gy * gy + gz * gz - along * along


@inlined
def point_in_cone(points, j, ux, uy, uz):
    """Return the j-th of directions spread around the z axis, turned to lie around u."""
    ax, ay, az, bx, by, bz = tangents_of(ux, uy, uz)
    a, b, c = points[0, j], points[1, j], points[2, j]
    return a * ax + b * bx + c * ux, a * ay + b * by + c * uy, a * az + b * bz + c * uz


@inlined
def look(shifts, coefficients, amplitudes, points, ux, uy, uz):
    """Evaluate the FOD at directions spread around the z axis, turned to lie around u."""
    ax, ay, az, bx, by, bz = tangents_of(ux, uy, uz)
    n_points = points.shape[1]
    for j in range(0, n_points, POINTS_AT_ONCE):
        a, b, c = (
            load_from(points, j),
            load_from(points, n_points + j),
            load_from(points, 2 * n_points + j),
        )
        x, y, z = a * ax + b * bx + c * ux, a * ay + b * by + c * uy, a * az + b * bz + c * uz
        store_to(amplitudes, j, values_at(shifts, coefficients, x, y, z))


@compiled
def largest_in_cone(shifts, coefficients, amplitudes, peak, points, ux, uy, uz, cosine, sine):
    """Find the largest amplitude in a cone; write its direction and it to `peak`.

    `points` are spread over the cone, around the z axis.
    """
    look(shifts, coefficients, amplitudes, points, ux, uy, uz)
    n_points = points.shape[1]
    ax, ay, az, bx, by, bz = tangents_of(ux, uy, uz)
    peak[3] = NOWHERE
    for _ in range(LOBES):
        value, j = largest_value(amplitudes, n_points)
        if value <= PROMISING * peak[3] or value == NOWHERE:
            break
        x, y, z = point_in_cone(points, j, ux, uy, uz)
        px, py, pz, value = climb(shifts, coefficients, ux, uy, uz, cosine, sine, x, y, z, value)
        if value > peak[3]:
            peak[0], peak[1], peak[2], peak[3] = px, py, pz, value
        for j in range(0, n_points, POINTS_AT_ONCE):  # what is near has been climbed
            a, b, c = (
                load_from(points, j),
                load_from(points, n_points + j),
                load_from(points, 2 * n_points + j),
            )
            qx, qy, qz = (
                a * ax + b * bx + c * ux,
                a * ay + b * by + c * uy,
                a * az + b * bz + c * uz,
            )
            near = (qx * px + qy * py + qz * pz > NEAR) | (qx * x + qy * y + qz * z > NEAR)
            store_to(amplitudes, j, select(near, NOWHERE, load_from(amplitudes, j)))
    return peak[3]
