"""What the bundles would lose to the cavities of the window, worked out as they change.

The regions with the role resect of all bundles are one cavity, for all bundles whose eye is open: a
cavity is where it is, whichever bundle it was painted in. Made by the panel.
"""

from __future__ import annotations

from typing import Any

from psygnal import Signal

from ...maps.resection import Resection, resection
from ...model.regions import Region
from ...streamlines.tractogram import Tractogram
from ..background import Advance, Background
from ..listening import Listening
from ..timers import delayed
from .listing import BundleList
from .open_bundle import OpenBundle
from .session import Session

RESECTION_KEY = "resection"  # layer.metadata[RESECTION_KEY]: of the bundle that it shows
FOLLOW_MS = 30  # after a change: strokes of a brush are many


class Resections:
    """Follows cavities and bundles; what is under way is finished before the next begins."""

    changed = Signal()  # other losses, or none any more

    def __init__(self, session: Session, bundles: BundleList) -> None:
        self.session, self.bundles = session, bundles
        self.found: dict[OpenBundle, Resection] = {}
        self.work = Background()
        self._known: tuple[Any, ...] = ()  # of what it was worked out last, or is being
        self._follow = delayed(None, FOLLOW_MS, self.update)
        self._listening = Listening(
            (session.regions.list_changed, self._later),
            (session.list_changed, self._later),
        )
        self.work.ended.connect(self._later)

    def open(self) -> None:
        self._listening.open()
        self._later()

    def close_section(self) -> None:
        self._listening.close()
        self.work.cancel()
        self._follow.stop()
        self._known = ()

    @property
    def cavity(self) -> list[Region]:
        """The regions with the role resect that are in use, of all bundles."""
        self.session.regions.take_note()
        return [
            region
            for bundle in self.session.document.now.bundles.values()
            for state in bundle.regions
            if state.role == "resect" and not state.is_inactive
            for region in self.session.regions.regions_of(state)
        ]

    def _later(self, _event: Any = None) -> None:
        self._follow.start()

    def update(self) -> None:
        """Work out what is lost now; while the last is under way, after it."""
        self._follow.stop()
        if self.work.is_busy:
            return
        cavity = self.cavity
        lines: list[tuple[OpenBundle, Tractogram]] = []
        for bundle in self.bundles.bundles if cavity else ():
            tractogram = bundle.tractogram
            if bundle.state.is_visible and tractogram is not None and len(tractogram):
                lines.append((bundle, tractogram))
        known = (*cavity, *((t, bundle.name) for bundle, t in lines))
        if known == self._known:
            return
        self._known = known
        if not lines:
            self._take({})
            return

        def work(_advance: Advance) -> dict[OpenBundle, Resection]:
            return {each: resection(t, cavity, name=each.name) for each, t in lines}

        self.work.begin("What is lost", work, self._take)

    def _take(self, found: dict[OpenBundle, Resection]) -> None:
        if found or self.found:
            self.found = found
            self.changed.emit()
