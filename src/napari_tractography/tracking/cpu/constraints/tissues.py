"""Tissues in the kernel: what tissue each point of a streamline lies in, and what follows from it.

The rules are those of MRtrix3's ``tckgen -act`` (Smith et al., 2012), see docs/tissues.md; the twin
is ``tracking/cuda/tissues.h``. Nothing here runs without a tissue image.
"""

from __future__ import annotations

import math

import numpy as np

from ....model.tissues import INTERFACE_WIDTH
from ....runtime.compiling import compiled, inlined
from ...codes import (
    BOTH,
    CROPPINGS,
    ENDED_IN_DEEP_GREY,
    ENDED_IN_WHITE,
    ENTERED_CORTEX,
    ENTERED_FLUID,
    KEPT,
    LEFT_DEEP_GREY,
    LEFT_TISSUES,
    LOW_AMPLITUDE,
    LOW_PROBABILITY,
    LOWEST_SUM,
    MAX_LENGTH,
    NO_FOD,
    PERTURBATION_MM,
    PURPOSE_BACKWARD,
    PURPOSE_FORWARD,
    PURPOSES,
    REFUSED,
    REVERTS_FROM_ONE_POINT,
    SHARP_TURN,
    TOO_LONG,
    TRACKED_AGAIN,
)
from ..cells import ONE, ZERO, corner_weight, nearest, to_voxel
from ..sphere.evaluation import value_at
from ..sphere.headings import head_on
from ..sphere.tangents import normalised
from .regions import visit_regions

WIDTH = np.float32(INTERFACE_WIDTH)
HALF = np.float32(0.5)


@compiled
def fractions_at(tissues, x, y, z):
    """Return whether there is tissue at a point, and the fractions of the five."""
    nx, ny, nz, _ = tissues.fractions.shape
    vx, vy, vz = to_voxel(tissues.to_voxel, x, y, z)
    ix, iy, iz = nearest(vx), nearest(vy), nearest(vz)
    if ix < 0 or iy < 0 or iz < 0 or ix >= nx or iy >= ny or iz >= nz:
        return False, ZERO, ZERO, ZERO, ZERO, ZERO
    here = tissues.fractions[ix, iy, iz]
    if not (here[0] > ZERO or here[1] > ZERO or here[2] > ZERO or here[3] > ZERO or here[4] > ZERO):
        return False, ZERO, ZERO, ZERO, ZERO, ZERO
    cx, cy, cz = np.floor(vx), np.floor(vy), np.floor(vz)
    fx, fy, fz = vx - cx, vy - cy, vz - cz
    jx, jy, jz = np.int64(cx), np.int64(cy), np.int64(cz)
    cortex, deep, white, fluid, lesion = ZERO, ZERO, ZERO, ZERO, ZERO
    for k in range(8):
        kx = min(max(jx + (k >> 2), 0), nx - 1)
        ky = min(max(jy + ((k >> 1) & 1), 0), ny - 1)
        kz = min(max(jz + (k & 1), 0), nz - 1)
        weight = corner_weight(k, fx, fy, fz)
        corner = tissues.fractions[kx, ky, kz]
        cortex = cortex + weight * corner[0]
        deep = deep + weight * corner[1]
        white = white + weight * corner[2]
        fluid = fluid + weight * corner[3]
        lesion = lesion + weight * corner[4]
    is_tissue = cortex + deep + white + fluid + lesion >= LOWEST_SUM
    return is_tissue, cortex, deep, white, fluid, lesion


@inlined
def is_surely_white(tissues, x, y, z):
    """Tell whether there is most of white matter at a point, without its fractions.

    Where it is, they need not be mixed: forty numbers, with which a step took nine times as long.
    """
    nx, ny, nz, _ = tissues.fractions.shape
    vx, vy, vz = to_voxel(tissues.to_voxel, x, y, z)
    ix, iy, iz = nearest(vx), nearest(vy), nearest(vz)
    if ix < 0 or iy < 0 or iz < 0 or ix >= nx or iy >= ny or iz >= nz:
        return False
    jx, jy, jz = np.int64(np.floor(vx)), np.int64(np.floor(vy)), np.int64(np.floor(vz))
    return tissues.white_cells[jx + 1, jy + 1, jz + 1] != 0


@inlined
def is_fluid(cortex, deep, white, fluid, lesion):
    """Tell whether no fraction is larger than that of fluid."""
    return fluid >= cortex and fluid >= deep and fluid >= white and fluid >= lesion


@inlined
def is_deep(cortex, deep, white, fluid, lesion):
    """Tell whether deep grey matter is what there is most of."""
    return deep > cortex and deep >= white and deep > fluid and deep > lesion


@inlined
def is_lesion(cortex, deep, white, fluid, lesion):
    """Tell whether lesion is what there is most of."""
    return lesion >= cortex and lesion >= deep and lesion >= white and lesion > fluid


@compiled
def begin_in_tissues(tissues, state, lane, x, y, z):
    """Put a lane at its seed; tell whether a streamline may begin there."""
    t = state.tissue
    t.is_from_deep[lane] = t.has_reached_white[lane] = t.is_one_way[lane] = False
    t.cropped[lane] = ZERO
    found, cortex, deep, white, fluid, lesion = fractions_at(tissues, x, y, z)
    if not found:
        return False
    if is_deep(cortex, deep, white, fluid, lesion):
        t.is_from_deep[lane] = True
        return True
    if is_fluid(cortex, deep, white, fluid, lesion) or not white > ZERO:
        return False
    return cortex + deep - white < WIDTH


@compiled
def face_white(settings, tissues, state, lane, x, y, z):
    """At the border of the cortex turn the start direction to the white matter, and go one way."""
    if settings.direction != BOTH:
        return
    _, cortex, deep, white, fluid, lesion = fractions_at(tissues, x, y, z)
    if is_deep(cortex, deep, white, fluid, lesion) or white >= cortex + deep or deep >= cortex:
        return
    start = state.start_direction[lane]
    dx, dy, dz = PERTURBATION_MM * start[0], PERTURBATION_MM * start[1], PERTURBATION_MM * start[2]
    found, cortex, deep, white, _, _ = fractions_at(tissues, x + dx, y + dy, z + dz)
    ahead = cortex + deep - white if found else ZERO
    found, cortex, deep, white, _, _ = fractions_at(tissues, x - dx, y - dy, z - dz)
    behind = cortex + deep - white if found else ZERO
    if ahead - behind > ZERO:
        for axis in range(3):
            start[axis] = -start[axis]
    state.tissue.is_one_way[lane] = True


@compiled
def begin_half_in_tissues(tissues, state, lane, x, y, z):
    """Begin a half at the seed."""
    t = state.tissue
    found, cortex, deep, white, fluid, lesion = fractions_at(tissues, x, y, z)
    t.is_in_lesion[lane] = found and is_lesion(cortex, deep, white, fluid, lesion)
    t.depth[lane] = 0
    t.n_reverts[lane] = 0
    t.furthest[lane] = 0
    t.n_back[lane] = 1
    t.n_from_there[lane] = 0
    t.visited_before[lane] = state.visited[lane]
    path = t.path[lane, 0]
    path[0], path[1], path[2] = x, y, z


@compiled
def visit_tissues(field, tissues, state, lane, steps, x, y, z):
    """Record what a point lies in, number `steps` of its half; return the reason to stop, or 0."""
    t = state.tissue
    arrival = t.arrival[lane]
    if t.depth[lane]:
        # Of the FOD where the last point is: the next step was chosen by it.
        mixed = state.lane_coefficients[lane]
        value = value_at(field.shifts, mixed, arrival[0], arrival[1], arrival[2])
        if t.depth[lane] == 1 or value < t.least[lane]:
            t.least[lane], t.least_at[lane] = value, steps - 1
    arrival[0], arrival[1], arrival[2] = state.ux[lane], state.uy[lane], state.uz[lane]
    path = t.path[lane, steps]
    path[0], path[1], path[2] = x, y, z
    t.is_in_lesion[lane] = False
    if not is_surely_white(tissues, x, y, z):
        found, cortex, deep, white, fluid, lesion = fractions_at(tissues, x, y, z)
        t.is_in_lesion[lane] = found and is_lesion(cortex, deep, white, fluid, lesion)
        if not found:
            return LEFT_TISSUES
        if is_fluid(cortex, deep, white, fluid, lesion):
            return LEFT_DEEP_GREY if t.depth[lane] else ENTERED_FLUID
        grey = cortex + deep
        if grey >= white and grey > fluid and grey > lesion:
            if cortex >= deep:
                return ENTERED_CORTEX
            t.depth[lane] += 1
            return 0
    if t.depth[lane]:
        if not t.is_from_deep[lane] or t.has_reached_white[lane]:
            return LEFT_DEEP_GREY
        t.has_reached_white[lane] = True
        t.depth[lane] = 0
    return 0


@inlined
def visit(field, regions, state, lane, steps, x, y, z):
    """Record in what tissue and regions a point lies; return the reason to stop there, or 0."""
    reason = 0
    if regions.tissues.fractions.size:
        reason = visit_tissues(field, regions.tissues, state, lane, steps, x, y, z)
    if not reason and regions.roles.shape[0]:
        reason = visit_regions(regions, state, lane, state.half[lane], False, x, y, z)
    return reason


@compiled
def cut(settings, state, lane, steps):
    """Shorten the half of a lane to so many steps."""
    every = settings.max_steps + 1 if settings.endpoints else settings.record_every
    state.steps[lane] = steps
    n_points = (steps + every - 1) // every
    state.cursor[lane] = state.points.shape[1] // 2 + n_points * state.cursor_step[lane]
    state.since_recorded[lane] = steps % every
    point, path = state.points[lane, state.cursor[lane]], state.tissue.path[lane, steps]
    for axis in range(3):
        point[axis] = path[axis]


@compiled
def crop(tissues, state, lane):
    """Move the last point of a half, in cortex, back along the last step to white matter."""
    steps = state.steps[lane]
    end, last = state.tissue.path[lane, steps], state.tissue.path[lane, max(steps - 1, 0)]
    ex, ey, ez, lx, ly, lz = end[0], end[1], end[2], last[0], last[1], last[2]
    found, cortex, deep, white, _, _ = fractions_at(tissues, lx, ly, lz)
    if not (found and cortex + deep < white):
        return
    found, cortex, deep, white, _, _ = fractions_at(tissues, ex, ey, ez)
    if not (found and cortex + deep - white >= WIDTH):
        return
    low, high = ZERO, ONE
    for _ in range(CROPPINGS):
        part = HALF * (low + high)
        x, y, z = lx + part * (ex - lx), ly + part * (ey - ly), lz + part * (ez - lz)
        found, cortex, deep, white, _, _ = fractions_at(tissues, x, y, z)
        if white > cortex + deep:
            low = part
            continue
        high = part
        if cortex + deep - white < WIDTH:
            break
    x, y, z = lx + high * (ex - lx), ly + high * (ey - ly), lz + high * (ez - lz)
    dx, dy, dz = ex - x, ey - y, ez - z
    state.tissue.cropped[lane] += np.float32(math.sqrt(dx * dx + dy * dy + dz * dz))
    point = state.points[lane, state.cursor[lane]]
    point[0], point[1], point[2] = x, y, z


@compiled
def revert(settings, regions, state, lane):
    """Take a half back a few steps, to be tracked again from there; tell whether it may be.

    As MRtrix3 does: three times from a step before the furthest point that was reached, three times
    from two steps before it, and so on down to the seed.
    """
    t = state.tissue
    steps = state.steps[lane]
    if steps > t.furthest[lane]:
        t.furthest[lane] = steps
        t.n_back[lane], t.n_from_there[lane] = 1, 1
    elif t.n_from_there[lane] == REVERTS_FROM_ONE_POINT:
        t.n_back[lane] += 1
        t.n_from_there[lane] = 1
    else:
        t.n_from_there[lane] += 1
    parts = settings.parts  # a whole arc is drawn again
    to = ((t.furthest[lane] + parts - 1) // parts - t.n_back[lane]) * parts
    if to < 0:
        return False
    path = t.path[lane]
    if steps > to:
        first = max(to - 1, 0)  # the mean of the steps to that point and from it
        dx = path[to + 1, 0] - path[first, 0]
        dy = path[to + 1, 1] - path[first, 1]
        dz = path[to + 1, 2] - path[first, 2]
        state.ux[lane], state.uy[lane], state.uz[lane] = normalised(dx, dy, dz)
        head_on(state, lane)
        cut(settings, state, lane, to)
        state.x[lane], state.y[lane], state.z[lane] = path[to, 0], path[to, 1], path[to, 2]
    t.n_reverts[lane] += 1
    half = state.half[lane]
    purpose = PURPOSE_BACKWARD if half else PURPOSE_FORWARD
    state.purpose[lane] = purpose + PURPOSES * t.n_reverts[lane]  # other random numbers
    t.is_in_lesion[lane] = False
    t.depth[lane] = 0
    arrival = t.arrival[lane]
    arrival[0], arrival[1], arrival[2] = state.ux[lane], state.uy[lane], state.uz[lane]
    if regions.roles.shape[0]:
        state.visited[lane] = t.visited_before[lane]
        for q in range(regions.n_includes + 1):
            state.next_up[lane, half, q] = q
            state.next_down[lane, half, q] = q - 1
        for k in range(to + 1):
            visit_regions(regions, state, lane, half, k == 0, path[k, 0], path[k, 1], path[k, 2])
    return True


@compiled
def end_in_tissues(settings, regions, state, lane, reason):
    """Apply the rules to the end of a half; return the reason, and what becomes of the half."""
    tissues, t = regions.tissues, state.tissue
    is_implausible = reason == ENTERED_FLUID
    outcome = KEPT
    if reason in (LOW_AMPLITUDE, LOW_PROBABILITY, SHARP_TURN):
        if t.depth[lane]:
            reason = ENDED_IN_DEEP_GREY
        elif not t.is_in_lesion[lane]:
            reason, is_implausible = ENDED_IN_WHITE, True
    elif reason == NO_FOD and t.depth[lane]:
        reason = ENDED_IN_DEEP_GREY
    elif reason == MAX_LENGTH:
        reason, outcome = TOO_LONG, REFUSED
    elif reason == LEFT_TISSUES:
        cut(settings, state, lane, state.steps[lane] - 1)
    elif reason == LEFT_DEEP_GREY:
        cut(settings, state, lane, t.least_at[lane])
    elif reason == ENTERED_CORTEX and tissues.crop:
        crop(tissues, state, lane)
    if is_implausible:
        outcome = REFUSED
        if tissues.backtrack and revert(settings, regions, state, lane):
            outcome = TRACKED_AGAIN
    return reason, outcome
