"""The main eigenvector of a tensor, by Jacobi's method.

Of additions, products, quotients and square roots alone, so that all machines give the same bits.
All functions take numbers or vectors. Twin of ``cuda/eigenvectors.h``.
"""

from __future__ import annotations

import numpy as np

from ....runtime.compiling import inlined
from ...codes import SWEEPS
from ..llvm import roots, select

ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)


@inlined
def rotation(app, aqq, apq):
    """Return tangent, cosine and sine of the angle that makes an element zero."""
    is_zero = apq == ZERO
    tau = (aqq - app) / (TWO * apq)
    root = roots(ONE + tau * tau)
    tangent = ONE / select(tau >= ZERO, tau + root, tau - root)
    cosine = ONE / roots(ONE + tangent * tangent)
    return (
        select(is_zero, ZERO, tangent),
        select(is_zero, ONE, cosine),
        select(is_zero, ZERO, tangent * cosine),
    )


@inlined
def turned(cosine, sine, p, q):
    """Return two numbers turned by an angle."""
    return cosine * p - sine * q, sine * p + cosine * q


@inlined
def main_eigenvector(xx, yy, zz, xy, xz, yz):
    """Return the eigenvector of the largest eigenvalue, a unit vector."""
    any_of = xx == xx
    one, zero = select(any_of, ONE, ONE), select(any_of, ZERO, ZERO)  # numbers or vectors
    ax, ay, az = one, zero, zero
    bx, by, bz = zero, one, zero
    cx, cy, cz = zero, zero, one
    for _ in range(SWEEPS):
        t, c, s = rotation(xx, yy, xy)
        xx, yy, xy = xx - t * xy, yy + t * xy, zero
        xz, yz = turned(c, s, xz, yz)
        ax, bx = turned(c, s, ax, bx)
        ay, by = turned(c, s, ay, by)
        az, bz = turned(c, s, az, bz)
        t, c, s = rotation(xx, zz, xz)
        xx, zz, xz = xx - t * xz, zz + t * xz, zero
        xy, yz = turned(c, s, xy, yz)
        ax, cx = turned(c, s, ax, cx)
        ay, cy = turned(c, s, ay, cy)
        az, cz = turned(c, s, az, cz)
        t, c, s = rotation(yy, zz, yz)
        yy, zz, yz = yy - t * yz, zz + t * yz, zero
        xy, xz = turned(c, s, xy, xz)
        bx, cx = turned(c, s, bx, cx)
        by, cy = turned(c, s, by, cy)
        bz, cz = turned(c, s, bz, cz)
    is_second, is_third = (yy > xx) & (yy >= zz), zz > xx
    ax = select(is_second, bx, select(is_third, cx, ax))
    ay = select(is_second, by, select(is_third, cy, ay))
    az = select(is_second, bz, select(is_third, cz, az))
    size = roots(ax * ax + ay * ay + az * az)
    return ax / size, ay / size, az / size
