"""Regions in the kernel: which of them each point of a streamline lies in."""

from __future__ import annotations

import numpy as np

from ....runtime.compiling import compiled, inlined
from ...codes import (
    END_REGION,
    EXCLUDED,
    ROLE_END,
    ROLE_EXCLUDE,
    ROLE_INCLUDE,
    RULE_ALL,
    RULE_ANY,
    RULE_ORDERED,
    SHAPE_SPHERE,
    STOP_REGION,
)
from ..cells import HALF, ZERO, nearest, to_voxel
from ..lanes import load
from ..llvm import bits_of, floors, lowest_bit, select, to_ints
from ..memory import store

BIT, NONE = np.uint32(1), np.uint32(0)
MAX_INT = 2**31 - 1


@inlined
def in_region(regions, n, x, y, z):
    """Tell whether a point lies in region n."""
    geometry = regions.geometry[n]
    if regions.shapes[n] == SHAPE_SPHERE:
        dx, dy, dz = x - geometry[0], y - geometry[1], z - geometry[2]
        return dx * dx + dy * dy + dz * dz <= geometry[3]
    vx, vy, vz = to_voxel(geometry.reshape(3, 4), x, y, z)
    ix, iy, iz = nearest(vx), nearest(vy), nearest(vz)
    nx, ny, nz = regions.extents[n, 0], regions.extents[n, 1], regions.extents[n, 2]
    if ix < 0 or iy < 0 or iz < 0 or ix >= nx or iy >= ny or iz >= nz:
        return False
    return regions.voxels[regions.extents[n, 3] + (ix * ny + iy) * nz + iz] != 0


@compiled
def crossing_regions(regions, state, lanes):
    """Return the lanes that are in other regions than at their last point.

    To the others :func:`visit_regions` would do nothing: what it records of a region that a
    streamline stays in was recorded where it entered. Asked for one lane after the other, a painted
    region took more than half as long as the rest of the step.
    """
    x, y, z = load(state.x), load(state.y), load(state.z)
    crossing = NONE
    for n in range(regions.roles.shape[0]):
        geometry = regions.geometry[n]
        if regions.shapes[n] == SHAPE_SPHERE:
            dx, dy, dz = x - geometry[0], y - geometry[1], z - geometry[2]
            hits = bits_of(dx * dx + dy * dy + dz * dz <= geometry[3])
        else:
            vx, vy, vz = to_voxel(geometry.reshape(3, 4), x, y, z)
            fx, fy, fz = floors(vx + HALF), floors(vy + HALF), floors(vz + HALF)
            nx, ny, nz = regions.extents[n, 0], regions.extents[n, 1], regions.extents[n, 2]
            in_image = (
                (fx >= ZERO) & (fy >= ZERO) & (fz >= ZERO) & (fx < nx) & (fy < ny) & (fz < nz)
            )
            hits, left = NONE, lanes & bits_of(in_image)
            if nx * ny * nz > MAX_INT:
                crossing |= left
                continue
            ix, iy = to_ints(select(in_image, fx, ZERO)), to_ints(select(in_image, fy, ZERO))
            iz = to_ints(select(in_image, fz, ZERO))
            store(state.next_voxel, (ix * np.int32(ny) + iy) * np.int32(nz) + iz)
            first = regions.extents[n, 3]
            while left:
                lane = lowest_bit(left)
                left &= left - BIT
                if regions.voxels[first + state.next_voxel[lane]]:
                    hits |= BIT << np.uint32(lane)
        crossing |= hits ^ state.inside[n]
    return crossing & lanes


@compiled
def visit_regions(regions, state, lane, half, at_seed, x, y, z):
    """Record which regions a point lies in; return the reason to stop there, or 0.

    Stop and end regions act where a streamline enters them, so that it may start inside.
    """
    reason, bit = 0, BIT << np.uint32(lane)
    for n in range(regions.roles.shape[0]):
        hit = in_region(regions, n, x, y, z)
        entered = hit and (at_seed or not state.inside[n] & bit)
        state.inside[n] &= ~bit
        if not hit:
            continue
        state.inside[n] |= bit
        role = regions.roles[n]
        if role == ROLE_EXCLUDE:
            return EXCLUDED
        if role == ROLE_INCLUDE:
            order = regions.orders[n]
            state.visited[lane] |= np.int64(1) << order
            for q in range(regions.n_includes + 1):
                if state.next_up[lane, half, q] == order:
                    state.next_up[lane, half, q] = order + 1
        elif entered and not at_seed:
            reason = END_REGION if role == ROLE_END or reason == END_REGION else STOP_REGION
    if regions.rule == RULE_ORDERED:
        # The other half runs against the order: a point in several regions meets the last first.
        for n in range(regions.roles.shape[0] - 1, -1, -1):
            if regions.roles[n] == ROLE_INCLUDE and state.inside[n] & bit:
                order = regions.orders[n]
                for q in range(regions.n_includes + 1):
                    if state.next_down[lane, half, q] == order:
                        state.next_down[lane, half, q] = order - 1
    return reason


@compiled
def includes_met(regions, state, lane):
    """Tell whether the joined streamline meets the rule of the include regions."""
    if regions.n_includes == 0:
        return True
    every = (np.int64(1) << regions.n_includes) - 1
    if regions.rule == RULE_ANY:
        return state.visited[lane] != 0
    if state.visited[lane] != every:
        return False
    if regions.rule == RULE_ALL:
        return True
    # In order from end to end: from the seed outwards one half meets regions q - 1 down to the
    # first, the other q up to the last.
    for q in range(regions.n_includes + 1):
        for half in range(2):
            other = 1 - half
            if (
                state.next_down[lane, half, q] < 0
                and state.next_up[lane, other, q] == regions.n_includes
            ):
                return True
    return False
