"""Volumes as napari layers: FODs as their l = 0 map, masks as labels.

Called by the readers, the sample data and the panel.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from napari.layers import Image, Labels, Layer
from numpy.typing import NDArray

from ...errors import InvalidMaskError
from ...fod import Fod
from ...grid import Grid
from ..space.display import DisplaySpace, display_space_of_layer

LayerData = tuple[Any, dict[str, Any], str]

FOD_KEY = "fod"  # layer.metadata[FOD_KEY] is the Fod that an image layer shows
BRIGHT_PERCENTILE = 99.5
HEADROOM = 1.5  # the volume stays grey, so that streamlines of any colour stand out on it
PLACE_TOLERANCE = 0.01  # of a voxel: what file formats round


def fod_layer_data(fod: Fod) -> LayerData:
    """Return an FOD as an image layer of its l = 0 map, (z, y, x); the Fod goes along."""
    space = DisplaySpace.of(fod.grid)
    values = fod.values[:, 0]
    positive = values[values > 0]
    top = float(np.percentile(positive, BRIGHT_PERCENTILE)) if positive.size else 1.0
    kwargs = space.layer_kwargs
    kwargs["metadata"][FOD_KEY] = fod
    kwargs |= {
        "name": fod.name,
        "colormap": "gray",
        "contrast_limits": (0.0, HEADROOM * top),
        "rendering": "mip",
        "blending": "translucent_no_depth",
    }
    return space.volume(fod.isotropic()), kwargs, "image"


def mask_layer_data(mask: NDArray[Any], grid: Grid, name: str) -> LayerData:
    """Return a mask on a grid as a labels layer, (z, y, x)."""
    space = DisplaySpace.of(grid)
    labels = np.ascontiguousarray(space.volume(np.asarray(mask) != 0), dtype=np.uint8)
    return labels, {**space.layer_kwargs, "name": name, "opacity": 0.3}, "labels"


def fod_of(layer: Layer | None) -> Fod | None:
    """Return the Fod that a layer shows, or None."""
    found = None if layer is None else layer.metadata.get(FOD_KEY)
    return found if isinstance(found, Fod) else None


def fod_layers(layers: Iterable[Layer]) -> list[Layer]:
    """Return the layers that show an FOD."""
    return [layer for layer in layers if fod_of(layer) is not None]


def mask_layers(layers: Iterable[Layer]) -> list[Layer]:
    """Return the layers that may serve as a mask: 3-D labels, and 3-D images that show no FOD."""
    return [
        layer
        for layer in layers
        if isinstance(layer, Labels | Image)
        and layer.ndim == 3
        and not layer.multiscale
        and not getattr(layer, "rgb", False)
        and fod_of(layer) is None
    ]


def mask_of(layer: Layer, space: DisplaySpace) -> NDArray[np.bool_]:
    """Return the mask that a layer shows, on the voxel grid of an FOD.

    A mask belongs to the voxels of the FOD that it covers on the screen: its file may store
    them in another order than the FOD's, and one painted in napari has no file.

    Parameters
    ----------
    layer : Labels or Image
        A 3-D layer.
    space : DisplaySpace
        Of the FOD.

    Returns
    -------
    (x, y, z) bool
        True where the layer is neither zero nor NaN, in the axes of the FOD.

    Raises
    ------
    InvalidMaskError
        When the layer's voxels are not those of the FOD.
    """
    own = display_space_of_layer(layer)
    wanted = space.shape_zyx
    assert wanted is not None
    if tuple(layer.data.shape) != wanted:
        raise InvalidMaskError(
            f"The mask {layer.name} has shape {_xyz(layer.data.shape)} but the FOD has "
            f"{_xyz(wanted)}; resample the mask to the FOD's grid (mrgrid mask regrid -template "
            "fod)."
        )
    painted = "affine" not in layer.metadata
    placed = np.array([own.scale, own.translate]) - np.array([space.scale, space.translate])
    turned = 0.0 if painted else np.abs(own.world_to_display - space.world_to_display).max()
    if (np.abs(placed) > PLACE_TOLERANCE * np.abs(space.scale)).any() or turned > PLACE_TOLERANCE:
        raise InvalidMaskError(
            f"The mask {layer.name} lies elsewhere than the FOD: its first voxel on the screen is "
            f"at {_mm(own.translate)} mm, the FOD's at {_mm(space.translate)} mm; resample the "
            "mask to the FOD's grid (mrgrid mask regrid -template fod)."
        )
    inside = np.nan_to_num(np.asarray(layer.data)) != 0
    return np.ascontiguousarray(space.from_volume(inside))


def voxels_of(layer: Layer, space: DisplaySpace) -> tuple[NDArray[Any], Grid]:
    """Return the voxels that a 3-D layer shows as (x, y, z), and their grid.

    In the order of its file where it has one. A layer that was painted in napari has none: it
    lies in the scanner's RAS+ mm as the FOD does that it covers on the screen.

    Parameters
    ----------
    layer : Labels or Image
        A 3-D layer.
    space : DisplaySpace
        Of the FOD.

    Raises
    ------
    InvalidGridError
        When the layer's affine makes no sense.
    """
    own = display_space_of_layer(layer)
    assert own.grid is not None
    data = np.asarray(layer.data)
    if "affine" in layer.metadata or space.grid is None:
        return own.from_volume(data), own.grid
    placed = np.array([own.scale, own.translate]) - np.array([space.scale, space.translate])
    if (
        data.shape == space.shape_zyx
        and (np.abs(placed) <= PLACE_TOLERANCE * np.abs(space.scale)).all()
    ):
        return space.from_volume(data), space.grid
    affine = np.linalg.inv(space.world_to_display) @ own.grid.affine
    return own.from_volume(data), Grid(own.grid.shape, affine)


def _xyz(shape: Iterable[int]) -> tuple[int, ...]:
    return tuple(int(n) for n in reversed(tuple(shape)))


def _mm(position_zyx: Iterable[float]) -> str:
    return "(" + ", ".join(f"{x:.1f}" for x in reversed(tuple(position_zyx))) + ")"
