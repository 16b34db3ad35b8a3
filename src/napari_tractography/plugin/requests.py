"""What a run is to track, frozen: nothing that happens on the screen changes it.

Made by the session, carried out by the worker of a run, written down by the scripts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model.fod import Fod
from ..model.parameters import TrackingParameters
from ..model.regions import Region
from ..model.seeds import Seeds
from ..model.tissues import Tissues
from ..streamlines.tractogram import Tractogram
from ..tracking.inputs import Execution, TrackingInput
from .run_seeding import SeedBetween, Seeding, even_counts, first_numbers

# What else there is, in the words of the panel.
PARTS = {
    "fod": "FOD",
    "seeding": "seeds",
    "mask": "mask",
    "regions": "regions",
    "include_rule": "regions",
    "tissues": "tissues",
    "select": "number of streamlines",
    "arrived": "number of streamlines",
    "parameters": "parameters",
}
WITHOUT_EFFECT = {"execution", "n_preview"}  # fields that do not change what Run gives


@dataclass(frozen=True, slots=True)
class Arrived:
    """How much a run had given when it ended early."""

    n_streamlines: int
    n_seeds: int  # of which these are


@dataclass(frozen=True, slots=True)
class Request:
    """A run to come."""

    fod: Fod
    seeding: Seeding  # where the streamlines of the full run start
    parameters: TrackingParameters
    # (x, y, z) bool: where streamlines may run, on the FOD's grid.
    mask: NDArray[np.bool_] | None = None
    regions: tuple[Region, ...] = ()
    include_rule: str = "all"  # of the include regions, see model.roles.INCLUDE_RULES
    tissues: Tissues | None = None
    # How many streamlines the full run accepts; None where it starts as many as the seeding says.
    select: int | None = None
    execution: Execution = field(default_factory=Execution)  # where and how the full run is tracked
    # About how many streamlines a preview has; None for the full run. A preview is the beginning of
    # the full run from each sphere or other source.
    n_preview: int | None = None
    # Of a run that ended early: what it had given by then, which is its beginning.
    arrived: Arrived | None = None

    @property
    def is_preview(self) -> bool:
        return self.n_preview is not None

    @property
    def n_each(self) -> list[int]:
        """Streamlines to start from each sphere or other source."""
        full = self.seeding.n_each
        return full if self.n_preview is None else even_counts(full, self.n_preview)

    @property
    def firsts(self) -> list[int]:
        """Number, in the full run, of the first streamline of each source."""
        return first_numbers(self.seeding.n_each)

    @property
    def n_seeds(self) -> int:
        """Streamlines to start."""
        return sum(self.n_each)

    @property
    def n_full(self) -> int:
        """Streamlines that the full run starts."""
        return sum(self.seeding.n_each)

    @property
    def is_whole(self) -> bool:
        """Whether these are all streamlines of the full run, preview or not."""
        return not self.is_preview or (self.select is None and self.n_seeds == self.n_full)

    def seeds(self) -> Seeds:
        return self.seeding.draw(self.fod, self.parameters.random_seed, self.n_each)

    def tracking_input(self) -> TrackingInput:
        """Return what the engine takes; draws the seeds, which may take a while."""
        seeding = self.seeding
        ends = (seeding.one, seeding.other) if isinstance(seeding, SeedBetween) else None
        whole_input = TrackingInput(
            self.fod,
            self.seeds(),
            self.parameters,
            self.mask,
            self.regions,
            self.include_rule,
            tissues=self.tissues,
            select=self.select,
            between=ends,
        )
        if not self.is_preview:
            return whole_input
        if ends is not None:  # from one of the regions to the other
            whole_input = replace(whole_input.halves()[0], seeds=whole_input.seeds)
        return replace(whole_input, select=None)

    def ended_with(self, tractogram: Tractogram) -> Request:
        """Return what gives the streamlines of this run, which may have ended early."""
        n_streamlines, n_seeds = len(tractogram), tractogram.n_seeds
        if n_streamlines == self.select if self.select else n_seeds == self.n_full:
            return self  # all was there
        return replace(self, arrived=Arrived(n_streamlines, n_seeds))

    def gives_the_same_as(self, other: Request) -> bool:
        """Return whether the full runs of two requests give the same streamlines."""
        return not self.differences(other)

    def is_beginning_of(self, other: Request) -> bool:
        """Return whether this run ended early and another, to its end, begins with the same."""
        if self.arrived is None or (other.select or math.inf) < self.arrived.n_streamlines:
            return False
        return replace(self, arrived=None, select=other.select).gives_the_same_as(other)

    def differences(self, other: Request) -> list[str]:
        """Return in which of :data:`PARTS` the full runs of two requests differ."""
        one, two = (replace(each, regions=_steering(each.regions)) for each in (self, other))
        names = (field.name for field in fields(self) if field.name not in WITHOUT_EFFECT)
        differ = (PARTS[n] for n in names if not _same(getattr(one, n), getattr(two, n)))
        return list(dict.fromkeys(differ))


def _steering(regions: tuple[Region, ...]) -> tuple[Region, ...]:
    """Return regions without cavities, which change no streamline."""
    return tuple(region for region in regions if region.role != "resect")


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, Region) and one.voxels is not None and other.voxels is not None:
        compared = [(r.role, r.grid) for r in (one, other)]
        return compared[0] == compared[1] and np.array_equal(one.voxels, other.voxels)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, Tissues) and one.path:
        return bool((one.path, one.labels) == (other.path, other.labels))
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(_same, one, other))
    if is_dataclass(one):
        names = {field.name for field in fields(one)}
        if isinstance(one, Region):
            names.remove("name")  # of its layer
        return all(_same(getattr(one, name), getattr(other, name)) for name in names)
    return bool(one == other)
