"""Which streamlines pass regions: include by a rule, exclude, and where they end.

Called by :class:`~napari_tractography.streamlines.tractogram.Tractogram`. Regions act on the whole
path, also between points: a segment cannot slip through a sphere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameterError
from ..model.regions import Region, listed_regions
from ..model.roles import INCLUDE_RULES
from ..runtime.scalars import as_float, is_number
from .segments import blocks, meeting

if TYPE_CHECKING:
    from .spatial_index import SpatialIndex

LARGE = 1_000_000  # points, from which compiled loops are worth loading
SELECTING_ROLES = ("include", "exclude", "end")

Limits = tuple[float | None, float | None]


class Criteria(TypedDict, total=False):
    """What :meth:`Tractogram.select` goes by; limits count themselves, None is no limit."""

    regions: Sequence[Region]
    include_rule: str
    length_mm: Limits | None
    weight: Limits | None


def check_rule(include_rule: str) -> None:
    """Raise InvalidParameterError when there is no such rule."""
    if include_rule not in INCLUDE_RULES:
        raise InvalidParameterError(
            f"include_rule = {include_rule!r} is unknown; choose one of {', '.join(INCLUDE_RULES)}."
        )


def passing(
    points: NDArray[np.float32],
    offsets: NDArray[np.int64],
    regions: Sequence[Region],
    include_rule: str = "all",
    index: SpatialIndex | None = None,
) -> NDArray[np.bool_]:
    """Tell which streamlines pass regions as they shall: (n_streamlines,) bool.

    See :meth:`napari_tractography.streamlines.tractogram.Tractogram.select`; what one segment meets
    counts in either order. `index` is one of the streamlines, if there is any. Raises
    InvalidParameterError when the rule is unknown or a region has another role (resect selects
    nothing); InvalidRegionError when something else is among the regions.
    """
    check_rule(include_rule)
    regions = [region for region in listed_regions(regions) if region.role != "resect"]
    for region in regions:
        if region.role not in SELECTING_ROLES:
            raise InvalidParameterError(
                f"Region {region.name} has the role {region.role}, which only tracking knows; "
                f"give {', '.join(SELECTING_ROLES[:-1])} or {SELECTING_ROLES[-1]} to select "
                "streamlines that are there."
            )

    def touched(region: Region) -> NDArray[np.bool_]:
        if index is not None:
            return index.touched(region)
        return touching(points, offsets, region)

    kept = np.ones(len(offsets) - 1, bool)
    ends = [region for region in regions if region.role == "end"]
    if ends:
        kept &= _ending(points, offsets, ends)
    for region in regions:
        if region.role == "exclude":
            kept &= ~touched(region)
    includes = [region for region in regions if region.role == "include"]
    if includes:
        met = [touched(region) for region in includes]
        kept &= np.any(met, axis=0) if include_rule == "any" else np.all(met, axis=0)
        if include_rule == "ordered" and len(includes) > 1:
            candidates = np.flatnonzero(kept)
            kept[candidates] = _in_order(points, offsets, includes, candidates)
    return kept


def touching(
    points: NDArray[np.float32], offsets: NDArray[np.int64], region: Region
) -> NDArray[np.bool_]:
    """Tell which streamlines meet a region, by testing every segment."""
    found = np.zeros(len(offsets) - 1, bool)
    if len(points) >= LARGE and region.center_mm is not None:
        from .compiled_loops import are_ready  # on use: Numba takes a while to load
        from .spatial_index import all_segments_meet, may_compile

        if may_compile(points, offsets) and are_ready():
            all_segments_meet(points, offsets, region.center_mm, region.radius_mm, found)
            return found
    for block in blocks(offsets, np.arange(len(found))):
        found[block.streamlines[meeting(points, offsets, block, region)]] = True
    return found


def _ending(
    points: NDArray[np.float32], offsets: NDArray[np.int64], regions: Sequence[Region]
) -> NDArray[np.bool_]:
    """Tell which streamlines have both ends in any of the regions."""
    filled = np.flatnonzero(np.diff(offsets) > 0)
    both = np.zeros(len(offsets) - 1, bool)
    inside = [
        np.any([region.contains(points[at]) for region in regions], axis=0)
        for at in (offsets[filled], offsets[filled + 1] - 1)
    ]
    both[filled] = inside[0] & inside[1]
    return both


def _in_order(
    points: NDArray[np.float32],
    offsets: NDArray[np.int64],
    regions: Sequence[Region],
    candidates: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Tell which candidates, of rising numbers, meet regions in order, from either end."""
    hits: list[list[NDArray[np.int64]]] = [[] for _ in regions]
    for block in blocks(offsets, candidates):
        for found, region in zip(hits, regions, strict=True):
            found.append(block.numbers[meeting(points, offsets, block, region)])
    segments = [np.concatenate([np.empty(0, np.int64), *found]) for found in hits]
    firsts, stops = offsets[candidates], offsets[candidates + 1]
    forward = _chained(segments, firsts, stops)
    # Backwards, numbers fall: their negatives rise.
    backward = _chained([-found[::-1] for found in segments], 1 - stops, 1 - firsts)
    return forward | backward


def _chained(
    hits: Sequence[NDArray[np.int64]], at: NDArray[np.int64], stops: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Tell where, from `at` on and before `stops`, a hit of each region follows the one before."""
    met = np.ones(len(at), bool)
    for found in hits:
        padded = np.append(found, np.iinfo(np.int64).max)
        at = padded[np.searchsorted(found, at)]
        met &= at < stops
    return met


def check_criteria(criteria: Criteria) -> None:
    """Raise InvalidParameterError where there are others than those of :class:`Criteria`."""
    unknown = sorted(set(criteria) - set(Criteria.__annotations__))
    if unknown:
        raise InvalidParameterError(
            f"{unknown[0]} is no criterion; select by {', '.join(Criteria.__annotations__)}."
        )


def between(
    values: NDArray[np.float32] | None, limits: Limits | None, name: str
) -> NDArray[np.bool_]:
    """Tell which values, one a streamline, lie within limits.

    Raises InvalidParameterError when there are no values or the limits are no range.
    """
    low, high = _range((None, None) if limits is None else limits, name)
    if values is None:
        raise InvalidParameterError(
            f"{name} from {low:g} to {high:g} selects nothing, as these streamlines have no "
            f"{name}s; read them first."
        )
    if not low <= high:
        raise InvalidParameterError(
            f"{name} = ({low:g}, {high:g}) is no range; give the smaller number first."
        )
    return np.asarray((values >= low) & (values <= high))


def _range(limits: Any, name: str) -> tuple[float, float]:
    """Return the least and the most; infinite where it is open."""
    try:
        low, high = limits
    except (TypeError, ValueError):
        low = high = ""  # what is no number
    low, high = -np.inf if low is None else low, np.inf if high is None else high
    if not (is_number(low) and is_number(high)):
        raise InvalidParameterError(
            f"{name} = {limits!r} is no range; give the least and the most, such as (20, None) for "
            "20 and more."
        )
    return as_float(low), as_float(high)
