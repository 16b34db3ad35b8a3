"""Sweeps of a parameter: what is known of the arcs, and whether stated errors are the spread."""

from __future__ import annotations

import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.errors import InvalidParameterError, InvalidSeedsError
from napari_tractography.geometry.grid import Grid
from napari_tractography.maps.plots import plot_sweep
from napari_tractography.maps.spreadsheets import sweep_table
from napari_tractography.maps.sweeps import _coarse, sweep, swept
from napari_tractography.model.phantoms import make_phantom, phantom_lines_mm, phantom_seeds_mm
from napari_tractography.streamlines.tractogram import Tractogram
from napari_tractography.tracking.inputs import TrackingInput


@pytest.fixture(scope="module")
def arcs() -> nt.Fod:
    return make_phantom("arcs")


@pytest.fixture(scope="module")
def parameters(arcs: nt.Fod) -> nt.TrackingParameters:
    return nt.TrackingParameters.for_fod(arcs)


def seeds_of(n: int, random_seed: int = 0) -> nt.Seeds:
    return nt.Seeds.in_sphere(phantom_seeds_mm("arcs")[0], 2.0, n, random_seed=random_seed)


def test_each_value_is_a_run_of_its_own(arcs: nt.Fod, parameters: nt.TrackingParameters) -> None:
    values = [8.0, 40.0]
    end = nt.Region.sphere(phantom_lines_mm("arcs")[0][0][5], 8.0, "include")
    found = sweep(arcs, seeds_of(60), parameters, name="max_angle_deg", values=values, valid=[end])
    assert found.values.tolist() == [8.0, parameters.max_angle_deg, 40.0]
    assert found.chosen == 1
    for k, changed in (
        (0, parameters.replace(max_angle_deg=8.0)),
        (1, parameters),
        (2, parameters.replace(max_angle_deg=40.0)),
    ):
        run = nt.track(arcs, seeds_of(60), changed)
        assert found.n_streamlines[k] == len(run)
        assert found.measured["mean_length_mm"][k] == pytest.approx(run.lengths_mm.mean())
        valid = len(run.select(regions=[end])) / len(run)
        assert found.measured["share_valid"][k] == pytest.approx(valid)
        assert found.measured["share_accepted"][k] == len(run) / 60
    assert [each[1] for each in found.errors.values()] == [0, 0, 0, 0]


def test_lengths_above_the_longest_streamline_change_nothing(
    arcs: nt.Fod, parameters: nt.TrackingParameters
) -> None:
    """The arch's streamlines are 140 mm long: what cuts them is another answer, the rest flat."""
    longest = float(nt.track(arcs, seeds_of(100), parameters).lengths_mm.max())
    values = [30.0, 0.8 * longest, longest + 1.0, 180.0, 300.0]
    found = sweep(arcs, seeds_of(100), parameters, name="max_length_mm", values=values)
    assert found.flat == (longest + 1.0, 300.0)
    beyond = found.values > longest
    for measured, errors in zip(found.measured.values(), found.errors.values(), strict=True):
        assert len(set(measured[beyond])) == 1
        assert not errors[beyond].any()
    assert found.is_alike.tolist() == beyond.tolist()
    assert "share_valid" not in found.measured
    assert f"Maximum length 200 mm: flat from {longest + 1.0:.4g} to 300 mm" in found.text


def test_a_floor_above_all_peaks_is_no_answer(
    arcs: nt.Fod, parameters: nt.TrackingParameters, caplog: pytest.LogCaptureFixture
) -> None:
    found = sweep(arcs, seeds_of(40), parameters, name="min_amplitude", values=[50.0])
    assert found.n_streamlines.tolist() == [40, 0]
    assert np.isnan(found.measured["mean_length_mm"][1])
    assert found.flat == (parameters.min_amplitude, parameters.min_amplitude)
    assert "every other value gives another answer" in found.text
    assert sweep_table(found).rows[1][7] == ""


def test_paired_errors_are_the_spread_of_differences_and_smaller_than_unpaired(
    arcs: nt.Fod, parameters: nt.TrackingParameters
) -> None:
    """30 sweeps with other seeds and random numbers; a floor that is a little higher."""
    differences, stated, lengths = [], [], []
    for k in range(30):
        found = sweep(
            arcs,
            seeds_of(60, k),
            parameters.replace(random_seed=k),
            name="min_amplitude",
            values=[0.2],
        )
        values = found.measured["mean_length_mm"]
        differences.append(values[1] - values[0])
        lengths.append(values[0])
        stated.append(found.errors["mean_length_mm"][1])
    spread = np.std(differences, ddof=1)
    assert spread == pytest.approx(np.sqrt(np.mean(np.square(stated))), rel=0.35)
    assert spread < 0.8 * np.sqrt(2) * np.std(lengths, ddof=1)


def test_likeness_tells_where_streamlines_run(
    arcs: nt.Fod, parameters: nt.TrackingParameters
) -> None:
    found = sweep(arcs, seeds_of(200), parameters, name="max_angle_deg", values=[4.0, 22.0, 24.0])
    likeness = dict(zip(found.values.tolist(), found.measured["likeness"], strict=True))
    assert likeness[4.0] < 0.5 < 0.8 < likeness[22.0] < 1
    assert found.flat[0] > 4.0


def test_what_selects_starts_as_many_seeds_as_the_chosen_value_needs(
    arcs: nt.Fod, parameters: nt.TrackingParameters
) -> None:
    end = nt.Region.sphere(phantom_lines_mm("arcs")[0][0][5], 8.0, "include")
    inputs = TrackingInput(arcs, seeds_of(1), parameters, regions=[end], select=30)
    seen: list[tuple[int, float, Tractogram]] = []
    found = swept(inputs, "max_angle_deg", [10.0], seen=lambda *each: seen.append(each))
    whole = nt.track(arcs, seeds_of(1), parameters, regions=[end], select=30)
    assert found.n_seeds == whole.n_seeds
    assert found.n_streamlines[1] == 30
    assert [number for number, _, _ in seen] == [0, 1]
    assert seen[1][2].digest() == whole.digest()
    assert seen[0][1] == 10.0


def test_whole_numbers_stay_whole(arcs: nt.Fod) -> None:
    parameters = nt.TrackingParameters.for_fod(arcs, algorithm="ifod2")
    found = sweep(arcs, seeds_of(20), parameters, name="samples", values=[3.0, 4.0])
    assert found.values.tolist() == [3.0, 4.0]
    with pytest.raises(InvalidParameterError, match="type int"):
        sweep(arcs, seeds_of(20), parameters, name="samples", values=[3.5])


def test_the_same_in_each_place_of_a_plot(arcs: nt.Fod, parameters: nt.TrackingParameters) -> None:
    pytest.importorskip("matplotlib", reason="what draws plots is not installed")
    found = sweep(arcs, seeds_of(20), parameters, name="max_length_mm", values=[50.0])
    drawn = plot_sweep(found)
    assert [len(axes.lines) > 0 for axes in drawn.axes] == [True, True, True]
    assert drawn.axes[-1].get_xlabel() == "Maximum length [mm]"


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("algorithm", [1.0], "cannot|no parameter"),
        ("random_seed", [1.0], "no parameter that can be swept"),
        ("max_angle_deg", [500.0], "out of range"),
        ("max_angle_deg", ["a"], "is no number"),
        ("max_angle_deg", [], "no value of max_angle_deg besides the chosen one"),
        ("gamma", [1.0, 3.0], "with the algorithm probabilistic, but with diffusion and transport"),
    ],
)
def test_what_cannot_be_swept_is_refused(
    arcs: nt.Fod, parameters: nt.TrackingParameters, name: str, values: list[float], why: str
) -> None:
    with pytest.raises(InvalidParameterError, match=why):
        sweep(arcs, seeds_of(20), parameters, name=name, values=values)


def test_few_seeds_and_two_regions_are_refused(
    arcs: nt.Fod, parameters: nt.TrackingParameters
) -> None:
    with pytest.raises(InvalidSeedsError, match="at least 20"):
        sweep(arcs, seeds_of(19), parameters, name="step_mm", values=[1.0])
    one, other = (nt.Region.sphere(at, 3.0, "end") for at in phantom_seeds_mm("arcs")[:2])
    inputs = TrackingInput(arcs, seeds_of(20), parameters, select=5, between=(one, other))
    with pytest.raises(InvalidSeedsError, match="two regions"):
        swept(inputs, "step_mm", [1.0])


def test_large_grids_are_joined() -> None:
    grid = Grid((1000, 500, 101), np.diag([0.1, 0.1, 0.2, 1.0]))
    joined = _coarse(grid)
    assert joined.shape == (500, 250, 51)
    np.testing.assert_allclose(joined.voxel_sizes_mm, [0.2, 0.2, 0.4])
    np.testing.assert_allclose(joined.bounds_mm()[0], grid.bounds_mm()[0])
    assert _coarse(Grid((9, 9, 9), np.eye(4))).shape == (9, 9, 9)
