"""The window of a viewer and its canvas, as Qt finds them: napari has no public name for them."""

from __future__ import annotations

from typing import Any

from qtpy.QtOpenGLWidgets import QOpenGLWidget
from qtpy.QtWidgets import QMainWindow, QWidget


def main_window(viewer: Any) -> QWidget | None:
    """Return the window of a viewer; None of one that has none."""
    menu = getattr(getattr(viewer, "window", None), "main_menu", None)
    return None if menu is None else menu.window()


def canvas_of(window: QWidget | None) -> QWidget | None:
    """Return what a window of napari's draws on; None where there is none."""
    if not isinstance(window, QMainWindow) or window.centralWidget() is None:
        return None
    return window.centralWidget().findChild(QOpenGLWidget)
