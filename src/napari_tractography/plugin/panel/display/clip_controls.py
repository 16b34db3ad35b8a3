"""Controls of the slab that 3-D shows: across which axis, and at which slice.

The slice is that of the viewer, so that 2-D and 3-D show the same one; napari hides its sliders in
3-D.
Called by the Display section of the panel.
"""

from __future__ import annotations

import html
from typing import Any

from qtpy.QtCore import QSignalBlocker, Qt
from qtpy.QtWidgets import QLabel, QSlider

from ...listening import Listening
from ...session.open_bundle import BUNDLE_KEY
from ...session.session import Session
from ...space.display import AXIS_LABELS, DisplaySpace
from ...space.orientation_labels import axes_of
from ...streamlines.clipping import AXES, NO_CLIP
from ...streamlines.display_parameters import CLIP_SPEC
from ...streamlines.layer import Streamlines
from ..widgets.controls import parameter_control
from ..widgets.layout import row


class SliceControl:
    """A slider over the slices of the viewer along one axis."""

    name = "clip_at_mm"
    label = "Clip at (mm)"
    tooltip = f"<qt>{html.escape('The slice in the middle of the slab, also of 2-D views.')}</qt>"

    def __init__(self) -> None:
        self.slider, self.text = QSlider(Qt.Orientation.Horizontal), QLabel()
        self.text.setMinimumWidth(self.text.fontMetrics().horizontalAdvance("S -000.0"))
        self.native = row(self.slider, self.text, stretch_first=True)
        self.native.setToolTip(self.tooltip)
        self.native.setFocusProxy(self.slider)

    def show_slice(self, viewer: Any, axis: int, space: DisplaySpace) -> None:
        """Bring the slider to the slice of the viewer across an axis, (z, y, x), and name it.

        By its position; in an oblique volume, where that differs within a slice, by its number.
        """
        dimension = viewer.dims.ndim - len(AXIS_LABELS) + axis
        start, stop, step = viewer.dims.range[dimension]
        at, n = float(viewer.dims.point[dimension]), max(round((stop - start) / step), 0)
        number = round((at - start) / step)
        with QSignalBlocker(self.slider):
            self.slider.setRange(0, n)
            self.slider.setValue(number)
        shown = f"{axes_of(viewer.layers)[2 - axis]} {at:z.1f}"
        self.text.setText(f"{number} of {n}" if space.is_tilted else shown)


class ClipControls:
    """What the clipping controls do to the session's streamlines."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.viewer = session.viewer
        self.choice = parameter_control(CLIP_SPEC)
        self.position = SliceControl()
        self.controls = [self.choice, self.position]
        events = self.viewer.dims.events
        self._listening = Listening(
            *((event, self._on_slice) for event in (events.point, events.range, events.ndim))
        )
        self.choice.changed.connect(self._on_choice)
        self.position.slider.valueChanged.connect(self._on_slider)
        self._show()

    def open(self) -> None:
        self._listening.open()
        self._on_slice()

    def close(self) -> None:
        self._listening.close()

    @property
    def _axis(self) -> int | None:
        if self.choice.value == NO_CLIP:
            return None
        axis = self.viewer.dims.ndim - len(AXES) + AXES[self.choice.value]
        return int(axis) if axis >= 0 else None

    def apply_to(self, layer: Streamlines) -> None:
        axis = self._axis
        if axis is not None:
            layer.clip_at_mm = float(self.viewer.dims.point[axis])
        if layer.clip != self.choice.value:
            layer.clip = self.choice.value

    def _on_choice(self, _value: Any = None) -> None:
        self._show()
        layer = self.session.streamlines_layer
        if layer is not None:
            self.apply_to(layer)

    def _on_slice(self, _event: Any = None) -> None:
        """Clip all bundles, as their own looks say, at the slice of the viewer."""
        dims = self.viewer.dims
        for layer in self.viewer.layers:
            is_other = BUNDLE_KEY in layer.metadata and layer is not self.session.streamlines_layer
            if is_other and isinstance(layer, Streamlines) and layer.clip != NO_CLIP:
                layer.clip_at_mm = float(dims.point[dims.ndim - len(AXES) + AXES[layer.clip]])
        if self._axis is not None:  # else a layer that a script clips is left alone
            self._on_choice()

    def _on_slider(self, number: int) -> None:
        axis = self._axis
        if axis is not None:
            start, _, step = self.viewer.dims.range[axis]
            self.viewer.dims.set_point(axis, start + number * step)

    def _show(self) -> None:
        axis = self._axis
        self.position.native.setEnabled(axis is not None)
        if axis is None:
            self.position.text.setText("")
            return
        self.position.show_slice(self.viewer, AXES[self.choice.value], self.session.space)
