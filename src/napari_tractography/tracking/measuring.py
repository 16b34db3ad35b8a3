"""What runs cost, measured as they run; the model that "auto" decides by learns from it.

Used by :mod:`.backends`.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Generator, Sequence

from ..errors import BackendError
from ..fields.input_kind import COEFFICIENTS
from ..streamlines.tractogram import Tractogram
from . import devices
from .costs import Cost, PerformanceModel
from .plan import Plan
from .report import Report

MEASURED_SECONDS = 0.05  # shorter runs measure nothing
MEASURED_BYTES = 1e6  # of tables: smaller uploads measure nothing

performance = PerformanceModel()
started_gpus: set[int] = set()  # GPUs used in this process


class NothingTrackedError(Exception):
    """A backend failed before its first chunk; `error` says how."""

    def __init__(self, error: BackendError) -> None:
        super().__init__(str(error))
        self.error = error


def cost_key(plan: Plan, gpus: Sequence[int], n_threads: int) -> str:
    """Return what a measured cost holds for: GPUs, or threads of the CPU, and the kind of run."""
    settings = plan.settings
    if gpus:
        device = " + ".join(devices.model(gpu) for gpu in gpus)
    else:
        device = f"{platform.node()} {platform.machine()} x {n_threads}"
    table = plan.table
    what = f"lmax {table.lmax}" if table.kernel == COEFFICIENTS else "vectors"
    what += ", asymmetric" if table.is_asymmetric else ""
    kind = f"{settings.algorithm}{settings.interpolation}, {what}"
    return f"{device}, {kind}, {'ends' if settings.endpoints else 'lines'}"


def measured(
    chunks: Generator[Tractogram, None, None],
    plan: Plan,
    report: Report,
    *,
    gpus: Sequence[int],
    n_threads: int,
) -> Generator[Tractogram, None, None]:
    """Hand chunks on and learn what they cost; the time that their receiver takes is left out.

    They are of a backend's loop, which fills the report and is closed at the end; what tracks is as
    of :func:`cost_key`. Raises NothingTrackedError when the backend fails before the first chunk;
    BackendError when it fails later.
    """
    seconds, first_seconds = 0.0, 0.0
    mm, first_mm = 0.0, 0.0
    n_chunks = n_seeds = 0
    cold = not started_gpus.issuperset(gpus)
    upload_s_before, bytes_before = report.seconds.get("upload", 0.0), report.uploaded_bytes
    try:
        while True:
            begun = time.perf_counter()
            try:
                chunk = next(chunks)
            except StopIteration:
                break
            except BackendError as error:
                if n_chunks:
                    raise
                raise NothingTrackedError(error) from error
            seconds += time.perf_counter() - begun
            n_chunks += 1
            n_seeds += chunk.n_seeds
            mm += float(chunk.lengths_mm.sum(dtype=float))
            if n_chunks == 1:
                first_seconds, first_mm = seconds, mm
                started_gpus.update(gpus)
            yield chunk
    finally:
        chunks.close()
    # The start is part of the first chunk; all others show the speed.
    work_mm, work_seconds = mm - first_mm, seconds - first_seconds
    if work_seconds < MEASURED_SECONDS or work_mm <= 0 or not n_seeds:
        return
    s_per_mm = work_seconds / work_mm
    upload_s = report.seconds.get("upload", 0.0) - upload_s_before
    uploaded_bytes = report.uploaded_bytes - bytes_before
    start_s = max(0.0, first_seconds - first_mm * s_per_mm - upload_s)
    key = cost_key(plan, gpus, n_threads)
    known = performance.get(key)
    if uploaded_bytes < MEASURED_BYTES:
        upload_s_per_byte = known.upload_s_per_byte if known else 0.0
    else:
        upload_s_per_byte = upload_s / uploaded_bytes
    performance.learn(
        key,
        Cost(
            start_s=start_s if cold or known is None else known.start_s,
            upload_s_per_byte=upload_s_per_byte,
            s_per_step=s_per_mm * float(plan.settings.step),
            mm_per_seed=mm / n_seeds,
        ),
    )
    if started_gpus:  # the file is of use only where there is a choice
        performance.save()
