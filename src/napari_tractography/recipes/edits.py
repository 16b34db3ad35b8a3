"""Edits of a tractogram as data: what was kept, deleted, cut or filtered, one after the other.

Each maps a tractogram to another. Recipes and bundles keep them in a tuple; the panel undoes an
edit by leaving the last one out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidParameterError
from ..files.volume_files import load_grid
from ..maps.likeness import distances_to_bundle
from ..model.regions import Region
from ..runtime.scalars import as_float, as_point, is_number, shown
from ..streamlines.cutting import cut_beyond
from ..streamlines.passing import check_rule
from ..streamlines.tractogram import Tractogram
from .numbers import how_many, largest, numbers_of, text_of
from .sources import RegionSource
from .warp_sources import WarpFile, WarpSource

KINDS = ("keep", "delete", "cut", "outliers", "lengths", "weights", "regions", "warp")
BY_NUMBER = ("keep", "delete")  # such edits mean these streamlines and no others
INFINITE = None  # an upper limit that is not there: JSON knows no infinity


@dataclass(frozen=True, slots=True)
class Edit:
    """One operation on a tractogram; made by the methods named like its kind.

    Raises InvalidParameterError when the kind is unknown or a number makes no sense, such as a
    limit that is not finite.
    """

    kind: str  # one of KINDS
    # Of keep and delete: numbers of streamlines, as numbers.text_of writes them, in the tractogram
    # as the edits before have left it.
    numbers: str = ""
    # point_mm, normal: of cut: a point of the plane, RAS+ mm, and the direction of what is cut off.
    point_mm: tuple[float, ...] = ()
    normal: tuple[float, ...] = ()
    # Of lengths, in mm, and weights: limits, which count themselves; of outliers `most` is the
    # largest distance in mm that is kept. None is no limit.
    least: float = 0.0
    most: float | None = INFINITE
    # Of regions: what streamlines must pass, see Tractogram.select.
    regions: tuple[RegionSource, ...] = ()
    include_rule: str = "all"
    # Of warp: what leads into another space, and an image of that space, for the header of files.
    warp: WarpSource | None = None
    image: WarpFile | None = None
    _numbers: list[NDArray[np.int64]] = field(default_factory=list, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidParameterError(
                f"An edit of the kind {self.kind!r} is unknown; choose one of {', '.join(KINDS)}."
            )
        check_rule(self.include_rule)
        for limit in (self.least, self.most):
            if limit is not None and not math.isfinite(as_float(limit)):
                raise InvalidParameterError(
                    f"{self.kind} with the limit {shown(limit)} leaves nothing to choose; give a "
                    "finite number, or leave the limit out."
                )
        if self.most is not None and not self.least <= self.most:
            raise InvalidParameterError(
                f"{self.kind} from {self.least:g} to {self.most:g} is no range; give the smaller "
                "number first."
            )
        if self.kind == "outliers" and self.most is None:
            raise InvalidParameterError("outliers without a distance; give the largest, in mm.")
        if self.kind == "warp" and (self.warp is None or self.image is None):
            raise InvalidParameterError(
                "An edit of the kind warp lacks its warp, or an image of the space that it leads "
                "to; give both."
            )
        if self.kind == "cut":
            vectors = (*self.point_mm, *self.normal)
            is_plane = len(self.point_mm) == len(self.normal) == 3 and any(self.normal)
            if not (is_plane and all(map(math.isfinite, vectors))):
                raise InvalidParameterError(
                    f"A cut at {self.point_mm} along {self.normal} is no plane; give a point in mm "
                    "and a direction."
                )

    @classmethod
    def keep(cls, numbers: ArrayLike) -> Edit:
        """Keep the streamlines of these numbers and no others."""
        return cls("keep", text_of(numbers))

    @classmethod
    def delete(cls, numbers: ArrayLike) -> Edit:
        """Delete the streamlines of these numbers."""
        return cls("delete", text_of(numbers))

    @classmethod
    def cut(cls, point_mm: Sequence[float], normal: Sequence[float]) -> Edit:
        """Cut off what lies beyond a plane, on the side that `normal` points to."""
        vectors = [as_point(vector) for vector in (point_mm, normal)]
        if vectors[0] is None or vectors[1] is None:
            raise InvalidParameterError(
                f"A cut at {point_mm!r} along {normal!r} is no plane; give a point in mm and a "
                "direction."
            )
        point, direction = (tuple(vector.tolist()) for vector in vectors if vector is not None)
        return cls("cut", point_mm=point, normal=direction)

    @classmethod
    def outliers(cls, max_distance_mm: float) -> Edit:
        """Take off streamlines that lie farther than this from their bundle.

        See :func:`~napari_tractography.maps.likeness.distances_to_bundle`.
        """
        return cls("outliers", most=_limit(max_distance_mm))

    @classmethod
    def lengths(cls, least_mm: float = 0.0, most_mm: float | None = None) -> Edit:
        """Keep streamlines of such lengths; None is no upper limit."""
        return cls("lengths", least=_number(least_mm), most=_limit(most_mm))

    @classmethod
    def weights(cls, least: float = 0.0, most: float | None = None) -> Edit:
        """Keep streamlines of such weights; None is no upper limit."""
        return cls("weights", least=_number(least), most=_limit(most))

    @classmethod
    def passing(cls, regions: Sequence[Region | RegionSource], include_rule: str = "all") -> Edit:
        """Keep streamlines that pass regions; painted masks are kept in the edit itself."""
        sources = tuple(r if isinstance(r, RegionSource) else RegionSource.of(r) for r in regions)
        return cls("regions", regions=sources, include_rule=include_rule)

    @classmethod
    def warped(cls, warp: WarpSource, image: WarpFile) -> Edit:
        """Take streamlines into the space of an image, see :meth:`.Tractogram.warped`."""
        return cls("warp", warp=warp, image=image)

    def without_paths(self) -> Edit:
        """Return what names the files of a warp by their SHA-256 alone, where that is known."""
        if self.warp is None or self.image is None:
            return self
        return replace(self, warp=self.warp.without_paths(), image=self.image.without_path())

    @property
    def text(self) -> str:
        """What it does, in a few words."""
        upper = "" if self.most is None else f" to {self.most:g}"
        words = {
            "keep": f"keep {how_many(self.numbers):,} streamlines",
            "delete": f"delete {how_many(self.numbers):,} streamlines",
            "cut": "cut beyond a plane",
            "outliers": f"outliers beyond {self.most or 0:g} mm off",
            "lengths": f"lengths from {self.least:g}{upper} mm",
            "weights": f"weights from {self.least:g}{upper}",
            "regions": f"{len(self.regions)} regions, {self.include_rule}",
            "warp": f"warp by {self.warp.name if self.warp else ''}",
        }
        return words[self.kind]

    @property
    def chosen(self) -> NDArray[np.int64]:
        """(n,) int64, rising: the numbers of keep and delete."""
        if not self._numbers:
            self._numbers.append(numbers_of(self.numbers))
        return self._numbers[0]

    def apply(self, tractogram: Tractogram, folder: Path | None = None) -> Tractogram:
        """Return the tractogram after the edit.

        Files of regions that are no longer at their path are sought in a folder. Raises
        InvalidParameterError when a number is beyond the last streamline, or weights are wanted and
        absent; TractographyError when a file of a region cannot be read.
        """
        if self.kind == "cut":
            return cut_beyond(tractogram, self.point_mm, self.normal)
        if self.warp is not None and self.image is not None:
            image, _ = self.image.found(folder, hashed=False)
            return tractogram.warped(self.warp.load(folder), grid=load_grid(image))
        numbers = self.kept(tractogram, folder)
        return tractogram if len(numbers) == len(tractogram) else tractogram[numbers]

    def kept(self, tractogram: Tractogram, folder: Path | None = None) -> NDArray[np.int64]:
        """Return the numbers of the streamlines that stay, rising; see :meth:`apply`.

        Of all edits but cut and warp, which leave none as it is.
        """
        limits = (self.least, math.inf if self.most is None else self.most)
        if self.kind == "lengths":
            return tractogram.select_numbers(length_mm=limits)
        if self.kind == "weights":
            return tractogram.select_numbers(weight=limits)
        if self.kind == "regions":
            regions = [source.make(folder) for source in self.regions]
            return tractogram.select_numbers(regions=regions, include_rule=self.include_rule)
        if self.kind == "outliers":
            return np.flatnonzero(distances_to_bundle(tractogram) <= limits[1])
        last = largest(self.numbers)  # before room is made for all of them
        if last >= len(tractogram):
            raise InvalidParameterError(
                f"The edit names streamline {last}, but there are {len(tractogram)}; it belongs to "
                "other streamlines."
            )
        if self.kind == "keep":
            return self.chosen
        return np.delete(np.arange(len(tractogram)), self.chosen)


def edited(tractogram: Tractogram, edits: Sequence[Edit], folder: Path | None = None) -> Tractogram:
    """Return a tractogram after edits, one after the other; see :meth:`Edit.apply`."""
    for edit in edits:
        tractogram = edit.apply(tractogram, folder)
    return tractogram


def _limit(most: float | None) -> float | None:
    return None if most is None or most == math.inf else _number(most)


def _number(value: float) -> float:
    """Return a number as Python's; what is none is left to the checks of the edit."""
    return as_float(value) if is_number(value) else value
