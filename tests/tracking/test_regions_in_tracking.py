"""Regions while tracking, against the same lines tracked without and judged point by point."""

from __future__ import annotations

import functools
import itertools
import logging

import numpy as np
import pytest
from toys import POLE, SKEWED, random_fod, straight_fod

from napari_tractography.cli.flags import REGION_FLAGS
from napari_tractography.cli.select import ROLES
from napari_tractography.errors import InvalidParameterError
from napari_tractography.geometry.directions import direction_set
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.regions import Region
from napari_tractography.model.roles import ROLE_HELP
from napari_tractography.model.seeds import Seeds
from napari_tractography.model.stop import StopReason
from napari_tractography.tracking.codes import MAX_INCLUDES
from napari_tractography.tracking.engine import track

UP = direction_set(724)[POLE].astype(float)  # nearly z


@functools.cache  # and so is its table
def along_z():
    return straight_fod(shape=(5, 5, 40), direction=POLE)


def corridor(*, regions=(), seed_z=10.0, step_mm=0.5, **changes):
    """One streamline along z through an image of 5 x 5 x 40 voxels of 1 mm.

    ::

        | z = 39.5
        |
        o seed
        |
        | z = -0.5
    """
    rule = changes.pop("include_rule", "all")
    start = np.array([2.0, 2.0, 20.0]) + UP * (seed_z - 20.0) / UP[2]
    return track(
        along_z(),
        Seeds.at([start], [UP]),
        TrackingParameters(
            algorithm="deterministic", interpolation="nearest", start="given", step_mm=step_mm
        ).replace(**changes),
        regions=regions,
        include_rule=rule,
    )


def slab(first, last, role, *, mm=1.0, name="slab"):
    """All points with first <= z < last, on a grid of its own with voxels of `mm` along z."""
    n = round((last - first) / mm)
    affine = np.diag([20.0, 20.0, mm, 1.0])
    affine[:3, 3] = (2, 2, first + mm / 2)
    return Region.mask(np.ones((1, 1, n), np.uint8), affine, role, name=name)


def ball(z, role, radius=1.5):
    return Region.sphere((2, 2, z), radius, role)


def test_the_corridor_goes_from_end_to_end():
    line = corridor()
    assert line.tally == {StopReason.LEFT_IMAGE: 2}
    assert line.points[0, 2] < 0
    assert line.points[-1, 2] > 39


@pytest.mark.parametrize("make", [ball, lambda z, role: slab(z - 1, z + 1, role)])
@pytest.mark.parametrize("z", [3.0, 10.0, 30.0])
def test_exclude_discards_what_enters_at_either_half_or_at_the_seed(make, z):
    line = corridor(regions=[make(z, "exclude")])
    assert not len(line)
    assert line.tally == {StopReason.EXCLUDED: 1}


def test_exclude_beside_the_line_changes_nothing():
    aside = Region.sphere((4, 4, 20), 1.0, "exclude")
    assert corridor(regions=[aside]).digest() == corridor().digest()


@pytest.mark.parametrize("output", ["streamlines", "endpoints"])
@pytest.mark.parametrize("role", ["exclude", "include", "stop", "end"])
def test_a_wall_one_step_thick_is_hit_however_few_points_are_kept(role, output):
    """The wall is 0.5 mm thick, as long as a step; kept are every 50th point and the ends."""
    wall = slab(26.3, 26.8, role, mm=0.5)
    line = corridor(regions=[wall], record_every=50, output=output)
    whole = corridor()
    assert (np.diff(whole.points[:, 2]) < 0.5).all()
    if role == "exclude":
        assert line.tally == {StopReason.EXCLUDED: 1}
    elif role == "include":
        assert len(line) == 1
        missed = corridor(regions=[slab(45, 46, role)], record_every=50, output=output)
        assert missed.tally == {StopReason.NOT_INCLUDED: 1}
    elif role == "stop":
        assert 26.3 <= line.points[-1, 2] < 26.8
        assert line.stop_reasons[0].tolist() == [StopReason.LEFT_IMAGE, StopReason.STOP_REGION]
    else:
        assert line.tally == {StopReason.NOT_ENDED: 1}  # the other half left the image


@pytest.mark.parametrize("record_every", [1, 50])
def test_a_stop_region_keeps_the_first_point_inside(record_every):
    line = corridor(regions=[ball(30, "stop")], record_every=record_every)
    inside = np.linalg.norm(line.points - (2, 2, 30), axis=1) <= 1.5
    assert inside[-1]
    assert inside.sum() == 1
    if record_every == 1:
        before = corridor().points
        np.testing.assert_array_equal(line.points, before[: len(line.points)])


def test_a_seed_inside_a_stop_region_leaves_and_stops_on_coming_back():
    """The region is a ball around the seed and a wall further on: one region in two parts."""
    labels = np.zeros((1, 1, 40), np.uint8)
    labels[..., 8:13] = labels[..., 30:33] = 1
    affine = np.diag([20.0, 20.0, 1.0, 1.0])
    affine[:3, 3] = (2, 2, 0)
    line = corridor(regions=[Region.mask(labels, affine, "stop")])
    assert line.stop_reasons[0].tolist() == [StopReason.LEFT_IMAGE, StopReason.STOP_REGION]
    assert 29.5 <= line.points[-1, 2] < 30.0
    assert line.points[0, 2] < 0


def test_a_stop_region_acts_where_the_seed_lies_in_another():
    """Entering the second region counts while the streamline is still in the first."""
    line = corridor(regions=[slab(5, 25, "stop"), slab(15, 35, "stop")])
    assert 15.0 <= line.points[-1, 2] < 15.5
    assert line.stop_reasons[0, 1] == StopReason.STOP_REGION


def test_end_regions_at_both_ends_keep_the_line_and_one_does_not():
    low, high = ball(3, "end"), ball(30, "end")
    line = corridor(regions=[low, high])
    assert line.stop_reasons[0].tolist() == [StopReason.END_REGION] * 2
    assert np.linalg.norm(line.points[0] - (2, 2, 3)) <= 1.5
    assert np.linalg.norm(line.points[-1] - (2, 2, 30)) <= 1.5
    for single in (low, high):
        assert corridor(regions=[single]).tally == {StopReason.NOT_ENDED: 1}


@pytest.mark.parametrize(("direction", "z"), [("forward", 30), ("backward", 3)])
def test_a_line_tracked_one_way_needs_one_end_region(direction, z):
    assert len(corridor(regions=[ball(z, "end")], direction=direction)) == 1
    other = 33 - z
    line = corridor(regions=[ball(other, "end")], direction=direction)
    assert line.tally == {StopReason.NOT_ENDED: 1}


def test_what_an_end_region_asks_of_a_line_tracked_one_way_is_said_where_it_is_chosen():
    """The tracker asks it of the tracked end, and selecting of both, the seed's too."""
    end = ball(30, "end")
    line = corridor(regions=[end], direction="forward")
    assert not len(line.select(regions=[end]))
    assert len(line.select(regions=[end, ball(10, "end")])) == 1  # where the seed lies
    assert "tracked end" in ROLE_HELP["end"]
    assert "--direction forward" in REGION_FLAGS["end"]
    assert "one way" in ROLES["end"]


def test_stopping_before_the_end_region_discards():
    line = corridor(regions=[ball(3, "end"), ball(30, "end"), ball(20, "stop")])
    assert line.tally == {StopReason.NOT_ENDED: 1}


def test_an_include_region_behind_a_stop_region_is_missed():
    line = corridor(regions=[ball(30, "include"), ball(20, "stop")])
    assert line.tally == {StopReason.NOT_INCLUDED: 1}


@pytest.mark.parametrize("seed_z", [0.0, 5.0, 9.0, 12.0, 20.0, 24.0, 38.0])
@pytest.mark.parametrize("direction", ["both", "forward"])
def test_ordered_regions_are_met_in_order_from_either_end(seed_z, direction):
    """Spheres at z = 5, 12 and 24; the seed before, between, behind and in them."""
    heights = (5, 12, 24)
    passed = [z for z in heights if direction == "both" or z + 1.5 >= seed_z]
    for order in itertools.permutations(heights):
        line = corridor(
            regions=[ball(z, "include") for z in order],
            include_rule="ordered",
            seed_z=seed_z,
            direction=direction,
        )
        wanted = len(passed) == 3 and order in (heights, heights[::-1])
        assert len(line) == wanted, order
    for rule, met in (("any", bool(passed)), ("all", len(passed) == 3)):
        line = corridor(
            regions=[ball(z, "include") for z in heights],
            include_rule=rule,
            seed_z=seed_z,
            direction=direction,
        )
        assert len(line) == met, rule


@pytest.mark.parametrize("seed_z", [2.0, 38.0])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_ordered_regions_may_overlap(seed_z, order):
    """Two walls at the same place, one step thick, and a third: either may be the first of two.

    ::

        o---------[0 = 1]---------[2]---------    and seeded from the other end
    """
    walls = [slab(z, z + 0.5, "include", mm=0.5) for z in (10, 10, 25)]
    line = corridor(regions=[walls[k] for k in order], include_rule="ordered", seed_z=seed_z)
    assert len(line) == (order[1] != 2)


def naive_ordered(hits):
    """Whether (n_points, n_regions) bool has rising indices, one in each region, either way."""

    def rising(table):
        at = 0
        for column in table.T:
            found = np.flatnonzero(column[at:])
            if not len(found):
                return False
            at += found[0]
        return True

    return rising(hits) or rising(hits[::-1])


@pytest.fixture(scope="module")
def tangle():
    """Wild lines in a random FOD on a skewed grid, and regions of both kinds that overlap."""
    fod = random_fod(6, shape=(10, 9, 8), affine=SKEWED, seed=31)
    seeds = Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 1500)
    parameters = TrackingParameters(
        step_mm=0.5, max_length_mm=1000.0, min_amplitude=0.0, min_probability=0.02
    )
    rng = np.random.default_rng(2)
    own = np.array([[1.1, 0.3, 0, 0], [-0.4, -0.9, 0.2, 0], [0.1, 0.2, 1.3, 0], [0, 0, 0, 1.0]])
    blob = rng.random((9, 9, 9)) < 0.3
    own[:3, 3] = fod.grid.centre_mm - own[:3, :3] @ (4, 4, 4)

    def regions(*roles):
        centres = fod.grid.to_mm([[3, 4, 4], [5, 4, 3], [6, 5, 4]])
        kinds = [
            lambda role: Region.sphere(centres[0], 3.0, role),
            lambda role: Region.mask(blob, own, role),
            lambda role: Region.sphere(centres[1], 2.5, role),
            lambda role: Region.sphere(centres[2], 2.2, role),
        ]
        return [make(role) for make, role in zip(kinds, roles, strict=False)]

    return fod, seeds, parameters, regions, track(fod, seeds, parameters)


@pytest.mark.parametrize("rule", ["all", "any", "ordered"])
@pytest.mark.parametrize("exclude", [False, True])
@pytest.mark.parametrize("record_every", [1, 50])
def test_include_and_exclude_keep_what_judging_by_points_keeps(tangle, rule, exclude, record_every):
    fod, seeds, parameters, make_regions, every = tangle
    regions = make_regions("include", "include", "include", *(["exclude"] if exclude else []))
    judge = {"all": lambda h: h.any(0).all(), "any": np.any, "ordered": naive_ordered}[rule]
    wanted = []
    for line, index in zip(every, every.seed_index, strict=True):
        hits = np.stack([region.contains(line) for region in regions], axis=1)
        if judge(hits[:, :3]) and not hits[:, 3:].any():
            wanted.append(index)
    assert 20 < len(wanted) < len(every)
    kept = track(
        fod,
        seeds,
        parameters.replace(record_every=record_every),
        regions=regions,
        include_rule=rule,
    )
    np.testing.assert_array_equal(kept.seed_index, wanted)
    if record_every == 1:
        assert kept.digest() == every[np.isin(every.seed_index, wanted)].digest()
    missed = len(every) - len(wanted)
    rejected = [StopReason.NOT_INCLUDED, StopReason.EXCLUDED]
    assert sum(kept.tally.get(reason, 0) for reason in rejected) >= missed


def test_stop_regions_cut_lines_where_judging_by_points_cuts_them(tangle):
    fod, seeds, parameters, make_regions, every = tangle
    regions = make_regions("stop", "stop", "stop")
    cut = track(fod, seeds, parameters, regions=regions)
    lines = dict(zip(cut.seed_index.tolist(), cut, strict=True))
    n_cut = 0
    for line, index in zip(every, every.seed_index.tolist(), strict=True):
        (at,) = np.flatnonzero((line == seeds.positions_mm[index]).all(axis=1))
        hits = np.stack([region.contains(line) for region in regions], axis=1)

        def first_entered(part):
            entered = part[1:] & ~part[:-1]
            where = np.flatnonzero(entered.any(axis=1))
            return where[0] + 1 if len(where) else len(part) - 1

        last = at + first_entered(hits[at:])
        first = at - first_entered(hits[at::-1])
        np.testing.assert_array_equal(lines[index], line[first : last + 1])
        n_cut += last - first + 1 < len(line)
    assert n_cut > 200


def test_too_many_include_regions_are_refused():
    regions = [ball(10, "include")] * (MAX_INCLUDES + 1)
    with pytest.raises(InvalidParameterError, match="17 include regions"):
        corridor(regions=regions)
    assert len(corridor(regions=regions[:-1])) == 1


def test_a_region_of_seeds_is_refused():
    with pytest.raises(InvalidParameterError, match="role seed"):
        corridor(regions=[ball(10, "seed")])


def test_a_region_that_does_not_overlap_the_fod_is_warned_of(caplog):
    far = Region.sphere((500, 0, 0), 3, "exclude", name="tumour")
    with caplog.at_level(logging.WARNING):
        assert len(corridor(regions=[far, slab(10, 12, "include")])) == 1
    assert "Region tumour (exclude) does not overlap the FOD" in caplog.text
    assert caplog.text.count("does not overlap") == 1
