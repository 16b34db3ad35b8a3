"""Where a point lies among voxels, and the FOD there: rows of the table, interpolated.

A row of the table is filled when a streamline first comes near, by whichever thread is there first.
Should two be there at once, both write the same numbers, and neither takes back the bound, which
tells that a row is filled: another may be reading it.
"""

from __future__ import annotations

import numpy as np

from ...runtime.compiling import compiled, inlined, kept
from .. import codes
from ..codes import ABOVE, EVERYWHERE, EXCESS, NEAR, PADDING, UNIT_24
from .lanes import (
    AWAY,
    EXPECTED,
    N_LANES,
    booleans_of,
    few_side_by_side,
    filled_int,
    load,
    load_from,
    side_by_side,
    sum_of_positive,
)
from .llvm import (
    as_ints,
    bits_of,
    count_bits,
    count_bits_of_64,
    floors,
    largest_of,
    lowest_bit,
    select,
    to_floats,
    to_ints,
)
from .memory import (
    acquire,
    half_loader_from,
    loader_from,
    number_at,
    prefetch_at,
    publish,
    stay,
    store,
    store_half_floats,
    store_to,
)
from .sphere.evaluation import values_at, values_of_lanes
from .sphere.peaks import climb, cosine_of, has_odd_degrees, largest_value

BIT, NONE, EVERY = np.uint32(1), np.uint32(0), np.uint32((1 << N_LANES) - 1)
ONE_BIT, NO_BITS = np.uint64(1), np.uint64(0)
UNFILLED_BITS = np.uint16(codes.UNFILLED_BITS)  # for the bound of a row that is not filled yet
ZERO, ONE, TWO, HALF = np.float32(0), np.float32(1), np.float32(2), np.float32(0.5)
load_some, load_half_floats = loader_from(PADDING), half_loader_from(PADDING)
FEW_LANES = 2  # that are copied one by one
CACHE_LINE = 32  # numbers of 16 bits
FEW_ROWS = 1 << 13  # that stay in the second level of the cache


@inlined
def to_voxel(matrix, x, y, z):
    """Map RAS+ mm, numbers or vectors, to voxel coordinates by a (3, 4) float32 matrix."""
    vx = matrix[0, 0] * x + matrix[0, 1] * y + matrix[0, 2] * z + matrix[0, 3]
    vy = matrix[1, 0] * x + matrix[1, 1] * y + matrix[1, 2] * z + matrix[1, 3]
    vz = matrix[2, 0] * x + matrix[2, 1] * y + matrix[2, 2] * z + matrix[2, 3]
    return vx, vy, vz


@inlined
def nearest(v):
    """Return the voxel that a voxel coordinate belongs to, along its axis."""
    return np.int64(np.floor(v + HALF))


@inlined
def padded_length(shifts):
    """Return the length of the rows of the table, which the compiler knows from that of a tuple."""
    n = len(shifts)
    n_coefficients = (n - 1) * (n - 1) if has_odd_degrees(shifts) else n * (n + 1) // 2
    return (n_coefficients // PADDING + 1) * PADDING


@compiled
def fill_row(
    shifts,
    values,
    change,
    table,
    masses,
    crossings,
    row,
    points,
    amplitudes,
    mixed,
    half_floats,
):
    """Fill one row of the table.

    Parameters
    ----------
    shifts : tuple of float32
    values : (n_rows, n_coefficients) float32
        The FOD's own coefficients.
    change : (n_coefficients, n_padded) float32
    table : (n_rows + 1, n_padded) uint16
        Coefficients and bounds as half floats, see `FodTable`; the row is written.
    masses : (n_rows + 1,) float32
        Mean over the sphere of the non-negative amplitude; that of the row is written.
    crossings : (n_rows + 1,) uint32
        That of the row becomes NOT_SEEN, and more where the FOD is largest.
    row : int
    points : (3, n) float32
        Directions of the half sphere; of the whole for an asymmetric FOD.
    amplitudes, mixed, half_floats : (n,) float32, (n_padded,) float32, (n_padded,) uint16
        Scratch.
    """
    n_coefficients, n_padded = change.shape
    for c in range(0, n_padded, PADDING):
        total = values[row, 0] * load_some(change, c)
        for k in range(1, n_coefficients):
            total = total + values[row, k] * load_some(change, k * n_padded + c)
        store_to(mixed, c, total)
    for c in range(0, n_padded, PADDING):  # as they are read from the table
        store_half_floats(half_floats, c, load_some(mixed, c))
        store_to(mixed, c, load_half_floats(half_floats, c))
    n_points = points.shape[1]
    for j in range(0, n_points, N_LANES):
        x = load_from(points, j)
        y = load_from(points, n_points + j)
        z = load_from(points, 2 * n_points + j)
        store_to(amplitudes, j, values_at(shifts, mixed, x, y, z))
    value, largest = largest_value(amplitudes, n_points)
    bound = ZERO
    if value > ZERO:
        x, y, z = points[0, largest], points[1, largest], points[2, largest]
        px, py, pz, bound = climb(shifts, mixed, ZERO, ZERO, ONE, EVERYWHERE, ZERO, x, y, z, value)
        near = cosine_of(shifts, NEAR)
        opposite = -TWO if has_odd_degrees(shifts) else -near  # a lobe of its own, or the same
        for j in range(0, n_points, N_LANES):  # other lobes, whose peaks may be higher
            cosine = px * load_from(points, j) + py * load_from(points, n_points + j)
            cosine = cosine + pz * load_from(points, 2 * n_points + j)
            elsewhere = (cosine < near) & (cosine > opposite)
            bound = max(
                bound, EXCESS * largest_of(select(elsewhere, load_from(amplitudes, j), ZERO))
            )
    last = n_coefficients // PADDING * PADDING
    mixed[n_coefficients] = bound * ABOVE
    store_half_floats(half_floats, last, load_some(mixed, last))
    for c in range(n_padded):
        if c != n_coefficients:
            table[row, c] = half_floats[c]
    crossings[row] = codes.NOT_SEEN + largest
    masses[row] = sum_of_positive(amplitudes, n_points) / np.float32(n_points)
    publish()
    table[row, n_coefficients] = half_floats[n_coefficients]


@inlined
def ensure_row(field, scratch, row):
    """Fill a row of the table unless it is filled already."""
    if field.coefficients[np.uint64(row), field.values.shape[1]] == UNFILLED_BITS:
        fill_row(
            field.shifts,
            field.values,
            field.change,
            field.coefficients,
            field.masses,
            field.crossings,
            row,
            field.sphere_points,
            scratch.amplitudes,
            scratch.mixed,
            scratch.half_floats,
        )


@inlined
def corner_weight(k, fx, fy, fz):
    """Return the trilinear weight of corner k of a cell at fractions of its edges.

    Bits 2, 1 and 0 of k tell whether the corner is at the far end along x, y and z. The fractions,
    from 0 to 1, are numbers or vectors.
    """
    weight = fx if k >> 2 else ONE - fx
    weight = weight * (fy if (k >> 1) & 1 else ONE - fy)
    return weight * (fz if k & 1 else ONE - fz)


@inlined
def row_of(field, voxel):
    """Return the row of a voxel, numbered in C order; that of zeros where there is no FOD."""
    at = (voxel >> 6) << 1
    bits, bit = number_at(field.words, at), ONE_BIT << np.uint64(voxel & 63)
    row = np.int64(number_at(field.words, at + 1)) + count_bits_of_64(bits & (bit - ONE_BIT))
    return select((bits & bit) != NO_BITS, row, np.int64(field.values.shape[0]))


@inlined
def ask_for_numbers(field, state, n_corners, lane):
    """Ask for the numbers of the rows of a lane's cell: the voxel, or the eight voxels around."""
    _, ny, nz = field.voxel_rows.shape
    cells = state.cells
    first = (np.int64(cells[0, lane]) * ny + np.int64(cells[1, lane])) * nz
    first += np.int64(cells[2, lane])
    prefetch_at(field.words, (first >> 6) << 1)
    if n_corners > 1:
        prefetch_at(field.words, (first + nz >> 6) << 1)
        prefetch_at(field.words, (first + ny * nz >> 6) << 1)
        prefetch_at(field.words, (first + ny * nz + nz >> 6) << 1)


@inlined
def leave_cell(field, state, n_corners, lane):
    """Move a lane to the cell of its last point, if that is another; see `leave_cells`."""
    half = HALF if n_corners == 1 else ZERO
    vx, vy, vz = to_voxel(field.to_voxel, state.x[lane], state.y[lane], state.z[lane])
    ix = np.int32(np.floor(vx + half))
    iy = np.int32(np.floor(vy + half))
    iz = np.int32(np.floor(vz + half))
    cells = state.cells
    if ix != cells[0, lane] or iy != cells[1, lane] or iz != cells[2, lane]:
        cells[0, lane], cells[1, lane], cells[2, lane] = ix, iy, iz
        state.progress[AWAY] |= np.int64(1) << lane
        ask_for_numbers(field, state, n_corners, lane)


@inlined
def leave_cells(field, state, n_corners, left, ix, iy, iz):
    """Move a set of lanes, those that have left their cells, to the cells of their last points."""
    if not left:
        return
    elsewhere = booleans_of(left)
    store(state.cells[0], select(elsewhere, ix, load(state.cells[0])))
    store(state.cells[1], select(elsewhere, iy, load(state.cells[1])))
    store(state.cells[2], select(elsewhere, iz, load(state.cells[2])))
    known = NONE
    if n_corners == 1:
        known = left & lanes_in(state.cells_ahead, ix, iy, iz)
        state.progress[EXPECTED] |= np.int64(known)
        left &= ~known
    state.progress[AWAY] |= np.int64(left)
    while known:
        lane = lowest_bit(known)
        known &= known - BIT
        state.lane_rows[lane, 0] = state.rows_ahead[lane, 0]
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        ask_for_numbers(field, state, n_corners, lane)


@inlined
def cells_of(n_corners, vx, vy, vz):
    """Return the cells of voxel coordinates, of all lanes."""
    half = HALF if n_corners == 1 else ZERO
    return to_ints(floors(vx + half)), to_ints(floors(vy + half)), to_ints(floors(vz + half))


@inlined
def lanes_in(cells, ix, iy, iz):
    """Return the lanes in these cells."""
    jx, jy, jz = load(cells[0]), load(cells[1]), load(cells[2])
    return bits_of((ix == jx) & (iy == jy) & (iz == jz))


@inlined
def look_ahead(field, settings, state, n_corners, moved):
    """Find the rows of where a set of lanes gets to by going straight on, and ask for them.

    Most lanes do get there, or next to it, and memory has a whole pass to bring the rows. For
    nearest voxels alone: eight rows for each position took longer than they saved.
    """
    step = settings.step
    x = load(state.x) + step * load(state.ux)
    y = load(state.y) + step * load(state.uy)
    z = load(state.z) + step * load(state.uz)
    vx, vy, vz = to_voxel(field.to_voxel, x, y, z)
    ix, iy, iz = cells_of(n_corners, vx, vy, vz)
    left = moved & ~(lanes_in(state.cells, ix, iy, iz) | lanes_in(state.cells_ahead, ix, iy, iz))
    elsewhere = booleans_of(left)
    store(state.cells_ahead[0], select(elsewhere, ix, load(state.cells_ahead[0])))
    store(state.cells_ahead[1], select(elsewhere, iy, load(state.cells_ahead[1])))
    store(state.cells_ahead[2], select(elsewhere, iz, load(state.cells_ahead[2])))
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        find_rows(field, state.cells_ahead, state.rows_ahead, n_corners, lane)


@inlined
def find_rows(field, cells, rows, n_corners, lane):
    """Find the rows of the cell of a lane, and ask for them.

    The last row of the table, of zeros, stands for voxels without an FOD.
    """
    ix, iy, iz = np.int64(cells[0, lane]), np.int64(cells[1, lane]), np.int64(cells[2, lane])
    nx, ny, nz = field.voxel_rows.shape
    none = np.int64(field.values.shape[0])
    first = (ix * ny + iy) * nz + iz
    inside = ix >= 0 and iy >= 0 and iz >= 0 and ix + 1 < nx and iy + 1 < ny and iz + 1 < nz
    for k in range(n_corners):
        dx, dy, dz = k >> 2, (k >> 1) & 1, k & 1
        row = none
        if inside or (0 <= ix + dx < nx and 0 <= iy + dy < ny and 0 <= iz + dz < nz):
            row = row_of(field, first + (dx * ny + dy) * nz + dz)
        rows[lane, k] = row
        ask_for_row(field, row)


@inlined
def ask_for_row(field, row):
    """Ask for a row of the table."""
    n_padded = padded_length(field.shifts)
    # Rows begin in the middle of lines or where they begin.
    for at in range(0, n_padded - CACHE_LINE // 2, CACHE_LINE):
        prefetch_at(field.coefficients, row * n_padded + at)
    prefetch_at(field.coefficients, row * n_padded + n_padded - 1)


@inlined
def mix_rows(field, rows, weights, mixed, n_corners, lane):
    """Write the coefficients of one lane: those of its rows, by their weights."""
    n_padded, coefficients = padded_length(field.shifts), field.coefficients
    r0 = rows[lane, 0] * n_padded
    to = lane * n_padded
    if n_corners == 1:
        for c in range(0, n_padded, PADDING):
            store_to(mixed, to + c, load_half_floats(coefficients, r0 + c))
        return
    r1, r2, r3 = rows[lane, 1] * n_padded, rows[lane, 2] * n_padded, rows[lane, 3] * n_padded
    r4, r5 = rows[lane, 4] * n_padded, rows[lane, 5] * n_padded
    r6, r7 = rows[lane, 6] * n_padded, rows[lane, 7] * n_padded
    w0, w1, w2, w3 = weights[0, lane], weights[1, lane], weights[2, lane], weights[3, lane]
    w4, w5, w6, w7 = weights[4, lane], weights[5, lane], weights[6, lane], weights[7, lane]
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
        store_to(mixed, to + c, total)


@inlined
def interpolate(field, state, n_corners, lane):
    """Write the coefficients of one lane, at its last point."""
    rows, weights, mixed = state.lane_rows, state.corner_weights, state.lane_coefficients
    mix_rows(field, rows, weights, mixed, n_corners, lane)


@inlined
def find_rows_of(field, state, n_corners, lanes):
    """Find the rows of a set of lanes that have left their cells."""
    state.progress[AWAY] &= ~np.int64(lanes)
    state.progress[EXPECTED] |= np.int64(lanes)
    while lanes:
        lane = lowest_bit(lanes)
        lanes &= lanes - BIT
        find_rows(field, state.cells, state.lane_rows, n_corners, lane)


@inlined
def mix(field, scratch, state, n_corners, moved):
    """Find the FOD at the last point of each of a set of lanes: its coefficients and their bound.

    ``state.row`` becomes the row of the nearest voxel.
    """
    new = moved & np.uint32(state.progress[EXPECTED])
    state.progress[EXPECTED] &= ~np.int64(moved)
    left = new
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        for k in range(n_corners):
            ensure_row(field, scratch, state.lane_rows[lane, k])
    acquire()
    left = moved
    if n_corners == 1:
        left = new
    else:
        vx, vy, vz = to_voxel(field.to_voxel, load(state.x), load(state.y), load(state.z))
        fx, fy, fz = vx - floors(vx), vy - floors(vy), vz - floors(vz)
        for k in range(8):
            store(state.corner_weights[k], corner_weight(k, fx, fy, fz))
        corner = select(fx >= HALF, filled_int(4), 0) | select(fy >= HALF, filled_int(2), 0)
        store(state.corner, corner | select(fz >= HALF, filled_int(1), 0))
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        interpolate(field, state, n_corners, lane)
        row = state.lane_rows[lane, state.corner[lane] if n_corners > 1 else 0]
        state.row[lane] = row
        prefetch_at(field.crossings, row)  # lobes are looked at next
    if n_corners > 1:
        side_by_side(state.lane_coefficients, state.coefficients, moved)
    elif count_bits(new) > FEW_LANES:
        side_by_side(state.lane_coefficients, state.coefficients, new)
    else:
        few_side_by_side(state.lane_coefficients, state.coefficients, new)
    bound = load(state.coefficients[field.values.shape[1]])
    store(state.bound, select(booleans_of(moved), bound, load(state.bound)))


@inlined
def either(v, words):
    """Return one of the two voxels around voxel coordinates, with its linear weight, by words."""
    return to_ints(floors(v + to_floats(as_ints(words >> 8)) * UNIT_24))


@kept
def ask_ahead(field, settings, scratch, state, n_corners, words, lanes):
    """Find the row of one voxel `look_ahead` further on along the directions of ``scratch.tried``.

    Of a set of lanes, and ask for it: memory is to bring it while it is decided which of them need
    it. Of the eight voxels around, three `words` choose one with its trilinear weight; with nearest
    voxels it is that one.
    """
    far, tried = settings.look_ahead, scratch.tried
    vx, vy, vz = to_voxel(
        field.to_voxel,
        load(state.x) + far * load_from(tried, 0),
        load(state.y) + far * load_from(tried, N_LANES),
        load(state.z) + far * load_from(tried, 2 * N_LANES),
    )
    if n_corners == 1:
        ix, iy, iz = cells_of(1, vx, vy, vz)
    else:
        ix, iy, iz = either(vx, words[0]), either(vy, words[1]), either(vz, words[2])
    nx, ny, nz = field.voxel_rows.shape
    inside = (ix >= 0) & (iy >= 0) & (iz >= 0) & (ix < nx) & (iy < ny) & (iz < nz)
    store(state.far_voxels, select(inside, (ix * ny + iy) * nz + iz, filled_int(-1)))
    left = lanes
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        voxel, row = np.int64(state.far_voxels[lane]), np.int64(field.values.shape[0])
        if voxel >= 0:
            row = row_of(field, voxel)
        state.far_rows[lane] = row
        ask_for_row(field, row)


@kept
def find_ahead(field, scratch, state, lanes):
    """Find the FODs that a set of lanes has asked for; coefficients are in ``scratch.turned``."""
    left = lanes
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        ensure_row(field, scratch, state.far_rows[lane])
    acquire()
    n_padded = padded_length(field.shifts)
    left = lanes
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        first = state.far_rows[lane] * n_padded
        for c in range(0, n_padded, PADDING):
            numbers = load_half_floats(field.coefficients, first + c)
            store_to(scratch.rows, lane * n_padded + c, numbers)
    side_by_side(scratch.rows, scratch.turned, lanes)


@inlined
def mean_amplitude(field, state, n_corners, lane):
    """Return the interpolated mean over the sphere of the non-negative amplitudes."""
    if n_corners == 1:
        return field.masses[state.lane_rows[lane, 0]]
    total = ZERO
    for k in range(8):
        total += state.corner_weights[k, lane] * field.masses[state.lane_rows[lane, k]]
    return total


@compiled
def slopes_in_space(field, scratch, state, lanes, ux, uy, uz):
    """Write the gradients in space of the FOD along unit vectors of lanes to ``scratch.tilted``.

    Per mm, where the lanes are; of eight voxels, which are evaluated side by side, so that of a few
    lanes it takes little.
    """
    # Rows of numbers of lanes: the vectors, those of what is evaluated, what is found in each of
    # the voxels; and where voxels are side by side, what is found.
    numbers, vectors, values, found = scratch.tilted, 3, 6, 14
    n_padded, rows = padded_length(field.shifts), scratch.rows
    for axis, unit in enumerate((ux, uy, uz)):
        store_to(numbers, axis * N_LANES, unit)
    left = lanes
    while left:
        some, n = left, 0
        while left and n < N_LANES:
            lane = lowest_bit(left)
            left &= left - BIT
            for k in range(8):
                source, to = state.lane_rows[lane, k] * n_padded, n * n_padded
                for c in range(0, n_padded, PADDING):
                    store_to(rows, to + c, load_half_floats(field.coefficients, source + c))
                for axis in range(3):
                    numbers[vectors + axis, n] = numbers[axis, lane]
                n += 1
        side_by_side(rows, scratch.turned, EVERY >> np.uint32(N_LANES - n))
        stay()
        x, y = load_from(numbers, vectors * N_LANES), load_from(numbers, (vectors + 1) * N_LANES)
        z = load_from(numbers, (vectors + 2) * N_LANES)
        store_to(numbers, found * N_LANES, values_of_lanes(field.shifts, scratch.turned, x, y, z))
        some, n = some & ~left, 0
        while some:
            lane = lowest_bit(some)
            some &= some - BIT
            for k in range(8):
                numbers[values + k, lane] = numbers[found, n]
                n += 1
    matrix = field.to_voxel
    vx, vy, vz = to_voxel(matrix, load(state.x), load(state.y), load(state.z))
    fx, fy, fz = vx - floors(vx), vy - floors(vy), vz - floors(vz)
    gx = gy = gz = fx - fx
    for k in range(8):
        value = load_from(numbers, (values + k) * N_LANES)
        wx = fx if k >> 2 else ONE - fx
        wy = fy if (k >> 1) & 1 else ONE - fy
        wz = fz if k & 1 else ONE - fz
        gx = gx + (value if k >> 2 else ZERO - value) * wy * wz
        gy = gy + (value if (k >> 1) & 1 else ZERO - value) * wx * wz
        gz = gz + (value if k & 1 else ZERO - value) * wx * wy
    for axis in range(3):
        slope = matrix[0, axis] * gx + matrix[1, axis] * gy + matrix[2, axis] * gz
        store_to(numbers, axis * N_LANES, slope)
