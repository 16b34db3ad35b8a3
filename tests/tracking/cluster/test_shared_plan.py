"""Plans on their way to a worker: what arrives is what was sent, to the kernels' eyes as well."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from plans import plan_of
from toys import random_fod, random_vectors

import napari_tractography as nt
from napari_tractography.tracking.cluster.shared_plan import SharedPlan
from napari_tractography.tracking.cluster.work import track_range
from napari_tractography.tracking.execution import Execution
from napari_tractography.tracking.plan import Plan

PARAMETERS = nt.TrackingParameters(step_mm=0.5, max_length_mm=20.0, min_amplitude=0.02)
HERE = Execution("cpu", 1)


def unpacked(shared: SharedPlan, *, read_only: bool) -> SharedPlan:
    """Send a plan as distributed does, the memory of arrays beside the rest."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(shared, protocol=5, buffer_callback=buffers.append)
    arrived = [bytes(one) if read_only else bytearray(one) for one in buffers]
    found: SharedPlan = pickle.loads(data, buffers=arrived)
    return found


def arrays(value: Any, name: str = "plan") -> dict[str, np.ndarray]:
    """All arrays of a plan's records by name."""
    if isinstance(value, np.ndarray):
        return {name: value}
    if isinstance(value, Plan):
        value = {"field": value.field, "settings": value.settings, "regions": value.regions}
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if not isinstance(value, dict):
        return {}
    found: dict[str, np.ndarray] = {}
    for key, part in value.items():
        found |= arrays(part, f"{name}.{key}")
    return found


def cases() -> dict[str, dict[str, Any]]:
    fod = random_fod(6, shape=(6, 6, 6))
    mask = np.zeros(fod.grid.shape, np.uint8)
    mask[1:5] = 1
    voxels = np.zeros(fod.grid.shape, np.uint8)
    voxels[3:] = 1
    regions = (
        nt.Region.sphere((3, 3, 3), 2.0, "include"),
        nt.Region.mask(voxels, fod.grid, "stop"),
    )
    return {
        "an FOD": {"fod": fod},
        "a mask and regions": {"fod": fod, "mask": mask, "regions": regions},
        "peaks": {"fod": random_vectors("peaks")},
        "an asymmetric FOD": {"fod": random_fod(4, shape=(6, 6, 6), is_asymmetric=True)},
    }


@pytest.fixture(params=list(cases()))
def case(request: pytest.FixtureRequest) -> dict[str, Any]:
    return cases()[request.param]


def made(case: dict[str, Any]) -> tuple[Plan, nt.Tractogram]:
    seeds = nt.Seeds.from_fod(case["fod"], 300)
    given = {name: value for name, value in case.items() if name != "fod"}
    plan = plan_of(case["fod"], seeds, PARAMETERS, **given)
    return plan, nt.track(case["fod"], seeds, PARAMETERS, backend="cpu", **given)


@pytest.mark.parametrize("read_only", [False, True])
def test_what_arrives_tracks_the_same_streamlines(case: dict[str, Any], read_only: bool) -> None:
    plan, wanted = made(case)
    shared = unpacked(SharedPlan.of(plan), read_only=read_only)
    parts = [
        track_range(shared, plan.positions_mm[a:b], plan.seed_directions[a:b], a, HERE)
        for a, b in ((0, 100), (100, 300))
    ]
    whole = nt.Tractogram.concatenate([part.result for part in parts])
    assert len(whole) > 50
    assert whole.digest() == wanted.digest()
    np.testing.assert_array_equal(whole.seed_index, wanted.seed_index)
    assert sum(part.n_seeds for part in parts) == 300
    assert {part.backend for part in parts} == {"cpu"}


def test_streams_of_seeds_arrive_with_them() -> None:
    fod = random_fod(6, shape=(6, 6, 6))
    seeds = nt.Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 300, by="voxel")
    plan = plan_of(fod, seeds, PARAMETERS)
    shared = unpacked(SharedPlan.of(plan), read_only=True)
    parts = [
        track_range(
            shared, plan.positions_mm[a:b], plan.seed_directions[a:b], a, HERE,
            streams=plan.streams[a:b],
        ).result
        for a, b in ((0, 100), (100, 300))
    ]  # fmt: skip
    wanted = nt.track(fod, seeds, PARAMETERS, backend="cpu")
    assert len(wanted) > 50
    assert nt.Tractogram.concatenate(parts).digest() == wanted.digest()


@pytest.mark.parametrize("read_only", [False, True])
def test_kernels_are_not_compiled_once_more(case: dict[str, Any], read_only: bool) -> None:
    """Numba compiles a kernel for each mix of arrays that may be written to and that may not."""
    plan, _ = made(case)
    shared = unpacked(SharedPlan.of(plan), read_only=read_only)
    there = shared.plan(plan.positions_mm, plan.seed_directions, 0)
    here, found = arrays(plan), arrays(there)
    assert here.keys() == found.keys()
    assert len(here) > 8
    kinds = [
        {name: (a.dtype, a.ndim, a.flags.writeable, a.flags.c_contiguous) for name, a in of.items()}
        for of in (here, found)
    ]
    assert kinds[0] == kinds[1]


def test_one_table_serves_all_tasks_of_a_worker() -> None:
    plan, _ = made(cases()["an FOD"])
    shared = unpacked(SharedPlan.of(plan), read_only=True)
    tables = {
        id(shared.plan(plan.positions_mm, plan.seed_directions, first).table) for first in range(3)
    }
    assert len(tables) == 1


def test_what_kernels_fill_is_not_sent() -> None:
    plan, _ = made(cases()["an FOD"])
    n_values = plan.table.values.nbytes + plan.table.voxel_rows.nbytes
    sent = pickle.dumps(SharedPlan.of(plan), protocol=5)
    # Besides, there are the directions of the cone and of the sphere: some kilobytes.
    assert n_values < len(sent) < n_values + 20_000
