"""Undo and redo of whatever was done: two small buttons, and the keys in panel and viewer."""

from __future__ import annotations

from qtpy.QtCore import QEvent, QObject, Qt
from qtpy.QtGui import QKeySequence
from qtpy.QtWidgets import QAbstractSpinBox, QLineEdit, QShortcut, QSizePolicy, QSlider, QWidget

from ...document import Document
from .layout import beside, button, keys_here

UNDO_HELP = "Undo what was done last{}. Ctrl+Z."
REDO_HELP = "Do again what was undone{}. Ctrl+Shift+Z."
BUTTON_WIDTH = 30  # pixels
# Of undo and redo; Ctrl+Y is napari's, for 2-D and 3-D.
KEYS = QKeySequence.StandardKey.Undo, QKeySequence("Ctrl+Shift+Z")


class UndoButtons(QWidget):  # type: ignore[misc]
    """Undo and Redo, side by side."""

    def __init__(self, history: Document) -> None:
        super().__init__()
        self._history = history
        self.undo = button("↶", "", history.undo)
        self.redo = button("↷", "", history.redo)
        for created, name in ((self.undo, "Undo"), (self.redo, "Redo")):
            created.setFixedWidth(BUTTON_WIDTH)
            created.setAccessibleName(name)
        beside(self, self.undo, self.redo, spacing=2)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        history.history_changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        history = self._history
        self.undo.setEnabled(history.can_undo)
        self.redo.setEnabled(history.can_redo)
        for created, text, done in (
            (self.undo, UNDO_HELP, history.last),
            (self.redo, REDO_HELP, history.next),
        ):
            created.setToolTip(keys_here(text.format(f": {done}" if done else "")))


class UndoKeys:
    """Ctrl+Z and Ctrl+Shift+Z in a panel; those of its viewer are in :mod:`..keys`."""

    def __init__(self, panel: QWidget, history: Document) -> None:
        self._panel, self._history = panel, history
        self._numbers = _Numbers(panel)
        self.take(panel)

    def take(self, widget: QWidget) -> None:
        """Take the keys in a widget, such as a dock that parts of the panel are moved to."""
        for keys, act in zip(KEYS, (self._history.undo, self._history.redo), strict=True):
            shortcut = QShortcut(QKeySequence(keys), widget)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(act)

    def on_focus(self, _before: QWidget | None, now: QWidget | None) -> None:
        """Leave the keys to the panel where a number in it has the focus."""
        parts = self._panel, *self._panel.docks.parts
        if isinstance(now, QAbstractSpinBox) and any(part.isAncestorOf(now) for part in parts):
            now.installEventFilter(self._numbers)  # which is there once, however often


class _Numbers(QObject):  # type: ignore[misc]
    """Keeps boxes of numbers from undoing what was typed: that is undone as a step."""

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Refuse the keys when a box asks for them."""
        if event.type() == QEvent.Type.ShortcutOverride:
            typed = QKeySequence(event.keyCombination())
            if any(QKeySequence(keys).matches(typed) for keys in KEYS):
                event.ignore()
                return True
        return False


class _Typing(QObject):  # type: ignore[misc]
    """What is typed into a box of numbers is one step; Enter ends it, and Escape takes it back.

    Enter alone chooses nothing. Qt says then that the value has changed, whether it has or not: an
    automatic value would become a chosen one, rounded as it is shown.
    """

    def __init__(self, box: QAbstractSpinBox, history: Document) -> None:
        super().__init__(box)
        self._box, self._history = box, history
        self._before: float | None = None  # the number, where another is being typed
        box.findChild(QLineEdit).textEdited.connect(self._begin)
        box.editingFinished.connect(self._end)
        box.installEventFilter(self)

    def _begin(self, _text: str) -> None:
        if self._before is None:  # Qt tells of the text first, of the number then
            self._before = self._box.value()
        self._history.hold(self._box)

    def _end(self) -> None:
        self._before = None
        self._history.release(self._box)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if event.type() != QEvent.Type.KeyPress:
            return False
        if event.key() == Qt.Key.Key_Escape and self._before is not None:
            before, self._before = self._before, None
            self._history.take_back(watched)
            watched.setValue(before)  # and its text, also of what is no number
            watched.selectAll()
            return True
        if event.key() not in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            return False
        if not watched.keyboardTracking():  # it is on its way, by this filter
            return False
        watched.setKeyboardTracking(False)  # so that only another value is told
        watched.event(event)
        watched.setKeyboardTracking(True)
        return True


def make_one_step_each(widget: QWidget, history: Document) -> None:
    """Make one step of what is dragged along a slider, or typed into a box until that is left.

    The widget is a slider or a box of numbers, or holds some.
    """
    for each in (widget, *widget.findChildren(QWidget)):
        if isinstance(each, QSlider):
            each.sliderPressed.connect(history.hold)
            each.sliderReleased.connect(history.release)
        elif isinstance(each, QAbstractSpinBox):
            _Typing(each, history)
