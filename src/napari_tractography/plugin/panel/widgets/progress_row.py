"""A bar that shows how far some work is, with Cancel beside it; hidden while there is none."""

from __future__ import annotations

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QProgressBar, QWidget

from ...background import Background
from .layout import beside, button

STEPS = 1000


class ProgressRow(QWidget):  # type: ignore[misc]
    cancelled = Signal()

    def __init__(self, tooltip: str, cancel_tooltip: str) -> None:
        super().__init__()
        self.bar = QProgressBar()
        self.bar.setRange(0, STEPS)
        self.bar.setToolTip(tooltip)
        self.cancel = button("Cancel", cancel_tooltip, self.cancelled.emit)
        beside(self, self.bar, self.cancel, stretch_first=True)
        self.hide()

    def follow(self, work: Background) -> None:
        """Show how far some work is while it is under way; the button cancels it."""
        work.progressed.connect(self.show_progress)
        work.ended.connect(self.finish)
        self.cancelled.connect(work.cancel)

    def show_progress(self, text: str, fraction: float) -> None:
        """Show what is done and how far it is, from 0 to 1."""
        self.bar.setValue(int(STEPS * fraction))
        self.bar.setFormat(f"{text}: %p %" if text else "%p %")
        self.show()

    def finish(self) -> None:
        self.hide()
