"""Tracking parameters: one home of defaults, limits and texts; bad values are named."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from napari_tractography.errors import InvalidParameterError
from napari_tractography.fields.sh import sh_matrix
from napari_tractography.geometry.directions import direction_set
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters, parameter_specs

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
        "min_radius_mm": None,
        "min_probability": 0.0,
        "min_amplitude": 0.05,
        "interpolation": "trilinear",
        "edge": "voxel",
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
        if spec.default is None:
            assert spec.minimum < spec.maximum
        elif isinstance(spec.default, str):
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
    for value in (min(spec.minimum - 1, -1), spec.maximum + 1 + abs(spec.maximum)):
        with pytest.raises(InvalidParameterError, match=f"{spec.name} = .* out of range; choose"):
            TrackingParameters(**{spec.name: value})


@pytest.mark.parametrize("spec", NUMBERS, ids=spec_id)
@pytest.mark.parametrize(
    "value",
    ["a", "1", b"1", None, True, np.True_, float("nan"), float("inf"), [1, 2], 10**400],
    ids=lambda v: repr(v)[:9],
)
def test_what_is_no_number_is_refused(spec, value):
    if value is None and spec.default is None:
        pytest.skip("None is a value of it")
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
    assert TrackingParameters(adaptive=np.True_).adaptive is True
    assert TrackingParameters(step_mm=np.float32(0.5)).step_mm == 0.5
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


@pytest.mark.parametrize(
    ("step_mm", "radius_mm", "angle"),
    [(0.25, 0.5625, 25.6792), (1.0, 1.0, 60.0), (1.0, 1 / 2**0.5, 90.0)],
)
def test_the_cone_follows_from_the_smallest_radius_and_the_step(step_mm, radius_mm, angle):
    """Steps are chords of the circle: sin(angle / 2) = step / (2 radius)."""
    parameters = TrackingParameters(step_mm=step_mm, min_radius_mm=radius_mm)
    assert parameters.max_angle_deg == pytest.approx(angle, abs=1e-4)
    turned = np.radians(parameters.max_angle_deg) / 2
    assert 2 * radius_mm * np.sin(turned) == pytest.approx(step_mm, abs=1e-7)


@pytest.mark.parametrize("radius_mm", [0.3535, 28.7, 100.0])
def test_a_radius_that_no_cone_has_is_refused_with_those_that_there_are(radius_mm):
    with pytest.raises(InvalidParameterError, match=r"steps of 0.5 mm; choose 0.354 to 28.6 mm"):
        TrackingParameters(step_mm=0.5, min_radius_mm=radius_mm)


def test_an_angle_and_a_radius_that_disagree_are_refused():
    with pytest.raises(InvalidParameterError, match=r"max_angle_deg = 30 .*min_radius_mm = 1 mm"):
        TrackingParameters(max_angle_deg=30.0, min_radius_mm=1.0)


def test_parameters_with_a_radius_survive_json_and_are_the_same():
    parameters = TrackingParameters(step_mm=0.37, min_radius_mm=1.1)
    again = TrackingParameters(**json.loads(json.dumps(parameters.to_dict())))
    assert again == parameters
    assert again.max_angle_deg == parameters.max_angle_deg
    finer = TrackingParameters(**{**parameters.to_dict(), "step_mm": 0.2})
    assert finer == parameters.replace(step_mm=0.2)


def test_of_angle_and_radius_the_newest_counts():
    parameters = TrackingParameters(step_mm=0.5, min_radius_mm=1.0)
    finer = parameters.replace(step_mm=0.25)
    assert (finer.min_radius_mm, finer.max_angle_deg) == (1.0, pytest.approx(14.3615, abs=1e-3))
    by_angle = parameters.replace(max_angle_deg=30.0)
    assert (by_angle.min_radius_mm, by_angle.max_angle_deg) == (None, 30.0)
    assert by_angle.replace(min_radius_mm=1.0) == parameters
    without = parameters.replace(min_radius_mm=None)
    assert (without.min_radius_mm, without.max_angle_deg) == (None, parameters.max_angle_deg)
    with pytest.raises(InvalidParameterError, match="contradict each other"):
        parameters.replace(max_angle_deg=30.0, min_radius_mm=2.0)


def test_there_is_no_choice_of_how_the_fod_is_evaluated():
    with pytest.raises(TypeError, match="evaluation"):
        TrackingParameters(evaluation="direct")


# For an FOD


def one_fibre(voxel_mm=2.0, amplitude=1.0, affine=None):
    """Voxels of the same fibre along x, lmax 6, whose largest amplitude is given."""
    unit = direction_set(724)[:1].astype(float)
    row = sh_matrix(unit, 6, "tournier07")[0]
    row = row * amplitude / (row @ row)
    coefficients = np.broadcast_to(row, (6, 5, 4, row.size))
    return Fod(coefficients, np.diag([voxel_mm] * 3 + [1]) if affine is None else affine)


def test_defaults_for_an_fod_follow_its_voxels():
    parameters = TrackingParameters.for_fod(one_fibre(voxel_mm=1.25))
    assert parameters.step_mm == pytest.approx(0.275 * 1.25, rel=0.01)
    assert parameters.min_radius_mm == pytest.approx(0.5 * 1.25, rel=0.01)
    assert parameters.max_angle_deg == pytest.approx(31.9, abs=0.1)
    assert (parameters.min_length_mm, parameters.max_length_mm) == (6.25, 125.0)
    assert parameters.min_amplitude == 0.12
    rest = {"algorithm", "interpolation", "edge", "min_probability", "start", "n_directions"}
    assert all(getattr(parameters, n) == getattr(TrackingParameters(), n) for n in rest)


def test_voxels_that_are_no_cubes_count_by_their_geometric_mean():
    oblong = one_fibre(affine=np.diag([1.0, 2.0, 4.0, 1.0]))
    assert TrackingParameters.for_fod(oblong).step_mm == 0.55


@pytest.mark.parametrize(
    ("amplitude", "floor"),
    [(0.5, 0.06), (1.0, 0.12), (3.0, 0.36), (1000.0, 120.0), (0.001, 0.00012)],
)
def test_the_floor_is_in_proportion_to_amplitudes(amplitude, floor):
    found = TrackingParameters.for_fod(one_fibre(amplitude=amplitude)).min_amplitude
    assert found == pytest.approx(floor, rel=0.05)


def test_what_is_given_stays_and_what_would_contradict_it_gives_way():
    fod = one_fibre(voxel_mm=2.0)
    for_fod = TrackingParameters.for_fod
    by_angle = for_fod(fod, max_angle_deg=45.0)
    assert (by_angle.max_angle_deg, by_angle.min_radius_mm) == (45.0, None)
    finer = for_fod(fod, step_mm=0.2)
    assert (finer.step_mm, finer.min_radius_mm) == (0.2, 1.0)
    assert finer.max_angle_deg == pytest.approx(11.48, abs=0.01)
    assert for_fod(fod, step_mm=5.0).max_angle_deg == 90.0
    assert for_fod(fod, step_mm=0.01).max_angle_deg == 1.0
    assert for_fod(fod, min_radius_mm=None).max_angle_deg == 31.9
    assert for_fod(fod, min_radius_mm=0.1).max_angle_deg == 90.0
    assert for_fod(fod, min_radius_mm=100.0).max_angle_deg == 1.0
    assert for_fod(fod, max_length_mm=0.1).step_mm == 0.1
    assert for_fod(fod, min_length_mm=500.0).max_length_mm == 500.0
    assert for_fod(fod, max_length_mm=5.0).min_length_mm == 5.0
    with pytest.raises(InvalidParameterError, match="stepp is no tracking parameter"):
        for_fod(fod, stepp=1.0)
    with pytest.raises(InvalidParameterError, match="step_mm must be of type float"):
        for_fod(fod, step_mm="wide")
    with pytest.raises(InvalidParameterError, match="60 mm exceeds max_length_mm = 50"):
        for_fod(fod, min_length_mm=60.0, max_length_mm=50.0)


@pytest.mark.parametrize("voxel_mm", [0.005, 200.0])
def test_voxels_of_any_size_have_defaults(voxel_mm):
    parameters = TrackingParameters.for_fod(one_fibre(voxel_mm=voxel_mm))
    assert parameters.step_mm == pytest.approx(min(0.275 * voxel_mm, 10.0), rel=0.01)
    assert TrackingParameters(**parameters.to_dict()) == parameters
