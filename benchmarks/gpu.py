"""Speed and correctness of the CUDA backend: one JSON and one table.

    python benchmarks/gpu.py --export bundle.npz [--fod FOD] [--brain]   on any machine, with Numba
    python benchmarks/gpu.py bundle.npz [--json out.json]   on a GPU: NumPy and CuPy suffice

The file holds FODs, seeds and the digests that the CPU backend gives. With --brain it is about a
whole brain, larger than a GPU's caches, in steps of half a voxel (see brain_volume.py).

With only Python, NumPy and CuPy, put the package's source on the path: ``PYTHONPATH=src``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import gpu_cuslines
from gpu_bundle import (
    Run,
    amplitudes_at,
    beginnings_agree,
    brain_settings,
    export,
    lengths_agree,
    read,
    with_seeds,
)
from napari_tractography.runtime.arrays import import_cupy
from napari_tractography.tracking.costs import SHORT_SECONDS, Cost, Work, crossing_seeds
from napari_tractography.tracking.cuda import cuda_backend as cuda
from napari_tractography.tracking.cuda import source as kernels
from napari_tractography.tracking.cuda.device import CudaDevice
from napari_tractography.tracking.devices import cuda_problem, devices
from napari_tractography.tracking.report import Report

HERE = Path(__file__).parent
N_BASELINE_DIRECTIONS = 401
SIZES = (10**3, 10**4, 10**5, 10**6, 10**7)
REPEATS = 3
# Streamlines a second on an A100, by Tractography.jl's documentation (docs/src/gpu.md at 0d15e82).
DOCUMENTED = {"probabilistic": 1.0e6, "deterministic": 2.2e6}
# A step of the nearest-voxel kernel at the least: within a voxel, by the first direction that is
# tried. Reads, a sector of 32 bytes: the mask; writes: 12 bytes each of a direction and of a point.
SECTOR_READS, SECTOR, WRITTEN = 1, 32, 24
# Counted in the source: Philox's ten rounds of eight operations, the direction that is tried, its
# amplitude for lmax 8, what surrounds them.
OPERATIONS = 10 * 8 + 60 + 150 + 60


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--export", action="store_true", help="write the bundle")
    parser.add_argument("--fod", type=Path, help="what to export (default: a phantom)")
    parser.add_argument(
        "--brain", action="store_true", help="export a whole brain, enlarged from --fod if given"
    )
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--json", type=Path, help="also write the JSON here")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    options = parser.parse_args()
    if options.export and options.brain:
        from brain_volume import make_brain

        fod = make_brain(options.fod)
        export(options.bundle, fod, **brain_settings(fod))
        return
    if options.export:
        export(options.bundle, load(options.fod))
        return
    problem = cuda_problem()
    if problem:
        sys.exit(f"gpu.py: {problem}")
    runs = read(options.bundle)
    report = measure(runs, options.gpu, options.sizes)
    report["cuslines"] = gpu_cuslines.beside(options.bundle)
    text = json.dumps(report, indent=1)
    if options.json:
        options.json.write_text(text + "\n")
    print(text)
    print(table(report))
    sys.exit(0 if not report["differing"] else 1)


def load(path: Path | None) -> Any:
    """Load an FOD, or make a phantom's."""
    from napari_tractography.files.fods import load_fod
    from napari_tractography.model.phantoms import make_phantom

    return make_phantom("cross") if path is None else load_fod(path)


def measure(runs: dict[str, Run], gpu: int, sizes: list[int]) -> dict[str, Any]:
    """Return everything that is known of this GPU."""
    cupy = import_cupy()
    with cupy.cuda.Device(gpu):
        device = next(d for d in devices() if d.name == f"cuda:{gpu}")
        report: dict[str, Any] = {
            "device": device.model,
            "memory_gb": round(device.total_bytes / 1e9, 1),
            "cupy": cupy.__version__,
            "cuda": cupy.cuda.runtime.runtimeGetVersion(),
            "differing": differing(runs, gpu),
        }
        speed = {k.removeprefix("speed: "): r for k, r in runs.items() if k.startswith("speed: ")}
        report["first_and_second_run_s"] = first_and_second(speed["probabilistic, nearest"], gpu)
        report["ours"] = {name: ours(run, gpu) for name, run in speed.items()}
        report["baseline"] = baseline(cupy, speed["probabilistic, nearest"])
        report["floor"] = floor(cupy)
        report["sizes"] = by_size(speed["probabilistic, nearest"], gpu, sizes)
        report["crossing"] = crossing(report["sizes"])
    return report


def differing(runs: dict[str, Run], gpu: int) -> list[str]:
    """Return the runs whose streamlines are not the CPU's."""
    from napari_tractography.streamlines.tractogram import Tractogram

    bad = []
    for name, run in runs.items():
        if "digest" not in run.expected:
            continue
        found = Tractogram.concatenate(list(cuda.iter_chunks(run.plan, gpus=(gpu,))))
        exact = found.digest() == run.expected["digest"]
        if "first_points" in run.expected:
            exact = lengths_agree(found, run.expected)
            exact &= beginnings_agree(found, run.expected["first_points"])
        if not exact:
            bad.append(name)
    return bad


def first_and_second(run: Run, gpu: int) -> list[float]:
    """Return how long a run takes the first time in this process, and once more."""
    plan = with_seeds(run.plan, run.plan.positions_mm[:10_000])
    return [timed(lambda: list(cuda.iter_chunks(plan, gpus=(gpu,)))) for _ in range(2)]


def timed(action: Any) -> float:
    """Return the seconds of a call."""
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def ours(run: Run, gpu: int) -> dict[str, float]:
    """Return steps a second: kernels alone, end to end, and ends alone."""
    result: dict[str, float] = dict(run.expected)
    for output in ("streamlines", "endpoints"):
        endpoints = output == "endpoints"
        plan = SimpleNamespace(
            **{**vars(run.plan), "settings": run.plan.settings._replace(endpoints=endpoints)}
        )
        best = {"kernels": np.inf, "whole": np.inf}
        steps = 0.0
        for _ in range(1 + REPEATS):  # the first one fills the tables
            report = Report()
            begun = time.perf_counter()
            mm = 0.0
            for chunk in cuda.iter_chunks(plan, gpus=(gpu,), report=report):
                mm += float(chunk.lengths_mm.sum(dtype=float))
            best["whole"] = min(best["whole"], time.perf_counter() - begun)
            best["kernels"] = min(best["kernels"], report.seconds["tracking"])
            steps = mm / run.parameters["step_mm"]
        result[f"{output}_kernel_steps_per_s"] = steps / best["kernels"]
        result[f"{output}_whole_steps_per_s"] = steps / best["whole"]
        result[f"{output}_streamlines_per_s"] = plan.n_seeds / best["whole"]
    device = CudaDevice(gpu, run.plan)
    kernel = device._kernels["count_streamlines"]  # what the compiler says of it
    result["registers"], result["local_bytes"] = kernel.num_regs, kernel.local_size_bytes
    device.close()
    return result


def baseline(cupy: Any, run: Run) -> dict[str, float]:
    """Return the baseline's steps a second, on as many streamlines as its padded buffer allows."""
    module = cupy.RawModule(code=(HERE / "baseline.cu").read_text(), backend="nvrtc")
    kernel = module.get_function("track_baseline")
    kept, values = baseline_values(run)
    max_steps = values["max_steps"]
    on_device = {name: cupy.asarray(array) for name, array in kept.items()}
    free = cupy.cuda.Device().mem_info[0]
    n = min(run.plan.n_seeds, int(0.8 * free) // (12 * (max_steps + 1)))
    on_device["n_steps"] = cupy.zeros(n, "i4")
    result: dict[str, float] = {"n_streamlines": n}
    layout = kernels.layout_in("Baseline", (HERE / "baseline.cu").read_text())
    for output in ("streamlines", "endpoints"):
        on_device["points"] = None  # freed before the next is made
        shape = (n, 3) if output == "endpoints" else (n, max_steps + 1, 3)
        on_device["points"] = cupy.empty(shape, "f4")
        for algorithm in ("probabilistic", "deterministic"):
            packed = np.zeros((), layout)
            for name, value in values.items():
                packed[name] = value
            for name, array in on_device.items():
                packed[name] = array.data.ptr
            packed["n"] = n
            packed["endpoints"] = output == "endpoints"
            packed["deterministic"] = algorithm == "deterministic"
            best = min(
                event_seconds(cupy, lambda p=packed: kernel((-(-n // 256),), (256,), (p,)))
                for _ in range(REPEATS)
            )
            steps = float(on_device["n_steps"].get().sum(dtype=float))
            copied = timed(on_device["points"].get)
            result[f"{algorithm}_{output}_kernel_steps_per_s"] = steps / best
            result[f"{algorithm}_{output}_whole_steps_per_s"] = steps / (best + copied)
            result[f"{algorithm}_{output}_streamlines_per_s"] = n / (best + copied)
    return result


def baseline_values(run: Run) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the baseline's arrays and numbers, from the FOD and the parameters of a run.

    Its directions are those of an even lattice over the whole sphere.
    """
    plan, parameters = run.plan, run.parameters
    field = plan.field
    index = np.arange(N_BASELINE_DIRECTIONS)
    z = 1 - (2 * index + 1) / N_BASELINE_DIRECTIONS
    azimuth = index * np.pi * (3 - np.sqrt(5))
    even = np.stack([*(np.sqrt(1 - z * z) * f(azimuth) for f in (np.cos, np.sin)), z], axis=1)
    units = even.astype(np.float32)
    table = np.zeros((*field.voxel_rows.shape, len(units)), np.float32)
    full = field.voxel_rows >= 0
    table[full] = amplitudes_at(field, units)[field.voxel_rows[full]]
    cone = (units @ units.T >= np.cos(np.deg2rad(parameters["max_angle_deg"]))).astype(np.uint8)
    arrays = {"table": table, "directions": units, "cone": cone, "seeds": plan.positions_mm}
    nx, ny, nz = field.voxel_rows.shape
    return arrays, {
        "nx": nx,
        "ny": ny,
        "nz": nz,
        "n_directions": len(units),
        "max_steps": int(parameters["max_length_mm"] / parameters["step_mm"] + 1e-6),
        "step": parameters["step_mm"],
        "min_probability": parameters["min_probability"],
        "to_voxel": np.ravel(field.to_voxel),
    }


def event_seconds(cupy: Any, action: Any) -> float:
    """Return the seconds that a launch takes on the device."""
    begun, ended = cupy.cuda.Event(), cupy.cuda.Event()
    begun.record()
    action()
    ended.record()
    ended.synchronize()
    return float(cupy.cuda.get_elapsed_time(begun, ended)) / 1e3


def floor(cupy: Any) -> dict[str, float]:
    """Return what the GPU can do, measured, and what that allows a step to take."""
    module = cupy.RawModule(code=(HERE / "baseline.cu").read_text(), backend="nvrtc")
    n = 1 << 26  # float4: 1 GB
    n = min(n, cupy.cuda.Device().mem_info[0] // 80)
    source, target = cupy.zeros((n, 4), "f4"), cupy.zeros((n, 4), "f4")
    blocks = 16 * cupy.cuda.Device().attributes["MultiProcessorCount"]
    copying = module.get_function("copy_floats")
    arguments = (source, target, np.int64(n))
    copy_s = min(
        event_seconds(cupy, lambda: copying((blocks,), (256,), arguments)) for _ in range(REPEATS)
    )
    spinning, rounds = module.get_function("spin"), 1 << 14
    words = cupy.zeros(blocks * 256, "u4")
    spin_s = min(
        event_seconds(cupy, lambda: spinning((blocks,), (256,), (words, np.int32(rounds))))
        for _ in range(REPEATS)
    )
    bandwidth = 2 * 16 * n / copy_s
    rate = 4.0 * rounds * blocks * 256 / spin_s
    n_bytes = SECTOR_READS * SECTOR + WRITTEN
    return {
        "bandwidth_gb_per_s": bandwidth / 1e9,
        "operations_per_s": rate,
        "bytes_a_step": n_bytes,
        "operations_a_step": OPERATIONS,
        "steps_per_s_by_bandwidth": bandwidth / n_bytes,
        "steps_per_s_by_operations": rate / OPERATIONS,
    }


def by_size(run: Run, gpu: int, sizes: list[int]) -> list[dict[str, float]]:
    """Return the time of runs of growing size, CPU beside GPU where Numba is here."""
    try:
        from napari_tractography.tracking.cpu import cpu_backend as cpu
    except ImportError:
        cpu = None
    rows = []
    for n in sizes:
        repeats = -(-n // run.plan.n_seeds)
        plan = with_seeds(run.plan, np.tile(run.plan.positions_mm, (repeats, 1))[:n])
        row: dict[str, float] = {"n_streamlines": n}
        row["gpu_s"] = timed(lambda p=plan: consume(cuda.iter_chunks(p, gpus=(gpu,))))
        if cpu is not None and n <= 10**6:
            plan.settings = plan.settings._replace(
                **{
                    name: np.float32(value)
                    for name, value in plan.settings._asdict().items()
                    if isinstance(value, float)
                },
                key_0=np.uint64(plan.settings.key_0),
                key_1=np.uint64(plan.settings.key_1),
            )
            row["cpu_s"] = timed(lambda p=plan: consume(cpu.iter_chunks(p)))
        rows.append(row)
    return rows


def crossing(rows: list[dict[str, float]]) -> dict[str, float] | None:
    """Return from how many streamlines on the GPU is faster, and from how many "auto" takes it.

    By the cost model that "auto" uses, through the smallest and the largest run of both; None
    where there are no two.
    """
    both = [row for row in rows if "cpu_s" in row]
    if len(both) < 2:
        return None
    small, large = both[0], both[-1]

    def cost(seconds: str) -> Cost:
        n = small["n_streamlines"]
        each = (large[seconds] - small[seconds]) / (large["n_streamlines"] - n)
        return Cost(max(small[seconds] - n * each, 0.0), 0.0, max(each, 1e-12), mm_per_seed=1.0)

    cpu, gpu = cost("cpu_s"), cost("gpu_s")
    faster = crossing_seeds(Work(n_seeds=1, step_mm=1.0), cpu, gpu)  # a streamline for a step
    if not np.isfinite(faster):
        return None
    return {"faster_from": faster, "auto_from": max(faster, SHORT_SECONDS / cpu.s_per_step)}


def consume(chunks: Any) -> None:
    """Take all chunks and keep none."""
    for _ in chunks:
        pass


def table(report: dict[str, Any]) -> str:
    """Return the figures as a Markdown table."""
    base = report["baseline"]
    lines = [
        f"{report['device']}, {report['memory_gb']} GB, CuPy {report['cupy']}",
        "",
        "| what | ours, steps/s | baseline, steps/s | ratio |",
        "|---|---|---|---|",
    ]
    for name, found in report["ours"].items():
        algorithm = name.partition(",")[0]
        for output in ("streamlines", "endpoints"):
            for part in ("kernel", "whole"):
                mine = found[f"{output}_{part}_steps_per_s"]
                other = base[f"{algorithm}_{output}_{part}_steps_per_s"]
                lines.append(
                    f"| {name}, {output}, {part} | {mine:.3g} | {other:.3g} | {mine / other:.1f} |"
                )
    peer = report["cuslines"]
    if "skipped" in peer:
        lines += ["", f"cuslines' CUDA tracker: skipped, {peer['skipped']}"]
    else:
        mine = report["ours"]["probabilistic, trilinear"]["streamlines_whole_steps_per_s"]
        other = peer["whole_steps_per_s"]
        lines.append(
            f"| probabilistic, trilinear, whole, beside cuslines' CUDA tracker | {mine:.3g} "
            f"| {other:.3g} | {mine / other:.1f} |"
        )
    lines += ["", *streamline_rates(report)]
    lines += ["", f"differing from the CPU: {', '.join(report['differing']) or 'none'}"]
    lines += ["", *floor_lines(report)]
    lines += ["", "| streamlines | GPU, s | CPU, s |", "|---|---|---|"]
    lines += [
        f"| {row['n_streamlines']:,} | {row['gpu_s']:.3g} | {row.get('cpu_s', float('nan')):.3g} |"
        for row in report["sizes"]
    ]
    turn = report["crossing"]
    if turn:
        lines += [
            "",
            f"faster on the GPU from {turn['faster_from']:,.0f} streamlines on; auto takes it from "
            f"{turn['auto_from']:,.0f}",
        ]
    return "\n".join(lines)


def streamline_rates(report: dict[str, Any]) -> list[str]:
    """Return a table of streamlines a second, beside what Tractography.jl documents."""
    lines = [
        "| streamlines/s, whole | ours | baseline | Tractography.jl's documentation, A100 |",
        "|---|---|---|---|",
    ]
    for name, found in report["ours"].items():
        algorithm, _, interpolation = name.partition(", ")
        if interpolation != "nearest":
            continue
        for output in ("streamlines", "endpoints"):
            mine = found[f"{output}_streamlines_per_s"]
            other = report["baseline"][f"{algorithm}_{output}_streamlines_per_s"]
            theirs = f"{DOCUMENTED[algorithm]:.2g}" if output == "streamlines" else ""
            lines.append(f"| {algorithm}, {output} | {mine:.3g} | {other:.3g} | {theirs} |")
    return lines


def floor_lines(report: dict[str, Any]) -> list[str]:
    """Return what a step takes at the least on this GPU, and how far from it we are."""
    low, found = report["floor"], report["ours"]["probabilistic, nearest"]
    best = min(low["steps_per_s_by_bandwidth"], low["steps_per_s_by_operations"])
    reached = ", ".join(
        f"{output} {100 * found[f'{output}_kernel_steps_per_s'] / best:.1f} %"
        for output in ("streamlines", "endpoints")
    )
    return [
        f"floor: {low['bandwidth_gb_per_s']:.0f} GB/s and {low['operations_per_s']:.3g} "
        f"operations/s measured; a step takes {low['bytes_a_step']:.0f} bytes and "
        f"{low['operations_a_step']:.0f} operations at the least, so {best:.3g} steps/s at best; "
        f"kernels of probabilistic, nearest reach of that: {reached}",
    ]


if __name__ == "__main__":
    main()
