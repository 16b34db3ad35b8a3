"""Dissecting the active bundle: select by a stroke, a sphere or likeness; cut at a slice.

What is found is selected; the buttons of the Selection section keep or delete it. Called by the
panel, below those buttons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from qtpy.QtCore import QPointF, Qt, Signal
from qtpy.QtGui import QColor, QPainter, QPaintEvent, QPen
from qtpy.QtWidgets import QFileDialog, QInputDialog, QWidget

from ....files.formats import dialog_filter, listed, read_tractogram_endings
from ....files.weights import columns_of, load_weights
from ....maps.likeness import distances_to_bundle, like_these
from ....model.parameters import ParameterSpec
from ....model.regions import Region
from ....recipes.tractogram_sources import WeightsSource
from ....streamlines.strokes import crossed
from ....streamlines.tractogram import Tractogram
from ...background import Background
from ...flag import Flag
from ...main_window import canvas_of, main_window
from ...notices import show_warning
from ...session.derived_bundles import split_off
from ...session.filtering import Filtering
from ...session.listing import BundleList
from ...streamlines.layer import Streamlines
from ...timers import delayed
from ..widgets.busy_dialog import errors_shown, wait_for
from ..widgets.controls import form, parameter_control, show_row, show_units
from ..widgets.layout import button, give_menu, row, stack
from ..widgets.progress_row import ProgressRow

STROKE, SPHERE = "Lasso", "Sphere"
TOOLS = {
    STROKE: "Draw across streamlines in the view: they are selected.",
    SPHERE: "Drag from a place in the view: what runs so near is selected.",
}
STROKE_COLOUR = "#ffd166"
WAIT_MS = 120  # after the last move of the slider
MAX_LIKE_MM = 50.0
CLICK_MM = 5.0  # radius of a sphere that was clicked and not drawn
OUTLIER_SPEC = ParameterSpec(
    "outlier_mm", "Outliers beyond", MAX_LIKE_MM,
    "Select streamlines that run farther than this from the others of their bundle.",
    unit="mm", minimum=0.5, maximum=200.0, increment=0.5, slider=(0.5, MAX_LIKE_MM), is_scaled=True,
)  # fmt: skip
LIKE_SPEC = ParameterSpec(
    "like_mm", "Like within", 6.0,
    "Mean closest distance, of More like these, to the nearest selected streamline.",
    unit="mm", minimum=0.5, maximum=200.0, increment=0.5, slider=(0.5, 30.0), is_scaled=True,
)  # fmt: skip
WEIGHT_SPEC = ParameterSpec(
    "min_weight", "Least weight", 0.0,
    "Streamlines of a smaller weight are not shown, and not saved.",
    minimum=0.0, maximum=1e9, increment=0.05, slider=(0.0, 5.0),
)  # fmt: skip
WEIGHT_QUANTILE = 0.99  # of the weights, up to which the slider goes
TEXT_ENDINGS = (".txt", ".csv")  # that weights mostly have; any other text is read as well
# (axis of the viewer from the last three, which side of the slice is cut off, what to call it)
CUTS = (
    (0, 1, "above the axial slice"),
    (0, -1, "below the axial slice"),
    (1, 1, "in front of the coronal slice"),
    (1, -1, "behind the coronal slice"),
    (2, 1, "right of the sagittal slice"),
    (2, -1, "left of the sagittal slice"),
)


class Dissection(QWidget):  # type: ignore[misc]
    """Tools that select streamlines of the active bundle.

    `filtering` shows what the least weight leaves.
    """

    weighed = Signal()  # the active bundle has weights now

    def __init__(self, bundles: BundleList, filtering: Filtering) -> None:
        super().__init__()
        self.bundles, self.filtering = bundles, filtering
        self.session = bundles.session
        self.tools = {
            name: button(name, tip, partial(self._on_tool, name), is_checkable=True)
            for name, tip in TOOLS.items()
        }
        self.cut = button("Cut", "Cut off what lies beyond the slice in view.")
        give_menu(
            self.cut,
            *((f"Cut {t}", "", partial(self.cut_at_slice, axis, side)) for axis, side, t in CUTS),
        )
        like_help = "Select what runs like the selected streamlines."
        self.like = button("More like these", like_help, self.select_like)
        self.split = button(
            "Split off",
            "Make a bundle of the selected streamlines; this one is left without them.",
            self.split_selected,
        )
        self.weights = button(
            "Weights...",
            "Read one weight a streamline: a text file, as tcksift2 writes it, or a "
            f"{listed(read_tractogram_endings())} file.",
            self._ask_weights,
        )
        specs = LIKE_SPEC, OUTLIER_SPEC, WEIGHT_SPEC
        self.like_mm, self.outlier_mm, self.min_weight = map(parameter_control, specs)
        self.form = form([self.like_mm, self.outlier_mm, self.min_weight])
        self.min_weight.changed.connect(self._on_min_weight)
        self.work = Background()
        self.progress = ProgressRow(
            "How far streamlines have been compared.", "Compare no more; nothing is selected."
        )
        self.progress.follow(self.work)
        self.work.failed.connect(show_warning)
        first, second = (*self.tools.values(), self.cut), (self.like, self.split, self.weights)
        stack(self, row(*first), row(*second), self.form, self.progress, spacing=5)
        self._wait = delayed(self, WAIT_MS, self.select_outliers)
        self.outlier_mm.changed.connect(lambda _value: self._wait.start())
        self._measured: tuple[Tractogram, Any] | None = None
        self._is_showing = Flag()  # the least weight of a bundle, which is no act
        self._weighed: Tractogram | None = None  # whose weights the slider is for
        bundles.session.list_changed.connect(self.follow)
        self.session.parameters_suited.connect(self.show_units)
        self.follow()

    def open(self) -> None:
        self.session.viewer.mouse_drag_callbacks.insert(0, self._drag)

    def close_section(self) -> None:
        for created in self.tools.values():
            created.setChecked(False)
        self._wait.stop()
        self.work.cancel()
        callbacks = self.session.viewer.mouse_drag_callbacks
        if self._drag in callbacks:
            callbacks.remove(self._drag)

    def show_units(self) -> None:
        show_units(self.form, [self.like_mm, self.outlier_mm], self.session.space)

    @property
    def layer(self) -> Streamlines | None:
        return self.session.streamlines_layer

    @property
    def tool(self) -> str:
        return next((name for name, created in self.tools.items() if created.isChecked()), "")

    def _on_tool(self, name: str) -> None:
        for other, created in self.tools.items():
            if other != name:
                created.setChecked(False)

    # -- without the mouse ---------------------------------------------------------------------

    def select_like(self) -> None:
        layer = self.layer
        if layer is None or not layer.editor.n_selected:
            show_warning("Nothing is selected; select streamlines that others shall be like.")
            return
        shown, wanted = layer.tractogram, layer.selected
        distance = float(self.like_mm.value)
        self.work.begin(
            "Comparing",
            lambda advance: like_these(shown, wanted, max_distance_mm=distance, advance=advance),
            partial(self._select, layer, shown),
        )

    def select_outliers(self) -> None:
        """Select what runs farther from its bundle than the slider says."""
        layer = self.layer
        if layer is None or not len(layer.tractogram):
            return
        shown = layer.tractogram
        if self._measured is not None and self._measured[0] is shown:
            layer.selected = np.flatnonzero(self._measured[1] > self.outlier_mm.value)
            return

        def done(distances: Any) -> None:
            self._measured = shown, distances
            if self.layer is layer and layer.tractogram is shown:
                self.select_outliers()

        self.work.begin(
            "Comparing", lambda advance: distances_to_bundle(shown, advance=advance), done
        )

    def _select(self, layer: Streamlines, shown: Tractogram, numbers: Any) -> None:
        if layer.tractogram is shown:  # else the numbers are those of others
            layer.selected = numbers

    @errors_shown()
    def split_selected(self) -> None:
        split_off(self.bundles)

    # -- weights -------------------------------------------------------------------------------

    def follow(self) -> None:
        """Show the least weight of the active bundle, where its streamlines have weights."""
        layer, bundle = self.layer, self.session.bundle
        weights = None if layer is None else layer.editor.whole.weights
        show_row(self.form, self.min_weight, weights is not None)
        with self._is_showing:
            if layer and weights is not None and self._weighed is not layer.editor.whole:
                self._weighed = layer.editor.whole
                if len(weights):
                    self.min_weight.reach(float(np.quantile(weights, WEIGHT_QUANTILE)))
            self.min_weight.value = bundle.state.min_weight

    @errors_shown()
    def read_weights(self, path: str | Path, name: str = "") -> None:
        """Give the streamlines of the active bundle, before all edits, weights from a file."""
        layer, bundle = self.layer, self.session.bundle
        if layer is None or not len(layer.editor.whole):
            show_warning("There are no streamlines that weights could belong to.")
            return
        text = f"Reading {Path(path).name}"
        weights = wait_for(lambda: load_weights(path, name), text, self)
        layer.editor.weigh(weights)
        bundle.amend(weights=WeightsSource.file(path, name=name, hashed=False))
        self.follow()
        self.weighed.emit()

    @errors_shown()
    def _ask_weights(self) -> None:
        known = dialog_filter("Weights", (*TEXT_ENDINGS, *read_tractogram_endings()))
        path, _ = QFileDialog.getOpenFileName(self, "Read weights", "", f"{known};;All files (*)")
        if not path:
            return
        columns = columns_of(path)
        name, is_chosen = (columns[0] if columns else ""), True
        if len(columns) > 1:
            name, is_chosen = QInputDialog.getItem(
                self, "Read weights", "Values per streamline:", columns, 0, False
            )
        if is_chosen:
            self.read_weights(path, name)

    def _on_min_weight(self, value: float) -> None:
        if not self._is_showing:
            self.session.choose_min_weight(float(value))
            self.filtering.follow()

    # -- cutting -------------------------------------------------------------------------------

    @errors_shown()
    def cut_at_slice(self, axis: int, side: int) -> None:
        """Cut off what lies beyond the slice of the viewer.

        Axis 0 is axial, 1 coronal, 2 sagittal; side 1 cuts off what lies towards superior, anterior
        or right, -1 the other side.
        """
        layer, dims = self.layer, self.session.viewer.dims
        if layer is None:
            return
        point = np.asarray(dims.point, dtype=float)[-3:]
        beyond = point.copy()
        beyond[axis] += side
        here, there = np.asarray(layer.space.to_world(np.stack([point, beyond])), dtype=float)
        shown = layer.tractogram
        cut = layer.editor.after_cut(here.tolist(), (there - here).tolist())
        left = wait_for(cut, "Cutting", self)
        if layer.tractogram is shown:  # else it is a cut of others
            layer.editor.take_cut(left)

    # -- with the mouse ------------------------------------------------------------------------

    def _drag(self, viewer: Any, event: Any) -> Iterator[None]:
        tool, layer = self.tool, self.layer
        if not tool or layer is None or event.button != 1 or event.modifiers or event.handled:
            return
        sight = event.view_direction
        positions, pixels = [np.asarray(event.position, dtype=float)[-3:]], [np.array(event.pos)]
        canvas = canvas_of(main_window(viewer))
        overlay = None if canvas is None else Overlay(canvas)
        while True:
            event.handled = True  # the camera and other tools stay out
            yield
            positions.append(np.asarray(event.position, dtype=float)[-3:])
            pixels.append(np.array(event.pos))
            if overlay is not None:
                overlay.show_stroke(pixels, is_circle=tool == SPHERE)
            if event.type != "mouse_move":
                break
        if overlay is not None:
            overlay.close()
            overlay.deleteLater()
        shown = layer.tractogram
        if tool == STROKE:
            find = self._crossed(layer, np.stack(positions), sight)
        else:
            find = self._touched(layer, positions, sight)
        with errors_shown():
            self._select(layer, shown, wait_for(find, "Selecting", self))

    def _crossed(self, layer: Streamlines, stroke: Any, sight: Any) -> Callable[[], Any]:
        """Return what finds streamlines across a stroke, in any thread."""
        dims, tractogram, space = self.session.viewer.dims, layer.tractogram, layer.space
        ahead, slab = np.zeros(3), None
        if dims.ndisplay == 3:
            ahead = np.asarray(sight)[-3:]
        else:
            axis = int(dims.order[0]) - (dims.ndim - 3)
            ahead[axis] = 1.0
            at, half = float(dims.point[-3:][axis]), layer.slab / 2
            slab = axis, at - half, at + half
        return lambda: crossed(
            space.to_display(tractogram.points), tractogram.offsets, stroke, ahead, slab=slab
        )

    def _touched(self, layer: Streamlines, positions: Any, sight: Any) -> Callable[[], Any]:
        """Return what finds streamlines in a sphere, in any thread.

        It lies around where the mouse was pressed, on the streamline that is there.
        """
        centre = positions[0]
        radius = max(float(np.linalg.norm(p - centre)) for p in positions)
        radius = radius or layer.space.per_mm * layer.space.in_proportion(CLICK_MM)
        if self.session.viewer.dims.ndisplay == 3:
            found = layer.place_under(centre, sight)
            centre = centre if found is None else found
        (centre_mm,) = np.asarray(layer.space.to_world(np.asarray(centre)[None]))
        sphere = Region.sphere(centre_mm, radius / layer.space.per_mm, "include")
        return partial(layer.tractogram.select_numbers, regions=[sphere])


class Overlay(QWidget):  # type: ignore[misc]
    """Shows the stroke, or the circle, that is being drawn over the canvas."""

    def __init__(self, canvas: QWidget) -> None:
        super().__init__(canvas)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setGeometry(canvas.rect())
        self._pixels: list[QPointF] = []
        self._is_circle = False
        self.show()

    def show_stroke(self, pixels: list[Any], *, is_circle: bool) -> None:
        """Show a stroke through pixels; or a circle around the first, through the farthest."""
        self._pixels = [QPointF(float(p[0]), float(p[1])) for p in pixels]
        self._is_circle = is_circle
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(STROKE_COLOUR), 2))
        if self._is_circle and self._pixels:
            first = self._pixels[0]
            radius = max(np.hypot(p.x() - first.x(), p.y() - first.y()) for p in self._pixels)
            painter.drawEllipse(first, radius, radius)
        elif len(self._pixels) > 1:
            painter.drawPolyline(self._pixels)
        painter.end()
