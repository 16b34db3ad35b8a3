"""The compiled kernel: its random numbers, and that it is compiled as fast as it should be."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numba import float32, njit
from numba.core.dispatcher import Dispatcher
from toys import random_fod

from napari_tractography.fod import Fod
from napari_tractography.parameters import TrackingParameters
from napari_tractography.regions import Region
from napari_tractography.seeds import Seeds
from napari_tractography.tracking import borders, codes, draw, harmonics, kernel, langevin
from napari_tractography.tracking.cpu import iter_chunks
from napari_tractography.tracking.engine import make_plan, track
from napari_tractography.tracking.philox import philox4x32


@njit
def lane_drawn(field, scratch, patch, share):
    """Lane of a patch of one voxel, and its amplitude."""
    lane, amplitude, _ = draw.draw_lane_near(
        field.levels, scratch.rows, scratch.scales, patch, share, np.uint32(0)
    )
    return lane, amplitude


def philox_in_kernel(counter, key):
    words = draw.philox_block(*(np.uint64(word) for word in (*counter, *key)))
    return [int(word) for word in words]


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        pytest.param(
            (0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8), id="zeros"
        ),
        pytest.param(
            (0xFFFFFFFF,) * 4,
            (0xFFFFFFFF,) * 2,
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
            id="ones",
        ),
        pytest.param(
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
            id="pi",
        ),
    ],
)
def test_philox_gives_the_known_answers_of_random123(counter, key, answer):
    assert tuple(philox_in_kernel(counter, key)) == answer


def test_philox_equals_its_specification():
    rng = np.random.default_rng(0)
    for _ in range(50):
        counter = rng.integers(0, 2**32, 4)
        key = rng.integers(0, 2**32, 2)
        wanted = philox4x32(counter, int(key[0]) | int(key[1]) << 32)
        assert philox_in_kernel(counter, key) == wanted.tolist()


def test_a_direction_without_amplitude_is_drawn_by_no_random_word():
    """The words at which a running sum steps are the ones that could."""
    fod = random_fod(8)
    plan = make_plan(fod, Seeds.at([1.5, 1.5, 1.5]), TrackingParameters())
    levels = plan.table.levels
    scratch = codes.new_scratch(plan.table.n_patches, 0, 0, 10)
    scratch.scales[0] = 1.0
    n_zero = 0
    for row in range(fod.n_voxels):
        scratch.rows[0] = row
        for patch in range(plan.table.n_patches):
            n_zero += int((levels[row, patch] == 0).sum())
            steps = np.cumsum(levels[row, patch]) / max(int(levels[row, patch].sum()), 1)
            words = (np.append(0.0, steps) * 2**24).astype(np.int64)[:, None] + [-1, 0, 1]
            for word in np.unique(words.clip(0, 2**24 - 1)):
                share = np.float32(word * 2.0**-24)
                lane, amplitude = lane_drawn(plan.field, scratch, patch, share)
                assert lane == codes.LANES or levels[row, patch, lane] == amplitude > 0
    assert n_zero > 1000


def test_reference_counting_is_off_in_all_of_the_kernel():
    dispatchers = {
        name: value
        for module in (borders, draw, harmonics, kernel, langevin)
        for name, value in vars(module).items()
        if isinstance(value, Dispatcher)
    }
    assert {"track_block", "draw_direction", "visit_regions"} <= dispatchers.keys()
    assert [n for n, d in dispatchers.items() if d.targetoptions.get("_nrt", True)] == []


def test_numba_still_heeds_that_reference_counting_is_off():
    """`_nrt` is private: a new Numba that drops it would make the kernel ten times slower."""
    field = signature_of_the_kernel()[0]
    options = {**codes.OPTIONS}
    assert options.pop("_nrt") is False

    def code(**more):
        fresh = njit(**options, **more)(draw.place.py_func)
        fresh.compile((field, float32, float32, float32))
        return fresh.inspect_llvm(fresh.signatures[0])

    assert "NRT_incref" not in code(_nrt=False)
    assert "NRT_incref" in code()  # so that the line above can fail


def signature_of_the_kernel():
    if not kernel.track_block.signatures:
        track(random_fod(2), Seeds.at([1.5, 1.5, 1.5]))
    return kernel.track_block.signatures[0]


def test_one_compiled_form_serves_every_input():
    """Numba compiles again, for many seconds, when a type or just a flag of an array differs."""
    known = len(kernel.track_block.signatures)
    fod = random_fod(4)
    thawed = pickle.loads(pickle.dumps(fod.coefficients))
    frozen = np.full((3, 3), 1.5, np.float32)
    frozen.flags.writeable = False
    seeds = Seeds.at(frozen)
    ball = Region.sphere((2, 2, 2), 1, "include")
    short = TrackingParameters(max_length_mm=2.0)
    for run in (
        lambda: track(fod, seeds, short),
        lambda: track(Fod(thawed, fod.grid), Seeds.at([[1.5, 1.5, 1.5]]), short),
        lambda: track(fod, seeds, short, mask=np.ones(fod.grid.shape)),
        lambda: track(fod, seeds, short, mask=np.ones(fod.grid.shape, bool)),
        lambda: track(fod, seeds, short, regions=[ball]),
        lambda: track(
            fod, seeds, short, regions=[ball, Region.mask(np.ones((4, 4, 4)), np.eye(4), "stop")]
        ),
        lambda: track(fod, seeds, short, cone=lambda current, units: units @ current > 0.5),
        lambda: track(fod, seeds, short.replace(algorithm="deterministic", output="endpoints")),
        lambda: track(fod, Seeds.at(frozen, frozen), short.replace(start="given", step_mm=1)),
        lambda: track(fod, seeds[1:], short.replace(random_seed=2**62, min_length_mm=1)),
        lambda: list(iter_chunks(make_plan(fod, seeds, short), first_stream=2**31, block=1)),
    ):
        run()
        # Other tests may have compiled it before, for inputs of theirs.
        assert len(kernel.track_block.signatures) <= max(known, 1)
