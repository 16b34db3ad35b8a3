"""SD_STREAM: deterministic tracking along the peak nearest to the direction.

Tournier, Calamante & Connelly, "MRtrix: diffusion tractography in crossing fiber regions", Int. J.
Imaging Syst. Technol. 22, 2012.
"""

from __future__ import annotations

from .row import Algorithm

ROW = Algorithm(
    name="sd_stream",
    code=4,
    help="follows the FOD peak nearest to the direction",
    cpu="napari_tractography.tracking.cpu.deterministic:nearest_peak_directions",
    cuda="nearest_peak_direction",
    cuda_source='#include "deterministic.h"',
    cuda_registers=128,
    side_by_side=True,
    among_vectors="nearest",
    starts_at_peak=True,
    draws=False,
)
