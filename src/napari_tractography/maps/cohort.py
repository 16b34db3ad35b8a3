"""What many subjects have in common: the share of them in which a place is reached.

The same seeds are tracked in the FOD of each subject, in one common space. A subject reaches a
voxel when enough of its streamlines pass it. Filled by :mod:`napari_tractography.recipes.cohort`;
called by the command, the plugin and scripts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameterError
from ..geometry.grid import Grid
from ..runtime.scalars import is_count
from ..streamlines.tractogram import Tractogram
from .spreadsheets import Table, cell
from .traversal import count_passes

COLUMNS = (
    "subject",
    "rank",
    "likeness",
    "n_streamlines",
    "n_seeds",
    "mean_length_mm",
    "volume_mm3",
    "fod",
    "digest",
    "inputs_sha256",
)


def passed_voxels(
    tractogram: Tractogram, grid: Grid
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the voxels that streamlines pass, in C order, and how many pass each.

    As :func:`~napari_tractography.maps.density.density` counts them, in memory for a box around
    the streamlines alone.
    """
    nothing = np.empty(0, np.int64), np.empty(0, np.int32)
    if not len(tractogram.points):
        return nothing
    ends = tractogram.points.min(axis=0), tractogram.points.max(axis=0)
    found = grid.to_voxel(np.array(np.meshgrid(*np.stack(ends).T)).reshape(3, 8).T)
    first = np.maximum(np.floor(found.min(axis=0)).astype(np.int64) - 1, 0)
    last = np.minimum(np.ceil(found.max(axis=0)).astype(np.int64) + 2, grid.shape)
    if (last <= first).any():
        return nothing
    to_box = grid.inverse[:3].copy()
    to_box[:, 3] -= first
    counts = np.zeros(last - first, np.int32)
    count_passes(
        tractogram.points,
        tractogram.offsets,
        np.ones(len(tractogram), np.int32),
        to_box,
        False,
        counts,
        np.full(counts.shape, -1, np.int64),
    )
    at = np.nonzero(counts)
    voxels = np.ravel_multi_index(
        tuple(index + start for index, start in zip(at, first, strict=True)), grid.shape
    )
    return voxels, counts[at]


@dataclass(frozen=True, slots=True, eq=False)
class CohortResult:
    """One seed in many subjects.

    Attributes
    ----------
    names : tuple of str
        Of the subjects.
    tractograms : tuple of Tractogram
        Of each subject, as if it were tracked alone; where subjects have warps, in the space that
        those lead to.
    grid : Grid
        Of the maps.
    min_streamlines : int
        How many streamlines of a subject must pass a voxel for it to be reached.
    fods : tuple of str
        The file of each subject, "" of what was in memory.
    inputs_sha256 : tuple of str
        Of all that each subject's streamlines depend on, as ``replay`` has it in its table; empty
        without a recipe.
    digests : tuple of str
        Of each subject's streamlines in the space in which they were tracked, where that is another
        than that of `tractograms`; else empty, as those have their own.

    Raises
    ------
    InvalidParameterError
        When `min_streamlines` is no whole number from 1.
    """

    names: tuple[str, ...]
    tractograms: tuple[Tractogram, ...]
    grid: Grid
    min_streamlines: int = 1
    fods: tuple[str, ...] = ()
    inputs_sha256: tuple[str, ...] = ()
    passed: tuple[tuple[NDArray[np.int64], NDArray[np.int32]], ...] = field(
        default=(), repr=False
    )  # of each subject, see passed_voxels; found where it is not given
    digests: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not is_count(self.min_streamlines):
            raise InvalidParameterError(
                f"min_streamlines = {self.min_streamlines!r} is impossible; give a whole number "
                "from 1."
            )
        if len(self.passed) != len(self.tractograms):
            found = tuple(passed_voxels(each, self.grid) for each in self.tractograms)
            object.__setattr__(self, "passed", found)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def n_reached(self) -> NDArray[np.int32]:
        """(x, y, z) int32: subjects in which the voxel is reached."""
        found = np.zeros(self.grid.shape, np.int32)
        for voxels, counts in self.passed:
            found.reshape(-1)[voxels[counts >= self.min_streamlines]] += 1
        return found

    @property
    def share(self) -> NDArray[np.float64]:
        """(x, y, z) float64: share of the subjects in which the voxel is reached, 0 to 1."""
        return np.asarray(self.n_reached / len(self))

    @property
    def standard_error(self) -> NDArray[np.float64]:
        """(x, y, z) float64: of the share, as that of subjects drawn from a population.

        sqrt(p (1 - p) / n), that of a binomial fraction; 0 where all subjects agree, which of few
        subjects says little.
        """
        share = self.share
        return np.asarray(np.sqrt(share * (1 - share) / len(self)))

    @property
    def likeness(self) -> NDArray[np.float64]:
        """(n_subjects,) float64: how much each subject is like the others, 0 to 1.

        The Dice coefficient of two maps of numbers, 2 sum min(p, q) / (sum p + sum q): p is the
        subject's visitation map, the fraction of its streamlines that pass each voxel, and q the
        mean of those of all others. 0 without streamlines; NaN where no other subject has any, or
        there is none.
        """
        maps = [
            (voxels, counts / max(len(each), 1))
            for (voxels, counts), each in zip(self.passed, self.tractograms, strict=True)
        ]
        total = np.zeros(math.prod(self.grid.shape))
        for voxels, p in maps:
            total[voxels] += p
        whole, n_others = float(total.sum()), len(maps) - 1
        found = np.full(len(maps), np.nan)
        for number, (voxels, p) in enumerate(maps):
            own = float(p.sum())
            others = whole - own
            if n_others and others > 1e-9 * whole:
                common = np.minimum(p, (total[voxels] - p) / n_others).sum()
                found[number] = 2 * common / (own + others / n_others)
        return found

    @property
    def ranks(self) -> NDArray[np.int64]:
        """(n_subjects,) int64: 1 of the subject that differs most from the others."""
        ranks = np.empty(len(self), np.int64)
        ranks[np.argsort(self.likeness, kind="stable")] = np.arange(1, len(self) + 1)
        return ranks

    def table(self) -> Table:
        """Return a row for each subject, the one that differs most first."""
        likeness, ranks = self.likeness, self.ranks
        voxel_mm3 = abs(float(np.linalg.det(self.grid.affine[:3, :3])))
        rows = []
        for number in np.argsort(ranks):
            tractogram, (_, counts) = self.tractograms[number], self.passed[number]
            lengths = tractogram.lengths_mm
            rows.append(
                (
                    self.names[number],
                    cell(ranks[number]),
                    cell(float(likeness[number])),
                    cell(len(tractogram)),
                    cell(tractogram.n_seeds),
                    cell(float(lengths.mean()) if len(lengths) else math.nan),
                    cell(voxel_mm3 * int((counts >= self.min_streamlines).sum())),
                    self.fods[number] if self.fods else "",
                    self.digests[number] if self.digests else tractogram.digest(),
                    self.inputs_sha256[number] if self.inputs_sha256 else "",
                )
            )
        return Table(COLUMNS, tuple(rows))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the table as CSV. Raises FileError when it cannot be written."""
        self.table().save(path)

    def summary(self, n: int = 3) -> str:
        """Return how many voxels are reached, and who of three or more differs most, in one
        sentence.
        """
        reached = self.n_reached
        text = (
            f"{int((reached > 0).sum())} voxels are reached in some of {len(self)} subjects, "
            f"{int((reached == len(self)).sum())} in all"
        )
        if len(self) < 3:  # two are like each other as much
            return text
        least = [self.names[number] for number in np.argsort(self.ranks)[:n]]
        return f"{text}; {', '.join(least)} differ most"

    def changed_since(self, rows: Sequence[Mapping[str, str]]) -> list[str]:
        """Return the subjects whose streamlines are no longer those of a table's rows.

        Those whose inputs are others, or not known, are not compared.
        """
        table = self.table()
        now = {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}
        return [
            row["subject"]
            for row in rows
            if (own := now.get(row["subject"]))
            and own["inputs_sha256"]
            and own["inputs_sha256"] == row["inputs_sha256"]
            and own["digest"] != row["digest"]
        ]
