"""A run resolved into a plan, from what the public calls take."""

from __future__ import annotations

from typing import Any

from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.seeds import Seeds
from napari_tractography.tracking.engine import make_plan
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
