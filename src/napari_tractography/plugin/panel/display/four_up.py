"""Three slices and 3-D together, with a crosshair that is the same in all.

The slices are painted beside napari's canvas, which shows 3-D; the crosshair is the position of the
viewer's sliders, through which the planes in 3-D lie as well. Opened by the View section.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from napari.layers import Image, Labels, Points, Vectors
from qtpy.QtCore import QObject
from qtpy.QtWidgets import QGridLayout, QWidget

from ...layers.glyphs import Glyphs
from ...layers.slice_pictures import SlicePictures
from ...listening import Listening
from ...session.seed_mouse import SeedMouse
from ...session.session import Session
from ...space.display import display_space_of_layer
from ...space.views import SLICES
from ...streamlines.layer import Streamlines
from ...timers import delayed
from .ruler import Ruler, RulerPoints
from .slice_pane import SharedView, SlicePane
from .slices import SlicesBox

FILLED = 0.85  # of a pane, which leaves room for letters
# Row and column of each; the canvas with 3-D is the fourth.
PLACES = {"axial": (0, 0), "coronal": (1, 0), "sagittal": (1, 1)}
CANVAS_PLACE = 0, 1


class CanvasFrame:
    """What lies around napari's canvas: a bar above it, panes beside it.

    The canvas keeps its parent: in another one it would lose what is on the graphics card.
    """

    def __init__(self, canvas: QWidget, bar: QWidget, panes: dict[str, SlicePane]) -> None:
        self.canvas, self._bar, self._panes = canvas, bar, panes
        self._outside = canvas.parentWidget().layout()
        self._grid = QGridLayout()
        self._grid.setSpacing(2)
        self._outside.removeWidget(canvas)
        self._grid.addWidget(canvas, *CANVAS_PLACE)
        for name, pane in panes.items():
            pane.hide()
            self._grid.addWidget(pane, *PLACES[name])
        self._outside.insertLayout(0, self._grid, 1)
        self._outside.insertWidget(0, bar)
        bar.show()
        self.divide(False)

    def close(self) -> None:
        """Leave the canvas as it was."""
        for widget in (self.canvas, *self._panes.values()):
            self._grid.removeWidget(widget)
        for pane in self._panes.values():
            pane.setParent(None)
        self._outside.removeWidget(self._bar)
        self._outside.removeItem(self._grid)
        self._outside.insertWidget(0, self.canvas, 1)

    def divide(self, is_divided: bool) -> None:
        """Give the panes as much room as the canvas, or none."""
        for number in range(2):
            own = number == CANVAS_PLACE[0], number == CANVAS_PLACE[1]
            self._grid.setRowStretch(number, int(is_divided or own[0]))
            self._grid.setColumnStretch(number, int(is_divided or own[1]))
        self._outside.activate()


class FourUp(QObject):  # type: ignore[misc]
    """The slices beside 3-D, while they are shown."""

    def __init__(self, session: Session, slices: SlicesBox, mouse: SeedMouse, ruler: Ruler) -> None:
        super().__init__()
        self.viewer = session.viewer
        self.shared = SharedView(session, mouse, ruler)
        self._slices = slices
        self.is_open = False
        self._is_stale = True  # whether what the slices show has changed
        self.panes = {name: SlicePane(self.shared, name) for name in SLICES}
        self.refresh_later = delayed(self, 30, self.refresh)
        dims, layers = self.viewer.dims.events, self.viewer.layers.events
        self._listening = Listening(
            (dims.point, self._on_move),
            (dims.range, self._on_change),
            (layers.inserted, self._on_layers),
            (layers.removed, self._on_layers),
            (layers.reordered, self._on_change),
            (self.viewer.events.theme, self._on_change),
            (session.changed, self._on_change),
            (ruler.changed, self._update_panes),
            (self.shared.moved, self._on_move),
        )
        self._heard: set[Any] = set()  # layers

    def open(self) -> None:
        if self.is_open:
            return
        self.is_open = self.shared.session.regions.has_slices = True
        self._listening.open()
        self._on_layers()
        for pane in self.panes.values():
            pane.show()

    def close(self) -> None:
        if not self.is_open:
            return
        self.is_open = self.shared.session.regions.has_slices = False
        self._listening.close()
        self.refresh_later.stop()
        self._hear(set())
        self.shared.pictures, self.shared.box = None, np.zeros((2, 3))
        for pane in self.panes.values():
            pane.hide()

    def refresh(self) -> None:
        """Paint all panes anew that show something else now."""
        if not self.is_open:
            return
        self._follow_source()
        extent = np.ptp(self.shared.box, axis=0).clip(1e-6)
        room = [
            (pane.width() / extent[pane.along], pane.height() / extent[pane.up])
            for pane in self.panes.values()
        ]
        self.shared.scale = FILLED * self.shared.zoom * float(np.min(room))
        for pane in self.panes.values():
            pane.render_slice(self._is_stale)
        self._is_stale = False

    def _follow_source(self) -> None:
        """Show the volume of the planes in 3-D, fitted where it is another one."""
        planes, shared, before = self._slices.planes, self.shared, self.shared.pictures
        source = self._slices.source if planes is None else planes.source
        if planes is not None:
            shared.pictures = planes.pictures  # painted once for both
        elif source is None or before is None or before.source is not source:
            shared.pictures = None if source is None else SlicePictures(source)
        shown = None if before is None else before.source
        if source is shown and shared.box.any():
            return
        self._is_stale = True
        if shared.pictures is None:
            shared.box = shared.slices[:, :2].T
        else:
            space = display_space_of_layer(source)
            shared.box = shared.pictures.body_box() * space.scale + space.translate
        shared.zoom_by(0.0)

    def _update_panes(self) -> None:
        for pane in self.panes.values():
            pane.update()

    def _on_change(self, _event: Any = None) -> None:
        self._is_stale = True
        self._on_move()

    def _on_move(self, _event: Any = None) -> None:
        if not self.refresh_later.isActive():
            self.refresh_later.start()

    def _on_layer(self, event: Any) -> None:
        if self.shared.pictures is not None and event.source is self.shared.pictures.source:
            self.shared.pictures.forget()
        self._on_change()

    def _on_layers(self, _event: Any = None) -> None:
        # But the planes in 3-D, which follow as well, and the ruler, which tells by itself.
        shown = Image, Labels, Points, Vectors, Glyphs, Streamlines
        layers = [layer for layer in self.viewer.layers if isinstance(layer, shown)]
        self._hear({layer for layer in layers if not isinstance(layer, RulerPoints)})
        self._on_change()

    def _hear(self, layers: set[Any]) -> None:
        """Listen to all that happens to some layers, and to no others."""
        for layer in layers - self._heard:
            layer.events.connect(self._on_layer)
        for layer in self._heard - layers:
            layer.events.disconnect(self._on_layer)
        self._heard = layers
