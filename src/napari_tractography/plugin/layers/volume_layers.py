"""Volumes as napari layers: FODs as their l = 0 map, masks as labels.

An FOD layer may still be reading its coefficients, see :mod:`.fod_opening`. Called by the readers,
the sample data and the panel.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from os import PathLike
from typing import Any, Unpack
from weakref import WeakKeyDictionary

import numpy as np
from napari.layers import Image, Labels, Layer
from napari.utils.colormaps import Colormap, CyclicLabelColormap, ensure_colormap
from napari.utils.notifications import show_info
from numpy.typing import NDArray

from ...errors import InvalidGridError, InvalidMaskError
from ...files.fods import FodKeywords
from ...files.volume_files import has_many_values
from ...geometry.grid import Grid
from ...geometry.units import per_mm, symbol
from ...model.fod import Fod
from ...model.masks import RESAMPLED, resampled
from ..notices import show_warning
from ..space.display import DisplaySpace, display_space_of_layer, set_units, unit_of_layer
from .fod_opening import FOD_KEY, FodOpening, contrast_limits

LayerData = tuple[Any, dict[str, Any], str]
# While a seed is dragged a mask is asked for again and again. Of each its voxels, where they were
# to go, and what became of them there, the last time: turned to the FOD's axes, or resampled.
Turned = tuple[NDArray[np.bool_], tuple[Any, ...], NDArray[np.bool_]]
Resampled = tuple[NDArray[np.bool_], Grid, NDArray[np.bool_]]
_turned: WeakKeyDictionary[Layer, Turned] = WeakKeyDictionary()
_resampled: WeakKeyDictionary[Layer, Resampled] = WeakKeyDictionary()

# layer.metadata[SHA256_KEY]: of the file that its Fod was read from, as it was then.
SHA256_KEY = "sha256"
MAP_KEY = "is_map"  # layer.metadata[MAP_KEY]: whether the file of a mask held many values
# What holds little fades away, so that on a light background a slice is no black box.
FADED = 0.15  # of the contrast
GREY = Colormap(
    [[0, 0, 0, 0], [FADED, FADED, FADED, 1], [1, 1, 1, 1]], name="grey", controls=[0, FADED, 1]
)
SEEN_WITHIN = "translucent_no_depth"  # the blending of what is not to hide what lies in it in 3-D
POSITION_TOLERANCE = 0.01  # of a voxel: what file formats round


def faded(name: str) -> Colormap:
    """Return a colormap of napari whose low end fades away, whatever lies behind."""
    base = ensure_colormap(name)
    colours = np.array(base.colors, dtype=float)
    colours[:, 3] = np.minimum(np.linspace(0, 1, len(colours)) / FADED, 1.0)
    return Colormap(colours, name=f"{name}, faded", controls=base.controls)


def label_colours(*colours: str) -> CyclicLabelColormap:
    """Return colours for labels from 1 on, over and over; 0 is transparent.

    A DirectLabelColormap has Numba compile a dictionary for two seconds, in the window's thread.
    """
    return CyclicLabelColormap(colors=["transparent", *colours])


def fod_layer_data(fod: Fod) -> LayerData:
    """Return an FOD as an image layer of its overview, (z, y, x); the Fod goes along."""
    return _map_layer_data(fod, fod.overview(), contrast_limits(fod.overview_values()))


def open_fod(
    path: str | PathLike[str], viewer: Any = None, **reading: Unpack[FodKeywords]
) -> LayerData:
    """Return an FOD volume as an image layer, as :func:`fod_layer_data` does, without waiting.

    Of a large file the coefficients are read in a thread: until then :func:`fod_of` gives None. The
    layer will be added to the viewer, and is removed from it when reading fails. How the file is
    read, is said as to :func:`~napari_tractography.files.fods.load_fod`.

    Raises TractographyError when the file cannot be read or is no FOD, as far as that is known at
    once. What is found later is shown as a notification.
    """
    opening = FodOpening(path, viewer, **reading)
    opening.start()
    if opening.fod is not None:
        data, attributes, kind_of_layer = fod_layer_data(opening.fod)
        attributes["metadata"][SHA256_KEY] = opening.sha256
        return data, attributes, kind_of_layer
    return _map_layer_data(opening, opening.isotropic, opening.contrast_limits)


def _map_layer_data(
    fod: Fod | FodOpening, isotropic: NDArray[np.float32], limits: tuple[float, float]
) -> LayerData:
    space = DisplaySpace.of(fod.grid)
    kwargs = space.layer_kwargs
    kwargs["metadata"][FOD_KEY] = fod
    kwargs |= {
        "name": fod.name,
        "colormap": GREY,
        "interpolation2d": "linear",
        "contrast_limits": limits,
        "rendering": "mip",
        "blending": SEEN_WITHIN,
    }
    return space.volume(isotropic), kwargs, "image"


def mask_layer_data(values: NDArray[Any], grid: Grid, name: str) -> LayerData:
    """Return a mask on a grid, which is not zero inside, as a labels layer, (z, y, x)."""
    space = DisplaySpace.of(grid)
    labels = np.ascontiguousarray(space.volume(np.nan_to_num(values) != 0), dtype=np.uint8)
    kwargs = {**space.layer_kwargs, "name": name, "opacity": 0.3, "blending": SEEN_WITHIN}
    kwargs["metadata"][MAP_KEY] = has_many_values(values)
    return labels, kwargs, "labels"


def see_within(layer: Layer | None) -> Layer | None:
    """Return a mask or region, in which streamlines are now seen in 3-D.

    By itself the surface of labels hides them.
    """
    if isinstance(layer, Labels):
        layer.blending = SEEN_WITHIN
    return layer


def fod_of(layer: Layer | None) -> Fod | None:
    """Return the Fod that a layer shows, or None; also None while it is being read."""
    found = _held_by(layer)
    return found.fod if isinstance(found, FodOpening) else found


def opening_of(layer: Layer | None) -> FodOpening | None:
    """Return the opening of the FOD that a layer shows while its file is being read, or None."""
    found = _held_by(layer)
    return found if isinstance(found, FodOpening) and found.is_under_way else None


def sha256_of_fod(layer: Layer) -> str:
    """Return the SHA-256 of the file of a layer's FOD as it was when it was read; "" if unknown."""
    found = _held_by(layer)
    known = layer.metadata.get(SHA256_KEY, "")
    return found.sha256 if isinstance(found, FodOpening) else str(known)


def _held_by(layer: Layer | None) -> Fod | FodOpening | None:
    """Return the FOD of a layer; of labels and slices that napari made of it none."""
    if not isinstance(layer, Image) or layer.ndim != 3:
        return None
    found = layer.metadata.get(FOD_KEY)  # which napari copies with a layer
    return found if isinstance(found, Fod | FodOpening) else None


def fod_grid_of(layer: Layer | None) -> Grid | None:
    """Return the grid of the FOD that a layer shows, read or being read, or None."""
    found = fod_of(layer) or opening_of(layer)
    return None if found is None else found.grid


def fod_layers(layers: Iterable[Layer]) -> list[Layer]:
    """Return the layers that show an FOD, read or being read."""
    return [layer for layer in layers if fod_grid_of(layer) is not None]


def frame_of(layers: Iterable[Layer]) -> DisplaySpace:
    """Return the space that streamlines are shown in: of the FOD that was opened last.

    Without one it is that of the first volume that knows its affine, or else RAS+ mm.
    """
    layers = list(layers)
    for layer in reversed(layers):
        grid = fod_grid_of(layer)
        if grid is not None:
            return DisplaySpace.of(grid)
    for layer in filter(knows_affine, layers):
        with suppress(InvalidGridError):
            return display_space_of_layer(layer)
    return DisplaySpace.identity()


def knows_affine(layer: Layer) -> bool:
    """Return whether a layer is a volume whose true affine is known."""
    return isinstance(layer, Labels | Image) and layer.ndim == 3 and "affine" in layer.metadata


def tilted_layers(layers: Iterable[Layer], space: DisplaySpace) -> list[tuple[Layer, float]]:
    """Return how far from where it should be each volume is shown beside another, at most.

    napari shows volumes on their own voxels, and so an oblique one without its tilt. In the unit of
    the display: of volumes in sight that know their affine, and are more than half a voxel of
    `space` away somewhere.
    """
    found, enough = [], min(np.abs(space.scale)) / 2
    for layer in filter(knows_affine, layers):
        with suppress(InvalidGridError):
            gap = space.apart(display_space_of_layer(layer))
            if gap > enough and layer.visible:
                found.append((layer, gap))
    return found


def moved_by(layer: Layer, grid: Grid) -> float:
    """Return how far from where its grid lies a volume is shown, at most.

    In the unit of the display: 0 but for a layer that was moved, scaled or turned by hand.
    """
    space = DisplaySpace.of(grid)
    assert space.shape_zyx is not None
    ends = [(0, n - 1) for n in space.shape_zyx]
    corners = np.stack(np.meshgrid(*ends), axis=-1).reshape(-1, 3)
    shown = np.array([layer.data_to_world(corner) for corner in corners])
    gaps = shown - (np.array(space.translate) + np.array(space.scale) * corners)
    return float(np.linalg.norm(gaps, axis=1).max())


def put_back(layer: Layer, grid: Grid) -> None:
    """Show a volume where its grid lies again."""
    space = DisplaySpace.of(grid)
    layer.affine, layer.rotate, layer.shear = np.eye(4), np.eye(3), np.zeros(3)
    layer.scale, layer.translate = space.scale, space.translate


def place(layer: Layer | None, space: DisplaySpace) -> None:
    """Show a layer that says no voxel size on the volume that has as many voxels, and say so."""
    if layer is None or "affine" in layer.metadata or unit_of_layer(layer) is not None:
        return
    if layer.ndim != 3 or layer.multiscale or tuple(layer.data.shape) != space.shape_zyx:
        return
    is_moved = (layer.scale != 1).any() or layer.translate.any()
    if is_moved or (space.scale == (1, 1, 1) and not any(space.translate)):
        return
    layer.scale, layer.translate = space.scale, space.translate
    set_units(layer, space.units)
    show_info(f"{layer.name} says no voxel size: it lies on what is tracked in, now.")


def is_map(layer: Layer) -> bool:
    """Return whether a layer that may serve as a mask holds, or its file held, many values."""
    if MAP_KEY not in layer.metadata:
        return isinstance(layer, Image) and has_many_values(np.asarray(layer.data))
    return bool(layer.metadata[MAP_KEY])


def mask_layers(layers: Iterable[Layer]) -> list[Layer]:
    """Return the layers that may serve as a mask: 3-D labels, and 3-D images that show no FOD."""
    return [
        layer
        for layer in layers
        if isinstance(layer, Labels | Image)
        and layer.ndim == 3
        and not layer.multiscale
        and not getattr(layer, "rgb", False)
        and fod_grid_of(layer) is None
    ]


def fod_mask_of(layer: Layer, space: DisplaySpace) -> NDArray[np.bool_]:
    """Return the mask that a layer shows, on the voxel grid of an FOD, resampled where need be.

    As the command does: one from a file, which says where its voxels lie, may be on any grid. That
    is told once. What was painted, moved on the screen, or says no voxel size, is
    :func:`mask_of`'s. Raises InvalidMaskError as that, and when no voxel is inside.
    """
    own, grid = display_space_of_layer(layer), space.grid
    try:
        return mask_of(layer, space)
    except InvalidMaskError:
        if own.grid is None or grid is None or not knows_affine(layer):
            raise
        voxel = float(own.grid.voxel_sizes_mm.min()) * per_mm(own.grid.unit)
        if moved_by(layer, own.grid) > POSITION_TOLERANCE * voxel:
            raise
    inside = own.from_volume(_inside(layer))
    last = _resampled.get(layer)
    if last is None:
        show_warning(RESAMPLED.format(layer.name))
    elif last[1].same_space(grid) and np.array_equal(last[0], inside):
        return last[2]
    found = resampled(inside, own.grid, grid, layer.name)
    _resampled[layer] = inside, grid, found
    return found


def _inside(layer: Layer) -> NDArray[np.bool_]:
    data = np.asarray(layer.data)
    inside: NDArray[np.bool_] = data != 0
    if data.dtype.kind in "fc":
        inside &= data == data  # NaN counts as outside
    return inside


def mask_of(layer: Layer, space: DisplaySpace) -> NDArray[np.bool_]:
    """Return the mask that a 3-D layer shows, (x, y, z) bool, voxel by voxel on the grid of an FOD.

    True where the layer is neither zero nor NaN. A mask belongs to the voxels of the FOD that it
    covers on the screen: its file may store them in another order than the FOD's, and one painted
    in napari has no file. Raises InvalidMaskError when the layer's voxels are not those of the FOD.
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
    # Numbers without a unit are taken in that of the FOD.
    zoom = 1.0 if unit_of_layer(layer) is None else space.per_mm / own.per_mm
    placed = zoom * np.array([own.scale, own.translate]) - np.array([space.scale, space.translate])
    matrix = own.world_to_display * np.array([zoom, zoom, zoom, 1.0])[:, None]
    turned = 0.0 if painted else np.abs(matrix - space.world_to_display).max() / space.per_mm
    is_elsewhere = (np.abs(placed) > POSITION_TOLERANCE * np.abs(space.scale)).any()
    if is_elsewhere or turned > POSITION_TOLERANCE:
        raise InvalidMaskError(
            f"The mask {layer.name} lies elsewhere than the FOD: its first voxel on the screen is "
            f"at {_position_text(own)}, the FOD's at {_position_text(space)}; resample the "
            "mask to the FOD's grid (mrgrid mask regrid -template fod)."
        )
    inside, turn = _inside(layer), (space.axes, space.flips)
    last = _turned.get(layer)
    if last is None or last[1] != turn or not np.array_equal(last[0], inside):
        mask = np.ascontiguousarray(space.from_volume(inside))
        mask.flags.writeable = False
        last = _turned[layer] = inside, turn, mask
    return last[2]


def voxels_of(layer: Layer, space: DisplaySpace) -> tuple[NDArray[Any], Grid]:
    """Return the voxels that a 3-D layer shows as (x, y, z), and their grid.

    In the order of its file where it has one, and where that says, moved by the layer's own
    transform (`layer.affine`), such as one of a registration. A layer that was painted in napari
    has none: it lies in the scanner's RAS+ mm as the FOD does that it covers on the screen.

    Raises InvalidGridError when the layer's affine makes no sense.
    """
    own = display_space_of_layer(layer)
    assert own.grid is not None
    data = np.asarray(layer.data)
    transform = np.eye(4)
    transform[:3, :3] = np.asarray(layer.affine.linear_matrix)[-3:, -3:][::-1, ::-1]
    transform[:3, 3] = np.asarray(layer.affine.translate)[-3:][::-1]
    if "affine" in layer.metadata or space.grid is None:
        if "affine" not in layer.metadata or np.array_equal(transform, np.eye(4)):
            return own.from_volume(data), own.grid
        # The same from where the layer is shown without it, in mm.
        shown = own.world_to_display
        moved = np.linalg.inv(np.linalg.inv(transform) @ shown) @ shown
        return own.from_volume(data), own.grid.beside(own.grid.shape, moved @ own.grid.affine)
    placed = np.array([own.scale, own.translate]) - np.array([space.scale, space.translate])
    is_there = (np.abs(placed) <= POSITION_TOLERANCE * np.abs(space.scale)).all()
    if is_there and data.shape == space.shape_zyx:
        return space.from_volume(data), space.grid
    shown = own.world_to_display @ own.grid.affine
    affine = np.linalg.inv(space.world_to_display) @ shown
    return own.from_volume(data), Grid(own.grid.shape, affine)


def _xyz(shape: Iterable[int]) -> tuple[int, ...]:
    return tuple(int(n) for n in reversed(tuple(shape)))


def _position_text(space: DisplaySpace) -> str:
    numbers = ", ".join(f"{x:.1f}" for x in reversed(space.translate))
    return f"({numbers}) {symbol(space.unit)}"
