"""Controls built from parameter descriptions: ranges, units, choices and tooltips.

Called by the panel for everything that is a parameter. A control has a name, a label, a tooltip,
a value, a signal `changed` and a Qt widget `native`, as magicgui's widgets have, which most are.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from magicgui import widgets
from napari.layers import Layer
from psygnal import Signal
from qtpy.QtCore import QEvent, QLocale, QObject, QSignalBlocker, Qt
from qtpy.QtGui import QColor, QFontMetrics, QIcon, QPixmap, QValidator
from qtpy.QtWidgets import (
    QAbstractSpinBox,
    QColorDialog,
    QDoubleSpinBox,
    QGridLayout,
    QLabel,
    QPushButton,
    QSlider,
    QToolButton,
    QWidget,
)

from ....fields.input_kind import InputKind
from ....geometry.units import MM, shown_unit
from ....model.parameters import ParameterSpec
from ...document import LayerRef
from ...space.display import DisplaySpace
from .layout import beside, shrinkable

SHORT_UNITS = {"degrees": "°"}
DECIMALS = 6  # enough to type any value that makes sense; zeros at the end are not shown
NO_VALUE = "none"  # what the box of a number that may be left out says without one
BOX_WIDTH = 104  # pixels, by a usual font at least
BOX_ROOM, BOX_LETTERS = 44, 6  # of them for so many letters
SWATCH_SIZE = 32, 12  # pixels
ARROW = "↺"
ARROW_WIDTH = 24  # pixels, kept free where there is no arrow
AT_DEFAULT = "This is at its default."
ARROW_STYLE = "QToolButton { background: transparent; border: none; padding: 0px; }"


def limits_of(spec: ParameterSpec) -> tuple[float, float, float]:
    """Return the least and the largest number of a box, and how far one click moves it."""
    assert spec.minimum is not None
    assert spec.maximum is not None
    low = 0.0 if spec.default is None else spec.minimum
    return low, spec.maximum, spec.increment or (spec.maximum - spec.minimum) / 100


class DecimalBox(QDoubleSpinBox):  # type: ignore[misc]
    """A spin box that shows no more decimals than the number has.

    A larger number than the largest becomes that while it is typed. Qt refuses the digit that makes
    it too large, so that 200 among 1 to 90 would be 20.
    """

    def __init__(self) -> None:
        super().__init__()
        locale = QLocale()
        locale.setNumberOptions(QLocale.NumberOption.OmitGroupSeparator)
        self.setLocale(locale)
        self.setDecimals(DECIMALS)

    def textFromValue(self, value: float) -> str:  # noqa: N802 - Qt's name
        return str(self.locale().toString(round(value, DECIMALS), "g", 9))

    def validate(self, text: str, at: int) -> tuple[QValidator.State, str, int]:
        """Take what is too large for the largest number."""
        number, is_number = self.locale().toDouble(text)
        if is_number and number > self.maximum():
            text = self.textFromValue(self.maximum())
            at = len(text)
        state, text, at = super().validate(text, at)
        return state, text, at


class NumberBox(DecimalBox):
    """A box for a parameter; 0 where there is no number."""

    def __init__(self, spec: ParameterSpec) -> None:
        super().__init__()
        if spec.type is int:
            self.setDecimals(0)
        low, high, increment = limits_of(spec)
        self.setRange(low, high)
        self.setSingleStep(increment)
        if spec.default is None:
            self.setSpecialValueText(NO_VALUE)
        self.setValue(spec.default or 0.0)
        self._is_narrow = bool(spec.slider)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 - Qt's name
        super().changeEvent(event)
        if event.type() in (QEvent.Type.StyleChange, QEvent.Type.FontChange):
            self._fit()

    def _fit(self) -> None:
        """Have room for most numbers, beside a slider for no more: Qt's own is for the longest."""
        letters = self.fontMetrics().horizontalAdvance("0" * BOX_LETTERS)
        width = max(BOX_WIDTH, BOX_WIDTH - BOX_ROOM + letters)
        self.setFixedWidth(width) if self._is_narrow else self.setMinimumWidth(width)


class NumberControl:
    """A box that takes every allowed value, and a slider over the useful part where there is one.

    The box holds the value; the slider follows it and moves it. A parameter whose default is None
    has that value, too.
    """

    changed = Signal(object)  # float, int of a parameter of whole numbers, or None

    def __init__(self, spec: ParameterSpec) -> None:
        self.spec = spec
        self.name = spec.name
        self.label = label(spec)
        self.tooltip = tooltip(spec)
        self._factor = 1.0  # of what is shown
        self._zoom = 1.0  # of value and limits, where they go by the volume
        self._least = None if spec.default is not None else spec.minimum
        self.native = QWidget()
        self.native.setToolTip(self.tooltip)
        self.box = NumberBox(spec)
        self.slider: QSlider | None = None
        if spec.slider:
            low, high = spec.slider
            self._increment = spec.increment or (high - low) / 100
            self.slider = QSlider(Qt.Orientation.Horizontal)
            self.slider.setAccessibleName(spec.label)
            self.slider.setRange(round(low / self._increment), round(high / self._increment))
            self.slider.setValue(round(spec.default / self._increment))
            self.slider.valueChanged.connect(lambda at: self.box.setValue(at * self._increment))
        parts = [self.box] if self.slider is None else [self.slider, self.box]
        beside(self.native, *parts, stretch_first=True, spacing=4)
        self.box.valueChanged.connect(self._on_box)

    @property
    def value(self) -> float | None:
        """The number, or None where it may be left out and is."""
        value = round(float(self.box.value()), DECIMALS) / self._factor
        if self.spec.type is int:
            return round(value)
        if self._least is None:
            return value
        return max(value, self._least) if value else None

    @value.setter
    def value(self, value: float | None) -> None:
        self.box.setValue((value or 0.0) * self._factor)

    def show_in(self, unit: str, zoom: float) -> None:
        """Show the number in the unit of a volume; its value stays in that of the parameter.

        One whose parameter says `is_scaled` becomes as much longer or shorter as useful values are
        in this volume, `zoom` times.
        """
        spec, value = self.spec, self.value
        shown, factor = shown_unit(spec.unit, unit)
        if shown == spec.unit and self._factor == 1.0:
            return
        of_limits = zoom if spec.is_scaled else 1.0
        if value is not None:
            value *= of_limits / self._zoom
        self._factor, self._zoom = factor, of_limits
        self.label, self.tooltip = label(spec, unit), tooltip(spec, unit, of_limits)
        self.native.setToolTip(self.tooltip)
        low, high, increment = limits_of(spec)
        increment *= factor * (zoom if spec.unit == MM else 1.0)
        limits = factor * of_limits
        with QSignalBlocker(self.box):
            self.box.setRange(low * limits, high * limits)
            self.box.setSingleStep(increment)
            self.value = value
        if self.slider is not None:
            self._increment = increment
            self._follow_box(self.box.value())

    def reach(self, high: float) -> None:
        """Let the slider go from 0 to a number, in a hundred steps or so."""
        if self.slider is not None and high > 0:
            step = 10.0 ** math.floor(math.log10(high / 50))
            self._increment = step * next(k for k in (1, 2, 5, 10) if high / (k * step) <= 200)
            with QSignalBlocker(self.slider):
                self.slider.setRange(0, math.ceil(high / self._increment))
            self._follow_box(self.box.value())
            self.box.setSingleStep(self._increment)

    def _on_box(self, value: float) -> None:
        self._follow_box(value)
        self.changed.emit(self.value)

    def _follow_box(self, value: float) -> None:
        if self.slider is not None:
            with QSignalBlocker(self.slider):  # a value between two positions of the slider stays
                self.slider.setValue(round(value / self._increment))


class ColourControl:
    """A button that shows a colour and asks for another; its value is "#rrggbb"."""

    changed = Signal(str)

    def __init__(self, spec: ParameterSpec) -> None:
        self.name = spec.name
        self.label = label(spec)
        self.tooltip = tooltip(spec)
        self.native = QPushButton()
        self.native.setToolTip(self.tooltip)
        self.native.clicked.connect(self._ask)
        self._value = ""
        self.value = spec.default

    @property
    def value(self) -> str:
        """The colour; what is no colour leaves it as it is."""
        return self._value

    @value.setter
    def value(self, value: str) -> None:
        colour = QColor(value)
        if not colour.isValid() or colour.name() == self._value:
            return
        self._value = str(colour.name())
        swatch = QPixmap(*SWATCH_SIZE)
        swatch.fill(colour)
        self.native.setIcon(QIcon(swatch))
        self.native.setIconSize(swatch.size())
        self.native.setText(self._value)
        self.changed.emit(self._value)

    def _ask(self) -> None:
        colour = QColorDialog.getColor(QColor(self._value), self.native.window(), self.label)
        if colour.isValid():
            self.value = colour.name()


class IgnoreWheel(QObject):  # type: ignore[misc]
    """Keeps controls from changing while the panel is scrolled over them with the wheel."""

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Leave the wheel to the scroll area unless the control was clicked before."""
        if event.type() == QEvent.Type.Wheel and not watched.hasFocus():
            event.ignore()
            return True
        return False

    def watch(self, widget: QWidget) -> None:
        """Watch a widget and all controls inside it."""
        for each in [widget, *widget.findChildren(QWidget)]:
            if isinstance(each, (QSlider, QAbstractSpinBox)) or each.inherits("QComboBox"):
                each.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
                each.installEventFilter(self)


def parameter_control(spec: ParameterSpec) -> Any:
    """Return a control for one parameter, by the type of its default; "#rrggbb" is a colour."""
    # magicgui's box of whole numbers makes the least of what is smaller while it is typed, and 3200
    # of 300 among 32 to 4096: it serves where no number begins with one that is too small.
    if spec.type is float or (spec.type is int and (spec.minimum or 0) > 1):
        return NumberControl(spec)
    if isinstance(spec.default, str) and spec.default.startswith("#"):
        return ColourControl(spec)
    common: dict[str, Any] = {"name": spec.name, "label": label(spec), "tooltip": tooltip(spec)}
    common["value"] = spec.default
    if spec.choices:
        return widgets.ComboBox(choices=spec.choices, **common)
    if isinstance(spec.default, bool):
        box = widgets.CheckBox(**common)
        box.native.setText("")  # its label stands at the left
        return box
    return widgets.SpinBox(min=spec.minimum, max=spec.maximum, step=spec.increment, **common)


def parameter_controls(specs: Iterable[ParameterSpec]) -> list[Any]:
    return [parameter_control(spec) for spec in specs]


def layer_choice(
    name: str,
    label: str,
    layers: Callable[[], Sequence[Layer]],
    tooltip: str,
    *,
    nothing: str = "none",
    chosen: Callable[[], Any] = lambda: None,
) -> Any:
    """Return a choice among layers of the viewer, or of none.

    `layers` returns those that there are; ``reset_choices()`` asks for them again. `nothing` is
    what the choice of none is called. `chosen` returns what is chosen; where that is a
    :class:`.LayerRef`, its layer was closed, and it is offered as that, so that nothing is dropped
    in silence.
    """

    def choices(_widget: Any) -> list[Any]:
        closed = chosen()
        lost = [(f"{closed.name} (closed)", closed)] if isinstance(closed, LayerRef) else []
        return [*layers(), *lost]

    created = widgets.ComboBox(
        name=name,
        label=label,
        nullable=True,
        choices=(),
        tooltip=f"<qt>{html.escape(tooltip)}</qt>",
    )
    created.null_string = nothing
    created.choices = choices  # after it has its name, or none would stand last
    box = shrinkable(created.native)

    def name_it(text: str) -> None:
        """Say the whole name, for which the box may have no room."""
        first = "" if text == nothing else f"<b>{html.escape(text)}</b><br>"
        box.setToolTip(f"<qt>{first}{html.escape(tooltip)}</qt>")

    box.currentTextChanged.connect(name_it)
    box.view().setTextElideMode(Qt.TextElideMode.ElideMiddle)  # names of files differ at both ends
    return created


def offer_layers(choice: Any, chosen: Layer | LayerRef | None, *, quietly: bool = False) -> None:
    """Offer the layers that there are now, and show the one that is chosen.

    Of a choice made by :func:`layer_choice`; its `changed` is emitted where another one is chosen
    then, and not `quietly`. A layer that gets another name is none for a moment, which is not told.
    Another bundle may have brought the chosen one before its control heard of it: layers that come
    in between do not bring back what the control says.
    """
    before = choice.value
    with choice.changed.blocked():
        choice.reset_choices()
        if chosen is None or chosen in choice.choices:
            choice.value = chosen
    if not quietly and choice.value is not before:
        choice.changed.emit(choice.value)


def show_choice(choice: Any, chosen: Layer | LayerRef | None) -> None:
    """Show what another bundle has chosen, quietly, among the layers that are offered already."""
    offered = choice.choices
    one_was_closed = any(isinstance(each, LayerRef) for each in offered)
    if (chosen is None or chosen in offered) and not one_was_closed:
        with choice.changed.blocked():
            choice.value = chosen
    else:
        offer_layers(choice, chosen, quietly=True)


def form(controls: Sequence[Any], *, extra: Sequence[QWidget | None] = ()) -> QWidget:
    """Return controls below each other, with labels at the left and what is extra at the right."""
    whole = QWidget()
    grid = QGridLayout(whole)
    grid.setContentsMargins(0, 0, 0, 0)
    grid.setVerticalSpacing(5)
    grid.setColumnStretch(1, 1)
    for row, control in enumerate(controls):
        text = QLabel(control.label)
        text.setToolTip(control.tooltip)
        text.setBuddy(getattr(control, "box", control.native))
        grid.addWidget(text, row, 0)
        more = extra[row] if row < len(extra) else None
        grid.addWidget(control.native, row, 1, 1, 2 if more is None else 1)
        if more is not None:
            grid.addWidget(more, row, 2)
    return whole


def _row_of(form: QWidget, control: Any) -> list[QWidget]:
    """Return a control of a form with its label, and what stands at its right."""
    grid = form.layout()
    row, *_ = grid.getItemPosition(grid.indexOf(control.native))
    return [grid.itemAtPosition(row, column).widget() for column in range(3)]


def show_row(form: QWidget, control: Any, visible: bool) -> None:
    """Show or hide a control of a form, its label, and what stands at its right."""
    for widget in _row_of(form, control):
        widget.setVisible(visible)


def label_of(form: QWidget, control: Any) -> Any:
    return _row_of(form, control)[0]


def align(forms: Iterable[QWidget]) -> None:
    """Give the labels of several forms the same width, with room for bold ones."""
    width, grids = 0, [one.layout() for one in forms]
    for grid in grids:
        for row in range(grid.rowCount()):
            text = grid.itemAtPosition(row, 0).widget()
            font = text.font()
            font.setBold(True)
            letters = QFontMetrics(font).horizontalAdvance(text.text()) + 1
            width = max(width, letters, text.sizeHint().width())
    for grid in grids:
        grid.setColumnMinimumWidth(0, width)


def values_of(controls: Iterable[Any]) -> dict[str, Any]:
    return {control.name: control.value for control in controls}


def set_values(controls: Iterable[Any], values: dict[str, Any]) -> None:
    """Set the controls that `values` names, where they differ."""
    for control in controls:
        if control.name in values and control.value != values[control.name]:
            control.value = values[control.name]


def on_change(controls: Iterable[Any], callback: Callable[[], None]) -> None:
    for control in controls:
        control.changed.connect(lambda _value: callback())


def show_units(form: QWidget, controls: Iterable[Any], space: DisplaySpace) -> None:
    """Show lengths among the controls of a form in the unit of a volume, by their `show_in`."""
    for control in controls:
        if isinstance(control, NumberControl):
            control.show_in(space.unit, space.in_proportion(1.0))
            text = label_of(form, control)
            text.setText(control.label)
            text.setToolTip(control.tooltip)


def label(spec: ParameterSpec, of_volume: str = MM) -> str:
    """Return the label of a parameter with its unit, in a volume of some unit."""
    shown, _ = shown_unit(spec.unit, of_volume)
    unit = SHORT_UNITS.get(shown, shown)
    return f"{spec.label} ({unit})" if unit else spec.label


def value_text(spec: ParameterSpec, value: Any, of_volume: str = MM, zoom: float = 1.0) -> str:
    """Return a value of a parameter with its unit, in words."""
    if value is None:
        return NO_VALUE
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        return value
    unit, factor = shown_unit(spec.unit, of_volume)
    return f"{value * factor * zoom:g} {unit}".rstrip()


def tooltip(spec: ParameterSpec, of_volume: str = MM, zoom: float = 1.0) -> str:
    """Return the help text of a parameter with its limits and default, as a tooltip."""
    text = spec.help
    if spec.minimum is not None and spec.maximum is not None:
        shown, factor = shown_unit(spec.unit, of_volume)
        low, high = factor * zoom * spec.minimum, factor * zoom * spec.maximum
        text += f" From {low:g} to {high:g} {shown}".rstrip() + ";"
        text += f" default {spec.by_fod or value_text(spec, spec.default, of_volume, zoom)}."
    return f"<qt>{html.escape(text)}</qt>"  # rich text wraps; plain tooltips are one long line


class DefaultMarks:
    """The form of some controls, each of which that `specs` names has a mark.

    `reset` takes the name of a control, which is to have its default again.
    """

    def __init__(
        self, controls: Sequence[Any], specs: dict[str, ParameterSpec], reset: Callable[[str], None]
    ) -> None:
        self._specs = specs
        self.unit = MM  # of the volume
        self._zoom = 1.0
        self._kind: InputKind | None = None  # of what is tracked in
        self._controls = {control.name: control for control in controls}
        self._marked: dict[str, tuple[bool, Any]] = {}  # as they are shown
        # By the name of a control; enabled where it is not at its default.
        self.arrows = {name: QToolButton() for name in self._controls if name in specs}
        for name, arrow in self.arrows.items():
            arrow.setFixedWidth(ARROW_WIDTH)
            arrow.setStyleSheet(ARROW_STYLE)
            arrow.clicked.connect(lambda _checked=False, n=name: reset(n))
        self.form: QWidget = form(controls, extra=[self.arrows.get(c.name) for c in controls])
        self.mark({})

    def show_units(self, space: DisplaySpace, kind: InputKind | None = None) -> None:
        """Show lengths in the unit of a volume, see :func:`.controls.show_units`.

        In the words for FODs, or for another `kind` of input.
        """
        shown = space.unit, space.in_proportion(1.0), kind
        if shown == (self.unit, self._zoom, self._kind):
            return
        self.unit, self._zoom, self._kind = shown
        self._marked.clear()
        show_units(self.form, self._controls.values(), space)
        for control in self._controls.values():
            label_of(self.form, control).setText(self._in_words(control.label))
            control.native.setToolTip(self._in_words(str(control.tooltip)))

    def _in_words(self, text: str) -> str:
        return text if self._kind is None else self._kind.in_words(text)

    def mark(self, defaults: Mapping[str, Any]) -> None:
        """Mark the controls that are not at their defaults, which are what the arrows give."""
        for name, arrow in self.arrows.items():
            is_other, default, spec = name in defaults, defaults.get(name), self._specs[name]
            if self._marked.get(name) == (is_other, default):
                continue
            self._marked[name] = is_other, default
            arrow.setEnabled(is_other)
            arrow.setText(ARROW if is_other else "")
            said = f"Default: {value_text(spec, default, self.unit)}" if is_other else ""
            arrow.setToolTip(f"{said}. Click to have it back." if said else AT_DEFAULT)
            arrow.setAccessibleName(said and f"{spec.label}: back to the default")
            label = label_of(self.form, self._controls[name])
            font = label.font()
            font.setBold(is_other)
            label.setFont(font)
            help_text = self._in_words(str(self._controls[name].tooltip))
            if said:
                help_text = help_text.replace("<qt>", f"<qt><b>{html.escape(said)}.</b> ", 1)
            label.setToolTip(help_text)
