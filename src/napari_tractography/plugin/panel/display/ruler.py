"""The ruler: how far it is from one place of the image to another, by a drag of the mouse.

The layer that shows it is all that there is of it. Made by the View section; slices beside 3-D
measure with it as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from napari.layers import Layer
from numpy.typing import NDArray
from psygnal import Signal
from qtpy.QtCore import QEvent, QObject, Qt
from qtpy.QtWidgets import QWidget

from ....geometry.units import length_text
from ...layers.on_volume import PointsOnVolume
from ...session.seed_mouse import SeedMouse
from ...session.session import Session
from ...space.layer_list import insert_beside, take_out
from ...streamlines.layer import Streamlines
from ..widgets.layout import button

HELP = (
    "Measure a distance: drag from one place of the image to another; in 3-D from what is under "
    "the mouse. Escape, or this button again, takes the ruler away. Ctrl+9"
)
COLOUR, EDGE = "#ffffff", "#202020"
N_DOTS = 41  # the middle one has the length beside it
DOT_PIXELS, END_PIXELS = 4, 10


class RulerPoints(PointsOnVolume):
    """Dots from one end to the other, in front of everything, and the length in the middle."""

    least_pixels = DOT_PIXELS

    @property
    def ends(self) -> NDArray[np.float64]:
        """(2, 3) float64: from where to where, display (z, y, x)."""
        return np.asarray(self.data, dtype=float)[[0, -1]]


class Ruler(QObject):  # type: ignore[misc]
    """A button, and the ruler that is drawn while it is pressed."""

    changed = Signal()

    def __init__(self, session: Session, mouse: SeedMouse) -> None:
        super().__init__()
        self._session, self._mouse = session, mouse
        self.layer: RulerPoints | None = None
        self.button = button("ruler", HELP, is_checkable=True)
        self.button.toggled.connect(self._on_toggled)
        self._canvas: QWidget | None = None

    @property
    def is_on(self) -> bool:
        return bool(self.button.isChecked())

    @property
    def length_mm(self) -> float:
        """How long it is; 0 where nothing is measured."""
        if self.layer is None:
            return 0.0
        start, end = self._session.space.to_world(self.layer.ends)
        return float(np.linalg.norm(np.asarray(end) - start))

    @property
    def text(self) -> str:
        return length_text(self.length_mm, self._session.space.unit)

    def open(self, canvas: QWidget | None) -> None:
        """Take Escape on the canvas, where there is one."""
        self._session.viewer.layers.events.removed.connect(self._on_removed)
        self._canvas = canvas
        if canvas is not None:
            canvas.installEventFilter(self)

    def close(self) -> None:
        self.button.setChecked(False)
        self._session.viewer.layers.events.removed.disconnect(self._on_removed)
        if self._canvas is not None:
            self._canvas.removeEventFilter(self)
            self._canvas = None

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if self.is_on and event.type() == QEvent.Type.KeyPress and event.key() == Qt.Key.Key_Escape:
            self.button.setChecked(False)
            return True
        return False

    def on_press(self, viewer: Any, event: Any) -> Iterator[None]:
        """Measure from where the mouse is pressed: for ``viewer.mouse_drag_callbacks``."""
        if event.button != 1 or event.modifiers or event.handled or self._other_tool is not None:
            return
        start = self._place(viewer, event)
        if start is None:
            viewer.status = "There is nothing under the mouse to measure from."
        event.handled = True  # the camera and other tools stay out
        yield
        while event.type == "mouse_move":
            event.handled = True
            end = self._place(viewer, event)
            if start is not None and end is not None:
                self.show(start, end)
            yield

    @property
    def _other_tool(self) -> Layer | None:
        """The layer whose own tool, such as a brush, is chosen: that does the work."""
        active = self._session.viewer.layers.selection.active
        return None if str(getattr(active, "mode", "pan_zoom")) == "pan_zoom" else active

    def _place(self, viewer: Any, event: Any) -> NDArray[np.float64] | None:
        """Return what is under the mouse, display (z, y, x): in 3-D the foremost that is seen."""
        position = np.asarray(event.position, dtype=float)
        if viewer.dims.ndisplay == 2:
            return position[-3:]
        sight = np.asarray(event.view_direction, dtype=float)
        seen = [x for x in viewer.layers if isinstance(x, Streamlines) and x.visible]
        found = [layer.place_under(position, sight) for layer in seen]
        found.append(self._mouse.found_under(position, sight, list(event.dims_displayed)))
        there = [place for place in found if place is not None]
        return min(there, key=lambda place: float(place @ sight[-3:]), default=None)

    def show(self, start: NDArray[np.float64], end: NDArray[np.float64]) -> None:
        """Show the ruler between two display positions, (z, y, x)."""
        viewer, space = self._session.viewer, self._session.space
        if np.array_equal(start, end):
            return
        dots = np.asarray(start + np.linspace(0, 1, N_DOTS)[:, None] * (end - start))
        # Diameters: dots are as small as the canvas allows, the ends as large.
        sizes = np.full(N_DOTS, 1e-3 * float(np.linalg.norm(dots[1] - dots[0])))
        sizes[[0, -1]] *= 1e3
        if self.layer is None:
            self.layer = RulerPoints(
                dots,
                name="Ruler",
                face_color=COLOUR,
                border_color=EDGE,
                border_width=0.15,
                blending="translucent_no_depth",
                canvas_size_limits=(DOT_PIXELS, END_PIXELS),
                units=space.units,
            )
            self.layer.space = space
            insert_beside(viewer, self.layer)
        else:
            self.layer.selected_data = set()
            self.layer.data = dots
        self.layer.size = sizes
        texts = [""] * N_DOTS
        texts[N_DOTS // 2] = self.text
        self.layer.text = {
            "string": texts,
            "size": 12,
            "color": COLOUR,
            "anchor": "lower_left",
            "blending": "translucent_no_depth",
        }
        viewer.status = self.text
        self.changed.emit()

    def _on_toggled(self, on: bool) -> None:
        callbacks, other = self._session.viewer.mouse_drag_callbacks, self._other_tool
        if on and other is not None:
            other.mode = "pan_zoom"
        if on and self.on_press not in callbacks:
            callbacks.insert(0, self.on_press)
        elif not on and self.on_press in callbacks:
            callbacks.remove(self.on_press)
        if not on:
            take_out(self._session.viewer, self.layer)
            self.layer = None

    def _on_removed(self, event: Any) -> None:
        if event.value is self.layer:
            self.layer = None
            self.changed.emit()
