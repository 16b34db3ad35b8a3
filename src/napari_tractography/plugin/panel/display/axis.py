"""The axis about which streamlines are coloured: two clicks in the view, and a line.

Called by the Display section, which shows it where the colour is an angle about an axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from napari.layers import Vectors
from numpy.typing import NDArray
from psygnal import Signal
from qtpy.QtWidgets import QLabel

from ....maps.angles import Axis
from ...layers.on_volume import OnVolume
from ...notices import show_warning
from ...session.seed_mouse import CLICK_PIXELS, NO_VOLUME, NOTHING_BRIGHT, first_bright_voxel
from ...session.session import Session
from ...space.display import DisplaySpace
from ...space.layer_list import insert_beside, take_out
from ..widgets.layout import button, row

HELP = (
    "About which angles are taken. Click its one end and its other in the view, each in the slice "
    "where it lies; in 3-D on the volume. The middle of a ventricle at base and apex, for a heart."
)
FIRST, SECOND = "Click one end.", "Click the other end."
NONE = "none"
COLOUR = "#f2b632"
THICKNESS, THINNEST_VOX = 1 / 150, 0.3  # of its length; voxels
PIECE_VOX = 0.5  # so that each slice shows the piece that lies in it


class AxisLine(OnVolume, Vectors):  # type: ignore[misc]
    """The axis as a line."""

    _type_string = "vectors"  # for writers and icons


def _pieces(axis: Axis, space: DisplaySpace) -> NDArray[np.float64]:
    """Return starts and vectors of the pieces of the line, (n, 2, 3) voxels (z, y, x)."""
    shown = np.asarray(space.to_display([axis.start_mm, axis.end_mm]), dtype=float)
    start, end = (shown - space.translate) / space.scale
    n = max(int(np.ceil(np.linalg.norm(end - start) / PIECE_VOX)), 1)
    pieces = np.empty((n, 2, 3))
    pieces[:, 1] = (end - start) / n
    pieces[:, 0] = start + np.arange(n)[:, None] * pieces[:, 1]
    return pieces


class AxisControl:
    """A button that lets two clicks draw the axis; its value is the axis."""

    changed = Signal(object)  # Axis or None

    def __init__(self, session: Session) -> None:
        self.name, self.label, self.tooltip = "axis", "Axis", HELP
        self._session = session
        self._value: Axis | None = None
        self._ends: list[NDArray[np.float64]] = []
        self._line: AxisLine | None = None
        self._is_used = False
        self.text = QLabel(NONE)
        self.button = button("Draw the axis", HELP, is_checkable=True)
        self.button.toggled.connect(self._on_toggled)
        self.native = row(self.text, self.button, stretch_first=True)
        self.native.setFocusProxy(self.button)
        session.parameters_suited.connect(self._show_line)  # another volume, another space

    @property
    def value(self) -> Axis | None:
        """The axis; None where none was drawn."""
        return self._value

    @value.setter
    def value(self, axis: Axis | None) -> None:
        self.button.setChecked(False)
        self._say()
        if axis != self._value:
            self._value = axis
            self._say()
            self._show_line()
            self.changed.emit(axis)

    def use(self, is_used: bool) -> None:
        """Show the line, or do not, as the streamlines are coloured by something else."""
        self._is_used = is_used
        if not is_used:
            self.button.setChecked(False)
        self._show_line()

    def close(self) -> None:
        self.button.setChecked(False)
        self._remove_line()

    def _on_toggled(self, on: bool) -> None:
        callbacks = self._session.viewer.mouse_drag_callbacks
        self._ends = []
        if on and self.on_press not in callbacks:
            callbacks.append(self.on_press)
        elif not on and self.on_press in callbacks:
            callbacks.remove(self.on_press)
        self._say()

    def _say(self) -> None:
        if self.button.isChecked():
            self.text.setText(SECOND if self._ends else FIRST)
        else:
            self.text.setText(NONE if self._value is None else "drawn")

    def on_press(self, viewer: Any, event: Any) -> Iterator[None]:
        """Take a click as an end of the axis; drags move the view as before."""
        if event.button != 1 or event.modifiers:
            return
        pressed = np.asarray(event.pos)
        position = np.asarray(event.position, dtype=float)
        direction = None if event.view_direction is None else np.asarray(event.view_direction)
        displayed, moved = list(event.dims_displayed), 0.0
        yield
        while event.type == "mouse_move":
            moved = max(moved, float(np.abs(np.asarray(event.pos) - pressed).max()))
            yield
        if moved <= CLICK_PIXELS and self.button.isChecked():
            self._take(position, direction, displayed)

    def _take(self, position: NDArray[np.float64], direction: Any, displayed: list[int]) -> None:
        end_position: NDArray[np.float64] | None = position[-3:]
        if len(displayed) == 3:
            layer = self._session.fod_layer
            if layer is None or direction is None:
                show_warning(NO_VOLUME)
                return
            end_position = first_bright_voxel(layer, position, direction, displayed)
        if end_position is None:
            show_warning(NOTHING_BRIGHT)
            return
        end = self._session.space.to_world(end_position[None])[0]
        if self._ends and np.allclose(end, self._ends[0], rtol=0, atol=1e-9):
            show_warning("Both ends of the axis are at the same place; click another for one.")
            return
        self._ends.append(end)
        if len(self._ends) == 2:
            self.value = Axis.of(self._ends)
        self._say()

    def _show_line(self) -> None:
        viewer, axis = self._session.viewer, self._value
        if axis is None or not self._is_used:
            self._remove_line()
            return
        space = self._session.space
        data = _pieces(axis, space)
        if self._line is None or self._line not in viewer.layers:
            self._line = AxisLine(
                data,
                name="Axis",
                edge_color=COLOUR,
                vector_style="line",
                scale=space.scale,
                translate=space.translate,
            )
            self._line.space = space
            insert_beside(viewer, self._line)
        elif self._line.space != space or not np.array_equal(self._line.data, data):
            self._line.space = space
            self._line.scale, self._line.translate = space.scale, space.translate
            self._line.data = data
        self._line.edge_width = max(THICKNESS * len(data) * PIECE_VOX, THINNEST_VOX)

    def _remove_line(self) -> None:
        take_out(self._session.viewer, self._line)
        self._line = None
