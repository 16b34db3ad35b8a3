"""The layers of a project that is opened: FODs, images, masks and tissues, read if need be."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from napari.layers import Layer
from qtpy.QtWidgets import QWidget

from ...errors import TractographyError
from ...fields.kinds import SH
from ...files.image_files import in_space, stored_levels
from ...files.tissue_files import load_tissues
from ...model.fod import Fod
from ...model.phantoms import is_phantom
from ...recipes.image_sources import ImageReading, says_sides, source_of_image
from ...recipes.project import Project
from ...recipes.recipe import Recipe
from ...recipes.sources import FodSource
from ...recipes.volume_sources import VolumeSource, located
from ..export.layer_files import PATH_KEY, SOURCE_KEY, image_source, is_of_image, path_of
from ..layers.fod_opening import as_held
from ..layers.on_volume import index_of_volume
from ..layers.sources.image_layers import KEY_KEY, PHANTOM_KEY, image_layer, settings_of
from ..layers.tissue_layers import shown_tissues, tissue_layer_data, tissue_layers
from ..layers.volume_layers import (
    SHA256_KEY,
    fod_grid_of,
    fod_layer_data,
    fod_layers,
    fod_of,
    mask_layer_data,
)
from ..space.display import BARE_KEY
from ..space.layer_list import insert_beside
from .widgets.busy_dialog import wait_for


class ProjectLayers:
    """Finds or adds the layers that the bundles of a project need."""

    def __init__(self, viewer: Any) -> None:
        self.viewer = viewer

    def fod_layers(self, project: Project, parent: QWidget) -> dict[FodSource, Layer]:
        """Return a layer for each FOD of a project, read where it is not open yet.

        Raises TractographyError when one cannot be read; GivenUpError when the person did not want
        to wait for it.
        """
        found: dict[FodSource, Layer] = {}
        for bundle in project.bundles.values():
            if isinstance(bundle.source, Recipe):
                source = dataclasses.replace(bundle.source.fod, sha256="")
                if source not in found:
                    found[source] = self._fod_layer(source, parent)
        return found

    def _fod_layer(self, source: FodSource, parent: QWidget) -> Layer:
        for layer in fod_layers(self.viewer.layers):
            if _shows(layer, source):
                return layer
        name = Path(source.path).name or source.phantom
        reading = source.image  # of which no more is read than what is tracked in

        def read() -> tuple[Fod, FodSource]:
            fod, found = source.read(hashed=reading is None)
            return (fod if reading is not None else as_held(fod, found.sha256)), found

        fod, found = wait_for(read, f"Opening {name}", parent)
        if reading is not None and reading.odf_voxels is None:
            layer = self._image_layer(fod, source, reading)
        else:
            layer = Layer.create(*fod_layer_data(fod))
        if reading is not None and reading.odf_voxels is not None:
            layer.metadata[SOURCE_KEY] = source
        elif source.path:
            layer.metadata[PATH_KEY] = source.path
            layer.metadata[SHA256_KEY] = found.sha256
        self.viewer.layers.insert(index_of_volume(self.viewer.layers, layer), layer)
        return layer

    def _image_layer(self, fod: Fod, source: FodSource, reading: ImageReading) -> Layer:
        """Return a layer of an image, of an OME-Zarr one with its coarser levels."""
        levels = [source_of_image(fod).image]
        if not source.phantom:
            stored = stored_levels(source.path, reading.key)[0][1:]
            levels += [in_space(level, reading.index, reading.axes) for level in stored]
        layer = image_layer(fod, levels, name=fod.name)
        layer.metadata[KEY_KEY] = reading.key
        if source.phantom:
            layer.metadata[PHANTOM_KEY] = source.phantom
        if not says_sides(source.path):
            layer.metadata[BARE_KEY] = True
        tissue = settings_of(layer).tissue
        if tissue is not None:
            insert_beside(self.viewer, tissue)
        return layer

    def mask_layer(
        self, volume: VolumeSource, folder: Path | None, name: str, fod_layer: Layer
    ) -> Layer:
        """Add the layer of a mask; hidden, as it would veil the streamlines within."""
        mask, grid = volume.load(folder)
        fod_grid = fod_grid_of(fod_layer)
        if fod_grid is not None:  # masks know of no unit
            grid = fod_grid.beside(grid.shape, grid.affine)
        layer = Layer.create(*mask_layer_data(mask, grid, name))
        layer.visible = False
        insert_beside(self.viewer, layer)
        return layer

    def tissue_layer(self, recipe: Recipe) -> Layer:
        """Return the layer of a recipe's tissue image, read where it is not open yet."""
        assert recipe.tissues is not None
        path = located(recipe.tissues.path, recipe.folder)
        wanted = path, recipe.tissues.labels
        for layer in tissue_layers(self.viewer.layers):
            tissues = shown_tissues(layer)
            if tissues and (Path(tissues.path).absolute(), tissues.labels) == wanted:
                return layer
        tissues = load_tissues(path, mapping=recipe.tissues.mapping)
        layer = Layer.create(*tissue_layer_data(tissues))
        insert_beside(self.viewer, layer)
        return layer


def _shows(layer: Layer, source: FodSource) -> bool:
    """Return whether a layer shows an FOD, read in the same way."""
    fod, path = fod_of(layer), path_of(layer)
    if fod is None:
        return False
    if source.image is not None or is_of_image(layer, fod):
        try:
            return image_source(layer, fod) == source
        except TractographyError:
            return False
    if fod.basis != source.basis or fod.frame != (source.frame or fod.frame):
        return False
    chosen = {name: getattr(source, name) or own for name, own in fod.vector_reading.items()}
    if chosen != fod.vector_reading:
        return False
    if source.phantom:
        known = path is None and is_phantom(fod)
        return known and FodSource.of_phantom(fod) == dataclasses.replace(source, kind=SH.name)
    return path is not None and Path(path).absolute() == Path(source.path)
