"""The list of bundles of a window: one is active; new, duplicate, rename, delete, order.

Everything done to it is an act of the document. Made by the panel.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from napari.layers import Layer
from psygnal import Signal

from .. import acts
from ..document import BundleState, Document, RegionState, Result, Snapshot
from ..listening import Listening
from ..streamlines.layer import Streamlines
from .open_bundle import OpenBundle
from .session import Session

OPENED = "layer"  # stands for the file of streamlines that came without one


class BundleList:
    """The bundles of a session, in the order of the list."""

    followed = Signal(object)  # OpenBundle whose streamlines came from a project

    def __init__(self, session: Session) -> None:
        self.session = session
        self.viewer = session.viewer
        layers = session.viewer.layers
        self._listening = Listening(
            (layers.events.inserted, self._on_layer_inserted),
            (layers.selection.events.active, self._on_active_layer),
        )
        session.activated.connect(self._on_activated)
        session.adding_seeds.connect(self._on_adding_seeds)

    def open(self) -> None:
        """Listen to the viewer; take up streamlines that are there."""
        self._listening.open()
        for layer in list(self.viewer.layers):
            self._take_up(layer)

    def close(self) -> None:
        self._listening.close()

    # -- what there is -------------------------------------------------------------------------

    @property
    def bundles(self) -> list[OpenBundle]:
        """The bundles in the order of the list; never empty."""
        return self.session.bundles

    @property
    def active(self) -> OpenBundle:
        return self.session.bundle

    @property
    def history(self) -> Document:
        return self.session.document

    def free_name(self, wanted: str = "") -> str:
        return acts.free_name((bundle.name for bundle in self.bundles), wanted)

    def free_colour(self) -> str:
        return acts.free_colour(bundle.state.colour for bundle in self.bundles)

    # -- what is done to the list --------------------------------------------------------------

    def activate(self, bundle: OpenBundle) -> None:
        """Show seeds, regions and parameters of a bundle in the panel, and those of no other."""
        if bundle is not self.active:
            self.history.release()
            self.history.amend(acts.activate(bundle.id))

    def add(self, name: str = "") -> OpenBundle:
        """Make a bundle without seeds and regions, with the parameters of the active one."""
        created = self.session.state.blank(name or self.free_name(), self.free_colour())
        return self.insert(self.session.prepare(created), f"Make {created.name}")

    def duplicate(self) -> OpenBundle:
        """Make a copy of the active bundle: seeds, regions, parameters, streamlines, edits."""
        name = self.active.name
        return self.insert(self.copy_of_active(f"{name} copy"), f"Duplicate {name}")

    def copy_of_active(self, name: str) -> OpenBundle:
        """Return a copy of the active bundle that is not in the list yet."""
        session, bundle = self.session, self.active
        session.keep_arrived(bundle)  # what is shown is copied
        state, ids = bundle.state, dict[int, int]()
        regions: list[RegionState] = []
        for region in state.regions:
            kept = session.regions.regions_of(region)
            if kept:
                ids[region.id] = number = self.history.new_id()
                initial = None if len(region.spheres) else kept[0]
                own = dataclasses.replace(region, id=number, label=None, painted=None)
                regions.append(dataclasses.replace(own, initial=initial))
        ends = tuple(ids.get(number, -1) for number in state.between or ())
        copy = dataclasses.replace(
            state,
            name=self.free_name(name),
            colour=self.free_colour(),
            regions=tuple(regions),
            between=ends if len(ends) == 2 and -1 not in ends else None,
        )
        layer = bundle.streamlines_layer
        layer_copy = None
        if layer is not None and state.result is not None:
            layer_copy = Layer.create(*layer.as_layer_data_tuple())
            layer_copy.name = copy.name
            layer_copy.editor.take_over(layer.editor)
        return session.prepare(copy, layer_copy)

    def insert(self, bundle: OpenBundle, text: str) -> OpenBundle:
        """Add a bundle of :meth:`Session.prepare` below the active one, and make it active.

        The text says what is done.
        """
        self.history.release()
        self.history.act(text, acts.insert(bundle.id, bundle.state))
        return bundle

    def replace_all(self, states: Sequence[BundleState], active: str = "") -> list[OpenBundle]:
        """Have other bundles, as a project's, one of them active or the first; not undone."""
        created = [self.session.prepare(state) for state in states]
        first = next((b.id for b in created if b.name == active), created[0].id)
        self.history.begin(Snapshot({b.id: b.state for b in created}, first))
        return created

    def rename(self, bundle: OpenBundle, name: str) -> None:
        """Name a bundle, and the layer of its streamlines."""
        name, before = name.strip(), bundle.name
        if name and name != before:
            self.history.act(f"Rename {before} to {name}", acts.change(bundle.id, name=name))

    def move(self, bundle: OpenBundle, by: int) -> None:
        """Move a bundle down the list by some rows, or up by as many below zero."""
        index = self.bundles.index(bundle)
        wanted = min(max(index + by, 0), len(self.bundles) - 1)
        self.history.act(f"Move {bundle.name}", acts.move(bundle.id, wanted))

    def set_colour(self, bundle: OpenBundle, colour: str) -> None:
        """Give a bundle a colour, "#rrggbb"."""
        change = acts.change(bundle.id, colour=colour)
        self.history.act(f"Colour of {bundle.name}", change, key=("colour", bundle.id))

    def set_visible(self, bundle: OpenBundle, is_visible: bool) -> None:
        bundle.amend(is_visible=is_visible, everywhere=True)

    def show_only(self, shown: OpenBundle) -> None:
        """Show the streamlines of one bundle, or where no others are shown those of all."""
        is_done = [bundle for bundle in self.bundles if bundle.state.is_visible] == [shown]
        for bundle in self.bundles:
            self.set_visible(bundle, is_done or bundle is shown)

    # -- what happens in the viewer ------------------------------------------------------------

    def _on_activated(self, bundle: OpenBundle) -> None:
        """Let the layer that napari has selected not be the streamlines of another bundle."""
        selection = self.viewer.layers.selection
        if self.session.of_layer(selection.active) not in (None, bundle):
            selection.active = bundle.streamlines_layer or self.session.fod_layer

    def _on_layer_inserted(self, event: Any) -> None:
        if not self.session.is_inserting:
            self._take_up(event.value)

    def _take_up(self, layer: Layer) -> None:
        """Make a bundle of a layer of streamlines that came from a file or a script.

        One that was there before comes back with its bundle.
        """
        if not isinstance(layer, Streamlines) or self.session.of_layer(layer) is not None:
            return
        if self.session.take_back(layer):
            return
        state = self.session.state
        created = dataclasses.replace(
            state.blank(self.free_name(str(layer.name)), self.free_colour()),
            chosen={},
            style={},
            path=str(layer.source.path or OPENED),
            is_visible=bool(layer.visible),
            result=Result(layer.tractogram, None, layer.reference),
            tractogram=layer.tractogram,
        )
        replacing = self.active.id if len(self.bundles) == 1 and state.is_blank else None
        bundle = self.session.prepare(created, layer)
        self.history.amend(acts.append(bundle.id, created, replacing=replacing), everywhere=True)

    def _on_active_layer(self, event: Any) -> None:
        bundle = self.session.of_layer(event.value)
        if bundle is not None and not self.session.is_inserting:
            self.activate(bundle)

    def _on_adding_seeds(self) -> None:
        if self.active.state.is_opened:  # its streamlines are what they are; seeds are for others
            self.add()
