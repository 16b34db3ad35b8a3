"""The files that layers were opened from, and images as recipes name them.

Called by what writes down what is on the screen: recipes, copied scripts, the panel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from napari.layers import Layer

from ...errors import InvalidFodError, TractographyError
from ...model.fod import Fod
from ...recipes.image_sources import ImageReading, source_of_image
from ...recipes.sources import FodSource
from ..layers.sources.image_layers import KEY_KEY, PHANTOM_KEY

PATH_KEY = "path"  # layer.metadata[PATH_KEY]: the file that a layer was opened from


def path_of(layer: Layer) -> str | None:
    """Return the file that a layer was opened from, or None."""
    known: Any = layer.metadata.get(PATH_KEY) or layer.source.path
    return None if known is None else str(known)


PART_KEY = "part"  # layer.metadata[PART_KEY]: where the image was found, a _Known
# layer.metadata[SOURCE_KEY]: of ODFs of an image their FodSource, or why there is none.
SOURCE_KEY = "source"


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """What was found of an image: it is asked for after every change in the window."""

    data: Any
    fod: Fod
    source: FodSource


def is_of_image(layer: Layer, fod: Fod) -> bool:
    """Return whether what a layer shows is an image, or ODFs of one."""
    return fod.blocks is not None or SOURCE_KEY in layer.metadata


def image_source(layer: Layer, fod: Fod) -> FodSource:
    """Return the image of a layer, and how its fibres are found, as a recipe names it.

    The layer shows `fod`: an image, or ODFs of one. That the file holds the image is looked at
    once; its SHA-256 is not taken.

    Raises InvalidFodError when the image did not come from a file and is no phantom; FileError when
    the file cannot be read, or does not hold the image.
    """
    odfs = layer.metadata.get(SOURCE_KEY)
    if isinstance(odfs, FodSource):
        return odfs
    if odfs is not None:
        raise InvalidFodError(str(odfs))
    phantom = layer.metadata.get(PHANTOM_KEY)
    if phantom is not None:
        reading = ImageReading.of(source_of_image(fod), axes="xyz")
        return FodSource(phantom=phantom, kind=fod.kind, image=reading)
    known = layer.metadata.get(PART_KEY)
    if not isinstance(known, _Known) or known.data is not layer.data:
        path, key = _file_and_key(layer)
        known = _Known(layer.data, fod, FodSource.of_image(fod, path, key, hashed=False))
    elif known.fod is not fod:  # other scales, say
        part = known.source.image
        assert part is not None
        reading = ImageReading.of(
            source_of_image(fod), key=part.key, index=part.index, axes=part.axes
        )
        known = _Known(layer.data, fod, replace(known.source, image=reading))
    layer.metadata[PART_KEY] = known
    return known.source


def note_odfs(created: Layer, layer: Layer, fod: Fod, odf_voxels: int) -> None:
    """Note on a layer of ODFs of which image they are, so that recipes can name them.

    `layer` shows the image, and `fod` has the scales by which the ODFs were made.
    """
    try:
        source = image_source(layer, fod)
        assert source.image is not None
        reading = replace(source.image, odf_voxels=odf_voxels)
        created.metadata[SOURCE_KEY] = replace(source, image=reading)
    except TractographyError as error:
        created.metadata[SOURCE_KEY] = str(error)


def _file_and_key(layer: Layer) -> tuple[str, str]:
    """Return the path of the file of an image, and the key in it."""
    path = path_of(layer)
    if path is not None:
        return path, str(layer.metadata.get(KEY_KEY, ""))
    data = layer.data[0] if getattr(layer, "multiscale", False) else layer.data
    array = _zarr_array(data)
    root = getattr(getattr(array, "store", None), "root", None)
    if root is None or not Path(str(root)).is_dir():
        raise InvalidFodError(
            f"The image {layer.name} did not come from a file, which a recipe could name; save it "
            "as .tif or Zarr, and open it from there."
        )
    return str(root), str(array.path)


def _zarr_array(data: Any) -> Any:
    """Return the Zarr array that an array is, or that one of Dask was made of; None without."""
    if hasattr(data, "store") and hasattr(data, "path"):
        return data
    layers = getattr(getattr(data, "dask", None), "layers", {})
    for name, part in layers.items():
        if str(name).startswith("original-"):  # where Dask puts the array itself
            value = next(iter(part.values()))
            value = getattr(value, "value", value)
            if hasattr(value, "store") and hasattr(value, "path"):
                return value
    return None
