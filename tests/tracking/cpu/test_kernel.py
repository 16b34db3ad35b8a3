"""The compiled kernel: how it is compiled, and how often."""

from __future__ import annotations

import pickle

import numpy as np
from numba.core.dispatcher import Dispatcher
from plans import plan_of
from toys import random_fod

from napari_tractography.model.algorithms import ALGORITHMS, BY_CODE, BY_NAME
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.regions import Region
from napari_tractography.model.seeds import Seeds
from napari_tractography.tracking import codes
from napari_tractography.tracking.cpu import (
    cells,
    deterministic,
    draw,
    drift,
    kernel,
    lanes,
    langevin,
    stepping,
    streamline,
)
from napari_tractography.tracking.cpu.constraints import regions, tissues
from napari_tractography.tracking.cpu.cpu_backend import ThreadBuffers, track_range
from napari_tractography.tracking.cpu.sphere import cones, peaks
from napari_tractography.tracking.cpu.vectors import choice, following
from napari_tractography.tracking.cpu.vectors import kernel as vector_kernel
from napari_tractography.tracking.engine import track

MODULES = (
    cells, choice, cones, deterministic, draw, drift, following, langevin, lanes, peaks, regions,
    stepping, streamline, tissues, vector_kernel,
)  # fmt: skip


def test_reference_counting_is_off_in_all_of_the_kernel():
    dispatchers = {
        name: value
        for module in MODULES
        for name, value in vars(module).items()
        if isinstance(value, Dispatcher)
    }
    dispatchers["track_block"] = the_kernel()
    assert {
        "next_vectors",
        "draw_directions",
        "fill_row",
        "step_on",
        "visit_regions",
    } <= dispatchers.keys()
    assert [n for n, d in dispatchers.items() if d.targetoptions.get("_nrt", True)] == []


def the_kernel():
    """The kernel of the defaults."""
    return kernel.block_kernel(BY_NAME["probabilistic"].code, codes.TRILINEAR)


def test_there_is_a_kernel_for_each_kind_of_step_and_interpolation():
    kernels = {
        (row.name, interpolation): kernel.block_kernel(row.code, interpolation)
        for row in ALGORITHMS
        for interpolation in (codes.NEAREST, codes.TRILINEAR)
    }
    assert len(set(kernels.values())) == 10
    for interpolation in (codes.NEAREST, codes.TRILINEAR):
        diffusion = kernels["diffusion", interpolation]
        assert diffusion is kernels["transport", interpolation]


def test_each_kernel_is_cached_in_files_of_its_own():
    """Numba numbers the files of one name without a lock: processes might swap two kernels."""
    kernels = {kernel.block_kernel(a, i) for a in BY_CODE for i in range(2)}
    assert len({k.py_func.__qualname__ for k in kernels}) == len(set(kernels)) == 10


def test_one_compiled_form_serves_every_input():
    """Numba compiles again, for many seconds, when a type or just a flag of an array differs."""
    fod = random_fod(6)
    thawed = pickle.loads(pickle.dumps(fod.coefficients))
    frozen = np.full((3, 3), 1.5, np.float32)
    frozen.flags.writeable = False
    seeds = Seeds.at(frozen)
    ball = Region.sphere((2, 2, 2), 1, "include")
    short = TrackingParameters(max_length_mm=2.0)
    track(fod, seeds, short)
    known = len(the_kernel().signatures)  # other tests may have compiled it for other degrees
    for run in (
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
        lambda: track_range(
            plan_of(fod, seeds, short), 0, 1, np.zeros(1, np.uint8), ThreadBuffers(), 2**31
        ),
    ):
        run()
        assert len(the_kernel().signatures) == known
