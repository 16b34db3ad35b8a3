"""Tables around streamlines alone: they are read as far as needed, and change no bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from toys import SKEWED, bundles_that_cross, random_fod

import napari_tractography as nt
from napari_tractography.model.algorithms import ALGORITHMS
from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm
from napari_tractography.tracking.inputs import TrackingInput
from napari_tractography.tracking.nearby import can_track_near, track_near
from napari_tractography.tracking.tables import local
from napari_tractography.tracking.tables.builders import words_of
from napari_tractography.tracking.tables.local import LocalTable, rings_of, rows_of_voxels

SHAPE = (27, 22, 18)  # no multiple of a brick


def read_from(
    fod: nt.Fod, asked: list[int] | None = None
) -> Callable[[NDArray[np.int64]], NDArray[np.float32]]:
    words = words_of(fod.voxel_rows)

    def read(voxels: NDArray[np.int64]) -> NDArray[np.float32]:
        if asked is not None:
            asked.append(len(voxels))
        return fod.values[rows_of_voxels(words, voxels)]

    return read


def near(table: LocalTable, inputs: TrackingInput) -> nt.Tractogram:
    found = track_near(table, inputs, np.zeros(1, np.uint8))
    assert found is not None
    return found


@pytest.fixture(scope="module")
def everywhere() -> nt.Fod:
    """Lobes in all directions in every voxel, on a grid that is skewed."""
    return random_fod(6, shape=SHAPE, affine=SKEWED)


@pytest.mark.parametrize("interpolation", ["trilinear", "nearest"])
@pytest.mark.parametrize("algorithm", [row.name for row in ALGORITHMS])
def test_streamlines_are_those_in_the_whole_fod(
    everywhere: nt.Fod, algorithm: str, interpolation: str
) -> None:
    parameters = nt.TrackingParameters(
        algorithm=algorithm,
        interpolation=interpolation,
        step_mm=1.0,
        min_amplitude=0.02,
        max_length_mm=40.0,
        look_ahead_mm=3.0,
    )
    table = LocalTable(everywhere, read_from(everywhere))
    for voxel in ((5, 5, 5), (7, 6, 5), (20, 16, 12), (26, 21, 17)):  # near, far, in a corner
        seeds = nt.Seeds.in_sphere(everywhere.grid.to_mm(voxel), 1.5, 60)
        inputs = TrackingInput(table.fod, seeds, parameters)
        whole = nt.track(everywhere, seeds, parameters, backend="cpu")
        found = near(table, inputs)
        assert len(found) > 0
        assert found.digest() == whole.digest()
        assert (found.n_seeds, found.tally) == (whole.n_seeds, whole.tally)
        assert table.n_voxels <= everywhere.n_voxels
        table.keep_near(found.points, rings_of(everywhere.grid, parameters))
        assert near(table, inputs).digest() == whole.digest()


@pytest.mark.parametrize("algorithm", ["probabilistic", "transport"])
def test_what_lies_further_on_is_read_where_bundles_cross(algorithm: str) -> None:
    fod = bundles_that_cross(25.0)
    parameters = nt.TrackingParameters.for_fod(fod, algorithm=algorithm)
    without = parameters.replace(min_roundness=0.0)
    assert rings_of(fod.grid, parameters) > rings_of(fod.grid, without)
    table = LocalTable(fod, read_from(fod))
    seeds = nt.Seeds.in_sphere((0.0, 0.0, 0.0), 4.0, 60)
    found = near(table, TrackingInput(table.fod, seeds, parameters))
    assert found.digest() == nt.track(fod, seeds, parameters, backend="cpu").digest()


def test_an_asymmetric_fod_is_read_around_streamlines_too() -> None:
    fod = random_fod(4, shape=SHAPE, affine=SKEWED, is_asymmetric=True)
    parameters = nt.TrackingParameters(step_mm=1.0, min_amplitude=0.02, max_length_mm=20.0)
    table = LocalTable(fod, read_from(fod))
    assert table.fod.is_asymmetric
    seeds = nt.Seeds.in_sphere(fod.grid.to_mm((5, 5, 5)), 1.5, 60)
    found = near(table, TrackingInput(table.fod, seeds, parameters))
    assert found.digest() == nt.track(fod, seeds, parameters, backend="cpu").digest()
    assert 0 < table.n_voxels < fod.n_voxels


@pytest.mark.parametrize("growth", [0, 1, 3])
def test_long_steps_do_not_jump_over_what_is_missing(
    everywhere: nt.Fod, growth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "GROWTH", growth)
    parameters = nt.TrackingParameters(
        algorithm="ifod2", step_mm=9.0, max_angle_deg=60.0, min_amplitude=0.02
    )
    seeds = nt.Seeds.in_sphere(everywhere.grid.to_mm((13, 11, 9)), 2.0, 100)
    table = LocalTable(everywhere, read_from(everywhere))
    assert rings_of(everywhere.grid, parameters) > 1
    found = near(table, TrackingInput(table.fod, seeds, parameters))
    assert found.digest() == nt.track(everywhere, seeds, parameters, backend="cpu").digest()


def test_what_no_streamline_comes_near_is_not_read() -> None:
    fod = make_phantom("arcs")
    asked: list[int] = []
    table = LocalTable(fod, read_from(fod, asked))
    parameters = nt.TrackingParameters.for_fod(fod)
    start = phantom_seeds_mm("arcs")[2]
    inputs = TrackingInput(table.fod, nt.Seeds.in_sphere(start, 1.0, 20), parameters)
    near(table, inputs)
    assert sum(asked) == table.n_voxels < 0.6 * fod.n_voxels
    n_rounds = len(asked)
    near(table, inputs)
    assert len(asked) == n_rounds  # all is there
    n_bytes = table.n_bytes
    table.clear()
    assert table.n_voxels == 0
    assert table.n_bytes < n_bytes / 2


def test_missing_voxels_do_cut_streamlines_until_they_are_read(
    everywhere: nt.Fod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the rounds are for: without them streamlines would be others."""
    monkeypatch.setattr(local, "GROWTH", 0)
    parameters = nt.TrackingParameters(step_mm=1.0, min_amplitude=0.02, max_length_mm=60.0)
    seeds = nt.Seeds.in_sphere(everywhere.grid.to_mm((13, 11, 9)), 1.0, 50)
    table = LocalTable(everywhere, read_from(everywhere))
    table.read_near(seeds.positions_mm, 1)
    at_first = nt.track(table.fod, seeds, parameters, backend="cpu")
    assert table.read_more(1)
    assert at_first.digest() != nt.track(everywhere, seeds, parameters, backend="cpu").digest()


def test_rows_of_voxels_are_those_of_the_fod() -> None:
    fod = make_phantom("arcs", lmax=2)
    voxels = np.flatnonzero(fod.support.ravel())
    rows = rows_of_voxels(words_of(fod.voxel_rows), voxels)
    np.testing.assert_array_equal(rows, np.arange(fod.n_voxels))


def test_a_run_that_is_given_up_returns_nothing(everywhere: nt.Fod) -> None:
    table = LocalTable(everywhere, read_from(everywhere))
    inputs = TrackingInput(
        table.fod, nt.Seeds.at(everywhere.grid.centre_mm), nt.TrackingParameters()
    )
    assert track_near(table, inputs, np.ones(1, np.uint8)) is None


def test_runs_whose_seeds_are_not_known_before_need_the_whole_fod(everywhere: nt.Fod) -> None:
    seeds = nt.Seeds.at(everywhere.grid.centre_mm)
    assert can_track_near(TrackingInput(everywhere, seeds))
    assert not can_track_near(TrackingInput(everywhere, seeds, select=5))
    peaks = nt.Fod.from_peaks(np.ones((2, 2, 2, 3)), np.eye(4))
    assert not can_track_near(TrackingInput(peaks, seeds))
