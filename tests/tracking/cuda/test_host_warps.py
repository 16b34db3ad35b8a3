"""The CUDA source in warps of 32 lanes, which vote on what to defer, on the host.

On a GPU the lanes of a warp go round their loop together; here each is a context of its own, and
waits for the others where it votes.
"""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
from host import compile_for_host, pointer, track_on_host
from plans import plan_of
from toys import SKEWED, random_fod

from napari_tractography.model.algorithms import ALGORITHMS
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.model.regions import Region
from napari_tractography.model.seeds import Seeds
from napari_tractography.streamlines.tractogram import Tractogram
from napari_tractography.tracking.cpu import cpu_backend as cpu
from napari_tractography.tracking.cuda import source as kernels

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="lanes are contexts of Linux's C library"
)
SHORT = TrackingParameters(step_mm=0.25, max_length_mm=30.0)
WARP_SIZE = 32


@pytest.fixture(scope="module")
def warps(tmp_path_factory):
    return compile_for_host(tmp_path_factory.mktemp("warps"), "-DWARP")


@pytest.fixture(scope="module")
def fod():
    return random_fod(6, shape=(7, 6, 5), affine=SKEWED, seed=21)


TASKS = re.findall(r"^    ([A-Z_]+),?  *//", (kernels.FOLDER / "structs.h").read_text("utf-8"), re.M)


def phases_of(warps) -> dict[str, tuple[int, int]]:
    """How often warps went through each phase since the last call, and how many lanes."""
    counts = np.zeros((2, 16), np.uint64)
    warps.count_phases(pointer(counts[0]), pointer(counts[1]))
    return {task: (int(counts[0, k]), int(counts[1, k])) for k, task in enumerate(TASKS)}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="plain"),
        pytest.param({"max_angle_deg": 12.0}, id="narrow cone"),
        pytest.param({"min_amplitude": 0.3, "min_probability": 0.15}, id="strict thresholds"),
        pytest.param({"output": "endpoints"}, id="endpoints"),
        pytest.param({"record_every": 7, "direction": "backward"}, id="every seventh, backward"),
    ],
)
@pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])
@pytest.mark.parametrize("algorithm", [row.name for row in ALGORITHMS if row.exact])
def test_bits_do_not_depend_on_who_waits_for_whom(warps, fod, algorithm, interpolation, changes):
    parameters = SHORT.replace(algorithm=algorithm, interpolation=interpolation, **changes)
    stop = Region.sphere(fod.grid.centre_mm, 2.0, "stop")
    seeds = Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 300)
    plan = plan_of(fod, seeds, parameters, regions=[stop])
    wanted = Tractogram.concatenate(list(cpu.iter_chunks(plan)))
    found = track_on_host(warps, plan, grid=2, block=64)
    assert found.digest() == wanted.digest()
    assert found.tally == wanted.tally
    assert len(wanted) > 50


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        # Rounds a step; a block of tries in vain, or waiting for other lanes, is one more. In this
        # cone one try of six is accepted.
        pytest.param({"interpolation": "nearest"}, 4.2, id="nearest"),
        pytest.param({"interpolation": "trilinear"}, 4.2, id="trilinear"),
        pytest.param({"min_probability": 0.005}, 5.0, id="with checks of the cone"),
        pytest.param({"algorithm": "deterministic", "interpolation": "nearest"}, 1.5, id="largest"),
    ],
)
def test_lanes_do_not_wait_for_the_slowest_of_their_warp(warps, changes, most):
    fod = make_phantom("cross", lmax=6)
    seeds = Seeds.in_mask(fod.support, fod.grid, 1000)  # many: few lanes are idle in the end
    settings = {"min_amplitude": 0.0, "min_probability": 0.0, **changes}
    plan = plan_of(fod, seeds, SHORT.replace(**settings))
    assert kernels.log_length(plan.settings) == plan.settings.max_steps
    rounds_of(warps)
    found = track_on_host(warps, plan, grid=1, block=WARP_SIZE)
    n_rounds, n_votes = rounds_of(warps)
    n_steps = found.n_points - len(found)  # the second pass chooses none of them again
    assert n_votes > 0.9 * n_steps
    assert n_rounds * WARP_SIZE < most * n_steps
