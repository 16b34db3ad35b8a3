"""The points layer of the seeds that a person placed.

The layer is the only place where seeds are stored. Its features are the radius and the number of
streamlines that a seed has of its own; NaN stands for the value that all seeds have in common.
Used by the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from napari.layers import Layer, Points
from napari.layers.base import ActionType
from numpy.typing import NDArray
from psygnal import Signal

from ...errors import InvalidSeedsError
from ...model.seeding import SeedingParameters, seeding_specs
from ..layers.on_volume import SeedPoints
from ..space.display import AXIS_LABELS, DisplaySpace
from ..space.layer_list import insert_beside
from .seeding import SeedSpheres

SEEDS_KEY = "seeds_in"  # layer.metadata[SEEDS_KEY] is the display space of a layer of seeds
SEED_COLOUR = "#ffd166"
SEED_VOXELS = 1.5  # diameter of a seed on the screen, at least,
SEED_FRACTION = 1 / 60  # and at least this fraction of the longest side of the volume
OWN_SPECS = tuple(spec for spec in seeding_specs() if spec.name in ("radius_mm", "n_per_seed"))
OWN = {spec.name: spec for spec in OWN_SPECS}  # features of the layer


class SeedLayer:
    """The points layer of the seeds of one viewer, made when the first seed is placed.

    Parameters
    ----------
    viewer : napari.viewer.ViewerModel

    Attributes
    ----------
    layer : Points or None
    space : DisplaySpace
        Where the seeds are shown; :meth:`show_in` changes it.
    """

    changed = Signal()
    layer_changed = Signal()  # another layer, or none
    points_added = Signal(list)  # numbers of the seeds that the add tool of the layer placed

    def __init__(self, viewer: Any) -> None:
        self.viewer = viewer
        self.layer: Points | None = None
        self.space = DisplaySpace.identity()
        self._adding = False  # whether a seed that appears is placed by this object
        self._own = _no_values(0)  # the features when `changed` was last emitted
        for layer in viewer.layers:  # left by a panel that was closed
            if isinstance(layer, Points) and isinstance(
                layer.metadata.get(SEEDS_KEY), DisplaySpace
            ):
                self.space = layer.metadata[SEEDS_KEY]
                self._take(layer)

    def __len__(self) -> int:
        return 0 if self.layer is None else len(self.layer.data)

    @property
    def positions_mm(self) -> NDArray[np.float64]:
        """The seeds as (n, 3) RAS+ mm."""
        layer = self.layer
        if layer is None or not len(layer.data):
            return np.empty((0, 3))
        voxels = np.asarray(layer.data, dtype=float)
        return self.space.places_at(voxels * layer.scale + layer.translate)

    @property
    def own(self) -> dict[str, NDArray[np.float64]]:
        """{name: (n,) float64}: values that seeds have of their own; NaN for the common one."""
        if self.layer is None:
            return _no_values(0)
        own, found = _no_values(len(self)), self.layer.features
        for name in OWN:
            if name in found:
                own[name][:] = found[name].to_numpy(dtype=float, na_value=np.nan)
        return own

    def spheres(self, seeding: SeedingParameters) -> SeedSpheres:
        """Return where streamlines start.

        Raises
        ------
        InvalidSeedsError
            When there are no seeds.
        InvalidParameterError
            When a seed has a value that is out of range.
        """
        if not len(self):
            raise InvalidSeedsError(
                "There are no seeds; hold Shift and click where fibres should start."
            )
        values = self.own
        for name, spec in OWN.items():
            common = np.isnan(values[name])
            for value in np.unique(values[name][~common]).tolist():
                spec.check(value)
            values[name][common] = getattr(seeding, name)
        return SeedSpheres(
            self.positions_mm, values["radius_mm"], values["n_per_seed"].astype(np.int64)
        )

    # -- changing ------------------------------------------------------------------------------

    def add(self, positions_zyx: NDArray[np.float64]) -> None:
        """Add seeds at (n, 3) display positions, (z, y, x) mm."""
        layer = self.ensure_layer()
        layer.visible = True  # a seed that lands unseen is missed, or placed twice
        self._adding = True
        layer.feature_defaults = _no_values(1)
        try:
            layer.add((positions_zyx - layer.translate) / layer.scale)
        finally:
            self._adding = False
        layer.selected_data = set()

    def remove(self, indices: Iterable[int]) -> None:
        """Remove seeds by their numbers."""
        if self.layer is not None:
            self.layer.selected_data = set(indices)
            self.layer.remove_selected()

    def restore(self, seeds_mm: NDArray[np.float64], own: dict[str, NDArray[np.float64]]) -> None:
        """Place other seeds, (n, 3) RAS+ mm, with what each has of its own."""
        if self.layer is None and not len(seeds_mm):
            return
        layer = self.ensure_layer()
        with self.changed.blocked():
            layer.selected_data = set()
            positions = self.space.shown_at(seeds_mm)
            layer.data = (positions - layer.translate) / layer.scale
            layer.features = {name: values.copy() for name, values in own.items()}
            layer.feature_defaults = _no_values(1)
            layer.size = seed_size_voxels(self.space)
        self._own = self.own
        self.changed.emit()

    def set_own(self, indices: Iterable[int], name: str, value: float | None) -> None:
        """Give seeds a radius or a number of their own; None for what is common to all.

        Raises
        ------
        InvalidParameterError
            When the value is out of range.
        """
        assert self.layer is not None
        own = self.own
        own[name][list(indices)] = np.nan if value is None else float(OWN[name].check(value))
        self._write(own)

    def _write(self, own: Mapping[str, NDArray[np.float64]]) -> None:
        assert self.layer is not None
        features = self.layer.features.copy()
        for column, values in own.items():
            features[column] = values
        self.layer.features = features
        self.layer.feature_defaults = _no_values(1)  # those of the last seed, otherwise

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
                features=_no_values(0),
                face_color=SEED_COLOUR,
                border_color="black",
                border_width=0.1,
                blending="translucent_no_depth",  # in front of streamlines in 3-D, to be grabbed
                axis_labels=AXIS_LABELS,
            )
            self._place(layer, np.empty((0, 3)))
            layer.current_size = seed_size_voxels(self.space)
            insert_beside(self.viewer, layer)
            self._take(layer)
        assert self.layer is not None
        return self.layer

    def forget(self, layer: Layer) -> bool:
        """Drop the layer if it is that of the seeds; return whether it was."""
        if self.layer is None or layer is not self.layer:
            return False
        self._leave()
        self.layer_changed.emit()
        return True

    def _leave(self) -> None:
        assert self.layer is not None
        self.layer.events.data.disconnect(self._on_data)
        self.layer.events.features.disconnect(self._on_features)
        self.layer = None

    def exchange(self, layer: Points | None) -> Points | None:
        """Show the seeds of another bundle; return the layer of these, out of the viewer.

        Parameters
        ----------
        layer : Points or None
            That an earlier call returned.
        """
        before, space = self.layer, self.space
        if before is not None:
            self._leave()
            if before in self.viewer.layers:
                self.viewer.layers.remove(before)
        if layer is not None:
            insert_beside(self.viewer, layer)
            self.space = layer.metadata[SEEDS_KEY]
            self._take(layer)
            if self.space != space:
                self.show_in(space)
        if self.layer is not before:
            self.layer_changed.emit()
        return before

    def fill(
        self, positions_mm: NDArray[np.float64], own: Mapping[str, NDArray[np.float64]]
    ) -> None:
        """Place seeds at (n, 3) RAS+ mm, with radii and numbers of their own; see :attr:`own`."""
        if len(positions_mm):
            n = len(self)
            self.add(self.space.shown_at(positions_mm))
            assert self.layer is not None
            values = self.own
            for name, found in own.items():
                values[name][n:] = found
            self._write(values)

    def show_in(self, space: DisplaySpace) -> None:
        """Show the seeds, which stay where they are in RAS+ mm, in another space."""
        seeds_mm = self.positions_mm
        self.space = space
        if self.layer is not None:
            with self.layer.events.data.blocker():
                self._place(self.layer, seeds_mm)

    def _take(self, layer: Points) -> None:
        self.layer = layer
        self._own = self.own
        layer.events.data.connect(self._on_data)
        layer.events.features.connect(self._on_features)
        self.layer_changed.emit()

    def _place(self, layer: Points, seeds_mm: NDArray[np.float64]) -> None:
        layer.metadata[SEEDS_KEY] = layer.space = self.space
        layer.scale, layer.translate = np.abs(self.space.scale), self.space.translate
        if len(layer.data):
            positions = self.space.shown_at(seeds_mm)
            layer.data = (positions - layer.translate) / layer.scale
            layer.size = seed_size_voxels(self.space)

    def _on_data(self, event: Any) -> None:
        if event.action not in (ActionType.ADDED, ActionType.REMOVED, ActionType.CHANGED):
            return  # napari emits each action twice, before and after
        if event.action == ActionType.ADDED and not self._adding:
            n = len(event.value)
            self.points_added.emit([int(index) % n for index in event.data_indices])
        self._own = self.own
        self.changed.emit()

    def _on_features(self, _event: Any) -> None:
        before, self._own = self._own, self.own
        # napari emits this whenever anything happens to the layer.
        if not all(np.array_equal(before[n], self._own[n], equal_nan=True) for n in OWN):
            self.changed.emit()


def seed_size_voxels(space: DisplaySpace) -> float:
    """Return the diameter of a seed on the screen, big enough to be grabbed, in voxels along x."""
    if space.grid is None:
        return 4.0
    sizes = space.per_mm * space.grid.voxel_sizes_mm
    longest = float((sizes * space.grid.shape).max())
    return max(SEED_VOXELS * float(sizes.min()), SEED_FRACTION * longest) / abs(space.scale[-1])


def _no_values(n: int) -> dict[str, NDArray[np.float64]]:
    return {name: np.full(n, np.nan) for name in OWN}
