"""Tracking parameters while they are chosen: what a person set stays, the rest suits the FOD."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from napari_tractography.errors import InvalidParameterError
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.plugin.session.tracking_values import BY_FOD, TrackingValues

COARSE = make_phantom("cross", lmax=4)
FINE = make_phantom("cross", affine=np.diag([0.5, 0.5, 0.5, 1.0]), lmax=4)


def test_without_an_fod_they_are_the_defaults_of_scripts() -> None:
    values = TrackingValues()
    assert values.parameters() == TrackingParameters()
    assert values.summary() == ""


def test_what_a_person_set_stays_when_the_fod_changes() -> None:
    assert TrackingValues(COARSE).parameters() == TrackingParameters.for_fod(COARSE)
    values = TrackingValues(FINE, chosen={"min_amplitude": 0.2, "algorithm": "deterministic"})
    found = values.parameters()
    assert (found.min_amplitude, found.algorithm) == (0.2, "deterministic")
    assert found.step_mm == pytest.approx(0.1)
    assert values.suited == [name for name in BY_FOD if name not in values.chosen]
    assert "minimum amplitude" not in values.summary()
    values = TrackingValues(FINE, chosen={"algorithm": "deterministic"})
    assert values.parameters() == TrackingParameters.for_fod(FINE, algorithm="deterministic")


def test_a_value_set_to_the_default_is_set_all_the_same() -> None:
    values = TrackingValues(COARSE, chosen={"step_mm": TrackingParameters().step_mm})
    assert values.parameters().step_mm == 0.5


def test_a_cone_or_a_radius_that_was_chosen_is_not_suited() -> None:
    values = TrackingValues(COARSE, chosen={"max_angle_deg": 40.0})
    assert values.parameters().min_radius_mm is None
    assert not {"min_radius_mm", "max_angle_deg"} & set(values.suited)
    values = TrackingValues(COARSE, chosen={"min_radius_mm": 1.5})
    assert values.parameters().min_radius_mm == 1.5
    assert values.parameters().max_angle_deg == pytest.approx(21.13, abs=0.01)


def test_an_impossible_value_is_told_and_may_be_put_right() -> None:
    values = TrackingValues(chosen={"n_directions": 101})
    with pytest.raises(InvalidParameterError, match="101 is odd"):
        values.parameters()
    assert TrackingValues(COARSE, chosen=values.chosen).summary() == ""
    values = TrackingValues(COARSE, chosen={"n_directions": 102})
    assert values.parameters().n_directions == 102


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"max_angle": 10.0, "step_mm": 3.0}, "max_angle is no parameter of the panel"),
        ({"radius_mm": float("nan")}, "radius_mm"),
        ({"radius_mm": -1.0, "step_mm": 0.7}, "radius_mm"),
        ({"step_mm": 50.0, "n_per_seed": 7}, "step_mm"),
        ({"max_angle_deg": 180.0}, "max_angle_deg"),
        ({"min_length_mm": 90.0, "max_length_mm": 80.0}, "max_length_mm"),
        ({"max_angle_deg": 30.0, "min_radius_mm": 9.0}, "min_radius_mm"),
        ({"n_per_seed": 0}, "n_per_seed"),
        ({"algorithm": "foo"}, "algorithm"),
        ({"step_mm": "a"}, "step_mm"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_values_of_a_script_that_cannot_be_are_refused_and_change_nothing(
    open_model: Any, cross: Any, values: dict[str, Any], says: str
) -> None:
    panel = open_model(cross)
    session = panel.session
    before = session.parameters, session.seeding, dict(session.tracking.chosen)
    with pytest.raises(InvalidParameterError, match=says):
        panel.set_parameters(**values)
    assert (session.parameters, session.seeding, session.tracking.chosen) == before
    panel.set_parameters(step_mm=0.7, n_per_seed=7)  # goes on as ever
    assert (session.parameters.step_mm, session.seeding.n_per_seed) == (0.7, 7)
