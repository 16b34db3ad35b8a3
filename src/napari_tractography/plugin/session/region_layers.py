"""Regions on the screen: labels that are painted or opened, and spheres that are dragged.

Each belongs to a layer: a labels layer with one of its labels or with all, or a layer of
:class:`.spheres.Spheres`. Labels lie below the streamlines and never hide them; spheres, which are
an outline and a tint, lie above, to be found. The regions of other bundles than the active one are
hidden. What is done here becomes an act of the document; a part of the session, which gives it
what to show.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from napari.components.overlays import BrushCircleOverlay
from napari.layers import Labels, Layer
from napari.layers.base import ActionType
from numpy.typing import NDArray
from psygnal import Signal

from ...errors import InvalidRegionError
from ...model.regions import Region
from ...model.roles import ROLES
from .. import acts
from ..document import BundleState, Document, Painted, RegionState, Snapshot
from ..flag import Flag
from ..layers.on_volume import is_above_volumes
from ..layers.region_entries import (
    PAINTED_KEY,
    PAINTED_OPACITY,
    SPACE_KEY,
    Entry,
    Holder,
    is_own,
    make_regions,
    painted_layer,
    same_regions,
    spheres_in,
)
from ..layers.spheres import Spheres
from ..layers.volume_layers import label_colours, place, see_within
from ..listening import Listening
from ..space.display import DisplaySpace
from ..space.extent import sliders_kept
from ..space.layer_list import (
    index_of_lowest,
    insert_beside,
    listed_once,
    move_below,
    remove_at_once,
)
from ..timers import delayed
from ..words import plural
from .seed_layer import SEEDS_KEY

STEERING = tuple(role for role in ROLES if role != "seed")
TOOLLESS = ("pan_zoom", "transform")  # modes of a labels layer that change no label
SPHERE_RADIUS_MM = 5.0  # at first
CHECK_MS = 200  # after the last redraw of a layer


class Regions:
    """The regions of the active bundle of one viewer, in the order in which they were added."""

    list_changed = Signal()  # other regions, or another name or voxels of one

    def __init__(self, viewer: Any, document: Document) -> None:
        self.viewer, self.document = viewer, document
        self.next_role = "include"  # of a sphere that is placed with the mouse
        self.space = DisplaySpace.identity()
        self._known: dict[int, Entry] = {}  # of all bundles, by id
        self._shown: tuple[RegionState, ...] = ()
        self._regions_by_state: WeakKeyDictionary[RegionState, list[Region]] = WeakKeyDictionary()
        self._settled_of: WeakKeyDictionary[RegionState, RegionState] = WeakKeyDictionary()
        self._written: WeakKeyDictionary[Layer, RegionState] = WeakKeyDictionary()
        self._heard: WeakKeyDictionary[Layer, Listening] = WeakKeyDictionary()
        self._is_showing = Flag()  # whether layers are being given what they are to show
        self._is_closed = False
        self._in_stroke: set[Layer] = set()  # that are being painted
        self.has_slices = False  # whether there are slices beside 3-D, to paint in
        # After changes by scripts the only event is a redraw.
        self._check = delayed(None, CHECK_MS, self.compare)

    @property
    def states(self) -> tuple[RegionState, ...]:
        return self.document.now.bundle.regions

    @property
    def entries(self) -> list[Entry]:
        return [self._known[state.id] for state in self.states if state.id in self._known]

    def frozen(self, bundle: BundleState | None = None) -> list[tuple[RegionState, Region]]:
        """Return the regions in use, as they were added: not empty, not inactive.

        Of the active bundle, or another.
        """
        self.take_note()
        states = self.states if bundle is None else bundle.regions
        active = [state for state in states if not state.is_inactive]
        return [(state, region) for state in active for region in self.regions_of(state)]

    def take_note(self) -> None:
        """Take up at once what a script changed in labels; it is another state of the bundle."""
        if self._check.isActive():
            self.compare()

    def regions_of(self, state: RegionState) -> list[Region]:
        """Return the regions of a state: one a sphere or label layer, none where all is empty."""
        if state in self._regions_by_state:
            return self._regions_by_state[state]
        if state.initial is not None:
            regions = [dataclasses.replace(state.initial, role=state.role, name=state.name)]
        else:
            layer: Any = self._known[state.id].layer if state.id in self._known else None
            if state.painted is not None and self._written.get(layer) is not state:
                layer = Labels(  # in the place of the region's, which shows another one now
                    state.painted.written(np.asarray(layer.data)),
                    **{n: getattr(layer, n) for n in ("scale", "translate", "affine", "metadata")},
                )
            regions = list(make_regions(state, layer, self.space))
        self._regions_by_state[state] = regions
        return regions

    def of(self, entry: Entry) -> list[Region]:
        return self.regions_of(entry.state)

    # -- adding and removing -------------------------------------------------------------------

    def add_labels(
        self,
        layer: Layer,
        role: str = "include",
        label: int | None = None,
        *,
        is_inactive: bool = False,
    ) -> Entry:
        """Make a region of a labels layer; an inactive one is used once it is touched.

        Raises InvalidRegionError when the layer is not 3-D.
        """
        if not isinstance(layer, Labels) or layer.ndim != 3 or layer.multiscale:
            raise InvalidRegionError(
                f"The layer {layer.name!r} cannot be a region; choose a 3-D labels layer."
            )
        see_within(layer)
        place(layer, self.space)
        move_below(self.viewer.layers, layer, is_above_volumes)
        painted = Painted.of(np.asarray(layer.data)) if layer.metadata.get(PAINTED_KEY) else None
        others = self._entries_of(layer)
        holder = others[0].holder if others else Holder(layer)
        return self._add(holder, role, is_inactive, label=label, painted=painted)

    def _add(self, holder: Holder, role: str, is_inactive: bool, **values: Any) -> Entry:
        number, name = self.document.new_id(), str(holder.layer.name)
        entry = Entry(holder, RegionState(number, name, role, is_inactive=is_inactive, **values))
        self._know(entry)
        self._written[entry.layer] = entry.state
        self.document.act(f"Add region {name}", acts.add_region(entry.state))
        return entry

    def add_painting(self, role: str = "include") -> Entry:
        """Make an empty labels layer on the FOD's grid and choose its brush.

        Raises InvalidRegionError when there is no FOD.
        """
        grid = self.space.grid
        if grid is None:
            raise InvalidRegionError("There is no FOD to paint on; open one or choose its layer.")
        nothing = np.ascontiguousarray(self.space.volume(np.zeros(grid.shape, np.uint8)))
        layer = Labels(nothing, name="Region", opacity=PAINTED_OPACITY, **self.space.layer_kwargs)
        layer.metadata[PAINTED_KEY] = True
        self.viewer.layers.insert(self._ceiling(layer), layer)
        entry = self.add_labels(layer, role)
        layer.brush_size = 5
        self.paint(entry)
        return entry

    def add_region(self, region: Region) -> Entry:
        """Make a sphere or a painted layer of a region that was made elsewhere."""
        number = self.document.new_id()
        state = RegionState(number, region.name, region.role, initial=region)
        self.document.act(f"Add region {region.name}", acts.add_region(state))
        return self._known[number]

    def paint(self, entry: Entry) -> None:
        """Select the labels layer of a region and choose its brush."""
        self.viewer.layers.selection.active = entry.layer
        if not self.has_slices:
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
        is_inactive: bool = False,
    ) -> Entry:
        """Make a sphere around a display position, (z, y, x) mm.

        An inactive one is used once it is moved, resized, given a role, or all are used.
        """
        layer = self._sphere_layer("Sphere", np.asarray(centre_zyx, dtype=float)[None], radius_mm)
        return self._add(Holder(layer), role, is_inactive, spheres=spheres_in(layer, self.space))

    def _sphere_layer(
        self, name: str, centres: Any = (), radius_mm: float = SPHERE_RADIUS_MM
    ) -> Spheres:
        layer = Spheres(np.reshape(centres, (-1, 3)), radius_mm, space=self.space, name=name)
        layer.metadata[SPACE_KEY] = self.space
        self._insert(layer)
        return layer

    def remove(self, *entries: Entry) -> None:
        """Remove regions, with their layers; but a layer that was not made for one stays."""
        one = entries[0].state.name if len(entries) == 1 else ""
        text = f"region {one}" if one else plural(len(entries), "region")
        change = acts.remove_regions([entry.id for entry in entries])
        self.document.act(f"Remove {text}", change)

    def remove_layer(self, layer: Layer) -> None:
        """Remove all regions of a layer, which may have been removed from the viewer."""
        if not self._is_showing:
            change = acts.remove_regions([entry.id for entry in self._entries_of(layer)])
            self.document.act(f"Remove region {layer.name}", change)

    def forget(self, numbers: Iterable[int]) -> None:
        """Let go of regions by their ids."""
        for number in numbers:
            self._known.pop(number, None)

    # -- changing ------------------------------------------------------------------------------

    def set_role(self, entry: Entry, role: str) -> None:
        """Give a region a role; it becomes active."""
        if role != entry.role or entry.is_inactive:
            self._use(f"{entry.state.name}: {role}", [entry.id], role=role)

    def activate_all(self) -> None:
        """Use all regions."""
        inactive = [state.id for state in self.states if state.is_inactive]
        if inactive:
            self._use("Use all regions", inactive)

    def choose_between(self, one: Entry, other: Entry) -> None:
        """Choose two regions to track between."""
        ends = one.id, other.id

        def act(now: Snapshot) -> Snapshot:
            now = now.replace(between=ends)
            if one.is_inactive or other.is_inactive:
                now = acts.change_regions(ends, is_inactive=False)(now)
            return now

        self.document.act(f"From {one.state.name} to {other.state.name}", act)

    def set_label(self, entry: Entry, label: int | None) -> None:
        """Take one label of the layer, or all that are not zero."""
        text = f"{entry.state.name}: {'any label' if label is None else f'label {label}'}"
        self._use(text, [entry.id], key=("label", entry.id), label=label)

    def set_radius(self, entry: Entry, radius_mm: float) -> None:
        """Give the spheres of a layer another radius, mm."""
        spheres = entry.state.spheres.copy()
        spheres[:, 3] = radius_mm
        text = f"Radius of {entry.state.name}"
        self._use(text, [entry.id], key=("radius", entry.id), spheres=spheres)

    def set_rule(self, rule: str) -> None:
        self.document.act(f"Include regions: {rule}", acts.change(rule=rule))

    def _use(self, text: str, numbers: Sequence[int], *, key: Any = None, **values: Any) -> None:
        """Give regions other values; those that were not in use are, from now on."""
        self.document.act(text, acts.change_regions(numbers, is_inactive=False, **values), key=key)

    # -- showing -------------------------------------------------------------------------------

    def show(self, now: Snapshot) -> None:
        """Show the regions of the active bundle, and no others.

        Layers that were made for regions go from bundle to bundle, as far as there are enough:
        that is quicker than to put others in, and the list of layers stays short.
        """
        shown, self._shown = self._shown, now.bundle.regions
        if shown is self._shown:
            return
        ids, ids_before = ({state.id for state in states} for states in (self._shown, shown))
        with self._is_showing:
            placed = {self._known[n].holder for n in ids & ids_before if n in self._known}
            in_use = {holder.layer for holder in placed}
            free = self._put_away([n for n in ids_before - ids if n in self._known], in_use)
            for state in self._shown:
                self._show(state, free, placed, is_new=state.id not in ids_before)
            for layer in free:
                remove_at_once(self.viewer, layer)
            self._colour()
        self.list_changed.emit()

    def _put_away(self, numbers: Iterable[int], in_use: set[Layer]) -> list[Layer]:
        """Return the layers of regions that are shown no more, for others to take."""
        free: dict[Layer, None] = {}
        for number in numbers:
            entry = self._known[number]
            layer = entry.layer
            if is_own(layer) and layer not in in_use and layer in self.viewer.layers:
                entry.was_visible = layer.visible
                free[layer] = None
        return list(free)

    def _show(
        self, state: RegionState, free: list[Layer], placed: set[Holder], *, is_new: bool
    ) -> None:
        entry = self._known.get(state.id)
        if entry is None:
            entry = self._first_shown(state, free)
        elif is_new and is_own(entry.layer):
            self._give_layer(entry, free, placed)
        elif entry.layer not in self.viewer.layers:
            self._insert(entry.layer)
        state = self._settled(state)
        entry.state, layer = state, entry.layer
        before = self._written.get(layer)
        self._written[layer] = state
        if layer.name != state.name:
            layer.name = state.name
        if isinstance(layer, Spheres):
            is_elsewhere = layer.metadata.get(SPACE_KEY) != self.space
            if before is None or state.spheres is not before.spheres or is_elsewhere:
                self._show_spheres(layer, state.spheres, entry.colour)
        elif state.painted is not None and (before is None or state.painted is not before.painted):
            layer.data = state.painted.written(np.asarray(layer.data))

    def _give_layer(self, entry: Entry, free: list[Layer], placed: set[Holder]) -> None:
        """Find a layer for a region that comes into view: its own, or a free one like it."""
        holder = entry.holder
        if holder in placed:  # with another region of the same painting
            return
        own, taken = holder.layer, {other.layer for other in placed}
        fits = [layer for layer in free if _is_like(layer, own)]
        if own in free or (own in self.viewer.layers and own not in taken):
            layer = own
        elif fits:
            layer = fits[0]
        else:
            layer = self._copy_of(own) if own in taken else own
            if layer not in self.viewer.layers:
                self._insert(layer)
        if layer in free:
            free.remove(layer)
        holder.layer = layer
        placed.add(holder)
        if layer.visible != entry.was_visible:
            layer.visible = entry.was_visible

    def _copy_of(self, layer: Layer) -> Layer:
        if isinstance(layer, Spheres):
            return self._sphere_layer(str(layer.name))
        created = Layer.create(*layer.as_layer_data_tuple())
        created.data = np.zeros_like(layer.data)
        self._listen(created)
        return created

    def _first_shown(self, state: RegionState, free: list[Layer]) -> Entry:
        """Show a region that came as data; it is from now on what its layer says."""
        initial, layer = state.initial, None
        held: dict[str, Any] = {}
        if initial is None or initial.center_mm is not None:
            fits = [each for each in free if isinstance(each, Spheres)]
            if fits:
                layer = fits[0]
                free.remove(layer)
                if not layer.visible:  # set again, all layers would be put in order
                    layer.visible = True
            else:
                layer = self._sphere_layer(state.name)
            if initial is not None and initial.center_mm is not None:
                spheres = np.array([[*initial.center_mm, initial.radius_mm]])
                self._show_spheres(layer, spheres)
                held = {"spheres": spheres}  # which are exact, where layers round
        else:
            layer = painted_layer(initial)
            self._insert(layer)
            held = {"painted": Painted.of(np.asarray(layer.data))}
        entry = Entry(Holder(layer), dataclasses.replace(state, initial=None, **held))
        entry.first = entry.state
        if initial is not None:
            self._written[layer] = entry.state
        self._know(entry)
        return entry

    def _settled(self, state: RegionState) -> RegionState:
        """Return a region that came as data as what its layer holds of it."""
        entry = self._known.get(state.id)
        if state.initial is None or entry is None or entry.first is None:
            return state
        if state not in self._settled_of:  # one for all snapshots, which are compared
            held = entry.first
            self._settled_of[state] = dataclasses.replace(
                state, initial=None, spheres=held.spheres, painted=held.painted
            )
        return self._settled_of[state]

    def settled(self, now: Snapshot) -> Snapshot:
        """Return a snapshot in which regions that came as data are those of their layers."""
        for number, state in now.bundles.items():
            if any(region.initial is not None for region in state.regions):
                regions = tuple(map(self._settled, state.regions))
                now = now.replace(number, regions=regions, source=state.source)
        return now

    def _show_spheres(self, layer: Spheres, spheres: NDArray[np.float64], colour: str = "") -> None:
        if layer.metadata.get(SPACE_KEY) != self.space:
            layer.metadata[SPACE_KEY] = layer.space = self.space
        size = 2 * spheres[:, 3] * self.space.per_mm
        with listed_once(self.viewer, layer), sliders_kept(self.viewer, layer):
            quiet = getattr(layer, "_block_refresh", nullcontext)
            with quiet(), layer.events.face_color.blocker():  # drawn once, with all
                layer.data = self.space.shown_at(spheres[:, :3])
                layer.size = size
                if colour:
                    layer.colour = colour
            layer.refresh()

    def show_in(self, space: DisplaySpace) -> None:
        """Show spheres, which stay where they are in RAS+ mm, in another space."""
        self.space = space
        self._regions_by_state.clear()
        with self._is_showing:
            for entry in self.entries:
                if isinstance(entry.layer, Spheres):
                    self._show_spheres(entry.layer, entry.state.spheres)

    def _colour(self) -> None:
        """Give each layer the colour of its first region."""
        colours = {entry.layer: entry.colour for entry in reversed(self.entries)}
        for layer, colour in colours.items():
            if isinstance(layer, Spheres):
                layer.colour = colour
            elif layer.metadata.get(PAINTED_KEY):
                layer.colormap = label_colours(colour)

    @property
    def opened_labels(self) -> list[Layer]:
        """The labels layers of regions, of all bundles, that were not made for them."""
        layers = {entry.layer for entry in self._known.values()}
        return [layer for layer in layers if not is_own(layer) and layer in self.viewer.layers]

    @property
    def spheres(self) -> list[Spheres]:
        """The layers of spheres, the uppermost first."""
        ours = {entry.layer for entry in self.entries}
        return [x for x in reversed(self.viewer.layers) if x in ours and isinstance(x, Spheres)]

    # -- layers --------------------------------------------------------------------------------

    def _know(self, entry: Entry) -> None:
        """Take up a region with the layer that shows it."""
        self._listen(entry.layer)
        self._known[entry.id] = entry

    def _listen(self, layer: Layer) -> None:
        """Listen to a layer, once."""
        if layer in self._heard:
            return
        events = layer.events
        pairs: list[tuple[Any, Any]] = [(events.name, self._on_name), (events.data, self._on_data)]
        if isinstance(layer, Labels):
            pairs += [(events.paint, self._on_data), (events.labels_update, self._on_data)]
            pairs += [(events.set_data, self._on_drawn), (events.affine, self._on_moved)]
        else:
            pairs.append((events.size, self._on_data))
        self._heard[layer] = Listening(*pairs)
        self._heard[layer].open()
        if layer.metadata.get(PAINTED_KEY):
            layer.mouse_drag_callbacks.append(self._on_stroke)

    def open(self) -> None:
        """Listen to the layers that there are, after :meth:`close`."""
        for overlay in self.viewer.canvas.overlays.values():
            if isinstance(overlay, BrushCircleOverlay):
                # Else napari 0.9 draws one as soon as a layer comes or goes while the brush is in
                # use, and on without it; some drivers of OpenGL end the process over that.
                overlay.box = False
        if self._is_closed:
            self._is_closed = False
            for layer in {entry.layer for entry in self._known.values()}:
                self._listen(layer)

    def reread_layers(self) -> None:
        """Take up what was done to layers while nothing listened."""
        for layer in {entry.layer for entry in self.entries}:
            if layer in self.viewer.layers:
                self._take(layer)
            else:
                self.remove_layer(layer)

    def close(self) -> None:
        """Stop listening to layers; the regions stay in them."""
        self._check.stop()
        self._is_closed = True
        for layer, listening in list(self._heard.items()):
            listening.close()
            if self._on_stroke in layer.mouse_drag_callbacks:
                layer.mouse_drag_callbacks.remove(self._on_stroke)
        self._heard.clear()

    def _insert(self, layer: Layer) -> None:
        insert_beside(self.viewer, layer, self._ceiling(layer))

    def _ceiling(self, layer: Layer) -> int:
        """Return where the lowest layer is that one of regions stays below: spheres below seeds."""
        if isinstance(layer, Spheres):
            return index_of_lowest(self.viewer.layers, lambda other: SEEDS_KEY in other.metadata)
        return index_of_lowest(self.viewer.layers, is_above_volumes)

    def _entries_of(self, layer: Layer) -> list[Entry]:
        """Return the regions of a layer: of the active bundle, and of all where they share it."""
        entries = self.entries if is_own(layer) else self._known.values()
        return [entry for entry in entries if entry.layer is layer]

    def _on_name(self, event: Any) -> None:
        entries = self._entries_of(event.source)
        if entries and not self._is_showing:
            before, name = entries[0].state.name, str(event.source.name)
            change = acts.change_regions([entry.id for entry in entries], name=name)
            self.document.act(f"Rename {before} to {name}", change)

    def _on_data(self, event: Any) -> None:
        action = getattr(event, "action", None)
        if isinstance(action, ActionType) and not action.value.endswith("ed"):
            return  # before the change; there is another event after it
        if not self._is_showing:
            self._take(event.source)

    def _take(self, layer: Layer) -> None:
        """Make an act of what was done to the layer of regions."""
        entries = self._entries_of(layer)
        if not entries:
            return
        numbers, name = [entry.id for entry in entries], str(layer.name)
        if isinstance(layer, Spheres):
            spheres = spheres_in(layer, self.space)
            (entry,) = entries
            before = entry.state.spheres
            if spheres.shape == before.shape and np.allclose(spheres, before, rtol=0, atol=1e-3):
                return
            # It is there already.
            entry.state = self._written[layer] = dataclasses.replace(entry.state, spheres=spheres)
            self._use(f"Move region {name}", numbers, spheres=spheres)
        elif not layer.metadata.get(PAINTED_KEY):  # what napari's own undo takes back
            self.document.amend(acts.change_regions(numbers, is_inactive=False))
        elif self.document.is_held and layer in self._in_stroke:
            # Read at the end of the stroke; until then only that it is another.
            self._use(f"Paint {name}", numbers)
        else:
            self._take_painted(layer, entries)

    def _take_painted(self, layer: Layer, entries: Sequence[Entry]) -> None:
        painted = Painted.of(np.asarray(layer.data))
        if all(painted.equals(entry.state.painted) for entry in entries):
            return
        for entry in entries:
            entry.state = self._written[layer] = dataclasses.replace(entry.state, painted=painted)
        self._use(f"Paint {layer.name}", [entry.id for entry in entries], painted=painted)

    def _on_stroke(self, layer: Layer, event: Any) -> Iterator[None]:
        """Make one act of a stroke of the brush, from press to release."""
        if layer.mode in TOOLLESS:
            return
        self.begin_stroke(layer)
        yield
        while event.type == "mouse_move":
            yield
        self.end_stroke(layer)

    def begin_stroke(self, layer: Layer) -> None:
        """Take what is painted from now on as one act."""
        if layer.metadata.get(PAINTED_KEY):  # others have napari's own undo
            self._in_stroke.add(layer)
            self.document.hold()

    def end_stroke(self, layer: Layer) -> None:
        """End what :meth:`begin_stroke` began."""
        if layer in self._in_stroke:
            self._in_stroke.discard(layer)
            self._take_painted(layer, self._entries_of(layer))
            self.document.release()

    def _on_moved(self, event: Any) -> None:
        """Take up the transform of a layer, which its regions go with."""
        numbers = [entry.id for entry in self._entries_of(event.source)]
        if numbers and not self._is_showing:
            self.document.amend(acts.change_regions(numbers, is_inactive=False))

    def _on_drawn(self, _event: Any) -> None:
        if not self._is_showing:
            self._check.start()

    def compare(self) -> None:
        """Check whether labels were changed without an event, as by a script in place."""
        self._check.stop()
        for layer in {entry.layer for entry in self.entries if isinstance(entry.layer, Labels)}:
            entries = [] if layer in self._in_stroke else self._entries_of(layer)
            if layer.metadata.get(PAINTED_KEY):
                self._take_painted(layer, entries)
                continue
            for entry in entries:
                before = self._regions_by_state.pop(entry.state, None)
                if before is not None and not same_regions(before, self.of(entry)):
                    self.document.amend(acts.change_regions([entry.id]))


def _is_like(one: Layer, other: Layer) -> bool:
    """Return whether a layer that was made for a region can show another's."""
    if isinstance(other, Spheres):
        return isinstance(one, Spheres)
    return (
        isinstance(one, Labels)
        and one.data.shape == other.data.shape
        and one.data.dtype == other.data.dtype
        and np.allclose(one.scale, other.scale)
        and np.allclose(one.translate, other.translate)
        and np.array_equal(one.metadata.get("affine", ()), other.metadata.get("affine", ()))
    )
