"""How does it depend? A dialog that sweeps a parameter of the selected bundle.

Small pictures of what each value gives, a plot of the numbers, and where the answer is flat. Opened
from the More menu.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from qtpy.QtWidgets import (
    QButtonGroup,
    QComboBox,
    QDialog,
    QDoubleSpinBox,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSpinBox,
    QWidget,
)

from ....geometry.units import MM
from ....maps import plots
from ....maps.spreadsheets import sweep_table
from ....maps.sweeps import Sweep, swept, values_of
from ....model.parameters import TrackingParameters, parameter_specs
from ....model.specs import ParameterSpec
from ....streamlines.tractogram import Tractogram
from ...background import Advance, Background
from ...notices import show_error
from ...requests import Request
from ...session.session import Session
from ..widgets.busy_dialog import errors_shown, wait_for
from ..widgets.controls import label as label_of
from ..widgets.layout import button, row, show_text, stack, wrapped
from ..widgets.progress_row import ProgressRow
from .outputs import PlotView, Shown, drawing
from .small_pictures import Lines, SmallPictures, lines_of

WIDTH, PLOT_HEIGHT = 760, 300
MOST_VALUES = 12
DECIMALS = 4
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
        super().__init__(parent)
        self.session, self._use = session, use
        self.request: Request = session.request()
        self.found: Sweep | None = None
        self.work = Background()
        self.specs = swept_specs(self.request.parameters)
        self.setWindowTitle(f"How does {session.bundle.name} depend?")
        self.parameter = QComboBox()
        for spec in self.specs:
            self.parameter.addItem(label_of(spec, MM), spec.name)
        self.parameter.setToolTip("What is swept; everything else stays.")
        self.low, self.high, self.number = QDoubleSpinBox(), QDoubleSpinBox(), QSpinBox()
        self.number.setRange(2, MOST_VALUES)
        self.number.setValue(5)
        self.number.setToolTip("How many values, besides that of now.")
        self.start_button = button("Track", "Track with each value, in the background.")
        self.progress = ProgressRow("How many values have been tracked.", "Stop tracking.")
        self.pictures = SmallPictures()
        self.choices = QWidget()
        QHBoxLayout(self.choices).setContentsMargins(0, 0, 0, 0)
        self.group = QButtonGroup(self)
        self.plot, self.answer = PlotView(), wrapped()
        self.plot.setFixedHeight(PLOT_HEIGHT)
        for each in (self.plot, self.answer):
            each.setToolTip(f"<qt>{NOTE}</qt>")
            policy = each.sizePolicy()
            policy.setRetainSizeWhenHidden(True)  # the dialog does not grow when they come
            each.setSizePolicy(policy)
        self.use_button = button("Use this value", "Set the value that is chosen above.")
        self.csv = button("CSV...", "Save the numbers as a CSV file.")
        self.picture = button("Plot...", "Save the plot as PNG, SVG or PDF.")
        asked = row(
            self.parameter, QLabel("from"), self.low, QLabel("to"), self.high, QLabel("values"),
            self.number, self.start_button,
        )  # fmt: skip
        outputs = row(self.use_button, self.csv, self.picture)
        stack(
            self, asked, self.progress, self.pictures, self.choices, self.answer, self.plot,
            outputs, spacing=6,
        )  # fmt: skip
        self.layout().setContentsMargins(10, 10, 10, 10)
        self.setMinimumWidth(WIDTH)
        self._show_outputs()
        self.parameter.currentIndexChanged.connect(lambda _index: self._suit())
        self.start_button.clicked.connect(lambda: self.start())
        self.use_button.clicked.connect(self.use_value)
        self.csv.clicked.connect(lambda: self._ask_csv())
        self.picture.clicked.connect(lambda: self._ask_plot())
        self.group.idClicked.connect(lambda _id: self._show_outputs())
        self.progress.follow(self.work)
        self.work.failed.connect(show_error)
        self._suit()

    @property
    def spec(self) -> ParameterSpec:
        """The parameter that is swept."""
        index: int = self.parameter.currentIndex()
        return self.specs[index]

    def _suit(self) -> None:
        """Offer values around that of now."""
        spec = self.spec
        now = float(getattr(self.request.parameters, spec.name))
        least, most = spec.minimum or 0.0, spec.maximum or np.inf
        for box, value in ((self.low, now / SPREAD), (self.high, now * SPREAD or 1.0)):
            box.setDecimals(0 if spec.type is int else DECIMALS)
            box.setRange(least, min(most, 1e9))
            box.setSingleStep(spec.increment or 1.0)
            box.setValue(min(max(value, least), most))

    @errors_shown()
    def start(self) -> None:
        """Track with each value."""
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
            table = sweep_table(found)
            shown = Shown(table, f"sweep_{name}", drawing(plots.plot_sweep, found)).plotted()
            return found, pictures, shown

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

    def done(self, result: int) -> None:
        """End, with what is under way."""
        self.work.cancel()
        self.pictures.close_canvas()
        super().done(result)

    @errors_shown()
    def _ask_csv(self) -> None:
        path, _ = QFileDialog.getSaveFileName(
            self, "Save the numbers", f"{self.shown.file}.csv", "Table (*.csv)"
        )
        if path:
            self.shown.table.save(path)

    @errors_shown()
    def _ask_plot(self) -> None:
        path, _ = QFileDialog.getSaveFileName(
            self, "Save the plot", f"{self.shown.file}.png", "Plot (*.png *.svg *.pdf)"
        )
        if path:
            wait_for(partial(self.save_plot, path), "Saving the plot", self)

    def save_plot(self, path: str) -> None:
        """Write the plot, black on white."""
        assert self.found is not None
        plots.save_plot(plots.plot_sweep(self.found), path)
