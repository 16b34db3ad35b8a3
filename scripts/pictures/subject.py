"""Pictures of a person's bundles: dissected, measured, compared."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
from napari.layers import Labels
from numpy.typing import NDArray
from qtpy.QtCore import QPoint
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QScrollArea

import napari_tractography as nt
from napari_tractography.maps.plots import plot_asymmetry, plot_profiles
from napari_tractography.maps.scalar_maps import ScalarMap
from napari_tractography.plugin.panel.panel import TractographyPanel
from napari_tractography.plugin.panel.widgets.layout import Section
from napari_tractography.plugin.space.display import DisplaySpace
from napari_tractography.plugin.space.views import FOUR_UP, fit_space, orient
from napari_tractography.plugin.streamlines.layer import Streamlines

from .canvas import FROM_LEFT_FRONT, SETTLE_MS, SUBJECT, Picture, finish, look_from, show_docks

MEASURED: dict[str, nt.Tractogram] = {}  # bundles of the subject, once they were tracked
PLOT_DPI = 160
CROSSHAIR_MM = (20.0, -18.0, -25.0)  # S, A, R


def measured_bundles(subject: Path) -> dict[str, nt.Tractogram]:
    """Return three bundles on each side of a subject, as scripts/measures.py tracks them."""
    if not MEASURED:
        from measures import subject_bundles  # the script beside this one

        MEASURED.update(subject_bundles(subject))
    return MEASURED


def draw_profiles(_viewer: Any, subject: Path) -> NDArray[np.uint8]:
    from measures import COLOURS

    fa = ScalarMap.load(subject / "fa.nii.gz")
    profiles = [nt.profile(t, fa, name=name) for name, t in measured_bundles(subject).items()]
    return plot_picture(plot_profiles(profiles, COLOURS))


def draw_asymmetry(_viewer: Any, subject: Path) -> NDArray[np.uint8]:
    from measures import NUMBERS

    fa = ScalarMap.load(subject / "fa.nii.gz")
    found = [nt.measure(t, [fa], name=name) for name, t in measured_bundles(subject).items()]
    return plot_picture(plot_asymmetry(found, NUMBERS))


def draw_measures(viewer: Any, subject: Path) -> NDArray[np.uint8]:
    from measures import COLOURS

    fa = ScalarMap.load(subject / "fa.nii.gz")
    space = DisplaySpace.of(fa.grid)
    shown = np.ascontiguousarray(space.volume(fa.values))
    viewer.add_image(shown, name="fa.nii.gz", **space.layer_kwargs)
    panel = TractographyPanel(viewer, remember=False)
    viewer.window.add_dock_widget(panel, name="Tractography", area="right")
    for (name, lines), colour in zip(measured_bundles(subject).items(), COLOURS, strict=True):
        layer = Streamlines(lines, space=space, name=name, width=1.2)
        layer.colour = (*(int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)), 1.0)
        viewer.add_layer(layer)
        panel.bundles.set_colour(panel.session.of_layer(layer), colour)
    for section in panel.findChildren(Section):
        section.header.setChecked(section.title == "Measure")
    orient(viewer)
    look_from(viewer, FROM_LEFT_FRONT)
    panel.measure.scalar.value = viewer.layers["fa.nii.gz"]
    panel.measure.kind.value = "Profiles"
    panel.measure.start()
    while panel.measure.measuring.is_busy:
        QTest.qWait(20)
    viewer.reset_view()
    look_from(viewer, FROM_LEFT_FRONT)
    QTest.qWait(SETTLE_MS)
    scroll = panel.findChild(QScrollArea)
    scroll.verticalScrollBar().setValue(scroll.verticalScrollBar().maximum())
    QTest.qWait(SETTLE_MS)
    return np.asarray(viewer.screenshot(canvas_only=False, flash=False)[..., :3])


def plot_picture(plot: Any) -> NDArray[np.uint8]:
    """Return a plot as pixels."""
    stream = io.BytesIO()
    plot.savefig(stream, format="png", dpi=PLOT_DPI)
    return np.asarray(imageio.imread(stream.getvalue())[..., :3])


def dissected(viewer: Any, subject: Path) -> TractographyPanel:
    """Return a panel with three bundles a side, tracked, saved, opened again and proved."""
    from dissection import study  # beside this file, on the path while it runs as a script

    panel = TractographyPanel(viewer, remember=False)
    panel.scene.slices.box.setChecked(False)  # nothing in front of bundles
    dock = viewer.window.add_dock_widget(panel, name="Tractography", area="right")
    dock.setVisible(False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.tracts.json"
        project = study(subject)
        known = {name: bundle.tractogram().digest() for name, bundle in project.bundles.items()}
        project.save(path)
        if not panel.project.open_project(path):
            raise SystemExit(f"{path} could not be opened.")
        while panel.project.opening is not None:
            QTest.qWait(50)
    shown = {b.name: b.streamlines_layer.tractogram.digest() for b in panel.bundles.bundles}
    if shown != known:
        raise SystemExit("The project that was opened is not the one that was saved.")
    return panel


def draw_dissection(viewer: Any, subject: Path) -> NDArray[np.uint8]:
    panel = dissected(viewer, subject)
    for bundle in panel.bundles.bundles:
        bundle.streamlines_layer.width = 1.2
    for layer in viewer.layers:
        layer.visible = isinstance(layer, Streamlines)
    look_from(viewer, FROM_LEFT_FRONT)
    picture = finish(viewer)
    panel.close_session()
    return picture


def draw_bundles(viewer: Any, subject: Path) -> NDArray[np.uint8]:
    viewer.window.resize(1280, 800)
    panel = dissected(viewer, subject)
    show_docks(viewer, True)
    panel.parentWidget().setVisible(True)
    for layer in viewer.layers:
        layer.visible = isinstance(layer, Streamlines)
    look_from(viewer, FROM_LEFT_FRONT)
    fit_space(viewer)
    QTest.qWait(2 * SETTLE_MS)
    panel.results.refresh_notice()
    return np.asarray(viewer.screenshot(canvas_only=False, flash=False)[..., :3])


def draw_four_up(viewer: Any, subject: Path) -> NDArray[np.uint8]:
    viewer.window.resize(1280, 1000)
    panel = dissected(viewer, subject)
    panel.scene.slices.box.setChecked(True)
    for layer in viewer.layers:
        layer.visible = layer.visible and not isinstance(layer, Labels)
    panel.scene.show_view(FOUR_UP)
    panel.scene.four_up.shared.move_to(np.array(CROSSHAIR_MM))
    viewer.scene.camera.set_view_direction(FROM_LEFT_FRONT, (1.0, 0.0, 0.0))
    QTest.qWait(SETTLE_MS)
    fit_space(viewer)
    QTest.qWait(2 * SETTLE_MS)
    picture = np.asarray(viewer.screenshot(canvas_only=False, flash=False)[..., :3])
    canvas = viewer.window._qt_viewer.canvas.native.parentWidget()
    corner = canvas.mapTo(viewer.window._qt_window, QPoint(0, 0))
    return picture[corner.y() :, corner.x() :][: canvas.height(), : canvas.width()]


PICTURES = {
    "dissection": Picture(
        "dissection",
        "A dissection",
        "Three bundles on each side of a person: pyramidal tract, arcuate and inferior "
        "fronto-occipital fascicle, by AND and NOT regions; saved as a project of kilobytes, "
        "opened, tracked again and proved by digests.",
        draw_dissection,
        needs=SUBJECT,
    ),
    "bundles": Picture(
        "bundles",
        "The list of bundles",
        "The same in the window.",
        draw_bundles,
        needs=SUBJECT,
    ),
    "four_up": Picture(
        "four_up",
        "Four-up",
        "The same as three slices beside 3-D: a click in one moves the crosshair in all.",
        draw_four_up,
        needs=SUBJECT,
    ),
    "profiles": Picture(
        "profiles",
        "FA along three bundles a side",
        "Mean and standard deviation of FA along arcuate fasciculus, corticospinal tract and "
        "inferior fronto-occipital fasciculus of one person, `python scripts/measures.py`. The "
        "right side was tracked with the masks of the left one, mirrored.",
        draw_profiles,
        needs=SUBJECT,
    ),
    "asymmetry": Picture(
        "asymmetry",
        "Left against right",
        "(L - R) / (L + R) of the same bundles: streamlines from as many seeds, volume, mean FA.",
        draw_asymmetry,
        needs=SUBJECT,
    ),
    "measures": Picture(
        "measures",
        "Measures in the window",
        "The same bundles in napari: lengths with handles that filter, and profiles.",
        draw_measures,
        needs=SUBJECT,
    ),
}
