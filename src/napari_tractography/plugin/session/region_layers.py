"""Regions on the screen: labels that are painted or opened, and spheres that are dragged.

Each belongs to a layer: a labels layer with one of its labels or with all, or a layer of
:class:`.spheres.Spheres`. They lie below the streamlines and never hide them. A part of the
session.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from napari.layers import Labels, Layer
from napari.layers.base import ActionType
from numpy.typing import NDArray
from psygnal import Signal
from qtpy.QtCore import QTimer

from ...errors import InvalidRegionError
from ...model.regions import Region
from ...model.roles import ROLES
from ..layers.region_entries import (
    PAINTED_KEY,
    PAINTED_OPACITY,
    SPACE_KEY,
    Entry,
    RegionState,
    is_own,
    layers_of,
    make_regions,
    painted_layer,
    same_regions,
    show_spheres_in,
)
from ..layers.spheres import Spheres
from ..layers.volumes import label_colours, see_within
from ..space.display import DisplaySpace
from ..space.layer_list import insert_beside, move_below, place_of_lowest
from ..streamlines.layer import Streamlines
from .seed_layer import SEEDS_KEY

REGIONS_KEY = "regions"  # layer.metadata[REGIONS_KEY]: [(role, label or None), ...]
ASLEEP_KEY = "regions_asleep"  # which of them are, in the same order
STEERING = tuple(role for role in ROLES if role != "seed")
BRUSH_VOXELS = 5
TOOLLESS = ("pan_zoom", "transform")  # modes of a labels layer that change no label
SPHERE_RADIUS_MM = 5.0  # at first
CHECK_MS = 200  # after the last redraw of a layer


def _is_above(layer: Layer) -> bool:
    """Tell whether a layer stays above regions: streamlines and seeds."""
    return isinstance(layer, Streamlines) or SEEDS_KEY in layer.metadata


class Regions:
    """The regions of one viewer, in the order in which they were added.

    Parameters
    ----------
    viewer : napari.viewer.ViewerModel

    Attributes
    ----------
    entries : list of Entry
    rule : str
        Which include regions a streamline must pass, see
        :data:`napari_tractography.model.roles.INCLUDE_RULES`.
    """

    changed = Signal()  # what is tracked depends on it
    list_changed = Signal()  # other regions, or another name of one

    def __init__(self, viewer: Any) -> None:
        self.viewer = viewer
        self.entries: list[Entry] = []
        self.rule = "all"
        self.next_role = "include"  # of a sphere that is placed with the mouse
        self.between: tuple[Entry, Entry] | None = None  # chosen to be tracked between
        self.space = DisplaySpace.identity()
        self._made: dict[Entry, list[Region]] = {}
        self._check = QTimer()  # after undo and changes by scripts the only event is a redraw
        self._check.setSingleShot(True)
        self._check.setInterval(CHECK_MS)
        self._check.timeout.connect(self._compare)
        self._is_untold = False  # whether labels differ from those that `changed` was told of
        for layer in viewer.layers:  # left by a panel that was closed
            asleep = layer.metadata.get(ASLEEP_KEY, ())
            for number, (role, label) in enumerate(layer.metadata.get(REGIONS_KEY, ())):
                self.space = layer.metadata.get(SPACE_KEY, self.space)
                self._append(Entry(layer, role, label, number < len(asleep) and asleep[number]))

    def frozen(self) -> list[tuple[Entry, Region]]:
        """Return the regions in use, by role and then as they were added: not empty, not asleep."""
        if self._check.isActive():  # goes on: whoever asks here need not be who follows changes
            self._is_untold |= self._look_again()
        awake = [entry for entry in self.entries if not entry.is_asleep]
        ordered = sorted(awake, key=lambda entry: STEERING.index(entry.role))
        return [(entry, region) for entry in ordered for region in self.of(entry)]

    def of(self, entry: Entry) -> list[Region]:
        """Return the regions of an entry: one a sphere or label layer, none where all is empty."""
        if entry not in self._made:
            self._made[entry] = list(make_regions(entry, self.space))
        return self._made[entry]

    # -- adding and removing -------------------------------------------------------------------

    def add_labels(
        self,
        layer: Layer,
        role: str = "include",
        label: int | None = None,
        *,
        is_asleep: bool = False,
    ) -> Entry:
        """Make a region of a labels layer; one that is asleep is used once it is touched.

        Raises
        ------
        InvalidRegionError
            When the layer is not 3-D.
        """
        if not isinstance(layer, Labels) or layer.ndim != 3 or layer.multiscale:
            raise InvalidRegionError(
                f"The layer {layer.name!r} cannot be a region; choose a 3-D labels layer."
            )
        see_within(layer)
        move_below(self.viewer.layers, layer, _is_above)
        entry = Entry(layer, role, label, is_asleep)
        self._append(entry)
        self._tell()
        return entry

    def add_painting(self, role: str = "include") -> Entry:
        """Make an empty labels layer on the FOD's grid and choose its brush.

        Raises
        ------
        InvalidRegionError
            When there is no FOD.
        """
        grid = self.space.grid
        if grid is None:
            raise InvalidRegionError("There is no FOD to paint on; open one or choose its layer.")
        nothing = np.ascontiguousarray(self.space.volume(np.zeros(grid.shape, np.uint8)))
        layer = Labels(nothing, name="Region", opacity=PAINTED_OPACITY, **self.space.layer_kwargs)
        layer.metadata[PAINTED_KEY] = True
        self.viewer.layers.insert(self._ceiling(), layer)
        entry = self.add_labels(layer, role)
        layer.brush_size = BRUSH_VOXELS
        self.paint(entry)
        return entry

    def add_made(self, region: Region) -> Entry:
        """Make a sphere or a painted layer of a region that was made elsewhere."""
        if region.center_mm is not None:
            (centre,) = self.space.shown_at(region.center_mm)
            entry = self.add_sphere(centre, region.radius_mm, region.role)
            entry.layer.name = region.name
            return entry
        layer = painted_layer(region)
        insert_beside(self.viewer, layer, self._ceiling())
        return self.add_labels(layer, region.role)

    def paint(self, entry: Entry) -> None:
        """Select the labels layer of a region and choose its brush."""
        self.viewer.layers.selection.active = entry.layer
        self.viewer.dims.ndisplay = 2  # in 3-D the brush paints only on what is painted already
        if entry.label is not None:
            entry.layer.selected_label = entry.label
        entry.layer.mode = "paint"

    @property
    def painted_layer(self) -> Layer | None:
        """The labels layer of a region whose brush, or other tool, is in use; None without one."""
        active = self.viewer.layers.selection.active
        is_region = isinstance(active, Labels) and any(e.layer is active for e in self.entries)
        return active if is_region and active.mode not in TOOLLESS else None

    def stop_painting(self) -> None:
        """Put the brush away: drags move the camera again."""
        layer = self.painted_layer
        if layer is not None:
            layer.mode = "pan_zoom"

    def add_sphere(
        self,
        centre_zyx: NDArray[np.float64],
        radius_mm: float,
        role: str = "include",
        *,
        is_asleep: bool = False,
    ) -> Entry:
        """Make a sphere around a display position, (z, y, x) mm.

        One that is asleep is used once it is moved, resized, given a role, or all are woken.
        """
        centres = np.asarray(centre_zyx, dtype=float)[None]
        layer = Spheres(centres, radius_mm, space=self.space, name="Sphere")
        layer.metadata[SPACE_KEY] = self.space
        insert_beside(self.viewer, layer, self._ceiling())
        entry = Entry(layer, role, is_asleep=is_asleep)
        self._append(entry)
        self._tell()
        return entry

    def remove(self, entry: Entry) -> None:
        """Remove a region, with its layer; but a layer that was not made for it stays."""
        shared = any(e.layer is entry.layer and e is not entry for e in self.entries)
        is_made = isinstance(entry.layer, Spheres) or entry.layer.metadata.get(PAINTED_KEY)
        if is_made and not shared and entry.layer in self.viewer.layers:
            self.viewer.layers.remove(entry.layer)  # forget() is called then
        if entry in self.entries:
            self._drop([entry])

    def remove_layer(self, layer: Layer) -> None:
        """Remove all regions of a layer."""
        for entry in [entry for entry in self.entries if entry.layer is layer]:
            self.remove(entry)

    def forget(self, layer: Layer) -> None:
        """Remove the regions of a layer that was removed from the viewer."""
        self._drop([entry for entry in self.entries if entry.layer is layer])

    def exchange(self, entries: list[Entry], rule: str) -> tuple[list[Entry], str]:
        """Show the regions of another bundle; return these, and their rule.

        Layers that were made for regions leave the viewer; one that a person opened stays.
        """
        before = self.entries, self.rule
        for layer in layers_of(self.entries):
            self._leave(layer)
            layer.metadata.pop(REGIONS_KEY, None)
        self.entries = []
        self._made.clear()
        for layer in layers_of(before[0]):
            if is_own(layer) and layer in self.viewer.layers:
                self.viewer.layers.remove(layer)
        self.rule = rule
        for entry in entries:
            layer = entry.layer
            if is_own(layer) and layer not in self.viewer.layers:
                insert_beside(self.viewer, layer, self._ceiling())
            if layer in self.viewer.layers:
                self._append(entry)
        for layer in self.spheres:
            space = layer.metadata[SPACE_KEY]
            if space != self.space:
                show_spheres_in(layer, space, self.space)
        self._tell()
        return before

    # -- changing ------------------------------------------------------------------------------

    def set_role(self, entry: Entry, role: str) -> None:
        """Give a region a role; it wakes."""
        if role != entry.role or entry.is_asleep:
            entry.role, entry.is_asleep = role, False
            self._tell(entry)

    def wake(self) -> None:
        """Use all regions."""
        self._wake(self.entries)

    def choose_between(self, one: Entry, other: Entry) -> None:
        """Choose two regions to track between."""
        self.between, one.is_asleep, other.is_asleep = (one, other), False, False
        self._tell()

    def _wake(self, entries: Iterable[Entry]) -> None:
        asleep = [entry for entry in entries if entry.is_asleep]
        for entry in asleep:
            entry.is_asleep = False
        if asleep:
            self._tell()

    def set_label(self, entry: Entry, label: int | None) -> None:
        """Take one label of the layer, or all that are not zero."""
        entry.label, entry.is_asleep = label, False
        self._tell(entry)

    def set_radius(self, entry: Entry, radius_mm: float) -> None:
        """Give the spheres of a layer another radius, mm."""
        entry.is_asleep = False
        entry.layer.radius_mm = radius_mm
        self._tell(entry)

    def set_rule(self, rule: str) -> None:
        """Choose which include regions a streamline must pass."""
        if rule != self.rule:
            self.rule = rule
            self.changed.emit()

    def states(self) -> tuple[RegionState, ...]:
        """Return all regions as they are now."""
        return tuple(
            RegionState(e, (e, e.role, e.label), e.is_asleep, self._spheres_of(e))
            for e in self.entries
        )

    def _spheres_of(self, entry: Entry) -> NDArray[np.float64]:
        if not isinstance(entry.layer, Spheres):
            return np.empty((0, 4))
        radii = entry.layer.radii_mm[:, None]
        return np.hstack([self.space.places_at(entry.layer.data), radii])

    def restore(self, states: Iterable[RegionState], rule: str) -> None:
        """Have the regions that there were; layers that were removed come back."""
        states = tuple(states)
        wanted = {state.entry for state in states}
        with self.changed.blocked(), self.list_changed.blocked():
            for entry in [entry for entry in self.entries if entry not in wanted]:
                self.remove(entry)
            for state in states:
                if state.entry not in self.entries:
                    if state.entry.layer not in self.viewer.layers:
                        insert_beside(self.viewer, state.entry.layer, self._ceiling())
                    self._append(state.entry)
                _, state.entry.role, state.entry.label = state.part
                if len(state.spheres):
                    self._place(state.entry.layer, state.spheres)
            for state in states:  # last, since what is moved wakes
                state.entry.is_asleep = state.is_asleep
            self.entries = [state.entry for state in states]
            self.rule = rule
        self._tell()

    def _place(self, layer: Spheres, spheres: NDArray[np.float64]) -> None:
        layer.metadata[SPACE_KEY] = layer.space = self.space
        layer.data = self.space.shown_at(spheres[:, :3])
        layer.size = 2 * spheres[:, 3] * self.space.per_mm

    def show_in(self, space: DisplaySpace) -> None:
        """Show spheres, which stay where they are in RAS+ mm, in another space."""
        before, self.space = self.space, space
        self._made.clear()
        for layer in self.spheres:
            show_spheres_in(layer, before, space)

    @property
    def spheres(self) -> list[Spheres]:
        """The layers of spheres, the uppermost first."""
        ours = {entry.layer for entry in self.entries}
        return [x for x in reversed(self.viewer.layers) if x in ours and isinstance(x, Spheres)]

    # -- layers --------------------------------------------------------------------------------

    def _append(self, entry: Entry) -> None:
        events = entry.layer.events
        if not any(other.layer is entry.layer for other in self.entries):
            events.name.connect(self._on_name)
            events.data.connect(self._on_data)
            if isinstance(entry.layer, Labels):
                events.paint.connect(self._on_data)
                events.labels_update.connect(self._on_data)
                events.set_data.connect(self._on_drawn)
            else:
                events.size.connect(self._on_data)
        self.entries.append(entry)

    def _drop(self, entries: list[Entry]) -> None:
        if not entries:
            return
        for entry in entries:
            self.entries.remove(entry)
            self._made.pop(entry, None)
            layer = entry.layer
            if any(other.layer is layer for other in self.entries):
                continue
            for key in (REGIONS_KEY, ASLEEP_KEY):
                layer.metadata.pop(key, None)
            self._leave(layer)
        self._tell()

    def close(self) -> None:
        """Stop listening to layers; the regions stay in them."""
        self._check.stop()
        for layer in {entry.layer for entry in self.entries}:
            self._leave(layer)

    def _leave(self, layer: Layer) -> None:
        """Stop listening to a layer."""
        events = layer.events
        events.name.disconnect(self._on_name)
        events.data.disconnect(self._on_data)
        if isinstance(layer, Labels):
            events.paint.disconnect(self._on_data)
            events.labels_update.disconnect(self._on_data)
            events.set_data.disconnect(self._on_drawn)
        else:
            events.size.disconnect(self._on_data)

    def _tell(self, entry: Entry | None = None) -> None:
        """Write the roles into the layers, and tell that tracking depends on something else."""
        self._made.pop(entry, None) if entry else self._made.clear()
        by_layer: dict[Layer, list[Entry]] = {}
        for each in self.entries:
            by_layer.setdefault(each.layer, []).append(each)
        for layer, entries in by_layer.items():
            layer.metadata[REGIONS_KEY] = [(each.role, each.label) for each in entries]
            layer.metadata[ASLEEP_KEY] = [each.is_asleep for each in entries]
            colour = entries[0].colour
            if isinstance(layer, Spheres):
                layer.face_color = layer.current_face_color = colour
            elif layer.metadata.get(PAINTED_KEY):
                layer.colormap = label_colours(colour)
        self.list_changed.emit()
        self.changed.emit()

    def _ceiling(self) -> int:
        """Return where the lowest layer of streamlines or of seeds is."""
        return place_of_lowest(self.viewer.layers, _is_above)

    def _on_name(self, event: Any) -> None:
        self._refresh(event.source)
        self.list_changed.emit()

    def _on_data(self, event: Any) -> None:
        action = getattr(event, "action", None)
        if isinstance(action, ActionType) and not action.value.endswith("ed"):
            return  # before the change; there is another event after it
        was_empty = self._refresh(event.source)
        self._wake(entry for entry in self.entries if entry.layer is event.source)
        if was_empty or event.type == "paint" or isinstance(event.source, Spheres):
            self.list_changed.emit()
        self.changed.emit()

    def _refresh(self, layer: Layer) -> bool:
        """Forget the voxels of a layer's regions; return whether one was known to be empty."""
        before = [self._made.pop(entry, None) for entry in self.entries if entry.layer is layer]
        return [] in before

    def _on_drawn(self, _event: Any) -> None:
        self._check.start()

    def _compare(self) -> None:
        if self._look_again() or self._is_untold:
            self._is_untold = False
            self.list_changed.emit()
            self.changed.emit()

    def _look_again(self) -> bool:
        """Return whether labels were changed without an event."""
        before = {e: made for e, made in self._made.items() if isinstance(e.layer, Labels)}
        for entry in before:
            del self._made[entry]
        return not all(same_regions(made, self.of(entry)) for entry, made in before.items())
