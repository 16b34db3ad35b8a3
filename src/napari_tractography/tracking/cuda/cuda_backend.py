"""The CUDA backend: runs ``track.cu`` on NVIDIA GPUs through CuPy.

How a run is cut into batches is decided in :mod:`.scheduler`, what a GPU does with one in
:mod:`.device`. Imports CuPy on first use, and never Numba: it also runs where there are only NumPy
and CuPy. Called by :mod:`napari_tractography.tracking.backends`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import BackendError
from ...model.stop import StopReason
from ...streamlines.tractogram import Tractogram, tally_from_counts
from ..execution import Execution
from ..report import Report
from .device import CudaDevice
from .device import is_uploaded as is_uploaded
from .device import warm_up as warm_up
from .scheduler import OutOfDeviceMemoryError, run_devices

if TYPE_CHECKING:
    from ..plan import Plan  # which needs Numba


def iter_chunks(
    plan: Plan,
    execution: Execution | None = None,
    *,
    gpus: Sequence[int] = (0,),
    report: Report | None = None,
) -> Generator[Tractogram, None, None]:
    """Track the seeds of a plan on GPUs; yield chunks in seed order.

    Raises BackendError when a GPU fails or has too little memory, in one sentence.

    Parameters
    ----------
    execution : Execution, optional
        Of which `block`, `memory_limit` and `threads_a_block` are for GPUs.
    gpus : sequence of int
        Numbers of the GPUs to share the seeds.
    report : Report, optional
        Filled in the end: seconds of "upload", "tracking" and "download", `uploaded_bytes` and
        `held_bytes`. GPUs track and download at the same time: those seconds are their mean.

    Yields
    ------
    Tractogram
        Closing the generator cancels what is under way, waits for it and frees its memory.
    """
    execution = execution or Execution()
    devices: list[CudaDevice] = []
    try:
        for gpu in gpus:  # one by one, so that those before one that fails are closed
            device = CudaDevice(gpu, plan, execution.threads_a_block)
            devices += [device]
        sizings = [device.sizing(execution) for device in devices]
        yield from run_devices(devices, plan.n_seeds, sizings)
    finally:
        for device in devices:
            device.close()
        if report is not None:
            for what in ("upload", "tracking", "download"):
                seconds = sum(device.seconds[what] for device in devices)
                report.add(what, seconds if what == "upload" else seconds / max(len(devices), 1))
            report.uploaded_bytes += sum(device.uploaded_bytes for device in devices)
            report.held_bytes = sum(device.held_bytes for device in devices)


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTractogram:
    """Streamlines that stay on a GPU."""

    points: Any  # (n_points, 3) float32 cupy.ndarray: RAS+ mm
    offsets: Any  # (n_streamlines + 1,) int64 cupy.ndarray
    seed_index: Any  # (n_streamlines,) int64 cupy.ndarray
    stop_reasons: Any  # (n_streamlines, 2) uint8 cupy.ndarray
    lengths_mm: Any  # (n_streamlines,) float32 cupy.ndarray
    tally: dict[StopReason, int]
    n_seeds: int

    def to_host(self) -> Tractogram:
        """Copy the streamlines to the host."""
        return Tractogram(
            self.points.get(),
            self.offsets.get(),
            seed_index=self.seed_index.get(),
            stop_reasons=self.stop_reasons.get(),
            lengths_mm=self.lengths_mm.get(),
            tally=self.tally,
            n_seeds=self.n_seeds,
        )


def track_on_device(
    plan: Plan, execution: Execution | None = None, *, gpu: int = 0
) -> DeviceTractogram:
    """Track the seeds of a plan as one batch on a GPU, and leave the streamlines there.

    Of the execution `memory_limit` and `threads_a_block` are for this. Raises BackendError when the
    GPU fails, or the streamlines do not fit into its memory.
    """
    execution = execution or Execution()
    device = CudaDevice(gpu, plan, execution.threads_a_block)
    try:
        device.sizing(execution, at_once=True)
        try:
            device.count(0, 0, plan.n_seeds)
            device.n_points(0)
            kept = device.keep(0)
        except OutOfDeviceMemoryError as error:
            raise BackendError(
                f"{device.name} has too little memory to keep the streamlines of {plan.n_seeds} "
                f"seeds ({error}); track fewer at a time or without device_arrays."
            ) from error
    finally:
        device.close()
    return DeviceTractogram(
        points=kept["points"],
        offsets=kept["line_offsets"],
        seed_index=kept["line_sources"],
        stop_reasons=kept["line_reasons"],
        lengths_mm=kept["line_lengths"],
        tally=tally_from_counts(kept["tally"]),
        n_seeds=plan.n_seeds,
    )
