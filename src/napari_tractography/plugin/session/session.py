"""The window's end of the document: layers show the snapshot of now, and what is done is an act.

:class:`Session` reconciles the layers of one viewer with the document, and turns what comes from
them, from the mouse and from the panel into acts. It knows no widget and starts no run:
:mod:`.run_control` carries out requests and brings results here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import zlib
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from napari.components import LayerList
from napari.layers import Image, Layer, Points
from numpy.typing import NDArray
from psygnal import Signal

from ...errors import (
    InvalidFodError,
    InvalidMaskError,
    InvalidParameterError,
    InvalidSeedsError,
    InvalidTissuesError,
    TractographyError,
)
from ...maps.angles import Axis
from ...model.fod import Fod
from ...model.regions import Region
from ...model.seeding_parameters import ACCEPTED, EVERY_VOXEL, SeedingParameters
from ...model.tissues import Tissues, check_tissues
from ...streamlines.tractogram import Tractogram
from ...tracking.execution import Execution, Runner
from .. import acts
from ..document import (
    TRACKED_WITH,
    BundleState,
    Document,
    LayerRef,
    PlacedSeeds,
    RegionState,
    Result,
    Snapshot,
)
from ..flag import Flag
from ..layers.fod_opening import FodOpening
from ..layers.layer_watch import LayerWatch
from ..layers.on_volume import is_in_front
from ..layers.tissue_layers import tissue_layers, tissues_of
from ..layers.volume_layers import (
    fod_grid_of,
    fod_mask_of,
    fod_of,
    frame_of,
    is_map,
    mask_layers,
    opening_of,
    place,
    see_within,
    voxels_of,
)
from ..listening import Listening
from ..requests import Request
from ..run_seeding import SeedBetween, Seeding, SeedVoxels
from ..space.display import DisplaySpace
from ..space.extent import slices_kept, sliders_kept
from ..space.layer_list import index_of_lowest, insert_beside
from ..streamlines.colours import DEFAULT_MODE, ONE_COLOUR, rgba_of
from ..streamlines.layer import Streamlines
from ..timers import delayed
from ..words import plural
from .open_bundle import BUNDLE_KEY, Arriving, OpenBundle
from .region_layers import Regions
from .seed_layer import SeedLayer
from .tracking_values import TrackingValues
from .wanted import ends_of, frozen_seeding, tracked_between

# What is chosen for a bundle: the act of choosing no layer, and of one, which is named after it.
CHOSEN_TEXTS = {
    "mask": ("Track without a mask", "Track in the mask"),
    "seed_mask": ("No seed mask", "Start in"),
    "tissues": ("Track without tissues", "Track with tissues"),
}
INPUTS = ("fod", *CHOSEN_TEXTS)  # fields of a bundle's state, by their layers
SEEDED_IN_MASK = ("mask", EVERY_VOXEL)  # sources of seeds
# Attribute of a viewer's list of layers: what is open in that viewer.
KEPT = "_napari_tractography"


def open_in(viewer: Any) -> tuple[Document, dict[int, OpenBundle], Regions]:
    """Return what is open in a viewer: a panel that was closed leaves it to the next one.

    The viewer has it and nobody else, as it leads to the viewer: a dictionary by viewers, even a
    weak one, would keep all of them, and their streamlines.
    """
    held = vars(viewer.layers)
    if KEPT not in held:
        document = Document()
        held[KEPT] = document, {}, Regions(viewer, document)
    found: tuple[Document, dict[int, OpenBundle], Regions] = held[KEPT]
    return found


def let_go(layers: LayerList) -> None:
    """Let go of what was open in the viewer of these layers, whose window is gone."""
    vars(layers).pop(KEPT, None)


class Session:
    """What is open in one viewer."""

    changed = Signal()  # what would be tracked: FOD, seeds, regions, masks or parameters
    released = Signal()  # the mouse let go of a seed or a sphere that it moved
    seeds_changed = Signal()
    parameters_suited = Signal()  # to another FOD: values that were not set may have changed
    adding_seeds = Signal()  # seeds are about to be placed
    layer_created = Signal(object)  # Streamlines, for the results
    edited = Signal()  # the active result: streamlines were kept, deleted or brought back
    result_changed = Signal(object)  # OpenBundle: it has other streamlines
    list_changed = Signal()  # the list of bundles, or something in a row
    activated = Signal(object)  # OpenBundle
    closed = Signal(object)  # OpenBundle that is no longer in the list
    styled = Signal()  # all bundles at once, not by the controls of the active one
    travelled = Signal()  # by undo or redo: whatever is shown of the active bundle may differ

    def __init__(self, viewer: Any) -> None:
        self.viewer = viewer
        self._is_open = False
        self._is_showing = Flag()  # whether layers are being given what they are to show
        self._is_outdated = False  # whether the document changed meanwhile
        self.is_inserting = Flag()  # or removing a layer, which is no act of a person
        self.document, self._bundles, self.regions = open_in(viewer)
        self._there = set[int]()  # ids of bundles and regions that were there, or in any step
        self._shown = Snapshot({}, -1)
        self._followed: FodOpening | None = None  # of the FOD that is chosen
        self._watches = {n: LayerWatch(partial(self._on_mask, n)) for n in ("mask", "seed_mask")}
        self._tissues: WeakKeyDictionary[Layer, Tissues] = WeakKeyDictionary()
        self.seeds = SeedLayer(viewer)
        # The layer tells that its last seed goes while napari is still at it.
        self._seeds_gone = delayed(None, 0, self._take_out_seeds)
        # Of the FOD chosen last: where seeds, regions and streamlines are shown.
        self.space = self.regions.space if self.seeds.layer is None else self.seeds.space
        # Which tracking parameters of the active bundle a person chose, and the last of them that
        # were possible, with which a run is tracked.
        self.tracking = TrackingValues()
        self.parameters = self.tracking.parameters()
        self.backend: str | Runner = "auto"  # of the full run, see tracking.inputs.Execution
        self.n_threads: int | None = None
        layer_events = viewer.layers.events
        self._listening = Listening(
            (self.document.changed, self._show),
            (self.document.history_changed, self.forget_closed),
            (layer_events.removed, self._on_layer_removed),
            (layer_events.reordered, self._on_reordered),
        )
        self.seeds.layer_changed.connect(self.seeds_changed.emit)
        self.seeds.taken.connect(self._on_seeds)
        self.released.connect(self.document.release)
        self._show()

    def open(self) -> None:
        """Listen to the viewer, and take up what was done while nothing listened."""
        self._is_open = True
        self._listening.open()
        layers = self.viewer.layers
        self._follow_opening()
        self.seeds.open()
        self.regions.open()
        for bundle in list(self._bundles.values()):
            if bundle.layer is not None:
                self._listen_to(bundle, bundle.layer)
                if bundle.is_shown and bundle.layer not in layers:
                    self._lose_layer(bundle)
        if not self.seeds.holds(self.state.seeds):
            self.document.amend(acts.change(seeds=self.seeds.read()))
        self.regions.reread_layers()
        self._show()

    def close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self.document.release()
        self._listening.close()
        self.seeds.close()
        self.regions.close()
        for bundle in self._bundles.values():
            bundle.listening.close()
        for watch in self._watches.values():
            watch.layer = None
        if self._followed is not None:
            self._followed.ended.disconnect(self._on_opening_ended)
            self._followed = None

    # -- bundles -------------------------------------------------------------------------------

    @property
    def state(self) -> BundleState:
        return self.document.now.bundle

    @property
    def bundle(self) -> OpenBundle:
        return self.open_bundle(self.document.now.active)

    @property
    def bundles(self) -> list[OpenBundle]:
        return [self.open_bundle(number) for number in self.document.now.bundles]

    def open_bundle(self, number: int) -> OpenBundle:
        """Return a bundle by its id; the same one each time."""
        if number not in self._bundles:
            self._bundles[number] = OpenBundle(self.document, number)
        return self._bundles[number]

    # -- showing the document ------------------------------------------------------------------

    def _show(self) -> None:
        """Let all layers show the snapshot of now, and emit what differs from the last one."""
        self._is_outdated = True
        if self._is_showing:
            return  # the call that is under way shows the newer one
        while self._is_outdated:
            self._is_outdated = False
            before, self._shown = self._shown, self.document.now
            with self._is_showing, self.is_inserting:
                signals = self._show_layers(before, self._shown)
            for signal in signals:
                signal()

    def _show_layers(self, before: Snapshot, now: Snapshot) -> list[Any]:
        """Give layers what differs; return the signals to emit then."""
        signals: list[Any] = []
        is_other = before.active != now.active
        old, state = before.bundles.get(before.active), now.bundle
        # Another FOD, first: all that is shown lies in its space.
        has_moved = (old is None or state.fod is not old.fod) and self._show_fod()
        for name, watch in self._watches.items():
            if old is None or getattr(state, name) is not getattr(old, name):
                watch.layer = see_within(self._layer_of(getattr(state, name)))
        for number, each in now.bundles.items():
            known = before.bundles.get(number)
            if each is not known:
                by_panel = number == before.active == now.active  # whose controls give the style
                signals += self._show_streamlines(number, known, each, by_panel=by_panel)
        for number in before.bundles:
            if number not in now.bundles:
                bundle = self.open_bundle(number)
                self._take_out(bundle)
                signals.append(partial(self.closed.emit, bundle))
        if list(before.bundles) != list(now.bundles):
            self._order_layers()
        seeds_differ = self.seeds.show(state.seeds)
        if self.document.is_travelling:
            self._take_out_seeds()  # as it was before the first one
        elif seeds_differ or (old is not None and state.seeds is not old.seeds):
            self._seeds_gone.start()
        self.regions.show(now)
        self.document.amend(self.regions.settled)
        if self.document.now is not now:  # which changes nothing that is tracked or shown
            now = self._shown = self.document.now
            state, self._is_outdated = now.bundle, False
            self.regions.show(now)
        if is_other or old is None or _differ(state, old, ("fod", "tissues", "chosen")):
            self._suit()
            signals.append(self.parameters_suited.emit)
        if is_other and old is not None:
            signals.append(partial(self.activated.emit, self.open_bundle(now.active)))
        elif self.document.is_travelling:
            signals.append(self.travelled.emit)
        are_other = old is not None and state.seeds is not old.seeds
        if is_other or has_moved or seeds_differ or are_other:
            signals.append(self.seeds_changed.emit)
        if old is not None and not is_other and _is_tracked_otherwise(state, old):
            signals.append(self.changed.emit)
        if is_other or _rows_differ(before, now):
            signals.append(self.list_changed.emit)
        return signals

    def _show_streamlines(
        self, number: int, before: BundleState | None, now: BundleState, *, by_panel: bool = False
    ) -> list[Any]:
        """Let the layer of a bundle show its result; return the signals to emit then."""
        bundle = self.open_bundle(number)
        signals: list[Any] = []
        if now.result is None and bundle.arriving is None:
            self._take_out(bundle)
            bundle.shown = (None, None)
        elif now.result is not None and bundle.arriving is None:
            layer = self.ensure_streamlines_layer(bundle)
            if bundle.shown != (now.result, now.edits):
                with sliders_kept(self.viewer, layer):
                    layer.editor.show(now.result.whole, now.edits)
                layer.reference = now.result.grid or layer.reference
                bundle.shown = now.result, now.edits
        shown = bundle.streamlines_layer
        if shown is not None:
            _set(shown, name=now.name, visible=now.is_visible)
            if before is not None and now.style is not before.style and not by_panel:
                give_style(shown, now, before.style)
        if before is not None and before.tractogram is not now.tractogram:
            signals.append(partial(self.result_changed.emit, bundle))
            one, other = (state.result and state.result.request for state in (before, now))
            if number == self.document.now.active and now.result and one is other:
                signals.append(self.edited.emit)
        return signals

    def _take_out(self, bundle: OpenBundle) -> None:
        """Take the layer of a bundle out of the viewer; it comes back with its streamlines."""
        layer = bundle.streamlines_layer
        bundle.is_shown = False
        if layer is not None and layer in self.viewer.layers:
            with self.is_inserting:
                self.viewer.layers.remove(layer)

    def _order_layers(self) -> None:
        """Draw the streamlines in the order of the list, the last one on top."""
        layers = self.viewer.layers
        positions = {layer: index for index, layer in enumerate(layers)}
        wanted = [b.layer for b in self.bundles if b.is_shown and b.layer in positions]
        for index, layer in zip(sorted(positions[x] for x in wanted), wanted, strict=True):
            if layers[index] is not layer:
                layers.move(layers.index(layer), index)

    # -- layers of streamlines -----------------------------------------------------------------

    @property
    def streamlines_layer(self) -> Streamlines | None:
        """The layer of the active bundle's streamlines."""
        return self.bundle.streamlines_layer

    def ensure_streamlines_layer(self, bundle: OpenBundle | None = None) -> Streamlines:
        """Return the layer of a bundle's streamlines, a new one below what is in front."""
        bundle = bundle or self.bundle
        layer = bundle.layer
        if layer is None:
            layer = Streamlines(space=self.space, name=bundle.name)
            self._listen_to(bundle, layer)
            bundle.shown = (None, None)
            self._insert(bundle, layer)
            self.layer_created.emit(layer)
        elif not bundle.is_shown:
            _set(layer, space=self.space)
            self._insert(bundle, layer)
        return layer

    def _insert(self, bundle: OpenBundle, layer: Streamlines) -> None:
        """Insert a layer below those of the bundles after its own, and below what is in front.

        But above the volumes, below which a person may have moved those: they would hide it.
        """
        bundles = self.bundles
        later = bundles[bundles.index(bundle) + 1 :] if bundle in bundles else []
        above = {each.layer for each in later if each.is_shown}
        with self.is_inserting:
            layers = self.viewer.layers
            at = index_of_lowest(layers, lambda x: is_in_front(x) or x in above)
            volumes = (i for i, x in enumerate(layers) if isinstance(x, Image) and x.visible)
            insert_beside(self.viewer, layer, max(at, 1 + max(volumes, default=-1)))
            bundle.is_shown = True
            self._order_layers()

    def _listen_to(self, bundle: OpenBundle, layer: Streamlines) -> None:
        """Follow edits, name and eye of the layer of a bundle."""
        bundle.layer = layer
        layer.metadata[BUNDLE_KEY] = bundle
        layer.editor.history = self.document
        layer.editor.edited.disconnect()  # from a session that was closed
        layer.editor.edited.connect(partial(self._on_edited, bundle))
        bundle.listening = Listening(
            (layer.events.name, self._on_name),
            (layer.events.visible, self._on_visible),
            (layer.events.tractogram, self._on_replaced),
        )
        bundle.listening.open()

    def prepare(self, state: BundleState, layer: Streamlines | None = None) -> OpenBundle:
        """Return a bundle that is not in the list yet, with the layer that shows its streamlines.

        The layer shows the state's streamlines, edited as they are; by default one is made.
        """
        number = self.document.new_id()
        bundle = self._bundles[number] = OpenBundle(self.document, number, state)
        if layer is not None:
            self._listen_to(bundle, layer)
            bundle.shown = state.result, state.edits
            bundle.is_shown = layer in self.viewer.layers
        return bundle

    def of_layer(self, layer: Layer | None) -> OpenBundle | None:
        """Return the bundle whose streamlines a layer shows."""
        return next((b for b in self.bundles if b.is_shown and b.layer is layer), None)

    def _on_name(self, event: Any) -> None:
        bundle = self.of_layer(event.source)
        name = str(event.source.name).strip()
        if bundle is not None and name and name != bundle.name and not self._is_showing:
            self.document.act(f"Rename {bundle.name} to {name}", acts.change(bundle.id, name=name))

    def _on_visible(self, event: Any) -> None:
        bundle = self.of_layer(event.source)
        if bundle is not None and not self._is_showing:
            bundle.amend(is_visible=bool(event.source.visible), everywhere=True)

    def _on_reordered(self, _event: Any = None) -> None:
        """Take up the order in which a person put layers of streamlines."""
        if not (self.is_inserting or self._is_showing):
            drawn = [bundle.id for bundle in map(self.of_layer, self.viewer.layers) if bundle]
            self.document.act("Order of bundles", acts.reorder(drawn))

    def _on_layer_removed(self, event: Any) -> None:
        layer = event.value
        if self.is_inserting:
            return
        if self.seeds.forget(layer):
            n = len(self.state.seeds)
            if n:
                change = acts.change(seeds=self.seeds.shown)
                self.document.act(f"Remove {plural(n, 'seed')}", change)
        elif isinstance(layer, Streamlines):
            bundle = self.of_layer(layer)
            if bundle is not None:
                self._lose_layer(bundle)
        else:
            self.regions.remove_layer(layer)
            ref = LayerRef.known(layer)
            if ref is not None and ref in [getattr(self.state, name) for name in INPUTS]:
                self._on_input_closed(layer, ref)

    def take_back(self, layer: Streamlines) -> bool:
        """Bring back the streamlines that a layer shows, which a person took out and put back.

        With their bundle, where that went with the layer. Return False where no step has them: a
        bundle whose layer it was then does without it.
        """
        bundle, editor = layer.metadata.get(BUNDLE_KEY), layer.editor
        if not isinstance(bundle, OpenBundle) or bundle.layer is not layer:
            return False  # such as a copy
        states = [
            state
            for number, state in self.document.bundles_of_all_steps()
            if self._bundles.get(number) is bundle
            and state.result is not None
            and (state.result.whole is editor.whole and state.edits is editor.state)
        ]
        if not states:
            bundle.layer = None
            bundle.listening.close()
            return False
        state = states[-1]
        bundle.is_shown, bundle.shown = True, (state.result, state.edits)
        _set(layer, space=self.space)
        shown_by = [bundle if each is layer else self.of_layer(each) for each in self.viewer.layers]
        drawn = [each.id for each in shown_by if each is not None]
        self.document.act(f"Put back {state.name}", acts.put_back(bundle.id, state, drawn))
        return True

    def forget_closed(self) -> None:
        """Let go of bundles, and of layers without streamlines, that no step brings back."""
        states = list(self.document.bundles_of_all_steps())
        there = {number for number, _ in states}
        there |= {region.id for _, state in states for region in state.regions}
        gone, self._there = self._there - there, there
        for number in gone & self._bundles.keys():
            self._bundles.pop(number).listening.close()
        self.regions.forget(gone)
        with_streamlines = {number for number, state in states if state.result is not None}
        for number in (there & self._bundles.keys()) - with_streamlines:
            bundle = self._bundles[number]
            if not bundle.is_shown and bundle.arriving is None:
                bundle.layer = None

    def _lose_layer(self, bundle: OpenBundle) -> None:
        """Do without streamlines whose layer a person has removed."""
        bundle.is_shown, bundle.arriving = False, None
        if len(self.document.now.bundles) > 1 or bundle.state.is_opened:
            self.delete(bundle)
        else:  # seeds and settings stay: Run makes another
            change = acts.change(
                bundle.id, result=None, edits=None, tractogram=None, summary="", source=None
            )
            self.document.act(f"Remove the streamlines of {bundle.name}", change)

    def _on_input_closed(self, layer: Layer, ref: LayerRef) -> None:
        """Track no more: a bundle says what it is tracked in and with, also where that was closed.

        An FOD that was never read is as if it had not been chosen.
        """
        if ref is self.state.fod and fod_of(layer) is None:
            self._take_instead(ref, ref.instead)
            return
        for watch in self._watches.values():
            if watch.layer is layer:
                watch.layer = None
        self._follow_opening()
        self._emit_input_changes()

    def delete(self, bundle: OpenBundle) -> None:
        """Delete a bundle; asks nothing, and is undone."""
        taken = [other.name for other in self.bundles if other is not bundle]
        blank = bundle.state.blank(acts.free_name(taken), bundle.state.colour)
        number = self.document.new_id()
        self.document.act(f"Delete {bundle.name}", acts.delete(bundle.id, (number, blank)))

    # -- what to track in ----------------------------------------------------------------------

    def _layer_of(self, ref: LayerRef | None) -> Layer | None:
        return None if ref is None else ref.layer_in(self.viewer)

    def layer_of(self, name: str) -> Layer | None:
        """Return what the active bundle is tracked in or with, by one of :data:`INPUTS`.

        None without one, and where it was closed.
        """
        return self._layer_of(getattr(self.state, name))

    @property
    def fod_layer(self) -> Layer | None:
        """The layer of what to track in; None without one, and where it was closed."""
        return self.layer_of("fod")

    @property
    def fod(self) -> Fod | None:
        """The chosen FOD; None while it is being read, and where it was closed."""
        return fod_of(self.fod_layer)

    @property
    def closed_fod(self) -> str:
        """What the active bundle was to be tracked in, where that was closed; else ""."""
        known = self.chosen_input("fod")
        return known.name if isinstance(known, LayerRef) else ""

    def chosen_input(self, name: str) -> Layer | LayerRef | None:
        """Return what :meth:`layer_of` does, and of a layer that was closed the reference."""
        layer = self.layer_of(name)
        return getattr(self.state, name) if layer is None else layer

    @property
    def opening(self) -> FodOpening | None:
        """The opening of the chosen FOD while its file is being read."""
        return opening_of(self.fod_layer)

    def choose_fod(self, layer: Layer | None) -> None:
        """Track in the FOD of a layer; seeds and streamlines move into its display space."""
        ref, state = LayerRef.to(layer), self.state
        if ref is state.fod or (layer is None and self.closed_fod):
            return
        if ref is not None and self.closed_fod and ref.is_like(state.fod):
            self._take_instead(state.fod, ref)
        elif self.takes_any_fod:
            number, before = self.document.now.active, state.fod

            def first(now: Snapshot) -> Snapshot:
                known = now.bundles.get(number)
                is_it = known is not None and known.fod is before
                return now.replace(number, fod=ref) if is_it else now

            self.document.amend(first, everywhere=True)  # there is nothing that undo could show
        else:
            if ref is not None and opening_of(layer) is not None:
                ref.instead = state.fod
            text = f"Track in {'nothing' if ref is None else ref.name}"
            self.document.act(text, acts.change(fod=ref))

    def choose(self, name: str, layer: Layer | None) -> None:
        """Track in a mask, start in one, or track with a tissue image, by :data:`INPUTS`.

        None does without. Raises TractographyError when the layer holds no tissue image, or one
        that does not overlap the FOD; then nothing changes.
        """
        ref = LayerRef.to(layer)
        if ref is getattr(self.state, name):
            return
        if name != "tissues":
            place(layer, self.space)
        elif layer is not None:
            tissues = self._tissues[layer] = tissues_of(layer, self.space)
            grid = fod_grid_of(self.fod_layer)
            if grid is not None:
                check_tissues(tissues, grid)
        without, within = CHOSEN_TEXTS[name]
        text = without if layer is None else f"{within} {layer.name}"
        self.document.act(text, acts.change(**{name: ref}))

    def _take_instead(self, closed: LayerRef | None, ref: LayerRef | None) -> None:
        """Track in or with a layer in place of one that was closed, in every bundle; no step."""

        def act(now: Snapshot) -> Snapshot:
            for number, state in now.bundles.items():
                names = [name for name in INPUTS if getattr(state, name) is closed]
                now = now.replace(number, **dict.fromkeys(names, ref), source=state.source)
            return now

        self.document.amend(act, everywhere=True)

    @property
    def takes_any_fod(self) -> bool:
        """Whether an FOD that is opened is taken by itself: none was chosen for what there is."""
        return self.state.fod is None or (bool(self.closed_fod) and self.state.is_blank)

    def reopened(self, name: str, layers: Iterable[Layer]) -> Layer | None:
        """Return the layer that shows one of :data:`INPUTS` which was closed, from the same file.

        None where there is no such layer, or nothing was closed.
        """
        closed = self.chosen_input(name)
        if not isinstance(closed, LayerRef):
            return None
        return next((layer for layer in layers if LayerRef.to(layer).is_like(closed)), None)

    def take_reopened(self) -> None:
        """Track in the masks and with the tissue image that were closed, from the same files."""
        finders = {"mask": mask_layers, "seed_mask": mask_layers, "tissues": tissue_layers}
        for name, layers_of in finders.items():
            again = self.reopened(name, layers_of(self.viewer.layers))
            if again is not None:
                self._take_instead(getattr(self.state, name), LayerRef.to(again))

    def retake_fod(self) -> None:
        """Track in what the chosen layer holds now: another FOD, or one that was computed again."""
        self._show_fod()
        self._emit_input_changes()

    def _emit_input_changes(self) -> None:
        """Tell that something that is tracked in, or with, is another: parameters suit that."""
        self._suit()
        self.parameters_suited.emit()
        self.seeds_changed.emit()
        self.changed.emit()

    def _show_fod(self) -> bool:
        """Move all that is shown into the space of the FOD that is chosen, if there is one."""
        self._follow_opening()
        grid = fod_grid_of(self.fod_layer)
        if grid is not None:
            self._show_in(DisplaySpace.of(grid))
        return grid is not None

    def _show_in(self, space: DisplaySpace) -> None:
        """Show streamlines, seeds and regions, which stay where they are in RAS+ mm, in a space."""
        self.space = space
        for layer in self.viewer.layers:
            if isinstance(layer, Streamlines) and layer.space != space:
                layer.space = space
        with slices_kept(self.viewer):
            self.seeds.show_in(space)
            self.regions.show_in(space)

    def follow_volume(self) -> None:
        """Without an FOD lie on a volume with a known affine: oblique ones are shown untilted."""
        if fod_grid_of(self.fod_layer) is not None:
            return
        space = self.space if self.space.grid is not None else frame_of(self.viewer.layers)
        lines = [layer for layer in self.viewer.layers if isinstance(layer, Streamlines)]
        if space != self.space or any(layer.space.grid is None for layer in lines):
            self._show_in(space)

    def _follow_opening(self) -> None:
        """Learn when the FOD that is chosen has been read, if it is being read, and no other."""
        if self._followed is not None:
            self._followed.ended.disconnect(self._on_opening_ended)
        self._followed = self.opening
        if self._followed is not None:
            self._followed.viewer = self.viewer
            self._followed.ended.connect(self._on_opening_ended)

    def _on_opening_ended(self, opening: FodOpening) -> None:
        if opening.fod is not None and opening.fod is self.fod:
            self._emit_input_changes()

    @property
    def tissues(self) -> Tissues | None:
        return self._tissues_of(self.state)

    def _tissues_of(self, state: BundleState) -> Tissues | None:
        layer = self._layer_of(state.tissues)
        if layer is None:
            return None
        if layer not in self._tissues:
            self._tissues[layer] = tissues_of(layer, self.space)
        return self._tissues[layer]

    def mask_summary(self, name: str) -> str:
        """Return how many voxels "mask" or "seed_mask" has, and whether it is rather a map, or "".

        The mask to track in stands for the one to start in where no other is chosen.
        """
        watch = self._watches[name if self._watches[name].layer else "mask"]
        layer, n = watch.layer, watch.n_inside
        if layer is None:
            return ""
        size = f"{plural(n, 'voxel')}, {100 * n / max(layer.data.size, 1):.3g} % of the volume"
        if is_map(layer):
            return (
                f"{layer.name} has many values, as a map has. All that is not zero counts: {size}. "
                "Open a thresholded one."
            )
        return f"Mask of {size}."

    def _on_mask(self, name: str) -> None:
        """Note that a mask in use was painted, which its layer alone holds."""
        if name == "mask" or self.seed_mask_in_use is self.layer_of(name):
            self.bundle.amend(n_mask_changes=self.state.n_mask_changes + 1)
            self.changed.emit()

    def voxel_checksums(self) -> dict[Layer, int]:
        """Return a checksum of each mask and region whose voxels its layer alone holds.

        A script that changes them in place emits no event; regions that were made here are taken
        up.
        """
        self.regions.compare()
        states = self.document.now.bundles.values()
        masks = [self._layer_of(ref) for state in states for ref in (state.mask, state.seed_mask)]
        layers = {*filter(None, masks), *self.regions.opened_labels}
        return {layer: zlib.crc32(np.ascontiguousarray(layer.data).data) for layer in layers}

    # -- parameters ----------------------------------------------------------------------------

    @property
    def seeding(self) -> SeedingParameters:
        return self.state.seeding

    def values_of(self, state: BundleState) -> TrackingValues:
        """Return which tracking parameters of a bundle were chosen, and what the others suit."""
        fod = fod_of(self._layer_of(state.fod))
        if fod is None and state.result_request is not None:
            fod = state.result_request.fod
        if fod is None and state is self.state:
            fod = self.tracking.fod  # until another has been read
        has_tissues = state.tissues is not None
        try:
            self._tissues_of(state)
        except TractographyError:  # reported when they were chosen, and on Run
            has_tissues = False
        return TrackingValues(fod, has_tissues, state.chosen)

    def _suit(self) -> None:
        """Let the FOD decide the tracking parameters that were not set."""
        self.tracking = self.values_of(self.state)
        with contextlib.suppress(InvalidParameterError):  # reported when it was set, and on Run
            self.parameters = self.tracking.parameters()

    def set_by_hand(self, values: Mapping[str, Any], *, if_possible: bool = False) -> None:
        """Set tracking parameters by name, as a person does: they stay when the FOD changes.

        Where they are impossible tracking continues with those before, and with `if_possible`
        nothing changes; a control keeps what was typed. Raises InvalidParameterError when a value
        is out of range or contradicts another.
        """
        change, key = acts.choose(values), ("parameter", *values)
        if if_possible:
            wanted = change(self.document.now).bundle.chosen
            dataclasses.replace(self.tracking, chosen=wanted).parameters()
        self.document.act(acts.choice_text(values), change, key=key)
        self.tracking.parameters()

    def forget_by_hand(self, names: Collection[str]) -> None:
        """Let the FOD, or the defaults, decide some tracking parameters again.

        Raises InvalidParameterError when what is left contradicts itself.
        """
        self.document.act("Suit the FOD", acts.forget_chosen(names))
        self.tracking.parameters()

    def restore_by_hand(self, values: Mapping[str, Any]) -> None:
        """Choose these values and no others, as they were kept from before; no step."""
        self.document.amend(acts.change(chosen={}))
        self.document.amend(acts.choose(values))
        self.tracking.parameters()

    def set_style(self, label: str, style: Mapping[str, Any], value: str = "") -> None:
        """Let the streamlines of the active bundle look otherwise, as the Display section says.

        The label is that of what was set, and the value, where it is a word, to what.
        """
        if self._is_showing:
            return  # a layer is being given what the document says
        is_colour = bool(style.get("colour")) and label == "Colour"
        colour = style["colour"] if is_colour else self.state.colour
        change = acts.change(style=dict(style), colour=colour)
        self.document.act(f"{label} {value}".rstrip(), change, key=("style", label))

    def colour_each(self, mode: str) -> None:
        """Colour all bundles in one mode, such as each in a colour of its own."""
        is_own = mode == ONE_COLOUR
        text = "A colour for each bundle" if is_own else f"Colour all bundles by {mode}"
        if self.document.act(text, acts.colour_each(mode)):
            self.styled.emit()

    def choose_min_weight(self, least: float) -> None:
        """Show no streamlines of less weight."""
        change = acts.change(min_weight=least)
        self.document.act(f"Least weight {least:g}", change, key="min_weight")

    def set_seeding(self, seeding: SeedingParameters) -> None:
        """Let streamlines start elsewhere, or others."""
        before, now = dataclasses.asdict(self.seeding), dataclasses.asdict(seeding)
        changed = {name: value for name, value in now.items() if value != before[name]}
        text, key = acts.choice_text(changed), ("seeding", *changed)
        self.document.act(text, acts.change(seeding=seeding), key=key)

    # -- seeds ---------------------------------------------------------------------------------

    def add_seed(self, position_zyx: NDArray[np.float64]) -> None:
        """Add a seed at a display position, (z, y, x) mm."""
        self.adding_seeds.emit()
        self.seeds.add(np.asarray(position_zyx, dtype=float)[None])

    def add_seeds_mm(self, points_mm: NDArray[np.floating]) -> None:
        """Add seeds at (n, 3) RAS+ mm."""
        self.adding_seeds.emit()
        self.seeds.add(self.space.shown_at(points_mm))

    def owns(self, layer: Layer) -> bool:
        """Return whether the mouse may drag points of a layer: seeds, and spheres of regions."""
        return layer is self.seeds.layer or layer in self.regions.spheres

    def move_point(self, layer: Points, index: int, position_zyx: NDArray[np.float64]) -> None:
        """Move a seed or the sphere of a region to a display position, (z, y, x) mm."""
        positions = np.array(layer.data, dtype=float)
        positions[index] = (position_zyx - layer.translate) / layer.scale
        with sliders_kept(self.viewer, layer):
            layer.data = positions

    def move_seed(self, index: int, position_zyx: NDArray[np.float64]) -> None:
        assert self.seeds.layer is not None
        self.move_point(self.seeds.layer, index, position_zyx)

    def clear_seeds(self) -> None:
        self.seeds.remove(range(len(self.seeds)))

    def _take_out_seeds(self) -> None:
        """Do without a layer of seeds where no bundle has any."""
        bundles = self.document.now.bundles.values()
        if self._is_open and not any(len(each.seeds) for each in bundles):
            with self.is_inserting:
                self.seeds.take_out()

    def _on_seeds(self, seeds: PlacedSeeds) -> None:
        self.document.act(acts.seeds_text(self.state.seeds, seeds), acts.change(seeds=seeds))

    # -- what would be tracked -----------------------------------------------------------------

    @property
    def can_start(self) -> bool:
        """Whether there is something to start from: seeds, a mask, or the whole FOD."""
        source = self.seeding.source
        if source == "placed seeds":
            return len(self.seeds) > 0
        if source == "grey-white interface":
            return self.tissues is not None
        if source == "between regions":
            return ends_of(self.state) is not None
        return source == "whole FOD" or self.seed_mask_in_use is not None

    @property
    def seeds_outside(self) -> list[int]:
        """The numbers, from 1, of the seeds that lie where there is no FOD; not of an image."""
        fod = self.fod
        if fod is None or fod.blocks is not None:
            return []
        shape = np.array(fod.grid.shape)
        voxels = np.rint(fod.grid.to_voxel(self.seeds.positions_mm)).astype(int)
        inside = ((voxels >= 0) & (voxels < shape)).all(axis=1)
        rows = fod.voxel_rows[tuple(np.clip(voxels, 0, shape - 1).T)]
        return (1 + np.flatnonzero(~inside | (rows < 0))).tolist()

    @property
    def seed_mask_in_use(self) -> Layer | None:
        """The mask that streamlines start in: the one to track in if no other is chosen.

        None where streamlines do not start from a mask.
        """
        return self._seed_mask_of(self.state)

    def _seed_mask_of(self, state: BundleState) -> Layer | None:
        if state.seeding.source not in SEEDED_IN_MASK:
            return None
        return self._layer_of(state.seed_mask or state.mask)

    def make_seeding(self, state: BundleState | None = None) -> Seeding:
        """Return where streamlines are to start, frozen; see :func:`.wanted.frozen_seeding`."""
        state = self.state if state is None else state
        layer = self._seed_mask_of(state)
        mask = None if layer is None else partial(voxels_of, layer, self._space_of(state))
        return frozen_seeding(state, self.regions.regions_of, mask, self._tissues_of(state))

    def _space_of(self, state: BundleState) -> DisplaySpace:
        grid = fod_grid_of(self._layer_of(state.fod))
        return self.space if grid is None or state is self.state else DisplaySpace.of(grid)

    def steering(self, state: BundleState | None = None) -> list[tuple[RegionState, Region]]:
        """Return the regions in use, but for those that are tracked between."""
        self.regions.take_note()
        state = self.state if state is None else state
        ends = tracked_between(state)
        return [(e, region) for e, region in self.regions.frozen(state) if e not in ends]

    def steering_layers(self) -> list[tuple[Layer, int | None]]:
        """Return the layer and the label of each region in :meth:`steering`."""
        return self._sources_of(state for state, _ in self.steering())

    def end_layers(self) -> list[tuple[Layer, int | None]]:
        """Return the layers and labels of the two regions that are tracked between, or none."""
        return self._sources_of(tracked_between(self.state))

    def _sources_of(self, states: Iterable[RegionState]) -> list[tuple[Layer, int | None]]:
        layers = {entry.id: entry.layer for entry in self.regions.entries}
        return [(layers[state.id], state.label) for state in states]

    def request(self, bundle: OpenBundle | None = None, *, n_preview: int | None = None) -> Request:
        """Freeze what is to be tracked, of the active bundle or another.

        For a preview of about `n_preview` streamlines, or the full run. Raises TractographyError
        when something is missing or wrong.
        """
        self.regions.take_note()  # before the state is read
        state = self.state if bundle is None else bundle.state
        if state.is_opened:
            raise InvalidSeedsError(
                f"{state.name} was opened from a file and cannot be tracked; press New in "
                "Bundles, then place seeds."
            )
        layer = self._layer_of(state.fod)
        fod, opening = fod_of(layer), opening_of(layer)
        if opening is not None:
            raise InvalidFodError(f"{opening.name} is still being read; wait a moment.")
        if fod is None and state.fod is not None and layer is None:
            raise InvalidFodError(
                f"The FOD {state.fod.name} was closed; open it again, or choose another in Data."
            )
        if fod is None:
            raise InvalidFodError(
                "There is no FOD or image; open one (File > Open) or choose its layer."
            )
        closed = self.closed_input(state)
        if closed is not None:
            raise closed
        seeding = self.make_seeding(state)
        mask_layer = self._layer_of(state.mask)
        mask = None if mask_layer is None else fod_mask_of(mask_layer, self._space_of(state))
        selects = state.seeding.counted == ACCEPTED and not isinstance(seeding, SeedVoxels)
        selects = selects or isinstance(seeding, SeedBetween)
        is_active = state is self.state
        return Request(
            fod=fod,
            seeding=seeding,
            parameters=self.parameters if is_active else self.values_of(state).parameters(),
            mask=mask,
            regions=tuple(region for _, region in self.steering(state)),
            include_rule=state.rule,
            tissues=self._tissues_of(state),
            select=sum(seeding.n_each) if selects else None,
            execution=self.execution,
            n_preview=n_preview,
        )

    def closed_input(self, state: BundleState | None = None) -> TractographyError | None:
        """Return why a bundle is not tracked whose masks or tissue image were closed, or None."""
        state = self.state if state is None else state
        inputs = {"mask": (state.mask, "Data"), "tissue image": (state.tissues, "Tissues")}
        if state.seeding.source in SEEDED_IN_MASK:
            inputs["seed mask"] = state.seed_mask, "Seeds"
        for what, (ref, section) in inputs.items():
            if ref is not None and self._layer_of(ref) is None:
                error = InvalidTissuesError if ref is state.tissues else InvalidMaskError
                return error(
                    f"The {what} {ref.name} was closed; open it again, or choose another or none "
                    f"in {section}."
                )
        return None

    def why_impossible(self, bundle: OpenBundle | None = None) -> str:
        """Return why a bundle, by default the active one, cannot be run now; "" where it can."""
        try:
            self.request(bundle)
        except TractographyError as error:
            return str(error)
        return ""

    def wanted_of(self, bundle: OpenBundle) -> Request | None:
        """Return what a run of a bundle would track; None where something is missing."""
        try:
            return self.request(bundle)
        except TractographyError:
            return None

    @property
    def execution(self) -> Execution:
        """How the full run is done; the threads are those of this machine, not of a cluster's."""
        here = isinstance(self.backend, str)
        return Execution(self.backend, self.n_threads if here else None)

    # -- results -------------------------------------------------------------------------------

    @property
    def tractogram(self) -> Tractogram | None:
        """The streamlines of the active bundle, edited and filtered."""
        return self.state.tractogram

    @property
    def has_edits(self) -> bool:
        """Whether streamlines of the result were deleted by hand."""
        layer = self.streamlines_layer
        return layer is not None and layer.editor.is_edited

    def show_arriving(
        self, bundle: OpenBundle, arriving: Arriving, part: Tractogram, *, append: bool
    ) -> None:
        """Show what has arrived of a run; the result of the bundle stays what it was.

        `part` is that, or with `append` what has arrived since it was shown last.
        """
        layer = self.ensure_streamlines_layer(bundle)
        bundle.arriving = arriving  # first: colours by seed ask for it
        with sliders_kept(self.viewer, layer):
            if append:
                layer.append(part)
            else:
                layer.tractogram = part
        layer.reference = arriving.request.fod.grid
        bundle.shown = (None, None)

    def drop_arriving(self, bundle: OpenBundle) -> None:
        """Show the result again in place of what has arrived of a run that gave none."""
        if bundle.arriving is not None:
            bundle.arriving, bundle.shown = None, (None, None)
            if bundle.is_there:
                for signal in self._show_streamlines(bundle.id, bundle.state, bundle.state):
                    signal()
                self.result_changed.emit(bundle)

    def keep_arrived(self, bundle: OpenBundle) -> None:
        """Make what is shown of a run, if that is a part, the result: no more will come of it."""
        arriving, layer = bundle.arriving, bundle.streamlines_layer
        bundle.arriving = None
        if arriving is not None and layer is not None:
            whole = layer.editor.whole  # of which an edit may just have left less
            result = Result(whole, arriving.request.ended_with(whole), report=arriving.report)
            self.keep_result(bundle, result, is_shown=True)

    def keep_result(
        self, bundle: OpenBundle, result: Result, *, is_shown: bool = False, is_live: bool = False
    ) -> None:
        """Keep a result, and show it where the layer does not yet.

        It is a step, or with `is_live` follows by itself from what was done.
        """
        bundle.arriving = None
        if not bundle.is_there:
            return
        if is_shown:
            bundle.shown = result, None
        change = acts.change(
            bundle.id,
            result=result,
            edits=None,
            tractogram=result.whole,
            weights=None,  # of other streamlines, as is the summary
            min_weight=0.0,
            summary="",
            source=None,
        )
        if is_live:
            self.document.amend(change)
        else:
            self.document.act(f"Track {plural(len(result.whole), 'streamline')}", change)

    def _on_edited(self, bundle: OpenBundle) -> None:
        """Make an act of what was edited in a layer; a filter is none."""
        layer = bundle.streamlines_layer
        if layer is None or self._is_showing or not bundle.is_there:
            return
        self.keep_arrived(bundle)  # else the edits would be those of another result
        state, editor, result = bundle.state, layer.editor, bundle.state.result
        if result is None:
            return
        if editor.whole is not result.whole:  # it got weights
            result = dataclasses.replace(result, whole=editor.whole)
        bundle.shown = result, editor.state
        values: dict[str, Any] = {"tractogram": layer.tractogram}
        if (result, editor.state) == (state.result, state.edits):
            self.document.amend(acts.change(bundle.id, **values))
        else:
            values |= {"result": result, "edits": editor.state, "source": None}
            self.document.act(_edit_text(state, layer), acts.change(bundle.id, **values))

    def _on_replaced(self, event: Any) -> None:
        """Take up streamlines that a script gave to the layer of a bundle."""
        bundle, layer = self.of_layer(event.source), event.source
        if bundle is None or bundle.arriving or self._is_showing or layer.editor.is_showing:
            return
        state, editor = bundle.state, layer.editor
        if state.result and editor.whole is state.result.whole and editor.state is state.edits:
            return  # it is only drawn otherwise
        self.keep_result(bundle, Result(layer.tractogram, None, layer.reference), is_shown=True)

    def speed(self) -> str:
        """Return how long the last result took and how fast it was, in words."""
        result, shown = self.state.result, self.tractogram
        if result is None or result.request is None or shown is None:
            return ""
        return result.report.speed(shown, result.request.parameters.step_mm, result.seconds)

    @property
    def is_result_current(self) -> bool:
        """Whether a run now would track what the result was tracked from."""
        return self.changes() == []

    @property
    def is_fruitless(self) -> bool:
        """Whether a run gave no streamlines as everything is set now."""
        fruitless = self.state.fruitless
        try:
            return fruitless is not None and fruitless.gives_the_same_as(self.request())
        except TractographyError:
            return False

    def changes(self) -> list[str] | None:
        """Return in what a run now would differ from the result's; None where either cannot be."""
        then = self.state.result_request
        try:
            return None if then is None else then.differences(self.request())
        except TractographyError:  # something is missing or wrong that was not
            return None


def _set(layer: Layer, **values: Any) -> None:
    """Set attributes of a layer that differ: each that is set emits an event."""
    for name, value in values.items():
        if getattr(layer, name) != value:
            setattr(layer, name, value)


def give_style(
    layer: Streamlines, state: BundleState, before: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Give a layer the style of its bundle, as far as it does that by itself.

    What does not differ from the style before is left alone.
    """
    style = {"colour_by": DEFAULT_MODE, **state.style}
    changed = {n for n, value in style.items() if n not in before or before[n] != value}
    _set(layer, **{n: style[n] for n in changed & {"width", "opacity", "slab_mm", "max_vertices"}})
    if "axis" in changed or not before:
        layer.axis = Axis.of_numbers(style.get("axis"))
    if not changed & {"colour_by", "colour"}:
        return
    mode, rgba = style["colour_by"], rgba_of(state.colour)
    if mode == ONE_COLOUR:
        if (layer.colour_by, layer.colour) != (mode, rgba):
            layer.colour = rgba
    elif mode in layer.colour_modes and layer.colour_by != mode:
        layer.colour_by = mode


def _edit_text(before: BundleState, layer: Streamlines) -> str:
    """Return what was done to the streamlines of a layer, to be read in Undo."""
    name, editor = before.name, layer.editor
    if before.result is not None and editor.whole is not before.result.whole:
        return f"Weights of {name}"
    past, now = (() if state is None else state.before for state in (before.edits, editor.state))
    if now != past and len(now) >= len(past) and now[-1].kind in ("cut", "lengths"):
        return f"Cut {name}" if now[-1].kind == "cut" else f"Lengths of {name}"
    n_before = 0 if before.tractogram is None else len(before.tractogram)
    if n_before > layer.n_all:
        return f"Remove {plural(n_before - layer.n_all, 'streamline')}"
    return f"Edit {name}"


def _differ(one: BundleState, other: BundleState, names: Iterable[str]) -> bool:
    return any(getattr(one, name) is not getattr(other, name) for name in names)


def _is_tracked_otherwise(one: BundleState, other: BundleState) -> bool:
    """Return whether a run depends on what differs, or what filters opened streamlines."""
    if one.is_opened and one.regions is not other.regions:
        return True
    return one.steering != other.steering or _differ(one, other, TRACKED_WITH)


def _rows_differ(one: Snapshot, other: Snapshot) -> bool:
    """Return whether the list of bundles shows something else of one snapshot than of another."""
    return list(one.bundles) != list(other.bundles) or any(
        state is not other.bundles[number] and _row(state) != _row(other.bundles[number])
        for number, state in one.bundles.items()
    )


def _row(state: BundleState) -> tuple[Any, ...]:
    return (
        state.name, state.colour, state.is_visible, state.path, state.min_weight,
        id(state.tractogram), id(state.weights), tuple(map(id, state.style.values())),
    )  # fmt: skip
