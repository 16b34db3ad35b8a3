"""The points layer that shows the seeds of the active bundle, and takes what is done to them.

Its features are the radius and the number of streamlines that a seed has of its own; NaN stands
for the value that all seeds have in common. What napari's tools, the mouse or a script change in
the layer is read off it and emitted by :attr:`SeedLayer.taken`; the session makes an act of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from napari.layers import Layer, Points
from napari.layers.base import ActionType
from numpy.typing import NDArray
from psygnal import Signal

from ..document import PlacedSeeds
from ..flag import Flag
from ..layers.on_volume import SeedPoints
from ..listening import Listening
from ..space.display import AXIS_LABELS, DisplaySpace
from ..space.extent import sliders_kept
from ..space.layer_list import insert_beside, listed_once, remove_at_once
from .wanted import OWN, no_values

SEEDS_KEY = "seeds_in"  # layer.metadata[SEEDS_KEY] is the display space of a layer of seeds
SEEDS_NAMED = 5  # of those outside
TOLERANCE_MM = 1e-3  # what another display space rounds
SEED_VOXELS = 1.5  # diameter of a seed on the screen, at least,
SEED_FRACTION = 1 / 60  # and at least this fraction of the longest side of the volume
NO_SEEDS = PlacedSeeds(own=no_values(0))


class SeedLayer:
    """The points layer of the seeds of one viewer, made when the first seed is placed."""

    taken = Signal(object)  # PlacedSeeds: something was done to the layer
    layer_changed = Signal()  # another layer, or none
    points_added = Signal(list)  # numbers of the seeds that the add tool of the layer placed

    def __init__(self, viewer: Any) -> None:
        self.viewer = viewer
        self.layer: Points | None = None
        self._listening = Listening()  # to that layer
        self.space = DisplaySpace.identity()  # where the seeds are shown; `show_in` changes it
        self.shown = NO_SEEDS  # what the layer holds
        self._is_adding = Flag()  # whether a seed that appears is placed by this object
        self._is_showing = Flag()  # whether the layer is being given what it is to show
        for layer in viewer.layers:  # left by a panel that was closed
            space = layer.metadata.get(SEEDS_KEY)
            if isinstance(layer, Points) and isinstance(space, DisplaySpace):
                self.space = space
                self._take(layer)

    def open(self) -> None:
        """Listen to the layer, after :meth:`close`, unless it was removed meanwhile."""
        if self.layer is not None and self.layer not in self.viewer.layers:
            self.forget(self.layer)
        self._listening.open()

    def close(self) -> None:
        """Stop listening to the layer, in which the seeds stay."""
        self._listening.close()

    def __len__(self) -> int:
        return len(self.shown)

    @property
    def positions_mm(self) -> NDArray[np.float64]:
        """The seeds as (n, 3) RAS+ mm."""
        return self.shown.positions_mm

    @property
    def own(self) -> dict[str, NDArray[np.float64]]:
        """{name: (n,) float64}: values that seeds have of their own; NaN for the common one."""
        return {name: values.copy() for name, values in self.shown.own.items()}

    # -- changing ------------------------------------------------------------------------------

    def add(self, positions_zyx: NDArray[np.float64]) -> None:
        """Add seeds at (n, 3) display positions, (z, y, x) mm."""
        layer = self.ensure_layer()
        if not layer.visible:  # a seed that lands unseen is missed, or placed twice
            layer.visible = True
        layer.feature_defaults = no_values(1)
        with self._is_adding:
            layer.add((positions_zyx - layer.translate) / layer.scale)
        layer.selected_data = set()

    def remove(self, indices: Iterable[int]) -> None:
        if self.layer is not None:
            self.layer.selected_data = set(indices)
            self.layer.remove_selected()

    def set_own(self, indices: Iterable[int], name: str, value: float | None) -> None:
        """Give seeds a radius or a number of their own; None for what is common to all.

        Raises InvalidParameterError when the value is out of range.
        """
        own = self.own
        own[name][list(indices)] = np.nan if value is None else float(OWN[name].check(value))
        self.taken.emit(PlacedSeeds(self.positions_mm, own))

    # -- showing -------------------------------------------------------------------------------

    def show(self, seeds: PlacedSeeds) -> bool:
        """Show seeds; return whether the layer had others."""
        if seeds is self.shown:
            return False
        if self.layer is not None or len(seeds):
            layer = self.ensure_layer()
            with self._is_showing, listed_once(self.viewer, layer):
                layer.selected_data = set()
                positions = self.space.shown_at(seeds.positions_mm)
                with sliders_kept(self.viewer, layer):
                    layer.data = (positions - layer.translate) / layer.scale
                if _have_own(self.shown) or _have_own(seeds):
                    layer.features = {**no_values(len(seeds)), **seeds.own}
                    layer.feature_defaults = no_values(1)  # those of the last seed, otherwise
                if (layer.size != seed_size_voxels(self.space)).any():  # which would draw it again
                    layer.size = seed_size_voxels(self.space)
        self.shown = seeds
        return True

    def show_in(self, space: DisplaySpace) -> None:
        """Show the seeds, which stay where they are in RAS+ mm, in another space."""
        self.space = space
        if self.layer is not None:
            with self._is_showing:
                self._position(self.layer, self.shown.positions_mm)

    # -- the layer -----------------------------------------------------------------------------

    def ensure_layer(self) -> Points:
        """Return the layer of seeds, a new one on top when there is none.

        Its data are voxels of the volume on the screen: a seed shows in the slice it lies in.
        """
        if self.layer is None:
            layer = SeedPoints(
                np.empty((0, 3)),
                ndim=3,
                name="Seeds",
                features=no_values(0),
                face_color="#ffd166",
                border_color="black",
                border_width=0.1,
                blending="translucent_no_depth",  # in front of streamlines in 3-D, to be grabbed
                axis_labels=AXIS_LABELS,
            )
            self._position(layer, np.empty((0, 3)))
            layer.current_size = seed_size_voxels(self.space)
            insert_beside(self.viewer, layer)
            self._take(layer)
        assert self.layer is not None
        return self.layer

    def forget(self, layer: Layer) -> bool:
        """Drop the layer if it is that of the seeds; return whether it was."""
        if self.layer is None or layer is not self.layer:
            return False
        self._listening.switch()
        self.layer, self.shown = None, NO_SEEDS
        self.layer_changed.emit()
        return True

    def take_out(self) -> None:
        """Do without a layer, unless its add tool is in hand."""
        layer = self.layer
        if layer is not None and layer.mode != "add":
            self.forget(layer)
            remove_at_once(self.viewer, layer)

    def read(self) -> PlacedSeeds:
        layer = self.layer
        if layer is None or not len(layer.data):
            return NO_SEEDS
        own = no_values(len(layer.data))
        for name in OWN:
            if name in layer.features:
                own[name][:] = layer.features[name].to_numpy(dtype=float, na_value=np.nan)
        voxels = np.asarray(layer.data, dtype=float).reshape(-1, 3)
        return PlacedSeeds(self.space.positions_at(voxels * layer.scale + layer.translate), own)

    def holds(self, seeds: PlacedSeeds) -> bool:
        """Return whether the layer holds seeds, but for what layers round."""
        return _are_same(self.read(), seeds, TOLERANCE_MM)

    def _take(self, layer: Points) -> None:
        self.layer = layer
        self.shown = self.read()
        self._listening.switch(
            (layer.events.data, self._on_data), (layer.events.features, self._on_features)
        )
        self.layer_changed.emit()

    def _position(self, layer: Points, seeds_mm: NDArray[np.float64]) -> None:
        layer.metadata[SEEDS_KEY] = layer.space = self.space
        layer.scale, layer.translate = np.abs(self.space.scale), self.space.translate
        if len(layer.data):
            positions = self.space.shown_at(seeds_mm)
            layer.data = (positions - layer.translate) / layer.scale
            layer.size = seed_size_voxels(self.space)

    def _on_data(self, event: Any) -> None:
        is_done = event.action in (ActionType.ADDED, ActionType.REMOVED, ActionType.CHANGED)
        if self._is_showing or not is_done:  # napari emits each action twice, before and after
            return
        self._emit_changes()
        if event.action == ActionType.ADDED and not self._is_adding:
            n = len(event.value)
            self.points_added.emit([int(index) % n for index in event.data_indices])

    def _on_features(self, _event: Any) -> None:
        if self._is_showing or self.layer is None:
            return
        if len(self.layer.data) == len(self.shown):  # else points are about to come or to go
            self._emit_changes()

    def _emit_changes(self) -> None:
        """Tell what the layer holds now, which it need not be given again, if it is different."""
        now = self.read()
        if not _are_same(now, self.shown):
            self.shown = now
            self.taken.emit(now)


def _are_same(some: PlacedSeeds, others: PlacedSeeds, tolerance_mm: float = 0.0) -> bool:
    """Return whether seeds lie at the same positions with the same values of their own."""
    if len(some) != len(others):
        return False
    if (np.abs(some.positions_mm - others.positions_mm) > tolerance_mm).any():
        return False
    one, other = ({**no_values(len(seeds)), **seeds.own} for seeds in (some, others))
    return all(np.array_equal(one[name], other[name], equal_nan=True) for name in OWN)


def _have_own(seeds: PlacedSeeds) -> bool:
    """Return whether any seed has a value of its own."""
    return not all(np.isnan(values).all() for values in seeds.own.values())


def outside(numbers: list[int]) -> str:
    """Return which seeds lie where there is nothing to track, or ""."""
    if not numbers:
        return ""
    if len(numbers) == 1:
        return f"Seed {numbers[0]} lies outside, where there is no FOD."
    named = ", ".join(map(str, numbers[:SEEDS_NAMED]))
    more = f" and {len(numbers) - SEEDS_NAMED:,} others" if len(numbers) > SEEDS_NAMED else ""
    return f"Seeds {named}{more} lie outside, where there is no FOD."


def seed_size_voxels(space: DisplaySpace) -> float:
    """Return the diameter of a seed on the screen, big enough to be grabbed, in voxels along x."""
    if space.grid is None:
        return 4.0
    sizes = space.per_mm * space.grid.voxel_sizes_mm
    longest = float((sizes * space.grid.shape).max())
    return max(SEED_VOXELS * float(sizes.min()), SEED_FRACTION * longest) / abs(space.scale[-1])
