"""The tangent plane at a unit vector: its axes, derivatives along them, and a step uphill.

All functions take numbers or vectors.
"""

from __future__ import annotations

import numpy as np

from ....runtime.compiling import inlined
from ...codes import COSINE, SINE
from ..llvm import roots, select

ZERO, ONE, TWO, HALF = np.float32(0), np.float32(1), np.float32(2), np.float32(0.5)


@inlined
def tangents(x, y, z):
    """Return two unit vectors at right angles to a unit vector and to each other.

    After Duff et al., "Building an orthonormal basis, revisited", JCGT 6(1), 2017.
    """
    sign = select(z >= ZERO, ONE, -ONE)
    a = -ONE / (sign + z)
    b = x * y * a
    return ONE + sign * x * x * a, sign * b, -ONE * sign * x, b, sign + y * y * a, -ONE * y


@inlined
def turn_of(t):
    """Return cosine and sine of 2 pi t, for t from -1/2 to 1/2; numbers or vectors."""
    square = t * t
    sine = SINE[0] * square + SINE[1]
    sine = sine * square + SINE[2]
    sine = sine * square + SINE[3]
    sine = t * (sine * square + SINE[4])
    cosine = COSINE[0] * square + COSINE[1]
    cosine = cosine * square + COSINE[2]
    cosine = cosine * square + COSINE[3]
    cosine = cosine * square + COSINE[4]
    cosine = cosine * square + COSINE[5]
    return ONE - TWO * sine * sine, TWO * sine * cosine


@inlined
def normalised(x, y, z):
    """Return a vector of length 1."""
    length = roots(x * x + y * y + z * z)
    return x / length, y / length, z / length


@inlined
def onto_border(ux, uy, uz, cosine, sine, x, y, z):
    """Return the direction of the border of the cone that is nearest to a direction outside."""
    along = ux * x + uy * y + uz * z
    x, y, z = normalised(x - along * ux, y - along * uy, z - along * uz)
    return cosine * ux + sine * x, cosine * uy + sine * y, cosine * uz + sine * z


@inlined
def bend_along(hxx, hxy, hxz, hyz, hzz, ax, ay, az, bx, by, bz):
    """Return a H b, of second derivatives in space; see `evaluation.derivatives_at`."""
    ha = hxx * ax + hxy * ay + hxz * az
    hb = hxy * ax - hxx * ay + hyz * az
    hc = hxz * ax + hyz * ay + hzz * az
    return ha * bx + hb * by + hc * bz


@inlined
def along_tangents(gx, gy, gz, hxx, hxy, hxz, hyz, hzz, x, y, z, ax, ay, az, bx, by, bz):
    """Return the derivatives along two tangents, on the sphere.

    Returns
    -------
    ga, gb, haa, hab, hbb
    """
    down = gx * x + gy * y + gz * z  # the sphere bends away from its tangents
    ga, gb = gx * ax + gy * ay + gz * az, gx * bx + gy * by + gz * bz
    haa = bend_along(hxx, hxy, hxz, hyz, hzz, ax, ay, az, ax, ay, az) - down
    hab = bend_along(hxx, hxy, hxz, hyz, hzz, ax, ay, az, bx, by, bz)
    hbb = bend_along(hxx, hxy, hxz, hyz, hzz, bx, by, bz, bx, by, bz) - down
    return ga, gb, haa, hab, hbb


@inlined
def newton_step(ga, gb, haa, hab, hbb):
    """Return the step to the top of a quadratic function, and whether it has a top."""
    determinant = haa * hbb - hab * hab
    a = (hab * gb - hbb * ga) / determinant
    b = (hab * ga - haa * gb) / determinant
    return a, b, (haa < ZERO) & (determinant > ZERO)


@inlined
def careful_step(ga, gb, haa, hab, hbb, far):
    """Return a step uphill no longer than `far`: Newton's, were the function bent down enough.

    By as much as takes its larger second derivative to -|g| / far (Levenberg, 1944).
    """
    half = HALF * (haa - hbb)
    largest = HALF * (haa + hbb) + roots(half * half + hab * hab)
    shift = select(largest > ZERO, largest, ZERO) + roots(ga * ga + gb * gb) / far
    a, b, _ = newton_step(ga, gb, haa - shift, hab, hbb - shift)
    return a, b
