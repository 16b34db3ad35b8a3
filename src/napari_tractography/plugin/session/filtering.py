"""Regions, lengths and weights filter the streamlines of the active bundle, without tracking.

Regions and lengths those that were opened from a file, weights all that have some. Beside the
control of runs, which tracks the bundles that are tracked. Made by the panel.
"""

from __future__ import annotations

from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray
from psygnal import Signal

from ...errors import TractographyError
from ...streamlines.passing import SELECTING_ROLES, Criteria
from ...streamlines.tractogram import Tractogram
from ..background import Advance, Background
from ..document import NO_LIMITS
from ..flag import Flag
from ..streamlines.layer import Streamlines
from ..timers import delayed
from .session import Session

INDEX_FROM = 20_000  # streamlines; fewer are looked at one by one within a blink
MANY_POINTS = 2_000_000  # to draw all that may be of more takes longer than a hand waits,
FEW_POINTS = 200_000  # so that so many are drawn
REFINE_MS = 300  # until nothing has changed for so long


class Filtering:
    """Follows what is to be shown of the active bundle; `index` makes a spatial index of it."""

    refused = Signal(str)  # a sentence on why it is not filtered

    def __init__(self, session: Session) -> None:
        self.session = session
        self.index = Background()
        self._indexed: Tractogram | None = None  # whose index is made or on the way
        self._is_following = Flag()
        self._refine = delayed(None, REFINE_MS, self.refine)
        session.changed.connect(self.follow)
        session.edited.connect(self._on_edited)
        self.index.ended.connect(self._on_index_ended)

    def follow(self) -> None:
        """Show what passes the regions, lengths and weights that a person set."""
        bundle, layer = self.session.bundle, self.session.streamlines_layer
        if layer is None:
            return
        whole, least = layer.editor.base, bundle.state.min_weight
        criteria = Criteria()
        if least and whole.weights is not None:
            criteria["weight"] = least, np.inf
        if bundle.state.is_opened:
            criteria |= self._regions_and_lengths()
            if criteria.get("regions") and len(whole) > INDEX_FROM and not whole.has_index:
                self._begin(whole)
                return
        passing: NDArray[np.bool_] | None = None
        if criteria:
            try:
                numbers = whole.select_numbers(**criteria)
            except TractographyError as error:
                self.refused.emit(str(error))
                return
            passing = np.zeros(len(whole), dtype=bool)
            passing[numbers] = True
        if bundle.state.is_opened:
            limits = cast(tuple[float, float], criteria.get("length_mm") or NO_LIMITS)
            regions = tuple(criteria.get("regions", ()))
            bundle.amend(filtered_by=(regions, bundle.state.rule, limits))
        if whole.n_points > MANY_POINTS:
            layer.at_first = FEW_POINTS
            self._refine.start()
        with self._is_following:
            layer.editor.filter(passing)

    def _on_edited(self) -> None:
        """Filter what an edit has left, or its undo brought back: they may be other streamlines."""
        if not self._is_following:
            self.follow()

    def refine(self) -> None:
        """Draw all that may be drawn, now that nothing has changed for a moment."""
        self._refine.stop()
        for layer in self.session.viewer.layers:
            if isinstance(layer, Streamlines):
                layer.refine()
                layer.at_first = None

    def close(self) -> None:
        """Wait for no index any more."""
        self._indexed = None
        self._refine.stop()
        self.index.cancel()

    def _regions_and_lengths(self) -> Criteria:
        session, found = self.session, Criteria()
        # Cavities select nothing, and are saved with the others.
        roles = (*SELECTING_ROLES, "resect")
        regions = [r for _, r in session.regions.frozen() if r.role in roles]
        if regions:
            found["regions"], found["include_rule"] = regions, session.state.rule
        names = "min_length_mm", "max_length_mm"
        chosen = session.tracking.chosen
        low, high = (float(chosen.get(*known)) for known in zip(names, NO_LIMITS, strict=True))
        limits = low, high
        if limits != NO_LIMITS:
            found["length_mm"] = limits
        return found

    def _begin(self, whole: Tractogram) -> None:
        """Make the index in a thread; what is set then is followed when it is there."""
        if not self.index.is_busy or self._indexed is not whole:
            self._indexed = whole
            self.index.begin("Index", partial(_prepare, whole), lambda _: self.follow())

    def _on_index_ended(self) -> None:
        whole = self._indexed
        if whole is not None and not whole.has_index:
            self._indexed = None
            self.refused.emit("Without the index regions do not filter; move one to make it again.")


def _prepare(whole: Tractogram, advance: Advance) -> None:
    """Make what every move of a region asks for."""
    _ = whole.lengths_mm
    whole.spatial_index(advance)
