"""Tracking in an FOD of which what lies around streamlines alone is in memory.

The streamlines are those in the whole FOD, to the bit. Called by
:mod:`napari_tractography.recipes.cohort`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..fields.input_kind import COEFFICIENTS
from ..streamlines.tractogram import Tractogram
from . import kernels
from .cpu import cpu_backend as cpu
from .engine import kernel_of, make_plan
from .inputs import TrackingInput
from .tables.local import LocalTable, rings_of


def can_track_near(inputs: TrackingInput) -> bool:
    """Tell whether a run can be tracked so: by coefficients, from seeds that are known before."""
    is_selected = inputs.select is not None or inputs.between is not None
    return not is_selected and kernel_of(inputs.fod, inputs.parameters) == COEFFICIENTS


def track_near(
    table: LocalTable, inputs: TrackingInput, cancelled: NDArray[np.uint8]
) -> Tractogram | None:
    """Track on the CPU, in this thread, reading the FOD where streamlines come; None if cancelled.

    The input is in ``table.fod``, see :func:`can_track_near`, and no other thread reads the table
    meanwhile; one may set `cancelled`, (1,) uint8, to 1. Raises TractographyError when something is
    wrong with the input, or the FOD cannot be read.
    """
    rings = rings_of(inputs.fod.grid, inputs.parameters)
    table.read_near(inputs.seeds.positions_mm, rings)
    while not cancelled[0]:
        plan = make_plan(replace(inputs, fod=table.fod))
        for _ in kernels.until_compiled(plan):
            if cancelled[0]:
                return None
        cpu.make_ready(plan)
        found, _ = cpu.track_range(plan, 0, plan.n_seeds, cancelled, cpu.ThreadBuffers())
        if cancelled[0]:
            break
        if not table.read_more(rings):
            found.grid = inputs.fod.grid
            return found
    return None
