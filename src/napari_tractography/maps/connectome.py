"""Connectomes: how many streamlines join each pair of labels, and how long they are.

Called by the command and the plugin.
"""

from __future__ import annotations

import csv
import logging
import math
from dataclasses import dataclass
from os import PathLike

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from ..errors import InvalidMaskError, InvalidParameterError
from ..files.paths import written_whole
from ..grid import Grid
from ..tractogram import Tractogram

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Connectome:
    """Streamlines between labels.

    Attributes
    ----------
    labels : (n,) int64
        The labels of the image in rising order, without 0.
    counts : (n, n) int64
        Streamlines from the label of the row to that of the column. If not directed, each
        streamline counts for both orders, and once on the diagonal.
    mean_lengths_mm : (n, n) float64
        Their mean length, 0 where there are none.
    n_unassigned : int
        Streamlines with an end at no label.
    directed : bool
        Whether rows are first points and columns last points.
    """

    labels: NDArray[np.int64]
    counts: NDArray[np.int64]
    mean_lengths_mm: NDArray[np.float64]
    n_unassigned: int
    directed: bool

    @property
    def n_assigned(self) -> int:
        """Number of streamlines with both ends at a label."""
        if self.directed:
            return int(self.counts.sum())
        return int(np.triu(self.counts).sum())

    def save_counts(self, path: str | PathLike[str]) -> None:
        """Write the counts as CSV, labels in the first row and column, whole or not at all."""
        self._save(path, [[str(n) for n in row] for row in self.counts.tolist()])

    def save_mean_lengths(self, path: str | PathLike[str]) -> None:
        """Write the mean lengths in mm as CSV, as :meth:`save_counts`."""
        self._save(path, [[f"{mm:.6g}" for mm in row] for row in self.mean_lengths_mm.tolist()])

    def _save(self, path: str | PathLike[str], cells: list[list[str]]) -> None:
        names = [str(label) for label in self.labels.tolist()]
        with (
            written_whole(path) as temporary,
            open(temporary, "w", encoding="utf-8", newline="") as stream,
        ):
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(["label", *names])
            writer.writerows([name, *row] for name, row in zip(names, cells, strict=True))

    def __repr__(self) -> str:
        return (
            f"Connectome({len(self.labels)} labels, {self.n_assigned} streamlines between them, "
            f"{self.n_unassigned} others)"
        )


def connectome(
    tractogram: Tractogram,
    labels: ArrayLike,
    affine: ArrayLike | Grid,
    *,
    radius_mm: float = 0.0,
    directed: bool = False,
) -> Connectome:
    """Count the streamlines between each pair of labels, by their first and last points.

    Parameters
    ----------
    tractogram : Tractogram
        Whole streamlines or endpoints only, RAS+ mm.
    labels : (x, y, z) array_like of int
        0 is no label.
    affine : (4, 4) array_like or Grid
        Of the labels, voxel to RAS+ mm.
    radius_mm : float
        0 takes the label of the voxel in which an end lies, as ``tck2connectome
        -assignment_end_voxels``. Otherwise the label of the nearest voxel centre that has one,
        within this distance, as ``-assignment_radial_search``.
    directed : bool
        Keep first and last points apart. In a tractogram of this package the last point is where
        tracking along the start direction ended, which is meaningful when that was given.

    Returns
    -------
    Connectome

    Raises
    ------
    InvalidMaskError
        When the labels are not 3-D whole numbers, negative, or all 0.
    InvalidParameterError
        When the radius is negative or not finite.
    """
    image = np.asarray(labels)
    if image.ndim != 3:
        raise InvalidMaskError(f"The labels have shape {image.shape}; give a 3-D image.")
    with np.errstate(invalid="ignore"):
        whole = image.astype(np.int64)
    if not np.array_equal(whole, image) or whole.min() < 0:
        raise InvalidMaskError(
            f"The labels range from {image.min():g} to {image.max():g} and are not all whole "
            "numbers from 0; give a label image such as a parcellation."
        )
    if not (math.isfinite(radius_mm) and radius_mm >= 0):
        raise InvalidParameterError(
            f"radius_mm = {radius_mm:g} mm is out of range; give 0 or a positive number."
        )
    names = np.unique(whole[whole > 0])
    if not len(names):
        raise InvalidMaskError(
            f"The labels of shape {image.shape} are all 0; give an image with labels."
        )
    grid = affine if isinstance(affine, Grid) else Grid(whole.shape, affine)
    filled = np.flatnonzero(np.diff(tractogram.offsets) > 0)
    ends = [tractogram.offsets[filled], tractogram.offsets[filled + 1] - 1]
    find = _nearest_labels if radius_mm else _labels_at
    start, stop = (find(tractogram.points[end], whole, grid, radius_mm) for end in ends)
    kept = (start > 0) & (stop > 0)
    if len(tractogram) and not kept.any():
        logger.warning(
            "None of the %d streamlines ends at labels on both sides; check that both are in the "
            "same space, or raise the radius.",
            len(tractogram),
        )
    rows, columns = np.searchsorted(names, start[kept]), np.searchsorted(names, stop[kept])
    lengths = tractogram.lengths_mm[filled[kept]].astype(np.float64)
    if not directed:
        # Both orders, but a streamline within one label once.
        other = rows != columns
        rows, columns = np.append(rows, columns[other]), np.append(columns, rows[other])
        lengths = np.append(lengths, lengths[other])
    n = len(names)
    cells = rows * n + columns
    counts = np.bincount(cells, minlength=n * n).reshape(n, n)
    totals = np.bincount(cells, weights=lengths, minlength=n * n).reshape(n, n)
    return Connectome(
        labels=names,
        counts=counts.astype(np.int64),
        mean_lengths_mm=totals / np.maximum(counts, 1),
        n_unassigned=len(tractogram) - int(kept.sum()),
        directed=directed,
    )


def _labels_at(
    points: NDArray[np.float32], labels: NDArray[np.int64], grid: Grid, radius_mm: float
) -> NDArray[np.int64]:
    """Return the label of the voxel around each of (n, 3) points, 0 outside the image."""
    inside = grid.contains(points)
    voxels = np.floor(grid.to_voxel(points[inside]) + 0.5).astype(np.int64)
    voxels = np.minimum(voxels, np.array(grid.shape) - 1)  # 0.5 - 1e-17 rounds up
    found = np.zeros(len(points), np.int64)
    found[inside] = labels[tuple(voxels.T)]
    return found


def _nearest_labels(
    points: NDArray[np.float32], labels: NDArray[np.int64], grid: Grid, radius_mm: float
) -> NDArray[np.int64]:
    """Return the label nearest to each of (n, 3) points, 0 where none is near enough."""
    voxels = np.argwhere(labels > 0)
    distances, nearest = cKDTree(grid.to_mm(voxels)).query(points.astype(np.float64))
    found = labels[tuple(voxels[nearest].T)]
    return np.asarray(np.where(distances <= radius_mm, found, 0))
