"""A table of the seeds that were placed: where they are, their radius and number.

The selected rows and the selected points of the layer are the same. An empty cell stands for the
value that all seeds have in common, and shows it. Used by the Seeds section of the panel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from qtpy.QtCore import (
    QAbstractTableModel,
    QEvent,
    QItemSelection,
    QItemSelectionModel,
    QModelIndex,
    Qt,
)
from qtpy.QtGui import QColor, QFont, QKeyEvent, QPalette
from qtpy.QtWidgets import QHeaderView, QTableView

from ....errors import InvalidSeedsError, TractographyError
from ....geometry.units import per_mm, shown_unit, symbol
from ...flag import Flag
from ...listening import Listening
from ...notices import show_warning
from ...session.session import Session
from ...session.wanted import OWN_SPECS
from ...space.orientation_labels import axes_of
from ...space.positions import BARE_AXES, position_numbers, position_title
from ..widgets.controls import label, tooltip
from ..widgets.layout import follow_font, select_rows

ROWS = 4  # visible at once, at most; one at least, so that the first seed moves nothing
SHORT_LABELS = {"n_per_seed": "Number", "radius_mm": "Radius"}
POSITION_HELP = "Where the seed is: to the right, to the front and up; negative to the other side."
BARE_POSITION_HELP = "Where the seed is, along the axes of the image."
N_COLUMNS = 1 + len(OWN_SPECS)
FAINT = 150  # alpha of 255 of values common to all seeds
Role = Qt.ItemDataRole


class SeedModel(QAbstractTableModel):  # type: ignore[misc]
    """The seeds of a session, one a row; what is typed goes to their layer."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.text_colour = QColor("grey")
        self._positions = np.empty((0, 3))
        self._own = session.seeds.own

    @property
    def _unit(self) -> str:
        return self._session.space.unit

    def refresh(self) -> None:
        seeds = self._session.seeds
        if len(seeds) != len(self._positions):
            self.beginResetModel()
            self._positions, self._own = seeds.positions_mm, seeds.own
            self.endResetModel()
        elif len(seeds):
            self._positions, self._own = seeds.positions_mm, seeds.own
            last = self.index(len(seeds) - 1, N_COLUMNS - 1)
            self.dataChanged.emit(self.index(0, 0), last)
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, N_COLUMNS - 1)

    def rowCount(self, parent: QModelIndex | None = None) -> int:  # noqa: N802 - Qt's name
        return 0 if parent is not None and parent.isValid() else len(self._positions)

    def columnCount(self, parent: QModelIndex | None = None) -> int:  # noqa: N802 - Qt's name
        return 0 if parent is not None and parent.isValid() else N_COLUMNS

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Role.DisplayRole
    ) -> Any:
        """Return the title or the help of a column, the number of a row."""
        if role not in (Role.DisplayRole, Role.ToolTipRole):
            return None
        is_title = role == Role.DisplayRole
        if orientation == Qt.Orientation.Vertical:
            return section + 1 if is_title else None
        if section:
            spec = OWN_SPECS[section - 1]
            short = replace(spec, label=SHORT_LABELS[spec.name])
            return label(short, self._unit) if is_title else tooltip(spec, self._unit)
        axes = axes_of(self._session.viewer.layers)
        if is_title:
            return position_title(self._unit, axes)
        return BARE_POSITION_HELP if axes == BARE_AXES else POSITION_HELP

    def flags(self, index: QModelIndex) -> Qt.ItemFlag:
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEditable

    def data(self, index: QModelIndex, role: int = Role.DisplayRole) -> Any:
        """Return the text of a cell; a value common to all seeds in lighter italics."""
        if role not in (Role.DisplayRole, Role.EditRole, Role.FontRole, Role.ForegroundRole):
            return None
        row, column = index.row(), index.column()
        is_text = role in (Role.DisplayRole, Role.EditRole)
        if column == 0:
            return position_numbers(self._positions[row], self._unit) if is_text else None
        spec = OWN_SPECS[column - 1]
        _, factor = shown_unit(spec.unit, self._unit)
        own = self._own[spec.name][row]
        if not np.isnan(own):
            return f"{own * factor:.10g}" if is_text else None
        if role == Role.DisplayRole:
            return f"{getattr(self._session.seeding, spec.name) * factor:g}"
        if role == Role.EditRole:
            return ""
        if role == Role.FontRole:
            font = QFont()
            font.setItalic(True)
            return font
        faint = QColor(self.text_colour)
        faint.setAlpha(FAINT)
        return faint

    def setData(  # noqa: N802 - Qt's name
        self, index: QModelIndex, value: Any, role: int = Role.EditRole
    ) -> bool:
        text = str(value).strip()
        if role != Role.EditRole or text == self.data(index, Role.EditRole):
            return False
        try:
            self._take(index.row(), index.column(), text)
        except TractographyError as error:
            show_warning(str(error))
            return False
        return True

    def _take(self, row: int, column: int, text: str) -> None:
        if column == 0:
            point_mm = _point(text, self._unit)
            self._session.move_seed(row, self._session.space.shown_at(point_mm)[0])
            return
        spec = OWN_SPECS[column - 1]
        try:
            value = float(text) / shown_unit(spec.unit, self._unit)[1] if text else None
        except ValueError:
            value = spec.check(text)  # says what it should be
        self._session.seeds.set_own([row], spec.name, value)


class SeedTable(QTableView):  # type: ignore[misc]
    """The table; Delete removes the seeds of the rows that are selected."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._following = Flag()  # whether one selection is taking over the other
        self._layer: Any = None
        self._of_layer = Listening()
        self.seeds = SeedModel(session)
        self.setModel(self.seeds)
        self.setAccessibleName("Seeds")
        self.setToolTip(
            "Each seed can have a radius and a number of its own; empty a cell for the value "
            "above. Delete removes the selected."
        )
        select_rows(self)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.verticalHeader().setDefaultSectionSize(self.fontMetrics().lineSpacing() + 6)
        follow_font(self, self.refresh)
        self.selectionModel().selectionChanged.connect(self._to_layer)
        session.seeds_changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        layer = self._session.seeds.layer
        if layer is not self._layer:
            self._layer = layer
            signals = [] if layer is None else [layer.selected_data.events.items_changed]
            self._of_layer.switch(*((signal, self._from_layer) for signal in signals))
        self.seeds.refresh()
        rows = min(max(self.seeds.rowCount(), 1), ROWS) * self.verticalHeader().defaultSectionSize()
        self.setFixedHeight(self.horizontalHeader().sizeHint().height() + rows + 4)
        self._from_layer()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 - Qt's name
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.StyleChange):
            self.seeds.text_colour = self.palette().color(QPalette.ColorRole.Text)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        if event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self._session.seeds.remove(self._rows())
        else:
            super().keyPressEvent(event)

    def _rows(self) -> set[int]:
        return {index.row() for index in self.selectionModel().selectedRows()}

    def _to_layer(self, *_: Any) -> None:
        if self._following or self._layer is None or self._rows() == self._layer.selected_data:
            return
        with self._following:
            self._layer.selected_data = self._rows()

    def _from_layer(self, *_: Any) -> None:
        wanted = set() if self._layer is None else {int(i) for i in self._layer.selected_data}
        if self._following or wanted == self._rows():
            return
        chosen = QItemSelection()
        for index in (self.seeds.index(row, 0) for row in wanted):
            if index.isValid():
                chosen.select(index, index)
        flags = QItemSelectionModel.SelectionFlag
        with self._following:
            self.selectionModel().select(chosen, flags.ClearAndSelect | flags.Rows)
        if len(wanted) == 1:
            self.scrollTo(self.seeds.index(min(wanted), 0))


def _point(text: str, unit: str) -> np.ndarray:
    try:
        x, y, z = (float(number) for number in text.replace(",", " ").split())
    except ValueError:
        raise InvalidSeedsError(
            f"{text!r} is no position; type three numbers in {symbol(unit)} such as -12, 4.5, 30."
        ) from None
    if not np.isfinite([x, y, z]).all():
        raise InvalidSeedsError(f"The position {text!r} is not finite; type numbers.")
    return np.array([[x, y, z]]) / per_mm(unit)
