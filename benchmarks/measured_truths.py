"""Ground truths of the data folder: TrackerYoga's phantom, FiberCup and a person's bundles.

Called by ``truth.py``; each makes the same as the bundles that ``truths.py`` draws. Half A has the
first end of each bundle, or every other bundle, half B the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

import defaults
import ground_truth
import looking_ahead
import napari_tractography as nt
import scoring
import subject
from truths import HALVES, Bundle, Disc, Made, ends_of, through

# Of FiberCup, whose bundles lie in a plane: points along the middle of each, in voxels.
FIBERCUP: dict[str, tuple[tuple[float, float], ...]] = {
    "left U": ((9.5, 23.7), (14, 23.6), (17, 23.2), (19, 21.7), (19.5, 20.3), (19, 18.8),
               (17.3, 17.6), (15, 17), (11.5, 17)),
    "upper U": ((22, 50.5), (22.5, 46), (24, 43), (27, 40.8), (30.5, 39.8), (34, 41), (36.5, 43.5),
                (38.3, 46), (39, 49.5)),
    "across": ((10.5, 39), (15, 39.2), (20, 39.7), (30, 39.3), (40, 39.6), (48.5, 39)),
    "left": ((15.8, 46.5), (17, 43.5), (18, 40), (19, 36), (20.5, 32), (22.3, 28), (23.5, 24),
             (26.5, 20.5), (30.5, 17.3), (34.3, 13.2), (37, 10), (39.3, 7)),
    "right, up": ((23.2, 7.4), (27.2, 12.3), (31, 17), (35, 21.5), (38, 26), (40, 30), (41.3, 34),
                  (42.5, 38), (44, 42), (45, 46.2)),
    "right, middle": ((23.2, 7.4), (27.2, 12.3), (31, 17), (35, 21), (39, 25.3), (42.8, 28),
                      (46, 30.5), (48.5, 33), (51, 36.3)),
    "right": ((23.2, 7.4), (27.2, 12.3), (31, 17), (35, 20.5), (39, 22.5), (43, 23), (48, 22.7),
              (52.5, 22.5)),
}  # fmt: skip
FIBERCUP_RADIUS_MM = 6.0  # four voxels across
N_SUBJECT = 5  # times as many seeds in a person, in whom few streamlines are valid


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """The end of a bundle as the points where true streamlines end."""

    points_mm: NDArray

    def holds(self, points_mm: NDArray) -> NDArray:
        """Tell which points lie as near as a voxel of the phantom."""
        return cKDTree(self.points_mm).query(points_mm)[0] <= scoring.REACH_MM


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """The end of a bundle as voxels."""

    mask: NDArray
    grid: nt.Grid

    def holds(self, points_mm: NDArray) -> NDArray:
        """Tell which points lie in these voxels."""
        voxels = np.rint(self.grid.to_voxel(points_mm)).astype(int)
        inside = ((voxels >= 0) & (voxels < self.mask.shape)).all(axis=1)
        voxels[~inside] = 0
        return self.mask[tuple(voxels.T)] & inside


def parts(n: int, n_parts: int) -> list[int]:
    """Return `n` in parts that are alike."""
    return [(n + n_parts - 1 - k) // n_parts for k in range(n_parts)]


def seeds_in(mask: NDArray, fod: nt.Fod, n: int, rng: np.random.Generator) -> NDArray:
    """Return places uniform in the voxels of a mask that hold an FOD."""
    voxels = np.argwhere(mask & fod.support)
    chosen = voxels[rng.integers(len(voxels), size=n)]
    return fod.grid.to_mm(chosen + rng.uniform(-0.5, 0.5, chosen.shape))


def joined(seeds: dict[int, NDArray]) -> tuple[NDArray, NDArray]:
    """Return all seeds, and the bundle of each."""
    numbers = np.repeat(list(seeds), [len(own) for own in seeds.values()])
    return np.concatenate(list(seeds.values())), numbers


def of_half(n: int, half: str) -> Sequence[int]:
    """Return every other number, of half A from the first on."""
    return range(list(HALVES).index(half), n, 2)


@dataclass(frozen=True, slots=True)
class Yoga:
    """TrackerYoga's phantom: seeds at one end of each bundle; as it is, or with noise."""

    folder: Path
    kinds: tuple[str, ...] = ("exact", "noisy")

    def make(
        self,
        n_seeds: int,
        half: str = "A",
        kind: str = "exact",
        *,
        repeat: int = 0,
        at_ends: bool = True,  # as they always are
    ) -> Made:
        """Return its FOD, and seeds at the first ends of half A or the last ones of half B."""
        number = HALVES[half][1] + 10 * repeat
        fod = nt.load_fod(self.folder / ground_truth.FOD)
        if kind == "noisy":
            fod = looking_ahead.noisy_copy(fod, number)
        bundles = ground_truth.bundles_of(self.folder)
        ends = ground_truth.ends_of(self.folder)
        filled = [
            (nt.density(nt.Tractogram(*_flat(lines)), fod) > 0) & fod.support
            for lines in bundles.values()
        ]
        first = list(HALVES).index(half)
        seeds = {
            k: scoring.draw_seeds(ends[2 * k + first], n, 100 * number + k).positions_mm.astype(
                float
            )
            for k, n in enumerate(parts(n_seeds, len(bundles)))
        }
        return Made(
            f"yoga, {kind}",
            fod,
            np.array(filled, float),
            *joined(seeds),
            tuple(Points(end.points_mm) for end in ends),
            tuple((2 * k, 2 * k + 1) for k in range(len(bundles))),
            repeat,
        )


def _flat(lines: Sequence[NDArray]) -> tuple[NDArray, NDArray]:
    return np.concatenate(lines), np.cumsum([0, *map(len, lines)])


@dataclass(frozen=True, slots=True)
class FiberCup:
    """The FiberCup phantom, scanned: bundles as tubes along points that were read off its mask."""

    folder: Path
    kinds: tuple[str, ...] = ("scan",)

    def make(
        self,
        n_seeds: int,
        half: str = "A",
        kind: str = "scan",
        *,
        repeat: int = 0,
        at_ends: bool = False,
    ) -> Made:
        """Return its FOD in its white matter, and seeds in every other bundle."""
        rng = np.random.default_rng([HALVES[half][1], repeat])
        fod = defaults.load(self.folder / "fod.nii.gz", self.folder / "wm.nii.gz")
        size = float(fod.grid.voxel_sizes_mm[0])
        centres = fod.grid.to_mm(np.indices(fod.grid.shape).reshape(3, -1).T)
        tubes = []
        for name, points in FIBERCUP.items():
            plane = np.column_stack([points, np.ones(len(points))])
            tubes.append(Bundle(name, through(fod.grid.to_mm(plane)), FIBERCUP_RADIUS_MM))
        filled = [tube.holds(centres).reshape(fod.grid.shape) & fod.support for tube in tubes]
        ends, numbers = ends_of(tubes, size)
        chosen = of_half(len(filled), half)
        seeds = {
            k: seeds_in(
                _near(filled[k], ends[numbers[k][0]], fod) if at_ends else filled[k], fod, n, rng
            )
            for k, n in zip(chosen, parts(n_seeds, len(chosen)), strict=True)
        }
        return Made(
            "fibercup, scan",
            fod,
            np.array(filled, float),
            *joined(seeds),
            ends,
            numbers,
            repeat,
        )


def _near(mask: NDArray, end: Disc, fod: nt.Fod) -> NDArray:
    """Return the voxels of a mask that lie at an end."""
    voxels = np.argwhere(mask)
    found = np.zeros_like(mask)
    found[tuple(voxels[end.holds(fod.grid.to_mm(voxels))].T)] = True
    return found


@dataclass(frozen=True, slots=True)
class Subject:
    """Eight bundles of a person, as another program segments them in the same peaks.

    Valid is as in ``subject.py``. Which ends no bundle joins nobody knows.
    """

    folder: Path
    kinds: tuple[str, ...] = ("peaks",)

    def make(
        self,
        n_seeds: int,
        half: str = "A",
        kind: str = "peaks",
        *,
        repeat: int = 0,
        at_ends: bool = False,
    ) -> Made:
        """Return the peaks of the whole brain, and seeds in every other bundle."""
        rng = np.random.default_rng([HALVES[half][1], repeat])
        fod = nt.load_fod(self.folder / "peaks.nii.gz", kind="peaks")
        bundles = subject.read_bundles(self.folder / "bundles")
        chosen = of_half(len(bundles), half)
        seeds = {
            k: seeds_in(bundles[k].begin if at_ends else bundles[k].inside, fod, n, rng)
            for k, n in zip(chosen, parts(N_SUBJECT * n_seeds, len(chosen)), strict=True)
        }
        return Made(
            "subject, peaks",
            fod,
            np.array([bundle.inside for bundle in bundles], float),
            *joined(seeds),
            tuple(Mask(mask, fod.grid) for b in bundles for mask in (b.begin, b.end)),
            tuple((2 * k, 2 * k + 1) for k in range(len(bundles))),
            repeat,
            least_inside=subject.MIN_INSIDE,
            tells_invalid=False,
        )


MEASURED = {"yoga": Yoga, "fibercup": FiberCup, "subject": Subject}


def measured(data: Path) -> dict[str, Yoga | FiberCup | Subject]:
    """Return those that the data folder has, by name."""
    return {name: kind(data / name) for name, kind in MEASURED.items() if (data / name).is_dir()}
