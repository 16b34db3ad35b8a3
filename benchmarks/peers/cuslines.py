"""cuslines (GPUStreamlines) as a contestant, on the CPU."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np

from napari_tractography.tracking.speed import Case


class Cuslines:
    """The Numba tracker of cuslines (GPUStreamlines); it ends half streamlines at 501 points."""

    label = "cuslines, Numba"

    def missing(self) -> str:
        return "" if importlib.util.find_spec("cuslines") else "cuslines is not installed"

    def prepare(self, case: Case) -> None:
        import numba
        from dipy.data import default_sphere

        module = importlib.import_module("cuslines.numba")
        numba.set_num_threads(case.n_threads)
        self._case = case
        sizes = case.fod.grid.voxel_sizes_mm
        self._tracker = module.CPUTracker(
            module.CPUProbDirectionGetter(),
            case.amplitudes(default_sphere.vertices),
            case.mask.astype(np.float32),
            0.5,
            default_sphere.vertices,
            default_sphere.edges,
            sphere_symm=True,
            max_angle=np.deg2rad(case.max_angle_deg),
            step_size=case.step_mm / float(np.mean(sizes)),
            rng_seed=1,
        )

    def make_seeds(self, n: int) -> None:
        self._seeds = self._case.fod.grid.to_voxel(self._case.seeds(n).positions_mm)

    def run(self, n: int) -> Any:
        propagator = self._tracker.seed_propagator
        propagator.propagate(self._seeds)
        return propagator.sline_lens[: propagator.nSlines].copy()

    def steps(self, result: Any) -> int:
        return int((result - 1).sum())
