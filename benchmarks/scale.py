"""What a task of a cluster costs, and how efficient 1, 2 and 4 processes are; or threads.

    python benchmarks/scale.py [FOD] [--seeds N] [--processes 1 2 4] [--send] [--json FILE]
    python benchmarks/scale.py [FOD] [--seeds N] --threads [1 2 4 ...]

Processes on this machine, of one thread each, track the same seeds, after a run that loads the
kernels. Efficiency is the speed over that of one process and the number of processes: on a machine
with fewer processors than processes it cannot be near 1. The overhead of a task is what workers
were not tracking, over the number of tasks: sending seeds, handing streamlines back, and the last
tasks of a run, which do not end together. What workers have sent is counted by Dask; the process
that asks, in which the scheduler runs here, takes processor time to receive it.

``--threads`` measures threads of one process instead, see threads.py.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import napari_tractography as nt
import threads
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.tracking.devices import cpu_count
from napari_tractography.tracking.report import Report

if TYPE_CHECKING:
    import distributed

N_SEEDS, N_SEEDS_OF_THREADS = 200_000, 1_000_000


@dataclass(frozen=True)
class Measured:
    """A run on some processes.

    Attributes
    ----------
    n_processes, n_tasks : int
    seconds : float
        Of the whole run.
    busy_seconds : float
        That workers tracked, all together.
    steps_per_second : float
    sent_bytes : int
        By all workers.
    asking_seconds : float
        Of a processor, of the process that asks.
    digest : str
        Of the streamlines.
    """

    n_processes: int
    n_tasks: int
    seconds: float
    busy_seconds: float
    steps_per_second: float
    sent_bytes: int
    asking_seconds: float
    digest: str

    @property
    def overhead_s(self) -> float:
        """Seconds a task that its process did not track."""
        return (self.n_processes * self.seconds - self.busy_seconds) / self.n_tasks

    def efficiency(self, one: Measured) -> float:
        """Speed over that of one process and the number of processes."""
        return self.steps_per_second / one.steps_per_second / self.n_processes


def measured(
    fod: nt.Fod,
    seeds: nt.Seeds,
    parameters: nt.TrackingParameters,
    n_processes: int,
    folder: str | None,
) -> Measured:
    """Track on so many processes of this machine; without a folder all is sent."""
    import distributed  # on use: threads need none

    with (
        distributed.LocalCluster(
            n_workers=n_processes,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
        ) as started,
        distributed.Client(started, set_as_default=False) as client,
        nt.cluster(client, worker_backend="cpu", folder=folder) as workers,
    ):
        nt.track(fod, seeds[: 500 * n_processes], parameters, backend=workers, block=250)
        report = Report()
        sent_bytes, asking = bytes_sent(client), time.process_time()
        begun = time.perf_counter()
        chunks = list(nt.iter_track(fod, seeds, parameters, backend=workers, report=report))
        seconds = time.perf_counter() - begun
        asking = time.process_time() - asking
        sent_bytes = bytes_sent(client) - sent_bytes
    whole = nt.Tractogram.concatenate(chunks)
    n_steps = float(whole.lengths_mm.sum(dtype=float)) / parameters.step_mm
    return Measured(
        n_processes,
        sum(chunk.n_seeds > 0 for chunk in chunks),
        seconds,
        n_processes * report.seconds["tracking"],
        n_steps / seconds,
        sent_bytes,
        asking,
        whole.digest(),
    )


def bytes_sent(client: distributed.Client) -> int:
    """Return what all workers have sent since they were started."""
    counts = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
    return sum(counts.values())


def table(runs: list[Measured]) -> str:
    """Return a Markdown table; the first run is of one process."""
    lines = [
        "| processes | tasks | seconds | million steps/s | efficiency | overhead of a task, ms | "
        "sent, MB | processor time of who asks, s |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {run.n_processes} | {run.n_tasks} | {run.seconds:.2f} | "
        f"{run.steps_per_second / 1e6:.2f} | {run.efficiency(runs[0]):.2f} | "
        f"{1000 * run.overhead_s:.0f} | {run.sent_bytes / 1e6:.1f} | "
        f"{run.asking_seconds:.2f} |"
        for run in runs
    ]
    return "\n".join(lines)


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description="Measure a cluster of processes.")
    parser.add_argument("fod", nargs="?", help="FOD; a phantom by default")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument(
        "--send",
        action="store_true",
        help="send FOD and streamlines over Dask, rather than through files of this machine",
    )
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument(
        "--threads", type=int, nargs="*", help="of one process; 1, 2, 4 and so on by default"
    )
    options = parser.parse_args(arguments)
    for name in ("processes", "threads"):
        counts = getattr(options, name) or [1]
        if min(counts) < 1:
            parser.error(f"--{name} {min(counts)}: give whole numbers from 1")
    if options.seeds is None:
        options.seeds = N_SEEDS if options.threads is None else N_SEEDS_OF_THREADS
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures."""
    options = options_of(arguments)
    if options.threads is not None:
        runs = threads.measure_all(options.fod, options.seeds, options.threads)
        if options.json:
            options.json.write_text(json.dumps(runs, indent=1) + "\n", "utf-8")
        return
    fod = nt.load_fod(options.fod) if options.fod else make_phantom("arcs")
    seeds = nt.Seeds.from_fod(fod, options.seeds)
    parameters = nt.TrackingParameters.for_fod(fod)
    counts = sorted({1, *options.processes})
    disk = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=disk) as own:
        folder = None if options.send else own
        runs = [measured(fod, seeds, parameters, n, folder) for n in counts]
    digests = {run.digest for run in runs}
    print(
        f"{platform.machine()}, {cpu_count()} processors, {time.strftime('%Y-%m-%d')}, load "
        f"{os.getloadavg()[0]:.1f}; {fod.name}, {options.seeds:,} seeds\n\n{table(runs)}\n\n"
        + ("The digests are the same." if len(digests) == 1 else f"DIGESTS DIFFER: {digests}")
    )
    if options.json:
        options.json.write_text(json.dumps([asdict(run) for run in runs], indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
