"""Where two bundles go straight through each other at so small an angle that their lobes are one.

A voxel alone does not tell: the lobe of a crossing of 20 degrees is wider than that of one bundle
by less than noise makes it. What lies further on tells: there the bundles are apart. So from the
top of the voxel's highest lobe two ways are followed, as far from it on either side as WAY_TANGENT
says, in each of WAY_PLANES planes through the top. A way goes straight on by WAY_VOXELS voxels,
forward and backward. In every other of its voxels the FOD is summed along the way, and along the
top. Two ways cross where

- along both, and along the top, the sum is WAY_SHARE of what it would be if the top went on as it
  is: so they are inside, which half of a way is not where a bundle bends, and none is where it is
  thin;
- the ratio of the two sums is, on both, larger by WAY_EXCESS than in the plane at right angles: in
  a straight bundle, however thick and however wide its lobes, it is the same in both;
- and the lobe itself is wider in this plane, by OWN_PART of that excess.

Where bundles touch and part again, what lies further on looks like a crossing, and the lobe does
not; but noise widens some. So a voxel is among crossings where ways cross in FEWEST_CROSSINGS of
the 27 voxels around, of which every other is looked at, and where up to WIDTHS_AROUND voxels away
what all lobes are wider by, in the plane of their largest excess, is more than WIDTH_PART of all
those excesses.

In which plane they cross, noise hides in the lobe of one voxel as well. The ratios of the sums, of
all planes, are a wave of twice their angle, whose phase tells; and of the crossings around, the
mean is taken. Both are kept as the nearest of the FOD's sampled directions.

That is found out when a line first comes to a voxel, from the FOD's own coefficients, which are all
there. See :data:`..codes.NOT_SEEN` for how it is kept. Called by :mod:`.lobes` and
:mod:`.langevin`.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ...runtime.compiling import compiled, inlined
from ..codes import (
    AMONG_CROSSINGS,
    AS_WIDE,
    EVERYWHERE,
    FEWEST_CROSSINGS,
    NEAREST,
    NOT_AMONG,
    NOT_SEEN,
    OWN_BITS,
    OWN_PART,
    PADDING,
    PLANE,
    PLANE_BITS,
    TERMS,
    WAY_COSINE,
    WAY_COSINE_OF_TWO,
    WAY_EXCESS,
    WAY_PLANES,
    WAY_SAMPLES,
    WAY_SHARE,
    WAY_SINE,
    WAY_SINE_OF_TWO,
    WAY_STEP,
    WAY_TANGENT,
    WAYS_CROSS,
    WIDTH,
    WIDTH_BITS,
    WIDTH_PART,
    WIDTH_STEPS,
    WIDTHS_AROUND,
)
from .cells import ensure_row, load_half_floats, load_some, nearest, row_of
from .lanes import booleans_of, load
from .llvm import bits_of, lowest_bit, roots, select, sum_of
from .memory import acquire, filler, loader_from, number_at, prefetch_at, store, store_to
from .sphere.evaluation import value_at
from .sphere.peaks import climb
from .sphere.tangents import normalised, tangents

ZERO, ONE, BIT = np.float32(0), np.float32(1), np.uint32(1)
AS_WIDE_AND_HALF, WIDEST = np.float32(AS_WIDE + 0.5), np.float32(WIDTH >> WIDTH_BITS)
CACHE_LINE = 16  # numbers
load_terms, no_terms = loader_from(TERMS), filler(types.float32, TERMS)


@inlined
def see_roundness(field, settings, scratch, state, lanes):
    """Find how round lobes are to be where a set of lanes is, else they count as wide.

    Among crossings all are wide, in a plane that is found, too. Of lanes that have come to another
    voxel since they were looked at.
    """
    if not settings.min_roundness > ZERO:
        return
    rows, seen_rows = load(state.row), load(state.looked_row)
    left = lanes & bits_of(rows != seen_rows)
    store(state.looked_row, select(booleans_of(left), rows, seen_rows))
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        roundness, px, py, pz = settings.min_roundness, ZERO, ZERO, ZERO
        row = np.int64(state.row[lane])
        corner = np.int64(0 if settings.interpolation == NEAREST else state.corner[lane])
        ix = np.int64(state.cells[0, lane]) + (corner >> 2)
        iy = np.int64(state.cells[1, lane]) + (corner >> 1 & 1)
        iz = np.int64(state.cells[2, lane]) + (corner & 1)
        seen = crossings_around(field, scratch, row, ix, iy, iz)
        if seen >= AMONG_CROSSINGS:
            roundness = ONE
            px, py, pz = sphere_point(field, seen >> PLANE_BITS & PLANE)
        state.roundness[lane] = roundness
        state.plane[0, lane], state.plane[1, lane], state.plane[2, lane] = px, py, pz


@inlined
def crossings_around(field, scratch, row, ix, iy, iz):
    """Return what is known of a voxel, whose row is filled, once it is looked around."""
    seen = np.int64(field.crossings[np.uint64(row)])
    if seen < NOT_AMONG or seen >= NOT_SEEN:
        seen = look_around(field, scratch, row, ix, iy, iz)
    return seen


@inlined
def sphere_point(field, number):
    """Return one of the sampled directions."""
    points = field.sphere_points
    return points[0, number], points[1, number], points[2, number]


@compiled
def nearest_axis(field, x, y, z):
    """Return the number of the sampled direction along which a vector is, or its opposite."""
    most, found = ZERO, 0
    for number in range(field.sphere_points.shape[1]):
        px, py, pz = sphere_point(field, number)
        along = abs(px * x + py * y + pz * z)
        if along > most:
            most, found = along, number
    return found


@compiled
def look_around(field, scratch, row, ix, iy, iz):
    """Find whether a voxel is among crossings; return what is known of it by then."""
    n_crossings = 0
    x, y, z = ZERO, ZERO, ZERO
    for jx in range(ix - 1, ix + 2):
        for jy in range(iy - 1, iy + 2):
            for jz in range(iz - 1, iz + 2):
                seen = own_of(field, scratch, jx, jy, jz)
                if seen & WAYS_CROSS:
                    n_crossings += 1
                    px, py, pz = sphere_point(field, seen & PLANE)
                    if px * x + py * y + pz * z < ZERO:
                        px, py, pz = ZERO - px, ZERO - py, ZERO - pz
                    x, y, z = x + px, y + py, z + pz
    around = NOT_AMONG
    if n_crossings >= FEWEST_CROSSINGS and width_around(field, scratch, ix, iy, iz) > 0:
        around = AMONG_CROSSINGS | nearest_axis(field, x, y, z) << PLANE_BITS
    around |= own_of(field, scratch, ix, iy, iz)
    field.crossings[row] = around
    return around


@compiled
def width_around(field, scratch, ix, iy, iz):
    """Return the sum of what lobes up to WIDTHS_AROUND voxels away are wider by, in steps."""
    total = 0
    for jx in range(ix - WIDTHS_AROUND, ix + WIDTHS_AROUND + 1):
        for jy in range(iy - WIDTHS_AROUND, iy + WIDTHS_AROUND + 1):
            for jz in range(iz - WIDTHS_AROUND, iz + WIDTHS_AROUND + 1):
                width = (own_of(field, scratch, jx, jy, jz) & WIDTH) >> WIDTH_BITS
                if width:
                    total += width - AS_WIDE
    return total


@compiled
def own_of(field, scratch, ix, iy, iz):
    """Return what is known of a voxel's own, once it is looked at; of every other one nothing is.

    Another thread may find the same meanwhile, or fill a row once more, so that less is known of it
    than before: what is read is read once, and kept.
    """
    nx, ny, nz = field.voxel_rows.shape
    if (ix + iy + iz) & 1 or not (0 <= ix < nx and 0 <= iy < ny and 0 <= iz < nz):
        return 0
    row = row_of(field, (ix * ny + iy) * nz + iz)
    if row == field.values.shape[0]:
        return 0
    ensure_row(field, scratch, row)
    acquire()
    seen = np.int64(field.crossings[row])
    if seen >= NOT_SEEN:
        seen = np.int64(ways_cross(field, scratch, row, seen - NOT_SEEN, ix, iy, iz))
        field.crossings[row] = seen
    return seen & OWN_BITS


@compiled
def ways_cross(field, scratch, row, largest, ix, iy, iz):
    """Return what is known of a voxel's own, whose row is filled, see `codes`: 0 of most.

    ``largest`` is the direction among ``field.sphere_points`` along which its FOD is largest.
    """
    mixed, top = scratch.mixed, scratch.ways[1]
    n_padded = mixed.shape[0]
    for c in range(0, n_padded, PADDING):
        store_to(mixed, c, load_half_floats(field.coefficients, row * n_padded + c))
    x, y, z = sphere_point(field, largest)
    value = value_at(field.shifts, mixed, x, y, z)
    if not value > ZERO:
        return 0
    x, y, z, _ = climb(field.shifts, mixed, ZERO, ZERO, ONE, EVERYWHERE, ZERO, x, y, z, value)
    weigh(field, scratch, top, x, y, z)
    least = WAY_SHARE * np.float32(WAY_SAMPLES + 1) * amplitude(field.values, row, top)
    if not sum_along_top(field, scratch, row, ix, iy, iz, x, y, z) > least:
        return 0
    ax, ay, az, bx, by, bz = tangents(x, y, z)
    first_x, first_y, first_z, last_x, last_y, last_z = ax, ay, az, bx, by, bz
    found, most, width = False, WAY_EXCESS, ZERO
    real, imaginary, cosine, sine = ZERO, ZERO, ONE, ZERO
    for _ in range(WAY_PLANES // 2):  # and in the planes at right angles
        one = sums_along(field, scratch, row, ix, iy, iz, *beside(x, y, z, ax, ay, az))
        three = sums_along(field, scratch, row, ix, iy, iz, *beside(x, y, z, bx, by, bz))
        if max(one[1], three[1]) > least:
            two = sums_along(field, scratch, row, ix, iy, iz, *beside(x, y, z, -ax, -ay, -az))
            four = sums_along(field, scratch, row, ix, iy, iz, *beside(x, y, z, -bx, -by, -bz))
            excess, wider = compared(least, *one, *two, *three, *four)
            found = found or (excess > WAY_EXCESS and wider > OWN_PART * excess)
            if excess > most:
                most, width = excess, wider
            excess, wider = compared(least, *three, *four, *one, *two)
            found = found or (excess > WAY_EXCESS and wider > OWN_PART * excess)
            if excess > most:
                most, width = excess, wider
            ratio = ratio_of(one[1] + two[1], one[0] + two[0])
            ratio = ratio - ratio_of(three[1] + four[1], three[0] + four[0])
            real, imaginary = real + ratio * cosine, imaginary + ratio * sine
        cosine, sine = (
            WAY_COSINE_OF_TWO * cosine - WAY_SINE_OF_TWO * sine,
            WAY_COSINE_OF_TWO * sine + WAY_SINE_OF_TWO * cosine,
        )
        ax, ay, az, bx, by, bz = (
            WAY_COSINE * ax + WAY_SINE * bx,
            WAY_COSINE * ay + WAY_SINE * by,
            WAY_COSINE * az + WAY_SINE * bz,
            WAY_COSINE * bx - WAY_SINE * ax,
            WAY_COSINE * by - WAY_SINE * ay,
            WAY_COSINE * bz - WAY_SINE * az,
        )
    if not most > WAY_EXCESS:
        return 0
    # Half the angle of what was found.
    along, aside = real + roots(real * real + imaginary * imaginary), imaginary
    if along * along + aside * aside == ZERO:
        aside = ONE
    steps = WIDTH_STEPS * (width - WIDTH_PART * most) + AS_WIDE_AND_HALF
    seen = np.int64(min(max(steps, ONE), WIDEST)) << WIDTH_BITS
    if found:
        seen = seen | WAYS_CROSS
    return seen | nearest_axis(
        field,
        along * first_x + aside * last_x,
        along * first_y + aside * last_y,
        along * first_z + aside * last_z,
    )


@inlined
def ratio_of(part, whole):
    """Return the ratio of two sums, 0 where there is nothing."""
    return part / whole if whole > ZERO else ZERO


@inlined
def compared(
    least, top_1, way_1, own_1, top_2, way_2, own_2, top_3, way_3, own_3, top_4, way_4, own_4
):
    """Compare two ways with two at right angles, by the sums along them.

    Returns by how much the ratio is larger along both, and how much wider the lobe is; zeros where
    one does not go through.
    """
    tops, ways, owns = top_3 + top_4, way_3 + way_4, own_3 + own_4
    if min(way_1, way_2) > least and min(min(top_1, top_2) * ways, owns) > ZERO:
        ratio = min(way_1 * tops / (top_1 * ways), way_2 * tops / (top_2 * ways))
        return ratio - ONE, (own_1 + own_2) / owns - ONE
    return ZERO, ZERO


@inlined
def beside(x, y, z, ax, ay, az):
    """Return the direction of the way that a tangent of the top leads to."""
    return normalised(x + WAY_TANGENT * ax, y + WAY_TANGENT * ay, z + WAY_TANGENT * az)


@compiled
def sum_along_top(field, scratch, row, ix, iy, iz, x, y, z):
    """Return the sum of the FOD along the top, whose weights are in ``scratch.ways[1]``."""
    find_way(field, scratch, ix, iy, iz, x, y, z)
    top = scratch.ways[1]
    total = amplitude(field.values, row, top)
    for number in range(WAY_SAMPLES):
        there = scratch.way_rows[number]
        if there < field.values.shape[0]:
            total = total + amplitude(field.values, there, top)
    return total


@compiled
def sums_along(field, scratch, row, ix, iy, iz, x, y, z):
    """Return the sums of the FOD along the top, and along a way, in the voxels of that.

    And the FOD along the way in the voxel itself. Weights of the top are in ``scratch.ways[1]``.
    """
    way, top = scratch.ways[0], scratch.ways[1]
    find_way(field, scratch, ix, iy, iz, x, y, z)
    weigh(field, scratch, way, x, y, z)
    of_top, own = amplitude(field.values, row, top), amplitude(field.values, row, way)
    along = own
    for number in range(WAY_SAMPLES):
        there = scratch.way_rows[number]
        if there < field.values.shape[0]:
            of_top = of_top + amplitude(field.values, there, top)
            along = along + amplitude(field.values, there, way)
    return of_top, along, own


@inlined
def find_way(field, scratch, ix, iy, iz, x, y, z):
    """Find the rows of a way's voxels, and ask for them."""
    matrix = field.to_voxel
    vx, vy, vz = normalised(
        matrix[0, 0] * x + matrix[0, 1] * y + matrix[0, 2] * z,
        matrix[1, 0] * x + matrix[1, 1] * y + matrix[1, 2] * z,
        matrix[2, 0] * x + matrix[2, 1] * y + matrix[2, 2] * z,
    )
    nx, ny, nz = field.voxel_rows.shape
    n_rows, n_coefficients = field.values.shape
    for number in range(WAY_SAMPLES):  # memory brings them side by side
        half = WAY_SAMPLES // 2
        ahead = np.float32(WAY_STEP * (number + 1 if number < half else half - 1 - number))
        jx, jy = ix + nearest(ahead * vx), iy + nearest(ahead * vy)
        jz = iz + nearest(ahead * vz)
        there = n_rows
        if 0 <= jx < nx and 0 <= jy < ny and 0 <= jz < nz:
            there = row_of(field, (jx * ny + jy) * nz + jz)
        scratch.way_rows[number] = there
        for k in range(0, n_coefficients, CACHE_LINE):
            prefetch_at(field.values, there * n_coefficients + k)


@inlined
def weigh(field, scratch, weights, x, y, z):
    """Write what the FOD's own coefficients are multiplied by for the FOD along (x, y, z)."""
    terms_at(field.shifts, scratch.mixed, x, y, z)
    n_coefficients, n_padded = field.change.shape
    for c in range(n_coefficients, n_padded):
        scratch.mixed[c] = ZERO
    for k in range(n_coefficients):
        total = load_some(field.change, k * n_padded) * load_some(scratch.mixed, 0)
        for c in range(PADDING, n_padded, PADDING):
            total = total + load_some(field.change, k * n_padded + c) * load_some(scratch.mixed, c)
        weights[k] = sum_of(total)


@inlined
def terms_at(shifts, terms, x, y, z):
    """Write the polynomials of a unit vector, by which coefficients of the table are multiplied."""
    n_shifts = len(shifts)
    lmax = (n_shifts - 1) & ~1
    w, at = z * z, 0
    for largest in range(lmax, lmax - (2 - (n_shifts & 1)), -1):
        re, im = ONE, ZERO
        for m in range(largest + 1):
            v = w - shifts[m]
            factor = z if (largest - m) & 1 else ONE
            n = (largest - m >> 1) + 1
            for power in range(n - 1, -1, -1):
                if m == 0:
                    terms[at + power] = factor
                else:
                    terms[at + 2 * power] = factor * re
                    terms[at + 2 * power + 1] = factor * im
                factor = factor * v
            if m == 0:
                at, re, im = at + n, x, y
            else:
                at, re, im = at + 2 * n, x * re - y * im, x * im + y * re


@inlined
def amplitude(values, row, weights):
    """Return the non-negative FOD of a voxel along a direction."""
    n_coefficients = values.shape[1]
    first, rest = row * n_coefficients, n_coefficients // TERMS * TERMS
    totals = no_terms(ZERO)
    for k in range(0, rest, TERMS):
        totals = totals + load_terms(values, first + k) * load_terms(weights, k)
    total = sum_of(totals)
    for k in range(rest, n_coefficients):
        total = total + number_at(values, first + k) * weights[k]
    return max(total, ZERO)
