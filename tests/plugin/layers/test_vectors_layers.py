"""Vectors of a napari layer as peaks, by the layer's own transform."""

from __future__ import annotations

import numpy as np
import pytest
from napari.layers import Vectors

from napari_tractography.errors import InvalidFodError
from napari_tractography.geometry.grid import Grid
from napari_tractography.plugin.layers.sources.vectors_layers import fod_of_vectors, vectors_layers
from napari_tractography.plugin.space.display import DisplaySpace

IDENTITY = DisplaySpace.identity()


def layer_of(vectors: np.ndarray, **kwargs: object) -> Vectors:
    """Vectors (z, y, x) at all places of a grid of 2 x 3 x 4 (z, y, x)."""
    places = np.argwhere(np.ones((2, 3, 4)))
    data = np.stack([places, np.broadcast_to(vectors, places.shape)], axis=1)
    return Vectors(data.astype(float), name="arrows", **kwargs)


def test_the_layers_transform_places_and_turns_them() -> None:
    layer = layer_of(np.array([0.0, 1.0, 0.0]), scale=(3, 2, 1), translate=(30, 20, 10))
    fod = fod_of_vectors(layer, IDENTITY)
    assert fod.grid == Grid((4, 3, 2), [[1, 0, 0, 10], [0, 2, 0, 20], [0, 0, 3, 30], [0, 0, 0, 1]])
    # Along y, and as long as the projection is in the layer, whatever its scale.
    np.testing.assert_allclose(fod.vectors.numbers, np.tile([0, 1, 0], (24, 1)))
    turned = layer_of(np.array([0.0, 1.0, 0.0]), rotate=(0, 0, 90))
    along = fod_of_vectors(turned, IDENTITY).vectors.numbers[0]
    assert abs(along[0]) == pytest.approx(1.0)


def test_a_layer_in_an_oblique_space_lies_where_it_is_seen() -> None:
    affine = np.eye(4)
    affine[:2, :2] = [[0.8, -0.6], [0.6, 0.8]]
    space = DisplaySpace.of(Grid((4, 3, 2), affine))
    layer = layer_of(np.array([0.0, 0.0, 1.0]), scale=space.scale, translate=space.translate)
    fod = fod_of_vectors(layer, space)
    np.testing.assert_allclose(fod.grid.affine, affine, atol=1e-6)
    np.testing.assert_allclose(fod.vectors.numbers[0], [0.8, 0.6, 0], atol=1e-6)


def test_other_layers_are_refused() -> None:
    flat = Vectors(np.ones((3, 2, 2)), name="flat")
    with pytest.raises(InvalidFodError, match=r"flat has vectors in 2 dimensions"):
        fod_of_vectors(flat, IDENTITY)
    anywhere = Vectors(np.random.default_rng(0).uniform(size=(40, 2, 3)), name="loose")
    with pytest.raises(InvalidFodError, match=r"loose has 40 vectors that are on no regular grid"):
        fod_of_vectors(anywhere, IDENTITY)
    assert vectors_layers([flat, anywhere]) == [flat, anywhere]
