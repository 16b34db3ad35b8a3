"""Regions on the screen: labels that are painted or opened, and spheres that are dragged.

Each belongs to a layer: a labels layer with one of its labels or with all, or a layer of
:class:`.spheres.Spheres`. They lie below the streamlines and never hide them. The regions of other
bundles than the active one are hidden. What is done here becomes an act of the document; a part of
the session, which gives it what to show.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from app_model.types import KeyCode, KeyMod
from napari.layers import Labels, Layer
from napari.layers.base import ActionType
from numpy.typing import NDArray
from psygnal import Signal
from qtpy.QtCore import QTimer

from ...errors import InvalidRegionError
from ...model.regions import Region
from ...model.roles import ROLES
from .. import acts
from ..document import BundleState, Document, Painted, RegionState, Snapshot
from ..layers.region_entries import (
    PAINTED_KEY,
    PAINTED_OPACITY,
    SPACE_KEY,
    Entry,
    is_own,
    make_regions,
    painted_layer,
    same_regions,
    spheres_in,
)
from ..layers.spheres import Spheres
from ..layers.volumes import label_colours, see_within
from ..space.display import DisplaySpace
from ..space.layer_list import insert_beside, move_below, place_of_lowest
from ..streamlines.layer import Streamlines
from .seed_layer import SEEDS_KEY

STEERING = tuple(role for role in ROLES if role != "seed")
BRUSH_VOXELS = 5
TOOLLESS = ("pan_zoom", "transform")  # modes of a labels layer that change no label
SPHERE_RADIUS_MM = 5.0  # at first
CHECK_MS = 200  # after the last redraw of a layer
UNDO_KEY, REDO_KEY = KeyMod.CtrlCmd | KeyCode.KeyZ, KeyMod.CtrlCmd | KeyMod.Shift | KeyCode.KeyZ


def _is_above(layer: Layer) -> bool:
    """Tell whether a layer stays above regions: streamlines and seeds."""
    return isinstance(layer, Streamlines) or SEEDS_KEY in layer.metadata


class Regions:
    """The regions of the active bundle of one viewer, in the order in which they were added.

    Parameters
    ----------
    viewer : napari.viewer.ViewerModel
    document : Document
    """

    list_changed = Signal()  # other regions, or another name or voxels of one

    def __init__(self, viewer: Any, document: Document) -> None:
        self.viewer, self.document = viewer, document
        self.next_role = "include"  # of a sphere that is placed with the mouse
        self.space = DisplaySpace.identity()
        self._known: dict[int, Entry] = {}  # of all bundles, by id
        self._shown: tuple[RegionState, ...] = ()
        self._kept: set[int] = set()  # of all bundles, by id
        self._gone: set[int] = set()  # that no bundle has now, by id
        # Layers of other bundles than the active one, and whether they were to be seen before.
        self._hidden: WeakKeyDictionary[Layer, bool] = WeakKeyDictionary()
        self._made: WeakKeyDictionary[RegionState, list[Region]] = WeakKeyDictionary()
        self._is_showing = False  # whether layers are being given what they are to show
        self._is_closed = False
        self._in_stroke: set[Layer] = set()  # that are being painted
        self._check = QTimer()  # after changes by scripts the only event is a redraw
        self._check.setSingleShot(True)
        self._check.setInterval(CHECK_MS)
        self._check.timeout.connect(self._compare)

    @property
    def states(self) -> tuple[RegionState, ...]:
        """The regions of the active bundle as data."""
        return self.document.now.bundle.regions

    @property
    def entries(self) -> list[Entry]:
        """The regions of the active bundle with their layers."""
        return [self._known[state.id] for state in self.states if state.id in self._known]

    @property
    def rule(self) -> str:
        """Which include regions a streamline must pass, see :data:`.roles.INCLUDE_RULES`."""
        return self.document.now.bundle.rule

    @property
    def between(self) -> tuple[Entry, Entry] | None:
        """The two regions that were chosen to be tracked between."""
        chosen = self.document.now.bundle.between
        ends = [self._known.get(number) for number in chosen or ()]
        one, other = ends if len(ends) == 2 else (None, None)
        return None if one is None or other is None else (one, other)

    def frozen(self, bundle: BundleState | None = None) -> list[tuple[RegionState, Region]]:
        """Return the regions in use, by role and then as they were added: not empty, not asleep.

        Parameters
        ----------
        bundle : BundleState, optional
            By default the active one.
        """
        if self._check.isActive():
            self._compare()
        states = self.states if bundle is None else bundle.regions
        awake = [state for state in states if not state.is_asleep]
        ordered = sorted(awake, key=lambda state: STEERING.index(state.role))
        return [(state, region) for state in ordered for region in self.made_of(state)]

    def made_of(self, state: RegionState) -> list[Region]:
        """Return the regions of a state: one a sphere or label layer, none where all is empty."""
        made = self._made.get(state)
        if made is None:
            entry = self._known.get(state.id)
            if state.made is not None:
                made = [dataclasses.replace(state.made, role=state.role, name=state.name)]
            else:
                layer = None if entry is None else entry.layer
                made = list(make_regions(state, layer, self.space))
            self._made[state] = made
        return made

    def of(self, entry: Entry) -> list[Region]:
        """Return the regions of an entry as it is now."""
        return self.made_of(entry.state)

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
        state = self._state_of(layer, role, label, is_asleep=is_asleep)
        return self._add(Entry(layer, state))

    def _state_of(
        self, layer: Layer, role: str, label: int | None = None, *, is_asleep: bool = False
    ) -> RegionState:
        number, name = self.document.new_id(), str(layer.name)
        if isinstance(layer, Spheres):
            spheres = spheres_in(layer, self.space)
            return RegionState(number, name, role, is_asleep=is_asleep, spheres=spheres)
        painted = Painted.of(np.asarray(layer.data)) if layer.metadata.get(PAINTED_KEY) else None
        return RegionState(number, name, role, label, is_asleep, painted=painted)

    def _add(self, entry: Entry) -> Entry:
        self._know(entry)
        self.document.act(f"Add region {entry.state.name}", acts.add_region(entry.state))
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
        number = self.document.new_id()
        state = RegionState(number, region.name, region.role, made=region)
        self.document.act(f"Add region {region.name}", acts.add_region(state))
        return self._known[number]

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
        layer = self._sphere_layer(np.asarray(centre_zyx, dtype=float)[None], radius_mm, "Sphere")
        return self._add(Entry(layer, self._state_of(layer, role, is_asleep=is_asleep)))

    def _sphere_layer(self, centres: NDArray[np.float64], radius_mm: float, name: str) -> Spheres:
        layer = Spheres(centres, radius_mm, space=self.space, name=name)
        layer.metadata[SPACE_KEY] = self.space
        insert_beside(self.viewer, layer, self._ceiling())
        return layer

    def remove(self, *entries: Entry) -> None:
        """Remove regions, with their layers; but a layer that was not made for one stays."""
        names = [entry.state.name for entry in entries]
        text = f"region {names[0]}" if len(names) == 1 else acts.plural(len(names), "region")
        change = acts.remove_regions([entry.id for entry in entries])
        self.document.act(f"Remove {text}", change)

    def remove_layer(self, layer: Layer) -> None:
        """Remove all regions of a layer, whichever bundle they are of."""
        change = acts.remove_regions([entry.id for entry in self._entries_of(layer)])
        self.document.act(f"Remove region {layer.name}", change)

    def forget(self, layer: Layer) -> None:
        """Remove the regions of a layer that was removed from the viewer."""
        if not self._is_showing:
            self.remove_layer(layer)

    @property
    def has_gone(self) -> bool:
        """Whether there are regions that no bundle has now, and a step may bring back."""
        return bool(self._gone)

    def let_go(self, there: set[int]) -> None:
        """Let go of the layers of regions that were removed, but for some, by id."""
        for number in self._gone - there:
            self._gone.discard(number)
            entry = self._known.pop(number, None)
            if entry is not None and not self._is_closed and not self._entries_of(entry.layer):
                self._ignore(entry.layer)

    # -- changing ------------------------------------------------------------------------------

    def set_role(self, entry: Entry, role: str) -> None:
        """Give a region a role; it wakes."""
        if role != entry.role or entry.is_asleep:
            self._change(f"{entry.state.name}: {role}", [entry.id], role=role, is_asleep=False)

    def wake(self) -> None:
        """Use all regions."""
        asleep = [state.id for state in self.states if state.is_asleep]
        if asleep:
            self._change("Use all regions", asleep, is_asleep=False)

    def choose_between(self, one: Entry, other: Entry) -> None:
        """Choose two regions to track between."""
        ends = one.id, other.id

        def act(now: Snapshot) -> Snapshot:
            now = now.replace(between=ends)
            if one.is_asleep or other.is_asleep:
                now = acts.change_regions(ends, is_asleep=False)(now)
            return now

        self.document.act(f"From {one.state.name} to {other.state.name}", act)

    def set_label(self, entry: Entry, label: int | None) -> None:
        """Take one label of the layer, or all that are not zero."""
        text = f"{entry.state.name}: {'any label' if label is None else f'label {label}'}"
        self._change(text, [entry.id], key=("label", entry.id), label=label, is_asleep=False)

    def set_radius(self, entry: Entry, radius_mm: float) -> None:
        """Give the spheres of a layer another radius, mm."""
        spheres = entry.state.spheres.copy()
        spheres[:, 3] = radius_mm
        text = f"Radius of {entry.state.name}"
        key = "radius", entry.id
        self._change(text, [entry.id], key=key, spheres=spheres, is_asleep=False)

    def set_rule(self, rule: str) -> None:
        """Choose which include regions a streamline must pass."""
        self.document.act(f"Include regions: {rule}", acts.change(rule=rule))

    def _change(self, text: str, numbers: Sequence[int], *, key: Any = None, **values: Any) -> None:
        self.document.act(text, acts.change_regions(numbers, **values), key=key)

    # -- showing -------------------------------------------------------------------------------

    def show(self, now: Snapshot) -> bool:
        """Show the regions of the active bundle, and no others; return whether any differ."""
        shown, self._shown = self._shown, now.bundle.regions
        kept, self._kept = self._kept, {r.id for b in now.bundles.values() for r in b.regions}
        if shown is self._shown and kept == self._kept:
            return False
        self._gone = (self._gone | kept) - self._kept
        self._is_showing = True
        try:
            self._put_others_away()
            for state in self._shown:
                self._show(state)
            self._colour()
        finally:
            self._is_showing = False
        self.list_changed.emit()
        return True

    def _put_others_away(self) -> None:
        """Hide layers of regions of other bundles; take away those of regions that are gone."""
        shown = {state.id for state in self._shown}
        known = self._known.values()
        here = {entry.layer for entry in known if entry.id in shown}
        elsewhere = {entry.layer for entry in known if entry.id in self._kept - shown}
        for layer in {entry.layer for entry in known} - here:
            if not is_own(layer) or layer not in self.viewer.layers:
                continue
            if layer not in elsewhere:
                self.viewer.layers.remove(layer)
            elif layer not in self._hidden:
                self._hidden[layer] = layer.visible
                layer.visible = False

    def _show(self, state: RegionState) -> None:
        entry = self._known.get(state.id)
        if entry is None:
            entry = self._first_shown(state)
        if state.made is not None:
            state = self._settled(state)
        layer, before = entry.layer, entry.state
        entry.state = state
        if layer not in self.viewer.layers:
            insert_beside(self.viewer, layer, self._ceiling())
        if layer in self._hidden:
            layer.visible = self._hidden.pop(layer)
        if layer.name != state.name:
            layer.name = state.name
        if isinstance(layer, Spheres) and state.spheres is not before.spheres:
            self._place(layer, state.spheres)
        if state.painted is not None and state.painted is not before.painted:
            layer.data = state.painted.written(np.asarray(layer.data))

    def _first_shown(self, state: RegionState) -> Entry:
        """Make the layer of a region that came as data; it is from now on what the layer says."""
        layer: Layer
        made, now = state.made, state
        if made is None:
            layer = self._sphere_layer(np.empty((0, 3)), SPHERE_RADIUS_MM, state.name)
            self._place(layer, state.spheres)
        elif made.center_mm is not None:
            centres = self.space.shown_at(made.center_mm)
            layer = self._sphere_layer(np.asarray(centres, float), made.radius_mm, state.name)
            now = dataclasses.replace(state, made=None, spheres=spheres_in(layer, self.space))
        else:
            layer = painted_layer(made)
            insert_beside(self.viewer, layer, self._ceiling())
            now = dataclasses.replace(state, made=None, painted=Painted.of(np.asarray(layer.data)))
        layer.name = state.name
        entry = Entry(layer, now)
        entry.first = now
        self._know(entry)
        return entry

    def _settled(self, state: RegionState) -> RegionState:
        """Return a region that came as data as what its layer holds of it."""
        entry = self._known.get(state.id)
        if state.made is None or entry is None or entry.first is None:
            return state
        first, regions = entry.first, self.made_of(state)
        state = dataclasses.replace(state, made=None, spheres=first.spheres, painted=first.painted)
        self._made[state] = regions  # which are exact, where layers round
        return state

    def settled(self, now: Snapshot) -> Snapshot:
        """Return a snapshot in which regions that came as data are those of their layers."""
        if all(state.made is None for state in now.bundle.regions):
            return now
        return now.replace(regions=tuple(map(self._settled, now.bundle.regions)))

    def _place(self, layer: Spheres, spheres: NDArray[np.float64]) -> None:
        layer.metadata[SPACE_KEY] = layer.space = self.space
        layer.data = self.space.shown_at(spheres[:, :3])
        layer.size = 2 * spheres[:, 3] * self.space.per_mm

    def show_in(self, space: DisplaySpace) -> None:
        """Show spheres, which stay where they are in RAS+ mm, in another space."""
        self.space = space
        self._made.clear()
        self._is_showing = True
        try:
            for entry in self._known.values():
                if isinstance(entry.layer, Spheres):
                    self._place(entry.layer, entry.state.spheres)
        finally:
            self._is_showing = False

    def _colour(self) -> None:
        """Give each layer the colour of its first region."""
        coloured: set[Layer] = set()
        for entry in self.entries:
            layer, colour = entry.layer, entry.colour
            if layer in coloured:
                continue
            coloured.add(layer)
            if isinstance(layer, Spheres):
                layer.face_color = layer.current_face_color = colour
            elif layer.metadata.get(PAINTED_KEY):
                layer.colormap = label_colours(colour)

    @property
    def spheres(self) -> list[Spheres]:
        """The layers of spheres, the uppermost first."""
        ours = {entry.layer for entry in self.entries}
        return [x for x in reversed(self.viewer.layers) if x in ours and isinstance(x, Spheres)]

    # -- layers --------------------------------------------------------------------------------

    def _know(self, entry: Entry) -> None:
        """Listen to the layer of a region."""
        if not any(other.layer is entry.layer for other in self._known.values()):
            self._listen(entry.layer)
        self._known[entry.id] = entry

    def _listen(self, layer: Layer) -> None:
        events = layer.events
        events.name.connect(self._on_name)
        events.data.connect(self._on_data)
        if isinstance(layer, Labels):
            events.paint.connect(self._on_data)
            events.labels_update.connect(self._on_data)
            events.set_data.connect(self._on_drawn)
            if layer.metadata.get(PAINTED_KEY):
                layer.mouse_drag_callbacks.append(self._on_stroke)
                # Before napari's own undo of this layer: it would leave the order of acts.
                layer.bind_key(UNDO_KEY, lambda _layer: self.document.undo(), overwrite=True)
                layer.bind_key(REDO_KEY, lambda _layer: self.document.redo(), overwrite=True)
        else:
            events.size.connect(self._on_data)

    def _ignore(self, layer: Layer) -> None:
        """Listen to a layer no longer."""
        events = layer.events
        events.name.disconnect(self._on_name)
        events.data.disconnect(self._on_data)
        if isinstance(layer, Labels):
            events.paint.disconnect(self._on_data)
            events.labels_update.disconnect(self._on_data)
            events.set_data.disconnect(self._on_drawn)
            if layer.metadata.get(PAINTED_KEY):
                layer.mouse_drag_callbacks.remove(self._on_stroke)
                layer.bind_key(UNDO_KEY, None)
                layer.bind_key(REDO_KEY, None)
        else:
            events.size.disconnect(self._on_data)

    def open(self) -> None:
        """Listen to the layers that there are, after :meth:`close`."""
        if self._is_closed:
            self._is_closed = False
            for layer in {entry.layer for entry in self._known.values()}:
                self._listen(layer)

    def look_again(self) -> None:
        """Take up what was done to layers while nothing listened."""
        for layer in {entry.layer for entry in self.entries}:
            if layer in self.viewer.layers:
                self._take(layer)
            else:
                self.forget(layer)

    def close(self) -> None:
        """Stop listening to layers; the regions stay in them."""
        self._check.stop()
        self._is_closed = True
        for layer in {entry.layer for entry in self._known.values()}:
            self._ignore(layer)

    def _ceiling(self) -> int:
        """Return where the lowest layer of streamlines or of seeds is."""
        return place_of_lowest(self.viewer.layers, _is_above)

    def _entries_of(self, layer: Layer) -> list[Entry]:
        return [entry for entry in self._known.values() if entry.layer is layer]

    def _on_name(self, event: Any) -> None:
        meant = self._entries_of(event.source)
        if meant and not self._is_showing:
            before, name = meant[0].state.name, str(event.source.name)
            self._change(f"Rename {before} to {name}", [e.id for e in meant], name=name)

    def _on_data(self, event: Any) -> None:
        action = getattr(event, "action", None)
        if isinstance(action, ActionType) and not action.value.endswith("ed"):
            return  # before the change; there is another event after it
        if not self._is_showing:
            self._take(event.source)

    def _take(self, layer: Layer) -> None:
        """Make an act of what was done to the layer of regions."""
        active = set(self.document.now.bundle.region_ids)
        meant = [entry for entry in self._entries_of(layer) if entry.id in active]
        if not meant:
            return
        numbers, name = [entry.id for entry in meant], str(layer.name)
        if isinstance(layer, Spheres):
            spheres = spheres_in(layer, self.space)
            (entry,) = meant
            before = entry.state.spheres
            if spheres.shape == before.shape and np.allclose(spheres, before, rtol=0, atol=1e-3):
                return
            entry.state = dataclasses.replace(entry.state, spheres=spheres)  # it is there already
            self._change(f"Move region {name}", numbers, spheres=spheres, is_asleep=False)
        elif not layer.metadata.get(PAINTED_KEY):  # what napari's own undo takes back
            self.document.amend(acts.change_regions(numbers, is_asleep=False))
        elif self.document.is_held and layer in self._in_stroke:
            # Read at the end of the stroke; until then only that it is another.
            self._change(f"Paint {name}", numbers, is_asleep=False)
        else:
            self._take_painted(layer, meant)

    def _take_painted(self, layer: Layer, meant: Sequence[Entry]) -> None:
        painted = Painted.of(np.asarray(layer.data))
        if all(painted.equals(entry.state.painted) for entry in meant):
            return
        for entry in meant:
            entry.state = dataclasses.replace(entry.state, painted=painted)
        numbers = [entry.id for entry in meant]
        self._change(f"Paint {layer.name}", numbers, painted=painted, is_asleep=False)

    def _on_stroke(self, layer: Layer, event: Any) -> Iterator[None]:
        """Make one act of a stroke of the brush, from press to release."""
        if layer.mode in TOOLLESS:
            return
        self._in_stroke.add(layer)
        self.document.hold()
        yield
        while event.type == "mouse_move":
            yield
        self._in_stroke.discard(layer)
        active = set(self.document.now.bundle.region_ids)
        self._take_painted(layer, [e for e in self._entries_of(layer) if e.id in active])
        self.document.release()

    def _on_drawn(self, _event: Any) -> None:
        if not self._is_showing:
            self._check.start()

    def _compare(self) -> None:
        """Look whether labels were changed without an event, as by a script in place."""
        self._check.stop()
        for layer in {entry.layer for entry in self.entries if isinstance(entry.layer, Labels)}:
            if layer in self._in_stroke:
                continue
            meant = [entry for entry in self.entries if entry.layer is layer]
            if layer.metadata.get(PAINTED_KEY):
                self._take_painted(layer, meant)
                continue
            for entry in meant:
                before = self._made.pop(entry.state, None)
                if before is not None and not same_regions(before, self.of(entry)):
                    self.document.amend(acts.change_regions([entry.id]))
