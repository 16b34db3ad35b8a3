"""Bundles made of others: a selection split off, the other side, a foreign layer of tracks.

Called by the panel; each is a step that the history of the list undoes.
"""

from __future__ import annotations

import numpy as np
from napari.layers import Tracks

from ....errors import InvalidTractogramError
from ....recipes.bundle import Bundle
from ....recipes.mirror import midsagittal_x_mm
from ....recipes.tractogram_sources import TractogramFile
from ...layers.sources.tracks import tractogram_of_tracks
from ...streamlines.layer import Streamlines
from .listing import OPENED, BundleList
from .opening import split_filters, state_of
from .state import BundleState

PART = "part"


def split_off(bundles: BundleList) -> BundleState:
    """Make a bundle of the selected streamlines of the active one, which is left without them.

    Raises
    ------
    InvalidTractogramError
        When nothing is selected.
    """
    bundle = bundles.active
    layer = bundle.streamlines_layer
    if layer is None or not layer.editor.n_selected:
        raise InvalidTractogramError(
            "Nothing is selected; select the streamlines that shall be a bundle of their own."
        )
    selected = np.array(layer.selected)
    made = bundles.copy_of_active(f"{bundle.name} {PART}")
    copy = made.streamlines_layer
    assert copy is not None
    copy.selected = selected
    copy.editor.keep_selected()
    copy.selected = []
    made.text = copy.editor.summary(bundles.session.space.unit)
    layer.editor.delete_selected()
    left = layer.editor.edits

    def put_back() -> None:
        if layer.editor.edits == left and layer.editor.can_undo:  # else a person went on with it
            layer.editor.undo()

    bundles.insert(made, f"Split off {made.name}", undone=put_back, redone=layer.editor.redo)
    return made


def other_side(bundles: BundleList, state: BundleState, source: TractogramFile) -> BundleState:
    """Return streamlines that were opened, with their regions and planes on the other side.

    Parameters
    ----------
    bundles : BundleList
    state : BundleState
        Of the streamlines.
    source : TractogramFile
        What became of them.
    """
    layer = state.streamlines_layer
    assert layer is not None
    grid = layer.reference or layer.space.grid
    x_mm = 0.0 if grid is None else midsagittal_x_mm(grid)
    mirrored = Bundle(state.name, source).mirrored(x_mm)
    mirrored.name = bundles.free_name(mirrored.name)
    made = state_of(mirrored, len(bundles.bundles), None)
    made.path, made.weights, made.min_weight = state.path, state.weights, state.min_weight
    made.source = None
    copy = Streamlines(layer.editor.whole, space=layer.space, name=made.name)
    copy.reference = layer.reference
    edits, _ = split_filters(mirrored.source)
    if edits:
        copy.editor.edits = edits
    bundles.adopt(made, copy)
    return made


def take_tracks(bundles: BundleList, layer: Tracks) -> BundleState:
    """Make a bundle of a layer of tracks that something else made; the layer is hidden.

    Raises
    ------
    InvalidTractogramError
        When its tracks do not lie in three dimensions, beside time.
    """
    made = tractogram_of_tracks(layer, bundles.session.space)
    name = bundles.free_name(f"{layer.name} bundle")
    streamlines = Streamlines(made, space=bundles.session.space, name=name)
    state = BundleState(name, bundles.free_colour())
    state.path = OPENED
    bundles.adopt(state, streamlines)
    bundles.insert(state, f"Took up {layer.name}")
    layer.visible = False
    return state
