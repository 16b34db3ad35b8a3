"""What would be lost: the streamlines of a bundle that a cavity ends, and how near it comes.

A streamline's random numbers are its own, so that with a cavity and without it is the same, bit
for bit, until it enters; one that enters ends there, and is lost. So the points of a bundle tell
what tracking again would, at once, and none is gained. Research only: what streamlines show is no
measure of what a person would lose. Called by the command, the plugin and scripts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidRegionError
from ..geometry.grid import Grid
from ..model.fod import Fod
from ..model.regions import Region, listed_regions
from .chunks import Source, chunks_of
from .density import PassCounter
from .margins import Nearest, distances_mm, nearest
from .visitation import UNSEEN

RESEARCH_ONLY = "Research only: streamlines are no measure of what a person would lose."

# name of a number -> what a person reads, its unit
COLUMNS = {
    "n_streamlines": ("Streamlines", ""),
    "n_lost": ("Lost", ""),
    "n_lost_error": ("Standard error of it", ""),
    "share_lost": ("Share lost", ""),
    "share_lost_error": ("Standard error of it", ""),
    "weight": ("Weight", ""),
    "weight_lost": ("Weight lost", ""),
    "weight_share_lost": ("Share of the weight", ""),
    "weight_share_lost_error": ("Standard error of it", ""),
    "margin_mm": ("Margin", "mm"),
    **{
        f"{where}_{x}_mm": (f"Nearest on the {where}, {x}", "mm")
        for where in ("bundle", "cavity")
        for x in "xyz"
    },
}


@dataclass(frozen=True, slots=True, eq=False)
class Resection:
    """What a bundle would lose to a cavity."""

    name: str  # of the bundle
    lost: NDArray[np.bool_]  # (n_streamlines,): which streamlines enter the cavity
    # (n_streamlines,): what each streamline stands for, where the bundle has weights.
    weights: NDArray[np.float32] | None = None
    # Least distance between bundle and cavity, 0 where a streamline enters; NaN without any.
    margin_mm: float = math.nan
    # (2, 3): where that is, RAS+: on the bundle, and on the cavity; None where it is 0 or NaN.
    line_mm: NDArray[np.float64] | None = None

    @property
    def n_streamlines(self) -> int:
        """Streamlines without the cavity."""
        return len(self.lost)

    @property
    def n_lost(self) -> int:
        """Streamlines that enter it."""
        return int(np.count_nonzero(self.lost))

    @property
    def share(self) -> float:
        """The fraction of the streamlines that is lost; NaN without streamlines."""
        return self.n_lost / self.n_streamlines if self.n_streamlines else math.nan

    @property
    def standard_error(self) -> float:
        """Monte-Carlo standard error of the share, sqrt(p (1 - p) / n); 0 where p is 0 or 1.

        The two runs have their random numbers in common, so that each streamline is one trial, lost
        or not, and what both runs have in common adds no error.
        """
        p, n = self.share, self.n_streamlines
        return math.sqrt(p * (1 - p) / n) if n else math.nan

    @property
    def weight(self) -> float:
        """The sum of the weights; NaN without."""
        return math.nan if self.weights is None else float(self.weights.sum(dtype=np.float64))

    @property
    def weight_lost(self) -> float:
        """The sum of the weights that are lost; NaN without."""
        if self.weights is None:
            return math.nan
        return float(self.weights[self.lost].sum(dtype=np.float64))

    @property
    def weight_share(self) -> float:
        """The fraction of the weight that is lost; NaN without weights, or of none."""
        return self.weight_lost / self.weight if self.weight else math.nan

    @property
    def weight_standard_error(self) -> float:
        """Standard error of that fraction, sqrt(sum (w (lost - p))^2) / sum w, as of a ratio."""
        if self.weights is None or not self.weight:
            return math.nan
        off = self.weights * (self.lost - self.weight_share)
        return float(np.sqrt(np.square(off, dtype=np.float64).sum()) / self.weight)

    @property
    def text(self) -> str:
        """All of it in words: "loses 132 of 1,000 streamlines (13.2 ± 1.1 %), margin 0 mm"."""
        n, k = self.n_streamlines, self.n_lost
        if not n:
            return "has no streamlines"
        if 0 < k < n:
            how = _percent(self.share, self.standard_error)
        else:  # what so many trials are likely to miss, see Visitation.at
            limit = 100 * (1 - UNSEEN ** (1 / n))
            how = f"below {limit:.2g} %" if not k else f"above {100 - limit:.4g} %"
            how += ", 95 % confidence"
        text = f"loses {f'{k:,}' if k else 'none'} of {n:,} streamlines ({how})"
        if not math.isnan(self.weight_share):
            share, error = self.weight_share, self.weight_standard_error
            text += f", {_percent(share, error)} of the weight"
        # Streamlines without points are nowhere.
        return text if math.isnan(self.margin_mm) else f"{text}, margin {self.margin_mm:.3g} mm"


def resection(source: Source, cavity: Region | Sequence[Region], *, name: str = "") -> Resection:
    """Tell what a bundle would lose to a cavity: its streamlines that enter it.

    Parameters
    ----------
    source : Tractogram, iterable of Tractogram or path-like
        RAS+ mm. Chunks are looked at as they come.
    cavity : Region or sequence of Region
        Whatever their roles; several are one cavity.
    name : str
        Of the bundle.

    Raises
    ------
    InvalidRegionError
        When there is no cavity, or something else is among the regions.
    TractographyError
        When a file cannot be read.

    Notes
    -----
    Tracking again with the cavity as an exclude region gives the streamlines that are kept, bit for
    bit, and none besides. It looks at steps and not between them, so that a streamline that only
    grazes the cavity between two steps is lost here and kept there.
    """
    regions = _regions(cavity)
    lost, weights = [np.zeros(0, bool)], []
    way = Nearest.none()
    for chunk in chunks_of(source):
        kept = chunk.select_numbers(regions=regions)
        gone = np.ones(len(chunk), bool)
        gone[kept] = False
        lost.append(gone)
        if len(chunk):  # of no streamlines there need be none
            weights.append(chunk.weights)
        for region in () if any(map(np.any, lost)) else regions:
            way = nearest(chunk, region, way)
    all_lost = np.concatenate(lost)
    known = [each for each in weights if each is not None]
    has_weights = bool(weights) and len(known) == len(weights)
    is_met = bool(all_lost.any()) or way.mm == 0
    return Resection(
        name,
        all_lost,
        np.concatenate(known) if has_weights else None,
        0.0 if is_met else way.mm if math.isfinite(way.mm) else math.nan,
        None if is_met or not math.isfinite(way.mm) else way.line_mm,
    )


def margin_map(
    source: Source, cavity: Region | Sequence[Region], grid: Grid | Fod
) -> NDArray[np.float32]:
    """Map how far a bundle is from a cavity: of each voxel that a streamline passes.

    Parameters
    ----------
    source, cavity
        As of :func:`resection`.
    grid : Grid or Fod

    Returns
    -------
    (x, y, z) float32
        Distance from the middle of the voxel to the cavity, mm, 0 inside; NaN where no streamline
        passes.

    Raises
    ------
    InvalidRegionError
        When there is no cavity, or something else is among the regions.
    TractographyError
        When a file cannot be read.
    """
    regions = _regions(cavity)
    counter = PassCounter(grid, np.int32)
    for chunk in chunks_of(source):
        counter.add(chunk)
    counter.warn_if_outside()
    passed = np.argwhere(counter.counts > 0)
    found = np.full(counter.grid.shape, np.nan, np.float32)
    if len(passed):
        middles = counter.grid.to_mm(passed.astype(np.float64))
        found[tuple(passed.T)] = np.min([distances_mm(middles, r) for r in regions], axis=0)
    return found


def _regions(cavity: Region | Sequence[Region]) -> list[Region]:
    """Return the regions of a cavity as what may not be entered."""
    regions = listed_regions([cavity] if isinstance(cavity, Region) else cavity)
    if not regions:
        raise InvalidRegionError("There is no cavity; give a sphere or a mask.")
    return [replace(region, role="exclude") for region in regions]


def _percent(share: float, error: float) -> str:
    """Return a fraction with its standard error in per cent, "13.2 ± 1.1 %"."""
    digits = max(1 - math.floor(math.log10(100 * error)), 0) if error else 0
    return f"{100 * share:.{digits}f} ± {100 * error:.{digits}f} %"
