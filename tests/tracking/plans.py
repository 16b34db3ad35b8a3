"""A run resolved into a plan, from what the public calls take."""

from __future__ import annotations

from typing import Any

import numpy as np

from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.seeds import Seeds
from napari_tractography.tracking import codes
from napari_tractography.tracking.engine import make_plan, track
from napari_tractography.tracking.inputs import TrackingInput
from napari_tractography.tracking.plan import Plan


def plan_of(
    fod: Fod,
    seeds: Seeds,
    parameters: TrackingParameters | None = None,
    *,
    on_gpu: bool = False,
    **given: Any,
) -> Plan:
    """Return the plan of what ``track(fod, seeds, parameters, **given)`` tracks."""
    what = TrackingInput(fod, seeds, parameters or TrackingParameters(), **given)
    return make_plan(what, on_gpu=on_gpu)


def let_cross(fod: Fod, along: np.ndarray, parameters: TrackingParameters) -> np.ndarray:
    """Let all voxels of an FOD be among crossings, in a plane, for all runs to come.

    Returns the unit vector in that plane, the one nearest to `along` that is sampled.
    """
    centres = fod.grid.to_mm(np.argwhere(np.ones(fod.grid.shape, bool)))
    track(fod, Seeds.at(centres), parameters.replace(start="sampled"), n_threads=1)
    field = plan_of(fod, Seeds.at(centres), parameters).field
    points = field.sphere_points.T
    number = int(np.abs(points @ along).argmax())
    assert (field.crossings[:-1] != 0).all()
    field.crossings[:] = codes.AMONG_CROSSINGS | number << codes.PLANE_BITS
    return points[number] * np.sign(points[number] @ along)
