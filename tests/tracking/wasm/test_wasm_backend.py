"""The kernel for WebAssembly stands in for the CPU's: its streamlines are the same, bit for bit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import weakref
from collections import ChainMap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import wasmtime
from covering import covering_params
from plans import plan_of
from toys import SKEWED, arc_fod, bundles_that_cross, crossing_fod, random_fod, random_vectors

from napari_tractography.model.algorithms import ALGORITHMS
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.model.regions import Region
from napari_tractography.model.seeds import Seeds
from napari_tractography.model.tissues import CORTEX, DEEP, FLUID, LESION, WHITE, Tissues
from napari_tractography.streamlines.tractogram import Tractogram
from napari_tractography.tracking.codes import (
    AMONG_CROSSINGS,
    NOT_AMONG,
    NOT_SEEN,
    OF_VECTORS,
    UNFILLED_BITS,
)
from napari_tractography.tracking.cpu import cpu_backend as cpu
from napari_tractography.tracking.plan import Plan
from napari_tractography.tracking.wasm import modules, wasm_backend
from napari_tractography.tracking.wasm.modules import MODULES, file_name

N_SEEDS = 150
BASE = {"step_mm": 0.5, "max_length_mm": 60.0}
NEVER = np.zeros(1, np.uint8)


def by_kernel(plan: Plan, first_stream: int = 0) -> Tractogram:
    buffers = cpu.ThreadBuffers()
    return cpu.track_range(plan, 0, plan.n_seeds, NEVER, buffers, first_stream)[0]


def assert_same(plan: Plan, first_stream: int = 0) -> Tractogram:
    """Track a plan in WebAssembly; it is to be what the kernel of the CPU gives."""
    wanted = by_kernel(plan, first_stream)
    found = wasm_backend.track_range(plan, 0, plan.n_seeds, NEVER, first_stream)
    assert found.digest() == wanted.digest()
    assert found.tally == wanted.tally
    assert found.n_seeds == wanted.n_seeds
    for name in ("points", "offsets", "seed_index", "stop_reasons", "lengths_mm"):
        mine, theirs = getattr(found, name), getattr(wanted, name)
        assert mine.dtype == theirs.dtype, name
        np.testing.assert_array_equal(mine, theirs)
    return found


def arcs() -> Fod:
    return make_phantom("arcs", affine=SKEWED, lmax=6)


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
    "algorithm": {row.name: {"algorithm": row.name} for row in ALGORITHMS},
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
        "round": {"lobe_deg": 10.0, "min_roundness": 0.8},
        "round and ahead": {"look_ahead_mm": 3.0, "lobe_deg": 5.0, "min_roundness": 0.95},
    },
}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(dict(ChainMap(*param.values)), id=param.id)
        for param in covering_params(OPTIONS)
    ],
)
def test_every_bit_is_that_of_the_kernel(changes: dict[str, Any]) -> None:
    fod = arcs()
    positions = Seeds.from_fod(fod, N_SEEDS).positions_mm
    directions = np.random.default_rng(3).normal(size=(N_SEEDS, 3))
    seeds = Seeds.at(positions, directions=directions)
    plan = plan_of(fod, seeds, TrackingParameters(**BASE | changes))  # type: ignore[arg-type]
    assert wasm_backend.can_track(plan)
    assert sum(assert_same(plan).tally.values()) > N_SEEDS / 2


@pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])
@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in FODS.items()])
def test_so_it_is_in_every_fod(make: Any, interpolation: str) -> None:
    parameters = TrackingParameters(**BASE, interpolation=interpolation)  # type: ignore[arg-type]
    fod = make()
    assert len(assert_same(plan_of(fod, Seeds.from_fod(fod, N_SEEDS), parameters))) > 20


@pytest.mark.parametrize("lmax", [2, 8, pytest.param(4, id="asymmetric")])
def test_rows_of_the_table_have_the_bits_of_the_kernel(lmax: int) -> None:
    """Of large, small, negative and lone amplitudes; those that tracking has filled."""
    is_asymmetric = lmax == 4
    values = random_fod(lmax, shape=(6, 5, 4), seed=5, is_asymmetric=is_asymmetric).coefficients
    values[0] *= 1e4
    values[1] *= 1e-6
    values[2] *= -1
    values[3, :, :, 1:] = 0
    values[4, 0] = -values[3, 0]  # nowhere positive
    fod = Fod(values, np.eye(4))
    seeds = Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 400)
    plan, other = (plan_of(fod, seeds, TrackingParameters(**BASE)) for _ in range(2))  # type: ignore[arg-type]
    by_kernel(other)
    table = plan.field._replace(
        coefficients=plan.field.coefficients.copy(),
        masses=plan.field.masses.copy(),
        crossings=plan.field.crossings.copy(),
    )
    wasm_backend.fill_rows(table, lmax, is_asymmetric)
    rows = other.field.coefficients[:, fod.values.shape[1]].view(np.float16) >= 0
    assert rows.mean() > 0.9
    np.testing.assert_array_equal(table.coefficients[rows], other.field.coefficients[rows])
    np.testing.assert_array_equal(table.masses[rows], other.field.masses[rows])


@pytest.mark.parametrize("algorithm", ["probabilistic", "transport"])
def test_the_same_voxels_are_among_crossings(algorithm: str) -> None:
    fod = bundles_that_cross(25.0)
    parameters = TrackingParameters.for_fod(fod, algorithm=algorithm)
    plan = plan_of(fod, Seeds.in_sphere((0.0, 0.0, 0.0), 20.0, 100), parameters)
    assert_same(plan)
    seen = plan.field.crossings
    is_filled = plan.field.coefficients[:, fod.values.shape[1]] != UNFILLED_BITS
    is_known = is_filled & (seen >= NOT_AMONG) & (seen < NOT_SEEN)  # of others, it may be anything
    filled = plan.field.coefficients.copy(), plan.field.masses.copy(), seen.copy()
    names = ("coefficients", "masses", "crossings")
    table = plan.field._replace(**dict(zip(names, filled, strict=True)))
    wasm_backend.fill_rows(table, 8)
    assert 0.2 < (seen[is_known] >= AMONG_CROSSINGS).mean() < 0.8
    np.testing.assert_array_equal(table.crossings[is_known], seen[is_known])


def test_masks_keep_it_in_and_seeds_may_lie_anywhere() -> None:
    fod = arcs()
    mask = np.random.default_rng(0).random(fod.grid.shape) < 0.9
    low, high = fod.grid.bounds_mm()
    positions = np.random.default_rng(1).uniform(low - 5, high + 5, (400, 3))
    parameters = TrackingParameters(**BASE)  # type: ignore[arg-type]
    assert 0 < len(assert_same(plan_of(fod, Seeds.at(positions), parameters, mask=mask))) < 400
    nowhere = plan_of(arc_fod(), Seeds.at(np.zeros((5, 3))), parameters)
    assert not len(assert_same(nowhere))


@pytest.mark.parametrize("algorithm", [row.name for row in ALGORITHMS])
def test_regions_and_tissues_count(algorithm: str) -> None:
    fod = crossing_fod(shape=(14, 11, 12), affine=SKEWED, seed=3, lmax=6)
    rng = np.random.default_rng(8)
    kinds = (WHITE, CORTEX, DEEP, FLUID, LESION)
    lumps = rng.choice(kinds, size=(14, 11, 12), p=(0.76, 0.08, 0.08, 0.04, 0.04))
    tissues = Tissues(np.eye(5)[lumps], fod.grid.affine)
    x, y, z = fod.grid.centre_mm
    regions = [
        Region.sphere((x, y, z), 6.0, "include"),
        Region.sphere((x - 5, y + 2, z), 2.5, "exclude"),
        Region.mask(lumps == LESION, fod.grid.affine, "stop"),
    ]
    parameters = TrackingParameters(
        step_mm=0.3, max_angle_deg=30.0, max_length_mm=40.0, algorithm=algorithm
    )
    seeds = Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 400)
    assert assert_same(plan_of(fod, seeds, parameters, regions=regions)).tally
    for backtrack in (False, parameters.row.draws):
        given = parameters.replace(backtrack=backtrack, crop_at_gmwmi=backtrack)
        assert len(assert_same(plan_of(fod, seeds, given, tissues=tissues))) > 10
        both = plan_of(fod, seeds, given, tissues=tissues, regions=regions)
        assert assert_same(both).tally


def test_points_that_are_taken_back_may_take_more_memory_than_was_thought() -> None:
    fod = crossing_fod(shape=(14, 11, 12), affine=SKEWED, seed=3, lmax=6)
    rng = np.random.default_rng(8)
    lumps = rng.choice((WHITE, FLUID), size=(14, 11, 12), p=(0.7, 0.3))
    tissues = Tissues(np.eye(5)[lumps], fod.grid.affine)
    parameters = TrackingParameters(
        step_mm=0.05, min_length_mm=0.0, max_length_mm=3.0, max_angle_deg=30.0, backtrack=True
    )
    seeds = Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 200)
    assert_same(plan_of(fod, seeds, parameters, tissues=tissues))


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [
        *(("peaks", name) for name in ("probabilistic", "deterministic", "sd_stream", "transport")),
        *(("tensor", name) for name in ("deterministic", "sd_stream")),
    ],
)
def test_peaks_and_tensors_are_followed_alike(kind: str, algorithm: str) -> None:
    fod = random_vectors(kind)
    seeds = Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 200)
    for interpolation in ("nearest", "trilinear"):
        parameters = TrackingParameters(
            step_mm=0.4, max_length_mm=30.0, max_angle_deg=60.0, min_amplitude=0.2,
            algorithm=algorithm, interpolation=interpolation,
        )  # fmt: skip
        plan = plan_of(fod, seeds, parameters)
        assert wasm_backend.can_track(plan)
        assert len(assert_same(plan)) > 20


def test_a_cone_that_is_a_function_is_followed() -> None:
    def cone(current: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        return np.abs(candidates @ current) > 0.8

    fod = random_fod(6, shape=(7, 6, 5), affine=SKEWED, seed=21)
    parameters = TrackingParameters(**BASE, n_directions=200)  # type: ignore[arg-type]
    assert len(assert_same(plan_of(fod, Seeds.from_fod(fod, 60), parameters, cone=cone))) > 10


def test_parts_of_a_run_are_numbered_as_in_the_whole() -> None:
    fod = arcs()
    plan = plan_of(fod, Seeds.from_fod(fod, N_SEEDS), TrackingParameters(**BASE))  # type: ignore[arg-type]
    parts = [wasm_backend.track_range(plan, first, first + 50, NEVER) for first in (0, 50, 100)]
    assert Tractogram.concatenate(parts).digest() == assert_same(plan).digest()
    assert_same(plan, first_stream=2**31)


def test_streams_of_seeds_are_those_of_their_random_numbers() -> None:
    fod = arcs()
    seeds = Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 3000, by="voxel")
    plan = plan_of(fod, seeds, TrackingParameters(**BASE))  # type: ignore[arg-type]
    found = assert_same(plan)
    assert len(found) > 50
    shifted = assert_same(plan, first_stream=1000)
    assert shifted.digest() == found.digest()
    np.testing.assert_array_equal(shifted.seed_index, found.seed_index + 1000)


def test_what_one_plan_leaves_behind_does_not_reach_the_next(monkeypatch: Any) -> None:
    """Of other parameters, FODs and regions, in a memory that is used again while there is room."""
    wasm_backend.forget()
    made = []
    init = wasm_backend._World.__init__

    def counted(self: Any, *given: Any) -> None:
        made.append(given)
        init(self, *given)

    monkeypatch.setattr(wasm_backend._World, "__init__", counted)
    fod = arcs()
    seeds = Seeds.from_fod(fod, 40)
    for angle in (20.0, 45.0, 60.0, 20.0):
        assert_same(plan_of(fod, seeds, TrackingParameters(**BASE, max_angle_deg=angle)))  # type: ignore[arg-type]
    assert len(made) == 1
    (world,) = wasm_backend._idle
    ends = []
    for _ in range(3):  # a batch takes the place of the one before
        assert_same(plan_of(fod, seeds, TrackingParameters(**BASE)))  # type: ignore[arg-type]
        ends.append(world.end)
    assert len(set(ends)) == 1
    other = random_fod(8, shape=(9, 8, 7))
    for which in (other, fod, other):
        plan = plan_of(which, Seeds.from_fod(which, 40), TrackingParameters(**BASE))  # type: ignore[arg-type]
        assert_same(plan)
    assert len(made) == 2
    monkeypatch.setattr(wasm_backend, "SPARE_BYTES", 0)
    assert_same(plan)
    assert len(made) == 3
    kept = weakref.ref(wasm_backend._idle[-1])
    wasm_backend.forget()
    assert kept() is None  # and its memory with it


AT_EXIT = """
import napari_tractography as nt
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.tracking import kernels
kernels.is_missing = lambda plan: True
kernels.COMMAND = "# {algorithm} {interpolation} {lmax} {kernel}"
kernels.cpu.make_ready = lambda plan: None
fod = make_phantom("cross", lmax=4)
print(len(nt.track(fod, nt.Seeds.from_fod(fod, 30), backend="cpu")))
"""


def test_a_program_ends_without_a_word() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [sys.executable, "-c", AT_EXIT]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 10


def test_rows_are_filled_where_streamlines_run_and_no_others(monkeypatch: Any) -> None:
    """And their coefficients copied some thousand at a time, so that a large FOD is no wait."""
    brought = []
    bring = wasm_backend._World._bring

    def counted(self: Any, first: int, last: int) -> None:
        brought.append((first, last))
        bring(self, first, last)

    monkeypatch.setattr(wasm_backend._World, "_bring", counted)
    fod = random_fod(2, shape=(40, 40, 40))
    seeds = Seeds.in_sphere(fod.grid.centre_mm, 1.0, 50)
    parameters = TrackingParameters(step_mm=0.5, max_length_mm=10.0)
    wasm_backend.forget()
    assert len(assert_same(plan_of(fod, seeds, parameters))) > 20
    assert len(set(brought)) == len(brought)
    assert 0 < sum(last - first for first, last in brought) < 40**3 / 2


def test_when_cancelled_it_gives_what_is_done() -> None:
    plan = plan_of(arcs(), Seeds.from_fod(arcs(), 20), TrackingParameters(**BASE))  # type: ignore[arg-type]
    found = wasm_backend.track_range(plan, 0, 20, np.ones(1, np.uint8))
    assert (len(found), found.n_seeds, found.tally) == (0, 0, {})


@pytest.fixture
def fresh_engine() -> Iterator[None]:
    wasm_backend._close()
    yield
    wasm_backend._close()


def no_memory(_store: Any) -> None:
    raise wasmtime.WasmtimeError("mmap failed to reserve 0x100000000 bytes")


@pytest.mark.parametrize(
    "why",
    ["too large a degree", "an image", "too large", "no Wasmtime", "no room for a memory", "old"],
)
def test_it_says_what_it_does_not_track(why: str, monkeypatch: Any, fresh_engine: None) -> None:
    fod = random_fod(14 if why == "too large a degree" else 2)
    if why == "an image":
        fod = Fod.from_image(np.arange(512.0).reshape(8, 8, 8), np.eye(4))
    if why == "too large":
        monkeypatch.setattr(wasm_backend, "MOST_BYTES", 100)
    if why == "no Wasmtime":
        monkeypatch.setitem(sys.modules, "wasmtime", None)
    if why == "old":
        monkeypatch.setattr(modules, "algorithms_header", lambda: "// another one")
    if why == "no room for a memory":
        monkeypatch.setattr(wasm_backend, "_new_memory", no_memory)
    plan = plan_of(fod, Seeds.at(np.ones((1, 3))), TrackingParameters(algorithm="deterministic"))
    assert not wasm_backend.can_track(plan)
    monkeypatch.undo()
    wasm_backend._close()
    assert wasm_backend.can_track(plan_of(random_fod(2), Seeds.at(np.ones((1, 3)))))


# ------------------------------------------------------------------------------------ the modules


@pytest.fixture(scope="module")
def script(load_script: Any) -> ModuleType:
    module: ModuleType = load_script("wasm")
    return module


def test_modules_are_made_of_the_sources_as_they_are(script: ModuleType) -> None:
    assert modules.are_up_to_date(), "run `python scripts/wasm.py`"
    there = {path.name for path in script.FOLDER.glob("*.wasm")}
    assert there == {file_name(*module) for module in MODULES}


SOME = [(6, False), (OF_VECTORS, False)]


@pytest.mark.parametrize(
    "module",
    [*SOME, *(pytest.param(m, marks=pytest.mark.slow) for m in MODULES if m not in SOME)],
)
def test_a_module_is_what_the_script_makes(
    script: ModuleType, tmp_path: Path, module: tuple[int, bool]
) -> None:
    """Some, unless slow tests run: the others are of the same sources, as above."""
    compiler = shutil.which(script.COMPILER)
    if compiler is None or shutil.which("wasm-ld") is None:
        pytest.skip("no clang and lld to compile for WebAssembly with")
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
    if "Debian clang version 14." not in version:
        pytest.skip("another clang than the one that made the modules, whose bytes may differ")
    script.compile_kernels(tmp_path, [module])
    (made,) = tmp_path.iterdir()
    assert made.read_bytes() == (script.FOLDER / made.name).read_bytes()
