"""What the slices beside 3-D have in common: the crosshair, and how they lie in their panes."""

from __future__ import annotations

import numpy as np
from napari.utils.theme import get_theme
from numpy.typing import NDArray
from psygnal import Signal
from qtpy.QtGui import QColor

from ...layers.slice_pictures import SlicePictures
from ...session.seed_mouse import SeedMouse
from ...session.session import Session
from ...space.orientation_labels import axes_of
from ...space.positions import position_text
from .ruler import Ruler

MOST_ZOOM = 20.0


class SharedView:
    """The crosshair is the position of the viewer's sliders; planes in 3-D meet in it as well."""

    moved = Signal()  # the slices lie otherwise in their panes

    def __init__(self, session: Session, mouse: SeedMouse, ruler: Ruler) -> None:
        self.session, self.viewer = session, session.viewer
        self.mouse, self.ruler = mouse, ruler
        self.pictures: SlicePictures | None = None  # of the volume that is shown
        self.centre = np.zeros(3)  # of the panes, display (z, y, x)
        self.zoom = 1.0
        self.box = np.zeros((2, 3))  # what is fitted into the panes, display (z, y, x)
        self.scale = 1.0  # pixels for a unit of the display, the same in all panes

    @property
    def background(self) -> QColor:
        """The colour of the canvas."""
        return QColor(get_theme(self.viewer.theme).canvas.as_hex())

    @property
    def crosshair(self) -> NDArray[np.float64]:
        """Its position, display (z, y, x), a copy."""
        return np.zeros(3) if self._is_flat else np.array(self.viewer.dims.point[-3:], dtype=float)

    @property
    def _is_flat(self) -> bool:
        """Whether nothing is open: napari has two axes then."""
        return bool(self.viewer.dims.ndim < 3)

    @property
    def slices(self) -> NDArray[np.float64]:
        """(3, 3) float64: first and last slice and their distance, of the axes (z, y, x)."""
        if self._is_flat:
            return np.tile([0.0, 1.0, 1.0], (3, 1))
        return np.array(self.viewer.dims.range, dtype=float)[-3:]

    def move_to(self, zyx: NDArray[np.float64]) -> None:
        """Move the crosshair to a display position, as far as there are slices."""
        if self._is_flat:
            return
        first, last, _ = self.slices.T
        n = self.viewer.dims.ndim
        self.viewer.dims.set_point(range(n - 3, n), tuple(np.clip(zyx, first, last)))
        space, axes = self.session.space, axes_of(self.viewer.layers)
        self.viewer.status = position_text(space.to_world(self.crosshair)[0], space.unit, axes)

    def step(self, axis: int, n: int) -> None:
        """Move the crosshair by slices along an axis."""
        place = self.crosshair
        place[axis] += n * self.slices[axis, 2]
        self.move_to(place)

    def zoom_by(self, factor: float) -> None:
        """Enlarge the slices around the crosshair; no longer enlarged, they are in the middle."""
        self.zoom = float(np.clip(factor * self.zoom, 1.0, MOST_ZOOM))
        self.centre = self.box.mean(axis=0) if self.zoom == 1 else self.crosshair
        self.moved.emit()

    def shift(self, by: NDArray[np.float64]) -> None:
        """Move the slices in their panes."""
        self.centre = self.centre + by
        self.moved.emit()
