"""The largest amplitudes in the cones of all lanes at once: as :mod:`.peaks`, bit for bit."""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from ....compiling import inlined
from ...codes import CLIMBS, FAR, LOBES, NEAR, NOWHERE, PROMISING, STILL
from ..lanes import N_LANES, booleans_of, filled, load_from
from ..llvm import bits_of, roots, select
from ..memory import stay, store_to
from .evaluation import derivatives_of_lanes, values_of_lanes

NONE, EVERY = np.uint32(0), np.uint32((1 << N_LANES) - 1)
ZERO, ONE = np.float32(0), np.float32(1)


@inlined
def tangents(x, y, z):
    """Return two unit vectors at right angles to unit vectors; see `peaks.tangents_of`."""
    sign = select(z >= ZERO, filled(ONE), -ONE)
    a = filled(-ONE) / (sign + z)
    b = x * y * a
    return ONE + sign * x * x * a, sign * b, ZERO - sign * x, b, sign + y * y * a, ZERO - y


@inlined
def climb_lanes(shifts, coefficients, ux, uy, uz, cosine, sine, x, y, z, value, lanes):
    """Climb with a set of lanes; see `peaks.climb`."""
    first_x, first_y, first_z = x, y, z
    border, left = NONE, lanes
    for _ in range(CLIMBS):
        if not left:
            break
        stay()
        _, gx, gy, gz, hxx, hxy, hxz, hyz, hzz = derivatives_of_lanes(shifts, coefficients, x, y, z)
        along = gx * x + gy * y + gz * z
        ax, ay, az, bx, by, bz = tangents(x, y, z)
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
        determinant = haa * hbb - hab * hab
        newton = (haa < ZERO) & (determinant > ZERO)
        a = select(newton, (hab * gb - hbb * ga) / determinant, ga)
        b = select(newton, (hab * ga - haa * gb) / determinant, gb)
        size = a * a + b * b
        long = (size > FAR * FAR) | ~newton
        stuck = left & bits_of(long & ~(size > ZERO))
        scale = select(long, filled(FAR) / roots(size), ONE)
        a, b = select(long, scale * a, a), select(long, scale * b, b)
        nx, ny, nz = x + a * ax + b * bx, y + a * ay + b * by, z + a * az + b * bz
        outwards = size < ZERO  # in no lane
        if left & border:
            rise = (
                gx * (cosine * x - ux) + gy * (cosine * y - uy) + gz * (cosine * z - uz)
            ) / filled(sine)
            outwards = booleans_of(border) & (rise > ZERO)
            ax, ay, az = uy * z - uz * y, uz * x - ux * z, ux * y - uy * x
            ax, ay, az = ax / filled(sine), ay / filled(sine), az / filled(sine)
            ha = hxx * ax + hxy * ay + hxz * az
            hb = hxy * ax - hxx * ay + hyz * az
            hc = hxz * ax + hyz * ay + hzz * az
            slope = gx * ax + gy * ay + gz * az
            bend = ha * ax + hb * ay + hc * az - along - rise * cosine / filled(sine)
            a = select(bend < ZERO, (ZERO - slope) / bend, select(slope > ZERO, filled(FAR), -FAR))
            a = select(a > -FAR, a, -FAR)
            a = select(a < FAR, a, FAR)
            nx = select(outwards, x + a * ax, nx)
            ny = select(outwards, y + a * ay, ny)
            nz = select(outwards, z + a * az, nz)
            size = select(outwards, a * a, size)
            stuck &= ~bits_of(outwards)
        length = roots(nx * nx + ny * ny + nz * nz)
        nx, ny, nz = nx / length, ny / length, nz / length
        beyond = outwards | (ux * nx + uy * ny + uz * nz < cosine)
        if left & bits_of(beyond):
            along = ux * nx + uy * ny + uz * nz
            qx, qy, qz = nx - along * ux, ny - along * uy, nz - along * uz
            length = roots(qx * qx + qy * qy + qz * qz)
            nx = select(beyond, cosine * ux + sine * (qx / length), nx)
            ny = select(beyond, cosine * uy + sine * (qy / length), ny)
            nz = select(beyond, cosine * uz + sine * (qz / length), nz)
        moved = booleans_of(left & ~stuck)
        x, y, z = select(moved, nx, x), select(moved, ny, y), select(moved, nz, z)
        border = bits_of(beyond)
        left &= ~(stuck | bits_of(size < STILL))
    reached = values_of_lanes(shifts, coefficients, x, y, z)
    better = reached >= value
    x, y, z = select(better, x, first_x), select(better, y, first_y), select(better, z, first_z)
    return x, y, z, select(better, reached, value)


@inlined
def largest_in_cones(shifts, coefficients, amplitudes, points, ux, uy, uz, cosine, sine, lanes):
    """Find the largest amplitude in the cone of each of a set of lanes.

    `amplitudes`, (n_points, N_LANES) float32, is scratch; see `peaks.largest_in_cone`.

    Returns
    -------
    x, y, z, value
        Vectors: the direction of the largest amplitude, and it.
    """
    n_points = points.shape[1]
    ax, ay, az, bx, by, bz = tangents(ux, uy, uz)
    best, bx_, by_, bz_ = filled(NOWHERE), ux, uy, uz
    for j in range(n_points):
        stay()
        a, b, c = points[0, j], points[1, j], points[2, j]
        x, y, z = a * ax + b * bx + c * ux, a * ay + b * by + c * uy, a * az + b * bz + c * uz
        value = values_of_lanes(shifts, coefficients, x, y, z)
        store_to(amplitudes, j * N_LANES, value)
        higher = value > best
        best = select(higher, value, best)
        bx_, by_, bz_ = select(higher, x, bx_), select(higher, y, by_), select(higher, z, bz_)
    px, py, pz, peak = ux, uy, uz, filled(NOWHERE)
    left = lanes
    for lobe in range(LOBES):
        qx, qy, qz, value = climb_lanes(
            shifts, coefficients, ux, uy, uz, cosine, sine, bx_, by_, bz_, best, left
        )
        higher = booleans_of(left) & (value > peak)
        peak = select(higher, value, peak)
        px, py, pz = select(higher, qx, px), select(higher, qy, py), select(higher, qz, pz)
        if lobe + 1 == LOBES:
            break
        sx, sy, sz = bx_, by_, bz_
        best = filled(NOWHERE)
        for j in range(n_points):  # what is near has been climbed
            a, b, c = points[0, j], points[1, j], points[2, j]
            x, y, z = a * ax + b * bx + c * ux, a * ay + b * by + c * uy, a * az + b * bz + c * uz
            near = (x * qx + y * qy + z * qz > NEAR) | (x * sx + y * sy + z * sz > NEAR)
            value = select(near, NOWHERE, load_from(amplitudes, j * N_LANES))
            store_to(amplitudes, j * N_LANES, value)
            higher = value > best
            best = select(higher, value, best)
            bx_, by_, bz_ = select(higher, x, bx_), select(higher, y, by_), select(higher, z, bz_)
        left &= bits_of((best > PROMISING * peak) & (best > NOWHERE))
        if not left:
            break
    return px, py, pz, peak
