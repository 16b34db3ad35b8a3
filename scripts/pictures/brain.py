"""Pictures of a brain: streamlines, slices, glyphs, figures."""

from __future__ import annotations

from typing import Any

import numpy as np
from napari.layers import Image
from numpy.typing import NDArray
from qtpy.QtTest import QTest

import napari_tractography as nt
from napari_tractography.maps.direction_colours import direction_colours
from napari_tractography.model.defaults import strong_amplitude
from napari_tractography.plugin.export.figures import Figure, figure_picture
from napari_tractography.plugin.layers.glyphs import FodGlyphs
from napari_tractography.plugin.layers.planes import SlicePlanes
from napari_tractography.plugin.space.display import DisplaySpace
from napari_tractography.plugin.space.views import orient, show_view
from napari_tractography.plugin.streamlines.layer import Streamlines

from .canvas import FROM_LEFT_FRONT, SETTLE_MS, Picture, add_volume, finish, look_from

SLICE_MM = 8.0  # anterior
FROM_FRONT = (-0.35, -0.9, 0.25)


def brain_parameters(fod: nt.Fod, **changes: Any) -> nt.TrackingParameters:
    """Return parameters for a template of coarse voxels: smooth lines along strong peaks."""
    chosen: dict[str, Any] = {
        "step_mm": 0.25 * float(fod.grid.voxel_sizes_mm.min()),
        "max_angle_deg": 25.0,
        "min_amplitude": 0.12 * strong_amplitude(fod),
        "min_length_mm": 20.0,
    }
    return nt.TrackingParameters(**{**chosen, **changes})


def draw_brain(viewer: Any, fod: nt.Fod | None) -> NDArray[np.uint8]:
    assert fod is not None
    seeds = nt.Seeds.from_fod(fod, 60_000)
    lines = nt.track(fod, seeds, brain_parameters(fod, algorithm="deterministic"))
    layer = Streamlines(lines, space=DisplaySpace.of(fod.grid), width=1.2, opacity=0.8)
    viewer.add_layer(layer)
    orient(viewer)
    look_from(viewer, FROM_LEFT_FRONT)
    return finish(viewer)


def draw_callosum(viewer: Any, fod: nt.Fod | None) -> NDArray[np.uint8]:
    assert fod is not None
    parameters = brain_parameters(fod, algorithm="deterministic", max_length_mm=150.0)
    lines = nt.track(fod, midline_seeds(fod), parameters)
    viewer.add_layer(Streamlines(lines, space=DisplaySpace.of(fod.grid), width=1.2))
    orient(viewer)
    look_from(viewer, FROM_FRONT)
    return finish(viewer)


def midline_seeds(fod: nt.Fod) -> nt.Seeds:
    """Seed where fibres cross between the hemispheres: the strongest left-right peaks at x = 0."""
    across = fod.amplitudes(np.array([[1.0, 0.0, 0.0]]))[..., 0]
    x_mm = fod.grid.to_mm(np.argwhere(np.ones(fod.grid.shape)))[:, 0].reshape(fod.grid.shape)
    near = np.abs(x_mm) < float(fod.grid.voxel_sizes_mm[0])
    return nt.Seeds.in_mask(near & (across > strong_amplitude(fod)), fod.grid, 8000)


def draw_slice(viewer: Any, fod: nt.Fod | None) -> NDArray[np.uint8]:
    assert fod is not None
    add_volume(viewer, fod)
    parameters = brain_parameters(fod, algorithm="deterministic")
    lines = nt.track(fod, nt.Seeds.from_fod(fod, 60_000), parameters)
    space = DisplaySpace.of(fod.grid)
    viewer.add_layer(Streamlines(lines, space=space, width=2.0, slab_mm=6.0))
    show_view(viewer, "coronal")
    viewer.dims.set_point(1, SLICE_MM)
    return finish(viewer, letters=True)


def draw_glyphs(viewer: Any, fod: nt.Fod | None) -> NDArray[np.uint8]:
    assert fod is not None
    add_volume(viewer, fod, opacity=0.5, interpolation2d="linear")
    show_view(viewer, "coronal")
    viewer.dims.set_point(1, SLICE_MM)
    floor = 0.1 * strong_amplitude(fod)
    glyphs = FodGlyphs(viewer, fod, DisplaySpace.of(fod.grid), scale=1.2, min_amplitude=floor)
    picture = finish(viewer, letters=True)
    glyphs.close()
    return picture


def draw_lengths(viewer: Any, fod: nt.Fod | None) -> NDArray[np.uint8]:
    assert fod is not None
    lines = nt.track(
        fod,
        nt.Seeds.from_fod(fod, 40_000),
        brain_parameters(fod, algorithm="deterministic", min_length_mm=60.0),
    )
    layer = Streamlines(lines, space=DisplaySpace.of(fod.grid), width=1.2, colour_by="length")
    viewer.add_layer(layer)
    orient(viewer)
    show_view(viewer, "3-D")
    viewer.scene.camera.set_view_direction((-1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    return finish(viewer, letters=True)


def draw_planes(viewer: Any, fod: nt.Fod | None) -> NDArray[np.uint8]:
    add_midline_and_planes(viewer, fod)
    look_from(viewer, FROM_LEFT_FRONT)
    return finish(viewer)


def draw_figure(viewer: Any, fod: nt.Fod | None) -> NDArray[np.uint8]:
    add_midline_and_planes(viewer, fod)
    look_from(viewer, (-0.5, 0.0, 0.85))
    QTest.qWait(SETTLE_MS)
    return figure_picture(viewer, Figure(width_cm=10.0, dpi=200.0))[..., :3]


def add_midline_and_planes(viewer: Any, fod: nt.Fod | None) -> None:
    """Show streamlines from the midline, and three slices in the colours of directions."""
    assert fod is not None
    space = DisplaySpace.of(fod.grid)
    colours = np.ascontiguousarray(space.volume((255 * direction_colours(fod)).astype(np.uint8)))
    volume = Image(colours, rgb=True, name="FOD directions", **space.layer_kwargs)
    viewer.add_layer(volume)
    parameters = brain_parameters(fod, algorithm="deterministic", max_length_mm=150.0)
    lines = nt.track(fod, midline_seeds(fod), parameters)
    viewer.add_layer(Streamlines(lines[::3], space=space))
    orient(viewer)
    viewer.dims.point = [-20.0, -25.0, -2.0]
    SlicePlanes(viewer, volume)
    viewer.dims.ndisplay = 3


PICTURES = {
    "brain": Picture(
        "brain",
        "A whole brain",
        "Deterministic streamlines from everywhere, more where the FOD is larger.",
        draw_brain,
    ),
    "callosum": Picture(
        "callosum",
        "From the midline",
        "Streamlines from where fibres cross between the hemispheres, seen from the front.",
        draw_callosum,
    ),
    "slice": Picture(
        "slice",
        "A coronal slice",
        "The parts of the streamlines within 3 mm of the slice, fading with the distance; left is "
        "on the left.",
        draw_slice,
    ),
    "glyphs": Picture(
        "glyphs",
        "The FOD itself",
        "Glyphs of the same slice, as long as the FOD is large in each direction.",
        draw_glyphs,
    ),
    "lengths": Picture(
        "lengths",
        "Lengths",
        "Streamlines longer than 60 mm from above, coloured by their length.",
        draw_lengths,
    ),
    "planes": Picture(
        "planes",
        "Three planes",
        "Streamlines from the midline among an axial, a coronal and a sagittal slice of the "
        "directions of the FOD.",
        draw_planes,
    ),
    "figure": Picture(
        "figure",
        "A figure",
        "As **Figure...** saves it: 10 cm wide on white, with letters, scale bar and legend.",
        draw_figure,
    ),
}
