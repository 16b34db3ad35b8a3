"""One bundle of a window: its streamlines, and what the panel holds for it.

The session shows the state of the bundle that is active and changes it; the others rest, with their
seeds and regions out of the viewer. Made by :mod:`.listing`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, overload

import numpy as np
from napari.layers import Layer, Points
from numpy.typing import NDArray

from ....geometry.grid import Grid
from ....model.regions import Region
from ....model.seeding import SeedingParameters
from ....recipes.bundle import Source
from ....recipes.tractogram_sources import WeightsSource
from ....streamlines.tractogram import Tractogram
from ....tracking.report import Report
from ...layers.region_entries import Entry
from ...streamlines.layer import Streamlines
from ..requests import Request

BUNDLE_KEY = "bundle"  # layer.metadata[BUNDLE_KEY]: the state whose streamlines a layer shows
# Told apart by people with a red-green weakness, on black and on white (Okabe and Ito, 2008).
COLOURS = ("#ffc747", "#56b4e9", "#e0609a", "#2fb88a", "#e8743b", "#8f8df0", "#b5d334", "#4d8fd1")

NO_LIMITS = (0.0, math.inf)

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """Seeds and regions as data: what a bundle is filled with when it is first shown.

    Attributes
    ----------
    seeds_mm : (n, 3) float64
        RAS+ mm.
    own : dict of str to (n,) float64
        Radius and number that seeds have of their own, see
        :attr:`~napari_tractography.plugin.session.seed_layer.SeedLayer.own`.
    regions : tuple of Region
    ends : tuple of 2 int or None
        The numbers of those that are tracked between; None for the first two.
    """

    seeds_mm: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 3)))
    own: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    regions: tuple[Region, ...] = ()
    ends: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Arriving:
    """Of which run streamlines are on the way.

    Attributes
    ----------
    request : Request
    report : Report
        What it is tracked on, as far as it is.
    """

    request: Request
    report: Report


@dataclass(slots=True, eq=False)
class BundleState:
    """A bundle in the window.

    Attributes
    ----------
    name : str
    colour : str
        "#rrggbb", of its row in the list, and of its streamlines where they have one colour.
    path : str
        The file that its streamlines were opened from; "" for a bundle that is tracked.
    streamlines_layer : Streamlines or None
    tractogram : Tractogram or None
        The last result, complete or not, as it was edited by hand.
    result_request : Request or None
        What gave :attr:`tractogram`, before it was edited.
    result_grid : Grid or None
        The grid of the FOD in which :attr:`tractogram` was tracked.
    seconds : float
        How long the last result took.
    report : Report
        What the last result was tracked on, and where the time went.
    arriving : Arriving or None
        The run whose beginning the layer shows in place of the last result; the result stays what
        it was until that run ends, is given up, or what is shown of it is edited.
    text : str
        What the panel says of the result; "" for no more than what can be seen of it.
    look : dict
        Values of the Display section.
    seeds_layer, entries, rule
        Its seeds and regions while it rests; while it is active the session has them.
    by_hand, seeding, fod_layer, mask_layer, seed_mask_layer, tissue_layer, between
        What else it is tracked with, while it rests.
    given : Given or None
        What seeds and regions are made of when it is first shown.
    source : Recipe or TractogramFile, optional
        What a project says of it, as long as it was neither tracked nor shown in the panel.
    filtered_by : tuple
        Of streamlines that were opened: the regions, their rule and the lengths in mm that filter
        out what is shown.
    weights : WeightsSource or None
        Where the weights of its streamlines come from.
    min_weight : float
        Streamlines of less are not shown.
    wanted : Request or None
        What would be tracked, while it rests.
    """

    name: str
    colour: str = COLOURS[0]
    path: str = ""
    streamlines_layer: Streamlines | None = None
    tractogram: Tractogram | None = None
    result_request: Request | None = None
    result_grid: Grid | None = None
    seconds: float = 0.0
    report: Report = field(default_factory=Report)
    arriving: Arriving | None = None
    text: str = ""
    look: dict[str, Any] = field(default_factory=dict)
    seeds_layer: Points | None = None
    entries: list[Entry] = field(default_factory=list)
    rule: str = "all"
    by_hand: dict[str, Any] = field(default_factory=dict)
    seeding: SeedingParameters = field(default_factory=SeedingParameters)
    fod_layer: Layer | None = None
    mask_layer: Layer | None = None
    seed_mask_layer: Layer | None = None
    tissue_layer: Layer | None = None
    between: tuple[Entry, Entry] | None = None
    given: Given | None = None
    source: Source | None = None
    filtered_by: tuple[tuple[Region, ...], str, tuple[float, float]] = ((), "all", NO_LIMITS)
    weights: WeightsSource | None = None
    min_weight: float = 0.0
    wanted: Request | None = None

    @property
    def is_opened(self) -> bool:
        """Whether its streamlines came from elsewhere: there is nothing to track."""
        return bool(self.path)

    @property
    def is_visible(self) -> bool:
        """Whether its streamlines are shown, when it has any."""
        return self.streamlines_layer is None or bool(self.streamlines_layer.visible)


@dataclass(frozen=True, slots=True, eq=False)
class Left:
    """What a panel that was closed leaves to the next one of its viewer.

    Attributes
    ----------
    bundles : list of BundleState
    active : BundleState
        Whose seeds and regions are in the viewer.
    """

    bundles: list[BundleState]
    active: BundleState


class HasBundle(Protocol):
    """What :class:`OfActive` asks of the session."""

    bundle: BundleState


class OfActive(Generic[Value]):
    """An attribute of the session that is the active bundle's own, under the same name."""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, session: None, owner: type) -> OfActive[Value]: ...
    @overload
    def __get__(self, session: HasBundle, owner: type) -> Value: ...
    def __get__(self, session: HasBundle | None, owner: type) -> OfActive[Value] | Value:
        if session is None:
            return self
        value: Value = getattr(session.bundle, self._name)
        return value

    def __set__(self, session: HasBundle, value: Value) -> None:
        setattr(session.bundle, self._name, value)


def free_name(taken: set[str], wanted: str = "") -> str:
    """Return a name that is not taken: the wanted one, with a number where it is."""
    if wanted and wanted not in taken:
        return wanted
    stem = re.sub(r" \d+$", "", wanted) if wanted else "Bundle"
    number = 2 if wanted else 1
    while f"{stem} {number}" in taken:
        number += 1
    return f"{stem} {number}"
