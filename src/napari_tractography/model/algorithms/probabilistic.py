"""Probabilistic tracking: the next direction is drawn from the FOD within the cone."""

from __future__ import annotations

from .row import Algorithm

ROW = Algorithm(
    name="probabilistic",
    code=0,
    help="draws from the FOD in the cone",
    cpu="napari_tractography.tracking.cpu.draw:draw_directions",
    cuda="probabilistic_direction",
    cuda_source='#include "probabilistic.h"',
    cuda_registers=128,  # the compiler takes up to 163 if it may; nothing goes to memory at 128
    side_by_side=True,
    among_vectors="drawn",
    step_voxels=0.275,
    look_ahead_voxels=1.4,
    lobe_deg=8.0,
    min_roundness=0.7,
    own_parameters=("look_ahead_mm", "lobe_deg", "min_roundness"),
)
