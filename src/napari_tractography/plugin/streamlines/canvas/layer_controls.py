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
from qtpy.QtWidgets import QWidget

from ....model.parameters import ParameterSpec
from ...flag import Flag
from ...panel.widgets.controls import NumberControl, parameter_control
from ...panel.widgets.layout import row, shrinkable
from ..clipping import NO_CLIP
from ..display_parameters import CLIP_AT_SPEC, CLIP_SPEC, LIGHT_SPEC, SLAB_SPEC, WIDTH_SPEC

BOX_WIDTH = 99  # pixels: the dock is as wide as with the controls of other layers


class StreamlineControls(QtLayerControls):  # type: ignore[misc]
    """Colour by, colormap, width, opacity, light, slab and clip of a streamlines layer."""

    MODE = layer_to_controls[Tracks].MODE
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
        for each in self.rows.values():
            self._add_widget_controls(each)


class Row(QtWidgetControlsBase):  # type: ignore[misc]
    """The controls of one or two parameters of streamlines layers: the first is shown, all are set.

    Without the first parameter there is nothing to the second. The layer emits `event` when one of
    the attributes that they are named by changes.
    """

    def __init__(
        self, parent: QWidget, layers: Sequence[Any], specs: Sequence[ParameterSpec], event: str
    ) -> None:
        super().__init__(parent, layers[0])
        self.name = specs[0].name
        self.label = QtWrappedLabel(f"{specs[0].label[0].lower()}{specs[0].label[1:]}:")
        self.controls = {spec.name: parameter_control(spec) for spec in specs}
        natives = [control.native for control in self.controls.values()]
        self.widget = row(*natives, stretch_first=True)
        self._layers = list(layers)
        self._event = layers[0].events[event]
        self._is_showing = Flag()
        for name, control in self.controls.items():
            if isinstance(control, NumberControl):
                control.box.setFixedWidth(BOX_WIDTH)
            else:  # what stands first has the room that is left
                shrinkable(control.native)
            control.changed.connect(partial(self._set, name))
        self._event.connect(self._show)
        self._show()

    def _show(self, _event: Any = None) -> None:
        first, *others = self.controls.values()
        with self._is_showing:
            for name, control in self.controls.items():
                control.value = getattr(self._layers[0], name)
        for control in others:
            control.native.setEnabled(first.value != NO_CLIP)

    def _set(self, name: str, value: Any) -> None:
        for layer in [] if self._is_showing else self._layers:
            if getattr(layer, name) != value:
                setattr(layer, name, value)

    def disconnect_widget_controls(self) -> None:
        self._event.disconnect(self._show)

    def _change_ndisplay(self, _ndisplay: int) -> None:
        """Stay as it is in slices and in 3-D; napari tells the controls of several layers."""

    def get_widget_controls(self) -> list[tuple[QtWrappedLabel, QWidget]]:
        """Return what stands in the row."""
        return [(self.label, self.widget)]


class _Nothing(QtWidgetControlsBase):  # type: ignore[misc]
    """Takes the place of controls that mean nothing for streamlines."""

    def get_widget_controls(self) -> list[tuple[QtWrappedLabel, QWidget]]:
        """Return no row."""
        return []

    def _change_ndisplay(self, _ndisplay: int) -> None:
        """Do nothing."""


ROWS: dict[str, Callable[..., Row]] = {
    "width": partial(Row, specs=[WIDTH_SPEC], event="tail_width"),
    "light": partial(Row, specs=[LIGHT_SPEC], event="lit"),
    "slab": partial(Row, specs=[SLAB_SPEC], event="tail_length"),
    "clip": partial(Row, specs=[CLIP_SPEC, CLIP_AT_SPEC], event="clip"),
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
    """Have napari show such controls for one layer of a class, and for several of them.

    Where what these lean on has another name, napari shows those of tracks.
    """
    if not hasattr(QtLayerControls, "_add_widget_controls"):
        return
    layer_to_controls[layer_class] = StreamlineControls
    if layer_class not in controls_dict:
        controls_dict[Tracks] = tuple(
            control if control in SHARED else partial(_of_tracks, control, layer_class)
            for control in controls_dict[Tracks]
        )
        controls_dict[layer_class] = tuple(ROWS.values())
