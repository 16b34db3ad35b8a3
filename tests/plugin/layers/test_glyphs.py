"""Glyphs and peaks on the screen: where they are, what they look like, how many."""

from __future__ import annotations

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_tractography.fields.sh import sh_matrix
from napari_tractography.maps.fod_peaks import fod_peaks
from napari_tractography.model.fod import Fod
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.plugin.layers import glyphs as module
from napari_tractography.plugin.layers.glyphs import (
    MAX_GLYPHS,
    FodGlyphs,
    glyph_mesh,
    glyph_sphere,
    peaks_layer,
)
from napari_tractography.plugin.layers.volume_layers import fod_layer_data
from napari_tractography.plugin.space.display import DisplaySpace


@pytest.fixture
def shown():
    """A viewer with the cross phantom, and its glyphs."""
    fod = make_phantom("cross")
    viewer = ViewerModel()
    viewer._add_layer_from_data(*fod_layer_data(fod))
    glyphs = FodGlyphs(viewer, fod, DisplaySpace.of(fod.grid))
    yield viewer, fod, glyphs
    glyphs.close()


def test_triangles_of_the_sphere_look_outwards_and_close_it():
    units, triangles = glyph_sphere()
    a, b, c = (units[triangles[:, i]] for i in range(3))
    assert ((np.cross(b - a, c - a) * a).sum(axis=1) > 0).all()
    assert len(triangles) == 2 * len(units) - 4  # Euler


def test_a_glyph_points_along_its_fibres_in_an_oblique_left_handed_image():
    turn = np.array([[0.8, -0.6, 0], [0.6, 0.8, 0], [0, 0, 1.0]])
    affine = np.eye(4)
    affine[:3, :3] = turn @ np.diag([-2.0, 2.0, 2.0])
    fod = make_phantom("cross", affine=affine)
    space = DisplaySpace.of(fod.grid)
    strong = np.linalg.norm(fod.values[:, 1:], axis=1).argmax()
    voxel = np.argwhere(fod.support)[[strong]]
    vertices, _, colours = glyph_mesh(fod, space, voxel)
    centre = space.to_display(fod.grid.to_mm(voxel))
    arms = vertices - centre
    tip = arms[np.linalg.norm(arms, axis=1).argmax()][::-1].astype(float)
    units, _ = glyph_sphere()
    expected = units[fod.amplitudes(units)[tuple(voxel[0])].argmax()]
    back = np.linalg.inv(space.world_to_display[:3, :3]) @ tip
    assert abs(back @ expected) / np.linalg.norm(back) == pytest.approx(1.0, abs=1e-5)
    brightest = colours[np.linalg.norm(arms, axis=1).argmax(), :3]
    np.testing.assert_allclose(brightest, np.abs(expected) / np.abs(expected).max(), atol=1e-5)


def test_slicing_updates_the_glyphs_and_sliders_keep_the_volumes_steps(shown):
    viewer, fod, glyphs = shown
    volume = viewer.layers[0]
    assert viewer.dims.nsteps[0] == volume.data.shape[0]
    middle = volume.data.shape[0] // 2
    viewer.dims.set_current_step(0, middle)
    glyphs.update.flush()
    first = glyphs.layer.data[0]
    assert glyphs.n_shown > 0
    assert set(np.unique(first[:, 0])) == {np.float32(middle)}
    viewer.dims.set_current_step(0, middle + 1)
    glyphs.update.flush()
    assert set(np.unique(glyphs.layer.data[0][:, 0])) == {np.float32(middle + 1)}
    in_slice = DisplaySpace.of(fod.grid).volume(fod.support)[middle + 1].sum()
    assert glyphs.n_in_slice == in_slice


def test_other_axes_and_3d_are_followed(shown):
    viewer, fod, glyphs = shown
    viewer.dims.order = (2, 0, 1)
    viewer.dims.set_current_step(2, fod.grid.shape[0] // 2)
    glyphs.update.flush()
    assert len(np.unique(glyphs.layer.data[0][:, 2])) == 1
    assert glyphs.n_shown > 0
    viewer.dims.ndisplay = 3
    glyphs.update.flush()
    assert len(np.unique(glyphs.layer.data[0][:, 2])) > 100  # no longer flat


def test_there_are_never_more_than_the_limit(monkeypatch):
    fod = Fod(np.ones((60, 60, 3, 1)), np.eye(4))
    viewer = ViewerModel()
    viewer._add_layer_from_data(*fod_layer_data(fod))
    glyphs = FodGlyphs(viewer, fod, DisplaySpace.of(fod.grid))
    assert glyphs.n_in_slice == 3600
    assert 0 < glyphs.n_shown <= MAX_GLYPHS
    monkeypatch.setattr(module, "MAX_GLYPHS", 100)
    glyphs.set_shape(2.0, glyphs.min_amplitude)
    assert glyphs.n_shown <= 100
    glyphs.close()


def test_an_empty_slice_and_high_floors_draw_nothing(shown):
    viewer, _, glyphs = shown
    glyphs.set_shape(glyphs.scale, 1e6)
    vertices, triangles = glyphs.layer.data[:2]
    sides = vertices[triangles][:, 1:] - vertices[triangles][:, :1]
    assert np.abs(sides).max() < 1e-6
    viewer.dims.set_current_step(0, 0)
    glyphs.update.flush()
    assert glyphs.n_shown == 0


def test_removing_the_layer_ends_the_updates(shown):
    viewer, _, glyphs = shown
    viewer.layers.remove(glyphs.layer)
    before = glyphs.layer.data[0]
    viewer.dims.set_current_step(0, 3)
    assert glyphs.layer.data[0] is before


def test_peaks_lie_in_the_middle_of_their_voxels():
    fod = make_phantom("cross")
    peaks = fod_peaks(fod, min_amplitude=0.3)
    layer = peaks_layer(peaks, fod.grid, DisplaySpace.of(fod.grid))
    middles = layer.data[:, 0] + layer.data[:, 1] / 2
    np.testing.assert_allclose(middles, np.round(middles), atol=1e-4)
    assert len(layer.data) > 100


def one_way(affine):
    """Lobes along a direction, and half as large ones to the side, in an oblique image."""
    units = np.array([[0.6, 0.0, 0.8], [0.0, 1.0, 0.0]])
    values = np.array([1.0, 0.4]) @ sh_matrix(units, 6, "tournier07", True)
    return Fod(np.tile(values, (3, 3, 3, 1)), affine), units[0]


def test_glyphs_of_an_asymmetric_fod_point_one_way():
    affine = np.array([[-1.6, -1.2, 0, 4], [-1.2, 1.6, 0, 0], [0, 0, 2, 0], [0, 0, 0, 1.0]])
    fod, unit = one_way(affine)
    space = DisplaySpace.of(fod.grid)
    vertices, _, _ = glyph_mesh(fod, space, np.array([[1, 1, 1]]), min_amplitude=0.05)
    arms = vertices - space.to_display(fod.grid.to_mm(np.array([[1, 1, 1]])))
    ahead = (space.world_to_display[:3, :3] @ unit)[::-1]
    along = arms @ ahead / np.linalg.norm(ahead)
    assert along.max() > 5 * -along.min()


def test_what_a_slice_cuts_of_asymmetric_glyphs_points_one_way():
    fod, _ = one_way(np.eye(4))
    viewer = ViewerModel()
    viewer._add_layer_from_data(*fod_layer_data(fod))
    glyphs = FodGlyphs(viewer, fod, DisplaySpace.of(fod.grid), min_amplitude=0.05)
    z, x = np.meshgrid(np.linspace(-0.5, 0.5, 41), np.linspace(-0.5, 0.5, 41), indexing="ij")
    places = np.stack([1 + z, np.ones_like(z), 1 + x], axis=-1)
    shown = glyphs.cut(2, 0, places)[..., 3] > 0
    upper, lower = shown & (0.8 * z + 0.6 * x > 0.1), shown & (0.8 * z + 0.6 * x < -0.1)
    assert upper.sum() > 10 * lower.sum()
    glyphs.close()


def test_peaks_of_an_asymmetric_fod_begin_in_the_middle_of_their_voxels():
    fod, unit = one_way(np.eye(4))
    peaks = fod_peaks(fod, n_peaks=1, min_amplitude=0.3)
    layer = peaks_layer(peaks, fod.grid, DisplaySpace.of(fod.grid))
    np.testing.assert_allclose(layer.data[:, 0], np.round(layer.data[:, 0]), atol=1e-4)
    longest = layer.data[np.linalg.norm(layer.data[:, 1], axis=1).argmax(), 1]
    assert longest[::-1] @ unit / np.linalg.norm(longest) > 0.98


def test_a_picture_that_is_enlarged_shows_as_many_glyphs_and_finer_ones(shown):
    viewer, _, glyphs = shown
    viewer.scene.camera.zoom = 16.0
    glyphs.update.flush()
    n, n_vertices = glyphs.n_shown, len(glyphs.layer.vertices)
    assert 0 < n < glyphs.n_in_slice  # those in view
    glyphs.layer.enlarged_by = 4.0
    viewer.scene.camera.zoom = 64.0
    glyphs.update.flush()
    assert glyphs.n_shown == n
    assert len(glyphs.layer.vertices) > n_vertices
    glyphs.layer.enlarged_by = 1.0


def test_the_first_glyphs_are_there_at_once_and_the_rest_comes(shown, monkeypatch, qtbot):
    viewer, _, glyphs = shown
    monkeypatch.setattr(module, "FIRST", 10)
    made = []
    mesh_of = module.glyph_mesh
    monkeypatch.setattr(
        module, "glyph_mesh", lambda *a, **k: made.append(len(a[2])) or mesh_of(*a, **k)
    )
    glyphs.set_shape(glyphs.scale, glyphs.min_amplitude)
    n, n_vertices = glyphs.n_shown, len(glyphs.layer.data[0])
    assert n > 40
    assert made[0] == 10
    first = glyphs.layer.data[0]
    middle = (np.asarray(viewer.scene.camera.center[-2:]) - glyphs.space.translate[1:]) / 2.0
    reach = np.linalg.norm(first[:, 1:] - middle, axis=1).max()
    qtbot.waitUntil(lambda: not glyphs.work.is_busy, timeout=60_000)
    assert made[1:] == [40, min(160, n), *([n] if n > 160 else [])]
    assert len(glyphs.layer.data[0]) == n_vertices // 10 * n
    assert np.linalg.norm(glyphs.layer.data[0][:, 1:] - middle, axis=1).max() > reach
    np.testing.assert_allclose(glyphs.layer.data[0][:n_vertices], first, atol=1e-6)  # as large
    assert len(glyphs.layer.vertex_colors) == len(glyphs.layer.data[0])
    glyphs.set_shape(1.5, glyphs.min_amplitude)
    glyphs.finish()  # for a picture
    assert not glyphs.work.is_busy
    assert len(glyphs.layer.data[0]) == n_vertices // 10 * glyphs.n_shown


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1)])
def test_surfaces_look_outwards_in_any_order_of_axes(shown, order):
    """An odd order mirrors them: light would come from behind."""
    viewer, _, glyphs = shown
    viewer.dims.ndisplay = 3
    viewer.dims.order = order
    glyphs.finish()
    layer = glyphs.layer
    n = len(layer.data[0]) // glyphs.n_shown
    units, triangles = glyph_sphere(n)
    first = layer._view_vertices[: len(units)]
    a, b, c = (first[layer._view_faces[: len(triangles)][:, i]] for i in range(3))
    volume = (np.cross(b - a, c - a) * (a - first.mean(axis=0))).sum()
    assert volume * expected_side(layer, len(units), len(triangles)) > 0


def expected_side(layer, n_vertices, n_triangles):
    """On which side triangles of the first glyph look with the axes as they are stored."""
    vertices, triangles = layer.data[0][:n_vertices], layer.data[1][:n_triangles]
    a, b, c = (vertices[triangles[:, i]] for i in range(3))
    return (np.cross(b - a, c - a) * (a - vertices.mean(axis=0))).sum()
