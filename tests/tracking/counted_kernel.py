"""The kernel with counters compiled in, run by itself: prints what steps cost as JSON.

The counters stand in front of functions of the kernel, which look them up when they are compiled:
that must not happen in a process that tracks, so this one is a program. ``progress``, which the
kernel keeps its own counts in, has room for more here.

    python counted_kernel.py '[{"n_voxels": 26, "n_seeds": 40, "max_length_mm": 10}]'
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from plans import plan_of
from toys import lobes

from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.seeds import Seeds
from napari_tractography.runtime.compiling import inlined
from napari_tractography.tracking.codes import UNFILLED_BITS
from napari_tractography.tracking.cpu import cells, draw, stepping, streamline
from napari_tractography.tracking.cpu import cpu_backend as run
from napari_tractography.tracking.cpu.lanes import N_LANES, N_POINTS
from napari_tractography.tracking.cpu.llvm import count_bits
from napari_tractography.tracking.plan import Plan

PARAMETERS = TrackingParameters(step_mm=0.5, max_angle_deg=30.0)
N_OWN = N_POINTS + 1  # counts of the kernel's own
N_MORE = 6
CELLS, LOOK_UPS, DRAWS, CONE_SAMPLES, CONE_SUMS, PASSES = range(N_OWN, N_OWN + N_MORE)
find_rows_of, interpolate = cells.find_rows_of, cells.interpolate
random_words, after_rejections = draw.random_words, draw.after_rejections
below_cone_mass, arrive = draw.below_cone_mass, draw.arrive
new_lane_state = run.new_lane_state


@inlined
def counted_find_rows_of(field, state, n_corners, lanes):
    state.progress[CELLS] += count_bits(lanes)
    find_rows_of(field, state, n_corners, lanes)


@inlined
def counted_interpolate(field, state, n_corners, lane):
    state.progress[LOOK_UPS] += 1
    interpolate(field, state, n_corners, lane)


@inlined
def counted_random_words(settings, state, block):
    state.progress[DRAWS] += 1
    return random_words(settings, state, block)


@inlined
def counted_after_rejections(field, settings, scratch, state, n_corners, lane):
    state.progress[CONE_SAMPLES] += 1
    return after_rejections(field, settings, scratch, state, n_corners, lane)


@inlined
def counted_below_cone_mass(field, settings, scratch, state, n_corners, lane):
    state.progress[CONE_SUMS] += 1
    return below_cone_mass(field, settings, scratch, state, n_corners, lane)


@inlined
def counted_arrive(field, settings, scratch, state, n_corners, lanes):
    state.progress[PASSES] += 1
    return arrive(field, settings, scratch, state, n_corners, lanes)


def with_more_progress(*args: int, **kwargs: int) -> Any:
    state = new_lane_state(*args, **kwargs)
    assert len(state.progress) == N_OWN
    return state._replace(progress=np.zeros(N_OWN + N_MORE, np.int64))


def put_in() -> None:
    for module in (cells, draw, stepping, streamline):
        module.find_rows_of = counted_find_rows_of
    cells.interpolate = counted_interpolate
    draw.random_words, draw.after_rejections = counted_random_words, counted_after_rejections
    draw.below_cone_mass, draw.arrive = counted_below_cone_mass, counted_arrive
    run.new_lane_state = with_more_progress


def plan_of_bundle(
    n_voxels: int, n_seeds: int, crossing_deg: float | None = None, **changes: float
) -> Plan:
    """Fibres along x in n x n x n voxels, all alike, and seeds in the middle.

    And others across them, at an angle, of as many.
    """
    lobe = lobes(np.array([1.0, 0, 0]), 2)
    if crossing_deg is not None:
        angle = np.radians(crossing_deg)
        ways = np.array([[1.0, 0, 0], [np.cos(angle), np.sin(angle), 0]])
        lobe = lobes(ways, 8).sum(axis=0)
    fod = Fod(np.broadcast_to(lobe, (n_voxels, n_voxels, n_voxels, len(lobe))), np.eye(4))
    seeds = Seeds.in_sphere(fod.grid.to_mm([(n_voxels - 1) / 2] * 3), 2.0, n_seeds)
    return plan_of(fod, seeds, PARAMETERS.replace(**changes))


def work_of(n_voxels: int, n_seeds: int, **changes: Any) -> dict[str, Any]:
    """Return the digest, and counts: of steps, of filled rows, and the others a step."""
    plan = plan_of_bundle(n_voxels, n_seeds, **changes)
    buffers = run.ThreadBuffers()
    tracked, _ = run.track_range(plan, 0, n_seeds, np.zeros(1, np.uint8), buffers)
    assert buffers.state is not None
    counts = buffers.state.progress
    n_steps = tracked.n_points - len(tracked)
    bounds = plan.field.coefficients[:-1, plan.field.values.shape[1]]
    return {
        "digest": tracked.digest(),
        "n_steps": n_steps,
        "n_filled": int((bounds != UNFILLED_BITS).sum()),
        "cells": counts[CELLS] / n_steps,
        "look_ups": counts[LOOK_UPS] / n_steps,
        "draws": N_LANES * counts[DRAWS] / n_steps,
        "passes": N_LANES * counts[PASSES] / n_steps,
        "cone_samples": counts[CONE_SAMPLES] / n_steps,
        "cone_sums": counts[CONE_SUMS] / n_steps,
    }


if __name__ == "__main__":
    put_in()
    print(json.dumps([work_of(**case) for case in json.loads(sys.argv[1])]))
