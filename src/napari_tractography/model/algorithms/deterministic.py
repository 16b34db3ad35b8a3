"""Deterministic tracking: the next direction is that of the largest FOD amplitude in the cone."""

from __future__ import annotations

from .row import Algorithm

ROW = Algorithm(
    name="deterministic",
    code=1,
    help="takes the largest FOD amplitude in the cone",
    cpu="napari_tractography.tracking.cpu.deterministic:largest_directions",
    cuda="deterministic_direction",
    cuda_source='#include "deterministic.h"',
    cuda_registers=128,
    side_by_side=True,
    draws=False,
    among_vectors="largest",
)
