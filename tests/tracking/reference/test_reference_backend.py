"""Tracking in NumPy and the kernel of the CPU check each other: every bit is the same."""

from __future__ import annotations

from collections import ChainMap

import numpy as np
import pytest
from covering import covering_params
from plans import plan_of
from toys import SKEWED, arc_fod, crossing_fod, random_fod

from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.model.regions import Region
from napari_tractography.model.seeds import Seeds
from napari_tractography.streamlines.tractogram import Tractogram
from napari_tractography.tracking.cpu import cpu_backend as cpu
from napari_tractography.tracking.plan import Plan
from napari_tractography.tracking.reference import reference_backend
from napari_tractography.tracking.reference.lanes import Lanes

N_SEEDS = 150
BASE = {"step_mm": 0.5, "max_length_mm": 60.0}


def both(plan: Plan, other: Plan, **given: int) -> tuple[Tractogram, Tractogram]:
    """What NumPy gives for a plan, and the kernel for another, whose table is its own."""
    cancelled = np.zeros(1, np.uint8)
    by_kernel, _ = cpu.track_range(other, 0, other.n_seeds, cancelled, cpu.ThreadBuffers(), **given)
    return reference_backend.track_range(plan, 0, plan.n_seeds, cancelled, **given), by_kernel


def assert_same(one: Tractogram, other: Tractogram) -> None:
    assert one.digest() == other.digest()
    assert one.tally == other.tally
    assert one.n_seeds == other.n_seeds
    for name in ("points", "offsets", "seed_index", "stop_reasons", "lengths_mm"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert mine.dtype == theirs.dtype, name
        np.testing.assert_array_equal(mine, theirs)


def arcs() -> Fod:
    return make_phantom("arcs", affine=SKEWED)


FODS = {
    "arcs": arcs,
    "lmax 2": lambda: arc_fod(lmax=2),
    "lmax 4": lambda: make_phantom("cross", lmax=4),
    "lmax 6": lambda: random_fod(6, shape=(9, 8, 7), affine=SKEWED),
    "lmax 10": lambda: random_fod(10, shape=(9, 8, 7)),
    "crossings": lambda: crossing_fod(shape=(9, 8, 7)),
    "asymmetric": lambda: random_fod(4, shape=(9, 8, 7), affine=SKEWED, is_asymmetric=True),
}


OPTIONS = {
    "interpolation": {"nearest": {"interpolation": "nearest"}, "trilinear": {}},
    "mass": {"": {}, "some mass": {"min_probability": 0.02}, "much": {"min_probability": 0.1}},
    "cone": {"": {}, "narrow": {"max_angle_deg": 20.0}, "wide": {"max_angle_deg": 90.0}},
    "edge": {"": {}, "interpolated edge": {"edge": "interpolated"}},
    "positivity": {"": {}, "softplus": {"positivity": "softplus"}},
    "direction": {
        "": {},
        "forward": {"direction": "forward"},
        "backward": {"direction": "backward"},
    },
    "start": {"": {}, "largest start": {"start": "max"}, "given start": {"start": "given"}},
    "output": {"": {}, "endpoints": {"output": "endpoints"}, "sparse": {"record_every": 7}},
    "lengths": {
        "": {},
        "short": {"min_length_mm": 10.0, "max_length_mm": 15.0},
        "one step": {"max_length_mm": 0.5},
    },
    "seed": {"": {}, "large seed": {"random_seed": 2**40 + 7}},
    "look": {
        "": {},
        "ahead": {"look_ahead_mm": 3.0},
        "lobe": {"lobe_deg": 10.0},
        "lobe and ahead": {"look_ahead_mm": 3.0, "lobe_deg": 5.0},
    },
}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(dict(ChainMap(*param.values)), id=param.id)
        for param in covering_params(OPTIONS)
    ],
)
def test_every_bit_is_that_of_the_kernel(changes):
    parameters = TrackingParameters(**BASE | changes)
    fod = arcs()
    seeds = Seeds.from_fod(fod, N_SEEDS)
    directions = np.random.default_rng(3).normal(size=(N_SEEDS, 3))
    seeds = Seeds.at(seeds.positions_mm, directions=directions)
    found, wanted = both(plan_of(fod, seeds, parameters), plan_of(arcs(), seeds, parameters))
    assert_same(found, wanted)
    assert len(found) > N_SEEDS / 20


@pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])
@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in FODS.items()])
def test_so_it_is_in_every_fod_and_the_rows_of_its_table_too(make, interpolation):
    parameters = TrackingParameters(**BASE, interpolation=interpolation)
    seeds = Seeds.from_fod(make(), N_SEEDS)
    plan, other = plan_of(make(), seeds, parameters), plan_of(make(), seeds, parameters)
    assert_same(*both(plan, other))
    table, kernels = plan.table, other.table
    n = table.values.shape[1]
    # Those that were filled; halves that are cut off by the maximum length come less far.
    rows = kernels.coefficients[:-1, n].view(np.float16) >= 0
    assert rows.any()
    np.testing.assert_array_equal(table.coefficients[:-1][rows], kernels.coefficients[:-1][rows])
    np.testing.assert_array_equal(table.masses[:-1][rows], kernels.masses[:-1][rows])


@pytest.mark.parametrize("far", [0.0, 2.0])
@pytest.mark.parametrize("positivity", ["clip", "softplus"])
def test_so_it_is_where_tries_are_in_vain_up_to_the_last(positivity, far, monkeypatch):
    n_proposals = []
    after_rejections = Lanes._after_rejections

    def counted(lanes, which):
        n_proposals.extend(lanes.n_proposals[which])
        return after_rejections(lanes, which)

    monkeypatch.setattr(Lanes, "_after_rejections", counted)
    hard = TrackingParameters(
        min_amplitude=0, max_angle_deg=6, max_length_mm=15, step_mm=0.5, look_ahead_mm=far
    )
    fod = random_fod(6, shape=(9, 8, 7))
    plan = plan_of(fod, Seeds.from_fod(fod, N_SEEDS), hard.replace(positivity=positivity))
    assert_same(*both(plan, plan))
    assert set(n_proposals) == {32, 128, 512}


def test_masks_keep_it_in_and_seeds_may_lie_anywhere():
    fod = arcs()
    mask = np.random.default_rng(0).random(fod.grid.shape) < 0.9
    low, high = fod.grid.bounds_mm()
    positions = np.random.default_rng(1).uniform(low - 5, high + 5, (400, 3))
    given = Seeds.at(positions), TrackingParameters(**BASE)
    found, wanted = both(plan_of(fod, *given, mask=mask), plan_of(arcs(), *given, mask=mask))
    assert_same(found, wanted)
    assert 0 < len(found) < 400


def test_seeds_may_lie_where_there_is_nothing():
    fod = arc_fod()
    plan = plan_of(fod, Seeds.at(np.zeros((5, 3))), TrackingParameters(**BASE))
    found, wanted = both(plan, plan)
    assert_same(found, wanted)
    assert not len(found)


def test_parts_of_a_run_are_numbered_as_in_the_whole():
    fod = arcs()
    seeds = Seeds.from_fod(fod, N_SEEDS)
    plan = plan_of(fod, seeds, TrackingParameters(**BASE))
    cancelled = np.zeros(1, np.uint8)
    parts = [
        reference_backend.track_range(plan, first, first + 50, cancelled) for first in (0, 50, 100)
    ]
    whole, wanted = both(plan, plan)
    assert_same(Tractogram.concatenate(parts), wanted)
    assert_same(*both(plan, plan, first_stream=1000))
    assert whole.digest() == wanted.digest()


def test_streams_of_seeds_are_those_of_their_random_numbers():
    fod = arcs()
    seeds = Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 3000, by="voxel")
    plan = plan_of(fod, seeds, TrackingParameters(**BASE))
    found, wanted = both(plan, plan)
    assert len(found) > 50
    assert_same(found, wanted)
    shifted, by_kernel = both(plan, plan, first_stream=1000)
    assert_same(shifted, by_kernel)
    assert shifted.digest() == wanted.digest()
    assert np.array_equal(shifted.seed_index, found.seed_index + 1000)


def test_blocks_of_the_kernel_leave_nothing_behind():
    """A thread tracks block after block in the same memory; here they start where others ended."""
    fod = make_phantom("cross", lmax=6)
    seeds = Seeds.in_sphere((0, 0, 0), 3.0, 60)
    plan = plan_of(fod, seeds, TrackingParameters(max_length_mm=30.0))
    buffers, cancelled = cpu.ThreadBuffers(), np.zeros(1, np.uint8)
    for first, last, shift in ((0, 20, 0), (20, 60, 80)):
        by_kernel, _ = cpu.track_range(plan, first, last, cancelled, buffers, shift)
        assert_same(reference_backend.track_range(plan, first, last, cancelled, shift), by_kernel)


def test_when_cancelled_it_gives_nothing_at_once():
    plan = plan_of(arcs(), Seeds.from_fod(arcs(), 20), TrackingParameters(**BASE))
    found = reference_backend.track_range(plan, 0, 20, np.ones(1, np.uint8))
    assert (len(found), found.n_seeds, found.tally) == (0, 0, {})


@pytest.mark.parametrize(
    ("changes", "given"),
    [
        pytest.param({"algorithm": "deterministic"}, {}, id="algorithm"),
        pytest.param({}, {"regions": [Region.sphere((0, 0, 0), 3.0, "stop")]}, id="regions"),
        pytest.param({}, {"cone": lambda u, v: u @ v.T > 0.8}, id="cone function"),
    ],
)
def test_it_says_what_it_does_not_track(changes, given):
    fod = random_fod(2)
    seeds = Seeds.at(np.ones((1, 3)))
    assert reference_backend.can_track(plan_of(fod, seeds))
    assert not reference_backend.can_track(
        plan_of(fod, seeds, TrackingParameters(**changes), **given)
    )
