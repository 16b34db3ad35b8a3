"""Connectomes: how many streamlines join each pair of labels, and how long they are.

Called by the command and the plugin.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from os import PathLike

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from ..errors import InvalidMaskError, InvalidParameterError
from ..geometry.grid import Grid
from ..runtime.arrays import may_be_real, tells_apart
from ..runtime.buffers import memory_bytes
from ..runtime.scalars import as_float, shown
from ..streamlines.tractogram import Tractogram
from .chunks import weighted_chunks
from .spreadsheets import Table

logger = logging.getLogger(__name__)

BYTES_A_PAIR = 40  # of labels: sums of counts and of lengths, and what is made of them
UNKNOWN_MEMORY = 8 << 30  # bytes, where the system does not tell how much there is

Find = Callable[[NDArray[np.float32]], NDArray[np.int64]]  # from points to labels


@dataclass(frozen=True, slots=True, eq=False)
class Connectome:
    """Streamlines between labels."""

    labels: NDArray[np.int64]  # (n,): the labels of the image in rising order, without 0
    # (n, n), int64 without weights: streamlines from the label of the row to that of the column, or
    # the sums of their weights. If not directed, each streamline counts for both orders, and once
    # on the diagonal.
    counts: NDArray[np.int64] | NDArray[np.float64]
    # (n, n): their mean length, by weight if there are any, 0 where there are none.
    mean_lengths_mm: NDArray[np.float64]
    n_assigned: int  # streamlines with both ends at a label
    n_unassigned: int  # streamlines with an end at no label
    directed: bool  # whether rows are first points and columns last points

    def save_counts(self, path: str | PathLike[str]) -> None:
        """Write the counts as CSV, labels in the first row and column, whole or not at all."""
        self.counts_table.save(path)

    def save_mean_lengths(self, path: str | PathLike[str]) -> None:
        """Write the mean lengths in mm as CSV, as :meth:`save_counts`."""
        cells = [[f"{mm:.6g}" for mm in row] for row in self.mean_lengths_mm.tolist()]
        self._table(cells).save(path)

    @property
    def counts_table(self) -> Table:
        """The counts, labels in the first row and column, as they are saved."""
        cells = self.counts.tolist()
        return self._table(
            [[str(n) if isinstance(n, int) else f"{n:.9g}" for n in r] for r in cells]
        )

    def _table(self, cells: list[list[str]]) -> Table:
        names = [str(label) for label in self.labels.tolist()]
        rows = ((name, *row) for name, row in zip(names, cells, strict=True))
        return Table(("label", *names), tuple(rows))

    def __repr__(self) -> str:
        return (
            f"Connectome({len(self.labels)} labels, {self.n_assigned} streamlines between them, "
            f"{self.n_unassigned} others)"
        )


def connectome(
    tractogram: Tractogram | Iterable[Tractogram],
    labels: ArrayLike,
    affine: ArrayLike | Grid,
    *,
    radius_mm: float = 0.0,
    directed: bool = False,
    weights: ArrayLike | None = None,
) -> Connectome:
    """Count the streamlines between each pair of labels, by their first and last points.

    Parameters
    ----------
    tractogram : Tractogram, or iterable of Tractogram
        Whole streamlines or endpoints only, RAS+ mm. Chunks are counted as they come.
    labels : (x, y, z) array_like of int
        0 is no label, and neither is NaN.
    affine : (4, 4) array_like or Grid
        Of the labels, voxel to RAS+ mm.
    radius_mm : float
        0 takes the label of the voxel in which an end lies, as ``tck2connectome
        -assignment_end_voxels``. Otherwise the label of the nearest voxel centre that has one,
        within this distance, as ``-assignment_radial_search``.
    directed : bool
        Keep first and last points apart. In a tractogram of this package the last point is where
        tracking along the start direction ended, which is meaningful when that came with the seed.
    weights : (n_streamlines,) array_like, optional
        What each streamline counts, such as ``tractogram.weights``; 1 by default.

    Raises
    ------
    InvalidMaskError
        When the labels are not 3-D whole numbers, negative, all 0, or so many that their matrix
        does not fit into memory, or the grid has another shape.
    InvalidParameterError
        When the radius is negative or not finite.
    InvalidTractogramError
        When there are more or fewer weights than streamlines, one is not a number from 0, or
        something else comes in place of streamlines, such as a path.
    """
    whole, names = _checked_labels(labels)
    if not 0 <= as_float(radius_mm) < math.inf:
        raise InvalidParameterError(
            f"radius_mm = {shown(radius_mm)} mm is out of range; give 0 or a positive number."
        )
    grid = affine if isinstance(affine, Grid) else Grid(whole.shape, affine)
    if grid.shape != whole.shape:
        raise InvalidMaskError(
            f"The labels have shape {whole.shape} but their grid has {grid.shape}; give the grid "
            "of the labels, or their affine."
        )
    find = _nearest_labels(whole, grid, radius_mm) if radius_mm else _labels_at(whole, grid)
    n = len(names)
    counts, totals = np.zeros((n, n)), np.zeros((n, n))
    n_streamlines = n_assigned = 0
    for chunk, part in weighted_chunks(tractogram, weights):
        filled = np.flatnonzero(np.diff(chunk.offsets) > 0)
        ends = [chunk.offsets[filled], chunk.offsets[filled + 1] - 1]
        start, stop = (find(chunk.points[end]) for end in ends)
        kept = (start > 0) & (stop > 0)
        rows, columns = np.searchsorted(names, start[kept]), np.searchsorted(names, stop[kept])
        lengths = chunk.lengths_mm[filled[kept]].astype(np.float64)
        worth = np.ones(len(lengths)) if part is None else part[filled[kept]].astype(np.float64)
        if not directed:
            rows, columns = np.minimum(rows, columns), np.maximum(rows, columns)
        # One after the other, so that chunks give the same sums as all of them at once.
        np.add.at(counts, (rows, columns), worth)
        np.add.at(totals, (rows, columns), worth * lengths)
        n_streamlines += len(chunk)
        n_assigned += int(kept.sum())
    if n_streamlines and not n_assigned:
        logger.warning(
            "None of the %d streamlines ends at labels on both sides; check that both are in the "
            "same space, or raise the radius.",
            n_streamlines,
        )
    if not directed:  # both orders, but a streamline within one label once
        counts, totals = (upper + np.triu(upper, 1).T for upper in (counts, totals))
    return Connectome(
        labels=names,
        counts=counts.astype(np.int64) if weights is None else counts,
        mean_lengths_mm=totals / np.where(counts > 0, counts, 1.0),
        n_assigned=n_assigned,
        n_unassigned=n_streamlines - n_assigned,
        directed=directed,
    )


def _checked_labels(labels: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a label image as whole numbers, and the labels in it, ascending."""
    image = np.asarray(labels)
    if image.ndim != 3:
        raise InvalidMaskError(f"The labels have shape {image.shape}; give a 3-D image.")
    if not may_be_real(image):
        raise InvalidMaskError(f"The labels hold {image.dtype} values; give whole numbers.")
    if image.dtype.kind == "f":
        image = np.where(np.isnan(image), 0, image)  # as in a mask: no label
    with np.errstate(invalid="ignore"):
        whole = image.astype(np.int64)
    if whole.size and not (np.array_equal(whole, image) and whole.min() >= 0):
        raise InvalidMaskError(
            f"The labels range from {image.min():g} to {image.max():g} and are not all whole "
            "numbers from 0; give a label image such as a parcellation."
        )
    if whole.size and not tells_apart(image.dtype, float(image.max())):
        raise InvalidMaskError(
            f"The labels go up to {image.max():.0f} as {image.dtype}, which cannot tell that from "
            "the next; export them as integers."
        )
    names = np.unique(whole[whole > 0])
    if not len(names):
        raise InvalidMaskError(
            f"The labels of shape {image.shape} are all 0 or NaN; give an image with labels."
        )
    n_bytes = BYTES_A_PAIR * len(names) ** 2
    if n_bytes > (memory_bytes() or UNKNOWN_MEMORY):
        raise InvalidMaskError(
            f"The labels are {len(names):,} different ones, whose matrix takes "
            f"{n_bytes / 1e9:.3g} GB of memory; give a parcellation with fewer."
        )
    return whole, names


def _labels_at(image: NDArray[np.int64], grid: Grid) -> Find:
    """Return what gives the label of the voxel around each of (n, 3) points, 0 outside."""

    def find(points: NDArray[np.float32]) -> NDArray[np.int64]:
        inside = grid.contains(points)
        found = np.zeros(len(points), np.int64)
        found[inside] = image[tuple(grid.nearest_voxels(points[inside]).T)]
        return found

    return find


def _nearest_labels(image: NDArray[np.int64], grid: Grid, radius_mm: float) -> Find:
    """Return what gives the label nearest to each of (n, 3) points, 0 where none is near enough."""
    voxels = np.argwhere(image > 0)
    labels, tree = image[tuple(voxels.T)], cKDTree(grid.to_mm(voxels))

    def find(points: NDArray[np.float32]) -> NDArray[np.int64]:
        distances, nearest = tree.query(points.astype(np.float64))
        return np.asarray(np.where(distances <= radius_mm, labels[nearest], 0))

    return find
