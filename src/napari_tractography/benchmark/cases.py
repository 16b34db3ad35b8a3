"""What every contestant of the speed comparison tracks, and what a contestant has to do."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidMaskError
from ..files.fods import load_fod, load_mask
from ..model.fod import Fod
from ..model.parameters import TrackingParameters
from ..model.phantoms import make_phantom, phantom_mask
from ..model.seeds import Seeds

PHANTOM = "arcs"


@dataclass(frozen=True, slots=True)
class Case:
    """What every contestant tracks.

    Attributes
    ----------
    fod : Fod
    mask : (x, y, z) bool
        Where streamlines start and stay.
    step_mm, max_angle_deg, min_amplitude, max_length_mm : float
        As in :class:`TrackingParameters`.
    n_threads : int
    """

    fod: Fod
    mask: NDArray[np.bool_]
    step_mm: float = 0.125
    max_angle_deg: float = 45.0
    min_amplitude: float = 0.05
    max_length_mm: float = 250.0
    n_threads: int = 2

    def seeds(self, n: int) -> Seeds:
        """Return `n` seeds, uniform in the mask."""
        return Seeds.in_mask(self.mask, self.fod.grid, n)

    def amplitudes(self, unit_directions: NDArray[Any]) -> NDArray[np.float32]:
        """Return (x, y, z, n) float32 amplitudes of the FOD, clipped at zero."""
        return np.maximum(self.fod.amplitudes(unit_directions), np.float32(0))

    def parameters(self, **changes: Any) -> TrackingParameters:
        """Return the same settings as parameters of our engine."""
        return TrackingParameters(
            step_mm=self.step_mm,
            max_angle_deg=self.max_angle_deg,
            min_amplitude=self.min_amplitude,
            max_length_mm=self.max_length_mm,
        ).replace(**changes)


class Contestant(Protocol):
    """One program with one algorithm.

    Attributes
    ----------
    label : str
        What the table calls it.
    """

    label: str

    def missing(self) -> str:
        """Return why it cannot take part here, or ""."""

    def prepare(self, case: Case) -> None:
        """Do what is not measured: load, tabulate, compile."""

    def make_seeds(self, n: int) -> None:
        """Make the inputs of a run with `n` seeds; not measured."""

    def run(self, n: int) -> Any:
        """Track `n` seeds; measured."""

    def steps(self, result: Any) -> int:
        """Count the steps in what a run returned; not measured."""


def make_case(
    fod_path: str | PathLike[str] | None = None,
    mask_path: str | PathLike[str] | None = None,
    *,
    kind: str = "auto",
    basis: str = "tournier07",
    frame: str | None = None,
    n_threads: int = 2,
) -> Case:
    """Load what is tracked: the given FOD, by default a phantom.

    Parameters
    ----------
    fod_path : path-like, optional
        An FOD volume, read as `kind`, in `basis` and `frame`.
    mask_path : path-like, optional
        Where to track, on the grid of the FOD; by default wherever there is an FOD.
    n_threads : int
        For every contestant.

    Raises
    ------
    TractographyError
        When a file cannot be read, or the mask lies on another grid than the FOD.
    """
    if fod_path is None:
        fod, mask = make_phantom(PHANTOM), phantom_mask(PHANTOM)
    else:
        fod = load_fod(fod_path, kind=kind, basis=basis, frame=frame)
        mask = fod.support
    if mask_path is not None:
        mask, grid = load_mask(mask_path)
        if not grid.same_space(fod.grid):
            raise InvalidMaskError(
                f"The mask {mask_path} is {grid} but {fod.name} is {fod.grid}; resample it to the "
                "FOD's grid (mrgrid mask regrid -template fod -interp nearest)."
            )
    return Case(fod, mask, n_threads=n_threads)
