"""Where the streamlines of a run start, frozen: balls around placed seeds, a mask, or the FOD.

Made by the session, drawn from by the worker, written down by the scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...fod import Fod
from ...grid import Grid
from ...seeds import Seeds


@dataclass(frozen=True, slots=True, eq=False)
class SeedSpheres:
    """Spheres around seeds that were placed, each with a radius and a number of its own.

    Attributes
    ----------
    positions_mm : (n, 3) float64, RAS+
    radii_mm : (n,) float64
    counts : (n,) int64
        Streamlines from each.
    """

    positions_mm: NDArray[np.float64]
    radii_mm: NDArray[np.float64]
    counts: NDArray[np.int64]

    @property
    def n_seeds(self) -> int:
        """Number of streamlines in all."""
        return int(self.counts.sum())

    @property
    def n_each(self) -> list[int]:
        """Number of streamlines of each place, in their order."""
        return [int(n) for n in self.counts]

    def at_most(self, n: int) -> SeedSpheres:
        """Return the same with about `n` streamlines, at least one from each seed."""
        return replace(self, counts=np.array(shares(self.n_each, n), dtype=np.int64))

    def draw(self, fod: Fod, random_seed: int) -> Seeds:
        """Draw the seeds."""
        return Seeds.concatenate(
            [
                Seeds.in_sphere(position, radius, count, random_seed=random_seed)
                for position, radius, count in zip(
                    self.positions_mm, self.radii_mm.tolist(), self.counts.tolist(), strict=True
                )
            ]
        )


@dataclass(frozen=True, slots=True, eq=False)
class SeedMask:
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

    @property
    def n_each(self) -> list[int]:
        """Number of streamlines: there is one place only."""
        return [self.n_seeds]

    def at_most(self, n: int) -> SeedMask:
        """Return the first `n` seeds."""
        return replace(self, n_seeds=min(self.n_seeds, n))

    def draw(self, fod: Fod, random_seed: int) -> Seeds:
        """Draw the seeds."""
        return Seeds.in_mask(self.mask, self.grid, self.n_seeds, random_seed=random_seed)


@dataclass(frozen=True, slots=True)
class SeedFod:
    """Everywhere, in proportion to the FOD."""

    n_seeds: int

    @property
    def n_each(self) -> list[int]:
        """Number of streamlines: there is one place only."""
        return [self.n_seeds]

    def at_most(self, n: int) -> SeedFod:
        """Return the first `n` seeds."""
        return replace(self, n_seeds=min(self.n_seeds, n))

    def draw(self, fod: Fod, random_seed: int) -> Seeds:
        """Draw the seeds."""
        return Seeds.from_fod(fod, self.n_seeds, random_seed=random_seed)


Seeding = SeedSpheres | SeedMask | SeedFod


def shares(wanted: Sequence[int], n: int) -> list[int]:
    """Cut numbers down to about `n` in all, each to the same largest number, and none to zero."""
    left, result = n, [0] * len(wanted)
    for done, index in enumerate(sorted(range(len(wanted)), key=lambda i: wanted[i])):
        result[index] = min(wanted[index], max(1, left // (len(wanted) - done)))
        left -= result[index]
    return result
