"""Entry points for npe2: readers, the writer and the sample data. Thin; the work is elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import napari
import numpy as np
from napari.layers import Image, Labels, Layer, Tracks
from numpy.typing import NDArray
from qtpy.QtCore import QTimer

from ..errors import (
    AmbiguousKindError,
    FileError,
    InvalidFodError,
    InvalidTractogramError,
    TractographyError,
)
from ..files.formats import default_ending, volume_format
from ..files.tissue_files import load_tissues
from ..files.tractograms import read_streamlines
from ..files.volume_files import load_volume, volume_shape
from ..geometry.grid import Grid
from ..model.image_phantoms import make_image_phantom
from ..model.phantoms import make_phantom
from ..model.tissues import N_TISSUES
from ..recipes.project import is_project
from ..streamlines.tractogram import Tractogram, as_read
from .layers.fod_opening import FOD_KEY, why_refused
from .layers.sources.image_layers import PHANTOM_KEY
from .layers.sources.tracks_layers import tractogram_of_tracks
from .layers.tissue_layers import tissue_layer_data
from .layers.volume_layers import (
    LayerData,
    fod_grid_of,
    fod_layer_data,
    fod_layers,
    frame_of,
    open_fod,
)
from .notices import show_warning
from .space.display import BARE_KEY, DisplaySpace
from .space.layer_list import move_below_once_inserted
from .space.views import keep_oriented
from .streamlines.layer import Streamlines

Reader = Callable[[str | list[str]], list[LayerData]]
StreamlinesReader = Callable[[str | list[str]], list[Streamlines]]
PLUGIN, PANEL = "napari-tractography", "Tractography"  # as the manifest has them
NO_LAYERS: list[Any] = [(None,)]  # what napari takes for a file that was read and gives no layers
MOST_ALIKE = 0.5  # of the neighbours in a volume of labels; of a T1 of 8 bits some 0.1 are


def read_fod(path: str | list[str]) -> Reader | None:
    """Return a reader for FODs, peaks, tensors, masks, labels and scalar maps; None for all else.

    napari asks where a person chose this plugin, or where no other reads the file: what holds
    nothing of these is answered by a sentence.
    """
    first = path[0] if isinstance(path, list) else path
    try:
        form = volume_format(first)
    except FileError:
        return None
    if form.whole is not None:
        return _each(_fod_layer)
    try:
        shape = volume_shape(first)
    except TractographyError:
        return _each(_fod_layer)
    if shape[3:] == (N_TISSUES,):
        return _each(_tissue_layer)
    return _each(_volume_layer if len(shape) == 3 else _fod_layer)


def read_tractogram(path: str | list[str]) -> StreamlinesReader:
    """Return a reader for streamlines."""
    return _read_streamlines


def read_project(path: str | list[str]) -> Reader | None:
    """Return a reader for a project, which the panel of the viewer opens; None for other JSON."""
    first = path[0] if isinstance(path, list) else path
    return _open_project if is_project(first) else None


def write_streamlines(path: str, data: Any, attributes: dict[str, Any]) -> list[str]:
    """Write a streamlines layer, or plain tracks; the ending of the path decides the format.

    Tracks of other origin lie where napari shows them: in the space of the open FOD, or, without
    one, in RAS+ mm with the axes reversed to (z, y, x). A name without an ending, as napari's
    dialog proposes, gets the one that napari itself adds, the manifest's first.

    Raises FileError when the ending is unknown, or a file is there already that was not named.
    """
    metadata = attributes.get("metadata", {})
    tractogram, grid = metadata.get("tractogram"), metadata.get("grid")
    if not isinstance(tractogram, Tractogram):
        viewer = napari.current_viewer()
        fods = [] if viewer is None else fod_layers(viewer.layers)
        grid = fod_grid_of(fods[-1]) if fods else None
        tractogram = _of_tracks(data, attributes, grid)
    if not Path(path).suffix:
        path += default_ending()
        if Path(path).exists():
            raise FileError(f"{path} is there already; type the whole name to replace it.")
    tractogram.save(path, reference=tractogram.grid or grid)
    return [path]


def _phantom(name: str) -> list[LayerData]:
    data = fod_layer_data(make_phantom(name))
    _keep_below(data, Image)
    return [data]


def _image_sample(name: str, title: str) -> list[LayerData]:
    phantom = make_image_phantom(name)
    space = DisplaySpace.of(phantom.grid)
    shown = np.ascontiguousarray(space.volume(phantom.image))
    kwargs = {**space.layer_kwargs, "name": title, "interpolation2d": "linear"}
    kwargs["metadata"] |= {PHANTOM_KEY: name, BARE_KEY: True}
    return [(shown, kwargs, "image")]


sample_arcs = partial(_phantom, "arcs")
sample_cross = partial(_phantom, "cross")
sample_letter = partial(_phantom, "letter")
sample_tube = partial(_image_sample, "tube", "Tube of helical fibres")
sample_weave = partial(_image_sample, "weave", "Woven composite")


def _open_project(path: str | list[str]) -> list[Any]:
    """Let the panel, docked if it is not, open a project when napari is done; no layers here."""
    first = path[0] if isinstance(path, list) else path
    viewer = napari.current_viewer()
    window = getattr(viewer, "window", None)
    if window is None:
        raise FileError(f"{first} is a project, which needs a window; use nt.Project.load.")
    _, panel = window.add_plugin_dock_widget(PLUGIN, PANEL)

    def open_it() -> None:
        if panel.project.may_be_lost():
            panel.project.open_project(first)

    QTimer.singleShot(0, open_it)
    return NO_LAYERS


def _of_tracks(data: Any, attributes: dict[str, Any], grid: Grid | None) -> Tractogram:
    """Return the lines of a plain tracks layer, whose rows are (track, time, z, y, x).

    Raises FileError when the tracks are not in three dimensions. napari would take a ValueError for
    "another writer, please".
    """
    known = ("name", "scale", "translate", "rotate", "shear", "affine")
    layer = Tracks(data, **{name: attributes[name] for name in known if name in attributes})
    try:
        space = DisplaySpace.identity() if grid is None else DisplaySpace.of(grid)
        return tractogram_of_tracks(layer, space)
    except InvalidTractogramError as error:
        raise FileError(str(error)) from error


def _each(read: Callable[[str], LayerData]) -> Reader:
    def read_all(path: str | list[str]) -> list[LayerData]:
        return [read(p) for p in ([path] if isinstance(path, str) else path)]

    return read_all


def _fod_layer(path: str) -> LayerData:
    try:
        data = open_fod(path, napari.current_viewer())
    except AmbiguousKindError as error:
        raise InvalidFodError(why_refused(error)) from error
    _show_streamlines_on(data[1]["metadata"][FOD_KEY].grid)
    _keep_below(data, Image)
    return data


def _show_streamlines_on(grid: Grid) -> None:
    """Show those that were opened without a volume on that of a grid."""
    viewer = napari.current_viewer()
    for layer in [] if viewer is None else viewer.layers:
        if isinstance(layer, Streamlines) and layer.space.grid is None:
            layer.space = DisplaySpace.of(grid)


def _keep_below(data: LayerData, *beside: type[Layer]) -> None:
    """Let a layer that napari adds next lie among those like it: on top it would hide others.

    Streamlines, seeds and, where it is an image, regions.
    """
    viewer, metadata = napari.current_viewer(), data[1]["metadata"]
    if viewer is not None:
        _turn(viewer)
        move_below_once_inserted(
            viewer.layers,
            lambda layer: layer.metadata.get("affine") is metadata["affine"],
            lambda layer: not isinstance(layer, beside),
        )


def _turn(viewer: Any) -> None:
    """Show what is opened the right way round, where nothing else is there that would turn, too."""
    if all("affine" in layer.metadata for layer in viewer.layers if isinstance(layer, Image)):
        keep_oriented(viewer)


def _tissue_layer(path: str) -> LayerData:
    data = tissue_layer_data(load_tissues(path))
    _keep_below(data, Image, Labels)
    return data


def _volume_layer(path: str) -> LayerData:
    values, grid = load_volume(path)
    if values.dtype.kind == "f" and ((values == 0) | (values == 1)).all():
        values = values.astype(np.uint8)  # a mask, as FSL and TractSeg write it
    space = DisplaySpace.of(grid)
    _show_streamlines_on(grid)
    are_labels = _are_labels(values)
    kwargs = {**space.layer_kwargs, "name": Path(path).name}
    if not are_labels:
        kwargs["interpolation2d"] = "linear"
    data = space.volume(values), kwargs, "labels" if are_labels else "image"
    _keep_below(data, *([Image, Labels] if are_labels else [Image]))
    return data


def _are_labels(values: NDArray[Any]) -> bool:
    """Distinguish labels from a T1 in integers: most neighbours within them are alike."""
    if values.dtype.kind == "b":
        return True
    if values.dtype.kind not in "iu":
        return False
    before, after = values[:-1], values[1:]
    inside = (before != 0) & (after != 0)
    return not inside.any() or bool((before == after)[inside].mean() > MOST_ALIKE)


def _read_streamlines(path: str | list[str]) -> list[Streamlines]:
    """Return a layer for each file; napari adds layers as they are, as it does layer data."""
    viewer = napari.current_viewer()
    layers = []
    for one in [path] if isinstance(path, str) else path:
        tractogram = as_read(read_streamlines(one, warn=show_warning), one)
        if not len(tractogram):
            raise FileError(f"{one} holds no streamlines; there is nothing to show.")
        if viewer is not None:
            _turn(viewer)
        space = frame_of([] if viewer is None else viewer.layers)
        layers.append(Streamlines(tractogram, space=space, name=Path(one).name))
    return layers
