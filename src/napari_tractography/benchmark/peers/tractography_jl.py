"""The kernel of Tractography.jl as a contestant; the kernel itself is in Numba."""

from __future__ import annotations

from typing import Any

from ..cases import Case


class TractographyJl:
    """Tractography.jl's kernel, ported to Numba; streamlines run from the seed one way only."""

    label = "Tractography.jl's kernel in Numba"

    def missing(self) -> str:
        return ""

    def prepare(self, case: Case) -> None:
        from ..tractography_jl import Model  # loads compiled code

        self._case = case
        self._model = Model.of(
            case.fod,
            case.mask,
            step_mm=case.step_mm,
            max_angle_deg=case.max_angle_deg,
            max_steps=int(case.max_length_mm / case.step_mm),
        )

    def make_seeds(self, n: int) -> None:
        self._seeds = self._case.seeds(n).positions_mm

    def run(self, n: int) -> Any:
        return self._model.track(self._seeds, n_threads=self._case.n_threads, endpoints=True)

    def steps(self, result: Any) -> int:
        return int(result.n_steps.sum())
