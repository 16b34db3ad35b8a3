"""Diffusion: Langevin dynamics of the direction, up the gradient of log f and with noise."""

from __future__ import annotations

from .row import Algorithm

ROW = Algorithm(
    name="diffusion",
    code=2,
    help="turns towards larger amplitudes, with noise",
    cpu="napari_tractography.tracking.cpu.langevin:turn_directions",
    cuda="langevin_direction",
    cuda_source='#include "langevin.h"',
    side_by_side=True,
    own_parameters=("gamma", "gamma_noise", "look_ahead_mm", "adaptive"),
)
