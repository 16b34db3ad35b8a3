"""How many streamlines a preview has, so that it feels immediate. Called by the control of runs."""

from __future__ import annotations

from collections import deque

TARGET_SECONDS = 0.035  # from the change to the layer, as the median
FEWEST, MOST = 200, 20_000  # streamlines of a preview
FIRST_GUESS = 400  # before anything is measured: few enough without the kernel, too
REMEMBERED = 3  # previews whose median counts: a single slow one changes nothing


class Pace:
    """How many streamlines a preview may have, from how long the last ones took."""

    def __init__(self, target_seconds: float = TARGET_SECONDS) -> None:
        self._target = target_seconds
        self._seconds_each: deque[float] = deque(maxlen=REMEMBERED)

    @property
    def n_streamlines(self) -> int:
        if not self._seconds_each:
            return FIRST_GUESS
        # The median; of two the smaller, because disturbances only ever make a preview longer.
        usual = sorted(self._seconds_each)[(len(self._seconds_each) - 1) // 2]
        return round(min(max(self._target / usual, FEWEST), MOST))

    def learn(self, n_streamlines: int, seconds: float) -> None:
        self._seconds_each.append(max(seconds, 1e-6) / max(n_streamlines, 1))
