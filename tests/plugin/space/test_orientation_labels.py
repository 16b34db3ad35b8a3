"""Views and orientation labels: against pixels of beads at known places."""

from __future__ import annotations

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Points
from qtpy.QtCore import QEvent, QPointF, QSize
from qtpy.QtGui import QColor, QImage, QPainter, QResizeEvent
from qtpy.QtWidgets import QApplication, QWidget

from napari_tractography.model.phantoms import make_phantom
from napari_tractography.plugin.layers.sources.image_layers import ImageSettings
from napari_tractography.plugin.layers.volume_layers import fod_layer_data
from napari_tractography.plugin.space.display import (
    SETTINGS_KEY,
    DisplaySpace,
)
from napari_tractography.plugin.space.orientation_labels import (
    OrientationLabels,
    draw_label,
    edge_labels,
)
from napari_tractography.plugin.space.views import VIEW_HELP, VIEWS, orient, show_view

# A bead of each letter's colour, display (z, y, x) mm from the middle.
BEADS = {
    "R": ((0, 0, 20), (1, 0, 0)),
    "L": ((0, 0, -20), (0, 1, 1)),
    "A": ((0, 20, 0), (0, 1, 0)),
    "P": ((0, -20, 0), (1, 0, 1)),
    "S": ((20, 0, 0), (0, 0, 1)),
    "I": ((-20, 0, 0), (1, 1, 0)),
}


def add_beads(viewer):
    orient(viewer)
    for letter, (place, colour) in BEADS.items():
        viewer.add_layer(
            Points(
                np.array([place]),
                size=8,
                face_color=np.array([colour]),
                border_width=0,
                name=letter,
                units=DisplaySpace.identity().units,
                projection_mode="all",
            )
        )
    viewer.dims.thickness = (60,) * 3  # slices so thick that they show every bead
    return viewer


@pytest.fixture
def model():
    """Without a window, of which there is no picture."""
    return add_beads(ViewerModel())


@pytest.fixture
def viewer(make_napari_viewer):
    return add_beads(make_napari_viewer(show=True))


def edges_on_screen(viewer):
    """Which bead is the outermost at each edge of a screenshot."""
    picture = viewer.screenshot(canvas_only=True, flash=False)[..., :3].astype(int)
    middle = np.array(picture.shape[:2]) / 2
    found = {}
    for letter, (_, colour) in BEADS.items():
        near = np.abs(picture - 255 * np.array(colour)).max(axis=2) < 40
        if near.any():
            found[letter] = np.argwhere(near).mean(axis=0) - middle
    return {
        "left": min(found, key=lambda k: found[k][1]),
        "right": max(found, key=lambda k: found[k][1]),
        "top": min(found, key=lambda k: found[k][0]),
        "bottom": max(found, key=lambda k: found[k][0]),
    }


def test_slices_are_the_right_way_round(viewer):
    for name, expected in {
        "axial": {"left": "L", "right": "R", "top": "A", "bottom": "P"},
        "coronal": {"left": "L", "right": "R", "top": "S", "bottom": "I"},
        "sagittal": {"left": "P", "right": "A", "top": "S", "bottom": "I"},
    }.items():
        show_view(viewer, name)
        assert edge_labels(viewer) == expected, name
        assert edges_on_screen(viewer) == expected, name


def test_labels_in_3d_are_those_of_the_picture(viewer):
    show_view(viewer, "3-D")
    for side, direction in {
        "above": (-1, 0, 0),
        "front": (0, -1, 0),
        "behind": (0, 1, 0),
        "left": (0, 0, 1),
        "right": (0, 0, -1),
    }.items():
        up = (0, 1, 0) if direction[0] else (1, 0, 0)
        viewer.scene.camera.set_view_direction(direction, up)
        assert edge_labels(viewer) == edges_on_screen(viewer), side


def test_labels_are_right_when_3d_is_entered_from_any_slice(viewer):
    """The panel keeps the picture true with orient(), which turns depth round for some orders."""
    for name in ("coronal", "sagittal"):
        show_view(viewer, name)
        orient(viewer)
        viewer.dims.ndisplay = 3
        viewer.reset_view()
        assert edge_labels(viewer) == edges_on_screen(viewer), name
        viewer.scene.camera.angles = (10, 100, 20)
        letters, seen = edge_labels(viewer), edges_on_screen(viewer)
        assert {edge: letter for edge, letter in seen.items() if letters[edge]} == {
            edge: letter for edge, letter in letters.items() if letter
        }, name


def test_an_edge_that_no_axis_runs_to_has_no_label(model):
    show_view(model, "3-D")
    model.scene.camera.set_view_direction((-1, 1, 1), (1, 0.5, 0.5))
    letters = edge_labels(model)
    assert letters["top"] == "S"
    assert set(letters.values()) <= {"S", "I", "A", "P", "L", "R", ""}


@pytest.fixture
def labels(model, qtbot):
    """Labels on a canvas of 400 x 300 pixels."""
    canvas = QWidget()
    qtbot.addWidget(canvas)
    canvas.resize(400, 300)
    labels = OrientationLabels(model, canvas)
    yield labels
    if labels.labels:
        labels.close()


def texts(labels):
    return {edge: label.text() for edge, label in labels.labels.items()}


def test_labels_change_together_with_the_view(model, labels):
    """No events are processed in between: drawing may take seconds, and comes later."""
    assert texts(labels) == {"left": "L", "right": "R", "top": "A", "bottom": "P"}
    show_view(model, "sagittal")
    assert texts(labels) == {"left": "P", "right": "A", "top": "S", "bottom": "I"}
    show_view(model, "coronal")
    assert texts(labels) == {"left": "L", "right": "R", "top": "S", "bottom": "I"}
    show_view(model, "3-D")
    model.scene.camera.set_view_direction((0, 0, -1), (1, 0, 0))
    assert texts(labels) == edge_labels(model)
    assert texts(labels)["left"] == "P"


def test_labels_lie_at_the_edges_at_any_size_of_the_canvas(labels):
    canvas = labels.canvas
    for width, height in ((400, 300), (200, 100)):
        canvas.resize(width, height)
        QApplication.sendEvent(canvas, QResizeEvent(canvas.size(), QSize(400, 300)))
        places = {edge: label.geometry() for edge, label in labels.labels.items()}
        assert places["left"].left() == width - 1 - places["right"].right()
        assert places["top"].top() == height - 1 - places["bottom"].bottom()
        assert abs(2 * places["top"].center().x() - width) <= 3
        assert abs(2 * places["left"].center().y() - height) <= 3


def test_closing_removes_the_labels(model, labels):
    labels.close()
    show_view(model, "axial")
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert not labels.canvas.findChildren(QWidget)


@pytest.mark.parametrize("background", ["white", "black", "#ffd166"])
def test_labels_stand_out_on_any_background(background):
    image = QImage(40, 40, QImage.Format.Format_RGB32)
    image.fill(QColor(background))
    painter = QPainter(image)
    draw_label(painter, QPointF(20, 20), "R")
    painter.end()
    grey = [QColor(image.pixel(x, y)).lightness() for x in range(40) for y in range(40)]
    behind = QColor(background).lightness()
    assert sum(abs(value - behind) > 100 for value in grey) > 30  # pixels
    assert max(grey) - min(grey) > 100


def test_an_empty_viewer_has_no_labels():
    assert set(edge_labels(ViewerModel()).values()) == {""}


def test_an_image_that_knows_no_left_has_names_of_axes(model, labels):
    """A TIFF says nothing of the body; beside a volume that does it lies as that does."""
    bare = model.add_image(np.zeros((4, 5, 6)), units=("mm",) * 3)
    assert texts(labels) == {"left": "", "right": "x", "top": "y", "bottom": ""}
    show_view(model, "sagittal")
    assert texts(labels) == {"left": "", "right": "y", "top": "z", "bottom": ""}
    model._add_layer_from_data(*fod_layer_data(make_phantom("letter")))
    assert texts(labels) == {"left": "P", "right": "A", "top": "S", "bottom": "I"}
    bare.metadata[SETTINGS_KEY] = ImageSettings()  # it is tracked in: the other was made of it
    assert edge_labels(model) == {"left": "", "right": "y", "top": "z", "bottom": ""}
    model.layers.remove(bare)
    assert texts(labels) == {"left": "P", "right": "A", "top": "S", "bottom": "I"}


def test_every_view_has_a_help_text():
    assert set(VIEW_HELP) == set(VIEWS)


def test_views_keep_an_fod_in_the_picture(viewer):
    viewer._add_layer_from_data(*fod_layer_data(make_phantom("letter")))
    for name in VIEWS:
        show_view(viewer, name)
        picture = viewer.screenshot(canvas_only=True, flash=False)[..., :3]
        assert (picture.max(axis=2) > 60).mean() > 0.005


@pytest.mark.parametrize("name", ["axial", "coronal", "sagittal"])
def test_slices_stay_where_they_are_between_3d_and_2d(model, name):
    show_view(model, "axial")
    model.dims.set_point((0, 1, 2), (12.0, -7.0, 5.0))
    chosen = model.dims.point
    show_view(model, "3-D")
    show_view(model, name)
    assert model.dims.point == chosen
