"""With a tissue image, too, the CUDA source compiled for the host gives the bits of the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from host import HostDevice, compile_for_host, track_on_host
from plans import plan_of
from test_host_kernel import assert_same, on_cpu
from toys import SKEWED, crossing_fod

from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.regions import Region
from napari_tractography.model.seeds import Seeds
from napari_tractography.model.stop import StopReason
from napari_tractography.model.tissues import CORTEX, DEEP, FLUID, LESION, WHITE, Tissues

SHAPE = (14, 11, 12)


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    return compile_for_host(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def fod():
    return crossing_fod(shape=SHAPE, affine=SKEWED, seed=3, lmax=6)


@pytest.fixture(scope="module")
def tissues(fod):
    """White matter with lumps of all other tissues in it, empty on one side, on a finer grid.

    ::

        w w c w .
        f w w d .
        w l w w .
    """
    rng = np.random.default_rng(8)
    lumps = rng.choice(
        (WHITE, CORTEX, DEEP, FLUID, LESION), size=(10, 8, 9), p=(0.66, 0.1, 0.12, 0.05, 0.07)
    )
    fractions = np.eye(5)[lumps].repeat(2, 0).repeat(2, 1).repeat(2, 2)
    mixed = fractions + np.roll(fractions, 1, axis=1)
    mixed /= mixed.sum(axis=3, keepdims=True)
    mixed[:, -3:] = 0
    scale = np.diag([13 / 19, 10 / 15, 11 / 17, 1.0])
    return Tissues(mixed, fod.grid.affine @ scale, name="lumps")


@pytest.fixture(scope="module")
def seeds(fod):
    inside = Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 600)
    rng = np.random.default_rng(0)
    return Seeds.at(inside.positions_mm, rng.normal(size=inside.positions_mm.shape))


def short(**changes):
    return TrackingParameters(
        step_mm=0.3, max_angle_deg=30.0, min_amplitude=0.3, max_length_mm=40.0
    ).replace(**changes)


CASES = [
    pytest.param({}, id="plain"),
    pytest.param({"backtrack": True}, id="backtrack"),
    pytest.param({"crop_at_gmwmi": True}, id="crop"),
    pytest.param({"backtrack": True, "crop_at_gmwmi": True, "min_length_mm": 4.0}, id="all"),
    pytest.param({"output": "endpoints", "backtrack": True}, id="endpoints"),
    pytest.param({"output": "endpoints", "crop_at_gmwmi": True}, id="cropped endpoints"),
    pytest.param({"record_every": 5, "backtrack": True, "crop_at_gmwmi": True}, id="every fifth"),
    pytest.param({"direction": "backward", "backtrack": True}, id="backward"),
    pytest.param({"start": "given"}, id="given"),
    pytest.param({"algorithm": "deterministic"}, id="deterministic"),
    pytest.param({"algorithm": "ifod2"}, id="ifod2"),
    pytest.param({"algorithm": "ifod2", "backtrack": True, "crop_at_gmwmi": True}, id="ifod2 back"),
    pytest.param({"algorithm": "sd_stream", "crop_at_gmwmi": True}, id="sd_stream"),
    pytest.param({"min_probability": 0.2, "max_length_mm": 15.0}, id="strict"),
    pytest.param(
        {"lobe_deg": 10.0, "min_roundness": 0.9, "backtrack": True, "max_angle_deg": 60.0},
        id="in its lobe",
    ),
]


@pytest.mark.parametrize("changes", CASES)
@pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])
def test_bits_agree(library, fod, tissues, seeds, interpolation, changes):
    plan = plan_of(fod, seeds, short(interpolation=interpolation, **changes), tissues=tissues)
    wanted = on_cpu(plan)
    assert len(wanted) > 10
    assert_same(track_on_host(library, plan), wanted)


def test_these_comparisons_see_every_reason_that_tissues_can_give(fod, tissues, seeds):
    seen: set[StopReason] = set()
    for case in CASES:
        plan = plan_of(fod, seeds, short(**case.values[0]), tissues=tissues)
        seen |= set(on_cpu(plan).tally)
    of_tissues = {reason for reason in StopReason if reason >= StopReason.ENTERED_CORTEX}
    assert of_tissues <= seen


def test_points_that_are_taken_back_leave_blocks_of_the_pool(library, fod, tissues, seeds):
    plan = plan_of(fod, seeds, short(backtrack=True, step_mm=0.05), tissues=tissues)
    device = HostDevice(library, plan)
    device.count(0, 0, plan.n_seeds)
    n_points = device.n_points(0)
    halves = device.slots[0]["block_halves"][: int(device.slots[0]["totals"][2])]
    assert (halves == -1).sum() > 10
    used = halves[halves >= 0]
    assert len(used) > 1.5 * len(np.unique(used))  # of halves in more than one block
    device.write(0)
    found = device.collect(0)
    assert found.n_points == n_points
    assert_same(found, on_cpu(plan))


@pytest.mark.parametrize("rule", ["all", "any", "ordered"])
@pytest.mark.parametrize("backtrack", [False, True])
def test_bits_agree_with_regions(library, fod, tissues, seeds, backtrack, rule):
    """Where a streamline is taken back, it has not met the regions of what was cut off."""
    x, y, z = fod.grid.centre_mm
    regions = [
        Region.sphere((x, y, z), 4.0, "include"),
        Region.sphere((x + 4, y, z - 3), 3.0, "include"),
        Region.sphere((x - 5, y + 2, z), 2.5, "exclude"),
        Region.sphere((x - 2, y - 4, z + 3), 3.5, "stop"),
    ]
    plan = plan_of(
        fod, seeds, short(backtrack=backtrack), tissues=tissues, regions=regions, include_rule=rule
    )
    wanted = on_cpu(plan)
    assert {StopReason.EXCLUDED, StopReason.NOT_INCLUDED} <= set(wanted.tally)
    assert_same(track_on_host(library, plan), wanted)


def test_a_kernel_for_tissues_alone_gives_the_same(tmp_path, fod, tissues, seeds):
    library = compile_for_host(tmp_path, "-DALGORITHM=0", "-DINTERPOLATION=1", "-DTISSUES=1")
    plan = plan_of(fod, seeds, short(backtrack=True, crop_at_gmwmi=True), tissues=tissues)
    assert_same(track_on_host(library, plan), on_cpu(plan))


def test_a_kernel_without_tissues_gives_what_there_was(tmp_path, library, fod, seeds):
    without = compile_for_host(tmp_path, "-DTISSUES=0")
    plan = plan_of(fod, seeds, short())
    assert_same(track_on_host(without, plan), track_on_host(library, plan))
