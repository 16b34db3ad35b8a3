"""Along-tract profiles: the mean of a scalar map at places along a bundle, and its spread.

Yeatman et al., Tract profiles of white matter properties, PLoS ONE 7, 2012. Streamlines are
oriented alike, resampled to as many points each, and averaged point by point, as DIPY's
``afq_profile`` does; DIPY resamples and finds the centroid. Called by the command, the plugin and
scripts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from dipy.segment.clustering import QuickBundles
from dipy.segment.featurespeed import ResampleFeature
from dipy.segment.metricspeed import AveragePointwiseEuclideanMetric
from dipy.tracking.streamline import set_number_of_points
from nibabel.streamlines import ArraySequence
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidParameterError, InvalidTractogramError
from ..geometry.polylines import lengths_mm
from ..runtime.scalars import as_whole
from ..streamlines.tractogram import Tractogram
from .chunks import Source, blocks_of, check_read_again
from .scalar_maps import ScalarMap

N_POINTS = 100
LEAST_POINTS = 2
MAX_SAMPLE = 500  # streamlines of which the centroid is made
N_ORIENTED = 12  # points by which a streamline is compared with the standard, as in DIPY
WEIGHTS = ("equal", "gaussian")
ENDS = (("left", "right"), ("posterior", "anterior"), ("inferior", "superior"))


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """A scalar map along a bundle."""

    # name, scalar: of the bundle and of the map.
    name: str
    scalar: str
    # mean, sd: (n,), over the streamlines at each of n places, evenly along each streamline, NaN
    # where there is no value.
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    counts: NDArray[np.int64]  # (n,): how many streamlines have a value there
    centroid_mm: NDArray[np.float64]  # (n, 3): mean place of the streamlines, RAS+
    # Along which what the streamlines were turned by has its ends farthest apart: 0 is x, from left
    # to right.
    axis: int

    @property
    def ends(self) -> tuple[str, str]:
        """Where it begins and ends, such as ("inferior", "superior")."""
        across = self.centroid_mm[-1] - self.centroid_mm[0]
        first, last = ENDS[self.axis]
        return (first, last) if across[self.axis] >= 0 else (last, first)


def profile(
    source: Source,
    scalar: Any,
    n: int = N_POINTS,
    *,
    weights: str = "equal",
    orient_by: ArrayLike | None = None,
    name: str = "",
) -> Profile:
    """Return the mean and the spread of a scalar map along a bundle.

    Parameters
    ----------
    source : Tractogram, iterable of Tractogram or path-like
        RAS+ mm; streamlines without a length are left out.
    scalar : ScalarMap, path-like, or (values, affine)
        A point outside, or next to a NaN or an infinite value, does not count.
    n : int
        How many places.
    weights : str
        "equal", or "gaussian": a streamline counts at each place by the inverse of its Mahalanobis
        distance from the mean place, as DIPY's ``gaussian_weights``. That takes the streamlines
        three times, so an iterator will not do.
    orient_by : (k, 3) array_like, optional
        A streamline along which all others are turned, RAS+ mm. By default the centroid of the
        bundle (of up to 500 of its first streamlines, by DIPY's QuickBundles), turned so that it
        ends farther right, anterior or superior, along whichever axis its ends lie farthest apart.
    name : str
        Of the bundle.

    Raises
    ------
    InvalidParameterError
        When `n` is less than 2, the weights are unknown, or an iterator is to be read thrice.
    InvalidTractogramError
        When there are no streamlines with a length.
    FileError
        When a file cannot be read.
    """
    n_places = as_whole(n) or 0
    if n_places < LEAST_POINTS:
        raise InvalidParameterError(
            f"n = {n!r} is no number of places; give a whole number from {LEAST_POINTS}."
        )
    n = n_places  # 100.0 as well
    if weights not in WEIGHTS:
        raise InvalidParameterError(
            f"weights = {weights!r} is unknown; choose one of {', '.join(WEIGHTS)}."
        )
    values = ScalarMap.of(scalar)
    by_position = None
    lines = _Oriented(source, n, orient_by, name)
    if weights == "gaussian":
        check_read_again(source, "weights='gaussian'")
        by_position = _PositionWeights(lines)
    sums, places = _Sums(n), _Sums(n * 3)
    for block in lines:
        here = values.at(block.reshape(-1, 3)).reshape(len(block), n)
        sums.add(here, None if by_position is None else by_position.weights(block))
        places.add(block.reshape(len(block), -1).astype(np.float64))
    centroid = places.mean.reshape(n, 3)
    return Profile(name, values.name, sums.mean, sums.sd, sums.counts, centroid, lines.axis)


def resampled(tractogram: Tractogram, n: int) -> NDArray[np.float32]:
    """Return `n` points of each streamline, evenly along it, by DIPY: (n_streamlines, n, 3)
    float32.

    Without streamlines that have no length: of fewer than two points, or all at one place.
    """
    lines = tractogram[lengths_mm(tractogram.points, tractogram.offsets) > 0]
    if not len(lines):
        return np.empty((0, n, 3), np.float32)
    megabytes = lines.points.nbytes / 2**20 + 1
    even = set_number_of_points(ArraySequence(iter(lines), buffer_size=megabytes), nb_points=n)
    return np.asarray(even.get_data(), dtype=np.float32).reshape(len(lines), n, 3)


def standard_of(tractogram: Tractogram, n: int) -> NDArray[np.float32]:
    """Return the centroid of up to :data:`MAX_SAMPLE` streamlines, (n, 3) float32 RAS+ mm.

    It ends farther right, anterior or superior than it begins, by the axis along which its ends lie
    farthest apart.
    """
    chosen = np.linspace(0, len(tractogram) - 1, min(len(tractogram), MAX_SAMPLE)).round()
    lines = resampled(tractogram[np.unique(chosen.astype(np.int64))], n)
    metric = AveragePointwiseEuclideanMetric(ResampleFeature(nb_points=n))
    (cluster,) = QuickBundles(threshold=np.inf, metric=metric).cluster(list(lines))
    centroid = np.asarray(cluster.centroid, dtype=np.float32)
    axis = _axis_of(centroid)
    return centroid if centroid[-1, axis] >= centroid[0, axis] else centroid[::-1]


def _axis_of(line: NDArray[np.float32]) -> int:
    """Return the axis along which the ends of a line lie farthest apart."""
    return int(np.abs(line[-1] - line[0]).argmax())


class _Oriented:
    """The streamlines of a source, resampled and turned alike, (k, n, 3) float32 at a time."""

    def __init__(self, source: Source, n: int, orient_by: ArrayLike | None, name: str) -> None:
        self._source, self._n, self._name = source, n, name
        self._standard: NDArray[np.float32] | None = None
        if orient_by is not None:
            self._standard = resampled(Tractogram.from_streamlines([orient_by]), N_ORIENTED)
            if not len(self._standard):
                raise InvalidParameterError("orient_by has no length; give a streamline.")

    @property
    def axis(self) -> int:
        """Axis along which the ends of the standard lie farthest apart."""
        assert self._standard is not None
        return _axis_of(self._standard[0])

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        is_empty = True
        for block in blocks_of(self._source):
            usable = block[lengths_mm(block.points, block.offsets) > 0]
            if not len(usable):
                continue
            is_empty = False
            if self._standard is None:
                # Of as many points whatever `n` is, so that all profiles begin at one end.
                standard = standard_of(usable, N_ORIENTED)
                self._standard = resampled(Tractogram.from_streamlines([standard]), N_ORIENTED)
            coarse = resampled(usable, N_ORIENTED)
            along = np.linalg.norm(coarse - self._standard, axis=2).sum(axis=1)
            against = np.linalg.norm(coarse[:, ::-1] - self._standard, axis=2).sum(axis=1)
            lines = resampled(usable, self._n)
            turned = along > against
            lines[turned] = lines[turned, ::-1]
            yield lines
        if is_empty:
            raise InvalidTractogramError(
                f"{self._name or 'The bundle'} has no streamline with a length; there is no "
                "profile."
            )


class _Sums:
    """Mean and variance of columns, block by block (Chan, Golub & LeVeque, COMPSTAT 1982)."""

    def __init__(self, n: int) -> None:
        self.counts = np.zeros(n, np.int64)
        self._weight, self._mean, self._square = np.zeros(n), np.zeros(n), np.zeros(n)

    def add(self, values: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> None:
        """Add (k, n) values, NaN for none."""
        known = ~np.isnan(values)
        worth = known.astype(np.float64) if weights is None else np.where(known, weights, 0.0)
        filled = np.where(known, values, 0.0)
        weight = worth.sum(axis=0)
        total = self._weight + weight
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(weight > 0, (worth * filled).sum(axis=0) / weight, 0.0)
            square = (worth * (filled - mean) ** 2).sum(axis=0)
            fraction = np.where(total > 0, weight / total, 0.0)
        difference = mean - self._mean
        self._mean = self._mean + difference * fraction
        self._square = self._square + square + difference**2 * self._weight * fraction
        self._weight = total
        self.counts = self.counts + known.sum(axis=0)

    @property
    def mean(self) -> NDArray[np.float64]:
        """(n,) float64; NaN without values."""
        return np.where(self.counts > 0, self._mean, np.nan)

    @property
    def sd(self) -> NDArray[np.float64]:
        """(n,) float64: over the values themselves, not an estimate for others."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.counts > 0, np.sqrt(self._square / self._weight), np.nan)


class _PositionWeights:
    """Weights of streamlines at each place, by their distance from the others.

    As DIPY's ``gaussian_weights``, which takes the upper triangle of the covariance for the matrix.
    They are not normalised, which makes no difference to a mean.
    """

    def __init__(self, lines: _Oriented) -> None:
        total, n_lines = 0.0, 0
        for block in lines:
            total = total + block.astype(np.float64).sum(axis=0)
            n_lines += len(block)
        self._mean = np.asarray(total / max(n_lines, 1))
        products = 0.0
        for block in lines:
            off = block - self._mean
            products = products + np.einsum("knx,kny->nxy", off, off)
        self._covariance = np.triu(np.asarray(products / max(n_lines, 1)))
        self._is_alone = n_lines <= 1

    def weights(self, block: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the (k, n) weights of (k, n, 3) points."""
        found = np.ones(block.shape[:2])
        # Where all streamlines have one place there is no distance, and each counts the same.
        spread = ~np.isclose(self._covariance, 0).all(axis=(1, 2))
        if self._is_alone or not spread.any():
            return found
        try:
            inverse = np.linalg.inv(self._covariance[spread])
        except np.linalg.LinAlgError:
            raise InvalidTractogramError(
                "The streamlines lie in a plane, where weights='gaussian' has no meaning; take "
                "weights='equal'."
            ) from None
        off = (block - self._mean)[:, spread]
        square = np.einsum("knx,nxy,kny->kn", off, inverse, off)
        found[:, spread] = 1 / np.sqrt(np.maximum(square, np.finfo(np.float64).tiny))
        return found
