"""What would be lost: against tracking again, known arcs, and distances by dense sampling."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import napari_tractography as nt
from napari_tractography.errors import InvalidRegionError
from napari_tractography.maps.margins import distances_mm
from napari_tractography.maps.resection import margin_map, resection
from napari_tractography.maps.spreadsheets import resections_table
from napari_tractography.model.phantoms import make_phantom, phantom_lines_mm, phantom_seeds_mm

ARCH, BOWL = 0, 1
SHEARED = nt.Grid((6, 5, 7), [[2, 0.7, 0, -4], [0, 1.5, 0.4, 3], [0.3, 0, -3, 1], [0, 0, 0, 1]])


@pytest.fixture(scope="module")
def arcs() -> nt.Fod:
    return make_phantom("arcs")


@pytest.fixture(scope="module")
def parameters(arcs: nt.Fod) -> nt.TrackingParameters:
    return nt.TrackingParameters.for_fod(arcs)


@pytest.fixture(scope="module")
def seeds() -> list[nt.Seeds]:
    return [nt.Seeds.in_sphere(at, 2.0, 300) for at in phantom_seeds_mm("arcs")]


@pytest.fixture(scope="module")
def bundles(
    arcs: nt.Fod, seeds: list[nt.Seeds], parameters: nt.TrackingParameters
) -> list[nt.Tractogram]:
    return [nt.track(arcs, each, parameters) for each in seeds]


def ball(at: object, radius: float) -> nt.Region:
    return nt.Region.sphere(at, radius, "resect", name="ball")


def test_a_cut_through_an_arch_takes_the_arch_alone(bundles: list[nt.Tractogram]) -> None:
    """The legs of the arch are 72 mm apart: a ball at the left one is far from all the others.

    The straight bundle, which passes through that leg, is cut as well.
    """
    arch = phantom_lines_mm("arcs")[ARCH][0]
    cavity = ball(arch[-20], 14.0)
    shares = [resection(bundle, cavity).share for bundle in bundles]
    assert shares[ARCH] > 0.9
    # Numbers of the other bundles: the bowl, the spiral and the fan.
    assert [shares[k] for k in (BOWL, 3, 4)] == [0, 0, 0]


def test_margins_of_true_lines_are_those_of_the_drawing() -> None:
    """The bowl is half an ellipse in the plane x = 1 whose ends lie at z = 25."""
    bowl = nt.Tractogram.from_streamlines(phantom_lines_mm("arcs")[BOWL])
    found = resection(bowl, ball((8.0, 37.0, 30.0), 2.0), name="bowl")
    assert found.margin_mm == pytest.approx(math.hypot(7.0, 5.0) - 2.0, abs=1e-5)
    assert found.line_mm is not None
    assert found.line_mm[0] == pytest.approx([1.0, 37.0, 25.0], abs=1e-4)
    assert np.linalg.norm(found.line_mm[1] - [8.0, 37.0, 30.0]) == pytest.approx(2.0)
    assert np.linalg.norm(np.diff(found.line_mm, axis=0)) == pytest.approx(found.margin_mm)
    met = resection(bowl, ball((1.0, 37.0, 25.0), 0.5))
    assert (met.n_lost, met.margin_mm, met.line_mm) == (1, 0.0, None)


def test_it_is_what_tracking_again_with_the_cavity_gives(
    arcs: nt.Fod,
    seeds: list[nt.Seeds],
    parameters: nt.TrackingParameters,
    bundles: list[nt.Tractogram],
) -> None:
    """Pairs by the seed: what is kept has the same points; what is lost entered."""
    whole = bundles[ARCH]
    half = np.zeros(arcs.grid.shape)
    half[7:9, 26, :] = 1  # through a part of the arch's left leg
    cavities = [
        nt.Region.mask(half, arcs.grid, "exclude", name="painted"),
        nt.Region.sphere(whole.points[whole.offsets[5] + 40], 2.0, "exclude"),
    ]
    for cavity in cavities:
        again = nt.track(arcs, seeds[ARCH], parameters, regions=[cavity])
        found = resection(whole, dataclasses.replace(cavity, role="resect"))
        gone = ~np.isin(whole.seed_index, again.seed_index)
        assert 0 < gone.sum() < len(whole)
        assert np.isin(again.seed_index, whole.seed_index).all()  # none is gained
        kept = whole[np.flatnonzero(~gone)]
        assert kept.digest() == again.digest()
        only_grazed = found.lost & ~gone
        assert not (gone & ~found.lost).any()
        assert only_grazed.sum() <= 0.05 * gone.sum()
        inside = cavity.contains(whole.points)
        entered = np.logical_or.reduceat(inside, whole.offsets[:-1])
        assert not (only_grazed & entered).any()


def test_a_cavity_changes_no_streamline(
    arcs: nt.Fod,
    seeds: list[nt.Seeds],
    parameters: nt.TrackingParameters,
    bundles: list[nt.Tractogram],
) -> None:
    cavity = ball(phantom_seeds_mm("arcs")[ARCH], 8.0)
    stop = nt.Region.sphere(phantom_lines_mm("arcs")[ARCH][0][10], 6.0, "stop")
    with_it = nt.track(arcs, seeds[ARCH], parameters, regions=[cavity])
    assert with_it.digest() == bundles[ARCH].digest()
    both = nt.track(arcs, seeds[ARCH], parameters, regions=[cavity, stop])
    alone = nt.track(arcs, seeds[ARCH], parameters, regions=[stop])
    assert both.digest() == alone.digest() != with_it.digest()
    assert len(with_it.select(regions=[cavity])) == len(with_it)


def test_the_stated_error_is_the_spread(
    arcs: nt.Fod, parameters: nt.TrackingParameters, bundles: list[nt.Tractogram]
) -> None:
    """Of 80 runs of 50 seeds, with other random numbers each."""
    cavity = ball(bundles[ARCH].points[bundles[ARCH].offsets[5] + 40], 2.0)
    many = nt.track(arcs, nt.Seeds.in_sphere(phantom_seeds_mm("arcs")[ARCH], 2.0, 4000), parameters)
    lost = resection(many, cavity).lost
    parts = [lost[first : first + 50] for first in range(0, len(lost) - 50, 50)]
    shares = np.array([part.mean() for part in parts])
    stated = np.mean([math.sqrt(p * (1 - p) / 50) for p in shares])
    assert len(parts) > 60
    assert 0.05 < shares.mean() < 0.95
    assert shares.std() == pytest.approx(stated, rel=0.25)


def _sampled(lines: list[NDArray[np.float64]], voxels: NDArray[np.float64]) -> float:
    """Return the least distance of points along lines and points in voxels, both closely taken."""
    along = np.concatenate(
        [a + np.linspace(0, 1, 60)[:, None] * (b - a) for x in lines for a, b in pairwise(x)]
    )
    steps = np.linspace(-0.5, 0.5, 9)
    inside = np.stack(np.meshgrid(steps, steps, steps), -1).reshape(-1, 3)
    dense = SHEARED.to_mm((voxels[:, None] + inside).reshape(-1, 3))
    return float(min(np.linalg.norm(dense - point, axis=1).min() for point in along))


@pytest.mark.parametrize("seed", range(4))
def test_margin_of_voxels_that_shear_is_the_least_distance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mask = rng.random(SHEARED.shape) < 0.05
    region = nt.Region.mask(mask, SHEARED, "resect")
    middle = SHEARED.centre_mm + rng.normal(size=3) * 6 + (0, 14, 0)
    lines = [middle + rng.normal(size=(4, 3)) * 4 for _ in range(3)]
    found = resection(nt.Tractogram.from_streamlines(lines), region)
    sampled = _sampled(lines, np.argwhere(mask).astype(float))
    if found.n_lost:
        assert sampled < 0.3
        return
    assert found.margin_mm <= sampled + 1e-5
    assert found.margin_mm == pytest.approx(sampled, abs=0.25)
    assert found.line_mm is not None
    on_bundle, on_cavity = found.line_mm
    assert np.linalg.norm(on_bundle - on_cavity) == pytest.approx(found.margin_mm)
    vox = SHEARED.to_voxel(on_cavity)
    assert (np.abs(np.argwhere(mask) - vox) <= 0.5 + 1e-6).all(axis=1).any()


def test_distances_of_points_agree_with_the_margin_of_points() -> None:
    rng = np.random.default_rng(5)
    region = nt.Region.mask(rng.random(SHEARED.shape) < 0.1, SHEARED, "resect")
    points = SHEARED.centre_mm + rng.normal(size=(40, 3)) * 8
    found = distances_mm(points, region)
    alone = [
        resection(nt.Tractogram.from_streamlines([point[None]]), region).margin_mm
        for point in points.astype(np.float32)
    ]
    assert found == pytest.approx(alone, abs=1e-4)
    assert (found == 0).sum() == region.contains(points).sum() < len(points)
    assert distances_mm(points, ball((0, 0, 0), 3.0)) == pytest.approx(
        np.maximum(np.linalg.norm(points, axis=1) - 3.0, 0)
    )


def test_map_is_the_distance_where_the_bundle_passes() -> None:
    line = nt.Tractogram.from_streamlines([np.array([[1.0, 2.0, 3.0], [6.0, 2.0, 3.0]])])
    grid = nt.Grid((8, 5, 6), np.eye(4))
    found = margin_map(line, [ball((7.0, 2.0, 3.0), 1.5), ball((0.0, 2.0, 3.0), 0.5)], grid)
    assert found[1:7, 2, 3] == pytest.approx([0.5, 1.5, 2.5, 1.5, 0.5, 0.0])
    assert np.isnan(found).sum() == found.size - 6


def test_weights_are_lost_with_their_streamlines() -> None:
    lines = [np.array([[x, 0.0, 0.0], [x, 0.0, 9.0]]) for x in (0.0, 5.0, 10.0, 15.0)]
    bundle = nt.Tractogram.from_streamlines(lines).with_weights([1, 2, 3, 4])
    found = resection(bundle, ball((10.0, 0.0, 4.0), 6.0), name="b")
    assert found.lost.tolist() == [False, True, True, True]
    assert (found.weight, found.weight_lost, found.weight_share) == (10.0, 9.0, 0.9)
    error = math.sqrt((1 * 0.9) ** 2 + (2 * 0.1) ** 2 + (3 * 0.1) ** 2 + (4 * 0.1) ** 2) / 10
    assert found.weight_standard_error == pytest.approx(error)
    assert found.text == (
        "loses 3 of 4 streamlines (75 ± 22 %), 90 ± 10 % of the weight, margin 0 mm"
    )
    (row,) = resections_table([found]).rows
    assert row[:6] == ("b", "4", "3", "0.866025", "0.75", "0.216506")
    assert row[6:9] == ("10", "9", "0.9")


def test_parts_without_streamlines_need_no_weights() -> None:
    lines = nt.Tractogram.from_streamlines([[[0, 0, 0], [5, 0, 0]], [[0, 9, 0], [5, 9, 0]]])
    parts = [nt.Tractogram.empty(), lines.with_weights([1, 3]), nt.Tractogram.empty()]
    assert resection(parts, ball((2, 0, 0), 1.0)).weight_share == 0.25


def test_none_lost_says_what_may_have_been_missed() -> None:
    lines = [np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 9.0]])] * 100
    found = resection(nt.Tractogram.from_streamlines(lines), ball((5.0, 0.0, 4.0), 1.0))
    assert found.text == "loses none of 100 streamlines (below 3 %, 95 % confidence), margin 4 mm"
    assert found.standard_error == 0


def test_without_streamlines_there_is_no_margin() -> None:
    found = resection(nt.Tractogram.from_streamlines([]), ball((0, 0, 0), 1.0))
    assert found.text == "has no streamlines"
    nowhere = resection(nt.Tractogram(np.zeros((0, 3)), [0, 0]), ball((0, 0, 0), 1.0))
    assert nowhere.text == "loses none of 1 streamlines (below 95 %, 95 % confidence)"
    assert math.isnan(found.margin_mm)
    assert found.line_mm is None


def test_chunks_and_files_are_as_the_whole(tmp_path: Path, bundles: list[nt.Tractogram]) -> None:
    whole = bundles[BOWL]
    mask = np.zeros((3, 3, 3))
    mask[1] = 1
    region = nt.Region.mask(mask, np.diag([2.0, 2, 2, 1]) + np.eye(4, k=3) * 30, "resect")
    found = resection(whole, region)
    whole.save(tmp_path / "b.tck")
    for other in (iter([whole[:7], whole[7:]]), tmp_path / "b.tck"):
        again = resection(other, region)
        assert np.array_equal(again.lost, found.lost)
        assert again.margin_mm == pytest.approx(found.margin_mm)


def test_no_cavity_is_refused() -> None:
    line = nt.Tractogram.from_streamlines([np.zeros((2, 3))])
    with pytest.raises(InvalidRegionError, match="no cavity"):
        resection(line, [])
    with pytest.raises(InvalidRegionError, match="type str"):
        resection(line, "ball")  # type: ignore[arg-type]
