"""The largest amplitude in a cone: sampled at directions spread over it, then climbed to.

Both work on one streamline; the directions are sampled side by side. A cone is its axis, u, and the
cosine and sine of its half-angle; a cosine of EVERYWHERE stands for the whole sphere.
"""

from __future__ import annotations

import numpy as np

from ....runtime.compiling import compiled, inlined
from ...codes import (
    CLIMBS,
    FAR,
    LOBES,
    NEAR,
    NOWHERE,
    PROMISING,
    STILL,
)
from ..lanes import N_LANES, load_from
from ..llvm import bits_of, largest_of, lowest_bit, select
from ..memory import store_to
from .evaluation import derivatives_at, value_at, values_at
from .tangents import (
    along_tangents,
    bend_along,
    careful_step,
    newton_step,
    normalised,
    onto_border,
    tangents,
)

ZERO, ONE = np.float32(0), np.float32(1)


@inlined
def largest_value(amplitudes, n):
    """Return the largest of n amplitudes, and the number of the first of them."""
    best, best_j = NOWHERE, 0
    for j in range(0, n, N_LANES):
        some = load_from(amplitudes, j)
        largest = largest_of(some)
        if largest > best:
            best, best_j = largest, j + lowest_bit(bits_of(some == largest))
    return best, best_j


@inlined
def has_odd_degrees(shifts):
    """Tell whether the FOD is asymmetric; see :func:`....fields.polynomials.shifts`."""
    return len(shifts) & 1 == 0


@inlined
def degree_of(shifts):
    """Return the largest degree of the FOD, at least 2, as a float32."""
    return np.float32(max((len(shifts) - 1) & ~1, 2))


@inlined
def cosine_of(shifts, distance):
    """Return the cosine at a distance from 1, which is in units of 1 / lmax squared."""
    return ONE - distance / (degree_of(shifts) * degree_of(shifts))


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
    on_border, far = False, FAR / degree_of(shifts)
    for _ in range(CLIMBS):
        _, gx, gy, gz, hxx, hxy, hxz, hyz, hzz = derivatives_at(shifts, coefficients, x, y, z)
        rise = ZERO
        if on_border:
            rise = (gx * (cosine * x - ux) + gy * (cosine * y - uy) + gz * (cosine * z - uz)) / sine
        outwards = rise > ZERO
        if outwards:
            ax, ay, az = uy * z - uz * y, uz * x - ux * z, ux * y - uy * x
            ax, ay, az = ax / sine, ay / sine, az / sine
            slope = gx * ax + gy * ay + gz * az
            bend = bend_along(hxx, hxy, hxz, hyz, hzz, ax, ay, az, ax, ay, az)
            bend = bend - (gx * x + gy * y + gz * z) - rise * cosine / sine
            uphill = far if slope > ZERO else -far
            a = -slope / bend if bend < ZERO else uphill
            a = min(max(a, -far), far)
            x, y, z = x + a * ax, y + a * ay, z + a * az
            size = a * a
        else:
            ax, ay, az, bx, by, bz = tangents(x, y, z)
            ga, gb, haa, hab, hbb = along_tangents(
                gx, gy, gz, hxx, hxy, hxz, hyz, hzz, x, y, z, ax, ay, az, bx, by, bz
            )
            a, b, bent_down = newton_step(ga, gb, haa, hab, hbb)
            size = a * a + b * b
            if size > far * far or not bent_down:
                a, b = careful_step(ga, gb, haa, hab, hbb, far)
                size = a * a + b * b
            if not size > ZERO:
                break
            x, y, z = x + a * ax + b * bx, y + a * ay + b * by, z + a * az + b * bz
        x, y, z = normalised(x, y, z)
        on_border = outwards or ux * x + uy * y + uz * z < cosine  # type: ignore[assignment]
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
    ax, ay, az, bx, by, bz = tangents(ux, uy, uz)
    a, b, c = points[0, j], points[1, j], points[2, j]
    return a * ax + b * bx + c * ux, a * ay + b * by + c * uy, a * az + b * bz + c * uz


@inlined
def sample_amplitudes(shifts, coefficients, amplitudes, points, ux, uy, uz):
    """Evaluate the FOD at directions spread around the z axis, turned to lie around u."""
    ax, ay, az, bx, by, bz = tangents(ux, uy, uz)
    n_points = points.shape[1]
    for j in range(0, n_points, N_LANES):
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
    sample_amplitudes(shifts, coefficients, amplitudes, points, ux, uy, uz)
    n_points = points.shape[1]
    ax, ay, az, bx, by, bz = tangents(ux, uy, uz)
    close = cosine_of(shifts, NEAR)
    peak[3] = NOWHERE
    for _ in range(LOBES):
        value, j = largest_value(amplitudes, n_points)
        if value <= PROMISING * peak[3] or value == NOWHERE:
            break
        x, y, z = point_in_cone(points, j, ux, uy, uz)
        px, py, pz, value = climb(shifts, coefficients, ux, uy, uz, cosine, sine, x, y, z, value)
        if value > peak[3]:
            peak[0], peak[1], peak[2], peak[3] = px, py, pz, value
        for j in range(0, n_points, N_LANES):  # what is near has been climbed
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
            near = (qx * px + qy * py + qz * pz > close) | (qx * x + qy * y + qz * z > close)
            store_to(amplitudes, j, select(near, NOWHERE, load_from(amplitudes, j)))
    return peak[3]
