"""Seeding goes on until so many streamlines are accepted; the same ones, however it is done."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from toys import POLE, random_fod, straight_fod

from napari_tractography.errors import (
    InvalidParameterError,
    InvalidRegionError,
    InvalidSeedsError,
)
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.regions import Region
from napari_tractography.model.seeds import Seeds
from napari_tractography.model.stop import StopReason
from napari_tractography.streamlines.streaming import save_chunks
from napari_tractography.streamlines.tractogram import Tractogram
from napari_tractography.tracking import selecting
from napari_tractography.tracking.cpu import cpu_backend as cpu
from napari_tractography.tracking.engine import iter_track, track, track_all, track_between
from napari_tractography.tracking.inputs import Execution, TrackingInput
from napari_tractography.tracking.report import Report

FOD = random_fod(6, shape=(9, 8, 7), seed=5)
LONG = TrackingParameters(step_mm=0.3, max_angle_deg=20.0, min_length_mm=6.0, max_length_mm=20.0)


def seeds(n=10, **more):
    return Seeds.in_mask(np.ones(FOD.grid.shape), FOD.grid, n, **more)


def of_many(wanted: int) -> Tractogram:
    """The same by hand: the first so many streamlines of a run of very many seeds."""
    return track(FOD, seeds(20_000), LONG, backend="cpu")[:wanted]


def test_the_first_n_that_are_accepted_come():
    found = track(FOD, seeds(), LONG, select=700, backend="cpu")
    wanted = of_many(700)
    assert found.digest() == wanted.digest()
    np.testing.assert_array_equal(found.seed_index, wanted.seed_index)
    assert found.n_seeds == wanted.seed_index[-1] + 1 > 1000


@pytest.mark.parametrize("n_given", [1, 333])
@pytest.mark.parametrize("execution", [{"n_threads": 1, "block": 7}, {"n_threads": 3, "block": 91}])
def test_neither_threads_nor_blocks_nor_the_number_of_seeds_matter(n_given, execution):
    one = track(FOD, seeds(), LONG, select=200, backend="cpu")
    other = track(FOD, seeds(n_given), LONG, select=200, backend="cpu", **execution)
    assert (one.digest(), one.tally, one.n_seeds) == (other.digest(), other.tally, other.n_seeds)


def test_rounds_do_not_matter(monkeypatch):
    one = track(FOD, seeds(), LONG, select=200, backend="cpu")
    monkeypatch.setattr(selecting, "_next_round", lambda *_: 37)
    other = track(FOD, seeds(), LONG, select=200, backend="cpu")
    assert (one.digest(), one.tally, one.n_seeds) == (other.digest(), other.tally, other.n_seeds)


def test_what_is_painted_meanwhile_does_not_matter(monkeypatch):
    monkeypatch.setattr(selecting, "_next_round", lambda *_: 37)
    mask = np.ones(FOD.grid.shape, bool)
    mask[:, :3] = False
    wanted = track(FOD, seeds(), LONG, mask=mask, select=200, backend="cpu")
    chunks = iter_track(FOD, seeds(), LONG, mask=mask, select=200, backend="cpu")
    first = next(chunks)
    mask[:] = False
    assert Tractogram.concatenate([first, *chunks]).digest() == wanted.digest()


def test_seeds_are_limited_of_what_selects_alone():
    with pytest.raises(InvalidParameterError, match="max_seeds = 5 limits the seeds of select; g"):
        track(FOD, seeds(), LONG, max_seeds=5, backend="cpu")


def test_a_run_that_gives_up_tells_why_all_were_too_short(caplog):
    short = LONG.replace(max_length_mm=20.0, min_length_mm=19.9, max_angle_deg=3.0)
    found = track(FOD, seeds(), short, select=9, max_seeds=40, backend="cpu")
    assert not len(found)
    assert "most for this reason" in caplog.text


def test_a_warning_comes_once_whatever_rounds_there_are(monkeypatch, caplog):
    monkeypatch.setattr(selecting, "_next_round", lambda *_: 37)
    far = Region.sphere((500, 0, 0), 3, "exclude", name="tumour")
    with caplog.at_level(logging.WARNING):
        track(FOD, seeds(), LONG, regions=[far], select=200, backend="cpu")
    assert caplog.text.count("does not overlap the FOD") == 1


def test_the_tally_is_that_of_the_seeds_that_were_needed():
    found = track(FOD, seeds(), LONG, select=150, backend="cpu", block=400)
    again = track(FOD, seeds(found.n_seeds), LONG, backend="cpu")
    assert found.tally == again.tally
    assert found.digest() == again.digest()


def test_chunks_come_while_it_goes_on_and_the_report_counts():
    report = Report()
    chunks = list(
        iter_track(FOD, seeds(), LONG, select=300, backend="cpu", block=64, report=report)
    )
    assert len(chunks) > 4
    assert sum(len(chunk) for chunk in chunks) == report.n_streamlines == 300
    assert sum(chunk.n_seeds for chunk in chunks) == report.n_seeds


def test_the_time_of_tracking_is_that_of_all_rounds(monkeypatch):
    ranges, track_range = [], cpu.track_range

    def count(plan, first, last, *rest):
        ranges.append(last - first)
        return track_range(plan, first, last, *rest)[0], 0.5

    monkeypatch.setattr(cpu, "track_range", count)
    monkeypatch.setattr(selecting, "_next_round", lambda *_: 37)
    report, one_thread = Report(), {"n_threads": 1, "backend": "cpu"}
    list(iter_track(FOD, seeds(), LONG, select=200, report=report, **one_thread))
    assert len(ranges) > 3
    assert report.seconds["tracking"] == 0.5 * len(ranges)


def test_a_report_that_is_filled_again_forgets_the_run_before():
    report = Report()
    for _ in range(2):
        chunks = list(iter_track(FOD, seeds(40), LONG, backend="cpu", report=report))
    assert report.n_seeds == sum(chunk.n_seeds for chunk in chunks) == 40
    assert report.n_streamlines == sum(len(chunk) for chunk in chunks)


def test_it_gives_up_with_a_sentence(caplog):
    with caplog.at_level(logging.WARNING):
        found = track(FOD, seeds(), LONG, select=500, max_seeds=600, backend="cpu")
    assert found.n_seeds == 600
    assert 0 < len(found) < 500
    assert f"Only {len(found)} of 500 streamlines were accepted of 600 seeds" in caplog.text
    assert "allow more seeds" in caplog.text


def test_by_default_it_gives_up_after_a_thousand_seeds_each(caplog):
    nowhere = LONG.replace(min_length_mm=500.0, max_length_mm=600.0)
    found = track(FOD, seeds(), nowhere, select=2, backend="cpu")
    assert (len(found), found.n_seeds) == (0, 2000)


def test_given_points_are_used_once(caplog):
    points = Seeds.at(seeds(40).positions_mm)
    found = track(FOD, points, LONG, select=39, backend="cpu")
    assert found.n_seeds == 40
    assert found.digest() == track(FOD, points, LONG, backend="cpu").digest()
    assert "no more of the same" in caplog.text


@pytest.mark.parametrize(
    "wrong",
    [{"select": 0}, {"select": 2.5}, {"select": True}, {"select": 3, "max_seeds": -1}],
)
def test_impossible_numbers_are_named(wrong):
    with pytest.raises(InvalidParameterError, match="give a whole number from 1"):
        track(FOD, seeds(), LONG, **wrong)


def test_wrong_input_is_found_before_the_first_chunk():
    with pytest.raises(InvalidSeedsError, match="outside"):
        iter_track(straight_fod(), Seeds.at([[500.0, 0, 0]]), select=3)


CORNER = (0.0, 0.0, 0.0)  # a sphere around it lies outside the image by seven eighths


def test_a_round_without_a_seed_inside_is_a_round_like_others(monkeypatch):
    wanted = track(FOD, Seeds.in_sphere(CORNER, 4.0, 1), LONG, select=5, backend="cpu")
    monkeypatch.setattr(selecting, "_next_round", lambda *_: 1)
    found = track(FOD, Seeds.in_sphere(CORNER, 4.0, 1), LONG, select=5, backend="cpu")
    assert (found.digest(), found.tally) == (wanted.digest(), wanted.tally)
    assert found.tally[StopReason.SEED_OUTSIDE_IMAGE] > 0.6 * found.n_seeds
    points = np.concatenate([seeds(5).positions_mm, np.full((5, 3), 500.0)])
    found = track(FOD, Seeds.at(points), LONG, select=9, backend="cpu")
    assert (found.n_seeds, found.tally[StopReason.SEED_OUTSIDE_IMAGE]) == (10, 5)


@pytest.mark.parametrize("key", range(4))  # the first seed of one or another lies outside
def test_a_region_that_reaches_beyond_the_image_is_tracked_from(key):
    one, other = Region.sphere(CORNER, 4.0, "seed"), Region.sphere((8, 7, 6), 4.0, "seed")
    short = LONG.replace(random_seed=key, min_length_mm=0.3)
    found = track_between(FOD, one, other, 2, short, max_seeds=400, backend="cpu")
    assert found.tally[StopReason.SEED_OUTSIDE_IMAGE] > 0.5 * found.n_seeds


def test_where_few_seeds_lie_inside_many_are_looked_at():
    barely = Seeds.in_sphere((-500.45, 3, 3), 500.0, 1)
    with pytest.raises(InvalidSeedsError, match=r"All 100,000 seeds lie outside .*which spans"):
        iter_track(FOD, barely, LONG, select=300)
    with pytest.raises(InvalidSeedsError, match=r"All 3,000 seeds lie outside"):
        iter_track(FOD, barely, LONG, select=3)


def made_in(kind):
    spheres = [Seeds.in_sphere((3, 3, 3), 2.0, 5), Seeds.in_sphere((5, 4, 3), 1.0, 3, first=5)]
    return {
        "sphere": lambda n, first: Seeds.in_sphere((3, 3, 3), 2.0, n, first=first),
        "mask": lambda n, first: seeds(n, first=first),
        "fod": lambda n, first: Seeds.from_fod(FOD, n, first=first),
        "spheres": lambda n, first: Seeds.concatenate(spheres).more(n, first),
    }[kind]


@pytest.mark.parametrize("kind", ["sphere", "mask", "fod", "spheres"])
def test_seed_i_does_not_depend_on_how_many_are_drawn(kind):
    make = made_in(kind)
    every = make(60, 0).positions_mm
    np.testing.assert_array_equal(make(8, 0).positions_mm, every[:8])
    np.testing.assert_array_equal(make(8, 0).more(20, 31).positions_mm, every[31:51])
    np.testing.assert_array_equal(make(30, 20).positions_mm, every[20:50])
    assert len(np.unique(every, axis=0)) == 60


def test_points_cannot_go_on():
    assert not Seeds.at([[1.0, 2, 3]]).can_go_on
    with pytest.raises(InvalidSeedsError, match="fixed points"):
        Seeds.at([[1.0, 2, 3]]).more(1, 0)


def test_from_a_to_b_and_back():
    fod = straight_fod(shape=(20, 5, 5))
    along = fod.grid.centre_mm - (6, 0, 0)
    parameters = LONG.replace(max_length_mm=40.0, max_angle_deg=45.0)
    line = track(fod, Seeds.in_sphere(along, 0.5, 200), parameters, backend="cpu")
    far = line.points[np.argmax(np.linalg.norm(line.points - along, axis=1))]
    one = Region.sphere(along, 1.0, "seed", name="a")
    other = Region.sphere(0.5 * (far + along), 1.5, "seed", name="b")
    found = track_between(fod, one, other, 31, parameters, max_seeds=20_000, backend="cpu")
    assert len(found) == 31
    first, last = found.points[found.offsets[:-1]], found.points[found.offsets[1:] - 1]
    for n, (start, goal) in enumerate(16 * [(one, other)] + 15 * [(other, one)]):
        points = list(found)[n]
        assert start.contains(points).any()
        assert goal.contains(np.stack([first[n], last[n]])).any()
    assert found.tally[StopReason.STOP_REGION] >= 31


# Parallel fibres along z, and regions across all of them.
CORRIDOR = straight_fod(shape=(9, 9, 40), direction=POLE)
STRAIGHT = TrackingParameters(algorithm="deterministic", step_mm=0.5, min_amplitude=0.05)
A, B = (Region.sphere((4, 4, z), 2.0, "seed", name=name) for z, name in ((5, "a"), (34, "b")))


def across(z):
    affine = np.eye(4)
    affine[2, 3] = z
    return Region.mask(np.ones((9, 9, 2)), affine, "include")


def between(one=A, other=B, n=8, **given):
    what = TrackingInput(CORRIDOR, A.seeds(1), STRAIGHT, select=n, between=(one, other), **given)
    return track_all(what, Execution(backend="cpu"))


@pytest.mark.parametrize(
    ("rule", "places"),
    [("all", ()), ("any", ()), ("ordered", ())]
    + [(rule, (15, 25)) for rule in ("all", "any", "ordered")]
    + [("any", (15, 500)), ("ordered", (25, 15))],
)
def test_between_two_regions_the_other_is_reached_whatever_the_rule(rule, places):
    found = between(include_rule=rule, regions=[across(z) for z in places])
    assert len(found) == 8
    for n, line in enumerate(found):
        assert (B if n < 4 else A).contains(line[[0, -1]]).any()
    if places != (15, 500):
        assert found.digest() == between().digest()


@pytest.mark.parametrize("rule", ["any", "ordered"])
def test_between_two_regions_an_include_region_alone_is_not_enough(rule):
    gap = np.ones(CORRIDOR.grid.shape)
    gap[:, :, 20] = 0
    given = {"regions": [across(10), across(15)], "mask": gap, "max_seeds": 50}
    found = between(include_rule=rule, **given)
    assert (len(found), found.n_seeds) == (0, 100)
    assert sum(count for _, count in found.discarded()) == 100
    assert found.tally[StopReason.NOT_ENDED] >= 50  # all that began in a: they pass both regions


def test_between_two_regions_the_include_regions_count_by_their_rule():
    given = {"regions": [across(10), across(500)], "max_seeds": 50}
    assert not len(between(include_rule="all", **given))
    assert not len(between(include_rule="ordered", **given))
    swapped = [across(10), across(25), across(15)]
    assert not len(between(include_rule="ordered", regions=swapped, max_seeds=50))


def test_between_regions_that_overlap_what_starts_in_both_does_not_count(caplog):
    one, other = A, Region.sphere((4, 4, 8), 2.0, "end", name="b")
    found = between(one, other, 20)
    assert "regions a and b overlap: what starts in both is not counted" in caplog.text
    assert len(found) == 20
    assert found.n_seeds > 20
    assert sum(count for _, count in found.discarded()) == found.n_seeds - 20
    assert found.tally[StopReason.STOP_REGION] == 20
    for n, line in enumerate(found):
        start, goal = (one, other) if n < 10 else (other, one)
        assert goal.contains(line[[0, -1]]).sum() == 1
        assert (start.contains(line) & ~goal.contains(line)).any()


def test_regions_apart_are_not_said_to_overlap(caplog):
    between()
    assert not caplog.text


@pytest.mark.parametrize("one", [A, Region.sphere((4, 4, 5), 1.0, "include", name="a"), across(3)])
def test_a_region_in_the_other_is_refused(one):
    same = across(3) if one.grid else A
    for ends in ((one, same), (same, one)):
        with pytest.raises(InvalidRegionError, match=r"lies in region .*; give two regions"):
            between(*ends)


@pytest.mark.parametrize("given", [{}, {"select": 3, "max_seeds": 500}])
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"min_amplitude": 0.1, "max_angle_deg": 5.0, "min_probability": 0.5}, "LOW_PROBABILITY"),
        ({"min_length_mm": 100.0, "max_length_mm": 200.0}, "LEFT_IMAGE"),
    ],
)
def test_what_ends_streamlines_is_told_where_all_are_too_short(given, changes, reason, tmp_path):
    way = LONG.replace(**changes)
    chunks = list(iter_track(FOD, seeds(500), way, backend="cpu", **given))
    found = Tractogram.concatenate(chunks)
    assert (len(found), found.n_seeds, chunks[-1].n_seeds) == (0, 500, 0)
    assert found.short_since is StopReason[reason]
    assert f"most for this reason: {StopReason[reason].text}; " in found.why_empty()
    with pytest.raises(InvalidSeedsError, match="most for this reason"):
        save_chunks(iter(chunks), tmp_path / "none.tck")


def test_of_runs_with_streamlines_nothing_is_told_of_short_ones():
    chunks = list(iter_track(FOD, seeds(500), LONG, backend="cpu"))
    assert all(chunk.n_seeds and chunk.short_since is None for chunk in chunks)
