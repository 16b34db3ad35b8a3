"""A small tube of helical fibres as an image layer, chosen as a person does."""

from __future__ import annotations

from typing import Any

import numpy as np
from napari.layers import Image

from napari_tractography.model.image_phantoms import ImagePhantom, Tube, draw
from napari_tractography.plugin.space.display import DisplaySpace

IN_WALL = (0.3, 0.0, 0.0)  # mm: 15 voxels of 20 um from the middle


def draw_tube() -> ImagePhantom:
    """A small tube of 20 um voxels, its middle at the origin."""
    return draw(Tube(shape=(48, 48, 20), inner_vox=8.0, outer_vox=22.0))


def image_layer(tube: ImagePhantom, **changes: Any) -> Image:
    """The image as a layer in um, axes (z, y, x)."""
    space = DisplaySpace.of(tube.grid)
    look: dict[str, Any] = {
        "name": "tube",
        "scale": space.scale,
        "translate": space.translate,
        "units": ("um",) * 3,
    }
    data = changes.pop("data", np.ascontiguousarray(tube.image.T))
    return Image(data, **{**look, **changes})


def choose(panel: Any, layer: Image) -> None:
    """Add an image and choose it, as a person does."""
    panel.viewer.add_layer(layer)
    assert layer in panel.data.fod_choice.choices
    panel.data.fod_choice.value = layer
