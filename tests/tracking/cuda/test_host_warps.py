"""The CUDA source in warps of 32 lanes, which vote on what to defer, on the host.

On a GPU the lanes of a warp go round their loop together; here each is a context of its own, and
waits for the others where it votes.
"""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
from covering import covering_params
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


_ENUM = re.search(r"enum Task \{(.*?)\};", kernels.source(), re.DOTALL)
assert _ENUM is not None
TASKS = re.findall(r"^    ([A-Z_]+)\b", _ENUM[1], re.MULTILINE)


def phases_of(warps) -> dict[str, tuple[int, int]]:
    """How often warps went through each phase since the last call, and how many lanes."""
    counts = np.zeros((2, 16), np.uint64)
    warps.count_phases(pointer(counts[0]), pointer(counts[1]))
    return {task: (int(counts[0, k]), int(counts[1, k])) for k, task in enumerate(TASKS)}


CHANGES = {
    "plain": {},
    "narrow cone": {"max_angle_deg": 12.0},
    "strict thresholds": {"min_amplitude": 0.3, "min_probability": 0.15},
    "endpoints": {"output": "endpoints"},
    "every seventh, backward": {"record_every": 7, "direction": "backward"},
}


@pytest.mark.parametrize(
    ("changes", "interpolation", "algorithm"),
    covering_params(
        {
            "changes": CHANGES,
            "interpolation": {each: each for each in ("nearest", "trilinear")},
            "algorithm": {row.name: row.name for row in ALGORITHMS},
        }
    ),
)
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


# How often a warp enters a phase, a step, and with how many lanes of 32.
PROPOSED = {"ARRIVE": (0.033, 30.5), "PROPOSE": (0.102, 17.1), "CHECK": (0.033, 30.3)}


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        pytest.param({"interpolation": "nearest"}, PROPOSED, id="nearest"),
        # A bound decides at each step that enough of the FOD is in the cone: nothing more is done.
        pytest.param(
            {"interpolation": "trilinear", "min_probability": 0.005},
            PROPOSED,
            id="trilinear, with checks of the cone",
        ),
        # Of four steps one reaches another voxel, or turns. Of a step that does neither nothing but
        # the step is taken, and few lanes take it while others wait for enough to search.
        pytest.param(
            {"algorithm": "deterministic", "interpolation": "nearest"},
            {"ARRIVE": (0.0085, 28.2), "CHOOSE": (0.0083, 26.6), "MOVE": (0.070, 14.4)},
            id="largest",
        ),
    ],
)
def test_lanes_do_not_wait_for_the_slowest_of_their_warp(warps, changes, wanted):
    fod = make_phantom("cross", lmax=6)
    seeds = Seeds.in_mask(fod.support, fod.grid, 1000)  # many: few lanes are idle in the end
    settings = {"min_amplitude": 0.0, "min_probability": 0.0, **changes}
    plan = plan_of(fod, seeds, SHORT.replace(**settings))
    phases_of(warps)
    found = track_on_host(warps, plan, grid=1, block=WARP_SIZE)
    phases = phases_of(warps)
    n_steps = found.n_points - len(found)
    assert phases["MOVE"][1] == n_steps  # each step is taken once
    if "PROPOSE" in wanted:
        assert phases["CHECK"][1] < 1.02 * n_steps
        wanted = wanted | {"MOVE": wanted["CHECK"]}
    for phase, (n_entries, n_lanes) in wanted.items():
        entries, lanes = phases[phase]
        assert entries / n_steps == pytest.approx(n_entries, rel=0.1), phase
        assert lanes / entries == pytest.approx(n_lanes, rel=0.1), phase


def test_lanes_try_arcs_side_by_side(warps):
    """Each finds the FOD for an amplitude of its arc; few wait until enough go along theirs."""
    fod = make_phantom("cross", lmax=6)
    seeds = Seeds.in_mask(fod.support, fod.grid, 1000)
    plan = plan_of(fod, seeds, SHORT.replace(algorithm="ifod2", interpolation="trilinear"))
    phases_of(warps)
    found = track_on_host(warps, plan, grid=1, block=WARP_SIZE)
    phases = phases_of(warps)
    n_arcs = found.n_points - len(found)
    wanted = {"ARRIVE": (0.386, 28.5), "CHOOSE": (0.119, 8.5), "MOVE": (0.318, 9.4)}
    for phase, (n_entries, n_lanes) in wanted.items():
        entries, lanes = phases[phase]
        assert entries / n_arcs == pytest.approx(n_entries, rel=0.1), phase
        assert lanes / entries == pytest.approx(n_lanes, rel=0.1), phase


def test_the_lanes_of_a_warp_have_as_much_memory_in_common_as_is_asked_for(warps):
    assert warps.size_of_common() == kernels.common_bytes(lmax=6)
    assert warps.lanes_of_warp() == kernels.WARP == WARP_SIZE
