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

Lanes try arcs side by side. Each pass takes one amplitude of the arc that each of them tries, which
may be its first or its fifth, and the first amplitude or the last: lanes do not wait for each
other. Of a proposal the last amplitude, which mostly decides, is taken first: no other exceeds the
bound, so that it is accepted or not whatever the order.
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
    PURPOSE_START,
    STRAIGHT,
    TWO_PI,
    UNIT_20,
    UNIT_24,
)
from .cells import (
    HALF,
    ONE,
    ZERO,
    ask_for_row,
    cells_of,
    corner_weight,
    ensure_row,
    find_rows_of,
    load_half_floats,
    mix_rows,
    padded_length,
    row_of,
    to_voxel,
)
from .draw import arrive, draw_starts, lanes_below_cone_mass, random_words
from .lanes import (
    AHEAD,
    AMPLE,
    AWAY,
    FULL,
    N_LANES,
    PLAIN,
    SIDE,
    booleans_of,
    filled,
    filled_int,
    load,
    side_by_side,
)
from .llvm import (
    as_ints,
    bits_of,
    count_bits,
    floors,
    lowest_bit,
    roots,
    select,
    to_floats,
    to_ints,
)
from .memory import acquire, number_at, stay, store, store_to
from .sphere.cones import allowed_lanes, face, make_positive, positive
from .sphere.evaluation import values_of_lanes
from .sphere.headings import mirrored
from .sphere.tangents import normalised, tangents, turn_of

BIT, NONE = np.uint32(1), np.uint32(0)
TWO = np.float32(2)
LAST_ARC = ARCS_AHEAD + MAX_PROPOSALS
# Lanes that try arcs while others go along theirs; of fewer, those that go along theirs go first.
ENOUGH = 3 * N_LANES // 4
FEW = N_LANES // 2


@kept
def follow_arcs(field, settings, scratch, state, n_corners, drawing):
    """Go on along the arcs of a set of lanes, or draw the next; see `draw_directions`."""
    starting = drawing & bits_of(load(state.purpose) == np.uint32(PURPOSE_START))
    chosen, ended = NONE, NONE
    if starting:
        chosen, ended = draw_starts(field, settings, scratch, state, n_corners, starting)
    drawing &= ~starting
    part = load(state.arc.part)
    within = drawing & bits_of(part < 0)
    expected = drawing & np.uint32(state.progress[AWAY])
    new = drawing & ~expected & bits_of((part == 0) & (load(state.n_proposals) == np.uint32(0)))
    find_bounds(field, settings, scratch, state, n_corners, new)
    arriving = drawing & ~expected
    if state.tissue.path.shape[1] == 1:  # without tissues, which look at the FOD at each point
        arriving &= new
        if settings.min_probability == ZERO:  # which does, too, where arcs begin
            arriving &= ~state.arc.sets[AMPLE]
    stopped = arrive(field, settings, scratch, state, n_corners, arriving)
    find_rows_of(field, state, n_corners, expected)
    ended |= stopped
    trying = drawing & ~(stopped | expected | within)
    within &= ~(stopped | expected)
    drawn = NONE
    if trying and not (within | expected | starting and count_bits(trying) < ENOUGH):
        drawn, stopped = draw_arcs(field, settings, scratch, state, n_corners, trying, trying & new)
        ended |= stopped
    go_along(settings, state, within, drawn)
    return chosen | within | drawn, ended


@inlined
def go_along(settings, state, within, drawn):
    """Turn lanes within their arcs to the next chord, and the headings of all that go on."""
    ux, uy, uz = load(state.ux), load(state.uy), load(state.uz)
    hx, hy, hz = load(state.heading[0]), load(state.heading[1]), load(state.heading[2])
    inside, moving = booleans_of(within), booleans_of(within | drawn)
    x, y, z = mirrored(ux, uy, uz, hx, hy, hz)
    ux, uy, uz = select(inside, x, ux), select(inside, y, uy), select(inside, z, uz)
    store(state.ux, ux)
    store(state.uy, uy)
    store(state.uz, uz)
    x, y, z = mirrored(hx, hy, hz, ux, uy, uz)
    x, y, z = normalised(x, y, z)
    store(state.heading[0], select(moving, x, hx))
    store(state.heading[1], select(moving, y, hy))
    store(state.heading[2], select(moving, z, hz))
    part = load(state.arc.part)
    store(state.arc.part, select(moving, part + 1, part))


@inlined
def draw_arcs(field, settings, scratch, state, n_corners, trying, new):
    """Try arcs of a set of lanes until few are left; return those that have one, and that end.

    Those that are `new` have tried none yet.
    """
    arc = state.arc
    x, y, z = load(state.x), load(state.y), load(state.z)
    hx, hy, hz = load(state.heading[0]), load(state.heading[1]), load(state.heading[2])
    tried = booleans_of(trying)
    store(state.ux, select(tried, hx, load(state.ux)))
    store(state.uy, select(tried, hy, load(state.uy)))
    store(state.uz, select(tried, hz, load(state.uz)))
    chosen, ended = NONE, NONE
    if new:
        if settings.min_probability > ZERO:
            ended = lanes_below_cone_mass(field, settings, scratch, state, n_corners, new)
            reason = select(booleans_of(ended), np.int32(LOW_PROBABILITY), load(state.reason))
            store(state.reason, reason)
            trying &= ~ended
        arc.sets[AHEAD] &= ~new
    bound = positive(settings, load(arc.bound))
    ax, ay, az, bx, by, bz = tangents(hx, hy, hz)
    last = np.int32(settings.parts - 1)
    while trying:
        stay()
        number, part = load(state.n_proposals), load(arc.part)
        ahead = number < np.uint32(ARCS_AHEAD)
        down, cosine, sine, least = arc_of(settings, state, number, ahead)
        nx, ny, nz = cosine * ax + sine * bx, cosine * ay + sine * by, cosine * az + sine * bz
        which = select(ahead, part, select(part == 0, last, part - 1))
        p, q, along, across, tx, ty, tz, ex, ey, ez = point_on_arc(
            settings, down, which, hx, hy, hz, nx, ny, nz
        )
        vx, vy, vz = to_voxel(
            field.to_voxel,
            x + settings.step * (along * hx + across * nx),
            y + settings.step * (along * hy + across * ny),
            z + settings.step * (along * hz + across * nz),
        )
        find_fods(field, settings, scratch, state, n_corners, trying, vx, vy, vz)
        stay()
        amplitude = positive(settings, values_of_lanes(field.shifts, scratch.turned, tx, ty, tz))
        ratio = amplitude / bound
        is_first, is_end = part == 0, which == last
        density = select(is_first, ONE, load(arc.density))
        density = select(is_end, density, density * ratio)
        end = select(is_end, roots(ratio), select(is_first, ONE, load(arc.end)))
        store(arc.density, density)
        store(arc.end, end)
        missing = load(arc.missing)
        good = (amplitude > ZERO) & (amplitude >= settings.min_amplitude) & (missing == 0)
        good = good & (density * end > least)
        failed, whole = trying & ~bits_of(good), trying & bits_of(good & (part == last))
        if field.allowed.size:
            face(field, scratch, state, whole, hx, hy, hz)
            allowed = allowed_lanes(field, scratch, state, whole, ex, ey, ez)
            failed |= whole & ~allowed
            whole = allowed
        # What is known of the arcs ahead, and where that is enough.
        looking = bits_of(ahead)
        arc.sets[AHEAD] |= whole & looking
        lost = failed & looking & bits_of(missing != 0)
        done = whole | failed
        number = select(booleans_of(done), number + np.uint32(1), number)
        enough = done & looking & arc.sets[AHEAD] & arc.sets[FULL]
        number = select(booleans_of(enough), np.uint32(ARCS_AHEAD), number)
        low = done & looking & ~arc.sets[AHEAD] & bits_of(number == np.uint32(ARCS_AHEAD))
        low |= failed & ~looking & bits_of(number == np.uint32(LAST_ARC))
        reason = select(booleans_of(low), np.int32(LOW_AMPLITUDE), load(state.reason))
        store(state.reason, select(booleans_of(lost), missing, reason))
        drawn = whole & ~looking
        where = booleans_of(drawn)
        store(state.ux, select(where, p * hx + q * nx, load(state.ux)))
        store(state.uy, select(where, p * hy + q * ny, load(state.uy)))
        store(state.uz, select(where, p * hz + q * nz, load(state.uz)))
        store(state.n_proposals, number)
        part = select(booleans_of(trying), part + 1, part)
        part = select(booleans_of(done), np.int32(0), part)
        store(arc.part, select(where, np.int32(-settings.parts), part))
        chosen |= drawn
        ended |= low | lost
        trying &= ~(drawn | low | lost)
        if count_bits(trying) <= FEW:
            break
    return chosen, ended


@inlined
def arc_of(settings, state, number, ahead):
    """Return the arcs of these numbers: first those ahead, then the proposals.

    Returns
    -------
    down : vector
        1 minus the cosine of the angle between the ends of an arc.
    cosine, sine : vector
        Of its azimuth.
    least : vector
        What its density over the bound is to exceed.
    """
    proposal = number - np.uint32(ARCS_AHEAD)
    words = random_words(settings, state, proposal >> 1)
    second_of_two = (proposal & 1) == np.uint32(1)
    first, second = (
        select(second_of_two, words[2], words[0]),
        select(second_of_two, words[3], words[1]),
    )
    down = settings.cone_height * ((to_floats(as_ints(first >> 12)) + HALF) * UNIT_20)
    down = select(
        ahead, select(number == np.uint32(0), STRAIGHT, filled(settings.ring_height)), down
    )
    turn = (to_floats(as_ints(second >> 12)) + HALF) * UNIT_20 - HALF
    around = to_floats(as_ints(number)) / np.float32(ARCS_AHEAD - 1) - HALF
    cosine, sine = turn_of(select(ahead, around, turn))
    chance = to_floats(as_ints(((first & 4095) << 12) | (second & 4095))) * UNIT_24
    least = chance
    for _ in range(settings.parts):
        least = least * chance
    return down, cosine, sine, select(ahead, -ONE, least)


@inlined
def point_on_arc(settings, down, which, hx, hy, hz, nx, ny, nz):
    """Return a point on each arc: where a part ends, by its number.

    Returns
    -------
    p, q : vector
        The chord of the first part, along the heading and across, over the length of that part.
    along, across : vector
        The same from the beginning of the arc to the point.
    tx, ty, tz, ex, ey, ez : vector
        Tangents at the point and at the end of the arc.
    """
    # Each part turns by twice the angle between its chord and the tangents at its ends.
    angle = half_angle(down) / np.float32(settings.parts)
    cosine, sine = turn_of(angle / TWO_PI)
    turn_cosine, turn_sine = ONE - TWO * sine * sine, TWO * sine * cosine
    shortening = sine / angle
    first_p, first_q = shortening * cosine, shortening * sine
    p, q, s, t = first_p, first_q, turn_cosine, turn_sine
    to_p, to_q = p, q
    along, across, to_s, to_t = to_p, to_q, s, t
    for part in range(1, settings.parts):
        p, q = p * turn_cosine - q * turn_sine, p * turn_sine + q * turn_cosine
        s, t = s * turn_cosine - t * turn_sine, s * turn_sine + t * turn_cosine
        to_p, to_q = to_p + p, to_q + q
        is_here = which == np.int32(part)
        along, across = select(is_here, to_p, along), select(is_here, to_q, across)
        to_s, to_t = select(is_here, s, to_s), select(is_here, t, to_t)
    tx, ty, tz = to_s * hx + to_t * nx, to_s * hy + to_t * ny, to_s * hz + to_t * nz
    ex, ey, ez = s * hx + t * nx, s * hy + t * ny, s * hz + t * nz
    return first_p, first_q, along, across, tx, ty, tz, ex, ey, ez


@inlined
def half_angle(down):
    """Return half the angles of which the cosines are 1 - down, in radians."""
    square = HALF * down  # of the sine of half the angle
    beyond = square > HALF
    square = select(beyond, ONE - square, square)
    angle = ARCSINE[0] * square + ARCSINE[1]
    for k in range(2, len(ARCSINE)):
        angle = angle * square + ARCSINE[k]
    angle = angle * roots(square)
    return select(beyond, HALF_PI - angle, angle)


@inlined
def find_fods(field, settings, scratch, state, n_corners, lanes, vx, vy, vz):
    """Find the FODs at voxel coordinates of a set of lanes; where there is none, why.

    Coefficients, side by side, are in ``scratch.turned``. The rows of the voxels around are filled.
    """
    arc, weights = state.arc, state.corner_weights
    ix, iy, iz = cells_of(n_corners, vx, vy, vz)
    at = ((ix - load(arc.box[0])) * SIDE + (iy - load(arc.box[2]))) * SIDE
    store(arc.at, at + (iz - load(arc.box[4])))
    if n_corners > 1:
        fx, fy, fz = vx - floors(vx), vy - floors(vy), vz - floors(vz)
        for k in range(8):
            store(weights[k], corner_weight(k, fx, fy, fz))
    store(arc.missing, filled_int(0))
    plain = lanes & arc.sets[PLAIN]
    left = plain
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        first = lane * SIDE**3 + arc.at[lane]
        for k in range(n_corners):
            row = first + (((k >> 2) * SIDE + ((k >> 1) & 1)) * SIDE + (k & 1))
            arc.rows[lane, k] = number_at(arc.box_rows, row)
        mix_rows(field, arc.rows, weights, scratch.rows, n_corners, lane)
    left = lanes & ~plain
    if left:
        store_to(scratch.tried, 0, vx)
        store_to(scratch.tried, N_LANES, vy)
        store_to(scratch.tried, 2 * N_LANES, vz)
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        arc.missing[lane] = look_up_rows(field, settings, scratch, state, n_corners, lane)
        if not arc.missing[lane]:
            mix_rows(field, arc.rows, weights, scratch.rows, n_corners, lane)
    side_by_side(scratch.rows, scratch.turned, lanes)


@compiled
def look_up_rows(field, settings, scratch, state, n_corners, lane):
    """Find the rows around the voxel coordinates of a lane; return why there is no FOD, or 0."""
    vx, vy, vz = scratch.tried[0, lane], scratch.tried[1, lane], scratch.tried[2, lane]
    rows, shapes = state.arc.rows, field.voxel_rows.shape
    jx, jy, jz = np.floor(vx + HALF), np.floor(vy + HALF), np.floor(vz + HALF)
    inside = jx >= ZERO and jy >= ZERO and jz >= ZERO
    if not (inside and jx < shapes[0] and jy < shapes[1] and jz < shapes[2]):
        return LEFT_IMAGE
    here = row_at(field, np.int64(jx), np.int64(jy), np.int64(jz))
    if settings.edge == EDGE_VOXEL and here == field.values.shape[0]:
        return NO_FOD
    if n_corners == 1:
        rows[lane, 0] = here
        return 0
    ix, iy, iz = np.int64(np.floor(vx)), np.int64(np.floor(vy)), np.int64(np.floor(vz))
    for k in range(8):
        rows[lane, k] = row_at(field, ix + (k >> 2), iy + ((k >> 1) & 1), iz + (k & 1))
    return 0


@inlined
def row_at(field, ix, iy, iz):
    """Return the row of a voxel; that of zeros where there is no FOD, or outside the image."""
    nx, ny, nz = field.voxel_rows.shape
    if ix < 0 or iy < 0 or iz < 0 or ix >= nx or iy >= ny or iz >= nz:
        return np.int64(field.values.shape[0])
    return row_of(field, (ix * ny + iy) * nz + iz)


@inlined
def find_bounds(field, settings, scratch, state, n_corners, lanes):
    """Find what no amplitude that an arc may meet exceeds, for each of a set of lanes.

    That is the largest bound of the voxels around a box that holds every arc; their rows are
    filled.
    """
    matrix, box = field.to_voxel, state.arc.box
    v = to_voxel(matrix, load(state.x), load(state.y), load(state.z))
    more, far = (HALF, 0) if n_corners == 1 else (ZERO, 1)
    other = NONE
    for axis in range(3):
        a, b, c = matrix[axis, 0], matrix[axis, 1], matrix[axis, 2]
        length = settings.step * np.float32(settings.parts)
        reach = roots(a * a + b * b + c * c) * length + NEARLY
        first = to_ints(floors(v[axis] - reach + more))
        last = to_ints(floors(v[axis] + reach + more)) + np.int32(far)
        old_first, old_last = load(box[2 * axis]), load(box[2 * axis + 1])
        other |= lanes & bits_of((first != old_first) | (last != old_last))
        where = booleans_of(lanes)
        store(box[2 * axis], select(where, first, old_first))
        store(box[2 * axis + 1], select(where, last, old_last))
    left = other
    while left:  # memory has as long as that takes to bring the rows
        lane = lowest_bit(left)
        left &= left - BIT
        find_box(field, state, lane)
    while other:
        lane = lowest_bit(other)
        other &= other - BIT
        find_bound(field, settings, scratch, state, lane)


@inlined
def box_of(arc, lane):
    """Return the first voxel of a lane's box, how many there are, and whether they are few."""
    x, y, z = np.int64(arc.box[0, lane]), np.int64(arc.box[2, lane]), np.int64(arc.box[4, lane])
    nx = np.int64(arc.box[1, lane]) + 1 - x
    ny = np.int64(arc.box[3, lane]) + 1 - y
    nz = np.int64(arc.box[5, lane]) + 1 - z
    return x, y, z, nx, ny, nz, nx <= SIDE and ny <= SIDE and nz <= SIDE


@compiled
def find_box(field, state, lane):
    """Find the rows of the box of a lane, if it is small, and ask for them."""
    arc = state.arc
    x, y, z, nx, ny, nz, is_small = box_of(arc, lane)
    if not is_small:
        return
    shape, rows = field.voxel_rows.shape, arc.box_rows[lane]
    inside = x >= 0 and y >= 0 and z >= 0
    inside = inside and x + nx <= shape[0] and y + ny <= shape[1] and z + nz <= shape[2]
    for dx in range(nx):
        for dy in range(ny):
            first = ((x + dx) * shape[1] + y + dy) * shape[2] + z
            for dz in range(nz):
                place = first + dz
                row = row_of(field, place) if inside else row_at(field, x + dx, y + dy, z + dz)
                rows[np.uint64((dx * SIDE + dy) * SIDE + dz)] = row
                ask_for_row(field, row)


@compiled
def find_bound(field, settings, scratch, state, lane):
    """Find the largest bound of the box of a lane, and whether it is full of FODs."""
    arc, bit = state.arc, BIT << np.uint32(lane)
    x, y, z, nx, ny, nz, is_small = box_of(arc, lane)
    rows = arc.box_rows[lane]
    none, n_padded = field.values.shape[0], padded_length(field.shifts)
    # Half floats that are not negative rise as their bits.
    largest, smallest, is_full = np.uint16(0), np.uint16(0x7C00), True
    for dx in range(nx):
        for dy in range(ny):
            for dz in range(nz):
                if is_small:
                    row = rows[np.uint64((dx * SIDE + dy) * SIDE + dz)]
                else:
                    row = row_at(field, x + dx, y + dy, z + dz)
                if row == none:
                    is_full = False
                    continue
                ensure_row(field, scratch, row)
                bound = number_at(field.coefficients, row * n_padded + field.values.shape[1])
                largest, smallest = max(largest, bound), min(smallest, bound)
    acquire()
    scratch.half_floats[0], scratch.half_floats[1] = largest, smallest
    bounds = scratch.amplitudes
    store_to(bounds, 0, load_half_floats(scratch.half_floats, 0))
    arc.bound[lane] = MARGIN * bounds[0]
    make_positive(settings, bounds, 2)
    is_ample = is_full and bounds[1] > MARGIN * settings.min_amplitude and smallest > 0
    keep(arc.sets, FULL, bit, is_full)
    keep(arc.sets, PLAIN, bit, is_full and is_small)
    keep(arc.sets, AMPLE, bit, is_ample)


@inlined
def keep(sets, number, bit, is_in):
    """Put a lane into a set, or take it out."""
    sets[number] = sets[number] | bit if is_in else sets[number] & ~bit
