"""The GPU benchmark: its file of runs, its baseline, and its report, on the stand-in for CuPy."""

from __future__ import annotations

import ctypes
import importlib
import json
import re
import shutil
import struct
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
from napari_tractography.model.algorithms import BY_NAME
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.model.seeds import Seeds
from napari_tractography.tracking import codes
from napari_tractography.tracking.cuda import source as kernels
from napari_tractography.tracking.engine import make_plan
from napari_tractography.tracking.inputs import TrackingInput

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def modules():
    """benchmarks/gpu.py and gpu_bundle.py, and the stand-ins of the tracking tests."""
    folders = [str(ROOT / "benchmarks"), str(ROOT / "tests" / "tracking" / "cuda")]
    sys.path[:0] = folders
    try:
        return {
            name: importlib.import_module(name)
            for name in ("gpu", "gpu_bundle", "gpu_cuslines", "gpu_model", "host", "fake_cupy")
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
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle, "N_EXACT", 60)
        patch.setattr(bundle, "N_STORED", dict.fromkeys(bundle.N_STORED, 200))
        patch.setattr(bundle, "N_TIMED", dict.fromkeys(bundle.N_TIMED, 480))
        bundle.export(
            path,
            bundle.rounded(fod),
            speed=("spot", "brain"),
            exact=tuple(bundle.EXACT),
            spot_mm=fod.grid.centre_mm,
        )
    return path


@pytest.fixture(scope="module")
def runs(modules, bundle_file):
    return modules["gpu_bundle"].read(bundle_file)


@pytest.fixture(scope="module")
def libraries(modules, tmp_path_factory):
    """The kernels for the host, by the end of a run's name: "" for coefficients of even degrees."""
    defines = {
        "": (),
        "peaks": ("-DVECTORS", "-DLMAX=2"),
        "tensors": ("-DVECTORS", "-DLMAX=2"),
        "odd degrees": ("-DASYMMETRIC=1",),
    }
    build = modules["host"].compile_for_host
    return {end: build(tmp_path_factory.mktemp("kernels"), *d) for end, d in defines.items()}


def test_runs_read_from_the_file_give_what_the_cpu_gave(modules, runs, libraries):
    exact = [name for name in runs if name in modules["gpu_bundle"].EXACT]
    assert len(exact) == len(modules["gpu_bundle"].EXACT) == 104
    for name in exact:
        library = libraries[next((end for end in libraries if end and name.endswith(end)), "")]
        found = modules["host"].track_on_host(library, runs[name].plan)
        assert found.digest() == runs[name].expected["digest"], name
        assert len(found) == runs[name].expected["n_streamlines"]
    without = [name for name in exact if not runs[name].expected["n_streamlines"]]
    assert not any("plain" in name or "peaks" in name or "tissues" in name for name in without)
    assert len(without) < 10


def test_the_plan_of_the_file_is_one_that_the_cpu_tracks(runs):
    from napari_tractography.streamlines.tractogram import Tractogram
    from napari_tractography.tracking.cpu import cpu_backend

    for name in ("sd_stream, trilinear, plain", "deterministic, nearest, peaks"):
        found = Tractogram.concatenate(list(cpu_backend.iter_chunks(runs[name].plan)))
        assert found.digest() == runs[name].expected["digest"]


def test_timed_runs_come_first_and_repeat_their_seeds(modules, runs):
    bundle = modules["gpu_bundle"]
    names = list(runs)
    assert names[0] == "spot-probabilistic-nearest"
    timed = [name for name in bundle.SPEED if name.startswith(("spot-", "brain-"))]
    assert names[: len(timed)] == timed
    run = runs["brain-probabilistic-trilinear-0.005"]
    assert run.parameters["min_probability"] == 0.005
    assert run.plan.settings.min_probability == np.float32(0.005)
    assert (run.plan.n_seeds, run.n_timed) == (200, 480)
    plan = bundle.with_seeds(run.plan, 480)
    np.testing.assert_array_equal(plan.positions_mm[200:400], run.plan.positions_mm)
    assert bundle.with_seeds(run.plan, 7).n_seeds == 7
    given = runs["probabilistic, nearest, from given directions"].plan
    assert bundle.with_seeds(given, 7).seed_directions.shape == (7, 3)


def test_fods_are_rounded_to_half_floats_with_fewer_bits(modules, fod):
    bundle = modules["gpu_bundle"]
    for dropped, error in ((0, 2.0**-11), (3, 2.0**-8)):
        values = bundle.rounded(fod, dropped).coefficients
        bits = values.astype(np.float16)
        np.testing.assert_array_equal(bits, values)
        assert not (bits.view(np.uint16) & ((1 << dropped) - 1)).any()
        apart = np.abs(values - fod.coefficients)
        assert (apart <= error * np.abs(fod.coefficients) + 1e-7).all()
        assert apart.max() > 0
    assert bundle.as_half(values).dtype == np.float16
    assert bundle.as_half(fod.coefficients).dtype == np.float32


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
        '#include "host_shim.h"\n'
        f'#include "{ROOT / "benchmarks" / "baseline.cu"}"\n'
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
    arrays, values = modules["gpu"].baseline_values(runs["spot-probabilistic-nearest"])
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
    run = runs["spot-probabilistic-nearest"]
    brain = {**run.parameters, "step_mm": 0.5, "max_angle_deg": 20.0}
    arrays, values = modules["gpu"].baseline_values(replace(run, parameters=brain))
    assert (values["step"], values["max_steps"]) == (0.5, 500)
    wide = modules["gpu"].baseline_values(run)[0]["cone"].mean()
    assert wide == pytest.approx((1 - np.cos(np.deg2rad(45))) / 2, rel=0.1)
    assert arrays["cone"].mean() == pytest.approx((1 - np.cos(np.deg2rad(20))) / 2, rel=0.2)


@pytest.fixture
def machine(modules, libraries, monkeypatch):
    """The stand-in for CuPy, whose clock says a millisecond whatever happens."""
    from napari_tractography.tracking.cuda import device as cuda_device
    from napari_tractography.tracking.cuda import tables as cuda_tables

    machine = modules["fake_cupy"].Machine(libraries[""])
    monkeypatch.setitem(sys.modules, "cupy", machine)
    loaders = cuda_device.load_kernels, cuda_tables.load_kernels
    for load in loaders:
        load.cache_clear()
    yield machine
    for load in loaders:
        load.cache_clear()


def of_coefficients(libraries, runs):
    """The runs that the stand-in's library can track."""
    others = tuple(end for end in libraries if end)
    return {k: r for k, r in runs.items() if not k.endswith(others)}


def test_figures_are_printed_as_they_come(
    modules, runs, libraries, machine, tmp_path, monkeypatch, capsys
):
    gpu = modules["gpu"]
    monkeypatch.setattr(gpu, "link", lambda bench: 50.0)
    monkeypatch.setattr(gpu, "RUN_S", 1e-4)
    monkeypatch.setattr(gpu, "BUDGET_S", 1e-4)
    monkeypatch.setattr(gpu, "SIZES", (10, 100))
    variants = gpu.variants_of(["small=-DLANES=8,-DAREA=2,threads_a_block=32"])
    assert variants == {"base": [], "small": ["-DLANES=8", "-DAREA=2", "threads_a_block=32"]}
    usual = kernels.OPTIONS
    out = tmp_path / "out.json"
    bench = gpu.Bench(of_coefficients(libraries, runs), variants=variants, out=out)
    cases = ["link", "spot-probabilistic-nearest", "exact-ifod2-trilinear", "sizes"]
    gpu.measure(bench, cases)
    assert bench.differing == []
    text = capsys.readouterr().out
    for variant in variants:
        for what in ("left on the card", "digest", "endpoints", "streamed", "click", "kernels"):
            assert f"spot-probabilistic-nearest [{variant}] {what}: " in text
        assert f"exact-ifod2-trilinear [{variant}] digests: 5 of 5 are the CPU's" in text
        assert f"sizes [{variant}] 100 seeds: " in text
    first_kernel = kernels.NAMES[0]
    assert f"{first_kernel} 40/136/" in text
    rows = json.loads(out.read_text())
    assert rows == bench.rows
    left = [row for row in rows if row["what"] == "left on the card"]
    run = runs["spot-probabilistic-nearest"]
    for row in left:
        parts = [row[f"{name}_s"] for name in kernels.NAMES if f"{name}_s" in row]
        assert parts == [1e-3] * len(parts)
        assert len(parts) > 3
        assert row["kernels_s"] == pytest.approx(sum(parts))
        assert row["steps"] > row["lines"] == pytest.approx(row["seeds"], rel=0.1)
    streamed = next(row for row in rows if row["what"] == "streamed")
    assert streamed["bytes"] > 12 * streamed["steps"] > 0
    of_first = run.expected["mean_mm"] / run.parameters["step_mm"]
    assert streamed["steps"] / streamed["lines"] == pytest.approx(of_first, rel=0.2)
    assert any({"-DLANES=8", "-DAREA=2"} < set(options) for options in machine.modules)
    assert usual == kernels.OPTIONS
    small = [block for name, _, block in machine.launches if name == first_kernel]
    assert (32,) in small


def test_of_a_timed_run_what_is_asked_for_is_told(
    modules, runs, libraries, machine, monkeypatch, capsys
):
    gpu = modules["gpu"]
    monkeypatch.setattr(gpu, "RUN_S", 1e-4)
    monkeypatch.setattr(gpu, "BUDGET_S", 1e-4)
    bench = gpu.Bench(of_coefficients(libraries, runs), figures=["click"])
    gpu.speed(bench, "spot-probabilistic-nearest", "base", 50.0)
    text = capsys.readouterr().out
    told = [line.split("] ")[1].partition(":")[0] for line in text.splitlines()]
    assert told == ["left on the card", "digest", "click", "kernels"]


def test_variants_have_numbers_of_the_scheduler_which_are_put_back(modules):
    from napari_tractography.tracking.cuda import device, scheduler

    gpu = modules["gpu"]
    usual = scheduler.AT_ONCE, scheduler.SLOTS, scheduler.AHEAD, device.SLOTS
    with gpu.kernels_of(["AT_ONCE=2", "QUEUED=1", "threads_a_block=32"]) as (_, how):
        assert (scheduler.AT_ONCE, scheduler.SLOTS, scheduler.AHEAD, device.SLOTS) == (2, 4, 6, 4)
        assert how.threads_a_block == 32
    assert usual == (scheduler.AT_ONCE, scheduler.SLOTS, scheduler.AHEAD, device.SLOTS)


def test_streamlines_that_differ_are_told_loudly(modules, runs, libraries, machine, capsys):
    gpu = modules["gpu"]
    changed = of_coefficients(libraries, runs)
    names = "ifod2, trilinear, plain", "diffusion, fixed"
    for name in names:
        changed[name] = replace(runs[name], expected={**runs[name].expected, "digest": "other"})
    bench = gpu.Bench(changed)
    for group in ("exact-ifod2-trilinear", "exact-diffusion-fixed"):
        gpu.measure(bench, [group])
    assert bench.differing == [f"{name} [base]" for name in names]
    text = capsys.readouterr().out
    assert f"!!! DIFFERS FROM THE CPU in {names[0]}: " in text
    assert "digests: 4 of 5 are the CPU's" in text


def test_a_case_that_fails_leaves_the_others_and_time_ends_them(
    modules, runs, libraries, machine, monkeypatch, capsys
):
    gpu = modules["gpu"]
    bench = gpu.Bench(of_coefficients(libraries, runs))
    monkeypatch.setattr(gpu, "SIZES", (10,))
    machine.fails_at = kernels.NAMES[0]
    monkeypatch.setattr(gpu, "link", lambda bench: setattr(machine, "fails_at", ""))
    gpu.measure(bench, ["sizes", "link", "sizes"])
    assert bench.differing == ["sizes"]
    gpu.measure(bench, ["sizes"], limit_s=-1.0)
    text = capsys.readouterr().out
    assert "!!! sizes FAILED: BackendError" in text
    assert "sizes [base] 10 seeds: " in text
    assert "sizes: left out" in text


def test_cases_are_chosen_by_patterns(modules, runs):
    gpu = modules["gpu"]
    cases = gpu.cases_of(runs, [])
    assert cases[:4] == ["link", "compile", "spot-probabilistic-nearest", "baseline-spot"]
    assert {"sizes", "cuslines", "exact-probabilistic-nearest"} < set(cases)
    assert "baseline-all" not in cases  # there are no such seeds in the file
    groups = gpu.exact_groups(runs)
    assert gpu.cases_of(runs, ["exact"]) == list(groups)
    assert sum(map(len, groups.values())) == 104
    chosen = gpu.cases_of(runs, ["brain-d*", "sizes"])
    assert chosen == ["link", "compile", "brain-deterministic-trilinear", "sizes"]
    with pytest.raises(SystemExit, match="no case fits 'brian'"):
        gpu.cases_of(runs, ["brian"])


def test_the_cpu_stands_beside(modules, runs, monkeypatch, capsys):
    gpu = modules["gpu"]
    monkeypatch.setattr(gpu, "RUN_S", 1e-3)
    monkeypatch.setattr(gpu, "BUDGET_S", 1e-3)
    bench = gpu.Bench(runs)
    gpu.on_cpu(bench, "spot-probabilistic-nearest")
    assert [row["what"] for row in bench.rows] == ["endpoints", "streamlines"]
    assert all(row["steps"] > row["lines"] > 0 for row in bench.rows)
    assert bench.rows[1]["bytes"] > bench.rows[0]["bytes"]


def test_machine_code_is_counted_by_kernel(modules, tmp_path):
    """A program with two sections of code, as CuPy keeps it: behind a digest."""
    names = b"\0.text.count\0.shstrtab\0"
    head = bytearray(64)
    head[:4] = b"\x7fELF"
    struct.pack_into("<Q", head, 0x28, 64 + len(names))
    struct.pack_into("<HHH", head, 0x3A, 64, 2, 1)
    sections = b"".join(
        struct.pack("<IIQQQQ", *fields).ljust(64, b"\0")
        for fields in ((1, 1, 0, 0, 0, 4096), (13, 3, 0, 0, 64, len(names)))
    )
    (tmp_path / "one.cubin").write_bytes(b"digest" + bytes(head) + names + sections)
    (tmp_path / "other.txt").write_text("no program")
    assert modules["gpu"].code_sizes(tmp_path) == {"count": 4096}


def test_a_profile_is_a_line_a_kernel(modules, tmp_path, monkeypatch):
    gpu = modules["gpu"]
    rows = [
        '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"',
        '"0","7","count_streamlines","smsp__inst_executed.sum","inst","4,070,000"',
        '"0","7","count_streamlines","launch__registers_per_thread","register/thread","168"',
        '"1","7","write_streamlines","gpu__time_duration.sum","ns","10700"',
        '"1","7","write_streamlines","smsp__inst_executed.sum","inst","n/a"',
    ]
    said = "\n".join(["==PROF== Connected", *rows])
    done = SimpleNamespace(stdout=said, stderr="", returncode=0)
    commands = []
    monkeypatch.setattr(
        gpu.subprocess, "run", lambda command, **_: commands.append(command) or done
    )
    bench = gpu.Bench({}, [tmp_path / "a.npz"], variants={"base": [], "b": ["-DX=1", "-DY"]})
    lines = gpu.profile(bench, "spot-ifod2-trilinear", "b", 500)
    assert lines == [
        "spot-ifod2-trilinear [b] count_streamlines: warp instructions 4.07e+06, registers 168",
        "spot-ifod2-trilinear [b] write_streamlines: ns 1.07e+04, warp instructions n/a",
    ]
    assert commands[0][-4:] == ["--once", "spot-ifod2-trilinear", "b", "500"]
    assert {"--variant=b=-DX=1,-DY", str(tmp_path / "a.npz")} < set(commands[0])
    done.stdout = "==ERROR== no permission"
    assert "no permission" in gpu.profile(bench, "spot-ifod2-trilinear", "b", 500)[0]


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
    np.testing.assert_allclose(data, wanted, atol=3e-4 * wanted.max())
    assert tracker.mask.all()
    assert tracker.settings["step_size"] == pytest.approx(0.125 / 2.0)
    n = run.n_timed
    per_run = tracker.seeds[: -(-n // 128)]
    positions = modules["gpu_bundle"].with_seeds(run.plan, n).positions_mm
    np.testing.assert_allclose(np.concatenate(per_run), fod.grid.to_voxel(positions), atol=1e-4)
    assert found["whole_steps_per_s"] == pytest.approx(10 * found["streamlines_per_s"])


def test_a_peer_that_does_not_run_is_named(modules, tmp_path):
    found = modules["gpu_cuslines"].beside([tmp_path / "missing.npz"])
    assert "Error" in found["skipped"]


# ------------------------------------------------------------------------------------ the model


MACHINE_CODE = """
\t.section\t.text.track_streamlines,"ax",@progbits
\t//## File "/track.cu", line {outer}
        /*0000*/                   MOV R1, R2 ;
.L_x_1:
\t//## File "/track.cu", line {inner} inlined at "/track.cu", line {outer}
\t//## File "/track.cu", line {outer}
        /*0010*/                   FMUL R1, R2, R3 ;
.L_x_7:
        /*0020*/              @!P0 BRA `(.L_x_1) ;
\t//## File "/track.cu", line {outer}
        /*0030*/                   EXIT ;
\t.section\t.text.other,"ax",@progbits
"""


@pytest.fixture(scope="module")
def counted(modules):
    """Blocks of a loop of a function and of what is around it, and the two places."""
    model = modules["gpu_model"]
    places = model.places_of_source()
    outer = max(k for k, place in enumerate(places) if place[0] == "track.cu")
    inner = max(k for k, place in enumerate(places) if place[0] == "starts.h")
    text = MACHINE_CODE.format(outer=outer + 1, inner=inner + 1)
    return model.blocks_of(text), places[inner], places[outer]


def test_machine_code_is_read_in_blocks_with_lines_and_loops(counted):
    blocks, inner, outer = counted
    assert [block.places for block in blocks] == [[(outer,)], [(inner, outer)] * 2, [(outer,)]]
    assert [len(block.loops) for block in blocks] == [0, 1, 0]
    assert blocks[1].repeats((inner, outer))
    assert not blocks[0].repeats((outer,))


def test_instructions_are_those_of_a_block_as_often_as_its_lines_are_reached(modules, counted):
    model = modules["gpu_model"]
    blocks, inner, outer = counted
    # 64 lanes call the function, go three times round its loop, and 128 call it from elsewhere.
    counts = model.Counts(
        lines={inner: 3 * 192, outer: 64}, entries={inner: 192, outer: 64}, phases={}, n_steps=10
    )
    found = model.instructions(blocks, counts)
    warps, lanes = (sum(one[k] for one in found.values()) for k in range(2))
    assert lanes == pytest.approx((64 + 2 * 3 * 64 + 64) / 10)
    assert warps == pytest.approx(lanes / 32)


FUNCTION = """
\t.section\t.text.track_streamlines,"ax",@progbits
\t//## File "/track.cu", line {outer}
        /*0000*/                   BRA.DIV UR4, `(.L_x_2) ;
        /*0010*/                   CALL.REL.NOINC `({called}) ;
        /*0020*/                   EXIT ;
.L_x_2:
        /*0030*/                   MOV R1, R2 ;
        /*0040*/                   BRA `(.L_x_3) ;
        .type           {called},@function
{called}:
\t//## File "/track.cu", line {inner} inlined at "/track.cu", line {outer}
\t//## File "/track.cu", line {outer}
        /*0050*/                   FMUL R1, R2, R3 ;
        /*0060*/                   RET.REL.NODEC R16 ;
        .type           $__internal_0_$__cuda_sm20_sqrt_rn_f32_slowpath,@function
$__internal_0_$__cuda_sm20_sqrt_rn_f32_slowpath:
        /*0070*/                   FMUL R1, R2, R3 ;
\t.section\t.text.other,"ax",@progbits
"""


def test_code_counts_as_often_as_its_function_is_called_and_what_is_never_run_does_not(modules):
    """The compiler names the wrong calls of a function's code; warps come to votes together."""
    model = modules["gpu_model"]
    places = model.places_of_source()
    function = {name: place for place, name in model.FUNCTION_OF.items()}
    own, inner = function["amplitude_of_lane"], function["value_at"]
    outer = max(k for k, place in enumerate(places) if place[0] == "track.cu")
    called = "$track_streamlines$_ZN3x17amplitude_of_laneEifff"
    text = FUNCTION.format(outer=outer + 1, inner=places.index(inner) + 1, called=called)
    counts = model.Counts(
        # Of 500 calls of what is inlined in the function 96 are by that.
        lines={inner: 4 * 500, own: 96, places[outer]: 64},
        entries={inner: 500, own: 96, places[outer]: 64},
        phases={},
        n_steps=1,
    )
    found = model.instructions(model.blocks_of(text), counts)
    assert sum(lanes for _, lanes in found.values()) == pytest.approx(3 * 64 + 2 * 96)


def test_code_is_run_as_often_as_it_is_come_to(modules):
    """Where the host has other code, that is how often its call is; of a loop written out, once."""
    model = modules["gpu_model"]
    function = {name: place for place, name in model.FUNCTION_OF.items()}
    own, inner = function["amplitude_of_lane"], function["value_at"]
    counts = model.Counts(
        lines={own: 96, inner: 4 * 96}, entries={own: 96, inner: 96}, phases={}, n_steps=1
    )
    unknown = ("half_floats.h", 9)
    assert model.runs_of(model.Block([]), (unknown, own), counts) == 96
    written_out = model.Block([], function="amplitude_of_lane")
    assert model.runs_of(written_out, (inner,), counts) == 96
    written_out.loops.append([written_out])  # and more often where it is a loop
    written_out.places.append((inner,))
    assert model.runs_of(written_out, (inner,), counts) == 4 * 96


@pytest.mark.slow
@pytest.mark.parametrize(
    ("interpolation", "n_instructions"), [("nearest", 100), ("trilinear", 146)]
)
def test_a_step_takes_as_many_instructions_as_it_did(modules, interpolation, n_instructions):
    model = modules["gpu_model"]
    if model.nvdisasm() is None or shutil.which("gcov") is None:
        pytest.skip("no nvdisasm and gcov to count with")
    fod = make_phantom("cross", lmax=8)
    parameters = TrackingParameters(step_mm=0.125, max_length_mm=60.0, interpolation=interpolation)
    seeds = Seeds.in_mask(fod.support, fod.grid, model.LANES * model.LINES_A_LANE)
    work = model.work_a_step(make_plan(TrackingInput(fod, seeds, parameters), on_gpu=True))
    assert work.instructions == pytest.approx(n_instructions, rel=0.1)
    assert work.lanes >= 28
    assert work.n_bytes < 77_000


@pytest.mark.parametrize("algorithm", ["probabilistic", "sd_stream"])
def test_all_lanes_of_a_warp_begin_a_round_together(modules, algorithm):
    """The machine code comes back to where the loop begins by one way, which all lanes take."""
    model = modules["gpu_model"]
    if model.nvdisasm() is None:
        pytest.skip("no nvdisasm to read the machine code with")
    defines = kernels.defines(BY_NAME[algorithm].code, codes.TRILINEAR, 8)
    assembly = model.disassembly((*defines, *kernels.usual(ahead=True)), "sm_90")
    text = assembly[assembly.index(f"section\t.text.{model.KERNEL},") :]
    at: dict[str, int] = {}
    back: list[tuple[int, str, str]] = []  # instructions gone back, condition, target
    for line in text[: text.index("\t.section\t", 10)].splitlines():
        if label := re.match(r"(\.L_x_\d+):", line):
            at[label[1]] = len(back)
        elif re.match(r"\s+/\*[0-9a-f]{4,}\*/", line):
            branch = re.search(r"\*/\s+(@\S+)?\s*BRA.*`\((\.L_x_\d+)\)", line)
            condition, target = branch.groups("") if branch else ("", "")
            back.append((len(back) - at.get(target, len(back)), condition, target))
    furthest = max(n for n, _, _ in back)
    assert furthest > 2000
    ways = {(condition, target) for n, condition, target in back if n > 0.9 * furthest}
    assert len(ways) == 1
    assert {condition for condition, _ in ways} == {""}


@pytest.mark.parametrize(("steps", "link", "busiest"), [(1e9, 1e12, "card"), (1e9, 1e8, "link")])
def test_streamlines_come_as_fast_as_the_slower_of_card_and_link(modules, steps, link, busiest):
    card = modules["gpu_model"].Card(steps=steps, link=link, enough=1.0)
    lengths = np.full(10, 102)
    seconds, points = card.seconds(lengths, 2e7, 9, 8, 6_000_000)
    assert points == 6_000_000 * 103
    best = points / {"card": steps, "link": link}[busiest]
    assert best < seconds < 1.15 * best
