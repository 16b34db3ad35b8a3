"""How does it depend? A dialog that sweeps a parameter of the selected bundle.

Small pictures of what each value gives, a plot of the numbers, and where the answer is flat. Opened
from the More menu.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qtpy.QtCore import Qt
from qtpy.QtGui import QKeyEvent
from qtpy.QtWidgets import (
    QButtonGroup,
    QComboBox,
    QDialog,
    QLabel,
    QPushButton,
    QSpinBox,
    QWidget,
)
from vispy import scene

from ....geometry.units import MM
from ....maps import plots
from ....maps.clusters import evenly_thinned
from ....maps.spreadsheets import sweep_table
from ....maps.sweeps import Sweep, swept, values_of
from ....model.parameters import TrackingParameters, parameter_specs
from ....model.specs import ParameterSpec
from ....streamlines.tractogram import Tractogram
from ...background import Advance, Background
from ...notices import show_error
from ...requests import Request
from ...session.session import Session
from ..widgets.busy_dialog import errors_shown
from ..widgets.controls import DecimalBox
from ..widgets.controls import label as label_of
from ..widgets.layout import button, keep_room, row, show_text, stack, wrapped
from ..widgets.progress_row import ProgressRow
from .outputs import CSV_HELP, PLOT_HELP, PlotView, Shown

MAX_LINES = 300  # of a picture
ROOM = 1.1  # times what the lines take, however they are turned about the vertical

Lines = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_]]


def lines_of(tractogram: Tractogram) -> Lines:
    """Return an even part of streamlines as a picture takes them; in any thread.

    Points, (n, 3) RAS+ mm, their colours by direction, (n, 4), and which are joined with the next.
    """
    n = len(tractogram)
    few = tractogram[np.unique(np.linspace(0, n - 1, min(n, MAX_LINES)).astype(np.int64))]
    points = evenly_thinned(few)
    along = np.abs(np.gradient(points, axis=1)) if len(points) else np.zeros_like(points)
    lengths = np.linalg.norm(along, axis=2, keepdims=True)
    rgb = np.divide(along, lengths, where=lengths > 0, out=np.zeros_like(along))
    colours = np.concatenate([rgb, np.ones_like(lengths)], axis=2).astype(np.float32)
    joined = np.ones(points.shape[:2], bool)
    joined[:, -1] = False
    return points.reshape(-1, 3), colours.reshape(-1, 4), joined.ravel()


class SmallPictures(QWidget):  # type: ignore[misc]
    """Pictures beside each other; turning, moving or zooming one does so with all."""

    def __init__(self) -> None:
        super().__init__()
        self.canvas = scene.SceneCanvas(keys=None, bgcolor="black", parent=self)
        self.views: list[Any] = []
        self._grid: Any = None
        self._box = np.zeros((0, 3))  # what has been shown lies in it
        stack(self, self.canvas.native)
        self.setFixedHeight(190)

    def begin(self, n: int) -> None:
        """Make room for so many pictures, in the place of those before."""
        angles = self._angles
        if self._grid is not None:
            self._grid.parent = None
        self._box = np.zeros((0, 3))
        self._grid = self.canvas.central_widget.add_grid(spacing=4)
        self.views = [self._grid.add_view(row=0, col=k) for k in range(n)]
        for view in self.views:
            view.camera = scene.TurntableCamera(fov=0.0, **angles)
        for view in self.views[1:]:  # both ways, and so all with each other
            self.views[0].camera.link(view.camera)

    @property
    def _angles(self) -> dict[str, float]:
        """How the pictures are turned; at first they are seen from behind, right at the right."""
        if not self.views:
            return {"elevation": 15.0, "azimuth": 0.0}
        camera = self.views[0].camera
        return {"elevation": camera.elevation, "azimuth": camera.azimuth}

    def show_lines(self, number: int, lines: Lines) -> None:
        """Show streamlines in a picture; all pictures have room for those of each."""
        points, colours, joined = lines
        if not len(points):
            return
        scene.visuals.Line(
            points,
            color=colours,
            connect=joined[:-1],
            width=1.0,
            parent=self.views[number].scene,
        )
        box = np.concatenate([self._box, points])
        box = np.stack([box.min(axis=0), box.max(axis=0)])
        if not np.array_equal(box, self._box):
            self._box = box
            x, y, z = box[1] - box[0]
            width, height = self.views[0].size
            for view in self.views:
                view.camera.center = box.mean(axis=0)
            # The world's size of the shorter side; linked, and so that of all.
            side = min(1.0, width / height)
            self.views[0].camera.scale_factor = ROOM * max(np.hypot(x, y), z * side)
        self.canvas.update()

    def close_canvas(self) -> None:
        self.canvas.close()


WIDTH, PLOT_HEIGHT = 760, 300
SPREAD = 2.0  # at first from the value by so much smaller to so much larger
NOTE = (
    "Each value starts the same seeds with the same random numbers. Bars are twice the standard "
    "error of the difference to the value of now (dashed); where nothing differs by more, the "
    "answer is flat (shaded)."
)


def swept_specs(parameters: TrackingParameters) -> list[ParameterSpec]:
    """Return the parameters that can be swept: numbers that the algorithm uses and that are set."""
    return [
        spec
        for spec in parameter_specs()
        if spec.type in (int, float)
        and spec.name != "random_seed"
        and parameters.uses(spec.name)
        and getattr(parameters, spec.name) is not None
    ]


class SweepDialog(QDialog):  # type: ignore[misc]
    """Asks for a parameter and its values, tracks with each, and shows what came.

    `use` sets parameters by name. The bundle must be one that can be tracked; raises
    TractographyError where it cannot.
    """

    def __init__(
        self, session: Session, use: Callable[..., object], parent: QWidget | None = None
    ) -> None:
        request = session.request()  # first: where it raises there is no half of a dialog
        super().__init__(parent)
        self.session, self._use = session, use
        self.request: Request = request
        self.found: Sweep | None = None
        self.work = Background()
        self.specs = swept_specs(self.request.parameters)
        self.setWindowTitle(f"How does {session.bundle.name} depend?")
        self.parameter = QComboBox()
        for spec in self.specs:
            self.parameter.addItem(label_of(spec, MM), spec.name)
        self.parameter.setToolTip("What is swept; everything else stays.")
        self.low, self.high, self.number = DecimalBox(), DecimalBox(), QSpinBox()
        self.number.setRange(2, 12)
        self.number.setValue(5)
        self.number.setToolTip("How many values, besides that of now.")
        for each, name in (
            (self.parameter, "Parameter"),
            (self.low, "From"),
            (self.high, "To"),
            (self.number, "Values"),
        ):
            each.setAccessibleName(name)
        self.start_button = button("Track", "Track with each value, in the background.", self.start)
        self.progress = ProgressRow("How many values have been tracked.", "Stop tracking.")
        self.pictures = SmallPictures()
        self.choices = row()
        self.group = QButtonGroup(self)
        self.plot, self.answer = PlotView(), wrapped()
        self.plot.setFixedHeight(PLOT_HEIGHT)
        for each in (self.plot, self.answer):
            each.setToolTip(f"<qt>{NOTE}</qt>")
            keep_room(each)  # the dialog does not grow when they come
        use_help = "Set the value that is chosen above."
        self.use_button = button("Use this value", use_help, self.use_value)
        self.csv = button("CSV...", CSV_HELP, lambda: self.shown.ask_csv(self))
        self.picture = button("Plot...", PLOT_HELP, lambda: self.shown.ask_plot(self))
        asked = row(
            self.parameter, QLabel("from"), self.low, QLabel("to"), self.high, QLabel("values"),
            self.number, self.start_button,
        )  # fmt: skip
        outputs = row(self.use_button, self.csv, self.picture)
        layout = stack(
            self, asked, self.progress, self.pictures, self.choices, self.answer, self.plot,
            outputs, spacing=6,
        )  # fmt: skip
        layout.setContentsMargins(10, 10, 10, 10)
        self.setMinimumWidth(WIDTH)
        self._show_outputs()
        self.parameter.currentIndexChanged.connect(lambda _index: self._suit())
        self.group.idClicked.connect(lambda _id: self._show_outputs())
        self.progress.follow(self.work)
        self.work.failed.connect(self._show_problem)
        self._suit()

    @property
    def spec(self) -> ParameterSpec:
        index: int = self.parameter.currentIndex()
        return self.specs[index]

    def _suit(self) -> None:
        spec = self.spec
        now = float(getattr(self.request.parameters, spec.name))
        least, most = spec.minimum or 0.0, spec.maximum or np.inf
        for box, value in ((self.low, now / SPREAD), (self.high, now * SPREAD or 1.0)):
            box.setDecimals(0 if spec.type is int else 4)
            box.setRange(least, min(most, 1e9))
            box.setSingleStep(spec.increment or 1.0)
            box.setValue(min(max(value, least), most))

    @errors_shown()
    def start(self) -> None:
        name = self.spec.name
        values = np.linspace(self.low.value(), self.high.value(), self.number.value())
        if self.spec.type is int:
            values = np.unique(values.round())
        all_values, _ = values_of(self.request.parameters, name, values.tolist())
        n = len(all_values)
        self.found = None
        self._show_values(all_values.tolist())
        self.pictures.begin(n)
        request, pictures = self.request, dict[int, Lines]()
        inputs = request.tracking_input  # draws the seeds, in the thread

        def work(advance: Advance) -> tuple[Sweep, dict[int, Lines], Shown]:
            def see(number: int, _value: float, tractogram: Tractogram) -> None:
                pictures[number] = lines_of(tractogram)
                advance((number + 1) / n)

            found = swept(inputs(), name, all_values.tolist(), request.execution, seen=see)
            draw = partial(plots.plot_sweep, found)
            return found, pictures, Shown(sweep_table(found), f"sweep_{name}", draw).plotted()

        self.work.begin("Tracking", work, self._show)

    def _show_values(self, values: list[float]) -> None:
        """Have a button below each picture."""
        for before in self.group.buttons():
            self.group.removeButton(before)
            self.choices.layout().removeWidget(before)
            before.deleteLater()
        for number, value in enumerate(values):
            each = QPushButton(f"{value:.4g}")
            each.setCheckable(True)
            self.group.addButton(each, number)
            self.choices.layout().addWidget(each, 1)
        self._show_outputs()

    def _show(self, outcome: tuple[Sweep, dict[int, Lines], Shown]) -> None:
        self.found, pictures, self.shown = outcome
        for number, lines in pictures.items():
            self.pictures.show_lines(number, lines)
        low, high = self.found.flat
        for number, value in enumerate(self.found.values.tolist()):
            is_now, is_flat = number == self.found.chosen, low <= value <= high
            each, n = self.group.button(number), int(self.found.n_streamlines[number])
            each.setChecked(is_now)
            each.setText(f"{value:.4g}{' (now)' if is_now else ''}\n{n:,}")
            each.setToolTip(f"{n:,} streamlines{', as flat as now' if is_flat else ''}")
        show_text(self.answer, self.found.text)
        if self.shown.plot is not None:
            self.plot.show_plot(self.shown.plot)
        self._show_outputs()

    def _show_problem(self, message: str) -> None:
        """Say here, too, what went wrong: the dialog lies over the notification."""
        show_error(message)
        self._show_values([])
        show_text(self.answer, message)
        self.answer.show()

    def _show_outputs(self) -> None:
        is_done = self.found is not None
        for each in (self.plot, self.answer):
            each.setVisible(is_done)
        for each in (self.csv, self.picture):
            each.setEnabled(is_done)
        is_other = self.found is not None and self.group.checkedId() != self.found.chosen
        self.use_button.setEnabled(is_other)

    def use_value(self) -> None:
        """Set the value that is chosen, as one step, and end."""
        assert self.found is not None
        name, value = self.found.name, float(self.found.values[self.group.checkedId()])
        spec = next(spec for spec in self.specs if spec.name == name)
        with self.session.document.one_step(f"{spec.label} {value:.4g}"):
            self._use(**{name: int(value) if spec.type is int else value})
        self.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        """Let Enter confirm a number, and no more; a button that has the focus takes its own."""
        if event.key() not in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            super().keyPressEvent(event)

    def done(self, result: int) -> None:
        self.work.cancel()
        self.pictures.close_canvas()
        super().done(result)
