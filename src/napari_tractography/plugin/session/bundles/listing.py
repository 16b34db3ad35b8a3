"""The list of bundles of a window: one is active; new, duplicate, rename, delete, order, undo.

A state without a widget, beside the session and the control of runs. Called by the panel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from napari.layers import Layer
from psygnal import Signal

from ...space.layer_list import insert_beside
from ...streamlines.layer import Streamlines
from ..seeding import same_ends
from ..session import Session
from .history import History
from .rows import Rows
from .state import BUNDLE_KEY, BundleState, Left
from .switching import given_of, rest, resume, settings_of, wake

# By viewer, what its panel has left when it was closed, for the next one.
LEFT: WeakKeyDictionary[Any, Left] = WeakKeyDictionary()
OPENED = "layer"  # stands for the file of streamlines that came without one


class BundleList(Rows):
    """The bundles of a session, in the order of the list.

    Parameters
    ----------
    session : Session

    Attributes
    ----------
    history : History
        What was done to the list.
    """

    activated = Signal(object)  # BundleState
    removed = Signal(object)  # BundleState
    followed = Signal(object)  # BundleState whose streamlines came from a project
    taken_away = Signal(
        object
    )  # BundleState whose streamlines were, by removing their layer; or came back

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.history = History()
        self._busy = False  # whether layers come and go by what is done here
        session.result_changed.connect(self._on_result)
        session.layer_made.connect(self._watch)
        session.streamlines_removed.connect(self._on_layer_removed)
        session.adding_seeds.connect(self._on_adding_seeds)

    def open(self) -> None:
        """Listen to the viewer; take up bundles of a panel that was closed, and streamlines."""
        layers = self.viewer.layers
        left = LEFT.pop(self.viewer, None)
        if left is not None and left.bundles is not self.bundles:
            self._take_over(left)
        layers.events.inserted.connect(self._on_layer_inserted)
        layers.selection.events.active.connect(self._on_active_layer)
        for layer in list(layers):
            if isinstance(layer, Streamlines) and self.of_layer(layer) is None:
                self._take_up(layer)

    def close(self) -> None:
        """Stop listening to the viewer."""
        layers = self.viewer.layers
        layers.events.inserted.disconnect(self._on_layer_inserted)
        layers.selection.events.active.disconnect(self._on_active_layer)
        for name, value in self._settings().items():
            setattr(self.active, name, value)
        self.active.between = self.session.regions.between
        LEFT[self.viewer] = Left(self.bundles, self.active)

    # -- which is active -----------------------------------------------------------------------

    def activate(self, bundle: BundleState) -> None:
        """Show seeds, regions and parameters of a bundle in the panel, and those of no other."""
        if bundle is self.active:
            return
        self._busy = True
        try:
            with self.session.changed.blocked():
                if self.active in self.bundles:
                    self.leaving.emit(self.active)
                rest(self.session)
                wake(self.session, bundle)
                self._select_layer()
                self.activated.emit(bundle)
                self.session.restore_parameters(
                    self.session.tracking.by_hand, bundle.seeding
                )  # whatever controls said while they were set one by one
        finally:
            self._busy = False
        self.session.seeds_changed.emit()
        self.changed.emit()

    def _select_layer(self) -> None:
        """Let the layer that napari has selected not be the streamlines of another bundle."""
        selection = self.viewer.layers.selection
        bundle = self.of_layer(selection.active)
        if bundle is not None and bundle is not self.active:
            selection.active = self.active.streamlines_layer or self.session.fod_layer

    # -- what is done to the list --------------------------------------------------------------

    def add(self, name: str = "") -> BundleState:
        """Make a bundle without seeds and regions, with the parameters of the active one."""
        made = BundleState(name or self.free_name(), self.free_colour(), **self._settings())
        made.look = dict(self.look_of(self.active))
        self.insert(made, f"Made {made.name}")
        return made

    def duplicate(self) -> BundleState:
        """Make a copy of the active bundle: seeds, regions, parameters, streamlines, edits."""
        made = self.copy_of_active(f"{self.active.name} copy")
        self.insert(made, f"Duplicated {self.active.name}")
        return made

    def copy_of_active(self, name: str) -> BundleState:
        """Return a copy of the active bundle that is not in the list yet."""
        self.leaving.emit(self.active)  # for its look
        session, bundle = self.session, self.active
        session.keep_arrived(bundle)  # what is shown is copied
        made = BundleState(self.free_name(name), self.free_colour(), **self._settings())
        made.given, made.rule = given_of(session), session.regions.rule
        made.look, made.path, made.text = dict(bundle.look), bundle.path, bundle.text
        for field in ("filtered_by", "weights", "min_weight"):
            setattr(made, field, getattr(bundle, field))
        self._copy_result(bundle, made)
        return made

    def insert(
        self,
        bundle: BundleState,
        text: str,
        *,
        undone: Callable[[], None] = lambda: None,
        redone: Callable[[], None] = lambda: None,
    ) -> None:
        """Add a bundle below the active one, and make it active.

        Parameters
        ----------
        bundle : BundleState
        text : str
            What was done.
        undone, redone : callable
            What else to do when that is undone and done again.
        """
        before, place = self.active, self._place()

        def undo() -> None:
            self._take_out(bundle, before)
            undone()

        def redo() -> None:
            redone()
            self._put(bundle, place)

        self._put(bundle, place)
        self.history.add(text, undo, redo)

    def adopt(self, bundle: BundleState, layer: Streamlines) -> None:
        """Give a bundle that is not in the list yet its layer of streamlines."""
        bundle.tractogram, bundle.result_grid = layer.tractogram, layer.reference
        self.session.adopt_streamlines(bundle, layer)
        self._watch(layer)

    def replace_all(self, states: Sequence[BundleState]) -> None:
        """Have other bundles, as those of a project, the first of them active; not undone."""
        before = list(self.bundles)
        self.bundles += states
        self.activate(states[0])
        for bundle in before:
            self._take_out(bundle, states[0])
        self.history.clear()

    def remove(self, bundle: BundleState) -> None:
        """Delete a bundle with its layers; asks nothing, and is undone."""
        self._delete(bundle, f"Deleted {bundle.name}")

    def rename(self, bundle: BundleState, name: str) -> None:
        """Name a bundle, and the layer of its streamlines."""
        name, before = name.strip(), bundle.name
        if not name or name == before:
            return
        self._rename(bundle, name)
        self.history.add(
            f"Renamed {before} to {name}",
            lambda: self._rename(bundle, before),
            lambda: self._rename(bundle, name),
        )

    def move(self, bundle: BundleState, by: int) -> None:
        """Move a bundle down the list by some rows, or up by as many below zero."""
        place = self.bundles.index(bundle)
        wanted = min(max(place + by, 0), len(self.bundles) - 1)
        if wanted == place:
            return
        self._move(bundle, wanted)
        self.history.add(
            f"Moved {bundle.name}",
            lambda: self._move(bundle, place),
            lambda: self._move(bundle, wanted),
        )

    def set_colour(self, bundle: BundleState, colour: str) -> None:
        """Give a bundle a colour, "#rrggbb"."""
        if colour != bundle.colour:
            bundle.colour = colour
            self.changed.emit()

    def set_visible(self, bundle: BundleState, is_visible: bool) -> None:
        """Show or hide the streamlines of a bundle."""
        if bundle.streamlines_layer is not None:
            bundle.streamlines_layer.visible = is_visible

    # -- carrying it out -----------------------------------------------------------------------

    def _place(self) -> int:
        return self.bundles.index(self.active) + 1 if self.active in self.bundles else 0

    def _settings(self) -> dict[str, Any]:
        return settings_of(self.session)

    def _copy_result(self, bundle: BundleState, made: BundleState) -> None:
        """Give a bundle the streamlines of another, edited as they are."""
        layer = bundle.streamlines_layer
        if layer is None or bundle.tractogram is None:
            return
        copy = Layer.create(*layer.as_layer_data_tuple())
        copy.name = made.name
        copy.editor.take_over(layer.editor)
        self.session.adopt_streamlines(made, copy)
        self._watch(copy)
        for name in ("tractogram", "result_request", "result_grid", "seconds", "report"):
            setattr(made, name, getattr(bundle, name))

    def _delete(self, bundle: BundleState, text: str) -> None:
        place = self.bundles.index(bundle)
        blank = None
        if len(self.bundles) == 1:
            blank = BundleState(self.free_name(), bundle.colour, **self._settings())
            blank.look = dict(self.look_of(bundle))
        self._replace(bundle, blank)
        self.history.add(
            text,
            lambda: self._bring_back(bundle, place, blank),
            lambda: self._replace(bundle, blank),
        )

    def _replace(self, bundle: BundleState, blank: BundleState | None) -> None:
        """Take a bundle out; a blank one comes in its place where it is the only one."""
        if blank is not None:
            self.bundles.append(blank)
        self._take_out(bundle, blank)

    def _bring_back(self, bundle: BundleState, place: int, blank: BundleState | None) -> None:
        self._put(bundle, place)
        if blank is not None and blank in self.bundles:
            self._take_out(blank, bundle)

    def _put(self, bundle: BundleState, place: int) -> None:
        """Put a bundle into the list, its layer into the viewer, and make it active."""
        self.bundles.insert(place, bundle)
        layer = bundle.streamlines_layer
        if layer is not None and layer not in self.viewer.layers:
            self._busy = True
            try:
                if layer.space != self.session.space:
                    layer.space = self.session.space
                self.session.insert_streamlines(layer)
            finally:
                self._busy = False
        self.activate(bundle)
        self.changed.emit()

    def _take_out(self, bundle: BundleState, then: BundleState | None) -> None:
        """Take a bundle out of the list and its layers out of the viewer."""
        if bundle is self.active:
            place = self.bundles.index(bundle)
            rest_of = [other for other in self.bundles if other is not bundle]
            if then is None or then not in rest_of:
                then = rest_of[min(place, len(rest_of) - 1)]
            self.activate(then)
        self.bundles.remove(bundle)
        layer = bundle.streamlines_layer
        if layer is not None and layer in self.viewer.layers:
            self._busy = True
            try:
                self.viewer.layers.remove(layer)
            finally:
                self._busy = False
        self.removed.emit(bundle)
        self.changed.emit()

    def _rename(self, bundle: BundleState, name: str) -> None:
        bundle.name = name
        if bundle.streamlines_layer is not None:
            bundle.streamlines_layer.name = name
        self.changed.emit()

    def _move(self, bundle: BundleState, place: int) -> None:
        self.bundles.remove(bundle)
        self.bundles.insert(place, bundle)
        self.changed.emit()

    # -- what happens in the viewer ------------------------------------------------------------

    def _on_layer_inserted(self, event: Any) -> None:
        layer = event.value
        if not self._busy and isinstance(layer, Streamlines) and self.of_layer(layer) is None:
            self._take_up(layer)

    def _take_over(self, left: Left) -> None:
        """Go on with the bundles of a panel that was closed; seeds of the active one are there."""
        self.bundles = left.bundles
        for bundle in self.bundles:
            layer = bundle.streamlines_layer
            if layer is not None and layer in self.viewer.layers:
                self.session.adopt_streamlines(bundle, layer)
                self._watch(layer)
            else:
                bundle.streamlines_layer = None
        gone = [b for b in self.bundles if b.is_opened and b.streamlines_layer is None]
        self.bundles = [b for b in self.bundles if b not in gone or b is left.active]
        resume(self.session, left.active)
        regions = self.session.regions
        regions.between = same_ends(regions, left.active.between)
        self.activated.emit(left.active)
        self.changed.emit()

    def _take_up(self, layer: Streamlines) -> None:
        """Make a bundle of a layer of streamlines that came from a file or a script."""
        known = layer.metadata.get(BUNDLE_KEY)
        if isinstance(known, BundleState) and known.streamlines_layer is layer:
            bundle = known
            self._watch(layer)
        else:
            bundle = BundleState(layer.name, self.free_colour(), **self._settings())
            bundle.path, bundle.by_hand = str(layer.source.path or OPENED), {}
            self.adopt(bundle, layer)
        blank = self.active if self.is_blank(self.active) and len(self.bundles) == 1 else None
        self.bundles.append(bundle)
        if blank is not None:
            self._take_out(blank, bundle)
        self.changed.emit()

    def _watch(self, layer: Streamlines) -> None:
        """Follow name and eye of a layer."""
        layer.events.name.connect(self._on_name)
        layer.events.visible.connect(self._on_visible)

    def _on_name(self, event: Any) -> None:
        bundle = self.of_layer(event.source)
        if bundle is not None and bundle.name != event.source.name:
            self.rename(bundle, event.source.name)

    def _on_visible(self, _event: Any = None) -> None:
        self.changed.emit()

    def _on_active_layer(self, event: Any) -> None:
        if not (self._busy or self.session.is_inserting):
            bundle = self.of_layer(event.value)
            if bundle is not None:
                self.activate(bundle)

    def _on_layer_removed(self, layer: Streamlines) -> None:
        bundle = None if self._busy else self.of_layer(layer)
        if bundle is None:
            return
        if len(self.bundles) > 1 or bundle.is_opened:
            self._delete(bundle, f"Deleted {bundle.name}")
            return
        result = bundle.tractogram, bundle.result_request, bundle.text

        def forget() -> None:  # seeds and settings stay: Run makes another
            bundle.streamlines_layer = bundle.tractogram = bundle.result_request = None
            bundle.text = ""
            self.session.result_changed.emit(bundle)
            self.taken_away.emit(bundle)

        def bring_back() -> None:
            self._busy = True
            try:
                fresh = bundle.streamlines_layer
                bundle.streamlines_layer = layer
                if fresh is not None and fresh in self.viewer.layers:
                    self.viewer.layers.remove(fresh)
                insert_beside(self.viewer, layer)
                bundle.tractogram, bundle.result_request, bundle.text = result
            finally:
                self._busy = False
            self.session.result_changed.emit(bundle)
            self.taken_away.emit(bundle)

        def take_away() -> None:
            self._busy = True
            try:
                self.viewer.layers.remove(layer)
            finally:
                self._busy = False
            forget()

        self.history.add(f"Removed the layer of {bundle.name}", bring_back, take_away)
        forget()

    def _on_result(self, _bundle: BundleState) -> None:
        self.changed.emit()

    def _on_adding_seeds(self) -> None:
        if self.active.is_opened:  # its streamlines are what they are; seeds are for others
            self.add()
