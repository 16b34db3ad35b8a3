"""The CUDA backend: runs ``track.cu`` on NVIDIA GPUs through CuPy.

How a run is cut into batches is decided in :mod:`.scheduler`, what a GPU does with one in
:mod:`.device`. Imports CuPy on first use, and never Numba: it also runs where there are only NumPy
and CuPy.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import BackendError
from ...stop import StopReason
from ...tractogram import Tractogram, tally_from_counts
from .device import CudaDevice
from .device import is_uploaded as is_uploaded
from .device import warm_up as warm_up
from .scheduler import MEMORY_LIMIT, SLOTS, OutOfDeviceMemoryError, run_devices

if TYPE_CHECKING:
    from ..plan import Plan


def iter_chunks(
    plan: Plan,
    *,
    gpus: Sequence[int] = (0,),
    first_stream: int = 0,
    block: int | None = None,
    memory_limit: float = MEMORY_LIMIT,
    threads_a_block: int | None = None,
    spent: dict[str, float] | None = None,
) -> Generator[Tractogram, None, None]:
    """Track the seeds of a plan on GPUs; yield chunks in seed order.

    Parameters
    ----------
    plan : Plan
    gpus : sequence of int
        Numbers of the GPUs to share the seeds.
    first_stream : int
        Streamline id of the first seed: its random numbers and `seed_index` go by it.
    block : int, optional
        Seeds a batch at most; by default adapted to speed and memory. The streamlines do not
        depend on it.
    memory_limit : float
        What to take of each GPU: up to 1 the share of the free memory, above it bytes.
    threads_a_block : int, optional
        Of the kernels; by default whatever keeps the GPU fullest.
    spent : dict, optional
        Filled in the end: seconds of "upload", "tracking" and "download", "upload_bytes", and
        "held_bytes" of CuPy's pools. Tracking and downloading, which GPUs do at the same time, are
        their mean.

    Yields
    ------
    Tractogram
        Closing the generator cancels what is under way, waits for it and frees its memory.

    Raises
    ------
    BackendError
        When a GPU cannot do it, in one sentence.
    """
    cards: list[CudaDevice] = []
    try:
        for gpu in gpus:
            card = CudaDevice(gpu, plan, first_stream, threads_a_block)
            cards += [card]
        sizings = [card.sizing(memory_limit, block) for card in cards]
        yield from run_devices(cards, plan.n_seeds, sizings)
    finally:
        for card in cards:
            card.close()
        if spent is not None:
            for what in ("upload", "tracking", "download"):
                spent[what] = sum(card.seconds[what] for card in cards)
                if what != "upload" and cards:
                    spent[what] /= len(cards)
            spent["upload_bytes"] = sum(card.uploaded_bytes for card in cards)
            spent["held_bytes"] = sum(card.held_bytes for card in cards)


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTractogram:
    """Streamlines that stay on a GPU.

    Attributes
    ----------
    points : (n_points, 3) float32 cupy.ndarray
        RAS+ mm.
    offsets : (n_streamlines + 1,) int64 cupy.ndarray
    seed_index : (n_streamlines,) int64 cupy.ndarray
    stop_reasons : (n_streamlines, 2) uint8 cupy.ndarray
    lengths_mm : (n_streamlines,) float32 cupy.ndarray
    tally : dict of StopReason to int
    n_seeds : int
    """

    points: Any
    offsets: Any
    seed_index: Any
    stop_reasons: Any
    lengths_mm: Any
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
    plan: Plan,
    *,
    gpu: int = 0,
    first_stream: int = 0,
    memory_limit: float = MEMORY_LIMIT,
    threads_a_block: int | None = None,
) -> DeviceTractogram:
    """Track the seeds of a plan on a GPU, and leave the streamlines there.

    All of them are tracked as one batch, whose points the second pass writes where they stay.

    Raises
    ------
    BackendError
        When a GPU cannot do it, or they do not fit into its memory.
    """
    card = CudaDevice(gpu, plan, first_stream, threads_a_block)
    try:
        sizing = card.sizing(memory_limit, None)
        need = sizing.need(plan.n_seeds, 0)
        card.count(0, 0, plan.n_seeds)
        n_points = card.n_points(0)
        need = sizing.need(plan.n_seeds, n_points)
        if need > SLOTS * sizing.budget:
            raise OutOfDeviceMemoryError
        kept = card.keep(0)
    except OutOfDeviceMemoryError as error:
        raise BackendError(
            f"cuda:{gpu} has too little memory to keep the streamlines of {plan.n_seeds} seeds: "
            f"they need {need / 1e9:.2g} GB; track fewer at a time or without device_arrays."
        ) from error
    finally:
        card.close()
    return DeviceTractogram(
        points=kept["points"],
        offsets=kept["line_offsets"],
        seed_index=kept["line_sources"],
        stop_reasons=kept["line_reasons"],
        lengths_mm=kept["line_lengths"],
        tally=tally_from_counts(kept["tally"]),
        n_seeds=plan.n_seeds,
    )
