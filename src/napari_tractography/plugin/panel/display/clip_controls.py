"""Controls of the slab that 3-D shows: across which axis, and at which slice.

The slice is that of the viewer, so that 2-D and 3-D show the same one; napari hides its sliders in
3-D.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qtpy.QtCore import QSignalBlocker, Qt
from qtpy.QtWidgets import QLabel, QSlider

from ...listening import Listening
from ...session.open_bundle import BUNDLE_KEY
from ...session.session import Session
from ...space.display import AXIS_LABELS
from ...space.orientation_labels import axes_of
from ...streamlines.clipping import AXES, NO_CLIP
from ...streamlines.display_parameters import CLIP_SPEC
from ...streamlines.layer import Streamlines
from ..widgets.controls import parameter_control
from ..widgets.layout import row

HELP = "<qt>The slice in the middle of the slab, also of 2-D views.</qt>"


class SliceControl:
    """A slider over the slices of the viewer across an axis, (z, y, x), if `axis` gives one."""

    def __init__(
        self, session: Session, name: str, label: str, tooltip: str, axis: Callable[[], int | None]
    ) -> None:
        self.name, self.label, self.tooltip = name, label, tooltip
        self._session, self._axis = session, axis
        self.slider, self.text = QSlider(Qt.Orientation.Horizontal), QLabel()
        self.slider.setAccessibleName(label)
        self.slider.valueChanged.connect(self._on_slider)
        self.native = row(self.slider, self.text, stretch_first=True)
        self.native.setToolTip(tooltip)
        self.native.setFocusProxy(self.slider)

    @property
    def dimension(self) -> int | None:
        """The axis among those of the viewer; None of one that is not there."""
        axis, first = self._axis(), int(self._session.viewer.dims.ndim) - len(AXIS_LABELS)
        return None if axis is None or first + axis < 0 else first + axis

    def show(self) -> None:
        """Bring the slider to the slice of the viewer, and name it.

        By its position; in an oblique volume, where that differs within a slice, by its number.
        """
        viewer, axis, dimension = self._session.viewer, self._axis(), self.dimension
        if axis is None or dimension is None:
            return
        start, stop, step = viewer.dims.range[dimension]
        at, n = float(viewer.dims.point[dimension]), max(round((stop - start) / step), 0)
        number = round((at - start) / step)
        with QSignalBlocker(self.slider):
            self.slider.setRange(0, n)
            self.slider.setValue(number)
        shown = f"{axes_of(viewer.layers)[2 - axis]} {at:z.1f}"
        is_tilted = self._session.space.is_tilted
        self.text.setText(f"{number} of {n}" if is_tilted else shown)
        # As much for each axis, so that sliders below each other are of one length.
        longest = "000 of 000" if is_tilted else "S -000.0"
        self.text.setMinimumWidth(self.text.fontMetrics().horizontalAdvance(longest))

    def _on_slider(self, number: int) -> None:
        dims, dimension = self._session.viewer.dims, self.dimension
        if dimension is not None:
            start, _, step = dims.range[dimension]
            dims.set_point(dimension, start + number * step)


class ClipControls:
    """What the clipping controls do to the session's streamlines."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.viewer = session.viewer
        self.choice = parameter_control(CLIP_SPEC)
        self.position = SliceControl(
            session, "clip_at_mm", "Clip at (mm)", HELP, lambda: AXES.get(self.choice.value)
        )
        self.controls = [self.choice, self.position]
        events = self.viewer.dims.events
        self._listening = Listening(
            *((event, self._on_slice) for event in (events.point, events.range, events.ndim))
        )
        self.choice.changed.connect(self._on_choice)
        self._show()

    def open(self) -> None:
        self._listening.open()
        self._on_slice()

    def close(self) -> None:
        self._listening.close()

    def apply_to(self, layer: Streamlines) -> None:
        dimension = self.position.dimension
        if dimension is not None:
            layer.clip_at_mm = float(self.viewer.dims.point[dimension])
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
        if self.position.dimension is not None:  # else a layer that a script clips is left alone
            self._on_choice()

    def _show(self) -> None:
        is_clipped = self.position.dimension is not None
        self.position.native.setEnabled(is_clipped)
        if is_clipped:
            self.position.show()
        else:
            self.position.text.setText("")
