"""DIPY's compiled trackers as contestants."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np

from napari_tractography.tracking.speed import Case


class Dipy:
    """DIPY's compiled trackers on amplitudes over its default sphere, 362 directions."""

    def __init__(self, function: str) -> None:
        self.label = f"DIPY {function}"
        self._function = function

    def missing(self) -> str:
        if importlib.util.find_spec("dipy.tracking.tracker") is None:
            return "this DIPY has no dipy.tracking.tracker"
        return ""

    def prepare(self, case: Case) -> None:
        from dipy.data import default_sphere
        from dipy.tracking.stopping_criterion import BinaryStoppingCriterion

        self._case = case
        self._sphere = default_sphere
        self._sf = case.amplitudes(default_sphere.vertices).astype(np.float64)
        self._stop = BinaryStoppingCriterion(case.mask)
        self._track = getattr(importlib.import_module("dipy.tracking.tracker"), self._function)

    def make_seeds(self, n: int) -> None:
        positions = self._case.seeds(n).positions_mm.astype(np.float64)
        # With these directions it need not find peaks in Python first, which is not tracking.
        voxels = np.rint(self._case.fod.grid.to_voxel(positions)).astype(np.int64)
        largest = self._sf[tuple(voxels.T)].argmax(axis=1)
        self._seeds = positions, self._sphere.vertices[largest]

    def run(self, n: int) -> Any:
        positions, directions = self._seeds
        return list(
            self._track(
                positions,
                self._stop,
                np.array(self._case.fod.grid.affine),
                seed_directions=directions,
                sf=self._sf,
                sphere=self._sphere,
                min_len=0,
                max_len=self._case.max_length_mm,
                step_size=self._case.step_mm,
                max_angle=self._case.max_angle_deg,
                nbr_threads=self._case.n_threads,
                random_seed=1,
            )
        )

    def steps(self, result: Any) -> int:
        return sum(len(line) - 1 for line in result)
