"""The contestants: each tracks the same, in the units that it is told."""

from __future__ import annotations

import pytest

from napari_tractography.benchmark.cases import Case, Contestant
from napari_tractography.benchmark.comparison import CONTESTANTS, ROWS
from napari_tractography.benchmark.ours import Ours
from napari_tractography.benchmark.peers.dipy import Dipy
from napari_tractography.benchmark.peers.mrtrix import MRtrix
from napari_tractography.benchmark.peers.tractography_jl import TractographyJl
from napari_tractography.phantoms import make_phantom, phantom_mask


@pytest.fixture
def case() -> Case:
    """The phantom of three arcs, in large steps."""
    return Case(make_phantom("arcs"), phantom_mask("arcs"), step_mm=1.0, max_length_mm=60.0)


@pytest.mark.parametrize(
    "contestant",
    [
        pytest.param(Ours("ours", output="endpoints"), id="ours"),
        pytest.param(MRtrix("iFOD1"), id="MRtrix3"),
        pytest.param(Dipy("probabilistic_tracking"), id="DIPY"),
        pytest.param(TractographyJl(), id="baseline"),
    ],
)
def test_steps_are_as_many_as_the_bundles_are_long(contestant: Contestant, case: Case) -> None:
    if contestant.missing():
        pytest.skip(contestant.missing())
    contestant.prepare(case)
    contestant.make_seeds(300)
    steps = contestant.steps(contestant.run(300)) / 300
    # Streamlines of some ten millimetres, none beyond the largest length: a wrong unit or frame
    # leaves the mask at once.
    assert 8 < steps <= 60


def test_rows_compare_contestants_that_take_part() -> None:
    labels = {contestant.label for contestant in CONTESTANTS}
    assert {label for row in ROWS for label in (row.ours, row.peer)} <= labels
    assert len(labels) == len(CONTESTANTS)


def test_the_baseline_comes_with_the_package() -> None:
    assert TractographyJl().missing() == ""
