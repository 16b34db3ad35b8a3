"""Pages of a window: its bundles, its volume, its view."""

from __future__ import annotations

import json
import re

import nibabel as nib
import numpy as np
import pytest
from hands import WAIT_MS

from napari_tractography.errors import InvalidTractogramError
from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm
from napari_tractography.plugin.export.pages import camera_of, page_of
from napari_tractography.plugin.space.display import DisplaySpace
from napari_tractography.plugin.space.views import show_view


@pytest.fixture
def panel(open_model, tmp_path, qtbot):
    """The cross phantom, in an oblique volume that is stored to the left, tracked."""
    phantom = make_phantom("cross", lmax=4)
    turned = nib.eulerangles.euler2mat(0.0, 0.0, 0.3)
    affine = np.eye(4)
    affine[:3, :3] = turned @ phantom.grid.affine[:3, :3] @ np.diag([-1.0, 1.0, 1.0])
    path = tmp_path / "fod.nii.gz"
    nib.Nifti1Image(phantom.coefficients, affine).to_filename(path)
    panel = open_model()
    panel.data.add_fod(path)
    panel.set_parameters(n_per_seed=20)
    middle = panel.session.fod.grid.to_mm(phantom.grid.to_voxel(phantom_seeds_mm("cross")))
    panel.session.add_seeds_mm(middle)
    with qtbot.waitSignal(panel.runs.finished, timeout=WAIT_MS):
        panel.run()
    return panel


def content_of(panel, path, **options):
    """What a page of the window holds."""
    write, left_out = page_of(panel.bundles, path, **options)
    assert left_out == []
    assert write() == path.stat().st_size
    (found,) = re.findall(r'id="page">(.*?)</script>', path.read_text("utf-8"))
    return json.loads(found)


def test_a_page_has_what_the_window_shows(panel, tmp_path):
    layer = panel.session.streamlines_layer
    layer.width, layer.opacity = 3.0, 0.5
    layer.colour = "#56b4e9"
    (bundle,) = content_of(panel, tmp_path / "a.html")["bundles"]
    assert (bundle["colour"], bundle["width"], bundle["opacity"]) == ("#56b4e9", 3.0, 0.5)
    assert bundle["n_all"] == bundle["counts"]["rows"] == len(panel.session.tractogram)
    assert bundle["digest"] == panel.session.tractogram.digest()
    layer.colour_by = "length"
    layer.visible = False
    (bundle,) = content_of(panel, tmp_path / "a.html")["bundles"]
    assert (bundle["colour"], bundle["visible"]) == ("points", False)
    assert bundle["meaning"].startswith("Colours: length, ")


def test_seeds_of_the_active_bundle_can_be_dragged_in_a_page(panel, tmp_path):
    live = content_of(panel, tmp_path / "a.html", live=True)["live"]
    assert live["digest"] == panel.session.tractogram.digest()
    assert live["n_seeds"] == 20 * len(phantom_seeds_mm("cross"))
    assert content_of(panel, tmp_path / "a.html")["live"] is None
    panel.bundles.add()
    with pytest.raises(InvalidTractogramError, match="no result of a run"):
        page_of(panel.bundles, tmp_path / "b.html", live=True)


@pytest.mark.parametrize(
    ("name", "forward", "up"),
    [
        ("axial", (0, 0, -1), (0, 1, 0)),
        ("coronal", (0, 1, 0), (0, 0, 1)),
        ("sagittal", (-1, 0, 0), (0, 0, 1)),
        ("front", (0, -1, 0), (0, 0, 1)),
        ("left", (1, 0, 0), (0, 0, 1)),
        ("above", (0, 0, -1), (0, 1, 0)),
    ],
)
def test_the_camera_looks_as_the_window_does(panel, name, forward, up):
    """In the axes of the volume as it is displayed: upright, although it lies oblique."""
    show_view(panel.viewer, name)
    space = panel.session.streamlines_layer.space
    assert space.is_tilted
    camera = camera_of(panel.viewer, space)
    turned = space.world_to_display[:3, :3]
    assert turned @ camera.forward == pytest.approx(np.array(forward, float), abs=1e-6)
    assert turned @ camera.up == pytest.approx(np.array(up, float), abs=1e-6)
    height = panel.viewer.canvas.size[0] / panel.viewer.scene.camera.zoom
    assert camera.height_mm == pytest.approx(height)
    upright = camera_of(panel.viewer, DisplaySpace.identity())
    seen = space.world_to_display @ [*camera.center_mm, 1.0]
    assert seen[:3] == pytest.approx(np.array(upright.center_mm))


def test_a_volume_is_there_where_it_is_seen(panel, tmp_path):
    show_view(panel.viewer, "coronal")
    panel.viewer.dims.set_point(range(3), (4.0, 2.0, -3.0))
    volume = content_of(panel, tmp_path / "a.html")["volume"]
    assert volume["visible"] == [False, True, False]
    space = panel.session.streamlines_layer.space
    point = np.linalg.solve(space.world_to_display, [-3.0, 2.0, 4.0, 1.0])
    voxel = np.linalg.solve(volume["affine"], point)
    shape = np.array(volume["shape"])
    assert volume["at"] == np.clip(np.rint(voxel[:3]), 0, shape - 1).astype(int).tolist()
    for layer in panel.viewer.layers:
        layer.visible = layer is panel.session.streamlines_layer
    assert content_of(panel, tmp_path / "a.html")["volume"] is None
