"""Track density: how many streamlines pass each voxel, on any grid.

Densities of chunks add up, so that a large run needs no more memory than its map. Called by the
command, the plugin and the cluster's workers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidParameterError, InvalidTractogramError
from ..geometry.grid import Grid
from ..model.stop import StopReason
from ..streamlines.tractogram import Tractogram
from .chunks import Source, chunks_of, weighted_chunks
from .traversal import count_passes

if TYPE_CHECKING:
    from ..model.fod import Fod

logger = logging.getLogger(__name__)


class PassCounter:
    """Counts the streamlines that pass each voxel, as they come; see :func:`density`.

    `counts`, (x, y, z), are np.int32, or np.float64 for sums of weights; `n_streamlines` are those
    that were counted, passing or not. Raises InvalidParameterError when the grid is of another
    type, such as a path.
    """

    def __init__(self, grid: Grid | Fod, dtype: Any, *, ends_only: bool = False) -> None:
        found: Any = getattr(grid, "grid", grid)
        if not isinstance(found, Grid):
            raise InvalidParameterError(
                f"grid = {grid!r} is of type {type(grid).__name__}; give a Grid, or an Fod for its."
            )
        self.grid, self.ends_only = found, ends_only
        self.counts: NDArray[Any] = np.zeros(self.grid.shape, dtype)
        self.n_streamlines = 0
        self._last = np.empty(self.grid.shape, np.int64)
        self._has_passed = False

    def add(self, tractogram: Tractogram, weights: NDArray[Any] | None = None) -> None:
        """Count streamlines, each once or by its weight."""
        worth = np.ones(len(tractogram)) if weights is None else weights
        self._last.fill(-1)  # streamlines are numbered from 0 again
        count_passes(
            tractogram.points,
            tractogram.offsets,
            worth.astype(self.counts.dtype),
            self.grid.inverse[:3],
            self.ends_only,
            self.counts,
            self._last,
        )
        self.n_streamlines += len(tractogram)
        self._has_passed = self._has_passed or bool((self._last >= 0).any())

    def warn_if_outside(self) -> None:
        """Log that no streamline passed the image, where that is so."""
        if self.n_streamlines and not self._has_passed:
            _warn_outside("None of the %d streamlines passes", self.n_streamlines, self.grid)


def density(
    tractogram: Tractogram | Iterable[Tractogram],
    grid: Grid | Fod,
    *,
    ends_only: bool = False,
    weights: ArrayLike | None = None,
) -> NDArray[Any]:
    """Count the streamlines that pass each voxel.

    A streamline counts once in every voxel that it enters, however long it stays and however
    often it comes back. Segments are followed from voxel to voxel exactly (Amanatides & Woo,
    Eurographics 1987), so the map does not depend on how densely points were recorded; only a
    line that runs exactly through an edge or a corner enters one of the voxels that meet there.
    MRtrix3's ``tckmap -template`` does the same by sampling, and misses corners that are cut.

    Parameters
    ----------
    tractogram : Tractogram, or iterable of Tractogram
        RAS+ mm. Chunks, such as those of :func:`~napari_tractography.tracking.engine.iter_track`,
        are counted as they come and not kept.
    grid : Grid or Fod
        The grid of the map; streamlines outside it do not count.
    ends_only : bool
        Count the voxels of the first and the last point only. Needed for tractograms of
        endpoints, between which there is no path.
    weights : (n_streamlines,) array_like, optional
        What each streamline counts, such as ``tractogram.weights``; 1 by default.

    Returns
    -------
    (x, y, z) int32, or float64 with weights

    Raises
    ------
    InvalidTractogramError
        When there are more or fewer weights than streamlines, or one is not a number from 0.
    InvalidParameterError
        When the grid is none.
    """
    counter = PassCounter(grid, np.int32 if weights is None else np.float64, ends_only=ends_only)
    for chunk, worth in weighted_chunks(tractogram, weights):
        counter.add(chunk, worth)
    counter.warn_if_outside()
    return counter.counts


def ends_by_reason(source: Source, grid: Grid | Fod) -> dict[StopReason, NDArray[np.int32]]:
    """Count the ends of streamlines in each voxel, by why they ended there.

    Parameters
    ----------
    source : Tractogram, iterable of Tractogram, or path
        RAS+ mm, with stop reasons.
    grid : Grid or Fod
        The grid of the maps; ends outside it are in none.

    Returns
    -------
    dict of StopReason to (x, y, z) int32
        Of reasons that ended a streamline; starts at the seed are left out.

    Raises
    ------
    InvalidTractogramError
        When no streamline has a reason.
    InvalidParameterError
        When the grid is none.
    """
    counter = PassCounter(grid, np.int32)
    found: dict[StopReason, NDArray[np.int32]] = {}
    n = n_inside = 0
    for chunk in chunks_of(source):
        filled = np.flatnonzero(np.diff(chunk.offsets) > 0)
        tips = np.stack([chunk.offsets[filled], chunk.offsets[filled + 1] - 1], axis=1).ravel()
        inside = counter.grid.contains(chunk.points[tips])
        voxels = counter.grid.nearest_voxels(chunk.points[tips])
        reasons = chunk.stop_reasons[filled].ravel()
        n, n_inside = n + len(filled), n_inside + int(inside.sum())
        for reason in StopReason:
            here = reasons == reason
            if reason is not StopReason.SEED and here.any():
                counts = found.setdefault(reason, np.zeros(counter.grid.shape, np.int32))
                np.add.at(counts, tuple(voxels[inside & here].T), 1)
    if n and not found:
        raise InvalidTractogramError(
            "These streamlines do not tell why they ended; track again and save as .trx, or use "
            "the tractogram that track returned."
        )
    if n and not n_inside:
        _warn_outside("No end of the %d streamlines lies in", n, counter.grid)
    return {reason: found[reason] for reason in sorted(found)}


def _warn_outside(what: str, n_streamlines: int, grid: Grid) -> None:
    logger.warning(
        f"{what} the image, which spans %s mm; check that both are in the same space.",
        n_streamlines, grid.bounds_text(),
    )  # fmt: skip
