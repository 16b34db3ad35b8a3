"""What a run gave, in words: counts, lengths, and why streamlines ended.

Shared by tractograms in memory and by those whose points are on the disk alone, see
:mod:`.streaming`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..geometry.units import decimals_for
from .stop import N_REASONS, StopReason


class Outcome:
    """Streamlines without their points."""

    __slots__ = ()

    # How often each reason ended a half streamline or rejected a whole one, over all seeds.
    tally: dict[StopReason, int]
    n_seeds: int  # that were tried; 0 where unknown: of a file, and of chosen streamlines
    stop_reasons: NDArray[np.uint8]  # (n_streamlines, 2): codes of the first and the last point
    # Of a run whose streamlines were all too short: what ended most of them.
    short_since: StopReason | None

    @property
    def n_streamlines(self) -> int:
        """Number of streamlines."""
        raise NotImplementedError

    @property
    def n_points(self) -> int:
        """Number of points of all streamlines."""
        raise NotImplementedError

    @property
    def lengths_mm(self) -> NDArray[np.float32]:
        """(n_streamlines,) float32: lengths in mm."""
        raise NotImplementedError

    def digest(self) -> str:
        """Return the SHA-256 of the little-endian float32 points, then the int64 offsets."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self.n_streamlines

    @property
    def _from_seeds(self) -> str:
        return f" from {self.n_seeds} seeds" if self.n_seeds else ""

    def summary(self) -> str:
        """Return the run in words: counts, lengths and why streamlines ended."""
        lines = [f"{self.n_streamlines} streamlines{self._from_seeds}, {self.n_points} points"]
        if self.n_streamlines:
            lengths = self.lengths_mm
            mean, *ends_mm = lengths.mean(), lengths.min(), lengths.max()
            decimals = decimals_for(mean / 10)  # of voxels of micrometres two digits at least
            low, high = (f"{mm:.{decimals}f}" for mm in ends_mm)
            lines.append(f"length {mean:.{decimals}f} mm on average, {low} to {high} mm")
        ends, discarded = self.ends(), self.discarded()
        lines += ["ends:"] if ends else []
        lines += [f"{count:>10}  {reason.text}" for reason, count in ends]
        lines += ["no streamline:"] if discarded else []
        lines += [f"{count:>10}  {reason.seed_text}" for reason, count in discarded]
        return "\n".join(lines)

    def reasons(self) -> list[tuple[StopReason, int]]:
        """Return (reason, count), the commonest first, without zeros and without the seed end."""
        return _commonest_first(self.tally)

    def ends(self) -> list[tuple[StopReason, int]]:
        """Return (reason, count) of the ends of the streamlines, as :meth:`reasons` does."""
        counts = np.bincount(self.stop_reasons.ravel(), minlength=N_REASONS)
        return _commonest_first({reason: int(counts[reason]) for reason in StopReason})

    def discarded(self) -> list[tuple[StopReason, int]]:
        """Return (reason, count) of the seeds that gave no streamline, as :meth:`reasons` does.

        Those from which no step was taken have the reason of their halves, the commoner of two.
        Where the number of seeds is unknown they are not among these.
        """
        found = {reason: count for reason, count in self.reasons() if reason.rejects}
        n_unmoved = self.n_seeds - self.n_streamlines - sum(found.values()) if self.n_seeds else 0
        ends = dict(self.ends())
        halves = {r: n - ends.get(r, 0) for r, n in self.reasons() if not r.rejects}
        for reason, count in _commonest_first(halves):
            found[reason] = min(count, n_unmoved)
            n_unmoved -= found[reason]
        return _commonest_first(found)

    def why_empty(self) -> str:
        """Return one sentence on why there are no streamlines and what to change, or ""."""
        if self.n_streamlines:
            return ""
        reasons = self.discarded() or self.reasons()
        if not reasons:
            return "No streamlines: there were no seeds; place one."
        reason, count = reasons[0]
        text, remedy, since = reason.seed_text, reason.remedy, self.short_since
        if reason is StopReason.TOO_SHORT and since is not None:
            text = f"{text}, most for this reason: {since.text}"
            remedy = f"{since.remedy}, or {remedy}" if since.remedy else remedy
        remedy = f"; {remedy}" if remedy else ""
        return f"No streamlines{self._from_seeds}: {count} x {text}{remedy}."


def _commonest_first(counts: Mapping[StopReason, int]) -> list[tuple[StopReason, int]]:
    """Return what there is of each reason, without the seed end."""
    found = [(reason, n) for reason, n in counts.items() if n > 0 and reason is not StopReason.SEED]
    return sorted(found, key=lambda item: (-item[1], item[0]))
