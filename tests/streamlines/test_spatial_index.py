"""The spatial index answers as looking at every segment does, with a fraction of the work."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import napari_tractography as nt
from napari_tractography.streamlines import compiled_loops as loops
from napari_tractography.streamlines import passing
from napari_tractography.streamlines import spatial_index as index_module
from napari_tractography.streamlines.spatial_index import SpatialIndex

OBLIQUE = [[1.9, -0.6, 0.1, -14], [0.5, 2.1, -0.4, -20], [0.2, 0.3, 2.5, -18], [0, 0, 0, 1]]


def wandering(n: int, seed: int, step_mm: float = 1.0) -> nt.Tractogram:
    """Polylines of 0 to 60 points within some 40 mm of the origin."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        turns = np.cumsum(rng.normal(scale=0.2, size=(rng.integers(0, 60), 3)), axis=0)
        turns += rng.normal(size=3)
        steps = turns / np.maximum(np.linalg.norm(turns, axis=1, keepdims=True), 1e-9)
        lines.append(rng.uniform(-20, 20, 3) + np.cumsum(steps * step_mm, axis=0))
    return nt.Tractogram.from_streamlines(lines)


@pytest.fixture(params=["compiled", "numpy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the index is made and asked: by compiled loops, or by NumPy until they are there."""
    monkeypatch.setattr(loops, "are_ready", lambda: request.param == "compiled")
    return str(request.param)


@pytest.mark.parametrize("step_mm", [0.5, 3.0, 30.0])
@pytest.mark.parametrize("cell_mm", [1.0, 4.0, 50.0])
def test_the_index_finds_what_every_segment_tells(way: str, step_mm: float, cell_mm: float) -> None:
    tractogram = wandering(200, 3, step_mm)
    made = SpatialIndex(tractogram.points, tractogram.offsets, cell_mm=cell_mm)
    rng = np.random.default_rng(1)
    for radius in (0.2, 1.0, 6.0, 25.0, 300.0):
        region = nt.Region.sphere(rng.uniform(-15, 15, 3), radius, "include")
        wanted = passing.touching(tractogram.points, tractogram.offsets, region)
        assert np.array_equal(made.touched(region), wanted)
    mask = nt.Region.mask(rng.random((12, 12, 12)) < 0.3, OBLIQUE, "include")
    wanted = passing.touching(tractogram.points, tractogram.offsets, mask)
    assert wanted.any()
    assert np.array_equal(made.touched(mask), wanted)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), radius=st.floats(0.01, 60.0))
def test_any_sphere(seed: int, radius: float) -> None:
    tractogram = wandering(40, seed)
    region = nt.Region.sphere(np.random.default_rng(seed).uniform(-40, 40, 3), radius, "include")
    wanted = passing.touching(tractogram.points, tractogram.offsets, region)
    found = SpatialIndex(tractogram.points, tractogram.offsets).touched(region)
    assert np.array_equal(found, wanted)


def test_a_sphere_looks_at_its_rim_only(way: str) -> None:
    tractogram = wandering(4000, 7)
    made = SpatialIndex(tractogram.points, tractogram.offsets)
    few = nt.Region.sphere((0, 0, 0), 3.0, "include")
    made.touched(few)
    assert 0 < made.effort.segments < tractogram.n_points / 50
    made.touched(nt.Region.sphere((0, 0, 0), 500.0, "include"))  # all cells lie inside
    assert made.effort.segments == 0


def test_looking_without_an_index_is_the_same_compiled_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tractogram = wandering(500, 2)
    region = nt.Region.sphere((1, 2, 3), 5.0, "include")
    plain = passing.touching(tractogram.points, tractogram.offsets, region)
    monkeypatch.setattr(passing, "LARGE", 1)
    monkeypatch.setattr(index_module, "ALONE", 1)  # more than one thread
    compiled = passing.touching(tractogram.points, tractogram.offsets, region)
    assert 0 < plain.sum() < len(tractogram)
    assert np.array_equal(compiled, plain)


def test_threads_share_the_work_and_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    tractogram = wandering(3000, 4)
    monkeypatch.setattr(index_module, "BLOCK_POINTS", 5000)
    monkeypatch.setattr(index_module, "ALONE", 1)
    made = SpatialIndex(tractogram.points, tractogram.offsets)
    region = nt.Region.sphere((0, 0, 0), 9.0, "include")
    wanted = passing.touching(tractogram.points, tractogram.offsets, region)
    assert np.array_equal(made.touched(region), wanted)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([], id="none"),
        pytest.param([np.empty((0, 3))], id="empty"),
        pytest.param([[(0, 0, 0)]], id="one point"),
        pytest.param([[(0, 0, 0)], np.empty((0, 3)), [(0, 0, 0), (0, 0, 0)]], id="no length"),
        pytest.param([[(-1e6, 0, 0), (1e6, 0, 0)], [(0, 0, 0), (1, 1, 1)]], id="far apart"),
    ],
)
def test_odd_streamlines(way: str, lines) -> None:
    tractogram = nt.Tractogram.from_streamlines(lines)
    made = SpatialIndex(tractogram.points, tractogram.offsets)
    region = nt.Region.sphere((0, 0, 0), 0.5, "include")
    wanted = [len(line) > 0 for line in lines]
    assert made.touched(region).tolist() == wanted
    assert passing.touching(tractogram.points, tractogram.offsets, region).tolist() == wanted


def test_select_asks_the_index_once_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    tractogram = wandering(300, 9)
    regions = [
        nt.Region.sphere((0, 0, 0), 8.0, "include"),
        nt.Region.sphere((5, 5, 5), 6.0, "exclude"),
    ]
    wanted = tractogram.select_numbers(regions=regions)
    made = tractogram.spatial_index()
    assert tractogram.spatial_index() is made
    monkeypatch.setattr(passing, "touching", None)  # not called any more
    assert np.array_equal(tractogram.select_numbers(regions=regions), wanted)
    assert 0 < len(wanted) < len(tractogram)
    assert tractogram.with_weights(np.ones(300)).spatial_index() is made
    assert made.n_bytes > 0


def test_loops_are_compiled_in_a_process_and_numpy_stands_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run: list[str] = []
    monkeypatch.setattr(loops, "has_code_for", lambda loop, argument: False)
    monkeypatch.setattr(loops, "in_a_process", True)
    monkeypatch.setattr(loops, "_begun", loops.threading.Lock())
    monkeypatch.setattr(loops, "_found", loops.threading.Event())
    monkeypatch.setattr(
        loops, "run_once_in_a_process", lambda command, _: run.append(command) or ""
    )
    for loop in ("mark", "meet_sphere", "find_runs"):
        fresh = loops.cached(nogil=True, error_model="numpy")(getattr(loops, loop).py_func)
        monkeypatch.setattr(loops, loop, fresh)
    tractogram = wandering(50, 1)
    made = SpatialIndex(tractogram.points, tractogram.offsets)
    region = nt.Region.sphere((0, 0, 0), 8.0, "include")
    wanted = passing.touching(tractogram.points, tractogram.offsets, region)
    assert np.array_equal(made.touched(region), wanted)
    for thread in loops.threading.enumerate():
        if thread.name == "selection-compiling":
            thread.join()
    assert run == [loops.COMMAND]  # once
    assert not loops.mark.signatures
