"""Where the streamlines of a run start, frozen: spheres around seeds, a mask or each voxel of it,
the whole FOD, the interface of grey and white matter, or two regions in turn.

Made of what a bundle says, in :mod:`.wanted`; the worker draws the seeds, and scripts write down
how.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..geometry.grid import Grid
from ..model.fod import Fod
from ..model.regions import Region
from ..model.seeds import Seeds, voxels_of_mask
from ..model.tissues import Tissues


@dataclass(frozen=True, slots=True, eq=False)
class SeedSpheres:
    """Spheres around seeds that were placed, each with a radius and a number of its own."""

    positions_mm: NDArray[np.float64]  # (n, 3) float64: centres, RAS+ mm
    radii_mm: NDArray[np.float64]  # (n,) float64
    counts: NDArray[np.int64]  # (n,) int64: streamlines from each

    @property
    def n_each(self) -> list[int]:
        """Streamlines from each sphere, in their order."""
        return [int(n) for n in self.counts]

    def each(
        self, counts: Sequence[int] | None = None
    ) -> list[tuple[tuple[float, ...], float, int, int]]:
        """Return centre, radius, streamlines and the number of the first, of each sphere.

        Seeds are numbered through all spheres, so that no two spheres share random offsets.
        """
        columns = map(tuple, self.positions_mm.tolist()), self.radii_mm.tolist()
        n_each = self.n_each if counts is None else counts
        return list(zip(*columns, n_each, first_numbers(self.n_each), strict=True))

    def draw(self, fod: Fod, random_seed: int, counts: Sequence[int] | None = None) -> Seeds:
        """Draw the seeds, or the first `counts` of each sphere."""
        return Seeds.concatenate(
            [
                Seeds.in_sphere(centre, radius, n, random_seed=random_seed, first=first)
                for centre, radius, n, first in self.each(counts)
            ]
        )


class SingleSource:
    """What counts as one source, whatever its extent: `n_seeds` streamlines start from it."""

    __slots__ = ()
    n_seeds: int

    @property
    def n_each(self) -> list[int]:
        """Number of streamlines, of the one source."""
        return [self.n_seeds]

    def draw(self, fod: Fod, random_seed: int, counts: Sequence[int]) -> Seeds:
        """Draw so many of the seeds."""
        return self.first_seeds(fod, sum(counts), random_seed)

    def first_seeds(self, fod: Fod, n: int, random_seed: int) -> Seeds:
        """Draw so many seeds."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class SeedMask(SingleSource):
    """The voxels of a mask."""

    mask: NDArray[Any]  # (x, y, z): not zero where streamlines start
    grid: Grid  # of the mask
    n_seeds: int
    by: str = "list"  # see Seeds.in_mask

    def first_seeds(self, fod: Fod, n: int, random_seed: int) -> Seeds:
        return Seeds.in_mask(self.mask, self.grid, n, random_seed=random_seed, by=self.by)


@dataclass(frozen=True, slots=True, eq=False)
class SeedVoxels(SingleSource):
    """Each voxel of a mask."""

    mask: NDArray[Any]  # (x, y, z): not zero where streamlines start
    grid: Grid  # of the mask
    n_per_voxel: int  # streamlines from each voxel
    n_seeds: int  # streamlines in all
    by: str = "list"  # see Seeds.in_mask

    @classmethod
    def of(cls, mask: NDArray[Any], grid: Grid, n_per_voxel: int, by: str = "list") -> SeedVoxels:
        """Count the voxels."""
        n_voxels = len(voxels_of_mask(mask, grid)[2])
        return cls(mask, grid, n_per_voxel, n_per_voxel * n_voxels, by)

    def first_seeds(self, fod: Fod, n: int, random_seed: int) -> Seeds:
        draw = Seeds.by_voxel if self.by == "voxel" else Seeds.in_turn
        return draw(self.mask, self.grid, n, random_seed=random_seed)


@dataclass(frozen=True, slots=True)
class SeedFod(SingleSource):
    """Everywhere, in proportion to the FOD."""

    n_seeds: int

    def first_seeds(self, fod: Fod, n: int, random_seed: int) -> Seeds:
        return Seeds.from_fod(fod, n, random_seed=random_seed)


@dataclass(frozen=True, slots=True)
class SeedInterface(SingleSource):
    """Where grey and white matter of a tissue image meet."""

    tissues: Tissues
    n_seeds: int

    def first_seeds(self, fod: Fod, n: int, random_seed: int) -> Seeds:
        return Seeds.on_interface(self.tissues, n, random_seed=random_seed)


@dataclass(frozen=True, slots=True)
class SeedBetween(SingleSource):
    """Each of two regions, for streamlines that end in the other."""

    one: Region
    other: Region
    n_seeds: int  # streamlines that are to be accepted, in all

    def first_seeds(self, fod: Fod, n: int, random_seed: int) -> Seeds:
        """Draw them in the first region, which is what a preview shows."""
        return self.one.seeds(n, random_seed=random_seed)


Seeding = SeedSpheres | SeedMask | SeedVoxels | SeedFod | SeedInterface | SeedBetween


def first_numbers(counts: Sequence[int]) -> list[int]:
    """Return the number of the first streamline of each source, where they follow each other."""
    return [0, *accumulate(counts)][:-1]


def even_counts(wanted: Sequence[int], n: int) -> list[int]:
    """Cut numbers down to about `n` in all, each to the same largest number, and none to zero."""
    left, result = n, [0] * len(wanted)
    for done, index in enumerate(sorted(range(len(wanted)), key=lambda i: wanted[i])):
        result[index] = min(wanted[index], max(1, left // (len(wanted) - done)))
        left -= result[index]
    return result
