"""Along-tract profiles beside DIPY's afq_profile, and by closed forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dipy.stats.analysis import afq_profile, gaussian_weights
from dipy.tracking.streamline import Streamlines as DipyStreamlines
from dipy.tracking.streamline import orient_by_streamline

from napari_tractography.errors import InvalidParameterError, InvalidTractogramError
from napari_tractography.geometry.grid import Grid
from napari_tractography.maps import chunks
from napari_tractography.maps.profiles import profile, standard_of
from napari_tractography.maps.scalar_maps import ScalarMap
from napari_tractography.streamlines.tractogram import Tractogram

N = 40
AFFINE = np.array([[-2.0, 0, 0, 40], [0, 2, 0, -10], [0, 0, 2.5, -10], [0, 0, 0, 1]])


def arcs(n: int, seed: int = 0, *, mixed: bool = True) -> Tractogram:
    """Arcs from near (-20, 0, 0) over (0, 0, 20) to (20, 0, 0) mm; half of them the other way."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        angle = np.linspace(np.pi, 0, rng.integers(30, 60))
        line = 20 * np.stack([np.cos(angle), 0 * angle, np.sin(angle)], axis=1)
        line += rng.normal(scale=1.5, size=3) + rng.normal(scale=0.05, size=line.shape)
        lines.append(line[::-1] if mixed and rng.random() < 0.5 else line)
    return Tractogram.from_streamlines(lines)


@pytest.fixture(scope="module")
def fa() -> ScalarMap:
    """Random values on a left-handed grid around the arcs."""
    shape = (41, 14, 20)
    values = np.random.default_rng(1).random(shape, np.float32)
    return ScalarMap(values, Grid(shape, AFFINE), "FA")


@pytest.mark.parametrize("weights", ["equal", "gaussian"])
def test_profile_is_that_of_dipy(fa: ScalarMap, weights: str) -> None:
    lines = arcs(60)
    standard = standard_of(lines, N)
    bundle = orient_by_streamline(DipyStreamlines(list(lines)), standard)
    theirs = afq_profile(
        fa.values,
        bundle,
        fa.grid.affine,
        n_points=N,
        weights=None if weights == "equal" else gaussian_weights(bundle, n_points=N),
    )
    ours = profile(lines, fa, N, weights=weights)
    # Both resample in float32; DIPY turns a line before that and we after it.
    assert ours.mean == pytest.approx(theirs, rel=2e-5)
    assert ours.counts.tolist() == [60] * N


def test_spread_is_that_of_the_values(fa: ScalarMap) -> None:
    lines = arcs(30, mixed=False)
    bundle = DipyStreamlines(list(lines))
    values = [afq_profile(fa.values, bundle[k : k + 1], AFFINE, n_points=N) for k in range(30)]
    found = profile(lines, fa, N)
    assert found.sd == pytest.approx(np.std(values, axis=0), rel=1e-4)
    assert found.mean == pytest.approx(np.mean(values, axis=0), rel=2e-5)


def test_a_ramp_is_followed_from_left_to_right() -> None:
    shape = (41, 14, 20)
    x = Grid(shape, AFFINE).to_mm(np.moveaxis(np.indices(shape), 0, -1))[..., 0]
    found = profile(arcs(25), (x, AFFINE), 50, name="arc")
    assert found.ends == ("left", "right")
    assert np.all(np.diff(found.mean) > 0)
    assert found.mean == pytest.approx(found.centroid_mm[:, 0], abs=1e-3)
    assert found.name == "arc"


def test_where_a_profile_begins_does_not_depend_on_how_many_places_it_has() -> None:
    """Bent lines whose ends lie nearly as far apart along x as along z."""
    grid = Grid((8, 8, 8), np.diag([10.0, 10, 10, 1]))
    rng = np.random.default_rng(13)
    t = np.linspace(0, 1, 30)[:, None]
    for _ in range(60):
        lines = []
        for _ in range(20):
            first, bend = rng.normal(scale=(3, 10), size=(3, 2)).T
            last = rng.normal(loc=(-15, 0, 15), scale=8)
            line = first * (1 - t) ** 2 + 2 * bend * t * (1 - t) + last * t**2
            lines.append(line[::-1] if rng.random() < 0.5 else line)
        bundle = Tractogram.from_streamlines(lines)
        ends = {profile(bundle, (np.ones(grid.shape), grid.affine), n).ends for n in (2, 100)}
        assert len(ends) == 1
        assert ends < {("left", "right"), ("posterior", "anterior"), ("inferior", "superior")}


def test_orientation_may_be_given(fa: ScalarMap) -> None:
    lines = arcs(20)
    there = profile(lines, fa, N)
    back = profile(lines, fa, N, orient_by=there.centroid_mm[::-1])
    assert back.mean == pytest.approx(there.mean[::-1], rel=2e-5)
    assert back.ends == ("right", "left")


def test_chunks_and_files_have_the_same_profile_to_the_last_bit(
    fa: ScalarMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "BLOCK", 16)
    lines = arcs(50)
    lines.save(tmp_path / "b.tck")
    whole = profile(lines, fa, N)
    for other in (
        profile((lines[k : k + 9] for k in range(0, 50, 9)), fa, N),
        profile(tmp_path / "b.tck", fa, N),
    ):
        assert np.array_equal(other.mean, whole.mean)
        assert np.array_equal(other.sd, whole.sd)
    thrice = profile(tmp_path / "b.tck", fa, N, weights="gaussian")
    assert np.array_equal(thrice.mean, profile(lines, fa, N, weights="gaussian").mean)
    with pytest.raises(InvalidParameterError, match="iterator"):
        profile(iter([lines]), fa, N, weights="gaussian")


def test_places_outside_the_map_have_fewer_streamlines_or_none() -> None:
    shape = (21, 14, 20)  # ends at x = -0.5 mm on the left
    found = profile(arcs(20), (np.ones(shape), AFFINE), N)
    assert np.isnan(found.mean[0])
    assert np.isnan(found.sd[0])
    assert found.counts[0] == 0
    assert found.mean[-1] == 1
    assert found.sd[-1] == 0


@pytest.mark.parametrize("weights", ["equal", "gaussian"])
@pytest.mark.parametrize("orient_by", [None, [[0, 0, 0], [1, 0, 0]]])
def test_streamlines_without_length_are_left_out_and_none_are_told(
    fa: ScalarMap, weights: str, orient_by: Any
) -> None:
    points = Tractogram.from_streamlines([np.empty((0, 3)), [[0, 0, 20]], [[0, 0, 20]] * 3])
    mixed = Tractogram.concatenate([points, arcs(5)])
    assert profile(mixed, fa, N, weights=weights, orient_by=orient_by).counts.max() == 5
    for none in (points, Tractogram.empty()):
        with pytest.raises(InvalidTractogramError, match="CST has no streamline with a length"):
            profile(none, fa, N, weights=weights, orient_by=orient_by, name="CST")


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"n": 1}, id="one place"),
        pytest.param({"weights": "heavy"}, id="weights"),
        pytest.param({"orient_by": [[0, 0, 0]]}, id="a point"),
    ],
)
def test_wrong_arguments_are_told(fa: ScalarMap, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidParameterError):
        profile(arcs(3), fa, **wrong)  # type: ignore[arg-type]


def test_what_is_no_scalar_map_is_told() -> None:
    with pytest.raises(InvalidParameterError, match="type int"):
        profile(arcs(3), 7)
    with pytest.raises(InvalidParameterError, match="shape"):
        profile(arcs(3), ScalarMap(np.ones((2, 2, 2), np.float32), Grid((3, 3, 3), np.eye(4))))


@pytest.mark.parametrize("n", [1, 2.5, "ten", True])
def test_what_is_no_number_of_places_is_told(n: Any) -> None:
    line = Tractogram.from_streamlines([[[0, 0, 0], [1, 1, 1]]])
    with pytest.raises(InvalidParameterError, match="is no number of places"):
        profile(line, (np.ones((3, 3, 3)), np.eye(4)), n)


def test_a_whole_number_of_places_may_be_a_float(fa: ScalarMap) -> None:
    assert profile(arcs(3), fa, 20.0).mean.tolist() == profile(arcs(3), fa, 20).mean.tolist()  # type: ignore[arg-type]
