"""Tissue images as napari layers: what shows one, what may serve as one, and what it says.

Called by the Tissues section, the session and the reader of MRtrix images.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace

import numpy as np
from napari.layers import Image, Labels, Layer

from ...model.tissues import N_TISSUES, Tissues
from ..space.display import DisplaySpace
from .volume_layers import LayerData, label_colours, voxels_of

TISSUES_KEY = "tissues"  # layer.metadata[TISSUES_KEY]: the Tissues that a labels layer shows
# Of the tissues in their order: told apart by people with a red-green weakness (Okabe and Ito).
COLOURS = ("#e69f00", "#d55e00", "#f0e442", "#0072b2", "#cc79a7")


def tissue_layer_data(tissues: Tissues) -> LayerData:
    """Return a tissue image as a labels layer, (z, y, x): the number of the largest, from 1."""
    largest = tissues.fractions.argmax(axis=3) + 1
    space = DisplaySpace.of(tissues.grid)
    held = np.where(tissues.fractions.any(axis=3), largest, 0)
    labels = np.ascontiguousarray(space.volume(held), dtype=np.uint8)
    kwargs = space.layer_kwargs
    kwargs["metadata"][TISSUES_KEY] = tissues
    kwargs |= {
        "name": tissues.name,
        "opacity": 0.3,
        "colormap": label_colours(*COLOURS),
    }
    return labels, kwargs, "labels"


def shown_tissues(layer: Layer | None) -> Tissues | None:
    """Return the tissue image that a layer was made of, or None."""
    found = None if layer is None else layer.metadata.get(TISSUES_KEY)
    return found if isinstance(found, Tissues) else None


def tissue_layers(layers: Iterable[Layer]) -> list[Layer]:
    """Return the layers that may serve as a tissue image.

    Those made of one, other 3-D labels, which may be FreeSurfer's, and images of five volumes.
    """
    layers = [layer for layer in layers if isinstance(layer, Image | Labels)]
    labels = [layer for layer in layers if isinstance(layer, Labels)]
    return [layer for layer in labels if layer.ndim == 3 and not layer.multiscale] + [
        layer
        for layer in layers
        if layer not in labels
        and not layer.multiscale
        and layer.ndim == 4
        and layer.data.shape[0] == N_TISSUES
    ]


def tissues_of(layer: Layer, space: DisplaySpace) -> Tissues:
    """Return the tissue image that one of :func:`tissue_layers` holds.

    A layer that has no affine of its own lies in the space of the FOD. Raises InvalidTissuesError
    when its values are neither fractions of tissues nor FreeSurfer's labels; InvalidGridError when
    the layer's affine makes no sense.
    """
    created = shown_tissues(layer)
    if created is not None:
        return created
    path = str(layer.metadata.get("path") or layer.source.path or "")
    if isinstance(layer, Labels):
        labels, grid = voxels_of(layer, space)
        return Tissues.from_labels(np.array(labels), grid, name=layer.name, path=path)
    # One 3-D volume of vectors in place of volumes one after the other.
    as_one = SimpleNamespace(
        data=np.moveaxis(np.asarray(layer.data), 0, 3),
        ndim=layer.ndim - 1,
        data_to_world=lambda position: np.asarray(layer.data_to_world((0, *position)))[1:],
        **{name: getattr(layer, name) for name in ("name", "metadata", "affine", "units")},
    )
    fractions, grid = voxels_of(as_one, space)
    return Tissues(fractions, grid, name=layer.name, path=path)
