"""One seed dragged through many brains at once: what a subject costs, and how long all take.

Run it in a checkout with the data folder beside it::

    python benchmarks/cohort.py [--subjects N] [--max-memory MB] [--cluster local:N] [--json]

The brains are made of the template, enlarged twice along each axis, about 2.5 mm: each is moved by
a smooth displacement of its own, up to 4 mm, and has noise of its own; FODs are not turned with it.
They are written as NIfTI, lmax 8, 205 MB each, into a temporary folder, which is deleted. 200 seeds
lie in a sphere of 3 mm, which is then dragged by 1 mm a step, there and back. Streamlines of the
first and the last subject are compared with those in their whole FODs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from scipy import ndimage

import napari_tractography as nt
from brain_volume import TEMPLATE, noisy
from napari_tractography.tracking.engine import warm_up
from napari_tractography.tracking.inputs import TrackingInput

N_SUBJECTS, N_SEEDS, RADIUS_MM = 50, 200, 3.0
ENLARGED = 2
MOST_MM = 4.0  # of a displacement
STEPS, STEP_MM = 10, 1.0  # of the drag, there and back
MOST_S = 1.0  # that all subjects may take
NAMES = {
    "n_subjects": "subjects",
    "open_s": "opened for the first time, s a subject and thread",
    "first_s": "first place after that, s",
    "first_cpu_ms": "of a processor, ms a subject",
    "again_s": "same place again, s",
    "again_cpu_ms": "of a processor, ms a subject",
    "median_s": "dragged by 1 mm, median, s",
    "longest_s": "longest, s",
    "drag_cpu_ms": "of a processor, ms a subject",
    "result_s": "share, likeness and ranks of all, s",
    "n_voxels": "voxels held, of a subject",
    "of_voxels": "of so many with an FOD",
    "kept_mb": "memory that is kept, MB",
    "program_mb": "memory of the program then, without mapped files, MB",
    "n_streamlines": "streamlines",
}


def make_subject(template: nt.Fod, number: int) -> nt.Fod:
    """Return a brain that is a little different."""
    draw = np.random.default_rng(number)
    shape = tuple(ENLARGED * n for n in template.grid.shape)
    to_coarse = np.diag([1 / ENLARGED] * 3 + [1.0])
    to_coarse[:3, 3] = 0.5 / ENLARGED - 0.5
    at = np.indices(shape, dtype=np.float32)
    unit = at / np.array(shape, np.float32)[:, None, None, None]
    phase = np.tensordot(draw.uniform(-1.5, 1.5, (3, 3)) * 2 * np.pi, unit, 1)
    phase += draw.uniform(0, 2 * np.pi, (3, 1, 1, 1))
    size = draw.uniform(0.5, 1, (3, 1, 1, 1)) * MOST_MM / template.grid.voxel_sizes_mm.min()
    at = at / ENLARGED + to_coarse[0, 3] + size * np.sin(phase)
    fine = np.stack(
        [
            ndimage.map_coordinates(one, at, np.float32, order=1)
            for one in np.moveaxis(template.coefficients, 3, 0)
        ],
        axis=3,
    )
    return noisy(fine, template.grid.affine @ to_coarse, name=f"sub-{number:03d}", seed=number)


def written(folder: Path, n: int) -> tuple[list[Path], nt.Fod]:
    """Write the subjects; return their files, and the first one."""
    template = nt.load_fod(TEMPLATE)
    files: list[Path] = []
    first = make_subject(template, 0)
    for number in range(n):
        fod = make_subject(template, number) if number else first
        files.append(folder / f"sub-{number:03d}.nii")
        nib.save(nib.Nifti1Image(fod.coefficients, fod.grid.affine), files[-1])
        print(f"{number + 1} of {n} made", end="\r", file=sys.stderr)
    return files, first


def own_memory_mb() -> float:
    """Return the memory of this process; pages of files that are mapped are the system's."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text("utf-8"))
    return int(found[1]) / 1e3 if found else 0.0


def measure(cohort: nt.Cohort, first: nt.Fod, **how: Any) -> dict[str, float]:
    """Return the figures of a cohort."""
    parameters = nt.TrackingParameters.for_fod(first)
    warm_up(parameters, fod=first)
    start = first.grid.to_mm(np.unravel_index(first.isotropic().argmax(), first.grid.shape))
    found: dict[str, float] = {"n_subjects": len(cohort), "of_voxels": first.n_voxels}

    def track(x_mm: float) -> tuple[float, float, dict[int, nt.Tractogram]]:
        seeds = nt.Seeds.in_sphere(start + np.array([x_mm, 0, 0]), RADIUS_MM, N_SEEDS)
        begun, cpu = time.perf_counter(), time.process_time()
        inputs = TrackingInput(first, seeds, parameters)
        done = dict(cohort.iter_track(inputs, **how))
        spent = time.process_time() - cpu
        return time.perf_counter() - begun, 1e3 * spent / len(cohort), done

    outside = -6.0  # opens the files, a little away
    n_threads = min(len(cohort), 2)
    found["open_s"] = track(outside)[0] * n_threads / len(cohort)
    found["first_s"], found["first_cpu_ms"], done = track(0.0)
    found["again_s"], found["again_cpu_ms"], again = track(0.0)
    assert all(done[number].digest() == again[number].digest() for number in done)
    path = [*range(1, STEPS + 1), *range(STEPS - 1, -1, -1)]
    runs = [track(STEP_MM * step) for step in path]
    found["median_s"] = statistics.median(seconds for seconds, _, _ in runs)
    found["longest_s"] = max(seconds for seconds, _, _ in runs)
    found["drag_cpu_ms"] = statistics.median(cpu for _, cpu, _ in runs)
    begun = time.perf_counter()
    result = cohort.result(done)
    likeness, share = result.likeness, result.share
    found["result_s"] = time.perf_counter() - begun
    assert np.isfinite(likeness).all()
    assert share.max() > 0.5
    tables = [each.table for each in cohort._shelf.subjects if each.table is not None]
    found["n_voxels"] = statistics.mean([table.n_voxels for table in tables] or [0])
    found["kept_mb"] = cohort.n_bytes / 1e6
    found["program_mb"] = own_memory_mb()
    found["n_streamlines"] = sum(len(each) for each in done.values())
    seeds = nt.Seeds.in_sphere(start, RADIUS_MM, N_SEEDS)
    for number in {0, len(cohort) - 1}:
        whole = nt.track(nt.load_fod(cohort.fods[number]), seeds, parameters, backend="cpu")
        assert whole.digest() == done[number].digest(), "not the streamlines in the whole FOD"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--subjects", type=int, default=N_SUBJECTS)
    parser.add_argument("--max-memory", type=float, default=2048.0, metavar="MB")
    parser.add_argument("--cluster", metavar="ADDRESS|local:N")
    parser.add_argument("--folder", type=Path, help="for the brains, until the end")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with contextlib.ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(dir=options.folder)))
        files, first = written(folder, options.subjects)
        how = {}
        if options.cluster:
            how["backend"] = opened.enter_context(nt.cluster(options.cluster))
        found = measure(nt.Cohort(files, max_memory_mb=options.max_memory), first, **how)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    print("| | |\n|---|---:|")
    for name, what in NAMES.items():
        print(f"| {what} | {found[name]:,.4g} |")
    print(f"\nAt most {MOST_S:g} s were asked for: median {found['median_s']:.2f} s.")


if __name__ == "__main__":
    main()
