"""Timers of Qt, which call from the event loop."""

from __future__ import annotations

from collections.abc import Callable

from qtpy.QtCore import QObject, QTimer


def delayed(parent: QObject | None, ms: int, call: Callable[[], object]) -> QTimer:
    """Return a timer that calls once, so long after its last start."""
    timer = repeated(parent, ms, call)
    timer.setSingleShot(True)
    return timer


def repeated(parent: QObject | None, ms: int, call: Callable[[], object]) -> QTimer:
    """Return a timer that calls again and again, once it is started."""
    timer = QTimer(parent)
    timer.setInterval(ms)
    timer.timeout.connect(call)
    return timer
