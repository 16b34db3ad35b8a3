"""napari's layer controls of a streamlines layer: what means something for streamlines.

napari looks controls up in a dictionary by the class of the layer, and those of several selected
layers in another; those of Tracks have tails, heads, graphs and IDs. Registered when a layer is
made, see :mod:`.tracks_visual`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from napari._qt.layer_controls.dynamic.qt_dynamic_layer_controls import controls_dict
from napari._qt.layer_controls.dynamic.widgets import _tracks as of_several_tracks
from napari._qt.layer_controls.qt_layer_controls_base import QtLayerControls
from napari._qt.layer_controls.qt_layer_controls_container import layer_to_controls
from napari._qt.layer_controls.widgets._tracks import (
    QtColormapComboBoxControl,
    QtColorPropertiesComboBoxControl,
)
from napari._qt.layer_controls.widgets.qt_widget_controls_base import (
    QtWidgetControlsBase,
    QtWrappedLabel,
)
from napari.layers import Tracks
from napari.layers.base._base_constants import Mode
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QCheckBox, QComboBox, QDoubleSpinBox, QHBoxLayout, QSlider, QWidget

from ..clipping import CLIPS, NO_CLIP

STEPS = 10  # of a slider, for each unit


class StreamlineControls(QtLayerControls):  # type: ignore[misc]
    """Colour by, colormap, width, opacity, light, slab and clip of a streamlines layer.

    Parameters
    ----------
    layer : Streamlines
    """

    MODE = Mode
    PAN_ZOOM_ACTION_NAME = "activate_tracks_pan_zoom_mode"
    TRANSFORM_ACTION_NAME = "activate_tracks_transform_mode"

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.rows = {
            "colour by": QtColorPropertiesComboBoxControl(self, layer),
            "colormap": QtColormapComboBoxControl(self, layer),
            **{name: make(parent=self, layers=[layer]) for name, make in ROWS.items()},
        }
        self.rows["colour by"].color_by_combobox_label.setText("colour by:")
        for row in self.rows.values():
            self._add_widget_controls(row)


class _Row(QtWidgetControlsBase):  # type: ignore[misc]
    """A label and a widget that shows an attribute of a layer and sets it, of others too.

    Parameters
    ----------
    parent : QWidget
    layers : sequence of Streamlines
        The first is shown, all are set.
    name, event : str
        Of the attribute, and of the event that tells of its changes.
    text : str
    """

    def __init__(
        self, parent: QWidget, layers: Sequence[Any], name: str, event: str, text: str
    ) -> None:
        super().__init__(parent, layers[0])
        self._layers = list(layers)
        self.name = name
        self.label = QtWrappedLabel(f"{text}:")
        self.widget = QWidget()
        self._event = event

    def _follow(self, show: Callable[[], None]) -> None:
        """Show the attribute now and whenever it changes."""

        def on_change(_event: Any = None) -> None:
            show()

        getattr(self._layer.events, self._event).connect(on_change)
        self._callbacks.append(on_change)
        show()

    def disconnect_widget_controls(self) -> None:
        """Disconnect layer from widget controls."""
        for callback in self._callbacks:
            getattr(self._layer.events, self._event).disconnect(callback)
        self._callbacks.clear()

    def _set(self, value: Any) -> None:
        for layer in self._layers:
            if getattr(layer, self.name) != value:
                setattr(layer, self.name, value)

    def _change_ndisplay(self, _ndisplay: int) -> None:
        """Stay as it is in slices and in 3-D; napari tells the controls of several layers."""

    def get_widget_controls(self) -> list[tuple[QtWrappedLabel, QWidget]]:
        """Return what stands in the row."""
        return [(self.label, self.widget)]


class _Number(_Row):
    """A slider and a box."""

    def __init__(
        self,
        parent: QWidget,
        layers: Sequence[Any],
        name: str,
        event: str,
        limits: tuple[float, float],
        unit: str,
    ) -> None:
        super().__init__(parent, layers, name, event, name.removesuffix("_mm"))
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setRange(*(round(STEPS * limit) for limit in limits))
        self.box = QDoubleSpinBox()
        self.box.setRange(0.1, 1000.0)
        self.box.setDecimals(1)
        self.box.setSingleStep(0.5)
        self.box.setSuffix(f" {unit}")
        layout = QHBoxLayout(self.widget)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.slider, 1)
        layout.addWidget(self.box)
        self.slider.valueChanged.connect(lambda value: self._set(value / STEPS))
        self.box.valueChanged.connect(self._set)
        self._follow(self._show)

    def _show(self) -> None:
        value = float(getattr(self._layer, self.name))
        for widget, shown in ((self.slider, round(STEPS * value)), (self.box, value)):
            widget.blockSignals(True)
            widget.setValue(shown)
            widget.blockSignals(False)


class _Switch(_Row):
    """A check box."""

    def __init__(self, parent: QWidget, layers: Sequence[Any], name: str, event: str) -> None:
        super().__init__(parent, layers, name, event, "light in 3-D")
        self.widget = QCheckBox()
        self._follow(lambda: self.widget.setChecked(bool(getattr(layers[0], name))))
        self.widget.toggled.connect(self._set)


class _Clip(_Row):
    """Across which axis a slab is cut out in 3-D, and where its middle is."""

    def __init__(self, parent: QWidget, layers: Sequence[Any]) -> None:
        super().__init__(parent, layers, "clip", "clip", "clip in 3-D")
        self.choice = QComboBox()
        self.choice.addItems(CLIPS)
        self.position = QDoubleSpinBox()
        self.position.setRange(-10_000.0, 10_000.0)
        self.position.setDecimals(1)
        self.position.setSuffix(" mm")
        self.position.setButtonSymbols(QDoubleSpinBox.ButtonSymbols.NoButtons)  # no room for them
        layout = QHBoxLayout(self.widget)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.choice, 1)
        layout.addWidget(self.position)
        self.choice.currentTextChanged.connect(self._set)
        self.position.valueChanged.connect(self._set_position)
        self._follow(self._show)

    def _set_position(self, value: float) -> None:
        for layer in self._layers:
            layer.clip_at_mm = value

    def _show(self) -> None:
        for widget in (self.choice, self.position):
            widget.blockSignals(True)
        self.choice.setCurrentText(self._layer.clip)
        self.position.setValue(self._layer.clip_at_mm)
        self.position.setEnabled(self._layer.clip != NO_CLIP)
        for widget in (self.choice, self.position):
            widget.blockSignals(False)


class _Nothing(QtWidgetControlsBase):  # type: ignore[misc]
    """Takes the place of controls that mean nothing for streamlines."""

    def get_widget_controls(self) -> list[tuple[QtWrappedLabel, QWidget]]:
        """Return no row."""
        return []

    def _change_ndisplay(self, _ndisplay: int) -> None:
        """Do nothing."""


ROWS: dict[str, Callable[..., _Row]] = {
    "width": partial(_Number, name="width", event="tail_width", limits=(0.5, 10.0), unit="px"),
    "light": partial(_Switch, name="lit", event="lit"),
    "slab": partial(_Number, name="slab_mm", event="tail_length", limits=(0.5, 40.0), unit="mm"),
    "clip": _Clip,
}
# Of napari's controls of several Tracks layers, those that mean something for streamlines.
SHARED = (
    of_several_tracks.QtColorPropertiesComboBoxControl,
    of_several_tracks.QtColormapComboBoxControl,
)


def _of_tracks(control: Any, layer_class: type, *, parent: QWidget, layers: Sequence[Any]) -> Any:
    """Return one of napari's controls of several Tracks layers, or nothing where all are ours."""
    if all(isinstance(layer, layer_class) for layer in layers):
        return _Nothing(parent, layers[0])
    return control(parent=parent, layers=layers)


def register(layer_class: type) -> None:
    """Have napari show such controls for one layer of a class, and for several of them."""
    layer_to_controls[layer_class] = StreamlineControls
    if layer_class not in controls_dict:
        controls_dict[Tracks] = tuple(
            control if control in SHARED else partial(_of_tracks, control, layer_class)
            for control in controls_dict[Tracks]
        )
        controls_dict[layer_class] = tuple(ROWS.values())
