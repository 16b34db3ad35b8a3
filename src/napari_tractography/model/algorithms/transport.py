"""Transport: the direction turns up the gradient of log f, without noise.

But not along the wide side of a lobe that is of two bundles, which cross at a small angle.
"""

from __future__ import annotations

from .row import Algorithm

ROW = Algorithm(
    name="transport",
    code=3,
    help="turns towards larger amplitudes, without noise",
    cpu="napari_tractography.tracking.cpu.langevin:turn_directions",
    cuda="langevin_direction",
    cuda_source='#include "langevin.h"',
    side_by_side=True,
    among_vectors="followed",
    gamma_voxels=1.0,
    look_ahead_voxels=0.5,
    min_roundness=0.7,
    own_parameters=("gamma", "look_ahead_mm", "min_roundness", "adaptive"),
    draws=False,
)
