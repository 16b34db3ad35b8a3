"""What a measurement is shown as: a table with the bundles side by side, and a plot."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from napari.utils.notifications import show_info
from qtpy.QtCore import QEvent
from qtpy.QtGui import QGuiApplication, QKeyEvent, QKeySequence, QPalette, QWheelEvent
from qtpy.QtWidgets import QAbstractItemView, QFileDialog, QHeaderView, QTableWidget, QWidget

from ....errors import TractographyError
from ....maps import bundle_measures, resection
from ....maps.plots import coloured, figure, save_plot
from ....maps.spreadsheets import Table
from ..widgets.busy_dialog import errors_shown, wait_for
from ..widgets.layout import follow_font, keys_here, number_item, show_few_rows, stack

COLUMNS = bundle_measures.COLUMNS | resection.COLUMNS
CSV_HELP, PLOT_HELP = "Save the numbers as a CSV file.", "Save the plot as PNG, SVG or PDF."


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """What was measured."""

    table: Table  # what Copy and CSV take
    file: str  # what files are called, without an ending
    draw: Callable[..., Any] | None = None  # draws it, `on` a figure
    is_side_by_side: bool = False  # whether the table itself is shown, its rows as columns
    plot: Any = None  # on which it is drawn already
    note: str = ""  # a sentence to be read with it: why it cannot be drawn, for one

    def plotted(self) -> Shown:
        """Draw the plot; in a thread, as loading Matplotlib and large plots take a while."""
        if self.draw is None:
            return self
        try:
            plot = figure()
            with suppress(ImportError):  # loaded here, the canvas is there at once
                import matplotlib.backends.backend_qtagg  # noqa: F401
            self.draw(on=plot)
        except TractographyError as error:
            return replace(self, draw=None, note=str(error))
        return replace(self, plot=plot)

    def copy(self) -> None:
        QGuiApplication.clipboard().setText(self.table.text("\t"))
        show_info("Copied.")

    def save_plot(self, path: str) -> None:
        """Write the plot, black on white, as .png, .svg or .pdf."""
        assert self.draw is not None
        save_plot(self.draw(), path)

    @errors_shown()
    def ask_csv(self, parent: QWidget) -> None:
        path, _ = QFileDialog.getSaveFileName(
            parent, "Save the numbers", f"{self.file}.csv", "Table (*.csv)"
        )
        if path:
            self.table.save(path)
            show_info(f"Saved the numbers to {path}.")

    @errors_shown()
    def ask_plot(self, parent: QWidget) -> None:
        path, _ = QFileDialog.getSaveFileName(
            parent, "Save the plot", f"{self.file}.png", "Plot (*.png *.svg *.pdf)"
        )
        if path:
            wait_for(lambda: self.save_plot(path), "Saving the plot", parent)
            show_info(f"Saved the plot to {path}.")


class SideBySide(QTableWidget):  # type: ignore[misc]
    """A table whose rows are shown as columns: a bundle each."""

    def __init__(self) -> None:
        super().__init__()
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setToolTip(keys_here("The bundles side by side; Ctrl+C copies all of it."))
        self._table: Table | None = None
        follow_font(self, self._fit)

    def show_table(self, table: Table) -> None:
        self._table = table
        self.setRowCount(len(table.header) - 1)
        self.setColumnCount(len(table.rows))
        has_units = table.header[0] == "bundle"  # asymmetry has none
        self.setVerticalHeaderLabels(
            [label_of(name, with_unit=has_units) for name in table.header[1:]]
        )
        self.setHorizontalHeaderLabels([row[0] for row in table.rows])
        for column, row in enumerate(table.rows):
            for number, text in enumerate(row[1:]):
                self.setItem(number, column, number_item(text or "–"))
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self._fit()

    def _fit(self) -> None:
        self.resizeRowsToContents()
        header = self.horizontalHeader()
        bar = self.horizontalScrollBar().sizeHint().height()
        show_few_rows(self, 12, header.sizeHint().height() + bar)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        if event.matches(QKeySequence.StandardKey.Copy) and self._table is not None:
            QGuiApplication.clipboard().setText(self._table.text("\t"))
            return
        super().keyPressEvent(event)


class PlotView(QWidget):  # type: ignore[misc]
    """A plot in the colours of the window."""

    def __init__(self) -> None:
        super().__init__()
        self._canvas: Any = None
        stack(self)
        self.setFixedHeight(250)

    def show_plot(self, plot: Any) -> None:
        from matplotlib.backends.backend_qtagg import FigureCanvasQTAgg

        before, self._canvas = self._canvas, FigureCanvasQTAgg(plot)
        self._canvas.wheelEvent = QWheelEvent.ignore  # the panel scrolls, where it lies
        if before is not None:
            self.layout().removeWidget(before)
            before.deleteLater()
        self._colour()
        self.layout().addWidget(self._canvas)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 - Qt's name
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.StyleChange) and self._canvas:
            self._colour()
            self._canvas.draw_idle()

    def _colour(self) -> None:
        palette = self.palette()
        ink = palette.color(QPalette.ColorRole.WindowText).name()
        coloured(self._canvas.figure, ink, palette.color(QPalette.ColorRole.Window).name())


def label_of(name: str, *, with_unit: bool = True) -> str:
    """Return what a person reads for the name of a number, with its unit where it has one."""
    if name in COLUMNS:
        label, unit = COLUMNS[name]
        return f"{label} ({unit})" if unit and with_unit else label
    stem, _, what = name.rpartition("_")
    return f"{stem}, {what.replace('sd', 'SD')}" if stem and what in ("mean", "sd") else name
