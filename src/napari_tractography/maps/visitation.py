"""Visitation maps: how probable it is that a streamline visits a voxel, and with what error.

Streamlines that are tracked from independent seeds are independent trials: of n, k visit a voxel,
so that k / n estimates the probability, and its standard error is that of a binomial fraction,
sqrt(p (1 - p) / n). Called by the command, the plugin and scripts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidParameterError, InvalidTractogramError
from ..geometry.grid import Grid
from ..model.fod import Fod
from ..runtime.scalars import as_float, as_point, shown
from .chunks import Source, chunks_of
from .density import PassCounter

TRIALS = ("accepted", "started")
# Of no visits in n trials the limit is where (1 - p)^n is this: 95 % confidence, and p about 3 / n
# (Hanley & Lippman-Hand, JAMA 1983), which of one or two trials would be above 1.
UNSEEN = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Visitation:
    """A visitation map."""

    probability: NDArray[np.float64]  # (x, y, z): of a streamline to visit the voxel
    n: int  # streamlines, or seeds, of which it is a fraction
    grid: Grid
    trials: str = TRIALS[0]  # "accepted" or "started", as :func:`visitation` takes it

    @property
    def standard_error(self) -> NDArray[np.float64]:
        """(x, y, z) float64: Monte-Carlo standard error of the probability; 0 where none visits."""
        return np.asarray(np.sqrt(self.probability * (1 - self.probability) / self.n))

    @property
    def largest_error(self) -> float:
        """The largest standard error of the map; looks at every voxel."""
        return float(self.standard_error.max())

    @property
    def hidden_error(self) -> float:
        """What an error may be that no voxel shows: all probabilities are 0 or 1; else 0.

        The standard error of the largest probability that so many trials are likely to miss.
        """
        if self.largest_error:
            return 0.0
        p = 1 - UNSEEN ** (1 / self.n)
        return math.sqrt(p * (1 - p) / self.n)

    def n_more(self, standard_error: float) -> int:
        """Return how many more streamlines make no standard error larger than this; 0 is enough.

        Where all probabilities are 0 or 1 it goes by :attr:`hidden_error`. Raises
        InvalidParameterError when the error is not between 0 and 1.
        """
        if not 0 < as_float(standard_error) < 1:
            raise InvalidParameterError(
                f"standard_error = {shown(standard_error)} is out of range; give a number between "
                "0 and 1, such as 0.002."
            )
        error = self.largest_error or self.hidden_error
        needed = math.ceil((error / standard_error) ** 2 * self.n * (1 - 1e-12))
        return max(needed - self.n, 0)

    def at(self, point_mm: ArrayLike) -> str:
        """Return the probability at a (3,) RAS+ mm point in words, "0.031 ± 0.002".

        Raises InvalidParameterError when it is no point.
        """
        point = as_point(point_mm)
        if point is None:
            raise InvalidParameterError(f"{point_mm!r} is no point; give x, y and z in RAS+ mm.")
        if not bool(self.grid.contains(point)):
            return f"{self.n:,} {self._noun}: outside the map"
        voxel = tuple(self.grid.nearest_voxels(point))
        p = float(self.probability[voxel])
        error = math.sqrt(p * (1 - p) / self.n)
        if not error:
            still = UNSEEN ** (1 / self.n)  # 1 less what may have been missed
            digits = 1 - math.floor(math.log10(1 - still))  # two of what it lacks to 1
            limit = f"below {1 - still:.2g}" if p == 0 else f"above {still:.{digits}f}"
            return f"{self.n:,} {self._noun}: {p:g}; {limit} with 95 % confidence"
        digits = max(1 - math.floor(math.log10(error)), 1) - 1
        return f"{self.n:,} {self._noun}: {p:.{digits}f} ± {error:.{digits}f}"

    def enough(self, standard_error: float) -> str:
        """Say whether they are enough for a standard error, or how many more it takes."""
        more = self.n_more(standard_error)
        now = f"The largest standard error is {self.largest_error:.2g}"
        if self.hidden_error:
            now = (
                f"All probabilities are 0 or 1, of {self.n:,} {self._noun}, which may hide a "
                f"standard error of {self.hidden_error:.2g}"
            )
        if not more:
            return f"{now}: enough for {standard_error:g}."
        return f"{now}; {standard_error:g} takes {more:,} more {self._noun}."

    @property
    def _noun(self) -> str:
        return "seeds" if self.trials == "started" else "streamlines"


def visitation(
    source: Source, grid: Grid | Fod, *, trials: str = "accepted", ends_only: bool = False
) -> Visitation:
    """Estimate how probable it is that a streamline visits each voxel.

    Parameters
    ----------
    source : Tractogram, iterable of Tractogram or path-like
        Tracked, and not chosen by hand: a choice is no trial. Chunks, such as those of
        :func:`~napari_tractography.tracking.engine.iter_track`, are counted as they come.
    grid : Grid or Fod
    trials : str
        Of what the probability is a fraction. "accepted": of the streamlines that there are, which
        is the probability that a streamline of this bundle visits the voxel, right however a run
        ended. "started": of the seeds, which is the probability that a streamline from a seed is
        accepted and visits the voxel; the tractogram must know its seeds (`n_seeds`), as one that
        was tracked does, and files and chosen streamlines do not.
    ends_only : bool
        Whether only first and last points visit.

    Raises
    ------
    InvalidParameterError
        When `trials` is unknown, or the grid is none.
    InvalidTractogramError
        When there are no trials, or "started" ones of streamlines that do not know their seeds.

    Notes
    -----
    The standard error is that of independent trials with one probability. Where seeds are spread
    over several places in fixed parts, as many in each, the true error is at most this one.
    """
    if trials not in TRIALS:
        raise InvalidParameterError(
            f"trials = {trials!r} is unknown; choose one of {', '.join(TRIALS)}."
        )
    counter = PassCounter(grid, np.int32, ends_only=ends_only)
    n_seeds = 0
    for chunk in chunks_of(source):
        counter.add(chunk)
        n_seeds += chunk.n_seeds
        if trials == "started" and len(chunk) and not chunk.n_seeds:
            raise InvalidTractogramError(
                f"How many seeds were tried for these {len(chunk)} streamlines is not known, as of "
                'files and of chosen streamlines; give what was tracked, or trials="accepted".'
            )
    counter.warn_if_outside()
    n = n_seeds if trials == "started" else counter.n_streamlines
    if not n:
        raise InvalidTractogramError(
            "There are no streamlines, so that no probability can be estimated; track some first."
        )
    return Visitation(counter.counts / n, n, counter.grid, trials)
