"""What threads are worth: the same run with 1, 2, 4, ... of them, to endpoints and to memory.

Called by ``scale.py --threads``; each run is a process of its own, so that the memory that it fills
is new to it, as in the first run of a person. What is lost is told by counting:

- *of the asking thread*: processor seconds of the thread that makes tables and joins chunks, while
  which others may wait;
- *of the system*: processor seconds in the kernel, most of them for pages of new memory, and how
  many such page faults there were, without and with reading from a disk;
- *bandwidth*: the bytes of points that came back, 12 a point, over the seconds of the run: what a
  channel of memory moves is a hundred times as much, or more;
- *processor seconds a step* over those of one thread: what is above 1 is lost to memory that is
  shared, to a lower clock, and, where there are more threads than cores, to the other thread of the
  core. It is no loss of ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import napari_tractography as nt
from brain_volume import make_brain
from napari_tractography.tracking.devices import cpu_count
from napari_tractography.tracking.engine import warm_up
from napari_tractography.tracking.speed import machine

OUTPUTS = ("endpoints", "streamlines")
N_WARM_UP = 2000
BYTES_A_POINT = 12
COLUMNS = (
    "threads", "seconds", "million steps/s", "times one", "processor seconds a step", "of the "
    "asking thread, s", "of the system, s", "page faults", "from disk", "points, MB/s", "peak, GB",
)  # fmt: skip


def counts_up_to(n: int) -> list[int]:
    """Return 1, 2, 4, ... and the number itself."""
    return sorted({2**power for power in range(n.bit_length()) if 2**power <= n} | {n})


def n_cores() -> int:
    """Return how many cores there are, of one or two threads each; 0 where nothing tells."""
    folder = Path("/sys/devices/system/cpu")
    found = {path.read_text() for path in folder.glob("cpu[0-9]*/topology/thread_siblings_list")}
    return len(found)


def measured(fod: nt.Fod, n_seeds: int, n_threads: int, output: str) -> dict[str, Any]:
    """Track in this process; return what was counted."""
    import resource

    from volume import peak_bytes

    parameters = nt.TrackingParameters.for_fod(fod, output=output, min_length_mm=0.0)
    seeds = nt.Seeds.from_fod(fod, n_seeds)
    warm_up(parameters, fod=fod)
    nt.track(fod, seeds[:N_WARM_UP], parameters, backend="cpu", n_threads=n_threads)
    before, own = resource.getrusage(resource.RUSAGE_SELF), time.thread_time()
    begun = time.perf_counter()
    found = nt.track(fod, seeds, parameters, backend="cpu", n_threads=n_threads)
    seconds = time.perf_counter() - begun
    after, own = resource.getrusage(resource.RUSAGE_SELF), time.thread_time() - own
    return {
        "output": output,
        "n_threads": n_threads,
        "seconds": seconds,
        "steps": float(found.lengths_mm.sum(dtype=float)) / parameters.step_mm,
        "user_s": after.ru_utime - before.ru_utime,
        "system_s": after.ru_stime - before.ru_stime,
        "own_s": own,
        "minor_faults": after.ru_minflt - before.ru_minflt,
        "major_faults": after.ru_majflt - before.ru_majflt,
        "point_bytes": BYTES_A_POINT * found.n_points,
        "peak_bytes": peak_bytes(),
        "digest": found.digest(),
    }


def row(run: dict[str, Any], one: dict[str, Any]) -> str:
    """Return a line of the table, beside the run of the fewest threads."""
    speed, speed_of_one = (each["steps"] / each["seconds"] for each in (run, one))
    cost, cost_of_one = ((each["user_s"] + each["system_s"]) / each["steps"] for each in (run, one))
    return (
        f"| {run['n_threads']} | {run['seconds']:.1f} | {speed / 1e6:.1f} "
        f"| {speed / speed_of_one:.2f} | {cost / cost_of_one:.2f} | {run['own_s']:.2f} "
        f"| {run['system_s']:.2f} | {run['minor_faults']:,} | {run['major_faults']:,} "
        f"| {run['point_bytes'] / run['seconds'] / 1e6:.0f} | {run['peak_bytes'] / 1e9:.2f} |"
    )


def measure_all(path: str | None, n_seeds: int, counts: Sequence[int]) -> list[dict[str, Any]]:
    """Measure each number of threads and output; print tables and return the runs."""
    fod = nt.load_fod(path) if path else make_brain()
    computer, n = machine(), cpu_count()
    print(
        f"{computer['processor']}, {n} hardware threads on {n_cores() or '?'} cores, "
        f"{time.strftime('%Y-%m-%d')}, load {os.getloadavg()[0]:.1f}; {fod.name}, {n_seeds:,} seeds"
    )
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "affine.npy", fod.grid.affine)
        np.save(Path(folder) / "values.npy", fod.coefficients)
        del fod
        for output in OUTPUTS:
            print(f"\n{output}\n\n| {' | '.join(COLUMNS)} |\n|{'---:|' * len(COLUMNS)}")
            first = len(runs)
            for n_threads in sorted(counts) or counts_up_to(n):
                words = [sys.executable, __file__, folder, str(n_seeds), str(n_threads), output]
                ran = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
                runs.append(json.loads(ran.stdout.splitlines()[-1]))
                print(row(runs[-1], runs[first]), flush=True)
    for output in OUTPUTS:
        digests = {run["digest"] for run in runs if run["output"] == output}
        if len(digests) != 1:
            print(f"DIGESTS DIFFER: {output}: {digests}")
    return runs


def main() -> None:
    """Track once, for :func:`measure_all`."""
    folder, n_seeds, n_threads, output = sys.argv[1:]
    values, affine = (np.load(Path(folder) / f"{name}.npy") for name in ("values", "affine"))
    print(json.dumps(measured(nt.Fod(values, affine), int(n_seeds), int(n_threads), output)))


if __name__ == "__main__":
    main()
