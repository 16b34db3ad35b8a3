"""The main eigenvector of a tensor, by Jacobi's method.

Of additions, products, quotients and square roots alone, so that all machines give the same bits.
Twin of ``cuda/eigenvectors.h``.
"""

from __future__ import annotations

import numpy as np

from ....runtime.compiling import inlined
from ...codes import SWEEPS

ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)


@inlined
def rotation(app, aqq, apq):
    """Return tangent, cosine and sine of the angle that makes an element zero."""
    if apq == ZERO:
        return ZERO, ONE, ZERO
    tau = (aqq - app) / (TWO * apq)
    root = np.sqrt(ONE + tau * tau)
    tangent = ONE / (tau + root) if tau >= ZERO else ONE / (tau - root)
    cosine = ONE / np.sqrt(ONE + tangent * tangent)
    return tangent, cosine, tangent * cosine


@inlined
def turned(cosine, sine, p, q):
    """Return two numbers turned by an angle."""
    return cosine * p - sine * q, sine * p + cosine * q


@inlined
def main_eigenvector(xx, yy, zz, xy, xz, yz):
    """Return the eigenvector of the largest eigenvalue, a unit vector."""
    ax, ay, az = ONE, ZERO, ZERO
    bx, by, bz = ZERO, ONE, ZERO
    cx, cy, cz = ZERO, ZERO, ONE
    for _ in range(SWEEPS):
        t, c, s = rotation(xx, yy, xy)
        xx, yy, xy = xx - t * xy, yy + t * xy, ZERO
        xz, yz = turned(c, s, xz, yz)
        ax, bx = turned(c, s, ax, bx)
        ay, by = turned(c, s, ay, by)
        az, bz = turned(c, s, az, bz)
        t, c, s = rotation(xx, zz, xz)
        xx, zz, xz = xx - t * xz, zz + t * xz, ZERO
        xy, yz = turned(c, s, xy, yz)
        ax, cx = turned(c, s, ax, cx)
        ay, cy = turned(c, s, ay, cy)
        az, cz = turned(c, s, az, cz)
        t, c, s = rotation(yy, zz, yz)
        yy, zz, yz = yy - t * yz, zz + t * yz, ZERO
        xy, xz = turned(c, s, xy, xz)
        bx, cx = turned(c, s, bx, cx)
        by, cy = turned(c, s, by, cy)
        bz, cz = turned(c, s, bz, cz)
    if yy > xx and yy >= zz:
        ax, ay, az = bx, by, bz
    elif zz > xx:
        ax, ay, az = cx, cy, cz
    size = np.sqrt(ax * ax + ay * ay + az * az)
    return ax / size, ay / size, az / size
