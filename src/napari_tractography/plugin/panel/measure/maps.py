"""Maps of a bundle as layers: density, mask, ends, and visitation with its standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from napari.layers import Image, Labels, Layer
from napari.utils.colormaps import Colormap, ensure_colormap
from numpy.typing import NDArray

from ....geometry.grid import Grid
from ....maps.chunks import blocks_of
from ....maps.density import density
from ....maps.resection import margin_map
from ....maps.visitation import Visitation, visitation
from ....model.regions import Region
from ....streamlines.tractogram import Tractogram
from ...background import Advance
from ...layers.planes import WITHIN_KEY
from ...layers.volume_layers import faded, fod_grid_of, mask_layer_data, mask_layers
from ...space.display import DisplaySpace

VISITATION_KEY = "visitation"  # layer.metadata[VISITATION_KEY]: the Visitation that it shows
VISITATION = "Visitation"
MARGIN = "Margin"
COLORMAP = "inferno"


@dataclass
class Counter:
    """How many streamlines of those to be measured have been taken, said to `advance`."""

    advance: Advance
    n_total: int
    n_done: int = 0

    def over(self, tractogram: Tractogram) -> CountedBlocks:
        """Return streamlines that count themselves as they are taken, and end when given up."""
        return CountedBlocks(self, tractogram)


class CountedBlocks:
    """The blocks of a tractogram; each time from the beginning."""

    def __init__(self, counter: Counter, tractogram: Tractogram) -> None:
        self._counter, self._tractogram = counter, tractogram

    def __iter__(self) -> Iterator[Tractogram]:
        counter = self._counter
        for block in blocks_of(self._tractogram):
            counter.advance(min(counter.n_done / max(counter.n_total, 1), 1.0))
            yield block
            counter.n_done += len(block)


def grid_layers(layers: Any) -> list[Layer]:
    """Return the layers on whose voxels a map can be made."""
    volumes = set(map(id, mask_layers(layers)))
    return [e for e in layers if id(e) in volumes or fod_grid_of(e) is not None]


def density_layers(lines: CountedBlocks, grid: Grid, name: str) -> list[Layer]:
    return [map_layer(density(lines, grid), grid, f"{name} density")]


def voxel_layers(lines: CountedBlocks, grid: Grid, name: str) -> list[Layer]:
    data, kwargs, _ = mask_layer_data(density(lines, grid) > 0, grid, f"{name} mask")
    return [Labels(data, **kwargs)]


def end_layers(lines: CountedBlocks, grid: Grid, name: str) -> list[Layer]:
    return [map_layer(density(lines, grid, ends_only=True), grid, f"{name} ends")]


def visitation_layers(lines: CountedBlocks, grid: Grid, name: str) -> list[Layer]:
    """Return the probability that a streamline visits each voxel, and its standard error below."""
    found = visitation(lines, grid)
    error = map_layer(found.standard_error, grid, f"{name} visitation error")
    error.visible = False
    shown = map_layer(found.probability, grid, f"{name} visitation")
    for layer in (error, shown):
        layer.metadata[VISITATION_KEY] = found
    return [error, shown]


def margin_layers(
    lines: CountedBlocks, grid: Grid, name: str, *, cavity: Sequence[Region] = ()
) -> list[Layer]:
    layer = map_layer(margin_map(lines, cavity, grid), grid, f"{name} margin")
    colours = ensure_colormap(COLORMAP).colors
    layer.colormap = Colormap(colours[::-1], name=f"{COLORMAP}, near is bright")
    layer.rendering = "minip"  # what is nearest is seen
    return [layer]


MAPS: dict[str, tuple[Callable[..., list[Layer]], str]] = {
    "Density": (density_layers, "How many streamlines pass each voxel, each once."),
    "Mask": (voxel_layers, "The voxels that a streamline passes."),
    "End points": (end_layers, "How many streamlines end in each voxel."),
    VISITATION: (
        visitation_layers,
        "The probability that a streamline visits each voxel, and its standard error.",
    ),
    MARGIN: (
        margin_layers,
        "How far each voxel that a streamline passes is from the regions with the role resect, mm.",
    ),
}


def visitation_of(layers: Any) -> Visitation | None:
    """Return the visitation map that is uppermost among layers that show."""
    for layer in reversed(list(layers)):
        found = layer.metadata.get(VISITATION_KEY)
        if isinstance(found, Visitation) and layer.visible:
            return found
    return None


def map_layer(values: NDArray[Any], grid: Grid, name: str) -> Layer:
    """Return an image of numbers from 0, (x, y, z), of which 0 is transparent."""
    space = DisplaySpace.of(grid)
    most = float(np.nanmax(values, initial=0.0)) or 1.0
    kwargs = space.layer_kwargs
    kwargs["metadata"][WITHIN_KEY] = True
    return Image(
        np.ascontiguousarray(space.volume(values)),
        name=name,
        colormap=faded(COLORMAP),
        contrast_limits=(0.0, most),
        blending="translucent_no_depth",
        rendering="mip",
        **kwargs,
    )
