"""Image layers as sources: fibres are seen in them, and streamlines follow those.

The FOD of an image works out orientations where streamlines go. It is kept with the layer, which
shows it as a map of an FOD does. Called by the panel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from napari.layers import Image, Labels, Layer
from numpy.typing import NDArray

from ....errors import InvalidFodError
from ....fields.odfs import LARGEST, SMALLEST
from ....fields.structure_tensors import ImageSource
from ....geometry.grid import Grid
from ....geometry.units import MM_IN, VOXEL
from ....model.fod import Fod
from ....model.specs import ParameterSpec, parameter, specs_of
from ....runtime.extras import needs_extra
from ...space.display import (
    NAPARI_UNITS,
    SETTINGS_KEY,
    DisplaySpace,
    display_space_of_layer,
    says_sides,
    set_units,
    unit_of_layer,
)
from ..fod_opening import FOD_KEY
from ..on_volume import OnVolume
from ..volume_layers import SEEN_WITHIN, fod_grid_of, fod_of, mask_layer_data, mask_of

PHANTOM_KEY = "image phantom"  # layer.metadata[PHANTOM_KEY]: its name, of sample images
OF_IMAGE_KEY = "of image"  # layer.metadata[OF_IMAGE_KEY]: of ODFs the layer of their image
KEY_KEY = "key"  # layer.metadata[KEY_KEY]: which array of the Zarr that is the layer's file
ANY, BRIGHT, DARK = "bright or dark", "bright", "dark"
FIBRES = {ANY: None, BRIGHT: True, DARK: False}  # as Fod.from_image takes it
SCALE_UNITS = tuple(unit for unit in MM_IN if unit != VOXEL)
POSITION_TOLERANCE = 1e-6  # of the size of the volume


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """How fibres are found in an image."""

    sigma_vox: float = parameter(
        1.0,
        label="Noise scale",
        unit="voxels",
        minimum=0.5,
        maximum=20.0,
        increment=0.1,
        slider=(0.5, 5.0),
        help="What is smaller is smoothed away before gradients are taken: about the radius of the "
        "thinnest fibres that are seen.",
    )
    rho_vox: float = parameter(
        3.0,
        label="Integration scale",
        unit="voxels",
        minimum=1.0,
        maximum=50.0,
        increment=0.5,
        slider=(1.0, 15.0),
        help="Over how far orientations are averaged. Larger is smoother, and rounds what turns "
        "more quickly.",
    )
    fibres: str = parameter(
        ANY,
        label="Fibres",
        choices=tuple(FIBRES),
        help="Whether only what is brighter, or darker, than its surroundings counts as fibre.",
    )
    tissue: Layer | None = None  # only where it is not zero there are fibres


IMAGE_SPECS = specs_of(ImageSettings)
ODF_SPEC = ParameterSpec(
    name="odf_voxels",
    label="ODF blocks",
    default=8,
    unit="voxels",
    minimum=SMALLEST,
    maximum=LARGEST,
    increment=1,
    help="Edge length of the blocks whose orientations become one ODF: large enough for all "
    "directions that cross, small enough for what turns.",
)


def image_layers(layers: Iterable[Layer]) -> list[Layer]:
    """Return the images that may be tracked in once they are chosen."""
    return [
        layer
        for layer in layers
        if isinstance(layer, Image) and not layer.rgb and fod_grid_of(layer) is None
    ]


def is_image_source(layer: Layer | None) -> bool:
    """Return whether a layer is an image that is tracked in."""
    return layer is not None and SETTINGS_KEY in layer.metadata and fod_of(layer) is not None


def settings_of(layer: Layer) -> ImageSettings:
    found = layer.metadata.get(SETTINGS_KEY)
    return found if isinstance(found, ImageSettings) else ImageSettings()


def take_image(layer: Layer, settings: ImageSettings) -> Fod:
    """Make an image a source, or one with other settings; return its FOD, which the layer keeps.

    Raises TractographyError when it cannot be one; then nothing changes.
    """
    fod = fod_of_image(layer, settings)
    layer.metadata.update({SETTINGS_KEY: settings, FOD_KEY: fod})
    return fod


def fod_of_image(layer: Layer, settings: ImageSettings) -> Fod:
    """Return the fibres of an image layer as an FOD; of a multiscale layer in its finest level.

    Of NumPy, Dask or Zarr arrays, which are read by blocks. Without a unit of length there is no
    physical scale: its unit then counts as one mm. Raises InvalidFodError when the layer is not
    3-D, or turned on the screen; InvalidMaskError when the tissue is not on the voxels of the
    image; TractographyError as :meth:`~napari_tractography.model.fod.Fod.from_image` does.
    """
    if layer.ndim != 3:
        what = "a single slice" if layer.ndim < 3 else "a series"
        raise InvalidFodError(
            f"The image {layer.name} has {layer.ndim} dimensions, {what}; choose a 3-D image"
            + ("." if layer.ndim < 3 else ": Layers > Split Stack gives its parts.")
        )
    space = display_space_of_layer(layer)
    assert space.grid is not None
    grid = Grid(
        space.grid.shape,
        space.grid.affine,
        unit=unit_of_layer(layer) or VOXEL,
        is_anatomical=says_sides(layer),
    )
    shown = DisplaySpace.of(grid).world_to_display
    reach = float(np.abs(shown @ grid.affine).max()) * max(grid.shape)
    if np.abs((shown - space.world_to_display) @ grid.affine).max() > POSITION_TOLERANCE * reach:
        raise InvalidFodError(
            f"The image {layer.name} is turned or sheared on the screen; take its rotation, shear "
            "and affine away (layer.affine, layer.rotate), and choose it again."
        )
    finest = layer.data[0] if layer.multiscale else layer.data
    voxel_mm = grid.voxel_mm
    return Fod.from_image(
        space.from_volume(_lazy(finest)),
        grid,
        settings.sigma_vox * voxel_mm,
        settings.rho_vox * voxel_mm,
        bright=FIBRES[settings.fibres],
        mask=None if settings.tissue is None else mask_of(settings.tissue, space),
        name=layer.name,
    )


def image_layer(fod: Fod, levels: Sequence[Any], *, name: str) -> Image:
    """Return a layer of an image that a recipe names, as its file has it, chosen already.

    The levels, (x, y, z), are the image and coarser ones of it, on the axes of its grid.
    """
    source = fod.blocks.source if fod.blocks is not None else None
    assert isinstance(source, ImageSource)
    space = DisplaySpace.of(fod.grid)
    shown = [space.volume(_lazy(level)) for level in levels]
    layer = Image(
        shown if len(shown) > 1 else shown[0],
        multiscale=len(shown) > 1,
        name=name,
        interpolation2d="linear",
        **space.layer_kwargs,
    )
    voxel_mm, tissue = fod.grid.voxel_mm, None
    fibres = next(name for name, bright in FIBRES.items() if bright == source.bright)
    if source.mask is not None:
        tissue = Layer.create(*mask_layer_data(source.mask, fod.grid, f"{name} tissue"))
    settings = ImageSettings(source.sigma_mm / voxel_mm, source.rho_mm / voxel_mm, fibres, tissue)
    layer.metadata.update({SETTINGS_KEY: settings, FOD_KEY: fod})
    return layer


def has_scale(layer: Layer) -> bool:
    """Return whether it is known how large the voxels of a layer are."""
    return unit_of_layer(layer) is not None


def zoom_to(layer: Layer, sizes: Sequence[float]) -> NDArray[np.float64]:
    """Return by what a scale, (z, y, x), is multiplied for voxels of some size.

    That is the length of the shortest edge, or those along x, y and z.
    """
    now = np.abs(layer.scale)
    return sizes[0] / np.full(3, now.min()) if len(sizes) == 1 else np.array(sizes[::-1]) / now


def set_scale(layer: Layer, zoom: NDArray[np.float64], unit: str) -> None:
    """Say how large the voxels of a layer are: as often as now, in one of `SCALE_UNITS`."""
    layer.translate = np.asarray(layer.translate) * zoom
    layer.scale = np.asarray(layer.scale) * zoom
    set_units(layer, (NAPARI_UNITS.get(unit, unit),) * layer.ndim)


class WorkedOut(OnVolume, Labels):  # type: ignore[misc]
    """The blocks of an image whose orientations have been worked out."""

    _type_string = "labels"  # for writers and icons


def worked_out_layer(fod: Fod) -> WorkedOut:
    """Return a layer that shows where the orientations of an image have been worked out."""
    volume, space = _worked_out(fod)
    layer = WorkedOut(
        volume,
        name="Worked out",
        colormap={0: "transparent", 1: "#56b4e9", None: "transparent"},
        opacity=0.25,
        blending=SEEN_WITHIN,
        scale=space.scale,
        translate=space.translate,
    )
    layer.space = DisplaySpace.of(fod.grid)
    return layer


def show_worked_out(layer: WorkedOut, fod: Fod) -> None:
    """Bring such a layer up to date."""
    volume, space = _worked_out(fod)
    if layer.data.shape != volume.shape or not np.array_equal(layer.data, volume):
        layer.data = volume
    layer.scale, layer.translate = space.scale, space.translate
    layer.space = DisplaySpace.of(fod.grid)


def _worked_out(fod: Fod) -> tuple[Any, DisplaySpace]:
    blocks, grid = fod.worked_out()
    space = DisplaySpace.of(fod.grid.beside(grid.shape, grid.affine))
    return np.ascontiguousarray(space.volume(blocks), dtype=np.uint8), space


def _lazy(array: Any) -> Any:
    """Return an array that can be transposed without being read."""
    if isinstance(array, np.ndarray):
        return array
    with needs_extra("images", "An image that is read in part takes"):
        import dask.array
    if isinstance(array, dask.array.Array):
        return array
    return dask.array.from_array(array, name=False)
