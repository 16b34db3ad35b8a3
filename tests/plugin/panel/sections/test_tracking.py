"""The section Tracking: values suit the FOD unless a person set them, and it says which."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hands import fod_layer

from napari_tractography.parameters import TrackingParameters
from napari_tractography.phantoms import make_phantom
from napari_tractography.plugin.panel.sections.tracking import NONE_SUITED, NOT_SUITED

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
    assert control(panel, "max_angle_deg").value == pytest.approx(23.07, abs=0.01)
    said = panel.tracking.origin.text()
    assert said.startswith("Defaults for voxels of 2 mm: step 0.4 mm (voxel / 5)")
    assert "the FOD is scaled as MRtrix3's" in said


def test_what_is_set_stays_with_another_fod_and_can_be_given_back(
    open_model: Any, cross: Any, fine: Any
) -> None:
    panel = open_model(cross, prepared=False)
    control(panel, "step_mm").value = 0.3
    control(panel, "algorithm").value = "deterministic"
    panel.viewer.add_layer(fod_layer(fine))
    panel.fod_choice.value = panel.viewer.layers[-1]
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
    assert control(panel, "min_radius_mm").value is None
    assert "none" in control(panel, "min_radius_mm").box.text()
    control(panel, "step_mm").value = 0.5
    assert panel.session.parameters.max_angle_deg == 30.0
    control(panel, "min_radius_mm").value = 1.0
    assert control(panel, "max_angle_deg").value == pytest.approx(28.96, abs=0.01)


def test_all_set_by_hand_is_said(open_model: Any, cross: Any) -> None:
    panel = open_model(cross, prepared=False)
    panel.set_parameters(
        step_mm=0.5, max_angle_deg=45.0, min_amplitude=0.05, min_length_mm=0.0, max_length_mm=250.0
    )
    assert panel.tracking.origin.text() == NONE_SUITED
    assert panel.session.parameters == TrackingParameters()


def test_another_fod_changes_what_is_tracked_only_once(
    open_model: Any, cross: Any, fine: Any
) -> None:
    """Live would otherwise track in the new FOD with the values of the old one first."""
    panel = open_model(cross, prepared=False)
    panel.viewer.add_layer(fod_layer(fine))
    seen = []
    panel.session.changed.connect(lambda: seen.append(panel.session.parameters.step_mm))
    panel.fod_choice.value = panel.viewer.layers[-1]
    assert seen == [0.1]


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
    assert again.session.tracking.by_hand == {"min_amplitude": 0.05, "max_length_mm": 60.0}
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
