"""Climbs to peaks, side by side: as `peaks.climb`, bit for bit.

What climbs need is in an array, (CLIMB_PARTS, N_LANES) float32, a column for each: where it begins
and the amplitude there, then where it has led; the axis of the cone; of climbs that matter only
where they lead to more, the direction and amplitude of what they are to exceed; and of climbs under
way, how many steps have been taken, to where, and whether that is on the border of the cone. Some
climbs take twice as many steps as others, which need not wait: one that is not done after
a number of steps may be gone on with later, and has the same bits.
"""

from __future__ import annotations

import numpy as np

from ....runtime.compiling import compiled, inlined
from ...codes import BESIDE, CLIMB_PARTS, CLIMBS, FAR, HOPE, STILL
from ..lanes import CLIMBERS, N_LANES, load_some, some_booleans_of
from ..llvm import bits_of, select
from ..memory import stay, store_to
from .evaluation import derivatives_of_some, values_of_some
from .peaks import cosine_of, degree_of
from .tangents import (
    along_tangents,
    bend_along,
    careful_step,
    newton_step,
    normalised,
    onto_border,
    tangents,
)

(
    X,
    Y,
    Z,
    AMPLITUDE,
    UX,
    UY,
    UZ,
    PEAK_X,
    PEAK_Y,
    PEAK_Z,
    PEAK,
    N_STEPS,
    NOW_X,
    NOW_Y,
    NOW_Z,
    BORDER,
) = (np.int64(part * N_LANES) for part in range(CLIMB_PARTS))
NONE, SOME = np.uint32(0), np.uint32((1 << CLIMBERS) - 1)
ZERO, ONE, MOST = np.float32(0), np.float32(1), np.float32(CLIMBS)


@compiled
def climb_side_by_side(shifts, coefficients, climbs, cosine, sine, lanes, n_steps):
    """Climb with a set of lanes, by so many steps at most; return those that are done.

    `coefficients` are (n, N_LANES) float32.
    """
    done = NONE
    for first in range(0, N_LANES, CLIMBERS):
        some = lanes >> np.uint32(first) & SOME
        if some:
            left = climb_some(
                shifts, coefficients[:, first:], climbs, first, cosine, sine, some, n_steps
            )
            done |= (some & ~left) << np.uint32(first)
    return done


@inlined
def climb_some(shifts, coefficients, climbs, first, cosine, sine, climbing, n_steps):
    """Climb with a set of CLIMBERS lanes; see `peaks.climb`. Return those that are not done."""
    x, y, z = (
        load_some(climbs, first + NOW_X),
        load_some(climbs, first + NOW_Y),
        load_some(climbs, first + NOW_Z),
    )
    ux, uy, uz = (
        load_some(climbs, first + UX),
        load_some(climbs, first + UY),
        load_some(climbs, first + UZ),
    )
    border = bits_of(load_some(climbs, first + BORDER) > ZERO)
    taken = load_some(climbs, first + N_STEPS)
    left, far = climbing, FAR / degree_of(shifts)
    for _ in range(n_steps):
        if not left:
            break
        stay()
        value, gx, gy, gz, hxx, hxy, hxz, hyz, hzz = derivatives_of_some(
            shifts, coefficients, x, y, z
        )
        ax, ay, az, bx, by, bz = tangents(x, y, z)
        ga, gb, haa, hab, hbb = along_tangents(
            gx, gy, gz, hxx, hxy, hxz, hyz, hzz, x, y, z, ax, ay, az, bx, by, bz
        )
        a, b, bent_down = newton_step(ga, gb, haa, hab, hbb)
        gain = ga * a + gb * b
        size = a * a + b * b
        too_far = (size > far * far) | ~bent_down
        if left & bits_of(too_far):
            shorter_a, shorter_b = careful_step(ga, gb, haa, hab, hbb, far)
            a, b = select(too_far, shorter_a, a), select(too_far, shorter_b, b)
            size = a * a + b * b
        nx, ny, nz = x + a * ax + b * bx, y + a * ay + b * by, z + a * az + b * bz
        outwards = size < ZERO  # in no lane
        if left & border:
            rise = (gx * (cosine * x - ux) + gy * (cosine * y - uy) + gz * (cosine * z - uz)) / sine
            outwards = some_booleans_of(border) & (rise > ZERO)
            ax, ay, az = uy * z - uz * y, uz * x - ux * z, ux * y - uy * x
            ax, ay, az = ax / sine, ay / sine, az / sine
            slope = gx * ax + gy * ay + gz * az
            bend = bend_along(hxx, hxy, hxz, hyz, hzz, ax, ay, az, ax, ay, az)
            bend = bend - (gx * x + gy * y + gz * z) - rise * cosine / sine
            a = select(bend < ZERO, (ZERO - slope) / bend, select(slope > ZERO, far, -far))
            a = select(a > -far, a, -far)
            a = select(a < far, a, far)
            nx = select(outwards, x + a * ax, nx)
            ny = select(outwards, y + a * ay, ny)
            nz = select(outwards, z + a * az, nz)
            size = select(outwards, a * a, size)
            gain = select(outwards, slope * a, gain)
            bent_down = select(outwards, bend < ZERO, bent_down)
        nx, ny, nz = normalised(nx, ny, nz)
        beyond = outwards | (ux * nx + uy * ny + uz * nz < cosine)
        if left & bits_of(beyond):
            qx, qy, qz = onto_border(ux, uy, uz, cosine, sine, nx, ny, nz)
            nx, ny, nz = select(beyond, qx, nx), select(beyond, qy, ny), select(beyond, qz, nz)
        left &= bits_of((size > ZERO) | outwards)
        moved = some_booleans_of(left)
        x, y, z = select(moved, nx, x), select(moved, ny, y), select(moved, nz, z)
        border = bits_of(beyond)
        peak = load_some(climbs, first + PEAK)
        along = (
            x * load_some(climbs, first + PEAK_X)
            + y * load_some(climbs, first + PEAK_Y)
            + z * load_some(climbs, first + PEAK_Z)
        )
        surpassed = (along > cosine_of(shifts, BESIDE)) & (value <= peak)
        surpassed = surpassed | (bent_down & (value + HOPE * gain < peak))
        taken = select(moved, taken + ONE, taken)
        left &= ~bits_of((size < STILL) | surpassed | (taken >= MOST))
    for part, now in ((N_STEPS, taken), (NOW_X, x), (NOW_Y, y), (NOW_Z, z)):
        store_to(climbs, first + part, now)  # of other lanes what it was
    on_border = select(some_booleans_of(border), ONE, taken - taken)
    where = some_booleans_of(climbing)
    store_to(climbs, first + BORDER, select(where, on_border, load_some(climbs, first + BORDER)))
    done = climbing & ~left
    if not done:
        return left
    amplitude = values_of_some(shifts, coefficients, x, y, z)
    higher = amplitude >= load_some(climbs, first + AMPLITUDE)
    higher = higher & some_booleans_of(done)
    for part, now in ((X, x), (Y, y), (Z, z), (AMPLITUDE, amplitude)):
        store_to(climbs, first + part, select(higher, now, load_some(climbs, first + part)))
    return left
