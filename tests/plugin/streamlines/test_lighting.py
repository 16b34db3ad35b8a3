"""Light on lines: what a person sees of it, and what it leaves alone."""

from __future__ import annotations

import numpy as np
import pytest
from qtpy.QtTest import QTest

from napari_tractography import Tractogram
from napari_tractography.plugin.space.views import orient
from napari_tractography.plugin.streamlines.canvas.lighting import tangents
from napari_tractography.plugin.streamlines.layer import Streamlines


def test_tangents_follow_each_polyline_and_stop_at_its_ends():
    vertices = np.array([[0, 0, 0], [1, 0, 0], [1, 2, 0], [9, 9, 9], [9, 9, 8]], np.float32)
    joined = np.array([True, True, False, True, False])
    expected = [[1, 0, 0], [1, 2, 0], [0, 2, 0], [0, 0, -1], [0, 0, -1]]
    np.testing.assert_array_equal(tangents(vertices, joined), expected)
    np.testing.assert_array_equal(tangents(vertices[:1], joined[2:3]), np.zeros((1, 3)))


def straight(*ends):
    """Streamlines of 20 points between pairs of RAS+ places."""
    steps = np.linspace(0, 1, 20)[:, None]
    return Tractogram.from_streamlines(
        [np.asarray(a) + steps * (np.subtract(b, a)) for a, b in ends]
    )


@pytest.fixture
def scene(make_napari_viewer):
    """A viewer in 3-D that looks down, at whatever layer is added."""

    def show(tractogram, **kwargs):
        viewer = make_napari_viewer(show=True)
        viewer.theme = "dark"
        layer = Streamlines(tractogram, **{"width": 9.0, **kwargs})
        layer.colour = "red"
        viewer.add_layer(layer)
        orient(viewer)
        viewer.dims.ndisplay = 3
        viewer.scene.camera.set_view_direction((-1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
        viewer.fit_to_view()
        QTest.qWait(50)
        return viewer, layer

    return show


def picture(viewer):
    return viewer.screenshot(flash=False)[..., :3].astype(int)


def test_lines_are_shaded_by_how_they_run_and_stay_as_they_are_without_light(scene):
    """One line lies across the line of sight; the other runs nearly along it, and is darker."""
    viewer, layer = scene(straight([[0, 0, 0], [40, 0, 0]], [[0, 20, -40], [8, 20, 40]]))
    lit = picture(viewer)
    half = len(lit) // 2
    across, along = (part[..., 0].max() for part in (lit[half:], lit[:half]))
    assert along < 0.8 * across
    layer.lit = False
    plain = picture(viewer)
    assert set(np.unique(plain[..., 0])) == {0, 255}
    layer.lit = True
    np.testing.assert_array_equal(picture(viewer), lit)


def test_edges_are_smooth_and_a_halo_parts_lines_that_cross(scene):
    """A dark rim, a pixel wide, beside the one in front; lines that meet have none."""

    def n_dark(height):
        viewer, layer = scene(
            straight([[0, 0, 0], [40, 40, 0]], [[0, 40, height], [40, 0, height]])
        )
        red = picture(viewer)[..., 0]
        assert len(np.unique(red[red > 0])) > 6  # without light there is one
        layer.lit = False
        middle = tuple(slice(n // 2 - 30, n // 2 + 30) for n in red.shape)
        return ((red[middle] < 60) & (picture(viewer)[..., 0][middle] > 200)).sum()

    assert n_dark(10) > 4
    assert n_dark(0) == 0


def test_far_lines_fade_into_the_background_of_each_theme(scene):
    ends = ([[0, 0, 0], [40, 0, 0]], [[0, 20, -200], [40, 20, -200]])
    viewer, _ = scene(straight(*ends))
    for theme, sign in (("dark", -1), ("light", 1)):
        viewer.theme = theme
        shown = picture(viewer)
        half = len(shown) // 2
        drawn = [part[np.abs(part[..., 0] - part[..., 1]) > 60] for part in np.split(shown, [half])]
        far, near = (np.median(each[:, 1]) for each in drawn)
        if sign > 0:
            assert far > near + 30
        else:
            far, near = (np.median(each[:, 0]) for each in drawn)
            assert far < near - 30


def test_light_comes_back_after_slices_and_selected_lines_are_lit(scene):
    viewer, layer = scene(straight([[0, 0, 0], [40, 0, 0]], [[0, 20, 0], [40, 20, 0]]))
    before = picture(viewer)
    viewer.dims.ndisplay = 2
    picture(viewer)
    viewer.dims.ndisplay = 3
    viewer.fit_to_view()
    np.testing.assert_array_equal(picture(viewer), before)
    layer.selected = [1]
    half = len(before) // 2
    upper = picture(viewer)[:half]
    assert len(np.unique(upper[..., 0])) > 4  # without light there are two
    layer.tractogram = Tractogram.empty()
    assert picture(viewer).max() == 0
