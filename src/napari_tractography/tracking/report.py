"""What a run tells of itself: what tracked it, why, and where the time went.

Filled by :mod:`.engine`, :mod:`.backends` and the loops of the CPU and of CUDA; shown by the panel
and the command line.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# Named in `Report.seconds`. What the next run need not do again:
SETUP = ("tables", "start")
FRACTION_SHOWN = 0.2  # of a run, from which on a part of it is worth mentioning


@dataclass(slots=True)
class Report:
    """What a run tells of itself; filled while it goes on, complete at its end.

    Attributes
    ----------
    backend, reason : str
        What tracks, such as "cpu" or "cuda:0", and why.
    seconds : dict of str to float
        Where the time went: "tables" and "tracking"; on the CPU "start", where code had to be
        compiled or loaded; on a GPU also "upload" and "download". What runs side by side is counted
        in each. "tracking" leaves out what a run waits for whoever takes its chunks: on the CPU it
        is what the threads were busy, over their number; of several GPUs it is, as "download" is,
        their mean.
    uploaded_bytes : int
        Tables that were copied to GPUs for this run.
    held_bytes : int
        What CuPy's pools hold of the GPUs in the end: tables, and what the caller has there.
    """

    backend: str = ""
    reason: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    uploaded_bytes: int = 0
    held_bytes: int = 0

    def begin(self, backend: str, reason: str) -> None:
        """Say what tracks from now on; forget what another backend took, but not the tables."""
        self.backend, self.reason = backend, reason
        self.seconds = {what: s for what, s in self.seconds.items() if what == "tables"}
        self.uploaded_bytes = self.held_bytes = 0

    def speed(self, n_steps: float, seconds: float) -> str:
        """Say how long a run took, and how fast it was besides what is not tracking.

        Parameters
        ----------
        n_steps : float
            Of all streamlines together.
        seconds : float
            Of the whole run.
        """
        setup = min(sum(self.seconds.get(what, 0.0) for what in SETUP), seconds)
        tracking = self.seconds.get("tracking", seconds - setup)
        rate = f"{n_steps / max(tracking, 1e-9) / 1e6:.2f} million steps/s"
        parts = []
        if setup >= FRACTION_SHOWN * seconds:
            parts.append(f"{setup:.2f} s to get ready")
        if seconds - tracking >= FRACTION_SHOWN * seconds:
            parts.append(f"{tracking:.2f} s to track")
        if parts:
            return f"{seconds:.2f} s, of which {' and '.join(parts)}: {rate}"
        return f"{seconds:.2f} s, {rate}"
