"""iFOD2: second-order integration, each step an arc that is drawn by the FOD all along it.

Tournier, Calamante & Connelly, "Improved probabilistic streamlines tractography by 2nd order
integration over fibre orientation distributions", ISMRM 2010.
"""

from __future__ import annotations

from .row import Algorithm

ROW = Algorithm(
    name="ifod2",
    code=5,
    help="draws whole arcs by the FOD along them",
    cpu="napari_tractography.tracking.cpu.arcs:follow_arcs",
    cuda="arc_direction",
    cuda_source='#include "arcs.h"',
    side_by_side=True,
    curved=True,
    step_voxels=0.5,
    cone_deg=45.0,
    keeps_cutoff=True,
    own_parameters=("samples",),
)
