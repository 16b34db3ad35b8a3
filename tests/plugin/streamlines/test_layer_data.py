"""Duplicates of a streamlines layer, by napari's own action, and layer data for writers."""

from __future__ import annotations

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Layer
from napari.layers._layer_actions import _duplicate_layer
from napari.layers.utils.plane import ClippingPlane

from napari_tractography import Tractogram
from napari_tractography.geometry.grid import Grid
from napari_tractography.plugin.space.display import DisplaySpace
from napari_tractography.plugin.streamlines.layer import Streamlines

OBLIQUE = np.array([[-1.6, -1.2, 0, 30], [1.2, -1.6, 0, 5], [0, 0, 2.5, -10], [0, 0, 0, 1]])


def bundle(n=5):
    """Streamlines along x, of 4 to 3 + n points, at negative and positive z."""
    lines = [
        np.stack([np.arange(4 + i), np.full(4 + i, i), np.full(4 + i, i - 2)], 1) for i in range(n)
    ]
    return Tractogram.from_streamlines(lines)


def layer_with_a_look():
    layer = Streamlines(
        bundle(),
        space=DisplaySpace.of(Grid((8, 9, 10), OBLIQUE)),
        width=5.0,
        slab_mm=7.3,
        opacity=0.4,
        colormap="viridis",
        max_vertices=1000,
        metadata={"subject": "07"},
    )
    layer.clip, layer.clip_at_mm = "coronal", 3.5
    return layer


def duplicate(layer):
    """The layer that napari's Duplicate adds to a viewer."""
    viewer = ViewerModel()
    viewer.add_layer(layer)
    viewer.layers.selection = {layer}
    _duplicate_layer(viewer.layers)
    first, second = viewer.layers
    assert first is layer
    return second


def test_a_duplicate_shows_the_same_streamlines_with_the_same_look():
    layer = layer_with_a_look()
    other = duplicate(layer)
    assert type(other) is Streamlines
    assert other.name == f"{layer.name} copy"
    assert other.tractogram is layer.tractogram
    assert other.space == layer.space
    for name in ("width", "slab_mm", "opacity", "max_vertices", "clip", "clip_at_mm", "blending"):
        assert getattr(other, name) == getattr(layer, name), name
    assert other.metadata == {"subject": "07"}
    assert len(other.experimental_clipping_planes) == 2
    np.testing.assert_array_equal(other.data, layer.data)


def by_values(layer):
    layer.colour_by_values(np.arange(5.0), label="Order")


def by_a_function(layer):
    layer.colour_by_kinds(lambda t: np.arange(len(t)) % 2, label="Kind", n_named=2)


def by_one_colour(layer):
    layer.colour = "orange"


def by_length(layer):
    layer.colour_by = "length"


@pytest.mark.parametrize("colour", [by_values, by_a_function, by_one_colour, by_length])
@pytest.mark.parametrize("max_vertices", [1000, 12])
def test_a_duplicate_has_the_same_colours(colour, max_vertices):
    layer = layer_with_a_look()
    layer.max_vertices = max_vertices
    colour(layer)
    before = layer.colours
    other = duplicate(layer)
    assert other.colour_by == layer.colour_by
    assert other.colour_modes == layer.colour_modes
    other.opacity = 0.9
    other.colour_by = "direction"
    other.colour_by = layer.colour_by
    np.testing.assert_allclose(other.colours.rgba, before.rgba, atol=1e-6)
    assert [name for name, _ in other.colours.categories] == [n for n, _ in before.categories]
    assert other.colours.limits == before.limits
    np.testing.assert_array_equal(layer.colours.rgba, before.rgba)


def test_a_duplicate_is_edited_by_itself():
    layer = layer_with_a_look()
    layer.selected = [0]
    layer.editor.delete_selected()
    other = duplicate(layer)
    assert other.n_all == 4
    assert not other.editor.can_undo
    other.selected = [1, 2]
    other.editor.keep_selected()
    assert (other.n_all, layer.n_all) == (2, 4)
    layer.editor.undo()
    assert (other.n_all, layer.n_all) == (2, 5)
    assert not len(layer.selected)


def test_other_clipping_planes_are_duplicated_once():
    layer = layer_with_a_look()
    layer.experimental_clipping_planes.append(ClippingPlane(position=(1, 2, 3)))
    other = duplicate(layer)
    assert len(other.experimental_clipping_planes) == 3
    layer.clip = other.clip = "off"
    assert [plane.position for plane in other.experimental_clipping_planes] == [(1, 2, 3)]


def test_layer_data_have_the_type_that_writers_take():
    layer = layer_with_a_look()
    data, state, kind = layer.as_layer_data_tuple()
    assert kind == "tracks"
    assert state["metadata"]["tractogram"] is layer.tractogram
    assert state["metadata"]["grid"] is layer.space.grid
    assert data.shape == (layer.tractogram.n_points, 4)
    assert type(Layer.create(data, {**state, "opacity": 0.2}, kind)) is Streamlines
