"""Visitation maps: the share of streamlines, and whether the stated error is the spread."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import napari_tractography as nt
from napari_tractography.errors import InvalidParameterError, InvalidTractogramError
from napari_tractography.geometry.grid import Grid
from napari_tractography.maps import chunks as blocks
from napari_tractography.maps.visitation import Visitation, visitation
from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm
from napari_tractography.streamlines.tractogram import Tractogram

UNIT = Grid((8, 3, 3), np.eye(4))
REPETITIONS = 200


@pytest.fixture
def tens() -> Tractogram:
    """Ten lines from x = 0; three reach x = 4, all reach x = 2; one comes back."""
    ends = [4, 4, 4, 2, 2, 2, 2, 2, 2, 2]
    lines = [[[0, 1, 1], [x, 1, 1]] for x in ends]
    lines[3].append([0, 1, 1])
    return Tractogram.from_streamlines(lines)


def test_probability_is_the_share_of_streamlines(tens: Tractogram) -> None:
    found = visitation(tens, UNIT)
    assert found.probability[:, 1, 1].tolist() == [1, 1, 1, 0.3, 0.3, 0, 0, 0]
    assert found.standard_error[3, 1, 1] == pytest.approx(math.sqrt(0.3 * 0.7 / 10))
    assert found.standard_error[0, 1, 1] == 0
    assert found.at([3, 1, 1]) == "10 streamlines: 0.3 ± 0.1"
    assert found.at([6, 1, 1]) == "10 streamlines: 0; below 0.26 with 95 % confidence"
    assert found.at([60, 1, 1]) == "10 streamlines: outside the map"


@pytest.mark.parametrize(
    ("n", "none", "every"),
    [
        # Exact limits of Clopper and Pearson, one-sided: scipy.stats.beta.ppf(0.95, 1, n).
        pytest.param(1, "0; below 0.95", "1; above 0.05", id="one"),
        pytest.param(2, "0; below 0.78", "1; above 0.22", id="two"),
        pytest.param(10_000, "0; below 0.0003", "1; above 0.99970", id="many"),
    ],
)
def test_what_none_or_all_visit_has_a_limit(n: int, none: str, every: str) -> None:
    found = Visitation(np.array([[[0.0, 1.0]]]), n, Grid((1, 1, 2), np.eye(4)))
    assert f"streamlines: {none} with 95 % confidence" in found.at([0, 0, 0])
    assert f"streamlines: {every} with 95 % confidence" in found.at([0, 0, 1])


def test_what_is_no_point_is_told(tens: Tractogram) -> None:
    with pytest.raises(InvalidParameterError, match=r"\[1, 2\] is no point"):
        visitation(tens, UNIT).at([1, 2])


def test_error_is_told_as_far_as_it_goes() -> None:
    found = Visitation(np.full((1, 1, 1), 0.0314), 10_000, Grid((1, 1, 1), np.eye(4)))
    assert found.at([0, 0, 0]) == "10,000 streamlines: 0.031 ± 0.002"
    assert found.at([0, 0, np.nextafter(0.5, 0)]) == "10,000 streamlines: 0.031 ± 0.002"


def test_share_of_the_seeds(tens: Tractogram) -> None:
    half = Tractogram(tens.points, tens.offsets, n_seeds=40)
    found = visitation([half, half], UNIT, trials="started")
    assert found.n == 80
    assert found.probability[3, 1, 1] == 6 / 80
    assert found.at([0, 1, 1]).startswith("80 seeds: 0.25 ± 0.05")


@pytest.mark.parametrize("what", ["file", "chosen", "chunks"])
def test_streamlines_that_do_not_know_their_seeds_have_no_share_of_them(
    what: str, tens: Tractogram, tmp_path: Path
) -> None:
    run = Tractogram(tens.points, tens.offsets, n_seeds=40)
    path = tmp_path / "tens.trk"
    run.save(path, reference=UNIT)
    source = {"file": path, "chosen": run[:4], "chunks": [run, run[:4]]}[what]
    with pytest.raises(InvalidTractogramError, match=r'is not known.*or trials="accepted"'):
        visitation(source, UNIT, trials="started")


def test_enough_says_how_many_more(tens: Tractogram) -> None:
    found = visitation(tens, UNIT)
    more = found.n_more(0.01)
    assert math.sqrt(0.3 * 0.7 / (10 + more)) <= 0.01 < math.sqrt(0.3 * 0.7 / (9 + more))
    assert f"{more:,} more streamlines" in found.enough(0.01)
    assert found.n_more(0.2) == 0
    assert "enough for 0.2" in found.enough(0.2)
    with pytest.raises(InvalidParameterError, match="standard_error = 0 "):
        found.n_more(0)


def test_probabilities_of_0_and_1_alone_are_not_taken_for_certain() -> None:
    """Of three trials without a visit the probability is below 0.63, which 95 % are sure of."""
    shares = np.array([0.0, 1.0])[:, None, None]
    found = Visitation(shares, 3, Grid((2, 1, 1), np.eye(4)))
    below = 1 - 0.05 ** (1 / 3)  # (1 - p)^3 = 0.05
    error = math.sqrt(below * (1 - below) / 3)
    assert found.hidden_error == pytest.approx(error)
    n = 3 + found.n_more(0.01)
    assert math.sqrt(below * (1 - below) / n) <= 0.01 < math.sqrt(below * (1 - below) / (n - 1))
    told = found.enough(0.01)
    assert told.startswith("All probabilities are 0 or 1, of 3 streamlines")
    assert f"{n - 3:,} more streamlines" in told
    assert Visitation(shares, 10**6, found.grid).enough(0.01).endswith("enough for 0.01.")
    assert Visitation(np.full((1, 1, 1), 0.5), 9, UNIT).hidden_error == 0


def test_chunks_and_files_give_the_same_map(tens: Tractogram, tmp_path: Path) -> None:
    tens.save(tmp_path / "b.tck")
    whole = visitation(tens, UNIT).probability
    assert np.array_equal(visitation((tens[k] for k in range(10)), UNIT).probability, whole)
    assert np.array_equal(visitation(tmp_path / "b.tck", UNIT).probability, whole)


@pytest.mark.parametrize("what", ["density", "visitation", "profile", "connectome"])
def test_chunks_are_not_kept(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 50 chunks, counted by their points, no more than a few are there at a time."""
    monkeypatch.setattr(blocks, "BLOCK", 8)
    kept: list[weakref.ref[NDArray[np.float32]]] = []
    most = 0

    def chunks() -> Iterator[Tractogram]:
        nonlocal most
        x = np.linspace(0, 5, 100, dtype=np.float32)
        for k in range(50):
            line = np.stack([x, 0 * x + 1, 0 * x + k % 3], axis=1)
            made = Tractogram(np.tile(line, (8, 1)), np.arange(0, 801, 100))
            kept.append(weakref.ref(made.points))
            most = max(most, sum(each() is not None for each in kept))
            yield made

    run = {
        "density": lambda: nt.density(chunks(), UNIT),
        "visitation": lambda: nt.visitation(chunks(), UNIT),
        "profile": lambda: nt.profile(chunks(), (np.ones(UNIT.shape), np.eye(4)), 10),
        "connectome": lambda: nt.connectome(chunks(), np.ones(UNIT.shape, int), UNIT),
    }[what]
    assert run() is not None
    assert 1 <= most <= 5


def test_nothing_has_no_probability() -> None:
    with pytest.raises(InvalidTractogramError, match="no streamlines"):
        visitation(Tractogram.empty(), UNIT)
    with pytest.raises(InvalidParameterError, match="unknown"):
        visitation(Tractogram.empty(), UNIT, trials="some")


def test_stated_error_is_the_spread_over_repetitions() -> None:
    """200 runs of 100 seeds each, with other random numbers, beside the error of each run."""
    fod = make_phantom("arcs", lmax=6)
    parameters = {"n_directions": 256, "step_mm": 1.0, "max_length_mm": 60.0}
    found = []
    for run in range(REPETITIONS):
        seeds = nt.Seeds.in_sphere(phantom_seeds_mm("arcs")[0], 3.0, 100, random_seed=run)
        chunks = nt.iter_track(
            fod,
            seeds,
            nt.TrackingParameters(random_seed=run, **parameters),  # type: ignore[arg-type]
            backend="cpu",
        )
        found.append(visitation(chunks, fod))
    maps = np.stack([each.probability for each in found])
    stated = np.sqrt(np.mean([each.standard_error**2 for each in found], axis=0))
    often = (maps.mean(axis=0) > 0.1) & (maps.mean(axis=0) < 0.9)
    assert often.sum() > 50
    ratio = maps.std(axis=0, ddof=1)[often] / stated[often]
    assert ratio.mean() == pytest.approx(1, abs=0.05)
    assert (np.abs(ratio - 1) < 0.3).all()
    truth = maps.mean(axis=0)[often]
    errors = np.stack([each.standard_error[often] for each in found])
    covered = np.abs(maps[:, often] - truth) <= 1.96 * errors
    assert covered.mean() == pytest.approx(0.94, abs=0.02)  # of 0.95, less for small shares
