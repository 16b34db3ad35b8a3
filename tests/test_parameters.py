"""Tracking parameters: one home of defaults, limits and texts; bad values are named."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from napari_tractography.errors import InvalidParameterError
from napari_tractography.parameters import TrackingParameters, parameter_specs

NUMBERS = [s for s in parameter_specs() if s.minimum is not None]
CHOICES = [s for s in parameter_specs() if s.choices]


def spec_id(spec):
    return spec.name


def test_defaults_are_those_that_scripts_rely_on():
    parameters = TrackingParameters()
    expected = {
        "algorithm": "probabilistic",
        "step_mm": 0.5,
        "max_angle_deg": 45.0,
        "min_probability": 0.005,
        "min_amplitude": 0.05,
        "interpolation": "trilinear",
        "direction": "both",
        "start": "sampled",
        "min_length_mm": 0.0,
        "max_length_mm": 250.0,
        "record_every": 1,
        "output": "streamlines",
        "n_directions": 724,
        "positivity": "clip",
        "random_seed": 0,
    }
    assert {name: getattr(parameters, name) for name in expected} == expected


def test_every_parameter_says_what_widgets_and_help_texts_need():
    names = [field.name for field in dataclasses.fields(TrackingParameters)]
    assert [s.name for s in parameter_specs()] == names
    for spec in parameter_specs():
        assert spec.label
        assert spec.help.endswith(".")
        assert spec.section in ("main", "more")
        units = {"_mm": "mm", "_deg": "degrees", "gamma": "1/mm"}
        suffix = next((s for s in units if spec.name.endswith(s)), None)
        assert spec.unit == (units[suffix] if suffix else "")
        if isinstance(spec.default, str):
            assert spec.default in spec.choices
        elif not isinstance(spec.default, bool):
            assert spec.minimum <= spec.default <= spec.maximum
            assert spec.increment > 0


def test_flags_are_the_names_without_units():
    flags = {spec.name: spec.flag for spec in parameter_specs()}
    assert flags["step_mm"] == "--step"
    assert flags["max_angle_deg"] == "--max-angle"
    assert flags["random_seed"] == "--seed"
    assert len(set(flags.values())) == len(flags)


@pytest.mark.parametrize("spec", NUMBERS, ids=spec_id)
def test_limits_are_inclusive_and_beyond_them_is_refused(spec):
    spec.check(spec.minimum)
    spec.check(spec.maximum)
    for value in (spec.minimum - 1, spec.maximum + 1 + abs(spec.maximum)):
        with pytest.raises(InvalidParameterError, match=f"{spec.name} = .* out of range; choose"):
            TrackingParameters(**{spec.name: value})


@pytest.mark.parametrize("spec", NUMBERS, ids=spec_id)
@pytest.mark.parametrize(
    "value", ["a", None, True, float("nan"), float("inf"), [1, 2]], ids=lambda v: repr(v)
)
def test_what_is_no_number_is_refused(spec, value):
    with pytest.raises(InvalidParameterError, match=spec.name):
        TrackingParameters(**{spec.name: value})


@pytest.mark.parametrize("spec", CHOICES, ids=spec_id)
def test_unknown_choices_are_refused_and_known_ones_listed(spec):
    with pytest.raises(InvalidParameterError, match=f"{spec.name} = 'magic'.*{spec.choices[0]}"):
        TrackingParameters(**{spec.name: "magic"})
    with pytest.raises(InvalidParameterError, match="must be of type str"):
        TrackingParameters(**{spec.name: 3})


def test_numbers_are_kept_in_their_own_type():
    parameters = TrackingParameters(step_mm=1, record_every=2.0, n_directions=np.int64(100))
    assert (type(parameters.step_mm), type(parameters.record_every)) == (float, int)
    assert type(parameters.n_directions) is int
    with pytest.raises(InvalidParameterError, match="record_every must be of type int"):
        TrackingParameters(record_every=1.5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param({"n_directions": 101}, "101 is odd.* such as 102", id="odd set"),
        pytest.param({"step_mm": 5, "max_length_mm": 4}, "shorter than one step", id="one step"),
        pytest.param(
            {"min_length_mm": 60, "max_length_mm": 50},
            "60 mm exceeds max_length_mm = 50",
            id="both",
        ),
    ],
)
def test_contradictions_are_named(values, message):
    with pytest.raises(InvalidParameterError, match=message):
        TrackingParameters(**values)


def test_replace_checks_and_leaves_the_old_ones_alone():
    old = TrackingParameters()
    new = old.replace(step_mm=0.25)
    assert (old.step_mm, new.step_mm) == (0.5, 0.25)
    with pytest.raises(InvalidParameterError, match="stepp is no tracking parameter"):
        old.replace(stepp=1)
    with pytest.raises(InvalidParameterError, match="step_mm = -1 mm is out of range"):
        old.replace(step_mm=-1)


def test_parameters_are_frozen_and_comparable():
    assert TrackingParameters() == TrackingParameters()
    assert hash(TrackingParameters()) == hash(TrackingParameters())
    with pytest.raises(dataclasses.FrozenInstanceError):
        TrackingParameters().step_mm = 1


def test_dictionary_survives_json():
    parameters = TrackingParameters(step_mm=0.1, random_seed=2**63 - 1)
    assert TrackingParameters(**json.loads(json.dumps(parameters.to_dict()))) == parameters


@pytest.mark.parametrize(
    ("max_length_mm", "step_mm", "steps"), [(250, 0.5, 500), (1, 0.1, 10), (1, 0.3, 3), (1, 1, 1)]
)
def test_steps_of_the_longest_streamline(max_length_mm, step_mm, steps):
    parameters = TrackingParameters(max_length_mm=max_length_mm, step_mm=step_mm)
    assert parameters.max_steps == steps
