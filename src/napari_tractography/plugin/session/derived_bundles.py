"""Bundles made of others: a part, a difference, the other side, a foreign layer of tracks.

Called by the panel; each is a step that the history of the list undoes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from napari.layers import Tracks
from numpy.typing import NDArray

from ...errors import InvalidTractogramError
from ...maps.profiles import standard_of
from ...recipes.bundle import Bundle
from ...recipes.mirror import midsagittal_x_mm
from ...recipes.tractogram_sources import TractogramFile
from ...streamlines.tractogram import Tractogram
from ..document import BundleState, Result
from ..layers.sources.tracks_layers import tractogram_of_tracks
from ..streamlines.layer import Streamlines
from .listing import OPENED, BundleList
from .open_bundle import OpenBundle
from .project_opening import split_filters, state_of


def split_off(bundles: BundleList) -> OpenBundle:
    """Make a bundle of the selected streamlines of the active one, which is left without them.

    Raises InvalidTractogramError when nothing is selected.
    """
    bundle = bundles.active
    layer = bundle.streamlines_layer
    if layer is None or not layer.editor.n_selected:
        raise InvalidTractogramError(
            "Nothing is selected; select the streamlines that shall be a bundle of their own."
        )
    created = _some_of_active(bundles, f"{bundle.name} part", np.array(layer.selected))
    text = f"Split off {created.name}"
    with bundles.history.one_step(text):
        layer.editor.delete_selected()
        bundles.insert(created, text)
    return created


def centroid_of_active(bundles: BundleList, n_points: int) -> OpenBundle:
    """Make a bundle of the mean course of the selected streamlines of the active one, or of all.

    Raises InvalidTractogramError when there are none, or none with a length.
    """
    bundle = bundles.active
    layer = bundle.streamlines_layer
    if layer is None or not len(layer.tractogram):
        raise InvalidTractogramError("There are no streamlines; run tracking first.")
    lines = layer.editor.selected_tractogram() if layer.editor.n_selected else layer.tractogram
    if not lines.lengths_mm.any():
        raise InvalidTractogramError("These streamlines have no length, and so no centroid.")
    centroid = Tractogram.from_streamlines([standard_of(lines, n_points)])
    name = bundles.free_name(f"{bundle.name} centroid")
    shown = Streamlines(centroid, space=layer.space, name=name)
    shown.reference = layer.reference
    state = BundleState(
        name,
        bundles.free_colour(),
        path=OPENED,
        fod=bundle.state.fod,
        result=Result(centroid, None, layer.reference),
        tractogram=centroid,
    )
    return bundles.insert(bundles.session.prepare(state, shown), f"Make {name}")


def groups_of(bundles: BundleList) -> dict[str, NDArray[np.int64]]:
    """Return the groups that came with the active bundle's file, by name, without empty ones."""
    layer = bundles.active.streamlines_layer
    groups = {} if layer is None else layer.tractogram.data.groups
    return {name: numbers for name, numbers in groups.items() if len(numbers)}


def bundles_of_groups(bundles: BundleList) -> list[OpenBundle]:
    """Make a bundle of each group that came with the active bundle's file; it stays as it is.

    Raises InvalidTractogramError when there are none.
    """
    bundle, groups = bundles.active, groups_of(bundles)
    if not groups:
        raise InvalidTractogramError(
            f"{bundle.name} has no groups of streamlines, as a .trx file may hold."
        )
    created = []
    with bundles.history.one_step(text := f"Groups of {bundle.name}"):
        for name, numbers in groups.items():
            bundles.activate(bundle)
            created.append(bundles.insert(_some_of_active(bundles, name, numbers), text))
    return created


def sameness(
    bundles: BundleList, bundle: OpenBundle, other: OpenBundle
) -> Callable[[], NDArray[np.bool_]]:
    """Return what tells which streamlines of a bundle are also in another, (n_streamlines,) bool.

    It may be called in another thread. Of one run, or one file, streamlines are known by their
    seed, or number, so that one that is cut in either is the same; others are the same that have
    the same points.

    Raises InvalidTractogramError when one of them has no streamlines.
    """
    bundles.session.keep_arrived(bundle)  # what is shown is compared
    shown, known = bundle.streamlines_layer, other.streamlines_layer
    if shown is None or known is None:
        name = bundle.name if shown is None else other.name
        raise InvalidTractogramError(f"{name} has no streamlines yet; run tracking first.")
    mine, others = shown.tractogram, known.tractogram
    if bundle.state.result is not None and bundle.state.result is other.state.result:
        return lambda: np.isin(mine.seed_index, others.seed_index)
    return lambda: mine.found_in(others)


def difference(
    bundles: BundleList, other: OpenBundle, is_in: NDArray[np.bool_], *, is_wanted: bool
) -> OpenBundle:
    """Make a bundle of what the active one has in common with another, or of the rest.

    `is_in` is what :func:`sameness` tells. The two stay as they are. Raises InvalidTractogramError
    when nothing would be in it.
    """
    bundle, numbers = bundles.active, np.flatnonzero(is_in == is_wanted)
    if not len(numbers):
        which, verb = ("None", "is") if is_wanted else ("All", "are")
        raise InvalidTractogramError(
            f"{which} of the streamlines of {bundle.name} {verb} in {other.name}: there is nothing "
            "to make a bundle of."
        )
    name = f"{bundle.name} {'and' if is_wanted else 'without'} {other.name}"
    return bundles.insert(_some_of_active(bundles, name, numbers), f"Make {name}")


def _some_of_active(bundles: BundleList, name: str, numbers: NDArray[np.int64]) -> OpenBundle:
    """Return a bundle of some streamlines of the active one that is not in the list yet."""
    part = bundles.copy_of_active(name)
    assert part.layer is not None
    part.layer.editor.show_some(numbers)
    part.take_edits(part.layer.editor.summary(bundles.session.space.unit))
    return part


def other_side(bundles: BundleList, bundle: OpenBundle, source: TractogramFile) -> OpenBundle:
    """Return streamlines that were opened, with their regions and planes on the other side.

    `source` is what became of them.
    """
    layer, state = bundle.streamlines_layer, bundle.state
    assert layer is not None
    grid = layer.reference or layer.space.grid
    x_mm = 0.0 if grid is None else midsagittal_x_mm(grid)
    mirrored = Bundle(state.name, source).mirrored(x_mm)
    mirrored.name = bundles.free_name(mirrored.name)
    created = state_of(mirrored, len(bundles.bundles), bundles.history.new_id)
    copy = Streamlines(layer.editor.whole, space=layer.space, name=created.name)
    copy.reference = layer.reference
    edits, _ = split_filters(mirrored.source)
    if edits:
        copy.editor.edits = edits
    created = dataclasses.replace(
        created,
        path=state.path,
        fod=state.fod,
        colour=bundles.free_colour(),
        weights=state.weights,
        min_weight=state.min_weight,
        source=None,
        result=Result(layer.editor.whole, None, layer.reference),
        edits=copy.editor.state,
        tractogram=copy.tractogram,
    )
    return bundles.session.prepare(created, copy)


def take_tracks(bundles: BundleList, layer: Tracks) -> OpenBundle:
    """Make a bundle of a layer of tracks that something else made; the layer is hidden.

    Raises InvalidTractogramError when its tracks do not lie in three dimensions, beside time.
    """
    created = tractogram_of_tracks(layer, bundles.session.space)
    name = bundles.free_name(f"{layer.name} bundle")
    state = BundleState(
        name,
        bundles.free_colour(),
        path=OPENED,
        fod=bundles.session.state.fod,
        result=Result(created),
        tractogram=created,
    )
    bundle = bundles.insert(bundles.session.prepare(state), f"Take up {layer.name}")
    layer.visible = False
    return bundle
