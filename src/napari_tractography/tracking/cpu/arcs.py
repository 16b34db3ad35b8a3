"""Arcs, drawn by the FOD along them: iFOD2 (Tournier, Calamante & Connelly, ISMRM 2010).

An arc begins along the heading and ends in a direction of the cone. With f(1), f(2), ... the
amplitudes at the ends of its parts, along its tangents there, its density is the product of all of
them but the last, and of the root of that, to the power 1 / samples; none where one is below the
floor. The amplitude where it begins, of which that is the root too, is the same for all arcs.

Rejection sampling, without any approximation: an end that is uniform in the cone is proposed, and
the arc accepted with the probability of its density over a bound. The bound is made of the largest
that an amplitude can be in any voxel that an arc may come near.

Where a streamline ends is decided by seven arcs, as in MRtrix3: one straight ahead, and six around
at 0.87 of the cone angle. It ends where none of them stays above the floor, and where one of them
leads to where there is no FOD; also where MAX_PROPOSALS arcs are rejected.
"""

from __future__ import annotations

import numpy as np

from ...runtime.compiling import compiled, inlined, kept
from ..codes import (
    ARCS_AHEAD,
    ARCSINE,
    EDGE_VOXEL,
    HALF_PI,
    LEFT_IMAGE,
    LOW_AMPLITUDE,
    LOW_PROBABILITY,
    MARGIN,
    MAX_PROPOSALS,
    NEARLY,
    NO_FOD,
    PADDING,
    PROPOSALS_A_BLOCK,
    SOFTPLUS,
    STRAIGHT,
    TWO_PI,
    UNIT_20,
    UNIT_24,
)
from .cells import (
    HALF,
    ONE,
    ZERO,
    corner_weight,
    ensure_row,
    load_half_floats,
    padded_length,
    row_of,
    to_voxel,
)
from .draw import below_cone_mass, philox_block, turn_of
from .llvm import roots
from .memory import acquire, store_to
from .sphere.cones import make_positive, nearest_index
from .sphere.evaluation import value_at
from .sphere.headings import mirrored
from .sphere.tangents import tangents

TWO = np.float32(2)
SHIFT_12, LOW_12 = np.uint64(12), np.uint64(4095)


@kept
def follow_arcs(field, settings, scratch, state, n_corners, lane):
    """Go on along an arc, or draw the next; see the table of algorithms."""
    heading = state.heading[lane]
    if state.steps[lane] % settings.parts == 0:
        state.ux[lane], state.uy[lane], state.uz[lane] = heading[0], heading[1], heading[2]
        if settings.min_probability > ZERO and below_cone_mass(
            field, settings, scratch, state, n_corners, lane
        ):
            return LOW_PROBABILITY, settings.step
        return draw_arc(field, settings, scratch, state, n_corners, lane), settings.step
    state.ux[lane], state.uy[lane], state.uz[lane] = mirrored(
        state.ux[lane], state.uy[lane], state.uz[lane], heading[0], heading[1], heading[2]
    )
    return 0, settings.step


@inlined
def draw_arc(field, settings, scratch, state, n_corners, lane):
    """Draw an arc, and turn to the chord of its first part; return 0, or the reason to stop."""
    bound, is_full = bound_around(field, settings, scratch, state, n_corners, lane)
    bound = positive(settings, scratch, bound)
    at = state.x[lane], state.y[lane], state.z[lane]
    heading = state.ux[lane], state.uy[lane], state.uz[lane]
    axes = tangents(heading[0], heading[1], heading[2])
    none, left = True, not is_full
    for k in range(ARCS_AHEAD):
        if none or left:
            down = settings.ring_height if k else STRAIGHT
            cosine, sine = turn_of(np.float32(k) / np.float32(ARCS_AHEAD - 1) - HALF)
            end, _, _, _ = try_arc(
                field,
                settings,
                scratch,
                n_corners,
                at,
                heading,
                axes,
                bound,
                down,
                cosine,
                sine,
                -ONE,
            )
            if end in (NO_FOD, LEFT_IMAGE):
                return end
            none = none and end != 0
    if none:
        return LOW_AMPLITUDE
    for block in range(MAX_PROPOSALS // PROPOSALS_A_BLOCK):
        words = philox_block(
            np.uint64(state.stream[lane]),
            np.uint64(state.steps[lane]),
            np.uint64(block),
            np.uint64(state.purpose[lane]),
            settings.key_0,
            settings.key_1,
        )
        for attempt in range(PROPOSALS_A_BLOCK):
            first, second = (words[2], words[3]) if attempt else (words[0], words[1])
            down = settings.cone_height * ((np.float32(first >> SHIFT_12) + HALF) * UNIT_20)
            cosine, sine = turn_of((np.float32(second >> SHIFT_12) + HALF) * UNIT_20 - HALF)
            chance = np.float32(((first & LOW_12) << SHIFT_12) | (second & LOW_12)) * UNIT_24
            least = chance
            for _ in range(settings.parts):
                least = least * chance
            end, cx, cy, cz = try_arc(
                field,
                settings,
                scratch,
                n_corners,
                at,
                heading,
                axes,
                bound,
                down,
                cosine,
                sine,
                least,
            )
            if end == 0:
                state.ux[lane], state.uy[lane], state.uz[lane] = cx, cy, cz
                return 0
    return LOW_AMPLITUDE


@compiled
def try_arc(
    field,
    settings,
    scratch,
    n_corners,
    at,
    heading,
    axes,
    bound,
    down,
    azimuth_cosine,
    azimuth_sine,
    least,
):
    """Try an arc: its amplitudes are to reach the floor, their product over the bounds `least`.

    Parameters
    ----------
    at, heading : tuple of 3 float32
    axes : tuple of 6 float32
        Tangents of the sphere at the heading.
    down : float32
        1 minus the cosine of the angle between the ends of the arc.
    azimuth_cosine, azimuth_sine : float32

    Returns
    -------
    reason : int
        0 where all do, else LOW_AMPLITUDE, NO_FOD or LEFT_IMAGE.
    cx, cy, cz : float32
        The chord of its first part, over the length of that part.
    """
    hx, hy, hz = heading
    ax, ay, az, bx, by, bz = axes
    nx = azimuth_cosine * ax + azimuth_sine * bx
    ny = azimuth_cosine * ay + azimuth_sine * by
    nz = azimuth_cosine * az + azimuth_sine * bz
    # Each part turns by twice the angle between its chord and the tangents at its ends.
    angle = half_angle(down) / np.float32(settings.parts)
    cosine, sine = turn_of(angle / TWO_PI)
    turn_cosine, turn_sine = ONE - TWO * sine * sine, TWO * sine * cosine
    shortening = sine / angle
    # Chord, tangent and position, along the heading and across.
    p, q = shortening * cosine, shortening * sine
    cx, cy, cz = p * hx + q * nx, p * hy + q * ny, p * hz + q * nz
    s, t = turn_cosine, turn_sine
    along, across = p, q
    density = ONE
    tx, ty, tz = hx, hy, hz
    for part in range(settings.parts):
        if part:
            p, q = p * turn_cosine - q * turn_sine, p * turn_sine + q * turn_cosine
            s, t = s * turn_cosine - t * turn_sine, s * turn_sine + t * turn_cosine
            along, across = along + p, across + q
        tx, ty, tz = s * hx + t * nx, s * hy + t * ny, s * hz + t * nz
        amplitude, missing = amplitude_at(
            field,
            settings,
            scratch,
            n_corners,
            at[0] + settings.step * (along * hx + across * nx),
            at[1] + settings.step * (along * hy + across * ny),
            at[2] + settings.step * (along * hz + across * nz),
            tx,
            ty,
            tz,
        )
        if missing:
            return missing, cx, cy, cz
        amplitude = positive(settings, scratch, amplitude)
        if not (amplitude > ZERO and amplitude >= settings.min_amplitude):
            return LOW_AMPLITUDE, cx, cy, cz
        ratio = amplitude / bound
        density = density * (roots(ratio) if part == settings.parts - 1 else ratio)
        if not density > least:
            return LOW_AMPLITUDE, cx, cy, cz
    if field.allowed.size:
        i = nearest_index(field.directions, field.neighbours, hx, hy, hz)
        if not field.allowed[i, nearest_index(field.directions, field.neighbours, tx, ty, tz)]:
            return LOW_AMPLITUDE, cx, cy, cz
    return 0, cx, cy, cz


@inlined
def half_angle(down):
    """Return half the angle of which the cosine is 1 - down, in radians."""
    square = HALF * down  # of the sine of half the angle
    beyond = square > HALF
    square = ONE - square if beyond else square
    angle = ARCSINE[0]
    for k in range(1, len(ARCSINE)):
        angle = angle * square + ARCSINE[k]
    angle = angle * roots(square)
    return HALF_PI - angle if beyond else angle


@inlined
def positive(settings, scratch, amplitude):
    """Return the amplitude that counts; with clipping, a negative one stays."""
    if settings.positivity == SOFTPLUS:
        scratch.amplitudes[0] = amplitude
        make_positive(settings, scratch.amplitudes, 1)
        return scratch.amplitudes[0]
    return amplitude


@inlined
def row_at(field, inside, ix, iy, iz):
    """Return the row of a voxel, that of zeros where there is no FOD; `inside` the image or not."""
    nx, ny, nz = field.voxel_rows.shape
    none = np.int64(field.values.shape[0])
    if not inside and (ix < 0 or iy < 0 or iz < 0 or ix >= nx or iy >= ny or iz >= nz):
        return none
    return row_of(field, (ix * ny + iy) * nz + iz)


@inlined
def amplitude_at(field, settings, scratch, n_corners, x, y, z, ux, uy, uz):
    """Return the amplitude at a point along a unit vector, and the reason if there is no FOD.

    The rows of the voxels around are filled already.
    """
    vx, vy, vz = to_voxel(field.to_voxel, x, y, z)
    shapes = field.voxel_rows.shape
    jx, jy, jz = np.floor(vx + HALF), np.floor(vy + HALF), np.floor(vz + HALF)
    inside = jx >= ZERO and jy >= ZERO and jz >= ZERO
    if not (inside and jx < shapes[0] and jy < shapes[1] and jz < shapes[2]):
        return ZERO, LEFT_IMAGE
    here = row_at(field, True, np.int64(jx), np.int64(jy), np.int64(jz))
    if settings.edge == EDGE_VOXEL and here == field.values.shape[0]:
        return ZERO, NO_FOD
    n_padded = padded_length(field.shifts)
    if n_corners == 1:
        for c in range(0, n_padded, PADDING):
            store_to(scratch.mixed, c, load_half_floats(field.coefficients, here * n_padded + c))
        return value_at(field.shifts, scratch.mixed, ux, uy, uz), 0
    kx, ky, kz = np.floor(vx), np.floor(vy), np.floor(vz)
    fx, fy, fz = vx - kx, vy - ky, vz - kz
    ix, iy, iz = np.int64(kx), np.int64(ky), np.int64(kz)
    within = ix >= 0 and iy >= 0 and iz >= 0
    within = within and ix + 1 < shapes[0] and iy + 1 < shapes[1] and iz + 1 < shapes[2]
    r0 = row_at(field, within, ix, iy, iz) * n_padded
    r1 = row_at(field, within, ix, iy, iz + 1) * n_padded
    r2 = row_at(field, within, ix, iy + 1, iz) * n_padded
    r3 = row_at(field, within, ix, iy + 1, iz + 1) * n_padded
    r4 = row_at(field, within, ix + 1, iy, iz) * n_padded
    r5 = row_at(field, within, ix + 1, iy, iz + 1) * n_padded
    r6 = row_at(field, within, ix + 1, iy + 1, iz) * n_padded
    r7 = row_at(field, within, ix + 1, iy + 1, iz + 1) * n_padded
    w0, w1 = corner_weight(0, fx, fy, fz), corner_weight(1, fx, fy, fz)
    w2, w3 = corner_weight(2, fx, fy, fz), corner_weight(3, fx, fy, fz)
    w4, w5 = corner_weight(4, fx, fy, fz), corner_weight(5, fx, fy, fz)
    w6, w7 = corner_weight(6, fx, fy, fz), corner_weight(7, fx, fy, fz)
    coefficients = field.coefficients
    for c in range(0, n_padded, PADDING):
        total = w0 * load_half_floats(coefficients, r0 + c) + w1 * load_half_floats(
            coefficients, r1 + c
        )
        total = total + w2 * load_half_floats(coefficients, r2 + c)
        total = total + w3 * load_half_floats(coefficients, r3 + c)
        total = total + w4 * load_half_floats(coefficients, r4 + c)
        total = total + w5 * load_half_floats(coefficients, r5 + c)
        total = total + w6 * load_half_floats(coefficients, r6 + c)
        total = total + w7 * load_half_floats(coefficients, r7 + c)
        store_to(scratch.mixed, c, total)
    return value_at(field.shifts, scratch.mixed, ux, uy, uz), 0


@inlined
def bound_around(field, settings, scratch, state, n_corners, lane):
    """Return what no amplitude that an arc may meet exceeds, and whether all voxels hold an FOD.

    That is the largest bound of the voxels around a box that holds every arc; their rows are
    filled.
    """
    matrix = field.to_voxel
    v = to_voxel(matrix, state.x[lane], state.y[lane], state.z[lane])
    box, is_other, more, far = (
        scratch.box,
        False,
        HALF if n_corners == 1 else ZERO,
        0 if n_corners == 1 else 1,
    )
    for axis in range(3):
        a, b, c = matrix[axis, 0], matrix[axis, 1], matrix[axis, 2]
        length = settings.step * np.float32(settings.parts)
        reach = roots(a * a + b * b + c * c) * length + NEARLY
        first = np.int64(np.floor(v[axis] - reach + more))
        last = np.int64(np.floor(v[axis] + reach + more)) + far
        is_other |= box[2 * axis] != first or box[2 * axis + 1] != last
        box[2 * axis], box[2 * axis + 1] = first, last
    if is_other:
        scratch.box_bound[0], scratch.box_bound[1] = bound_in(field, scratch, box)
    return scratch.box_bound[0], scratch.box_bound[1] > ZERO


@compiled
def bound_in(field, scratch, box):
    """Return the largest bound of a box of voxels, and 1 where all hold an FOD, else 0."""
    none, n_padded = field.values.shape[0], padded_length(field.shifts)
    at = field.values.shape[1] // PADDING * PADDING
    largest, is_full = ZERO, ONE
    for ix in range(box[0], box[1] + 1):
        for iy in range(box[2], box[3] + 1):
            for iz in range(box[4], box[5] + 1):
                row = row_at(field, False, ix, iy, iz)
                if row == none:
                    is_full = ZERO
                    continue
                ensure_row(field, scratch, row)
                acquire()
                store_to(
                    scratch.mixed, 0, load_half_floats(field.coefficients, row * n_padded + at)
                )
                largest = max(largest, scratch.mixed[field.values.shape[1] - at])
    return MARGIN * largest, is_full
