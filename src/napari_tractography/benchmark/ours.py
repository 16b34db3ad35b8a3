"""This package as a contestant of the speed comparison."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases import Case


class Ours:
    """This package."""

    def __init__(self, label: str, **settings: Any) -> None:
        self.label = label
        self._settings = settings

    def missing(self) -> str:
        return ""

    def prepare(self, case: Case) -> None:
        from ..tracking.engine import compile_kernel, track

        self._case = case
        self._parameters = case.parameters(**self._settings)
        self._track = track
        kind = self._parameters.algorithm, self._parameters.interpolation
        compile_kernel(*kind, lmax=case.fod.lmax)  # else the first runs would be NumPy's

    def make_seeds(self, n: int) -> None:
        # Tables are kept for the settings of the last run, which may be another contestant's.
        self._seeds = self._case.seeds(1)
        self.run(1)
        self._seeds = self._case.seeds(n)

    def run(self, n: int) -> Any:
        return self._track(
            self._case.fod,
            self._seeds,
            self._parameters,
            mask=self._case.mask,
            n_threads=self._case.n_threads,
            backend="cpu",
        )

    def steps(self, result: Any) -> int:
        return round(float(result.lengths_mm.sum(dtype=np.float64)) / self._case.step_mm)
