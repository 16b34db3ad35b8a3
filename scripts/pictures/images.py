"""Pictures of images in which fibres are seen: a heart, a tube, a woven composite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
from napari.layers import Image
from numpy.typing import ArrayLike, NDArray
from qtpy.QtTest import QTest

import napari_tractography as nt
from napari_tractography.geometry.grid import Grid
from napari_tractography.maps.angles import Axis
from napari_tractography.model.image_phantoms import ImagePhantom, Tube, make_image_phantom
from napari_tractography.plugin.contributions import sample_tube
from napari_tractography.plugin.layers.glyphs import FodGlyphs
from napari_tractography.plugin.layers.planes import SlicePlanes
from napari_tractography.plugin.panel.panel import TractographyPanel
from napari_tractography.plugin.panel.widgets.controls import set_values
from napari_tractography.plugin.space.display import DisplaySpace
from napari_tractography.plugin.space.views import orient
from napari_tractography.plugin.streamlines.colours import HELIX
from napari_tractography.plugin.streamlines.layer import Streamlines

from .canvas import HEART, NOTHING, SETTLE_MS, Picture, finish, look_from, show_docks

HEART_VOXEL_MM = 0.6352
BASE, APEX = (100.0, 95.0, 120.0), (45.0, 88.0, 205.0)  # middle of the left ventricle, voxels
WALL_VOX = 58.0  # from its axis
LEVEL_VOX = 92.0  # of the axis, from the front: streamlines of a slab around it are shown
GREYS = (17_000, 21_500)
ODF_VOXELS = 24  # the height of a ply
MIDDLE = Axis((0, 0, -1), (0, 0, 1))


def track_image(
    image: ArrayLike, grid: Grid, mask: NDArray[np.bool_], n: int, **changes: Any
) -> tuple[nt.Fod, nt.Tractogram]:
    """Return the fibres of an image, and streamlines from a mask."""
    voxel_mm = float(grid.voxel_sizes_mm.min())
    fod = nt.Fod.from_image(
        image, Grid(grid.shape, grid.affine, unit=grid.unit), voxel_mm, 3 * voxel_mm
    )
    parameters = nt.TrackingParameters.for_fod(fod, algorithm="deterministic", **changes)
    return fod, nt.track(fod, nt.Seeds.in_mask(mask, fod.grid, n), parameters, mask=mask)


def add_planes(viewer: Any, image: NDArray[Any], grid: Grid, point_vox: ArrayLike) -> Image:
    """Show an image as three planes through a place."""
    space = DisplaySpace.of(grid)
    volume = Image(
        np.ascontiguousarray(space.volume(image)),
        name="image",
        colormap="gray",
        **space.layer_kwargs,
    )
    viewer.add_layer(volume)
    orient(viewer)
    viewer.dims.point = space.to_display(grid.to_mm(np.reshape(point_vox, (1, 3))))[0]
    SlicePlanes(viewer, volume)
    viewer.dims.ndisplay = 3
    return volume


def draw_heart(viewer: Any, folder: Path) -> NDArray[np.uint8]:
    image = imageio.imread(folder / "heart.tif").T  # x, y, z
    tissue = imageio.imread(folder / "mask.tif").T > 0
    affine = np.diag([HEART_VOXEL_MM, HEART_VOXEL_MM, HEART_VOXEL_MM, 1.0])
    grid = Grid(image.shape, affine)
    axis = Axis.of(grid.to_mm([BASE, APEX]))
    voxels = np.argwhere(tissue)
    away = np.linalg.norm(axis.outwards(grid.to_mm(voxels)), axis=1) / HEART_VOXEL_MM
    near = voxels[
        (away < WALL_VOX) & (voxels[:, 2] > BASE[2]) & (np.abs(voxels[:, 1] - LEVEL_VOX) < 14)
    ]
    wall = np.zeros(grid.shape, bool)
    wall[tuple(near.T)] = True
    fod, lines = track_image(image, grid, wall, 12_000, min_length_mm=15.0)
    volume = add_planes(viewer, image, grid, (128, LEVEL_VOX + 16, BASE[2] - 2))
    volume.contrast_limits = GREYS
    layer = Streamlines(lines, space=DisplaySpace.of(fod.grid), width=1.3, colour_by=HELIX)
    layer.axis = axis
    viewer.add_layer(layer)
    viewer.scene.camera.set_view_direction((-0.3, 0.85, 0.4), (-1.0, 0.0, 0.0))  # apex below
    return finish(viewer)


def draw_tube(viewer: Any, _given: None) -> NDArray[np.uint8]:
    phantom = make_image_phantom("tube")
    tube = phantom.drawing
    assert isinstance(tube, Tube)
    voxels = np.argwhere(phantom.fibres)
    half = np.zeros(phantom.grid.shape, bool)
    # A quarter of the wall is left out, so that its inside is seen.
    kept = (voxels[:, 0] < 44) | (voxels[:, 1] > 44)
    half[tuple(voxels[kept].T)] = True
    fod, lines = track_image(phantom.image, phantom.grid, half, 5000)
    add_planes(viewer, phantom.image, phantom.grid, (44, 44, 2))
    layer = Streamlines(lines, space=DisplaySpace.of(fod.grid), width=1.5, colour_by=HELIX)
    layer.axis = MIDDLE
    viewer.add_layer(layer)
    look_from(viewer, (-0.6, 0.55, -0.6))
    return finish(viewer)


def draw_weave(viewer: Any, _given: None) -> NDArray[np.uint8]:
    phantom: ImagePhantom = make_image_phantom("weave")
    lower = phantom.fibres.copy()
    lower[:, :, 24:] = False
    fod, lines = track_image(phantom.image, phantom.grid, lower, 4000)
    add_planes(viewer, phantom.image, phantom.grid, (1, 94, 1))
    viewer.add_layer(Streamlines(lines, space=DisplaySpace.of(fod.grid), width=1.5))
    look_from(viewer, (-0.6, 0.7, 0.45))
    return finish(viewer)


def draw_odfs(viewer: Any, _given: None) -> NDArray[np.uint8]:
    phantom = make_image_phantom("weave")
    voxel_mm = float(phantom.grid.voxel_sizes_mm.min())
    grid = phantom.grid
    fod = nt.Fod.from_image(phantom.image, grid, voxel_mm, 2 * voxel_mm, odf_voxels=ODF_VOXELS)
    space = DisplaySpace.of(grid)
    volume = np.ascontiguousarray(space.volume(phantom.image))
    viewer.add_image(volume, colormap="gray", **space.layer_kwargs)
    orient(viewer)
    middle = grid.to_mm(np.full((1, 3), (ODF_VOXELS - 1) / 2))  # of the lowest blocks
    viewer.dims.point = space.to_display(middle)[0]
    FodGlyphs(viewer, fod, DisplaySpace.of(fod.grid))
    return finish(viewer)


def draw_image(viewer: Any, _given: None) -> NDArray[np.uint8]:
    panel = TractographyPanel(viewer, remember=False)
    show_docks(viewer, True)
    viewer.window.add_dock_widget(panel, name="Tractography", area="right")
    ((data, attributes, _),) = sample_tube()
    layer = viewer.add_image(data, **attributes)
    panel.data.fod_choice.value = layer
    panel.session.add_seeds_mm(np.array([[0.36, 0.0, 0.0], [0.54, 0.0, 0.0], [0.7, 0.0, 0.0]]))
    set_values(panel.seeds.controls, {"n_per_seed": 300, "radius_mm": 0.04})
    panel.appearance.axis.value = MIDDLE
    set_values(panel.appearance.controls, {"colour_by": HELIX})
    set_values(panel.tracking.controls, {"max_length_mm": 2.5})
    panel.run()
    while panel.runs.current is not None:
        QTest.qWait(20)
    look_from(viewer, (-0.6, 0.55, -0.6))
    QTest.qWait(SETTLE_MS)
    return np.asarray(viewer.screenshot(canvas_only=False, flash=False)[..., :3])


PICTURES = {
    "heart": Picture(
        "heart",
        "A heart",
        "Muscle fibres of a human left ventricle by X-ray, coloured by their helix angle: "
        "right-handed inside, left-handed outside. Nothing was worked out before the streamlines "
        "were there.",
        draw_heart,
        needs=HEART,
    ),
    "tube": Picture(
        "tube",
        "A tube of helical fibres",
        "The sample image, in which the helix angle goes from +60 degrees inside to -60 outside.",
        draw_tube,
        needs=NOTHING,
    ),
    "weave": Picture(
        "weave",
        "A woven composite",
        "The sample image: tows that pass over and under each other.",
        draw_weave,
        needs=NOTHING,
    ),
    "odfs": Picture(
        "odfs",
        "Histological ODFs",
        "Of blocks of the woven composite, as high as a ply: in each, tows lie on each other, and "
        "its ODF has two peaks at right angles.",
        draw_odfs,
        needs=NOTHING,
    ),
    "image": Picture(
        "image",
        "Any image with fibres in it",
        "The panel on an image in micrometres: noise scale and integration scale are sliders.",
        draw_image,
        needs=NOTHING,
    ),
}
