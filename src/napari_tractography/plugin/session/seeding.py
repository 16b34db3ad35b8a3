"""Where the streamlines of a run start, frozen: spheres around seeds, a mask or each voxel of it,
the whole FOD, the interface of grey and white matter, or two regions in turn.

Made by the session; the worker draws the seeds, and scripts write down how.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
from napari.layers import Layer
from numpy.typing import NDArray

from ...errors import InvalidSeedsError
from ...geometry.grid import Grid
from ...model.fod import Fod
from ...model.regions import Region
from ...model.seed_places import voxels_of_mask
from ...model.seeding import EVERY_VOXEL, SeedingParameters
from ...model.seeds import Seeds
from ...model.tissues import Tissues
from ..layers.region_entries import Entry
from ..layers.volumes import voxels_of
from ..space.display import DisplaySpace


@dataclass(frozen=True, slots=True, eq=False)
class SeedSpheres:
    """Spheres around seeds that were placed, each with a radius and a number of its own.

    Attributes
    ----------
    positions_mm : (n, 3) float64
        Centres, RAS+ mm.
    radii_mm : (n,) float64
    counts : (n,) int64
        Streamlines from each.
    """

    positions_mm: NDArray[np.float64]
    radii_mm: NDArray[np.float64]
    counts: NDArray[np.int64]

    @property
    def n_each(self) -> list[int]:
        """Streamlines from each sphere, in their order."""
        return [int(n) for n in self.counts]

    def draw(self, fod: Fod, random_seed: int, counts: Sequence[int] | None = None) -> Seeds:
        """Draw the seeds, or the first `counts` of each sphere.

        Seeds are numbered through all spheres, so that no two spheres share random offsets.
        """
        firsts = first_numbers(self.n_each)
        return Seeds.concatenate(
            [
                Seeds.in_sphere(position, radius, n, random_seed=random_seed, first=first)
                for position, radius, n, first in zip(
                    self.positions_mm,
                    self.radii_mm.tolist(),
                    self.n_each if counts is None else counts,
                    firsts,
                    strict=True,
                )
            ]
        )


class OnePlace:
    """What counts as one place, whatever its extent: there `n_seeds` streamlines start."""

    __slots__ = ()
    n_seeds: int

    @property
    def n_each(self) -> list[int]:
        """Number of streamlines, of the one place."""
        return [self.n_seeds]

    def draw(self, fod: Fod, random_seed: int, counts: Sequence[int] | None = None) -> Seeds:
        """Draw the seeds, or the first of them."""
        n = self.n_seeds if counts is None else sum(counts)
        return self.first_seeds(fod, n, random_seed)

    def first_seeds(self, fod: Fod, n: int, random_seed: int) -> Seeds:
        """Draw so many seeds."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class SeedMask(OnePlace):
    """The voxels of a mask.

    Attributes
    ----------
    mask : (x, y, z)
        Not zero where streamlines start.
    grid : Grid
        Of the mask.
    n_seeds : int
    """

    mask: NDArray[Any]
    grid: Grid
    n_seeds: int

    def first_seeds(self, fod: Fod, n: int, random_seed: int) -> Seeds:
        """Draw them uniformly in the voxels."""
        return Seeds.in_mask(self.mask, self.grid, n, random_seed=random_seed)


@dataclass(frozen=True, slots=True, eq=False)
class SeedVoxels(OnePlace):
    """Each voxel of a mask.

    Attributes
    ----------
    mask : (x, y, z)
        Not zero where streamlines start.
    grid : Grid
        Of the mask.
    n_per_voxel : int
        Streamlines from each voxel.
    n_seeds : int
        Streamlines in all.
    """

    mask: NDArray[Any]
    grid: Grid
    n_per_voxel: int
    n_seeds: int

    @classmethod
    def of(cls, mask: NDArray[Any], grid: Grid, n_per_voxel: int) -> SeedVoxels:
        """Count the voxels."""
        n_voxels = len(voxels_of_mask(mask, grid)[2])
        return cls(mask, grid, n_per_voxel, n_per_voxel * n_voxels)

    def first_seeds(self, fod: Fod, n: int, random_seed: int) -> Seeds:
        """Draw them in the voxels in turn."""
        return Seeds.in_turn(self.mask, self.grid, n, random_seed=random_seed)


@dataclass(frozen=True, slots=True)
class SeedFod(OnePlace):
    """Everywhere, in proportion to the FOD."""

    n_seeds: int

    def first_seeds(self, fod: Fod, n: int, random_seed: int) -> Seeds:
        """Draw them by the FOD."""
        return Seeds.from_fod(fod, n, random_seed=random_seed)


@dataclass(frozen=True, slots=True)
class SeedInterface(OnePlace):
    """Where grey and white matter of a tissue image meet."""

    tissues: Tissues
    n_seeds: int

    def first_seeds(self, fod: Fod, n: int, random_seed: int) -> Seeds:
        """Draw them on the interface."""
        return Seeds.on_interface(self.tissues, n, random_seed=random_seed)


@dataclass(frozen=True, slots=True)
class SeedBetween(OnePlace):
    """Each of two regions, for streamlines that end in the other.

    Attributes
    ----------
    one, other : Region
    n_seeds : int
        Streamlines that are to be accepted, in all.
    """

    one: Region
    other: Region
    n_seeds: int

    def first_seeds(self, fod: Fod, n: int, random_seed: int) -> Seeds:
        """Draw them in the first region, which is what a preview shows."""
        return self.one.seeds(n, random_seed=random_seed)


Seeding = SeedSpheres | SeedMask | SeedVoxels | SeedFod | SeedInterface | SeedBetween


class HasSeeding(Protocol):
    """What is asked of the session."""

    seeding: SeedingParameters
    seeds: Any
    regions: Any
    tissues: Tissues | None
    space: DisplaySpace

    @property
    def seed_mask_in_use(self) -> Layer | None:
        """The mask that streamlines start in."""


def frozen_seeding(session: HasSeeding) -> Seeding:
    """Return where streamlines are to start.

    Raises
    ------
    TractographyError
        When there are no seeds, no mask, no tissue image or no two regions, or a seed has an
        impossible value.
    """
    source, n = session.seeding.source, session.seeding.n_total
    if source == "placed seeds":
        spheres: SeedSpheres = session.seeds.spheres(session.seeding)
        return spheres
    if source == "whole FOD":
        return SeedFod(n)
    if source == "grey-white interface":
        if session.tissues is None:
            raise InvalidSeedsError(
                "There is no tissue image, and so no interface of grey and white matter; choose "
                "one in Tissues, or start from something else."
            )
        return SeedInterface(session.tissues, n)
    if source == "between regions":
        return _between(session.regions, n)
    layer = session.seed_mask_in_use
    if layer is None:
        raise InvalidSeedsError(
            "There is no mask to start from; choose one in Seeds, or start from something else."
        )
    mask, grid = voxels_of(layer, session.space)
    if source == EVERY_VOXEL:
        return SeedVoxels.of(mask.copy(), grid, session.seeding.n_per_voxel)
    return SeedMask(mask.copy(), grid, n)


def chosen_ends(regions: Any) -> tuple[Entry, Entry] | None:
    """Return the regions to track between: those that a person chose, else the first two."""
    chosen: tuple[Entry, Entry] | None = regions.between
    if chosen is not None and all(end in regions.entries for end in chosen):
        return chosen
    return tuple(regions.entries[:2]) if len(regions.entries) > 1 else None


def same_ends(regions: Any, ends: tuple[Entry, Entry] | None) -> tuple[Entry, Entry] | None:
    """Return the regions that are those of a panel that was closed; None where one is gone."""
    ours = {(entry.layer, entry.label): entry for entry in regions.entries}
    one, other = (ours.get((end.layer, end.label)) for end in ends) if ends else (None, None)
    return None if one is None or other is None else (one, other)


def _between(regions: Any, n: int) -> SeedBetween:
    ends = chosen_ends(regions)
    if ends is None:
        raise InvalidSeedsError(
            "There are no two regions to track between; add them in Regions, or start from "
            "something else."
        )
    for end in ends:
        if not regions.of(end):
            raise InvalidSeedsError(
                f"The region {end.layer.name} is empty; paint it, or choose another."
            )
    one, other = (regions.of(end)[0] for end in ends)
    return SeedBetween(one, other, n)


def first_numbers(counts: Sequence[int]) -> list[int]:
    """Return the number of the first streamline of each place, where places follow each other."""
    return [0, *accumulate(counts)][:-1]


def even_counts(wanted: Sequence[int], n: int) -> list[int]:
    """Cut numbers down to about `n` in all, each to the same largest number, and none to zero."""
    left, result = n, [0] * len(wanted)
    for done, index in enumerate(sorted(range(len(wanted)), key=lambda i: wanted[i])):
        result[index] = min(wanted[index], max(1, left // (len(wanted) - done)))
        left -= result[index]
    return result
