"""The compiled kernel: its random numbers, and that it is compiled as fast as it should be."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numba import int64, njit
from numba.core.dispatcher import Dispatcher
from plans import plan_of
from toys import random_fod

from napari_tractography import compiling
from napari_tractography.fields import polynomials as harmonics
from napari_tractography.fod import Fod
from napari_tractography.parameters import TrackingParameters
from napari_tractography.philox import philox4x32
from napari_tractography.regions import Region
from napari_tractography.seeds import Seeds
from napari_tractography.tracking import codes
from napari_tractography.tracking.algorithms import ALGORITHMS, BY_NAME
from napari_tractography.tracking.cpu import (
    draw,
    kernel,
    langevin,
    regions,
    rejection,
    stepping,
    streamline,
)
from napari_tractography.tracking.cpu.run import iter_chunks
from napari_tractography.tracking.engine import track
from napari_tractography.tracking.execution import Execution

philox_block = njit(draw.philox_block.py_func)


def philox_in_kernel(counter, key):
    words = philox_block(*(np.uint64(word) for word in (*counter, *key)))
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


def test_reference_counting_is_off_in_all_of_the_kernel():
    dispatchers = {
        name: value
        for module in (draw, harmonics, langevin, regions, rejection, stepping, streamline)
        for name, value in vars(module).items()
        if isinstance(value, Dispatcher)
    }
    dispatchers["track_block"] = the_kernel()
    dispatchers["walk"] = streamline.walk_of(streamline.deterministic_direction, True, True)
    assert {"walk", "draw_nearest", "step_on", "visit_regions"} <= dispatchers.keys()
    assert [n for n, d in dispatchers.items() if d.targetoptions.get("_nrt", True)] == []


def test_numba_still_heeds_that_reference_counting_is_off():
    """`_nrt` is private: a new Numba that drops it would make the kernel ten times slower."""
    field, state = signature_of_the_kernel()[0], signature_of_the_kernel()[4]
    options = {**compiling.OPTIONS}
    assert options.pop("_nrt") is False

    def code(**more):
        fresh = njit(**options, **more)(streamline.enter_voxel.py_func)
        fresh.compile((field, state, int64, int64))
        return fresh.inspect_llvm(fresh.signatures[0])

    assert "NRT_incref" not in code(_nrt=False)
    assert "NRT_incref" in code()  # so that the line above can fail


def the_kernel():
    """The kernel of the defaults."""
    return kernel.block_kernel(BY_NAME["probabilistic"].code, codes.TRILINEAR)


def signature_of_the_kernel():
    if not the_kernel().signatures:
        track(random_fod(2), Seeds.at([1.5, 1.5, 1.5]))
    return the_kernel().signatures[0]


def test_there_is_a_kernel_for_each_kind_of_step_and_interpolation():
    kernels = {
        (row.name, interpolation): kernel.block_kernel(row.code, interpolation)
        for row in ALGORITHMS
        for interpolation in (codes.NEAREST, codes.TRILINEAR)
    }
    assert len(set(kernels.values())) == 6
    for interpolation in (codes.NEAREST, codes.TRILINEAR):
        diffusion = kernels["diffusion", interpolation]
        assert diffusion is kernels["transport", interpolation]


def test_each_kernel_is_cached_in_files_of_its_own():
    """Numba numbers the files of one name without a lock: processes might swap two kernels."""
    kernels = {kernel.block_kernel(a, i) for a in range(4) for i in range(2)}
    assert len({k.py_func.__qualname__ for k in kernels}) == len(kernels) == 6


def test_one_compiled_form_serves_every_input():
    """Numba compiles again, for many seconds, when a type or just a flag of an array differs."""
    known = len(the_kernel().signatures)
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
        lambda: track(fod, seeds, short.replace(direction="forward", output="endpoints")),
        lambda: track(fod, Seeds.at(frozen, frozen), short.replace(start="given", step_mm=1)),
        lambda: track(fod, seeds[1:], short.replace(random_seed=2**62, min_length_mm=1)),
        lambda: list(
            iter_chunks(plan_of(fod, seeds, short), Execution(block=1), first_stream=2**31)
        ),
    ):
        run()
        # Other tests may have compiled it before, for inputs of theirs.
        assert len(the_kernel().signatures) <= max(known, 1)
