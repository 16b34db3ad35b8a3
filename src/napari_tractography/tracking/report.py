"""What a run tells of itself: what tracked it, why, where the time went, and what to change.

Filled by :mod:`.engine`, :mod:`.backends` and the loops of the CPU and of CUDA; shown by the panel
and the command line, as is :func:`advice`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..geometry.units import MM, per_mm, symbol
from ..model.outcome import Outcome
from ..model.parameters import TrackingParameters
from ..model.stop import N_REASONS, StopReason

# What a run may be at, in `Report.phase`.
PREPARING = "preparing"  # compiling or loading what tracks; nothing comes meanwhile
STANDING_IN = "standing in"  # tracking in WebAssembly while that is compiled
WAITING = "waiting"  # for workers of a cluster
# Named in `Report.seconds`. What the next run need not do again:
SETUP = ("tables", "start")
FRACTION_SHOWN = 0.2  # of a run, from which on a part of it is worth mentioning
MOST = 0.5  # of the streamlines or seeds, above which there is advice
STEPS_AT_SEED = 2  # a streamline of so many steps never left its seed
# Streamlines that were tracked and then thrown away, wherever they ran.
DISCARDED = tuple(r for r in StopReason if r.rejects and not r.name.startswith("SEED_"))
# Streamlines that a person asked to have discarded, wherever they ran.
UNWANTED = (StopReason.EXCLUDED, StopReason.NOT_INCLUDED, StopReason.NOT_ENDED)


@dataclass(slots=True)
class Report:
    """What is recorded of a run; filled while it is under way, complete at its end.

    Attributes
    ----------
    backend, reason : str
        What tracks, such as "cpu" or "cuda:0", and why.
    seconds : dict of str to float
        Where the time went: "tables" and "tracking"; on the CPU "start", where code had to be
        compiled or loaded; on a GPU also "upload" and "download". What runs side by side is counted
        in each. "tracking" leaves out the waiting for the consumer of the chunks: on the CPU it
        is what the threads were busy, over their number; of several GPUs it is, as "download" is,
        their mean.
    uploaded_bytes : int
        Tables that were copied to GPUs for this run.
    phase : str
        :data:`PREPARING`, :data:`STANDING_IN`, :data:`WAITING`, or "" where it tracks at full
        speed.
    held_bytes : int
        What CuPy's pools hold of the GPUs in the end: tables, and what the caller has there.
    n_seeds, n_streamlines : int
        Seeds that are done, and streamlines that were accepted of them.
    """

    backend: str = ""
    reason: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    uploaded_bytes: int = 0
    held_bytes: int = 0
    phase: str = ""
    n_seeds: int = 0
    n_streamlines: int = 0

    def clear(self) -> None:
        """Forget an earlier run."""
        self.seconds = {}
        self.uploaded_bytes = self.held_bytes = self.n_seeds = self.n_streamlines = 0

    def begin(self, backend: str, reason: str) -> None:
        """Say what tracks from now on."""
        self.backend, self.reason = backend, reason

    def add(self, what: str, seconds: float) -> None:
        """Add to the seconds of a part; runs that track in rounds do each part several times."""
        self.seconds[what] = self.seconds.get(what, 0.0) + seconds

    def speed(self, tractogram: Outcome, step_mm: float, seconds: float) -> str:
        """Say how long a run took, and how fast it was besides what is not tracking.

        Steps, of `step_mm`, are those of the streamlines that were kept; where a run discards many,
        that is said.
        """
        n_steps = float(tractogram.lengths_mm.sum(dtype=np.float64)) / step_mm
        setup = min(sum(self.seconds.get(what, 0.0) for what in SETUP), seconds)
        tracking = self.seconds.get("tracking", seconds - setup)
        rate = f"{n_steps / max(tracking, 1e-9) / 1e6:.2f} million steps/s"
        n_discarded = sum(tractogram.tally.get(reason, 0) for reason in DISCARDED)
        if n_discarded > FRACTION_SHOWN * (n_discarded + len(tractogram)):
            rate += " of the streamlines kept"
        parts = []
        if setup >= FRACTION_SHOWN * seconds:
            parts.append(f"{setup:.2f} s to get ready")
        if seconds - tracking >= FRACTION_SHOWN * seconds:
            parts.append(f"{tracking:.2f} s to track")
        if parts:
            return f"{seconds:.2f} s, of which {' and '.join(parts)}: {rate}"
        return f"{seconds:.2f} s, {rate}"


def advice(tractogram: Outcome, parameters: TrackingParameters, unit: str = MM) -> str:
    """Return a sentence on what to change where most of a run came to nothing, or "".

    That is where most streamlines reached the maximum length, or most seeds gave no streamline or
    one of a step or two. A run without any streamline has :meth:`Tractogram.why_empty`. Lengths are
    read in `unit`.
    """
    if not len(tractogram):
        return ""
    ends = tractogram.stop_reasons
    fraction = float((ends == StopReason.MAX_LENGTH).any(axis=1).mean())
    if fraction > MOST:
        return (
            f"{_percent(fraction)} % of the streamlines reached the maximum length of "
            f"{parameters.max_length_mm * per_mm(unit):g} {symbol(unit)}: raise the minimum "
            f"amplitude ({parameters.min_amplitude:g}) if they wander, else the maximum length."
        )
    if not tractogram.n_seeds:  # of a file, or of chosen streamlines: unknown
        return ""
    left_seed = tractogram.lengths_mm > (STEPS_AT_SEED + 0.01) * parameters.step_mm
    unwanted = sum(tractogram.tally.get(reason, 0) for reason in UNWANTED)
    fraction = 1 - (int(left_seed.sum()) + unwanted) / max(tractogram.n_seeds, 1)
    if fraction <= MOST:
        return ""
    elsewhere = np.bincount(ends[left_seed].ravel(), minlength=N_REASONS)
    at_seeds = {
        reason: count - int(elsewhere[reason])
        for reason, count in tractogram.tally.items()
        if reason.remedy and reason not in UNWANTED
    }
    reason = max(at_seeds, key=lambda r: at_seeds[r], default=StopReason.SEED_WITHOUT_FOD)
    return (
        f"{_percent(fraction)} % of the seeds gave no streamline or one that ends at once, "
        f"mostly: {reason.text}; {reason.remedy}."
    )


def _percent(fraction: float) -> int:
    """Return a fraction in percent; 100 where it is all alone."""
    return 100 if fraction == 1 else min(round(100 * fraction), 99)
