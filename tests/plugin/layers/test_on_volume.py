"""Layers on a volume leave the slices in view, and those that the sliders stop at, alone."""

from __future__ import annotations

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_tractography.geometry.grid import Grid
from napari_tractography.maps.fod_peaks import fod_peaks
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.plugin.layers.glyphs import FodGlyphs, peaks_layer
from napari_tractography.plugin.layers.on_volume import SeedPoints
from napari_tractography.plugin.layers.spheres import Spheres
from napari_tractography.plugin.layers.tubes import paths_layer, tubes_layer
from napari_tractography.plugin.layers.volume_layers import fod_layer_data
from napari_tractography.plugin.session.seed_layer import SeedLayer
from napari_tractography.plugin.space.display import DisplaySpace
from napari_tractography.plugin.streamlines.layer import Streamlines
from napari_tractography.streamlines.tractogram import Tractogram

AFFINE = np.array([[5.1, 0, 0, -60.3], [0, -5.1, 0, 44.7], [0, 0, 5.1, -21.9], [0, 0, 0, 1.0]])
FOD = make_phantom("cross", affine=AFFINE, lmax=4)
SPACE = DisplaySpace.of(FOD.grid)
# From before the first voxel centre to behind the last one along each axis.
ENDS = np.array([[-0.45, -0.45, -0.45], np.array(FOD.grid.shape) - 0.55])
LINE = FOD.grid.to_mm(np.linspace(*ENDS, 40)).astype(np.float32)
ENDS_ZYX = np.asarray(SPACE.to_display(FOD.grid.to_mm(ENDS)), dtype=float)


def spheres(viewer):
    viewer.add_layer(Spheres(ENDS_ZYX, 20.0, space=SPACE))


def spheres_of(centres):
    return Spheres(centres, 1.0, space=DisplaySpace.identity())


def far_sphere(viewer):
    viewer.add_layer(Spheres(ENDS_ZYX[:1] - 100, 20.0, space=SPACE))


def streamlines(viewer):
    viewer.add_layer(Streamlines(Tractogram.from_streamlines([LINE]), space=SPACE))


def no_streamlines(viewer):
    viewer.add_layer(Streamlines(space=SPACE))


def tubes(viewer):
    viewer.add_layer(tubes_layer(Tractogram.from_streamlines([LINE]), SPACE, radius_mm=4.0))


def paths(viewer):
    viewer.add_layer(paths_layer(Tractogram.from_streamlines([LINE]), SPACE))


def peaks(viewer):
    viewer.add_layer(peaks_layer(fod_peaks(FOD), FOD.grid, SPACE))


def glyphs(viewer):
    FodGlyphs(viewer, FOD, SPACE, scale=4.0)


def seeds(viewer):
    layer = SeedLayer(viewer)
    layer.show_in(SPACE)
    layer.add(ENDS_ZYX)


@pytest.fixture
def viewer():
    """A viewer of voxels of 5.1 mm, turned to the fourth slice of each axis."""
    viewer = ViewerModel()
    viewer._add_layer_from_data(*fod_layer_data(FOD))
    viewer.dims.current_step = (3, 3, 3)
    return viewer


ADDED = [
    spheres, far_sphere, streamlines, no_streamlines, tubes, paths, peaks, glyphs, seeds
]  # fmt: skip


@pytest.mark.parametrize("ndisplay", [2, 3])
@pytest.mark.parametrize("add", ADDED)
def test_what_is_added_and_removed_leaves_the_slices_alone(viewer, add, ndisplay):
    viewer.dims.ndisplay = ndisplay
    before = viewer.dims.range, viewer.dims.point, viewer.dims.nsteps
    add(viewer)
    assert len(viewer.layers) == 2
    assert (viewer.dims.range, viewer.dims.point, viewer.dims.nsteps) == before
    viewer.dims.current_step = (4, 4, 4)
    viewer.dims.current_step = (3, 3, 3)
    assert (viewer.dims.range, viewer.dims.point, viewer.dims.nsteps) == before
    del viewer.layers[1]
    assert (viewer.dims.range, viewer.dims.point, viewer.dims.nsteps) == before


def test_streamlines_beyond_the_volume_can_be_reached_by_whole_slices(viewer):
    before = viewer.dims.range
    line = np.array([ENDS[0], ENDS[1] + [0, 0, 3]])
    beyond = Tractogram.from_streamlines([FOD.grid.to_mm(line)])
    viewer.add_layer(Streamlines(beyond, space=SPACE))
    after = viewer.dims.range
    assert after[1:] == before[1:]
    assert after[0].stop == pytest.approx(before[0].stop + 3 * 5.1)
    assert after[0].start == before[0].start
    assert after[0].step == before[0].step


def test_spheres_of_another_volume_take_its_slices():
    layer = Spheres(ENDS_ZYX, 20.0, space=SPACE)
    layer.space = DisplaySpace.of(Grid((50, 50, 50), np.diag([2.0, 2.0, 2.0, 1.0])))
    np.testing.assert_allclose(layer.extent.step, 2.0)
    np.testing.assert_allclose(layer.extent.world / 2, np.round(layer.extent.world / 2), atol=1e-4)


def test_without_a_volume_the_extent_is_that_of_the_points():
    layer = Spheres([[1.25, 2.5, 3.5]], 20.0, space=DisplaySpace.identity())
    np.testing.assert_allclose(layer.extent.world, np.tile([1.25, 2.5, 3.5], (2, 1)))


@pytest.mark.parametrize("add", ADDED, ids=[add.__name__ for add in ADDED])
def test_layers_are_cut_where_the_volume_is(viewer, add):
    """Also those whose units were set after they were made, which napari would not mind."""
    add(viewer)
    (axis,) = viewer.dims.not_displayed
    for step in (1, 3):
        viewer.dims.current_step = (step,) * 3
        for layer in viewer.layers:
            at = layer._data_slice.point[axis] * layer.scale[axis] + layer.translate[axis]
            assert at == pytest.approx(viewer.dims.point[axis], abs=1e-3), layer.name


@pytest.mark.parametrize("make", [SeedPoints, spheres_of], ids=["seeds", "spheres"])
def test_nothing_is_drawn_where_no_point_is_in_the_slice(make_napari_viewer, make):
    viewer = make_napari_viewer(show=True)
    viewer.add_image(np.full((9, 20, 20), 0.5), contrast_limits=(0, 1))
    layer = viewer.add_layer(make(np.array([[2.0, 10.0, 10.0]])))
    pictures = {}
    for z in (2, 7):
        viewer.dims.set_point(0, z)
        for layer.visible in (True, False):
            pictures[z, layer.visible] = viewer.screenshot(flash=False)
    assert (pictures[2, True] != pictures[2, False]).any()
    np.testing.assert_array_equal(pictures[7, True], pictures[7, False])


@pytest.mark.parametrize("kind", [SeedPoints, spheres_of])
def test_seeds_and_spheres_have_no_tool_that_moves_their_picture_alone(
    make_napari_viewer, notes: list[str], kind
) -> None:
    """With napari's button: streamlines would start from, and pass, where nothing is shown."""
    viewer = make_napari_viewer()
    layer = kind(np.zeros((1, 3)))
    layer.name = "mine"
    viewer.add_layer(layer)
    controls = viewer.window._qt_viewer.controls.widgets[layer]
    controls.transform_button.click()
    assert layer.mode == "pan_zoom"
    assert not layer._overlays["transform_box"].visible
    assert (controls.transform_button.isChecked(), controls.panzoom_button.isChecked()) == (0, 1)
    assert notes == [
        "warning: The layer mine is not transformed, which would move its picture alone; drag the "
        "points one by one."
    ]
    controls.select_button.click()
    assert layer.mode == "select"
