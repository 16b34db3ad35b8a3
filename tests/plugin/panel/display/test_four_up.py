"""The bar of planes, and three slices beside 3-D with one crosshair."""

from __future__ import annotations

import numpy as np
import pytest
from hands import LEFT_HANDED, fod_layer
from napari.layers import Image, Labels
from qtpy.QtCore import QPoint, QPointF, Qt
from qtpy.QtGui import QImage, QWheelEvent
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

from napari_tractography import Tractogram
from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm
from napari_tractography.plugin.layers.planes import WITHIN_KEY
from napari_tractography.plugin.layers.slice_pictures import SlicePictures
from napari_tractography.plugin.space.views import FOUR_UP, ORDERS, PLANES, SIDES
from napari_tractography.plugin.streamlines.layer import Streamlines

SHIFT, CONTROL = Qt.KeyboardModifier.ShiftModifier, Qt.KeyboardModifier.ControlModifier
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture(scope="module")
def letter():
    return make_phantom("letter", affine=LEFT_HANDED)


@pytest.fixture
def panel(open_window, letter):
    """With the asymmetric phantom, on an oblique grid of which x runs to the left."""
    panel = open_window(letter)
    panel.scene.show_view(FOUR_UP)
    settle(panel)
    return panel


def settle(panel):
    QTest.qWait(50)
    panel.scene.four_up.refresh()


def panes(panel):
    return panel.scene.four_up.panes


def pressed(panel):
    return [name for name, one in panel.scene.views.items() if one.isChecked()]


def seed_at(panel):
    """The first seed, display (z, y, x)."""
    return panel.session.space.shown_at(panel.session.seeds.positions_mm)[0]


def click(panel, name, zyx, keys=Qt.KeyboardModifier.NoModifier):
    """Click what a pane shows of a position; return the position of that pixel."""
    pane = panes(panel)[name]
    pixel = pane.pixel_of(zyx).toPoint()
    QTest.mouseClick(pane, LEFT, keys, pixel)
    found = pane.position_at(QPointF(pixel))
    settle(panel)
    return found


def picture(panel, name):
    """What a pane shows, (height, width, 3)."""
    image = panes(panel)[name].grab().toImage().convertToFormat(QImage.Format.Format_RGBA8888)
    pixels = np.frombuffer(image.constBits().asstring(image.sizeInBytes()), np.uint8)
    return pixels.reshape(image.height(), image.bytesPerLine() // 4, 4)[:, : image.width(), :3]


def test_the_bar_says_what_is_in_view_and_turns_to_it(panel):
    viewer, views = panel.viewer, panel.scene.views
    assert pressed(panel) == [FOUR_UP]
    for name in PLANES:
        QTest.mouseClick(views[name], LEFT)
        assert pressed(panel) == [name]
        QTest.mouseClick(views[name], LEFT)  # again
        assert pressed(panel) == [name]
        if name in ORDERS:
            assert viewer.dims.order == ORDERS[name]
    for name in SIDES:
        views[name].click()
        assert pressed(panel) == [FOUR_UP]
    viewer.dims.ndisplay = 2  # by napari's button
    assert pressed(panel) == ["axial"]
    viewer.dims.order = (0, 2, 1)
    assert pressed(panel) == []


def test_slices_take_their_room_from_the_canvas_and_give_it_back(panel):
    canvas = panel.viewer.window._qt_viewer.canvas.native
    parent, half = canvas.parentWidget(), canvas.width()
    assert all(pane.isVisible() for pane in panes(panel).values())
    widths = [pane.width() for pane in panes(panel).values()]
    assert np.ptp([*widths, half]) < 4
    panel.scene.show_view("3-D")
    QTest.qWait(50)
    assert not any(pane.isVisible() for pane in panes(panel).values())
    assert canvas.width() > 1.9 * half
    panel.scene.show_view(FOUR_UP)
    panel.close_session()
    QTest.qWait(50)
    assert canvas.parentWidget() is parent
    assert parent.layout().indexOf(canvas) == 0
    assert canvas.width() > 1.9 * half
    assert panel.isAncestorOf(panel.scene.bar)
    panel.open_session()
    assert parent.isAncestorOf(panel.scene.bar)


def show_another(panel):
    """Show the slices of a volume on the grid of the FOD that is bright everywhere."""
    values = np.random.default_rng(0).uniform(0.2, 1, panel.session.fod_layer.data.shape)
    kwargs = panel.session.space.layer_kwargs
    layer = panel.viewer.add_image(values.astype(np.float32), contrast_limits=(0, 1), **kwargs)
    panel.scene.slices.choice.value = layer
    settle(panel)
    return layer


def test_a_slice_shows_what_lies_there(panel):
    volume, space = show_another(panel), panel.session.space
    for name in ORDERS:
        across = ORDERS[name][0]
        middle = np.array(volume.data.shape) // 2
        panel.scene.four_up.shared.move_to(space.translate + np.array(space.scale) * middle)
        settle(panel)
        seen = picture(panel, name).max(axis=2)
        said, shown = [], []
        for at in np.ndindex(volume.data.shape):
            pixel = panes(panel)[name].pixel_of(space.translate + np.array(space.scale) * at)
            away = np.abs(middle - at)
            if away[across] == 0 and np.delete(away, across).min() > 1:  # no crosshair, no letter
                said.append(float(volume.data[at]))
                shown.append(int(seen[round(pixel.y()), round(pixel.x())]))
        assert len(said) > 100
        assert np.corrcoef(said, shown)[0, 1] > 0.8


def test_a_click_in_one_slice_moves_all(panel):
    viewer, scene = panel.viewer, panel.scene
    before = np.array(viewer.dims.point)
    for name, (across, *inside) in ORDERS.items():
        target = before + np.where(np.arange(3) == across, 0, 6.0)
        there = click(panel, name, target)
        to_slices = np.abs(np.array(viewer.dims.point) - there) / panel.session.space.scale
        assert (to_slices < 0.51).all()  # napari's sliders go from slice to slice
        np.testing.assert_allclose(there[inside], target[inside], atol=1)
        assert there[across] == before[across]
        before = np.array(viewer.dims.point)
    scene.slices.planes.update.flush()
    at = (before - panel.session.space.translate) / panel.session.space.scale
    np.testing.assert_allclose(scene.slices.planes.indices, np.round(at))
    assert viewer.status.startswith("R ")
    slider = scene.slices.sliders[0].slider
    assert slider.value() == round(at[0])


def test_a_slice_is_painted_again_where_it_is_another_one_alone(panel):
    shared, four = panel.scene.four_up.shared, panel.scene.four_up
    before = {name: pane._picture.cacheKey() for name, pane in panes(panel).items()}
    shared.step(0, 1)
    settle(panel)
    four.refresh()
    painted = {n for n, pane in panes(panel).items() if pane._picture.cacheKey() != before[n]}
    assert painted == {"axial"}
    panel.session.fod_layer.gamma = 0.7
    settle(panel)
    painted = {n for n, pane in panes(panel).items() if pane._picture.cacheKey() != before[n]}
    assert painted == set(panes(panel))


def test_the_crosshair_stays_in_the_volume_and_the_wheel_goes_by_slices(panel):
    viewer, shared = panel.viewer, panel.scene.four_up.shared
    shared.move_to(np.full(3, 1e6))
    np.testing.assert_allclose(viewer.dims.point, [r.stop for r in viewer.dims.range])
    pane = panes(panel)["coronal"]
    for keys, is_step in ((Qt.KeyboardModifier.NoModifier, True), (CONTROL, False)):
        before, scale = np.array(viewer.dims.point), shared.scale
        turn = -120 if is_step else 120
        event = QWheelEvent(
            QPointF(9, 9), pane.mapToGlobal(QPointF(9, 9)), QPoint(), QPoint(0, turn),
            Qt.MouseButton.NoButton, keys, Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        QApplication.sendEvent(pane, event)
        settle(panel)
        moved = before - np.array(viewer.dims.point)
        step = viewer.dims.range[1].step if is_step else 0
        np.testing.assert_allclose(moved, [0, step, 0], atol=1e-6)
        assert (shared.scale > scale) is not is_step


def test_seeds_are_placed_dragged_and_removed_in_any_slice(panel):
    session = panel.session
    for name in ORDERS:
        target = np.array(panel.viewer.dims.point)
        there = click(panel, name, target, SHIFT)
        np.testing.assert_allclose(seed_at(panel), there, atol=1e-5)
        pane = panes(panel)[name]
        begin = pane.pixel_of(there).toPoint()
        QTest.mousePress(pane, LEFT, pos=begin)
        for way in (4, 12, 20):
            QTest.mouseMove(pane, begin + QPoint(way, 0))
            QTest.qWait(5)
        QTest.mouseRelease(pane, LEFT, pos=begin + QPoint(20, 0))
        settle(panel)
        moved = seed_at(panel) - there
        along = ORDERS[name][2]
        assert moved[along] == pytest.approx(20 / panel.scene.four_up.shared.scale, rel=0.1)
        np.testing.assert_allclose(np.delete(moved, along), 0, atol=1e-6)
        session.document.undo()  # one step
        np.testing.assert_allclose(seed_at(panel), there, atol=1e-5)
        session.document.redo()
        click(panel, name, there + moved, CONTROL)
        assert not len(session.seeds)


def test_spheres_are_placed_in_a_slice_and_seen_in_all(panel):
    there = click(panel, "sagittal", np.array(panel.viewer.dims.point), SHIFT | CONTROL)
    (sphere,) = panel.session.regions.spheres
    np.testing.assert_allclose(sphere.data[0] * sphere.scale + sphere.translate, there)
    panel.scene.four_up.shared.move_to(there)
    for name, pane in panes(panel).items():
        ((layer, _, pixel, radius),) = pane._points()
        assert layer is sphere
        settle(panel)
        with_it = picture(panel, name).astype(int)
        sphere.visible = False
        settle(panel)
        gone = np.abs(picture(panel, name).astype(int) - with_it).max(axis=2) > 20
        sphere.visible = True
        rows, columns = np.nonzero(gone)
        assert len(rows) > 20
        assert np.hypot(rows - pixel.y(), columns - pixel.x()).max() < radius + 3


def test_streamlines_and_labels_are_seen_where_they_are(panel):
    space, viewer = panel.session.space, panel.viewer
    at = np.array(viewer.dims.point)
    line = space.to_world(at + np.array([[0, 6.0, -8], [0, 6, 8]]))
    voxels = np.zeros(panel.session.fod_layer.data.shape, np.uint8)
    voxel = np.round((at - space.translate) / space.scale).astype(int) + np.array([0, -3, 3])
    voxels[tuple(voxel)] = 1
    added = [
        (Streamlines(Tractogram.from_streamlines([line]), space=space), at + np.array([0, 6, 4])),
        (Labels(voxels, opacity=1, **space.layer_kwargs), space.translate + space.scale * voxel),
    ]
    for layer, place in added:
        settle(panel)
        before = picture(panel, "axial").astype(int)
        viewer.add_layer(layer)
        settle(panel)
        pixel = panes(panel)["axial"].pixel_of(place)
        changed = np.abs(picture(panel, "axial").astype(int) - before).max(axis=2) > 40
        row, column = round(pixel.y()), round(pixel.x())
        assert changed[row - 2 : row + 3, column - 2 : column + 3].any()
    panel.scene.four_up.shared.step(0, 4)
    settle(panel)
    apart = picture(panel, "axial").astype(int)
    for layer, _ in added:
        viewer.layers.remove(layer)
    settle(panel)
    assert np.abs(picture(panel, "axial").astype(int) - apart).max() < 40


def test_slices_follow_the_look_of_their_volume_and_what_comes_and_goes(panel):
    before = picture(panel, "axial").astype(int)
    panel.session.fod_layer.colormap = "red"
    settle(panel)
    red = picture(panel, "axial").astype(int)
    assert np.abs(red - before).max() > 60
    layer = show_another(panel)
    assert panel.scene.four_up.shared.pictures.source is layer
    heard = layer.events
    panel.scene.show_view("axial")
    assert panel.scene.four_up.shared.pictures is None
    heard.opacity()  # nobody listens


def test_a_key_moves_the_crosshair_to_the_mouse(panel):
    viewer, scene = panel.viewer, panel.scene
    scene.show_view("coronal")
    target = np.array(viewer.dims.point) + np.array([2, 0, -2]) * panel.session.space.scale
    viewer.cursor.position = tuple(target)
    scene.move_to_mouse()
    np.testing.assert_allclose(viewer.dims.point, target)
    show_another(panel)
    scene.show_view("front")
    scene.slices.planes.update.flush()
    eye = target + np.array([2.0, 100, 1.0])
    viewer.cursor.position = tuple(eye)
    hit = scene.slices.planes.hit(eye, np.array([0.0, -1.0, 0.0]))
    scene.move_to_mouse()
    there = viewer.dims.point
    assert (np.abs(there - hit[1]) <= np.array(panel.session.space.scale) / 2 + 1e-6).all()
    viewer.cursor.position = (1e4, 1e4, 1e4)
    scene.move_to_mouse()  # nothing there
    assert viewer.dims.point == there


def test_four_up_waits_in_an_empty_window_and_outlives_its_layers(open_window):
    panel = open_window()
    for name in PLANES:
        panel.scene.show_view(name)
        panel.scene.move_to_mouse()
        settle(panel)
    panel.viewer.add_layer(fod_layer(make_phantom("cross")))
    settle(panel)
    assert panel.scene.four_up.shared.pictures is not None
    panel.viewer.layers.clear()
    settle(panel)
    assert panel.scene.four_up.shared.pictures is None


def test_slices_are_painted_once_for_the_planes_and_beside_them(panel, monkeypatch):
    painted = []
    paint = SlicePictures._painted
    monkeypatch.setattr(
        SlicePictures, "_painted", lambda self, *at: painted.append(at) or paint(self, *at)
    )
    planes = panel.scene.slices.planes
    assert panel.scene.four_up.shared.pictures is planes.pictures
    panel.scene.four_up.shared.step(0, 1)
    planes.update.flush()
    settle(panel)
    assert len(painted) == 1


def middle(panel):
    """The crosshair in the middle of the volume, where something is to be seen beside it."""
    space = panel.session.space
    return np.array(space.translate) + np.array(space.scale) * (np.array(space.shape_zyx) // 2)


def test_maps_and_peaks_are_seen_in_all_slices(panel):
    panel.scene.four_up.shared.move_to(middle(panel))
    settle(panel)
    bare = {name: picture(panel, name) for name in panes(panel)}
    shape = panel.session.space.shape_zyx
    kwargs = panel.session.space.layer_kwargs
    kwargs["metadata"][WITHIN_KEY] = True
    density = Image(np.full(shape, 5.0), name="density", colormap="red", opacity=0.5, **kwargs)
    panel.viewer.add_layer(density)
    settle(panel)
    for name, before in bare.items():
        added = picture(panel, name).astype(int) - before
        assert (added[..., 0] > 60).mean() > 0.2
    density.visible = False
    settle(panel)
    for name, before in bare.items():
        np.testing.assert_array_equal(picture(panel, name), before)
    panel.scene.peaks_box.setChecked(True)
    settle(panel)
    assert panel.scene.peaks is not None
    for name, before in bare.items():
        assert (np.abs(picture(panel, name).astype(int) - before).max(axis=2) > 60).sum() > 20


def drag(panel, pane, start, end):
    """Drag in a pane from one position to another, and take the mouse away."""
    ends = [pane.pixel_of(place).toPoint() for place in (start, end)]
    QTest.mousePress(pane, LEFT, Qt.KeyboardModifier.NoModifier, ends[0])
    QTest.mouseMove(pane, ends[1])
    QTest.mouseRelease(pane, LEFT, Qt.KeyboardModifier.NoModifier, ends[1])
    QTest.mouseMove(pane, QPoint(1, 1))
    settle(panel)


def test_a_brush_paints_and_erases_in_a_slice_as_one_act(panel):
    for name in ORDERS:
        panel.scene.four_up.shared.move_to(middle(panel))
        settle(panel)
        session, pane = panel.session, panes(panel)[name]
        entry = session.regions.add_painting()
        layer = entry.layer
        assert panel.scene.four_up.is_open
        layer.brush_size = 3
        across, size = pane.across, np.array(layer.scale)
        start = middle(panel)
        end = start.copy()
        end[pane.along] += 4 * size[pane.along]
        bare, crosshair = picture(panel, name), panel.scene.four_up.shared.crosshair
        drag(panel, pane, start, end)
        at = np.argwhere(layer.data)
        wanted = np.rint((start - layer.translate) / size).astype(int)
        assert set(at[:, across]) == {wanted[across]}
        assert np.ptp(at[:, pane.along]) == 4 + 2  # from end to end, and the brush on both sides
        assert np.ptp(at[:, pane.up]) == 2
        np.testing.assert_array_equal(panel.scene.four_up.shared.crosshair, crosshair)
        assert (picture(panel, name) != bare).any()
        assert session.document.last == "Paint Region"
        assert session.regions.states[0].painted.values.any()
        n = len(at)
        layer.brush_size, layer.mode = 1, "erase"
        drag(panel, pane, start, end)
        assert 0 < layer.data.sum() < n
        session.document.undo()
        assert layer.data.sum() == n
        session.document.undo()
        assert not layer.data.any()
        session.regions.stop_painting()
        drag(panel, pane, start, end)
        assert not layer.data.any()
        assert (panel.scene.four_up.shared.crosshair != crosshair).any()
        session.regions.remove(entry)


def test_what_slices_cut_of_glyphs_points_along_the_fibres(open_window):
    """Of arcs in slices of their own: along the fibres they reach farther than across them."""
    panel = open_window(make_phantom("arcs", lmax=8))
    (seed,) = phantom_seeds_mm("arcs")[1:2]  # of fibres that run from back to front there
    panel.scene.show_view(FOUR_UP)
    panel.scene.four_up.shared.move_to(panel.session.space.shown_at([seed])[0])
    panel.scene.glyphs_box.setChecked(True)
    glyphs = panel.scene.glyphs
    size = np.array(panel.session.space.scale)
    voxel = np.rint((panel.scene.four_up.shared.crosshair - panel.session.space.translate) / size)
    middle = voxel * size + panel.session.space.translate
    reach = np.linspace(-0.5, 0.5, 101)
    for name, along_fibres in (("axial", "up"), ("sagittal", "along")):
        pane = panes(panel)[name]
        places = np.tile(middle, (101, 101, 1))
        places[..., pane.along] += reach * size[pane.along]
        places[..., pane.up] += reach[:, None] * size[pane.up]
        found = glyphs.cut(pane.along, pane.up, places)
        rows, columns = np.nonzero(found[..., 3])
        lengths = {"up": np.ptp(rows), "along": np.ptp(columns)}
        assert lengths[along_fibres] == max(lengths.values()) > 2 * min(lengths.values())
        ends = found[rows, columns][:, :3]
        assert ends[:, 1].mean() > 4 * ends[:, [0, 2]].mean()  # green: from back to front
    settle(panel)
    shown = picture(panel, "axial").astype(int)
    assert ((shown[..., 1] > 150) & (shown[..., 0] < 90)).any()
    assert not glyphs.cut(0, 1, np.full((3, 3, 3), 1e4)).any()
