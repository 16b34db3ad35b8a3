"""Seeds by the mouse: real events on a real canvas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hands import LEFT_HANDED, OBLIQUE, Mouse
from qtpy.QtCore import Qt
from vispy.scene.visuals import Rectangle

from napari_tractography.model.phantoms import make_phantom, phantom_lines_mm

SHIFT = Qt.KeyboardModifier.ShiftModifier
CONTROL = Qt.KeyboardModifier.ControlModifier
PLAIN = np.array([[2.0, 0, 0, -31], [0, 2, 0, -23], [0, 0, 2, -9], [0, 0, 0, 1]])
PLACE = (5, 3, 4)  # voxels from the first in R, A and S on the screen


def at(panel: Any, right: float, front: float, up: float) -> np.ndarray:
    """Display position (z, y, x) mm of the voxel so far from the lower left back corner."""
    layer = panel.session.fod_layer
    return np.asarray(layer.data_to_world((up, front, right)), dtype=float)


def pixel_mm(viewer: Any) -> float:
    return 1.0 / viewer.scene.camera.zoom


@pytest.mark.parametrize(
    "affine",
    [
        pytest.param(PLAIN, id="aligned"),
        pytest.param(OBLIQUE, id="oblique"),
        pytest.param(LEFT_HANDED, id="left-handed"),
    ],
)
def test_shift_click_in_a_slice_places_a_seed_there(open_window: Any, affine: np.ndarray) -> None:
    """The voxel's place in RAS mm is that of the affine, counted in the file's own voxels."""
    panel = open_window(make_phantom("cross", affine=affine, lmax=2))
    viewer = panel.viewer
    voxel = np.array(PLACE, dtype=float)
    if np.linalg.det(affine) < 0:  # the first axis of the file runs to the left
        voxel[0] = 31 - voxel[0]
    expected = affine[:3, :3] @ voxel + affine[:3, 3]
    for axis in (0, 1, 2):  # axial, coronal, sagittal
        viewer.dims.order = (axis, *(other for other in (0, 1, 2) if other != axis))
        viewer.dims.set_point(axis, at(panel, *PLACE)[axis])
        viewer.reset_view()
        Mouse(viewer).click(at(panel, *PLACE), SHIFT)
        (seed,) = panel.session.seeds.positions_mm
        assert np.linalg.norm(seed - expected) <= 1.5 * pixel_mm(viewer)
        panel.session.clear_seeds()


def test_clicks_without_shift_and_drags_place_nothing_and_plain_ones_move_the_camera(
    open_window: Any, cross: Any, qtbot: Any
) -> None:
    panel = open_window(cross)
    mouse = Mouse(panel.viewer)
    before = mouse.where((0, 0, 0))
    mouse.drag(at(panel, 15, 5, 4), at(panel, 20, 8, 4), n=1)
    qtbot.waitUntil(lambda: mouse.where((0, 0, 0)).x() > before.x() + 20)
    assert not len(panel.session.seeds.positions_mm)
    for keys in (Qt.KeyboardModifier.NoModifier, CONTROL, Qt.KeyboardModifier.AltModifier):
        mouse.click(at(panel, *PLACE), keys)
    assert not len(panel.session.seeds.positions_mm)
    before = mouse.where((0, 0, 0))
    mouse.drag(at(panel, 5, 5, 4), at(panel, 20, 12, 4), SHIFT)
    assert not len(panel.session.seeds.positions_mm)
    assert mouse.where((0, 0, 0)) == before


def test_shift_click_in_3d_places_a_seed_on_the_bundle_nearest_to_the_eye(
    open_window: Any,
) -> None:
    """An arch stands over a bowl: in the middle of the picture one hides the other."""
    fod = make_phantom("arcs", lmax=2)
    arch, bowl = (lines[0] for lines in phantom_lines_mm("arcs")[:2])
    panel = open_window(fod)
    panel.scene.slices.box.setChecked(False)
    viewer = panel.viewer
    viewer.dims.ndisplay = 3
    top = arch[arch[:, 2].argmax()]
    bottom = bowl[bowl[:, 2].argmin()]
    for outer, expected in ((1.0, top), (-1.0, bottom)):  # from above, from below
        viewer.scene.camera.set_view_direction((-outer, 0, 0), (0.0, 1.0, 0.0))
        Mouse(viewer).click(expected[::-1], SHIFT)
        (seed,) = panel.session.seeds.positions_mm
        assert np.linalg.norm(seed[:2] - expected[:2]) <= 2 * pixel_mm(viewer)
        depth = (seed[2] - expected[2]) * outer  # the side of the tube that faces the eye
        assert 0 <= depth <= 2.5 * 2.0 + 2.0  # its radius in voxels of 2 mm, and half a lobe
        panel.session.clear_seeds()


def test_shift_click_in_3d_places_a_seed_on_the_slice_that_is_seen(
    open_window: Any, cross: Any
) -> None:
    """From above the axial slice is in front of what lies below it, however bright."""
    panel = open_window(cross)
    viewer = panel.viewer
    viewer.dims.set_point(0, 1.0)
    viewer.dims.ndisplay = 3
    viewer.scene.camera.set_view_direction((-1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    Mouse(viewer).click((1.0, 0.0, 6.0), SHIFT)
    (seed,) = panel.session.seeds.positions_mm
    np.testing.assert_allclose(seed[:2], [6.0, 0.0], atol=2 * pixel_mm(viewer))
    assert seed[2] == pytest.approx(1.0, abs=1e-3)


def test_a_shift_click_beside_everything_says_so(
    open_window: Any, cross: Any, notes: list[str]
) -> None:
    panel = open_window(cross)
    panel.viewer.dims.ndisplay = 3
    panel.viewer.reset_view()  # from above
    for slices, told in ((True, "no slice"), (False, "nothing bright")):
        panel.scene.slices.box.setChecked(slices)
        Mouse(panel.viewer).click(at(panel, 15, 2, 4), SHIFT)
        assert not len(panel.session.seeds.positions_mm)
        (note,) = notes
        assert told in note
        notes.clear()


def test_seeds_are_dragged_without_a_tool(open_window: Any, cross: Any, qtbot: Any) -> None:
    panel = open_window(cross)
    viewer = panel.viewer
    start, end = at(panel, 8, 6, 4), at(panel, 20, 15, 4)
    for ndisplay, busy in ((2, False), (3, False), (2, True)):
        viewer.dims.ndisplay = ndisplay
        viewer.reset_view()  # from above
        panel.session.add_seed(start)
        panel.session.add_seed(at(panel, 25, 3, 4))
        mouse = Mouse(viewer)
        before = mouse.where((0, 0, 0))
        mouse.drag(start, end, busy=busy)
        near = 2 * pixel_mm(viewer)
        qtbot.waitUntil(
            lambda near=near: np.allclose(panel.session.seeds.positions_mm[0], end[::-1], atol=near)
        )
        moved, other = panel.session.seeds.positions_mm
        np.testing.assert_allclose(moved, end[::-1], atol=2 * pixel_mm(viewer))
        np.testing.assert_allclose(other, at(panel, 25, 3, 4)[::-1], atol=1e-3)
        assert mouse.where((0, 0, 0)) == before
        panel.session.clear_seeds()


def test_control_click_removes_the_seed_under_it(open_window: Any, cross: Any) -> None:
    panel = open_window(cross)
    panel.session.add_seeds_mm(np.array([[-10.0, 0, -1], [10.0, 4, -1]]))
    panel.viewer.dims.set_point(0, -1)
    Mouse(panel.viewer).click((-1, 4, 10), CONTROL)
    np.testing.assert_allclose(panel.session.seeds.positions_mm, [[-10, 0, -1]], atol=1e-4)


def test_the_tools_of_the_seeds_layer_work_too(open_window: Any, cross: Any) -> None:
    """Add, select and drag, delete; Shift with the add tool does not add twice."""
    panel = open_window(cross)
    viewer, mouse = panel.viewer, Mouse(panel.viewer)
    layer = panel.session.seeds.ensure_layer()
    viewer.layers.selection.active = layer
    layer.mode = "add"
    mouse.click(at(panel, 8, 6, 4))
    mouse.click(at(panel, 20, 6, 4), SHIFT)
    assert len(panel.session.seeds.positions_mm) == 2
    layer.mode = "select"
    mouse.drag(at(panel, 8, 6, 4), at(panel, 12, 15, 4))
    np.testing.assert_allclose(
        panel.session.seeds.positions_mm[0],
        at(panel, 12, 15, 4)[::-1],
        atol=2 * pixel_mm(viewer),
    )
    layer.remove_selected()
    assert len(panel.session.seeds.positions_mm) == 1
    assert panel.seeds.hint.text().startswith("1 seed:")


def test_no_box_is_drawn_where_a_layer_comes_or_goes_while_the_brush_is_in_use(
    open_window: Any, cross: Any
) -> None:
    panel = open_window(cross)
    viewer = panel.viewer
    panel.session.regions.add_painting()
    Mouse(viewer).click(at(panel, *PLACE))
    viewer.layers.remove(viewer.add_image(np.zeros((4, 4, 4))))
    nodes, boxes = [viewer.window._qt_viewer.canvas._scene_canvas.scene], []
    while nodes:
        node = nodes.pop()
        nodes += node.children
        boxes += [node] if isinstance(node, Rectangle) and node.visible else []
    assert not boxes
    viewer.layers.clear()
    viewer.screenshot(flash=False)


def test_while_painting_clicks_with_shift_place_seeds_and_spheres(
    open_window: Any, cross: Any
) -> None:
    panel = open_window(cross)
    session, viewer = panel.session, panel.viewer
    painted = session.regions.add_painting().layer
    painted.data[2:6, 3:9, 3:9] = 1
    place, other = at(panel, *PLACE), at(panel, 7, 5, 4)
    viewer.dims.set_point(0, place[0])
    mouse = Mouse(viewer)
    for mode in ("erase", "paint", "fill"):
        session.document.forget()
        before = painted.data.copy()
        painted.mode = mode
        painted.selected_label = 7
        mouse.click(place, SHIFT)
        assert len(session.seeds.positions_mm) == 1, mode
        assert not session.regions.spheres
        mouse.click(other, CONTROL | SHIFT)
        (spheres,) = session.regions.spheres
        np.testing.assert_allclose(spheres.data, [other], atol=1.5 * pixel_mm(viewer))
        np.testing.assert_array_equal(painted.data, before)
        assert viewer.layers.selection.active is painted
        assert painted.mode == mode
        mouse.click(at(panel, 20, 15, 4))  # the tool works as before
        assert (painted.data != before).any() == (mode != "erase")
        assert len(session.seeds.positions_mm) == 1
        while session.document.can_undo:
            session.document.undo()


def test_the_add_tool_in_3d_places_seeds_on_the_volume(
    open_window: Any, cross: Any, notes: list[str], qtbot: Any
) -> None:
    """napari's own places them at an arbitrary depth."""
    panel = open_window(cross)
    panel.scene.slices.box.setChecked(False)
    viewer = panel.viewer
    viewer.dims.ndisplay = 3
    viewer.reset_view()  # from above
    layer = panel.session.seeds.ensure_layer()
    viewer.layers.selection.active = layer
    layer.mode = "add"
    middle = np.zeros(3)  # where the bundles cross
    Mouse(viewer).click(middle)
    (seed,) = panel.session.seeds.positions_mm
    assert abs(seed[0]) < 2
    assert abs(seed[1]) < 2
    assert 0 < seed[2] <= 2.5 * 2.0 + 2.0  # on the upper side
    Mouse(viewer).click(at(panel, 15, 2, 4))
    qtbot.waitUntil(lambda: len(panel.session.seeds.positions_mm) == 1)
    assert "nothing bright" in notes[-1]


def test_seeds_show_in_their_slice_and_in_front_in_3d(open_window: Any, cross: Any) -> None:
    panel = open_window(cross)
    viewer = panel.viewer
    panel.session.add_seeds_mm(np.array([[0.0, 0.0, 1.0]]))
    panel.run_button.click()

    def yellow() -> int:
        picture = viewer.screenshot(flash=False)[..., :3].astype(int)
        return int(((picture[..., 0] > 200) & (np.abs(picture[..., 1] - 209) < 30)
                    & (np.abs(picture[..., 2] - 102) < 40)).sum())  # fmt: skip

    seen = {}
    for z in (-1.0, 1.0, 3.0):
        viewer.dims.set_point(0, z)
        seen[z] = yellow() > 40
    assert seen == {-1.0: False, 1.0: True, 3.0: False}
    viewer.dims.ndisplay = 3
    viewer.reset_view()  # from above
    assert yellow() > 40


def test_sliders_still_stop_at_every_slice_of_the_volume(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    before = panel.viewer.dims.range
    panel.session.add_seeds_mm(np.array([[0.3, 0.2, 0.9]]))
    assert panel.viewer.dims.range == before
