"""Tracks with the toy algorithm, on the CPU and by the host-compiled CUDA source; prints JSON.

Run by test_algorithms.py in a process of its own, with a folder for what the compiler makes and the
interpolation.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from host import compile_for_host, track_on_host
from plans import plan_of
from toys import SKEWED, random_fod

import napari_tractography as nt
from napari_tractography.model.algorithms import BY_NAME
from napari_tractography.tracking.codes import NEAREST, TRILINEAR
from napari_tractography.tracking.cpu.kernel import block_kernel

library = compile_for_host(Path(sys.argv[1]), "-DLMAX=4")
fod = random_fod(4, shape=(7, 6, 5), affine=SKEWED, seed=21)
seeds = nt.Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 60)
interpolation = sys.argv[2]
parameters = nt.TrackingParameters(
    algorithm="straight_ahead", interpolation=interpolation, step_mm=0.4, max_length_mm=8.0
)
lines = nt.track(fod, seeds, parameters, backend="cpu")
on_host = track_on_host(library, plan_of(fod, seeds, parameters))
steps = [np.diff(line.astype(float), axis=0) for line in lines]
code = {"nearest": NEAREST, "trilinear": TRILINEAR}[interpolation]
stats = block_kernel(BY_NAME["straight_ahead"].code, code).stats
report = {
    "cpu": lines.digest(),
    "host": on_host.digest(),
    "bend_mm": max(float(np.abs(np.diff(step, axis=0)).max(initial=0.0)) for step in steps),
    "reasons": sorted(reason.name for reason in lines.tally),
    "n_steps": sum(len(step) for step in steps),
    "from_the_cache": sum(stats.cache_hits.values()),
    "compiled": sum(stats.cache_misses.values()),
}
print(json.dumps(report))
