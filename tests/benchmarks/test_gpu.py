"""The GPU benchmark: its file of runs, its baseline, and its report, on the stand-in for CuPy."""

from __future__ import annotations

import ctypes
import importlib
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from napari_tractography.fields.sh import sh_matrix
from napari_tractography.geometry.directions import direction_set
from napari_tractography.model.fod import Fod
from napari_tractography.tracking.cuda import source as kernels

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def modules():
    """benchmarks/gpu.py and gpu_bundle.py, and the stand-ins of the tracking tests."""
    folders = [str(ROOT / "benchmarks"), str(ROOT / "tests" / "tracking" / "cuda")]
    sys.path[:0] = folders
    try:
        return {
            name: importlib.import_module(name)
            for name in ("gpu", "gpu_bundle", "gpu_cuslines", "host", "fake_cupy")
        }
    finally:
        for folder in folders:
            sys.path.remove(folder)


@pytest.fixture(scope="module")
def fod() -> Fod:
    """Two lobes in each of 5 x 5 x 5 voxels of 2 mm."""
    units = np.array([[1.0, 0, 0], [0, 1.0, 0]])
    degrees = np.concatenate([np.full(2 * deg + 1, deg) for deg in range(0, 7, 2)])
    values = (sh_matrix(units, 6, "tournier07") * np.exp(-0.02 * degrees * (degrees + 1))).sum(0)
    return Fod(np.broadcast_to(values, (5, 5, 5, 28)), np.diag([2.0, 2.0, 2.0, 1.0]))


@pytest.fixture(scope="module")
def bundle_file(modules, fod, tmp_path_factory):
    path = tmp_path_factory.mktemp("bundle") / "bundle.npz"
    bundle = modules["gpu_bundle"]
    before = bundle.N_CHECKED, bundle.N_SPEED
    bundle.N_CHECKED, bundle.N_SPEED = 60, 300
    try:
        bundle.export(path, fod)
    finally:
        bundle.N_CHECKED, bundle.N_SPEED = before
    return path


@pytest.fixture(scope="module")
def runs(modules, bundle_file):
    return modules["gpu_bundle"].read(bundle_file)


def test_runs_read_from_the_file_give_what_the_cpu_gave(modules, runs, tmp_path):
    library = modules["host"].compile_for_host(tmp_path)
    exact = [name for name in runs if name in modules["gpu_bundle"].EXACT]
    assert len(exact) == 48
    for name in exact:
        found = modules["host"].track_on_host(library, runs[name].plan)
        assert found.digest() == runs[name].expected["digest"]
        assert len(found) == runs[name].expected["n_streamlines"]
    assert {runs[name].expected["n_streamlines"] for name in exact} != {0}


def test_beginnings_agree_within_the_tolerance_and_no_further(modules, runs, tmp_path):
    library, bundle = modules["host"].compile_for_host(tmp_path), modules["gpu_bundle"]
    for name in bundle.CLOSE:
        found = modules["host"].track_on_host(library, runs[name].plan)
        wanted = runs[name].expected["first_points"]
        assert bundle.beginnings_agree(found, wanted)
        assert not bundle.beginnings_agree(found, wanted + np.float32(1e-3))
        assert not bundle.beginnings_agree(found, np.full_like(wanted, np.nan))
        expected = runs[name].expected
        assert bundle.lengths_agree(found, expected)
        assert not bundle.lengths_agree(found, {**expected, "mean_mm": 2 * expected["mean_mm"]})
        assert not bundle.lengths_agree(found, {**expected, "n_streamlines": len(found) + 2})


def test_reading_takes_neither_numba_nor_dipy(tmp_path, bundle_file, runs):
    code = (
        "import sys\n"
        "for name in ('numba', 'dipy', 'scipy', 'nibabel', 'napari', 'qtpy'):\n"
        "    sys.modules[name] = None\n"
        "import gpu\n"
        "print(len(gpu.read(gpu.Path(sys.argv[1]))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(bundle_file)],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'benchmarks'}", "PATH": ""},
        cwd=tmp_path,
    )
    assert int(done.stdout) == len(runs) > 0


@pytest.fixture(scope="module")
def baseline(tmp_path_factory):
    """The baseline kernel, compiled for the host."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ to compile the CUDA source with")
    folder = tmp_path_factory.mktemp("baseline")
    (folder / "entry.cpp").write_text(
        '#include "host_shim.h"\nstruct float4 { float x, y, z, w; };\n'
        f'static Index gridDim;\n#include "{ROOT / "benchmarks" / "baseline.cu"}"\n'
        'extern "C" void run(const Baseline* b) {\n    blockDim.x = 1;\n'
        "    unsigned n = b->n;\n"
        "    for (blockIdx.x = 0; blockIdx.x < n; blockIdx.x++) track_baseline(*b);\n}\n"
    )
    command = [compiler, "-O2", "-shared", "-fPIC", "-Wno-unknown-pragmas"]
    command += [f"-I{ROOT / 'tests' / 'tracking' / 'cuda'}", str(folder / "entry.cpp")]
    subprocess.run([*command, "-o", str(folder / "baseline.so")], check=True)
    return ctypes.CDLL(str(folder / "baseline.so"))


@pytest.mark.parametrize("deterministic", [False, True])
def test_the_baseline_walks_through_the_cones_of_its_table(modules, baseline, runs, deterministic):
    arrays, values = modules["gpu"].baseline_values(runs["speed: probabilistic, nearest"])
    n, steps = 200, values["max_steps"]
    assert steps == 2000  # 250 mm in steps of 0.125
    arrays["seeds"] = np.ascontiguousarray(arrays["seeds"][:n])
    layout = kernels.layout_in("Baseline", (ROOT / "benchmarks" / "baseline.cu").read_text())
    lines = {}
    for endpoints in (False, True):
        shape = (n, 3) if endpoints else (n, steps + 1, 3)
        arrays["points"] = np.full(shape, np.nan, np.float32)
        arrays["n_steps"] = np.zeros(n, np.int32)
        packed = np.zeros((), layout)
        for name, value in values.items():
            packed[name] = value
        for name, array in arrays.items():
            packed[name] = array.ctypes.data
        packed["n"], packed["endpoints"], packed["deterministic"] = n, endpoints, deterministic
        baseline.run(ctypes.c_void_p(packed.ctypes.data))
        lines[endpoints] = arrays["points"], arrays["n_steps"].copy()
    points, n_steps = lines[False]
    assert 10 < n_steps.max() < steps
    np.testing.assert_array_equal(lines[True][1], n_steps)
    np.testing.assert_array_equal(lines[True][0], points[np.arange(n), n_steps])
    np.testing.assert_array_equal(points[:, -1], lines[True][0])  # padded with the last point
    line = points[np.argmax(n_steps), : n_steps.max() + 1].astype(float)
    moved = np.diff(line, axis=0) / 0.125
    np.testing.assert_allclose(np.linalg.norm(moved, axis=1), 1, atol=1e-3)
    cosines = (moved[1:] * moved[:-1]).sum(axis=1)
    assert cosines.min() > np.cos(np.deg2rad(45)) - 1e-3
    along = np.abs(moved[:, :2]).max(axis=1)  # of either lobe
    assert (along.min() > np.cos(np.deg2rad(6))) if deterministic else (along.mean() > 0.8)


def test_the_baseline_gets_the_settings_of_the_run(modules, runs):
    run = runs["speed: probabilistic, nearest"]
    brain = {**run.parameters, "step_mm": 0.5, "max_angle_deg": 20.0}
    arrays, values = modules["gpu"].baseline_values(replace(run, parameters=brain))
    assert (values["step"], values["max_steps"]) == (0.5, 500)
    wide = modules["gpu"].baseline_values(run)[0]["cone"].mean()
    assert wide == pytest.approx((1 - np.cos(np.deg2rad(45))) / 2, rel=0.1)
    assert arrays["cone"].mean() == pytest.approx((1 - np.cos(np.deg2rad(20))) / 2, rel=0.2)


def test_a_brain_is_tracked_in_steps_of_half_a_voxel_above_the_cutoff(modules, fod):
    assert modules["gpu_bundle"].brain_settings(fod) == {"step_mm": 1.0, "min_amplitude": 0.1}


def test_the_crossing_point_is_that_of_the_cost_model(modules):
    gpu = modules["gpu"]
    rows = [
        {"n_streamlines": 1000, "gpu_s": 0.31, "cpu_s": 0.01},  # 0.3 s to begin with
        {"n_streamlines": 10_000, "gpu_s": 0.9, "cpu_s": 0.9},  # between: not looked at
        {"n_streamlines": 100_000, "gpu_s": 1.3, "cpu_s": 1.0},
        {"n_streamlines": 10**6, "gpu_s": 10.3},
    ]
    assert gpu.crossing(rows) is None  # both take 10 microseconds each
    rows[2]["cpu_s"] = 10.0  # but for 0.1 milliseconds the CPU
    found = gpu.crossing(rows)
    each = 9.99 / 99_000 - 0.99 / 99_000
    assert found["faster_from"] == pytest.approx((0.31 - 0.01) / each)
    assert found["auto_from"] == pytest.approx(0.5 / (9.99 / 99_000))  # SHORT_SECONDS of the CPU
    assert gpu.crossing(rows[3:]) is None


def test_the_report_is_made_of_measurements(modules, runs, tmp_path, monkeypatch):
    """On the stand-in, whose clock says a millisecond whatever happens."""
    gpu, fake = modules["gpu"], modules["fake_cupy"]
    from napari_tractography.tracking.cuda import device as cuda_device
    from napari_tractography.tracking.cuda import tables as cuda_tables

    machine = fake.Machine(modules["host"].compile_for_host(tmp_path))
    monkeypatch.setitem(sys.modules, "cupy", machine)
    loaders = cuda_device.load_kernels, cuda_tables.load_kernel
    for load in loaders:
        load.cache_clear()
    low = {
        "bandwidth_gb_per_s": 4000.0,
        "operations_per_s": 2e13,
        "bytes_a_step": 268,
        "operations_a_step": 160,
        "steps_per_s_by_bandwidth": 2e7,
        "steps_per_s_by_operations": 1e7,
    }
    monkeypatch.setattr(gpu, "floor", lambda cupy: low)
    rates = {
        f"{algorithm}_{output}_{part}_steps_per_s": 10.0
        for algorithm in ("probabilistic", "deterministic")
        for output in ("streamlines", "endpoints")
        for part in ("kernel", "whole")
    }
    for name in list(rates):
        rates[name.replace("whole_steps", "streamlines")] = 4321.0
    monkeypatch.setattr(gpu, "baseline", lambda cupy, run: rates)
    machine.cuda.runtime.runtimeGetVersion = lambda: 12090
    report = gpu.measure(runs, 0, [100, 500])
    for load in loaders:
        load.cache_clear()
    assert report["device"] == "Fake 0"
    assert report["differing"] == []
    assert [row["n_streamlines"] for row in report["sizes"]] == [100, 500]
    assert all(row["gpu_s"] > 0 and row["cpu_s"] > 0 for row in report["sizes"])
    mine = report["ours"]["probabilistic, nearest"]
    assert mine["streamlines_kernel_steps_per_s"] > mine["streamlines_whole_steps_per_s"] > 0
    report["cuslines"] = {"skipped": "it is not there"}
    assert "cuslines' CUDA tracker: skipped, it is not there" in gpu.table(report)
    whole = report["ours"]["probabilistic, trilinear"]["streamlines_whole_steps_per_s"]
    report["cuslines"] = {"whole_steps_per_s": whole / 4}
    text = gpu.table(report)
    assert "beside cuslines' CUDA tracker" in text
    assert "| 4.0 |" in text
    assert "| probabilistic, nearest, streamlines, kernel |" in text
    assert "differing from the CPU: none" in text
    rate = mine["streamlines_streamlines_per_s"]
    assert f"| probabilistic, streamlines | {rate:.3g} | 4.32e+03 | 1e+06 |" in text
    assert "| 4.32e+03 | 2.2e+06 |" in text
    assert "floor: 4000 GB/s and 2e+13 operations/s measured; a step takes 268 bytes" in text
    share = 100 * mine["endpoints_kernel_steps_per_s"] / 1e7
    assert "so 1e+07 steps/s at best; kernels of" in text
    assert f"endpoints {share:.1f} %" in text
    changed = dict(runs)
    name = next(iter(modules["gpu_bundle"].EXACT))
    changed[name] = replace(runs[name], expected={**runs[name].expected, "digest": "other"})
    assert gpu.differing(changed, 0) == [name]


class FakeTracker:
    """Takes what cuslines' takes; each seed gives one streamline of 11 points."""

    made: ClassVar[list[FakeTracker]] = []

    def __init__(self, getter, data, mask, threshold, vertices, edges, **settings):
        self.getter, self.data, self.mask, self.settings = getter, data, mask, settings
        self.vertices, self.seeds = vertices, []
        self.seed_propagator = self
        self.made.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def propagate(self, seeds):
        self.seeds.append(seeds)
        self.nSlines = np.array([len(seeds)])
        self.sline_lens = [np.full(len(seeds) + 5, 11)]  # more than there are


def test_cuslines_gets_the_same_fod_and_seeds(modules, runs, fod, monkeypatch):
    module = modules["gpu_cuslines"]
    monkeypatch.setattr(module, "SEEDS_A_CHUNK", 128)
    run = runs[module.SPEED_RUN]
    peer = SimpleNamespace(GPUTracker=FakeTracker, ProbDirectionGetter=lambda: "getter")
    vertices = direction_set(100).astype(float)
    found = module.measure(run, peer, vertices, np.zeros((0, 2), np.int32))
    (tracker,) = FakeTracker.made
    wanted = np.maximum(fod.amplitudes(vertices), 0)
    data = tracker.data * (wanted.max() / tracker.data.max())  # in the unit of the table
    np.testing.assert_allclose(data, wanted, atol=1e-4 * wanted.max())
    assert tracker.mask.all()
    assert tracker.settings["step_size"] == pytest.approx(0.125 / 2.0)
    n = run.plan.n_seeds
    per_run = tracker.seeds[: -(-n // 128)]
    np.testing.assert_allclose(
        np.concatenate(per_run), fod.grid.to_voxel(run.plan.positions_mm), atol=1e-4
    )
    assert found["whole_steps_per_s"] == pytest.approx(10 * found["streamlines_per_s"])


def test_a_peer_that_does_not_run_is_named(modules, tmp_path):
    found = modules["gpu_cuslines"].beside(tmp_path / "missing.npz")
    assert "Error" in found["skipped"]
