"""What a bundle wants tracked: where its streamlines start, and between which regions.

Called by the session, which freezes it all as a :class:`.requests.Request`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidSeedsError
from ...geometry.grid import Grid
from ...model.regions import Region
from ...model.seeding_parameters import EVERY_VOXEL, SeedingParameters, seeding_specs
from ...model.tissues import Tissues
from ..document import BundleState, PlacedSeeds, RegionState
from ..run_seeding import (
    SeedBetween,
    SeedFod,
    Seeding,
    SeedInterface,
    SeedMask,
    SeedSpheres,
    SeedVoxels,
)

OWN_SPECS = tuple(spec for spec in seeding_specs() if spec.name in ("radius_mm", "n_per_seed"))
OWN = {spec.name: spec for spec in OWN_SPECS}  # what a seed may have of its own


def frozen_seeding(
    state: BundleState,
    regions_of: Callable[[RegionState], list[Region]],
    mask: Callable[[], tuple[NDArray[Any], Grid]] | None,
    tissues: Tissues | None,
) -> Seeding:
    """Return where the streamlines of a bundle are to start.

    `regions_of` makes the regions of a state; `mask` returns the mask to start in, and its grid.
    Raises TractographyError when there are no seeds, no mask, no tissue image or no two regions, or
    a seed has an impossible value.
    """
    source, n = state.seeding.source, state.seeding.n_total
    if source == "placed seeds":
        return seed_spheres(state.seeds, state.seeding)
    if source == "whole FOD":
        return SeedFod(n)
    if source == "grey-white interface":
        if tissues is None:
            raise InvalidSeedsError(
                "There is no tissue image, and so no interface of grey and white matter; choose "
                "one in Tissues, or start from something else."
            )
        return SeedInterface(tissues, n)
    if source == "between regions":
        ends = ends_of(state)
        if ends is None:
            raise InvalidSeedsError(
                "There are no two regions to track between; add them in Regions, or start from "
                "something else."
            )
        for end in ends:
            if not regions_of(end):
                raise InvalidSeedsError(
                    f"The region {end.name} is empty; paint it, or choose another."
                )
        one, other = (regions_of(end)[0] for end in ends)
        return SeedBetween(one, other, n)
    if mask is None:
        raise InvalidSeedsError(
            "There is no mask to start from; choose one in Seeds, or start from something else."
        )
    voxels, grid = mask()
    if source == EVERY_VOXEL:
        each = state.seeding.n_per_voxel
        return SeedVoxels.of(voxels.copy(), grid, each, state.seeding.drawn_by)
    return SeedMask(voxels.copy(), grid, n, state.seeding.drawn_by)


def seed_spheres(seeds: PlacedSeeds, seeding: SeedingParameters) -> SeedSpheres:
    """Return spheres around placed seeds.

    Raises InvalidSeedsError when there are no seeds; InvalidParameterError when a seed has a value
    that is out of range.
    """
    if not len(seeds):
        raise InvalidSeedsError(
            "There are no seeds; hold Shift and click where fibres should start."
        )
    values = {**no_values(len(seeds)), **{n: v.copy() for n, v in seeds.own.items()}}
    for name, spec in OWN.items():
        is_common = np.isnan(values[name])
        for value in np.unique(values[name][~is_common]).tolist():
            spec.check(value)
        values[name][is_common] = getattr(seeding, name)
    return SeedSpheres(
        seeds.positions_mm, values["radius_mm"], values["n_per_seed"].astype(np.int64)
    )


def no_values(n: int) -> dict[str, NDArray[np.float64]]:
    """Return columns in which no seed has a value of its own."""
    return {name: np.full(n, np.nan) for name in OWN}


def ends_of(state: BundleState) -> tuple[RegionState, RegionState] | None:
    """Return the regions to track between: those that a person chose, else the first two."""
    one, other = (state.region(number) for number in state.between or (-1, -1))
    if one is not None and other is not None:
        return one, other
    return state.steering[:2] if len(state.steering) > 1 else None  # type: ignore[return-value]


def tracked_between(state: BundleState) -> tuple[RegionState, ...]:
    """Return the two regions that a bundle starts in in turn, or none."""
    return (ends_of(state) or ()) if state.seeding.source == "between regions" else ()
