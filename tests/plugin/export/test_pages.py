"""Pages of a window: its bundles, its volume, its view."""

from __future__ import annotations

import contextlib
import json
import re

import nibabel as nib
import numpy as np
import pytest
from browser import Browser, why_none
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
    rows, columns = panel.viewer.canvas.size
    assert camera.width_mm / camera.height_mm == pytest.approx(columns / rows)
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


@pytest.mark.skipif(bool(why_none()), reason=why_none() or "there is one")
@pytest.mark.parametrize("view", ["left", "turned"])
def test_the_picture_of_a_page_is_that_of_the_window(open_window, tmp_path, qtbot, view):
    """Two bundles, one of which is hidden: blue lines stand at the same pixels."""
    fod = make_phantom("arcs", lmax=4)
    panel = open_window(fod, size=(1400, 850))
    panel.set_parameters(n_per_seed=100, max_length_mm=200.0)
    viewer = panel.viewer
    for number in (0, 1):
        if number:
            panel.bundles.add()
        panel.session.add_seeds_mm(np.asarray(phantom_seeds_mm("arcs")[number])[None])
        with qtbot.waitSignal(panel.runs.finished, timeout=WAIT_MS):
            panel.run()
    shown, hidden = (bundle.streamlines_layer for bundle in panel.bundles.bundles)
    shown.colour, shown.width = "#0000ff", 4.0
    hidden.visible = False
    show_view(viewer, "left")
    if view == "turned":
        viewer.scene.camera.angles = (20.0, 35.0, -50.0)
        viewer.scene.camera.zoom *= 0.7
        viewer.scene.camera.center = (5.0, -8.0, 11.0)
    write, _ = page_of(panel.bundles, tmp_path / "page.html")
    write()
    height, width = viewer.canvas.size
    window = np.asarray(viewer.screenshot(flash=False))[..., :3].astype(int)
    with contextlib.closing(Browser(tmp_path / "browser")) as browser:
        size = {"width": width + 300, "height": height, "deviceScaleFactor": 1, "mobile": False}
        browser.call("Emulation.setDeviceMetricsOverride", **size)
        assert browser.open(tmp_path / "page.html") == "ready"
        browser.evaluate("new Promise((done) => setTimeout(done, 400))")
        page = browser.picture()[:height, :width].astype(int)
    boxes = [
        box_of(picture[..., 2] - picture[..., :2].max(axis=-1) > 40) for picture in (window, page)
    ]
    assert boxes[1] == pytest.approx(boxes[0], abs=5)


def box_of(mask):
    """The first and last rows and columns of a mask, and where its middle is."""
    places = np.argwhere(mask)
    assert len(places) > 300
    return np.ravel([*np.percentile(places, (1, 99), axis=0), places.mean(axis=0)]).tolist()
