"""The Bundles section of the panel: a list of bundles, and what is done to the active one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from napari.layers import Tracks
from napari.utils.colormaps import ensure_colormap
from qtpy.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from qtpy.QtGui import (
    QColor,
    QIcon,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPalette,
    QPen,
    QPixmap,
)
from qtpy.QtWidgets import (
    QAbstractItemView,
    QColorDialog,
    QHeaderView,
    QMenu,
    QPushButton,
    QSizePolicy,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from ..document import COLOURS
from ..flag import Flag
from ..session.derived_bundles import (
    bundles_of_groups,
    difference,
    groups_of,
    sameness,
    take_tracks,
)
from ..session.listing import BundleList
from ..session.open_bundle import OpenBundle
from ..streamlines.colours import (
    CYCLIC_COLORMAP,
    DEFAULT_COLORMAP,
    DEFAULT_MODE,
    DIRECTIONS,
    HELIX,
    ONE_COLOUR,
)
from ..streamlines.layer import Streamlines
from .widgets.busy_dialog import errors_shown, wait_for
from .widgets.layout import (
    LINK,
    add_entry,
    button,
    follow_font,
    keys_here,
    linked,
    number_item,
    row,
    select_rows,
    show_few_rows,
    stack,
)

EYE, COLOUR, NAME, COUNT = range(4)
ICON = 16  # pixels
NARROW = 24  # pixels, of a column of icons
DIFFERENCE_HELP = (
    "A new bundle. Of one run or file streamlines are the same that have the same seed or number, "
    "also where one is cut; else those that have the same points, to the last bit."
)
HELP = (
    "The bundles of this window. Seeds, regions, parameters and edits below are those of the "
    "selected one. Double-click a name to change it, a colour to choose another."
)


class BundleSection(QWidget):  # type: ignore[misc]
    """The list of bundles and its tools.

    `colour_chosen` is called after a person chose a colour for the active bundle; `mirror` makes a
    mirrored copy of it.
    """

    def __init__(
        self,
        bundles: BundleList,
        *,
        colour_chosen: Callable[[str], None],
        mirror: Callable[[], None],
    ) -> None:
        super().__init__()
        self.bundles = bundles
        self._colour_chosen = colour_chosen
        self._is_showing = Flag()
        self._rows: list[tuple[Any, ...]] = []
        self.table = _Table(self)
        self.new = button("New", "Make a bundle without seeds and regions.", bundles.add)
        self.copy = button(
            "Duplicate",
            "Make a copy of the selected bundle, with seeds, regions and streamlines.",
            bundles.duplicate,
        )
        self.mirror = button(
            "Mirror",
            "Make a bundle on the other side: seeds and regions of the selected one, mirrored at "
            "the midsagittal plane.",
            mirror,
        )
        self.delete = button(
            "Delete",
            "Delete the selected bundle with its layers; so does the Delete key.",
            self.delete_active,
        )
        self.up = _glyph(
            "▲",
            "Up",
            keys_here("Move the selected bundle up the list; so does Ctrl+Up."),
            lambda: bundles.move(bundles.active, -1),
        )
        self.down = _glyph(
            "▼",
            "Down",
            keys_here("Move the selected bundle down the list; so does Ctrl+Down."),
            lambda: bundles.move(bundles.active, 1),
        )
        self.colours = _glyph(
            "",
            "Colours of all bundles",
            "Give each bundle a colour of its own; where each has one, colour all by direction.",
            self.colour_each,
        )
        self.colours.setIcon(_icon(_striped([QColor(colour) for colour in COLOURS[:3]])))
        self.colours.setIconSize(QSize(ICON - 4, ICON - 4))
        self.tools = row(
            self.new, self.copy, self.mirror, self.delete, self.colours, self.up, self.down
        )
        self.tools.layout().setSpacing(3)
        self.history_label = linked(
            lambda link: getattr(bundles.history, link)(),  # undo or redo
            keys_here("What was done last; Ctrl+Z undoes it, too."),
        )
        self.offer = linked(
            lambda _link: self.take_tracks(),
            "Its tracks become streamlines of a bundle, to be dissected; the layer is hidden.",
        )
        # Above the list, which grows: so nothing moves under the mouse.
        stack(self, self.tools, self.history_label, self.table, self.offer, spacing=5)
        bundles.session.list_changed.connect(self.refresh)
        bundles.history.history_changed.connect(self._show_history)
        self.refresh()
        self._show_history()

    # -- what it shows -------------------------------------------------------------------------

    def refresh(self) -> None:
        bundles, table = self.bundles.bundles, self.table
        with self._is_showing:
            if table.rowCount() != len(bundles):
                table.setRowCount(len(bundles))
            ink = table.palette().color(QPalette.ColorRole.Text).name()
            before, self._rows = self._rows, [(ink, *_row_of(bundle)) for bundle in bundles]
            for number, row in enumerate(self._rows):
                if number >= len(before) or row != before[number]:
                    self._show(number, bundles[number])
            active = self.bundles.active
            if active in bundles:
                index = bundles.index(active)
                table.setCurrentCell(index, NAME)
                self.up.setEnabled(index > 0)
                self.down.setEnabled(index < len(bundles) - 1)
        if self._rows != before:
            table.fit()
            self.show_offer()

    @property
    def foreign(self) -> Tracks | None:
        """A layer of tracks that are no bundle, and that a person sees."""
        layers = reversed(self.bundles.viewer.layers)
        found = (x for x in layers if isinstance(x, Tracks) and not isinstance(x, Streamlines))
        return next((layer for layer in found if layer.visible), None)

    def show_offer(self, _event: Any = None) -> None:
        """Offer to make a bundle of a layer of tracks, where there is one."""
        layer = self.foreign
        self.offer.setVisible(layer is not None)
        if layer is not None:
            link = f"<a style='{LINK}' href='take'>Make a bundle</a>"
            self.offer.setText(f"{_plain(layer.name)} are tracks · {link}")

    def take_tracks(self) -> None:
        """Make a bundle of a layer of tracks that something else made."""
        layer = self.foreign
        if layer is not None:
            with errors_shown():
                take_tracks(self.bundles, layer)
        self.show_offer()

    @errors_shown()
    def make_groups(self) -> None:
        """Make a bundle of each group that came with the active bundle's file."""
        bundles_of_groups(self.bundles)

    @errors_shown()
    def make_difference(self, other: OpenBundle, *, is_wanted: bool) -> None:
        """Make a bundle of what the active one has in common with another, or of the rest."""
        tell = sameness(self.bundles, self.bundles.active, other)
        is_in = wait_for(tell, f"Comparing with {other.name}", self)
        difference(self.bundles, other, is_in, is_wanted=is_wanted)

    def _show(self, number: int, bundle: OpenBundle) -> None:
        layer, state = bundle.streamlines_layer, bundle.state
        n = 0 if layer is None else layer.n_all
        mode = _mode_of(bundle)
        where = f"opened from {state.path}" if state.is_opened else "tracked in this window"
        texts = ("", "", state.name, f"{n:,}" if layer is not None else "–")
        tips = (
            keys_here(
                f"{'Shown; click to hide' if state.is_visible else 'Hidden; click to show'}. "
                "Ctrl-click to show only this, or all."
            ),
            f"Coloured by {mode}; double-click to choose one colour."
            if mode != ONE_COLOUR
            else f"{state.colour}; double-click to choose another.",
            f"{state.name}, {where}; double-click or F2 to rename.",
            "Streamlines" if layer is not None else "No streamlines yet",
        )
        for column, (text, tip) in enumerate(zip(texts, tips, strict=True)):
            item = self.table.item(number, column)
            if item is None:
                item = number_item() if column == COUNT else QTableWidgetItem()
                flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
                item.setFlags(flags | Qt.ItemFlag.ItemIsEditable if column == NAME else flags)
                self.table.setItem(number, column, item)
            if item.text() != text:
                item.setText(text)
            item.setToolTip(tip)
        ink = self.table.palette().color(QPalette.ColorRole.Text)
        eye, colour = self.table.item(number, EYE), self.table.item(number, COLOUR)
        # An icon that is set again is laid out again: of hundreds of rows that takes a second.
        if _is_new(eye, f"{ink.name()} {state.is_visible}"):
            eye.setIcon(eye_icon(ink, is_open=state.is_visible))
        if _is_new(colour, f"{mode} {state.colour}"):
            colour.setIcon(_icon(_swatch(mode, state.colour)))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 - Qt's name
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.StyleChange):
            self.refresh()

    def _show_history(self) -> None:
        history = self.bundles.history
        parts = []
        if history.last:
            parts += [_plain(history.last), f"<a style='{LINK}' href='undo'>Undo</a>"]
        if history.next:
            parts += [f"<a style='{LINK}' href='redo'>Redo: {_plain(history.next)}</a>"]
        self.history_label.setText(" · ".join(parts))

    # -- what a person does --------------------------------------------------------------------

    def delete_active(self) -> None:
        self.bundles.session.delete(self.bundles.active)

    def colour_each(self) -> None:
        """Give each bundle a colour of its own, or, where they have that, colour by direction."""
        states = [bundle.state for bundle in self.bundles.bundles]
        is_done = len({state.colour for state in states}) == len(states) and all(
            _mode_of(bundle) == ONE_COLOUR for bundle in self.bundles.bundles
        )
        self.bundles.session.colour_each(DEFAULT_MODE if is_done else ONE_COLOUR)

    def ask_colour(self, bundle: OpenBundle) -> None:
        colour = QColorDialog.getColor(QColor(bundle.state.colour), self.window(), bundle.name)
        if colour.isValid():
            self.bundles.activate(bundle)
            self._colour_chosen(colour.name())

    def toggle_eye(self, number: int) -> None:
        bundle = self.bundles.bundles[number]
        self.bundles.set_visible(bundle, not bundle.state.is_visible)

    def activate(self, number: int) -> None:
        bundles = [] if self._is_showing else self.bundles.bundles
        if 0 <= number < len(bundles):
            self.bundles.activate(bundles[number])

    def rename(self, number: int, name: str) -> None:
        if not self._is_showing:
            self.bundles.rename(self.bundles.bundles[number], name)
            self._rows = []
            self.refresh()  # also where the name was not taken

    def menu(self) -> QMenu:
        menu = QMenu(self)
        bundles, bundle = self.bundles, self.bundles.active
        index = bundles.bundles.index(bundle)
        for text, action, is_possible in (
            ("Rename", lambda: self.table.editItem(self.table.item(index, NAME)), True),
            ("Show only this, or all", lambda: bundles.show_only(bundle), True),
            ("Colour...", lambda: self.ask_colour(bundle), True),
            ("Colours of all bundles", self.colours.click, True),
            ("Duplicate", self.copy.click, True),
            ("Mirror", self.mirror.click, self.mirror.isEnabled()),
            ("Bundles of its groups", self.make_groups, bool(groups_of(bundles))),
            ("Move up", self.up.click, self.up.isEnabled()),
            ("Move down", self.down.click, self.down.isEnabled()),
            ("Delete", self.delete.click, True),
            ("Undo", bundles.history.undo, bundles.history.can_undo),
            ("Redo", bundles.history.redo, bundles.history.can_redo),
        ):
            if text == "Move up":
                self._add_differences(menu)
            add_entry(menu, text, action).setEnabled(is_possible)
        return menu

    def _add_differences(self, menu: QMenu) -> None:
        """Add the menus of the bundles that the active one is compared with."""
        active = self.bundles.active
        others = [
            bundle
            for bundle in self.bundles.bundles
            if bundle is not active and bundle.streamlines_layer is not None
        ]
        for title, is_wanted in (("Without", False), ("In common with", True)):
            below = menu.addMenu(title)
            below.setToolTipsVisible(True)
            below.setEnabled(bool(others) and active.streamlines_layer is not None)
            for bundle in others:
                name = bundle.name.replace("&", "&&")
                act = partial(self.make_difference, bundle, is_wanted=is_wanted)
                add_entry(below, name, act, DIFFERENCE_HELP)


class _Table(QTableWidget):  # type: ignore[misc]
    """Rows of bundles: a click on the eye leaves the selection alone."""

    def __init__(self, section: BundleSection) -> None:
        super().__init__(0, 4)
        self._section = section
        select_rows(self, stretched=NAME)
        follow_font(self, self.fit)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        triggers = QAbstractItemView.EditTrigger
        self.setEditTriggers(triggers.DoubleClicked | triggers.EditKeyPressed)
        self.setShowGrid(False)
        self.setToolTip(f"<qt>{HELP}</qt>")
        self.setAccessibleName("Bundles")
        self.setIconSize(QSize(ICON, ICON))
        self.verticalHeader().hide()
        header = self.horizontalHeader()
        header.hide()
        header.setMinimumSectionSize(NARROW)
        for column in (EYE, COLOUR):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.Fixed)
            self.setColumnWidth(column, NARROW)
        self.currentCellChanged.connect(lambda now, _c, _was, _d: section.activate(now))
        self.itemChanged.connect(self._on_item)
        self.cellDoubleClicked.connect(self._on_double_click)

    def fit(self) -> None:
        show_few_rows(self, 6)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        """Open and close eyes; select rows."""
        index, bundles = self.indexAt(event.pos()), self._section.bundles
        if not index.isValid() or index.column() != EYE:
            super().mousePressEvent(event)
        elif event.button() == Qt.MouseButton.LeftButton:
            if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
                bundles.show_only(bundles.bundles[index.row()])
            else:
                self._section.toggle_eye(index.row())

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        """Let two quick clicks on an eye be two clicks."""
        if self.columnAt(event.pos().x()) == EYE:
            self.mousePressEvent(event)
        else:
            super().mouseDoubleClickEvent(event)

    def contextMenuEvent(self, event: QEvent) -> None:  # noqa: N802 - Qt's name
        self._section.activate(self.rowAt(event.pos().y()))
        self._section.menu().exec(event.globalPos())

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        """Delete, show and hide, reorder, undo."""
        bundles, key = self._section.bundles, event.key()
        is_ctrl = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        if event.matches(QKeySequence.StandardKey.Undo):
            bundles.history.undo()
        elif event.matches(QKeySequence.StandardKey.Redo) or (is_ctrl and key == Qt.Key.Key_Y):
            bundles.history.redo()
        elif key in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self._section.delete_active()
        elif key == Qt.Key.Key_Space:
            self._section.toggle_eye(self.currentRow())
        elif is_ctrl and key in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            bundles.move(bundles.active, -1 if key == Qt.Key.Key_Up else 1)
        else:
            super().keyPressEvent(event)

    def _on_item(self, item: QTableWidgetItem) -> None:
        if item.column() == NAME:
            self._section.rename(item.row(), item.text())

    def _on_double_click(self, number: int, column: int) -> None:
        if column == COLOUR:
            self._section.ask_colour(self._section.bundles.bundles[number])


def _is_new(item: QTableWidgetItem, shown: str) -> bool:
    """Note what the picture of an item shows; return whether that is something else than before."""
    if item.data(Qt.ItemDataRole.UserRole) == shown:
        return False
    item.setData(Qt.ItemDataRole.UserRole, shown)
    return True


def eye_icon(ink: QColor, *, is_open: bool) -> QIcon:
    """Return a picture of an eye, struck through where it is closed."""
    picture = QPixmap(2 * ICON, 2 * ICON)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.scale(2, 2)
    if not is_open:
        ink = QColor(ink)
        ink.setAlphaF(0.45)
    painter.setPen(QPen(ink, 1.3))
    lids = QPainterPath(QPointF(1, 8))
    lids.quadTo(QPointF(8, 0.5), QPointF(15, 8))
    lids.quadTo(QPointF(8, 15.5), QPointF(1, 8))
    painter.drawPath(lids)
    painter.setBrush(ink)
    painter.drawEllipse(QRectF(5.9, 5.9, 4.2, 4.2))
    if not is_open:
        painter.drawLine(QPointF(2.5, 13.5), QPointF(13.5, 2.5))
    painter.end()
    return _icon(picture)


def _row_of(bundle: OpenBundle) -> tuple[Any, ...]:
    """Return what a row shows of a bundle; where that is the same, so is the row."""
    layer = bundle.streamlines_layer
    drawn = (None, DEFAULT_MODE) if layer is None else (layer.n_all, layer.colour_by)
    return bundle.state, *drawn


def _mode_of(bundle: OpenBundle) -> str:
    """Return by what the streamlines of a bundle are coloured, or will be."""
    layer = bundle.streamlines_layer
    drawn = DEFAULT_MODE if layer is None else layer.colour_by
    return str(bundle.state.style.get("colour_by", drawn))


def _swatch(mode: str, colour: str) -> QPixmap:
    """Return a picture of what streamlines look like: one colour, or those of a mode in stripes."""
    if mode == ONE_COLOUR:
        return _striped([QColor(colour)])
    if mode == DEFAULT_MODE:
        return _striped([QColor.fromRgbF(*rgb) for _, rgb in DIRECTIONS])
    colormap = CYCLIC_COLORMAP if mode == HELIX else DEFAULT_COLORMAP
    rgba = ensure_colormap(colormap).map(np.linspace(0.1, 0.9, ICON - 4))
    return _striped([QColor.fromRgbF(*map(float, each)) for each in rgba])


def _striped(stripes: Sequence[QColor]) -> QPixmap:
    side = ICON - 4
    picture = QPixmap(side, side)
    painter = QPainter(picture)
    for number, colour in enumerate(stripes):
        first, last = (round(side * (number + i) / len(stripes)) for i in range(2))
        painter.fillRect(first, 0, last - first, side, colour)
    painter.end()
    return picture


def _icon(picture: QPixmap) -> QIcon:
    """Return a picture as an icon that looks the same in a row that is selected."""
    icon = QIcon(picture)
    icon.addPixmap(picture, QIcon.Mode.Selected)
    return icon


def _glyph(text: str, name: str, tooltip: str, act: Callable[[], object]) -> QPushButton:
    created = button(text, tooltip, act)
    created.setAccessibleName(name)
    created.setStyleSheet("padding: 3px 4px;")
    created.setMinimumWidth(NARROW)
    created.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
    return created


def _plain(text: str) -> str:
    short = text if len(text) <= 40 else f"{text[:39]}…"
    return short.replace("&", "&amp;").replace("<", "&lt;")
