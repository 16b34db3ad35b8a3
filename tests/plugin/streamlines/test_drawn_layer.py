"""The streamlines layer: what is really on the screen."""

from __future__ import annotations

from typing import Any

import numpy as np
from tiny_bundles import asymmetric, cross, straight

from napari_tractography import Tractogram
from napari_tractography.geometry.grid import Grid
from napari_tractography.plugin.space.display import DisplaySpace
from napari_tractography.plugin.space.views import orient
from napari_tractography.plugin.streamlines.layer import Streamlines


def picture_of(viewer: Any) -> np.ndarray:
    return viewer.screenshot(flash=False)[..., :3].astype(int)


def pixels(picture: np.ndarray, channel: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the pixels in which one of red, green, blue is far above the others."""
    others = np.delete(picture, channel, axis=2).max(axis=2)
    return np.nonzero(picture[..., channel] > others + 80)


def test_a_line_along_x_is_red_in_2d_and_in_3d(make_napari_viewer) -> None:
    viewer = make_napari_viewer(show=True)
    viewer.add_layer(Streamlines(Tractogram.from_streamlines([straight((-20, 0, 0), (20, 0, 0))])))
    viewer.dims.set_point(0, 0)
    for ndisplay in (2, 3):
        viewer.dims.ndisplay = ndisplay
        picture = picture_of(viewer)
        assert len(pixels(picture, 0)[0]) > 50
        assert len(pixels(picture, 1)[0]) == len(pixels(picture, 2)[0]) == 0


def test_left_is_left_in_2d_and_in_3d(make_napari_viewer) -> None:
    viewer = make_napari_viewer(show=True)
    orient(viewer)
    viewer.add_layer(Streamlines(asymmetric()))
    viewer.dims.set_point(0, 0)
    for ndisplay in (2, 3):  # in 3-D the first view is from above, too
        viewer.dims.ndisplay = ndisplay
        picture = picture_of(viewer)
        red_rows, red_columns = pixels(picture, 0)
        green_rows, green_columns = pixels(picture, 1)
        assert len(red_rows) > 30
        assert len(green_rows) > 30
        assert red_columns.max() < green_columns.min()
        assert red_rows.mean() > green_rows.mean()


def test_3d_is_not_mirrored(make_napari_viewer) -> None:
    """Seen from the front, the left of the head is on the right and superior is up."""
    t = Tractogram.from_streamlines(
        [straight((-20, 0, 0), (-10, 0, 0)), straight((15, 0, 5), (15, 0, 20))]
    )
    viewer = make_napari_viewer(show=True)
    orient(viewer)
    viewer.add_layer(Streamlines(t))
    viewer.dims.ndisplay = 3
    viewer.scene.camera.set_view_direction((0, -1, 0), (1, 0, 0))  # zyx: from the front, z up
    picture = picture_of(viewer)
    red_rows, red_columns = pixels(picture, 0)
    blue_rows, blue_columns = pixels(picture, 2)
    assert red_columns.min() > blue_columns.max()
    assert blue_rows.mean() < red_rows.mean()


def test_a_slice_shows_what_lies_in_the_slab_and_nothing_else(make_napari_viewer) -> None:
    viewer = make_napari_viewer(show=True)
    layer = Streamlines(cross(), slab_mm=4)
    viewer.add_layer(layer)
    seen = {}
    for z in (0, 10, 20):
        viewer.dims.set_point(0, z)
        picture = picture_of(viewer)
        seen[z] = [len(pixels(picture, channel)[0]) > 50 for channel in (0, 1)]
    assert seen == {0: [True, False], 10: [False, False], 20: [False, True]}
    viewer.dims.set_point(0, 10)
    layer.slab_mm = 60
    picture = picture_of(viewer)
    assert all(len(pixels(picture, channel)[0]) > 50 for channel in (0, 1))
    viewer.dims.ndisplay = 3
    layer.slab_mm = 1
    picture = picture_of(viewer)
    assert all(len(pixels(picture, channel)[0]) > 50 for channel in (0, 1))


def test_lines_fade_away_from_the_slice_on_both_sides(make_napari_viewer) -> None:
    viewer = make_napari_viewer(show=True)
    ends = [[(0, 0, 0)], [(0, 0, 10)]]  # single points, so that the slider reaches them
    t = Tractogram.from_streamlines([straight((-20, 0, 5), (20, 0, 5)), *ends])
    viewer.add_layer(Streamlines(t, slab_mm=10))
    brightness = []
    for z in (1, 3, 5, 7, 9):
        viewer.dims.set_point(0, z)
        brightness.append(picture_of(viewer)[..., 0].max())
    assert brightness[0] < brightness[1] < brightness[2]
    assert brightness[2] > 200
    np.testing.assert_allclose(brightness, brightness[::-1], atol=3)


def test_other_slices_are_cropped_along_their_own_axis(make_napari_viewer) -> None:
    """A blue line along z through (8, 4), slices at its place and far from it."""
    viewer = make_napari_viewer(show=True)
    orient(viewer)
    anchor = straight((-20, -20, -20), (-20, -20, -19), 2)
    t = Tractogram.from_streamlines([straight((8, 4, -10), (8, 4, 20)), anchor])
    viewer.add_layer(Streamlines(t, slab_mm=2))
    for order, place in (((1, 0, 2), 4.0), ((2, 0, 1), 8.0)):  # coronal, sagittal
        viewer.dims.order = order
        viewer.dims.set_point(order[0], place)
        rows, columns = pixels(picture_of(viewer), 2)
        assert len(rows) > 50
        assert np.ptp(rows) > 10 * max(np.ptp(columns), 1)  # superior is up
        viewer.dims.set_point(order[0], place - 5)
        assert len(pixels(picture_of(viewer), 2)[0]) == 0


def test_streamlines_are_never_connected_with_each_other(make_napari_viewer) -> None:
    """Two lines along x; a connection between the end of one and the other would be blue."""
    t = Tractogram.from_streamlines(
        [straight((-20, -10, 0), (20, -10, 0)), [(0, 0, 0)], straight((-20, 10, 0), (20, 10, 0))]
    )
    viewer = make_napari_viewer(show=True)
    viewer.add_layer(Streamlines(t))
    viewer.dims.set_point(0, 0)
    for ndisplay in (2, 3):
        viewer.dims.ndisplay = ndisplay
        picture = picture_of(viewer)
        lit = np.unique(np.nonzero(picture.max(axis=2) > 40)[0])
        gaps = np.diff(lit)
        assert (gaps > 1).sum() == 1  # two groups of rows with nothing between them
        assert gaps.max() > 20


def test_streamlines_lie_on_an_oblique_volume(make_napari_viewer) -> None:
    """Rotated, sheared, anisotropic and left-handed: a line through a row of bright voxels."""
    affine = np.array(
        [[-1.8, 0.3, 0.4, 12], [0.5, 2.4, -0.6, -30], [0.2, 0.5, 3.1, 7], [0, 0, 0, 1.0]]
    )
    grid = Grid((24, 20, 6), affine)
    space = DisplaySpace.of(grid)
    volume = np.zeros(grid.shape, np.float32)
    volume[4:20, 5, 3] = 1
    line = grid.to_mm(straight((4, 5, 3), (19, 5, 3), 30))
    viewer = make_napari_viewer(show=True)
    orient(viewer)
    viewer.add_image(space.volume(volume), **space.layer_kwargs)
    layer = Streamlines(Tractogram.from_streamlines([line]), space=space, width=1)
    viewer.add_layer(layer)
    layer.colour = (1.0, 0.0, 0.0, 1.0)
    viewer.dims.set_point(0, space.to_display(line[:1])[0, 0])
    layer.visible = False
    bright = picture_of(viewer).min(axis=2) > 128
    layer.visible = True
    rows, columns = pixels(picture_of(viewer), 0)
    assert len(rows) > 100
    assert bright[rows, columns].all()
    voxel_rows, voxel_columns = np.nonzero(bright)
    assert abs(rows.mean() - voxel_rows.mean()) < 2  # along the middle of the voxels
    assert abs(columns.mean() - voxel_columns.mean()) < 2


def test_short_segments_make_solid_lines_in_3d(make_napari_viewer) -> None:
    """A diagonal line of 400 segments has no dark joints."""
    viewer = make_napari_viewer(show=True)
    layer = Streamlines(Tractogram.from_streamlines([straight((-20, -14, 0), (20, 14, 0), 400)]))
    viewer.add_layer(layer)
    viewer.dims.ndisplay = 3
    layer.colour = (1.0, 1.0, 1.0, 1.0)
    per_column = picture_of(viewer).max(axis=2).max(axis=0)
    lit = np.flatnonzero(per_column > 20)
    assert len(lit) > 100
    assert per_column[lit[3] : lit[-3]].min() > 240


def test_the_screen_follows_the_data(make_napari_viewer) -> None:
    """Empty, appended, replaced, single points, hidden and shown, emptied."""
    viewer = make_napari_viewer(show=True)
    viewer.dims.ndisplay = 3
    layer = Streamlines()
    viewer.add_layer(layer)
    x, y = (Tractogram.from_streamlines([line]) for line in (cross()[0].points, cross()[1].points))

    def seen() -> list[bool]:
        picture = picture_of(viewer)
        return [len(pixels(picture, channel)[0]) > 30 for channel in (0, 1)]

    assert seen() == [False, False]
    layer.append(x)
    viewer.reset_view()
    assert seen() == [True, False]
    layer.append(y)
    assert seen() == [True, True]
    layer.tractogram = y
    assert seen() == [False, True]
    layer.visible = False
    layer.tractogram = x
    assert seen() == [False, False]
    layer.visible = True
    assert seen() == [True, False]
    layer.tractogram = Tractogram.from_streamlines([[(0, 0, 0)], [(1, 1, 1)]])
    assert seen() == [False, False]
    layer.tractogram = x
    layer.colour = (0.0, 1.0, 0.0, 1.0)
    assert seen() == [False, True]
    layer.tractogram = Tractogram.empty()
    assert seen() == [False, False]


def test_every_mode_and_control_works_in_a_window(make_napari_viewer) -> None:
    viewer = make_napari_viewer(show=True)
    layer = Streamlines(asymmetric())
    viewer.add_layer(layer)
    for ndisplay in (2, 3):
        viewer.dims.ndisplay = ndisplay
        for mode in layer.colour_modes:
            layer.colour_by = mode
            assert picture_of(viewer).any()
    layer.tail_length, layer.head_length, layer.tail_width = 9, 4, 5
    layer.hide_completed_tracks = layer.display_id = True
    layer.colormap = "viridis"
    assert layer.head_length == 0
    assert picture_of(viewer).any()
