"""Regions on streamlines that are there: on the whole path, by rules, and as MRtrix3 has it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import napari_tractography as nt
from napari_tractography.errors import InvalidParameterError
from napari_tractography.files.volume_files import save_volume
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.streamlines import passing

OBLIQUE = [[1.9, -0.6, 0.1, -14], [0.5, 2.1, -0.4, -20], [0.2, 0.3, 2.5, -18], [0, 0, 0, 1]]


def ball(x: float, radius: float, role: str = "include") -> nt.Region:
    return nt.Region.sphere((x, 0, 0), radius, role)


def wandering(n: int, seed: int) -> nt.Tractogram:
    """Polylines of 0 to 40 points about the origin, with short and long segments."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        turns = np.cumsum(rng.normal(scale=0.2, size=(rng.integers(0, 40), 3)), axis=0)
        turns += rng.normal(size=3)
        steps = turns / np.maximum(np.linalg.norm(turns, axis=1, keepdims=True), 1e-9)
        lines.append(rng.uniform(-15, 15, 3) + np.cumsum(steps * rng.choice([0.5, 6.0]), axis=0))
    return nt.Tractogram.from_streamlines(lines)


def densely(line: NDArray[np.float32]) -> NDArray[np.float64]:
    """The points of a polyline and 300 more on each segment."""
    fractions = np.linspace(0, 1, 301)[:, None]
    pieces = [
        a + (b - a) * fractions for a, b in zip(line[:-1].astype(float), line[1:], strict=True)
    ]
    return np.concatenate([line.astype(float), *pieces]) if len(line) else np.empty((0, 3))


@pytest.fixture
def track() -> nt.Tractogram:
    """Lines along x with points 10 mm apart, from -20 to 20, at y = 0, 1, 2, 3 and 4."""
    x = np.arange(-20.0, 21.0, 10.0)
    return nt.Tractogram.from_streamlines([[(a, y, 0.0) for a in x] for y in range(5)])


def test_no_segment_slips_through_a_sphere_between_points(track: nt.Tractogram) -> None:
    # The nearest points are 5 mm away.
    assert track.select_numbers(regions=[ball(5, 2.0)]).tolist() == [0, 1, 2]
    assert track.select_numbers(regions=[ball(5, 1.999)]).tolist() == [0, 1]


def test_a_sphere_beyond_the_end_is_not_met(track: nt.Tractogram) -> None:
    assert not len(track.select(regions=[ball(25, 4.99)]))
    assert track.select_numbers(regions=[ball(25, 5.0)]).tolist() == [0]


def test_a_voxel_of_a_mask_between_points_is_met(track: nt.Tractogram) -> None:
    mask = np.zeros((10, 3, 3))
    mask[5, 1, 0] = 1  # around (5, 1, 0), from y = 0.5 to 1.5
    region = nt.Region.mask(mask, np.eye(4), "include")
    assert track.select_numbers(regions=[region]).tolist() == [1]


def test_excluded_and_included(track: nt.Tractogram) -> None:
    regions = [ball(0, 3.0), ball(5, 1.0, "exclude")]
    assert track.select_numbers(regions=regions).tolist() == [2, 3]


def test_both_ends_must_lie_in_end_regions(track: nt.Tractogram) -> None:
    left, right = ball(-20, 2.0, "end"), ball(20, 3.0, "end")
    assert not len(track.select(regions=[left]))
    assert track.select_numbers(regions=[left, right]).tolist() == [0, 1, 2]
    assert not len(track.select(regions=[left, ball(0, 5.0, "end")]))  # passed, but no end


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        pytest.param("all", [0, 1, 2], id="all"),
        pytest.param("any", [0, 1, 2, 3, 4], id="any"),
        pytest.param("ordered", [0, 1], id="ordered"),
    ],
)
def test_rules_of_include_regions(rule: str, wanted: list[int]) -> None:
    #   regions   A   B   C     along x
    a, b, c = ball(-10, 1.0), ball(0, 1.0), ball(10, 1.0)
    lines = [
        [(-20, 0, 0), (20, 0, 0)],  # A B C
        [(20, 0, 0), (-20, 0, 0)],  # C B A: from the other end
        [(0, 0, 0), (-5, 0, 0), (-10, 0, 0), (-10, 9, 0), (10, 9, 0), (10, 0, 0)],  # B A C
        [(-20, 0, 0), (5, 0, 0)],  # A B
        [(10, 5, 0), (10, 0, 0)],  # C
    ]
    track = nt.Tractogram.from_streamlines(lines)
    found = track.select_numbers(regions=[a, b, c], include_rule=rule)
    assert found.tolist() == wanted


def test_one_streamline_does_not_lend_its_regions_to_the_next() -> None:
    a, b = ball(-10, 1.0), ball(10, 1.0)
    lines = [[(-10, 0, 0), (-9, 0, 0)], [(9, 0, 0), (10, 0, 0)]]
    track = nt.Tractogram.from_streamlines(lines)
    assert not len(track.select(regions=[a, b], include_rule="ordered"))


def test_limits_count_themselves(track: nt.Tractogram) -> None:
    weighted = track.with_weights([0.0, 1.0, 2.0, 3.0, 4.0])
    assert len(track.select(length_mm=(40.0, 40.0))) == 5
    assert not len(track.select(length_mm=(0.0, 39.9)))
    assert len(track.select(length_mm=(40, None))) == 5
    assert not len(track.select(length_mm=[None, np.float32(39)]))
    chosen = weighted.select(weight=(1.0, 3.0))
    assert chosen.weights is not None
    assert chosen.weights.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("criteria", "word"),
    [
        pytest.param({"regions": [ball(0, 1.0, "stop")]}, "role stop", id="role"),
        pytest.param({"include_rule": "some"}, "'some'", id="rule"),
        pytest.param({"length_mm": (20.0, 10.0)}, "length_mm", id="lengths"),
        pytest.param({"length_mm": 20}, r"length_mm = 20 is no range; give the", id="one"),
        pytest.param({"length_mm": (20,)}, r"length_mm = \(20,\) is no range", id="one of two"),
        pytest.param({"length_mm": "ab"}, "length_mm = 'ab' is no range", id="words"),
        pytest.param({"length_mm": (np.nan, 9)}, "is no range", id="NaN"),
        pytest.param({"weight": (1.0, 2.0)}, "no weights", id="no weights"),
    ],
)
def test_impossible_criteria_are_refused(track: nt.Tractogram, criteria, word: str) -> None:
    with pytest.raises(InvalidParameterError, match=word):
        track.select(**criteria)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), radius=st.floats(0.05, 12.0))
def test_spheres_meet_what_dense_sampling_meets(seed: int, radius: float) -> None:
    tractogram = wandering(30, seed)
    region = nt.Region.sphere(np.random.default_rng(seed).uniform(-12, 12, 3), radius, "include")
    found = passing.touching(tractogram.points, tractogram.offsets, region)
    for met, line in zip(found, tractogram, strict=True):
        distances = np.linalg.norm(densely(line) - region.center_mm, axis=1)
        assert met == (distances.min(initial=np.inf) <= radius) or np.isclose(
            distances.min(), radius, rtol=0, atol=0.02
        )


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_masks_meet_what_dense_sampling_meets(seed: int) -> None:
    tractogram = wandering(30, seed)
    mask = np.random.default_rng(seed).random((12, 12, 12)) < 0.02
    region = nt.Region.mask(mask, OBLIQUE, "include")
    found = passing.touching(tractogram.points, tractogram.offsets, region)
    sampled = np.array([region.contains(densely(line)).any() if len(line) else False
                        for line in tractogram])  # fmt: skip
    assert not (sampled & ~found).any()
    # A corner that is cut by less than a sample's spacing may be missed by samples.
    assert (found & ~sampled).sum() <= 1


def test_what_tracking_with_regions_gives_selection_keeps() -> None:
    fod = make_phantom("arcs", lmax=6)
    seeds = nt.Seeds.from_fod(fod, 300)
    parameters = nt.TrackingParameters(step_mm=1.0, max_length_mm=60.0, n_directions=256)
    everything = nt.track(fod, seeds, parameters)
    centre = everything.points[len(everything.points) // 3].astype(float)
    region = nt.Region.sphere(centre, 3.0, "include")
    tracked = nt.track(fod, seeds, parameters, regions=[region])
    selected = everything.select(regions=[region])
    assert 0 < len(tracked) < len(everything)
    assert set(tracked.seed_index.tolist()) <= set(selected.seed_index.tolist())


@pytest.mark.skipif(shutil.which("tckedit") is None, reason="MRtrix3's tckedit is not installed")
@pytest.mark.parametrize("kind", ["sphere", "mask"])
def test_selection_is_that_of_tckedit(tmp_path: Path, kind: str) -> None:
    """On points 0.1 mm apart: tckedit tests points only."""
    tractogram = wandering(200, 5)
    tractogram = tractogram[np.diff(tractogram.offsets) > 1]
    fine = nt.Tractogram.from_streamlines(
        [np.stack([np.interp(np.arange(0, len(line) - 1, 0.02), np.arange(len(line)), axis)
                   for axis in line.T], axis=1) for line in tractogram]
    )  # fmt: skip
    if kind == "sphere":
        regions = [nt.Region.sphere((1, 2, 3), 12.0, "include"), ball(-6, 3.0, "exclude")]
        include, exclude = "1,2,3,12", "-6,0,0,3"
    else:
        grid = nt.Grid((12, 12, 12), OBLIQUE)
        mask = np.zeros(grid.shape, np.uint8)
        mask[2:10, 3:9, 2:9] = 1
        save_volume(mask, grid, tmp_path / "mask.nii.gz")
        regions = [nt.Region.mask(mask, grid, "include"), ball(-6, 3.0, "exclude")]
        include, exclude = str(tmp_path / "mask.nii.gz"), "-6,0,0,3"
    fine.save(tmp_path / "in.tck")
    words = ["-include", include, "-exclude", exclude]
    subprocess.run(["tckedit", "-quiet", "in.tck", "out.tck", *words], cwd=tmp_path, check=True)
    wanted = nt.load_tractogram(tmp_path / "out.tck")
    found = fine.select(regions=regions)
    assert 5 < len(wanted) < len(fine) - 5
    assert abs(len(found) - len(wanted)) <= 1  # a corner cut by less than 0.1 mm
    assert np.isin(wanted.points[wanted.offsets[:-1], 0], found.points[:, 0]).all()


def test_what_is_no_criterion_is_refused(track):
    for name in ("min_length_mm", "region"):
        with pytest.raises(InvalidParameterError, match=rf"{name} .* length_mm"):
            track.select(**{name: 1})
