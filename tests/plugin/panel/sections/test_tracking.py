"""The section Tracking: values suit the FOD unless a person set them, and it says which."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hands import fod_layer
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QDialog, QLabel, QScrollArea

from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.model.purposes import measured_table
from napari_tractography.plugin.panel.sections.tracking import NONE_SUITED, NOT_SUITED
from napari_tractography.plugin.panel.widgets.controls import label_of

MIDDLE = np.zeros((1, 3))


@pytest.fixture(scope="module")
def fine() -> Any:
    return make_phantom("cross", affine=np.diag([0.5, 0.5, 0.5, 1.0]), lmax=4)


def control(panel: Any, name: str) -> Any:
    return next(c for c in panel.tracking.controls if c.name == name)


def test_values_suit_the_fod_and_say_where_they_come_from(open_model: Any, cross: Any) -> None:
    panel = open_model(prepared=False)
    assert panel.tracking.origin.text() == NOT_SUITED
    assert not panel.tracking.reset.isEnabled()
    panel.viewer.add_layer(fod_layer(cross))
    wanted = TrackingParameters.for_fod(cross)
    assert panel.session.parameters == wanted
    for name in ("step_mm", "min_radius_mm", "min_amplitude", "min_length_mm", "max_length_mm"):
        assert control(panel, name).value == getattr(wanted, name)
    assert control(panel, "max_angle_deg").value == pytest.approx(31.93, abs=0.01)
    said = panel.tracking.origin.text()
    assert said.startswith("Defaults for voxels of 2 mm: step 0.55 mm (0.275 voxel)")
    assert "0.12 of its strong peaks" in said


def test_an_algorithm_is_chosen_by_what_it_is_for_and_the_figures_are_a_click_away(
    open_model: Any, cross: Any
) -> None:
    panel = open_model(cross, prepared=False)
    buttons = panel.tracking.purposes.buttons

    def pressed() -> list[str]:
        return [name for name, each in buttons.items() if each.isChecked()]

    assert pressed() == ["probabilistic"]
    buttons["transport"].click()
    assert panel.session.parameters == TrackingParameters.for_fod(cross, algorithm="transport")
    assert pressed() == ["transport"]
    buttons["transport"].click()  # which is chosen already
    assert pressed() == ["transport"]
    panel.session.document.undo()
    assert panel.session.parameters == TrackingParameters.for_fod(cross)
    assert pressed() == ["probabilistic"]
    control(panel, "algorithm").value = "sd_stream"
    assert pressed() == []
    panel.tracking.purposes.figures.click()
    (dialog,) = panel.tracking.purposes.findChildren(QDialog)
    shown = " ".join(each.text() for each in dialog.findChildren(QLabel))
    for name, *figures in measured_table():
        assert name in shown
        assert all(figure in shown for figure in figures)
    scroll = dialog.findChild(QScrollArea)  # nothing is cut off, but by the screen
    assert all(
        each.height() >= each.heightForWidth(each.width())
        for each in dialog.findChildren(QLabel)
        if each.hasHeightForWidth()
    )
    assert scroll.horizontalScrollBar().maximum() == 0
    assert scroll.verticalScrollBar().maximum() == 0
    dialog.close()


def test_what_is_set_stays_with_another_fod_and_can_be_given_back(
    open_model: Any, cross: Any, fine: Any
) -> None:
    panel = open_model(cross, prepared=False)
    control(panel, "step_mm").value = 0.3
    control(panel, "algorithm").value = "deterministic"
    panel.viewer.add_layer(fod_layer(fine))
    panel.data.fod_choice.value = panel.viewer.layers[-1]
    assert panel.session.parameters == TrackingParameters.for_fod(
        fine, step_mm=0.3, algorithm="deterministic"
    )
    assert control(panel, "step_mm").value == 0.3
    assert control(panel, "max_length_mm").value == 50.0
    assert panel.tracking.reset.isEnabled()
    panel.tracking.reset.click()
    assert panel.session.parameters == TrackingParameters.for_fod(fine, algorithm="deterministic")
    assert control(panel, "step_mm").value == 0.1
    assert not panel.tracking.reset.isEnabled()


def test_cone_and_radius_follow_each_other(open_model: Any, cross: Any) -> None:
    panel = open_model(cross, prepared=False)
    control(panel, "step_mm").value = 0.2
    assert control(panel, "max_angle_deg").value == pytest.approx(11.48, abs=0.01)
    control(panel, "max_angle_deg").value = 30.0
    assert control(panel, "min_radius_mm").value == 0.386
    assert panel.session.parameters.min_radius_mm is None
    control(panel, "step_mm").value = 0.5
    assert control(panel, "min_radius_mm").value == 0.966
    assert panel.session.parameters.max_angle_deg == 30.0
    control(panel, "min_radius_mm").value = 1.0
    assert control(panel, "max_angle_deg").value == pytest.approx(28.96, abs=0.01)


def test_all_set_by_hand_is_said(open_model: Any, cross: Any) -> None:
    panel = open_model(cross, prepared=False)
    panel.set_parameters(
        step_mm=0.5,
        max_angle_deg=45.0,
        min_amplitude=0.05,
        min_length_mm=0.0,
        max_length_mm=250.0,
        look_ahead_mm=0.0,
        lobe_deg=0.0,
        min_roundness=0.0,
    )
    said = panel.tracking.origin.text()
    assert said.startswith(NONE_SUITED)
    assert "Set by you: step, cone angle, minimum length, maximum length, minimum amplitude" in said
    assert "look ahead, lobe, roundness" in said
    assert panel.session.parameters == TrackingParameters()


def test_what_is_not_the_default_is_marked_and_an_arrow_gives_it_back(
    open_window: Any, cross: Any, fine: Any
) -> None:
    panel = open_window(cross, size=(1280, 800))
    panel.tracking.restore({})
    step, arrow = control(panel, "step_mm"), panel.tracking.arrows["step_mm"]
    label = label_of(panel.tracking.main_form, step)
    assert not arrow.isEnabled()
    assert not label.font().bold()
    step.box.setFocus()
    step.box.selectAll()
    QTest.keyClicks(step.box, "0.3")
    QTest.keyClick(step.box, Qt.Key.Key_Return)
    assert panel.session.parameters.step_mm == 0.3
    assert label.font().bold()
    assert "Default: 0.55 mm" in label.toolTip()
    assert "Default: 0.55 mm" in arrow.toolTip()
    assert "Set by you: step." in panel.tracking.origin.text()
    panel.viewer.add_layer(fod_layer(fine))
    panel.data.fod_choice.value = panel.viewer.layers[-1]
    assert "Default: 0.138 mm" in arrow.toolTip()  # of the FOD that is chosen now
    QTest.mouseClick(arrow, Qt.MouseButton.LeftButton)
    assert panel.session.parameters == TrackingParameters.for_fod(fine)
    assert not arrow.isEnabled()
    assert not label.font().bold()
    assert "Set by you" not in panel.tracking.origin.text()


def test_a_value_typed_that_is_the_default_is_not_marked(open_model: Any, cross: Any) -> None:
    panel = open_model(cross, prepared=False)
    panel.set_parameters(step_mm=0.55)
    assert not panel.tracking.arrows["step_mm"].isEnabled()
    panel.set_parameters(max_angle_deg=30.0)
    assert panel.session.tracking.not_default == {"max_angle_deg": pytest.approx(31.93, abs=0.01)}


def test_parameters_show_where_they_mean_something(open_model: Any, cross: Any) -> None:
    panel = open_model(cross, prepared=False)

    def shown() -> set[str]:
        return {c.name for c in panel.tracking.controls if not c.native.isHidden()}

    everywhere = {"min_length_mm", "max_length_mm", "step_mm", "edge"}
    langevin = {"gamma", "gamma_noise", "look_ahead_mm", "adaptive"}
    assert everywhere | {"look_ahead_mm"} <= shown()
    assert not {"gamma", "gamma_noise", "adaptive", "n_directions", "samples"} & shown()
    control(panel, "algorithm").value = "ifod2"
    assert "samples" in shown()
    assert not langevin & shown()
    assert panel.session.parameters.max_angle_deg == 45.0
    control(panel, "algorithm").value = "transport"
    assert "gamma" in shown()
    assert "gamma_noise" not in shown()
    control(panel, "algorithm").value = "diffusion"
    assert everywhere | langevin <= shown()
    control(panel, "interpolation").value = "nearest"
    assert not {"edge", "look_ahead_mm"} & shown()
    main = [c.name for c in panel.tracking.main]
    assert main.index("max_length_mm") < main.index("min_amplitude")
    panel.set_parameters(n_directions=100, gamma=3.0)
    assert {"n_directions", "gamma"} <= shown()
    assert "drift" in panel.tracking.origin.text()
    control(panel, "algorithm").value = "probabilistic"
    assert "gamma" not in shown()
    assert "look_ahead_mm" in shown()
    assert "drift" not in panel.tracking.origin.text()


def test_among_peaks_transport_alone_looks_ahead(open_model: Any) -> None:
    peaks = Fod.from_peaks(np.broadcast_to([1.0, 0, 0], (4, 4, 4, 3)), np.eye(4))
    panel = open_model(peaks, prepared=False)

    def shown() -> set[str]:
        return {c.name for c in panel.tracking.controls if not c.native.isHidden()}

    assert "step_mm" in shown()
    assert control(panel, "algorithm").value == "transport"  # it suits peaks
    assert not panel.session.tracking.not_default
    assert "look_ahead_mm" in shown()
    assert "min_roundness" not in shown()  # which is of an FOD all around
    control(panel, "algorithm").value = "probabilistic"
    assert not {"look_ahead_mm", "lobe_deg"} & shown()
    assert panel.session.tracking.not_default == {"algorithm": "transport"}


def test_another_fod_changes_what_is_tracked_only_once(
    open_model: Any, cross: Any, fine: Any
) -> None:
    """Live would otherwise track in the new FOD with the values of the old one first."""
    panel = open_model(cross, prepared=False)
    panel.viewer.add_layer(fod_layer(fine))
    seen = []
    panel.session.changed.connect(lambda: seen.append(panel.session.parameters.step_mm))
    panel.data.fod_choice.value = panel.viewer.layers[-1]
    assert seen == [0.138]


def test_an_impossible_value_is_told_and_the_run_refused(open_model: Any, cross: Any) -> None:
    panel = open_model(cross, prepared=False)
    panel.session.add_seeds_mm(MIDDLE)
    before = panel.session.parameters
    control(panel, "n_directions").value = 101
    assert "101 is odd" in panel.results.label.text()
    assert control(panel, "n_directions").value == 101
    assert panel.session.parameters == before
    panel.run()
    assert panel.runs.current is None
    control(panel, "n_directions").value = 102
    assert panel.session.parameters.n_directions == 102


def test_what_was_chosen_for_an_fod_is_not_kept_for_the_next(
    open_model: Any, cross: Any, fresh_settings: Any
) -> None:
    panel = open_model(cross, prepared=False)
    panel.set_parameters(min_amplitude=0.05, max_length_mm=60.0)  # the first is a default, too
    panel.close_session()
    fresh_settings()
    again = open_model(prepared=False)
    assert again.session.tracking.chosen == {"min_amplitude": 0.05, "max_length_mm": 60.0}
    again.viewer.add_layer(fod_layer(cross))
    assert again.session.parameters == TrackingParameters.for_fod(
        cross, min_amplitude=0.05, max_length_mm=60.0
    )


def test_most_streamlines_at_the_maximum_length_is_said_in_the_result(
    open_model: Any, cross: Any, settle: Any
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.set_parameters(max_length_mm=12.0)
    panel.run()
    settle(panel)
    assert "reached the maximum length of 12 mm: raise" in panel.results.label.text()
