"""Controls made from parameter descriptions."""

from __future__ import annotations

from typing import Any

import pytest
from qtpy.QtCore import QPoint, QPointF, Qt
from qtpy.QtGui import QWheelEvent
from qtpy.QtWidgets import QAbstractSpinBox, QApplication, QLabel, QSlider

from napari_tractography.model.parameters import ParameterSpec, parameter_specs
from napari_tractography.model.seeding_parameters import seeding_specs
from napari_tractography.plugin.panel.widgets.controls import (
    IgnoreWheel,
    NumberControl,
    align,
    form,
    on_change,
    parameter_control,
    parameter_controls,
    set_values,
    values_of,
)

SPECS = [*parameter_specs(), *seeding_specs()]
by_name = pytest.mark.parametrize("spec", [pytest.param(s, id=s.name) for s in SPECS])


def other_value(spec: ParameterSpec) -> Any:
    """An allowed value that is not the default and not on the slider's grid."""
    if spec.choices:
        return next(choice for choice in spec.choices if choice != spec.default)
    if isinstance(spec.default, bool):
        return not spec.default
    assert spec.maximum is not None
    if isinstance(spec.default, int):
        return spec.default + 2
    return 1.2345 if spec.maximum > 1.2345 else 0.1234


@by_name
def test_a_control_starts_at_the_default_and_takes_any_value(qtbot: Any, spec: Any) -> None:
    control = parameter_control(spec)
    qtbot.addWidget(control.native)
    assert control.value == spec.default
    assert type(control.value) is type(spec.default)
    control.value = other_value(spec)
    assert control.value == other_value(spec)


@by_name
def test_a_control_has_a_unit_and_explains_itself(qtbot: Any, spec: Any) -> None:
    control = parameter_control(spec)
    qtbot.addWidget(control.native)
    assert control.label.startswith(spec.label)
    unit = "°" if spec.unit == "degrees" else spec.unit
    assert control.label.endswith(f"({unit})" if unit else spec.label)
    assert spec.help.split(".")[0].replace("'", "&#x27;") in control.native.toolTip()
    if spec.minimum is not None:
        assert f"{spec.maximum:g}" in control.native.toolTip()


@pytest.mark.parametrize(
    "spec", [pytest.param(s, id=s.name) for s in SPECS if isinstance(s.default, float)]
)
def test_a_control_keeps_to_the_limits(qtbot: Any, spec: Any) -> None:
    control = parameter_control(spec)
    qtbot.addWidget(control.native)
    control.value = spec.maximum * 10
    assert control.value == spec.maximum
    control.value = spec.minimum - 10
    assert control.value == spec.minimum


def a_number(**changes: Any) -> ParameterSpec:
    known: dict[str, Any] = {
        "name": "step_mm",
        "label": "Step",
        "default": 0.5,
        "help": "How far.",
        "unit": "mm",
        "minimum": 0.01,
        "maximum": 10.0,
        "increment": 0.05,
        "slider": (0.05, 2.0),
    }
    return ParameterSpec(**(known | changes))


@pytest.mark.parametrize("spec", [pytest.param(s, id=s.name) for s in SPECS if s.maximum])
def test_a_number_that_is_too_large_becomes_the_largest(qtbot: Any, spec: Any) -> None:
    control = parameter_control(spec)
    qtbot.addWidget(control.native)
    box = getattr(control, "box", control.native)
    box.selectAll()
    qtbot.keyClicks(box, f"{round(spec.maximum * 2 + 20)}")
    assert control.value == spec.maximum
    assert float(box.text()) == float(spec.maximum)


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        pytest.param("n_directions", 300, id="begins-below-the-least"),
        pytest.param("samples", 10, id="two-digits"),
        pytest.param("record_every", 20, id="any"),
    ],
)
def test_a_whole_number_is_what_was_typed(qtbot: Any, name: str, typed: int) -> None:
    control = parameter_control(next(spec for spec in SPECS if spec.name == name))
    qtbot.addWidget(control.native)
    box = getattr(control, "box", control.native)
    box.selectAll()
    qtbot.keyClicks(box, str(typed))
    assert control.value == typed
    assert isinstance(control.value, int)


def test_what_is_typed_is_taken_to_the_last_digit(qtbot: Any) -> None:
    control = NumberControl(a_number())
    qtbot.addWidget(control.native)
    control.box.selectAll()
    qtbot.keyClicks(control.box, "0.1255")
    assert control.value == 0.1255
    assert control.box.text() == "0.1255"


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "0.5"), (10.0, "10"), (0.01, "0.01"), (2000.0, "2000")]
)
def test_zeros_at_the_end_are_not_shown(qtbot: Any, value: float, text: str) -> None:
    control = NumberControl(a_number(maximum=5000.0))
    qtbot.addWidget(control.native)
    control.value = value
    assert control.box.text() == text


def test_slider_and_box_follow_each_other(qtbot: Any) -> None:
    control = NumberControl(a_number())
    qtbot.addWidget(control.native)
    seen: list[float] = []
    control.changed.connect(seen.append)
    assert control.slider is not None
    control.slider.setValue(20)
    assert control.value == pytest.approx(1.0)
    control.value = 7.0  # beyond the slider
    assert control.slider.value() == control.slider.maximum()
    control.value = 0.52  # between two of its positions
    assert control.value == 0.52
    assert seen == [1.0, 7.0, 0.52]


def test_values_are_set_and_read_by_name(qtbot: Any) -> None:
    controls = parameter_controls(SPECS)
    for control in controls:
        qtbot.addWidget(control.native)
    changed: list[int] = []
    on_change(controls, lambda: changed.append(1))
    wanted = {spec.name: other_value(spec) for spec in SPECS}
    set_values(controls, wanted | {"no such": 3})
    assert values_of(controls) == wanted
    assert len(changed) >= len(SPECS)


def test_the_wheel_scrolls_the_panel_and_changes_nothing(qtbot: Any) -> None:
    """Unless the control was clicked before."""
    controls = parameter_controls(SPECS)
    whole = form(controls)
    qtbot.addWidget(whole)
    guard = IgnoreWheel(whole)
    guard.watch(whole)
    before = values_of(controls)
    places = whole.findChildren((QSlider, QAbstractSpinBox))
    for place in places:
        turn = QWheelEvent(
            QPointF(3, 3),
            QPointF(3, 3),
            QPoint(0, 0),
            QPoint(0, 120),
            Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier,
            Qt.ScrollPhase.NoScrollPhase,
            False,
        )
        QApplication.sendEvent(place, turn)
        assert not turn.isAccepted()
    assert len(places) > 5
    assert values_of(controls) == before


def test_labels_of_several_forms_are_aligned(qtbot: Any) -> None:
    forms = [form(parameter_controls(specs)) for specs in (parameter_specs(), seeding_specs())]
    for one in forms:
        qtbot.addWidget(one)
        one.resize(400, 600)
    align(forms)
    for one in forms:
        one.show()
    starts = {
        one.layout().itemAtPosition(row, 1).widget().x()
        for one in forms
        for row in range(one.layout().rowCount())
    }
    assert len(starts) == 1
    assert all(label.toolTip() for one in forms for label in one.findChildren(QLabel))
