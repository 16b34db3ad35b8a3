"""Speed and correctness of the CUDA backend, a line a figure, in a few minutes of a GPU.

    python benchmarks/gpu.py --export fibercup fibercup.npz      on any machine, with Numba and DIPY
    python benchmarks/gpu.py --export brain brain.npz
    PYTHONPATH=src python benchmarks/gpu.py fibercup.npz brain.npz     on a GPU: NumPy and CuPy do
        [--cases 'spot-*' exact] [--figures card streamed] [--cpu] [--json FILE]
        [--variant small=-maxrregcount=64,threads_a_block=32 --variant few=AT_ONCE=2,QUEUED=1]

Cases: link, compile, each timed run of the files (see SPEED of gpu_bundle.py), baseline-spot,
baseline-all, exact, sizes, cuslines; patterns choose among them. Each timed run also gives the
digest of its first streamlines, which must be the CPU's. Variants are defines and options for the
compiler, settings of the run such as threads_a_block=64, and numbers of the scheduler such as
AT_ONCE=2; each case is run by all of them, the product as it is ("base") first. Of what is told of
a timed run --figures chooses. The exit status is 1 where a digest differs.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import fnmatch
import functools
import importlib.util
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import gpu_bundle
import gpu_cuslines
from gpu_bundle import (
    N_CHECKED,
    SPEED,
    Run,
    amplitudes_at,
    endpoints_of,
    read,
    with_seeds,
)
from napari_tractography.runtime.arrays import import_cupy
from napari_tractography.streamlines.tractogram import Tractogram
from napari_tractography.tracking.cuda import cuda_backend as cuda
from napari_tractography.tracking.cuda import device as cuda_device
from napari_tractography.tracking.cuda import scheduler
from napari_tractography.tracking.cuda import source as kernels
from napari_tractography.tracking.devices import cpu_count, cuda_problem
from napari_tractography.tracking.execution import Execution

HERE = Path(__file__).parent
BASE = "base"  # the product as it is
RUN_S, BUDGET_S = 0.7, 1.4  # of one run that is timed, and of all repeats of it
MOST_REPEATS = 5
TIMES = 8  # that seeds are tracked in one run, where its beginning would count for much otherwise
PILOT = 16  # of the seeds, a part that tells how many of them can be timed
N_CLICK = 1000
N_BASELINE_DIRECTIONS = 401
LINK_BYTES = 1 << 28
FIGURES = ("card", "endpoints", "streamed", "click")
SIZES = (10**3, 10**4, 10**5, 10**6)
CHILDREN, CHILD_S = 12, 100  # processes that compile at a time, and what each may take
WHOLE_S = 150.0
METRICS = {
    "gpu__time_duration.sum": "ns",
    "smsp__inst_executed.sum": "warp instructions",
    "smsp__thread_inst_executed_per_inst_executed.ratio": "lanes",
    "smsp__issue_active.avg.pct_of_peak_sustained_active": "% issue slots",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "% warps",
    "launch__registers_per_thread": "registers",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "% DRAM",
} | {
    f"smsp__average_warps_issue_stalled_{why}_per_issue_active.ratio": f"stalled: {why}"
    for why in (
        "no_instruction",
        "wait",
        "long_scoreboard",
        "short_scoreboard",
        "branch_resolving",
        "math_pipe_throttle",
        "lg_throttle",
        "barrier",
        "not_selected",
        "dispatch_stall",
    )
}


@dataclass
class Bench:
    """What is measured, and how: figures are printed as they come.

    Attributes
    ----------
    runs : dict of str to Run
    bundles : sequence of Path
        Their files.
    gpu : int
    variants : dict of str to list of str
        Options of each.
    out : Path, optional
        Of the JSON of all figures.
    rows : list of dict
        The figures so far.
    differing : list of str
        Runs whose streamlines are not the CPU's.
    figures : collection of str
        Of FIGURES, what is told of a timed run.
    """

    runs: Mapping[str, Run]
    bundles: Sequence[Path] = ()
    gpu: int = 0
    variants: Mapping[str, Sequence[str]] = field(default_factory=lambda: {BASE: ()})
    out: Path | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    figures: Collection[str] = FIGURES

    @property
    def command(self) -> list[str]:
        """This program with its files and variants, for processes beside this one."""
        variants = [f"--variant={name}={','.join(o)}" for name, o in self.variants.items()]
        program = [sys.executable, str(Path(__file__)), *map(str, self.bundles)]
        return [*program, "--gpu", str(self.gpu), *variants]

    def say(self, case: str, variant: str, what: str, text: str, **values: Any) -> None:
        """Print a figure, and keep it."""
        print(f"{case} [{variant}] {what}: {text}", flush=True)
        row = {"case": case, "variant": variant, "what": what, "text": text, **values}
        self.rows.append(row)
        if self.out is not None:
            self.out.write_text(json.dumps(self.rows, indent=1) + "\n")

    def fail(self, case: str, why: object) -> None:
        """Tell loudly that a case came to nothing."""
        print(f"!!! {case} FAILED: {str(why).strip()[-1500:]} !!!", flush=True)
        self.differing.append(case)

    def check(self, case: str, variant: str, name: str, found: Tractogram) -> bool:
        """Compare streamlines with the CPU's; tell loudly where they differ."""
        expected = self.runs[name].expected
        same = found.digest() == expected["digest"]
        if not same:
            self.differing.append(f"{name} [{variant}]")
            text = (
                f"!!! DIFFERS FROM THE CPU in {name}: {len(found)} streamlines, "
                f"{found.lengths_mm.mean(dtype=float) if len(found) else 0:.6g} mm, there "
                f"{expected['n_streamlines']}, {expected['mean_mm']:.6g} mm !!!"
            )
            self.say(case, variant, "digest", text, run=name, same=False)
        return same


# ------------------------------------------------------------------------------------ what is timed


class Timed:
    """A kernel whose launches are timed by events on the current stream; else the kernel itself."""

    def __init__(self, kernel: Any, name: str, timer: Timer) -> None:
        self.__dict__.update(_kernel=kernel, _name=name, _timer=timer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._kernel, name, value)

    def __call__(self, *arguments: Any, **more: Any) -> None:
        event = import_cupy().cuda.Event
        begun, ended = event(), event()
        begun.record()
        self._kernel(*arguments, **more)
        ended.record()
        self._timer.launches.append((self._name, begun, ended))


@dataclass
class Timer:
    """Times of kernels, and of loading them.

    Attributes
    ----------
    launches : list of (str, event, event)
    loading_s : float
    kernels : dict of str to kernel
        Those that were loaded last.
    """

    launches: list[tuple[str, Any, Any]] = field(default_factory=list)
    loading_s: float = 0.0
    kernels: dict[str, Any] = field(default_factory=dict)

    def seconds(self) -> dict[str, float]:
        """Return the seconds by kernel since the last call."""
        found: dict[str, float] = {}
        elapsed = import_cupy().cuda.get_elapsed_time
        for name, begun, ended in self.launches:
            ended.synchronize()
            found[name] = found.get(name, 0.0) + float(elapsed(begun, ended)) / 1e3
        self.launches.clear()
        return found


@contextlib.contextmanager
def kernels_of(options: Sequence[str]) -> Iterator[tuple[Timer, Execution]]:
    """Let the product's kernels be those of a variant, timed."""
    timer = Timer()
    load, usual = cuda_device.load_kernels, kernels.OPTIONS
    forget = getattr(load, "cache_clear", lambda: None)

    @functools.wraps(load)
    def loaded(*arguments: Any, **more: Any) -> Any:
        begun = time.perf_counter()
        found = load(*arguments, **more)
        timer.loading_s += time.perf_counter() - begun
        timer.kernels = dict(found)
        return {name: Timed(kernel, name, timer) for name, kernel in found.items()}

    settings = dict(option.split("=") for option in options if not option.startswith("-"))
    numbers = {name: int(settings.pop(name)) for name in list(settings) if name.isupper()}
    before = {name: getattr(scheduler, name) for name in (*numbers, "SLOTS", "AHEAD")}
    schedule(numbers)
    forget()
    cuda_device.load_kernels = loaded
    kernels.OPTIONS = (*usual, *(option for option in options if option.startswith("-")))
    try:
        yield timer, Execution(**{name: json.loads(value) for name, value in settings.items()})
    finally:
        cuda_device.load_kernels, kernels.OPTIONS = load, usual
        schedule(before)
        forget()


def schedule(numbers: Mapping[str, int]) -> None:
    """Give the scheduler other numbers, by name, and what follows from them."""
    for name, number in numbers.items():
        setattr(scheduler, name, number)
    slots = scheduler.AT_ONCE + scheduler.QUEUED + 1
    scheduler.SLOTS = cuda_device.SLOTS = slots
    scheduler.AHEAD = slots + 2


def timed(action: Callable[[], Any]) -> float:
    """Return the seconds of a call."""
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def best(
    run: Run, measure: Callable[[Any], dict[str, float]], n_pilot: int = 0, times: int = 1
) -> dict[str, float]:
    """Return what a measurement gives at its fastest, on as many seeds as it has time for.

    Parameters
    ----------
    run : Run
    measure : callable
        Of a plan; returns "s" and other numbers.
    n_pilot : int
        Seeds of the first runs, by default a part of all.
    times : int
        How many times all seeds may be tracked, in one run.
    """
    few = n_pilot or max(run.n_timed // PILOT, 1)
    most = max(times * run.n_timed, few)
    plan = with_seeds(run.plan, few)
    measure(plan)  # loads kernels and tables
    n, seconds = few, measure(plan)["s"]
    while n < most and seconds < RUN_S / 2:  # what a run begins with counts for much in a short one
        n = min(int(n * min(RUN_S / max(seconds, 1e-9), PILOT)), most)
        plan = with_seeds(run.plan, n)
        seconds = measure(plan)["s"]
    found: list[dict[str, float]] = []
    # Twice at least: memory that is locked in the first run is used again in the second.
    while len(found) < MOST_REPEATS and (
        len(found) < 2 or sum(one["s"] for one in found) < BUDGET_S
    ):
        found.append(measure(plan))
    return {**min(found, key=lambda one: one["s"]), "seeds": n}


def on_the_card(plan: Any, timer: Timer, how: Execution, gpu: int) -> dict[str, float]:
    """Track one batch and leave it there."""
    timer.launches.clear()
    begun = time.perf_counter()
    found = cuda.track_on_device(plan, how, gpu=gpu)
    seconds = time.perf_counter() - begun
    n_lines = len(found.offsets) - 1
    by_kernel = timer.seconds()
    return {
        "s": seconds,
        "lines": n_lines,
        "steps": len(found.points) - n_lines,
        "kernels_s": sum(by_kernel.values()),
        **{f"{name}_s": value for name, value in by_kernel.items()},
    }


def streamed(plan: Any, chunks: Any, step_mm: float) -> dict[str, float]:
    """Take chunks as they come, and drop them."""
    begun = time.perf_counter()
    lines = n_bytes = 0
    mm = 0.0
    for chunk in chunks(plan):
        lines += len(chunk)
        mm += float(chunk.lengths_mm.sum(dtype=float))
        parts = (chunk.points, chunk.offsets, chunk.seed_index, chunk.stop_reasons)
        n_bytes += sum(part.nbytes for part in (*parts, chunk.lengths_mm))
    seconds = time.perf_counter() - begun
    return {"s": seconds, "lines": lines, "steps": mm / step_mm, "bytes": n_bytes}


def rate(found: Mapping[str, float], seconds: str = "s") -> float:
    """Return thousand million steps a second."""
    return found["steps"] / max(found[seconds], 1e-9) / 1e9


def speed(bench: Bench, name: str, variant: str, link_gb_per_s: float) -> None:
    """Time a run, and compare its first streamlines with the CPU's."""
    run, gpu = bench.runs[name], bench.gpu
    with kernels_of(bench.variants[variant]) as (timer, how):

        def chunks(plan: Any) -> Any:
            return cuda.iter_chunks(plan, how, gpus=(gpu,))

        def flow(plan: Any) -> dict[str, float]:
            return streamed(plan, chunks, run.parameters["step_mm"])

        say = functools.partial(bench.say, name, variant)
        asked = bench.figures  # the card's own rate is what others are compared with
        found = best(run, lambda plan: on_the_card(plan, timer, how, gpu))
        parts = [(part[:-2], s) for part, s in found.items() if part.endswith("_s")]
        milliseconds = ", ".join(f"{part} {1e3 * s:.3g}" for part, s in parts)
        say(
            "left on the card",
            f"{rate(found, 'kernels_s'):.3f} (kernels), {rate(found):.3f} (wall) G steps/s; "
            f"{found['lines'] / found['s'] / 1e6:.3f} M lines/s, {found['seeds']:,} seeds, "
            f"{found['steps'] / max(found['lines'], 1):.0f} steps a line; ms: {milliseconds}",
            **found,
        )
        n_checked = min(N_CHECKED, run.plan.n_seeds)
        first = Tractogram.concatenate(list(chunks(with_seeds(run.plan, n_checked))))
        if bench.check(name, variant, name, first):
            say("digest", f"that of the CPU, {len(first):,} streamlines", same=True)
        left = found
        ends = endpoints_of(run.plan)
        if "endpoints" in asked:
            found = best(run, lambda plan: flow(endpoints_of(plan)), times=TIMES)
            share = 100 * rate(found) / rate(left, "kernels_s")
            say(
                "endpoints",
                f"{rate(found):.3f} G steps/s; {found['lines'] / found['s'] / 1e6:.3f} M lines/s, "
                f"{found['seeds']:,} seeds; {share:.0f} % of the kernels' rate",
                **found,
            )
        if "streamed" in asked:
            found = best(run, flow, times=TIMES)
            gb_per_s = found["bytes"] / found["s"] / 1e9
            say(
                "streamed",
                f"{rate(found):.3f} G steps/s; {found['lines'] / found['s'] / 1e6:.3f} M lines/s, "
                f"{found['seeds']:,} seeds; {gb_per_s:.2f} GB/s, "
                f"{100 * gb_per_s / link_gb_per_s:.0f} % of the link",
                **found,
            )
        if "click" in asked:
            waits = [click(with_seeds(run.plan, N_CLICK), chunks) for _ in range(3)]
            end_waits = [click(with_seeds(ends, N_CLICK), chunks) for _ in range(3)]
            say(
                "click",
                f"first chunk of {N_CLICK:,} seeds after {statistics.median(waits):.4f} s, of ends "
                f"after {statistics.median(end_waits):.4f} s",
                s=statistics.median(waits),
            )
        facts = kernel_facts(timer.kernels)
        texts = (f"{k} {'/'.join(map(str, v.values()))}" for k, v in facts.items())
        say("kernels", f"registers/local bytes/shared bytes: {', '.join(texts)}", **facts)


def click(plan: Any, chunks: Any) -> float:
    """Return the seconds until the first chunk."""
    begun = time.perf_counter()
    flowing = chunks(plan)
    next(flowing)
    seconds = time.perf_counter() - begun
    flowing.close()
    return seconds


def kernel_facts(loaded: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return what the compiler says of each kernel."""
    names = {"registers": "num_regs", "local_bytes": "local_size_bytes"}
    names["shared_bytes"] = "shared_size_bytes"
    return {
        name: {what: getattr(kernel, attribute, -1) for what, attribute in names.items()}
        for name, kernel in loaded.items()
    }


# --------------------------------------------------------------------- what stands beside in a run


def link(bench: Bench) -> float:
    """Measure what is copied to the host; return the gigabytes a second to pinned memory."""
    cupy = import_cupy()
    source = cupy.zeros(LINK_BYTES, "u1")
    memory = cupy.cuda.alloc_pinned_memory(LINK_BYTES)
    pinned = np.frombuffer(memory, np.uint8, LINK_BYTES)
    pinned_s = min(event_seconds(cupy, lambda: source.get(out=pinned)) for _ in range(4))
    new_s = min(timed(lambda: pinned.copy()) for _ in range(2))
    found = LINK_BYTES / pinned_s / 1e9
    bench.say(
        "link",
        BASE,
        "card to host",
        f"{found:.2f} GB/s to pinned memory; {LINK_BYTES / new_s / 1e9:.2f} GB/s from there to new "
        "pages, by one thread",
        gb_per_s=found,
        new_pages_gb_per_s=LINK_BYTES / new_s / 1e9,
    )
    return found


def event_seconds(cupy: Any, action: Callable[[], Any]) -> float:
    """Return the seconds that something takes on the device."""
    begun, ended = cupy.cuda.Event(), cupy.cuda.Event()
    begun.record()
    action()
    ended.record()
    ended.synchronize()
    return float(cupy.cuda.get_elapsed_time(begun, ended)) / 1e3


def baseline(bench: Bench, case: str, run: Run) -> None:
    """Time the baseline, on as many streamlines as its padded buffer allows."""
    cupy = import_cupy()
    code = (HERE / "baseline.cu").read_text()
    kernel = cupy.RawModule(code=code, backend="nvrtc").get_function("track_baseline")
    kept, values = baseline_values(run)
    on_device = {name: cupy.asarray(array) for name, array in kept.items()}
    padded = 12 * (values["max_steps"] + 1)
    n = min(run.n_timed, int(0.8 * cupy.cuda.Device().mem_info[0]) // padded)
    on_device["n_steps"] = cupy.zeros(n, "i4")
    layout = kernels.layout_in("Baseline", code)
    for output in ("lines", "ends"):
        on_device["points"] = None  # freed before the next is made
        shape = (n, 3) if output == "ends" else (n, values["max_steps"] + 1, 3)
        on_device["points"] = cupy.empty(shape, "f4")
        for algorithm in ("probabilistic", "deterministic"):
            packed = np.zeros((), layout)
            for name, value in values.items():
                packed[name] = value
            for name, array in on_device.items():
                packed[name] = array.data.ptr
            packed["n"] = n
            packed["endpoints"] = output == "ends"
            packed["deterministic"] = algorithm == "deterministic"
            seconds = min(
                event_seconds(cupy, lambda p=packed: kernel((-(-n // 256),), (256,), (p,)))
                for _ in range(3)
            )
            steps = float(on_device["n_steps"].get().sum(dtype=float))
            bench.say(
                case,
                "baseline.cu",
                f"{algorithm}, {output}",
                f"{steps / seconds / 1e9:.3f} G steps/s; {n / seconds / 1e6:.3f} M lines/s, "
                f"{n:,} seeds, {steps / n:.0f} steps a line",
                s=seconds,
                steps=steps,
                lines=n,
            )


def baseline_values(run: Run) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the baseline's arrays and numbers, from the FOD and the parameters of a run.

    Its directions are those of an even lattice over the whole sphere.
    """
    parameters, world = run.parameters, run.plan.field
    index = np.arange(N_BASELINE_DIRECTIONS)
    z = 1 - (2 * index + 1) / N_BASELINE_DIRECTIONS
    azimuth = index * np.pi * (3 - np.sqrt(5))
    even = np.stack([*(np.sqrt(1 - z * z) * f(azimuth) for f in (np.cos, np.sin)), z], axis=1)
    units = even.astype(np.float32)
    table = np.zeros((*world.voxel_rows.shape, len(units)), np.float32)
    full = world.voxel_rows >= 0
    table[full] = amplitudes_at(world, units)[world.voxel_rows[full]]
    cone = (units @ units.T >= np.cos(np.deg2rad(parameters["max_angle_deg"]))).astype(np.uint8)
    seeds = with_seeds(run.plan, run.n_timed).positions_mm
    nx, ny, nz = world.voxel_rows.shape
    return {"table": table, "directions": units, "cone": cone, "seeds": seeds}, {
        "nx": nx,
        "ny": ny,
        "nz": nz,
        "n_directions": len(units),
        "max_steps": int(parameters["max_length_mm"] / parameters["step_mm"] + 1e-6),
        "step": parameters["step_mm"],
        "min_probability": parameters["min_probability"],
        "to_voxel": np.ravel(world.to_voxel),
    }


def on_cpu(bench: Bench, name: str) -> None:
    """Time a run on all threads of the CPU, where Numba is."""
    from napari_tractography.tracking.cpu import cpu_backend as cpu

    run = bench.runs[name]
    ready_s = timed(lambda: cpu.make_ready(run.plan))
    for output in ("endpoints", "streamlines"):
        change = endpoints_of if output == "endpoints" else lambda plan: plan
        found = best(
            run,
            lambda plan, change=change: streamed(
                change(plan), cpu.iter_chunks, run.parameters["step_mm"]
            ),
            n_pilot=2000,
        )
        bench.say(
            name,
            "CPU",
            output,
            f"{rate(found):.4f} G steps/s; {found['lines'] / found['s'] / 1e6:.4f} M lines/s, "
            f"{found['seeds']:,} seeds, {cpu_count()} threads; compiled in {ready_s:.1f} s",
            threads=cpu_count(),
            **found,
        )


def by_size(bench: Bench, case: str, variant: str, run: Run) -> None:
    """Time runs of growing size, from the call to the last chunk."""
    with kernels_of(bench.variants[variant]) as (_, how):
        for n in SIZES:
            plan = with_seeds(run.plan, n)

            def whole(plan: Any = plan) -> None:
                for _ in cuda.iter_chunks(plan, how, gpus=(bench.gpu,)):
                    pass

            seconds = min(timed(whole) for _ in range(2))
            bench.say(case, variant, f"{n:,} seeds", f"{seconds:.4f} s", s=seconds, seeds=n)


def exact_groups(runs: Mapping[str, Run]) -> dict[str, list[str]]:
    """Return the names of the runs that must agree, by algorithm and interpolation."""
    groups: dict[str, list[str]] = {}
    for name in runs:
        if name not in SPEED:
            groups.setdefault("exact-" + "-".join(name.split(", ")[:2]), []).append(name)
    return groups


def exact(bench: Bench, case: str, variant: str) -> None:
    """Compare the streamlines of a group with the CPU's."""
    names = exact_groups(bench.runs)[case]
    with kernels_of(bench.variants[variant]) as (_, how):
        same = 0
        for name in names:
            chunks = cuda.iter_chunks(bench.runs[name].plan, how, gpus=(bench.gpu,))
            same += bench.check(case, variant, name, Tractogram.concatenate(list(chunks)))
    bench.say(case, variant, "digests", f"{same} of {len(names)} are the CPU's", same=same)


# ----------------------------------------------------------------------- processes beside this one


def first_run(bench: Bench, name: str, variant: str) -> dict[str, Any]:
    """Return what the first run of a process takes, and the next; for an empty cache of CuPy."""
    cupy = import_cupy()
    plan = with_seeds(bench.runs[name].plan, N_CLICK)
    with cupy.cuda.Device(bench.gpu), kernels_of(bench.variants[variant]) as (timer, how):
        cupy.zeros(1, "u1")  # CUDA has begun

        def wait() -> float:
            return click(plan, lambda plan: cuda.iter_chunks(plan, how, gpus=(bench.gpu,)))

        return {
            "first_s": wait(),
            "loading_s": timer.loading_s,
            "again_s": wait(),
            "kernels": kernel_facts(timer.kernels),
            "code_bytes": code_sizes(Path(os.environ["CUPY_CACHE_DIR"])),
        }


def code_sizes(folder: Path) -> dict[str, int]:
    """Return the bytes of machine code by kernel, of the programs that CuPy keeps in a folder."""
    found: dict[str, int] = {}
    for path in folder.glob("*"):
        data = path.read_bytes() if path.is_file() else b""
        data = data[data.find(b"\x7fELF") :] if b"\x7fELF" in data else b""
        if not data:
            continue
        (at,) = struct.unpack_from("<Q", data, 0x28)
        size, n, names = struct.unpack_from("<HHH", data, 0x3A)
        sections = [struct.unpack_from("<IIQQQQ", data, at + k * size) for k in range(n)]
        for section in sections:
            first = sections[names][4] + section[0]
            name = data[first : data.index(b"\0", first)].decode()
            if name.startswith(".text."):
                found[name.removeprefix(".text.")] = section[5]
    return found


def compile_all(bench: Bench, names: Sequence[str]) -> None:
    """Compile what runs need, each in a process and with a cache of its own, side by side.

    Then they are put together in the cache of this process.
    """
    cache = Path(os.environ["CUPY_CACHE_DIR"])
    kinds: dict[tuple[Any, ...], str] = {}
    for name in names:
        settings = bench.runs[name].plan.settings
        threshold = settings.min_probability > 0
        kinds.setdefault((settings.algorithm, settings.interpolation, threshold), name)

    def child(name: str, variant: str) -> None:
        folder = Path(tempfile.mkdtemp(dir=cache.parent))
        done = subprocess.run(
            [*bench.command, "--first", name, variant],
            capture_output=True,
            text=True,
            timeout=CHILD_S,
            env={**os.environ, "CUPY_CACHE_DIR": str(folder)},
        )
        if done.returncode:
            return bench.fail(f"compile {name} [{variant}]", done.stderr)
        for path in folder.glob("*"):
            shutil.copy(path, cache)
        found = json.loads(done.stdout.strip().splitlines()[-1])
        sizes = ", ".join(f"{k} {v / 1e3:.1f} kB" for k, v in found["code_bytes"].items())
        bench.say(
            name,
            variant,
            "compile",
            f"first run {found['first_s']:.2f} s with an empty cache ({found['loading_s']:.2f} s "
            f"for kernels), then {found['again_s']:.4f} s; code: {sizes or 'unknown'}",
            **found,
        )

    with ThreadPoolExecutor(min(CHILDREN, cpu_count())) as pool:
        pairs = [(name, variant) for variant in bench.variants for name in kinds.values()]
        list(pool.map(child, *zip(*pairs, strict=True)))


def exact_beside(bench: Bench, groups: Sequence[str]) -> None:
    """Compare groups of runs with the CPU's, each in a process of its own, side by side."""

    def child(group: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "rows.json"
            command = [*bench.command, "--cases", group, "--json", str(out)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=CHILD_S)
            rows = json.loads(out.read_text()) if out.exists() else []
        for row in rows:
            bench.say(**row)
        bad = [f"{row['run']} [{row['variant']}]" for row in rows if row.get("same") is False]
        if done.returncode and not bad:
            bench.fail(group, done.stderr)
        bench.differing += bad

    with ThreadPoolExecutor(min(CHILDREN, cpu_count())) as pool:
        list(pool.map(child, groups))


def profile(bench: Bench, name: str, variant: str, seeds: int) -> list[str]:
    """Run a small run under Nsight Compute; return a line a kernel."""
    command = ["ncu", "--csv", "--print-units", "base", "--clock-control", "none"]
    command += ["--metrics", ",".join(METRICS), *bench.command, "--once", name, variant, str(seeds)]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    heads = [k for k, line in enumerate(lines) if line.startswith('"ID"')]
    if not heads:
        return [f"!!! ncu gave no figures: {(done.stdout + done.stderr).strip()[-800:]} !!!"]
    found: dict[tuple[str, str], list[str]] = {}
    for row in csv.DictReader(lines[heads[0] :]):
        value = row["Metric Value"].replace(",", "")
        with contextlib.suppress(ValueError):  # it may be "n/a"
            value = f"{float(value):.4g}"
        parts = found.setdefault((row["ID"], row["Kernel Name"]), [])
        parts.append(f"{METRICS[row['Metric Name']]} {value}")
    return [f"{name} [{variant}] {key[1]}: {', '.join(parts)}" for key, parts in found.items()]


# ------------------------------------------------------------------------------------- command line


def cases_of(runs: Mapping[str, Run], patterns: Sequence[str]) -> list[str]:
    """Return the cases that are chosen, the telling ones first.

    Raises
    ------
    SystemExit
        Where a pattern fits none.
    """
    timed_runs = [name for name in runs if name in SPEED]
    cases = ["link", "compile", *timed_runs, *exact_groups(runs), "sizes", "cuslines"]
    for where in ("all", "spot"):
        name = f"{where}-probabilistic-nearest"
        if name in runs:
            cases.insert(cases.index(name) + 1, f"baseline-{where}")
    chosen = set(cases)
    if patterns:
        wide = [f"{p}-*" if p in ("exact", "baseline") else p for p in patterns]
        fitting = {pattern: fnmatch.filter(cases, pattern) for pattern in wide}
        for pattern, names in fitting.items():
            if not names:
                sys.exit(f"gpu.py: no case fits {pattern!r}; there are {', '.join(cases)}.")
        chosen = {case for names in fitting.values() for case in names}
        chosen |= {"link", "compile"} if chosen & set(SPEED) else set()
    return [case for case in cases if case in chosen]


def variants_of(texts: Sequence[str]) -> dict[str, list[str]]:
    """Return the options of each variant, the product as it is first."""
    found: dict[str, list[str]] = {BASE: []}
    for text in texts:
        name, _, options = text.partition("=")
        found[name] = [option for option in options.split(",") if option]
    return found


def measure(bench: Bench, cases: Sequence[str], limit_s: float = WHOLE_S) -> None:
    """Run cases, one after the other, for as long as there is time."""
    begun = time.perf_counter()
    cupy = import_cupy()
    link_gb_per_s = float("nan")
    groups = [case for case in cases if case.startswith("exact-")]

    def run_case(case: str) -> None:
        nonlocal link_gb_per_s
        if case == "link":
            link_gb_per_s = link(bench)
        elif case == "compile":
            compile_all(bench, [name for name in bench.runs if name in SPEED and name in cases])
        elif case.startswith("baseline-"):
            where = case.removeprefix("baseline-")
            baseline(bench, case, bench.runs[f"{where}-probabilistic-nearest"])
        elif case == "cuslines":
            if importlib.util.find_spec("cuslines") is not None:
                found = gpu_cuslines.beside(bench.bundles)
                bench.say(case, "cuslines", "trilinear", str(found), **found)
        elif case in groups and len(groups) > 1:
            if case == groups[0]:
                exact_beside(bench, groups)
        else:
            for variant in bench.variants:
                if case in SPEED:
                    speed(bench, case, variant, link_gb_per_s)
                elif case == "sizes":
                    by_size(bench, case, variant, next(iter(bench.runs.values())))
                else:
                    exact(bench, case, variant)

    with cupy.cuda.Device(bench.gpu):
        for case in cases:
            if time.perf_counter() - begun > limit_s:
                print(f"{case}: left out, since {limit_s:.0f} s have passed", flush=True)
                continue
            try:
                run_case(case)
            except Exception as error:  # what else there is to measure is measured
                bench.fail(case, f"{type(error).__name__}: {error}")
            cupy.get_default_memory_pool().free_all_blocks()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("bundles", type=Path, nargs="+", metavar="BUNDLE")
    parser.add_argument("--export", choices=("fibercup", "brain"), help="write this bundle")
    parser.add_argument("--data", type=Path, default=gpu_bundle.DATA, help="for --export")
    parser.add_argument("--cases", nargs="+", default=[], metavar="CASE", help="patterns")
    parser.add_argument("--variant", action="append", default=[], metavar="NAME=OPTION,...")
    parser.add_argument(
        "--figures",
        nargs="+",
        default=FIGURES,
        choices=FIGURES,
        help="what to tell of timed runs beside the rate on the card, which is told in any case",
    )
    parser.add_argument(
        "--cpu", nargs="*", metavar="CASE", help="on all threads, too (brain-probabilistic-*)"
    )
    parser.add_argument("--ncu", metavar="CASE", help="profile a small run of this case instead")
    parser.add_argument("--seeds", type=int, default=20_000, help="of --ncu")
    parser.add_argument("--seconds", type=float, default=WHOLE_S, help="then no case is begun")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--json", type=Path, help="also write all figures here")
    parser.add_argument("--first", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--once", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.export:
        gpu_bundle.export_named(options.export, options.bundles[0], options.data)
        return
    problem = cuda_problem()
    if problem:
        sys.exit(f"gpu.py: {problem}")
    bench = Bench(
        read(*options.bundles),
        options.bundles,
        options.gpu,
        variants_of(options.variant),
        options.json,
        figures=options.figures,
    )
    if options.first:
        print(json.dumps(first_run(bench, *options.first)))
    elif options.once:
        name, variant, seeds = options.once
        with kernels_of(bench.variants[variant]) as (_, how):
            plan = with_seeds(bench.runs[name].plan, int(seeds))
            cuda.track_on_device(plan, how, gpu=options.gpu)
    elif options.ncu:
        if shutil.which("ncu") is None:
            sys.exit("gpu.py: ncu is not on the PATH.")
        for variant in bench.variants:
            print(*profile(bench, options.ncu, variant, options.seeds), sep="\n", flush=True)
    else:
        run_all(bench, options)


def run_all(bench: Bench, options: argparse.Namespace) -> None:
    """Run the cases that are chosen; exit with 1 where streamlines differ or something failed."""
    cases = cases_of(bench.runs, options.cases)
    with tempfile.TemporaryDirectory() as folder:
        if "compile" in cases:
            os.environ["CUPY_CACHE_DIR"] = f"{folder}/all"
            Path(folder, "all").mkdir()
        measure(bench, cases, options.seconds)
    if options.cpu is not None:
        patterns = options.cpu or ["brain-probabilistic-*"]
        for name in bench.runs:
            if name in SPEED and any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
                on_cpu(bench, name)
    print(f"differing or failed: {', '.join(bench.differing) or 'none'}", flush=True)
    sys.exit(1 if bench.differing else 0)


if __name__ == "__main__":
    main()
