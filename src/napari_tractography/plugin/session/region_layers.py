"""Regions on the screen: labels that are painted or opened, and spheres that are dragged.

Each belongs to a layer: a labels layer with one of its labels or with all, or a layer of
:class:`.spheres.Spheres`. They lie below the streamlines and never hide them. A part of the
session.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from napari.layers import Labels, Layer
from napari.layers.base import ActionType
from napari.utils.colormaps import DirectLabelColormap
from numpy.typing import NDArray
from psygnal import Signal
from qtpy.QtCore import QTimer

from ...errors import InvalidRegionError
from ...regions import ROLES, Region
from ..layers.spheres import Spheres
from ..layers.volumes import voxels_of
from ..space.display import DisplaySpace
from ..space.layer_list import insert_beside
from ..streamlines.layer import Streamlines
from .seed_layer import SEEDS_KEY

REGIONS_KEY = "regions"  # layer.metadata[REGIONS_KEY]: [(role, label or None), ...]
SPACE_KEY = "region_in"  # layer.metadata[SPACE_KEY] is the display space of a layer of spheres
PAINTED_KEY = "region_painted"  # whether the layer was made to be painted
STEERING = tuple(role for role in ROLES if role != "seed")
ROLE_COLOURS = {"include": "#43c463", "exclude": "#ef4b4b", "stop": "#ffa32b", "end": "#4aa8ff"}
PAINTED_OPACITY = 0.4
BRUSH_VOXELS = 5
TOOLLESS = ("pan_zoom", "transform")  # modes of a labels layer that change no label
SPHERE_RADIUS_MM = 5.0  # at first
CHECK_MS = 200  # after the last redraw of a layer


@dataclass(slots=True, eq=False)
class Entry:
    """One region: its layer, what it is for, and which label; None stands for all but zero."""

    layer: Layer
    role: str
    label: int | None = None


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
        :data:`napari_tractography.regions.INCLUDE_RULES`.
    """

    changed = Signal()  # what is tracked depends on it
    list_changed = Signal()  # other regions, or another name of one

    def __init__(self, viewer: Any) -> None:
        self.viewer = viewer
        self.entries: list[Entry] = []
        self.rule = "all"
        self.space = DisplaySpace.identity()
        self._made: dict[Entry, list[Region]] = {}
        self._check = QTimer()  # after undo and changes by scripts the only event is a redraw
        self._check.setSingleShot(True)
        self._check.setInterval(CHECK_MS)
        self._check.timeout.connect(self._compare)
        self._is_untold = False  # whether labels differ from those that `changed` was told of
        for layer in viewer.layers:  # left by a panel that was closed
            for role, label in layer.metadata.get(REGIONS_KEY, ()):
                self.space = layer.metadata.get(SPACE_KEY, self.space)
                self._append(Entry(layer, role, label))

    def frozen(self) -> list[tuple[Entry, Region]]:
        """Return the regions that are not empty, by role and then as they were added."""
        if self._check.isActive():  # goes on: whoever asks here need not be who follows changes
            self._is_untold |= self._look_again()
        ordered = sorted(self.entries, key=lambda entry: STEERING.index(entry.role))
        return [(entry, region) for entry in ordered for region in self.of(entry)]

    def of(self, entry: Entry) -> list[Region]:
        """Return the regions of an entry: one a sphere or label layer, none where all is empty."""
        if entry not in self._made:
            self._made[entry] = list(_make(entry, self.space))
        return self._made[entry]

    # -- adding and removing -------------------------------------------------------------------

    def add_labels(self, layer: Layer, role: str = "include", label: int | None = None) -> Entry:
        """Make a region of a labels layer.

        Raises
        ------
        InvalidRegionError
            When the layer is not 3-D.
        """
        if not isinstance(layer, Labels) or layer.ndim != 3 or layer.multiscale:
            raise InvalidRegionError(
                f"The layer {layer.name!r} cannot be a region; choose a 3-D labels layer."
            )
        layer.blending = "translucent_no_depth"
        self._lower(layer)
        entry = Entry(layer, role, label)
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
        self, centre_zyx: NDArray[np.float64], radius_mm: float, role: str = "include"
    ) -> Entry:
        """Make a sphere around a display position, (z, y, x) mm."""
        centres = np.asarray(centre_zyx, dtype=float)[None]
        layer = Spheres(centres, radius_mm, space=self.space, name="Sphere")
        layer.metadata[SPACE_KEY] = self.space
        insert_beside(self.viewer, layer, self._ceiling())
        entry = Entry(layer, role)
        self._append(entry)
        self._tell()
        return entry

    def remove(self, entry: Entry) -> None:
        """Remove a region; a labels layer stays in the viewer, a layer of spheres does not."""
        if isinstance(entry.layer, Spheres):
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

    # -- changing ------------------------------------------------------------------------------

    def set_role(self, entry: Entry, role: str) -> None:
        """Give a region another role."""
        entry.role = role
        self._tell(entry)

    def set_label(self, entry: Entry, label: int | None) -> None:
        """Take one label of the layer, or all that are not zero."""
        entry.label = label
        self._tell(entry)

    def set_radius(self, entry: Entry, radius_mm: float) -> None:
        """Give the spheres of a layer another radius, mm."""
        entry.layer.size = 2 * radius_mm
        entry.layer.current_size = 2 * radius_mm
        self._tell(entry)

    def set_rule(self, rule: str) -> None:
        """Choose which include regions a streamline must pass."""
        if rule != self.rule:
            self.rule = rule
            self.changed.emit()

    def show_in(self, space: DisplaySpace) -> None:
        """Show spheres, which stay where they are in RAS+ mm, in another space."""
        before, self.space = self.space, space
        self._made.clear()
        for layer in self.spheres:
            layer.metadata[SPACE_KEY] = layer.space = space
            with layer.events.data.blocker():
                layer.data = space.to_display(before.to_world(layer.data))

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
            layer.metadata.pop(REGIONS_KEY, None)
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
            colour = ROLE_COLOURS[entries[0].role]
            if isinstance(layer, Spheres):
                layer.face_color = layer.current_face_color = colour
            elif layer.metadata.get(PAINTED_KEY):
                layer.colormap = DirectLabelColormap(color_dict={None: colour, 0: "transparent"})
        self.list_changed.emit()
        self.changed.emit()

    def _lower(self, layer: Layer) -> None:
        """Move a layer below streamlines and seeds."""
        layers, ceiling = self.viewer.layers, self._ceiling()
        if layers.index(layer) > ceiling:
            layers.move(layers.index(layer), ceiling)

    def _ceiling(self) -> int:
        """Return where the lowest layer of streamlines or of seeds is."""
        layers = self.viewer.layers
        above = (
            i for i, x in enumerate(layers) if isinstance(x, Streamlines) or SEEDS_KEY in x.metadata
        )
        return min(above, default=len(layers))

    def _on_name(self, event: Any) -> None:
        self._refresh(event.source)
        self.list_changed.emit()

    def _on_data(self, event: Any) -> None:
        action = getattr(event, "action", None)
        if isinstance(action, ActionType) and not action.value.endswith("ed"):
            return  # before the change; there is another event after it
        was_empty = self._refresh(event.source)
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
        return not all(_same(made, self.of(entry)) for entry, made in before.items())


def _make(entry: Entry, space: DisplaySpace) -> Iterable[Region]:
    layer = entry.layer
    if isinstance(layer, Spheres):
        centres = space.to_world(layer.data)
        for centre, size in zip(centres, np.asarray(layer.size, dtype=float), strict=True):
            yield Region.sphere(centre, float(size) / 2, entry.role, name=layer.name)
        return
    voxels, grid = voxels_of(layer, space)
    inside = voxels != 0 if entry.label is None else voxels == entry.label
    if inside.any():
        yield Region.mask(inside, grid, entry.role, name=layer.name)


def _same(some: list[Region], others: list[Region]) -> bool:
    if len(some) != len(others):
        return False
    return all(
        a.grid == b.grid and np.array_equal(np.asarray(a.voxels), np.asarray(b.voxels))
        for a, b in zip(some, others, strict=True)
    )
