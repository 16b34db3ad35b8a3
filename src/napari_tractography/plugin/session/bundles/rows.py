"""The rows of the list of bundles: what there is, and what a new one is called.

The part of :mod:`.listing` that changes nothing.
"""

from __future__ import annotations

from typing import Any

from napari.layers import Layer
from psygnal import Signal

from ....errors import TractographyError
from ....model.seeding import SeedingParameters
from ..requests import Request
from ..session import Session
from .state import COLOURS, BundleState, free_name


class Rows:
    """The bundles of a session, one of which is active.

    Parameters
    ----------
    session : Session

    Attributes
    ----------
    bundles : list of BundleState
        In the order of the list; never empty.
    """

    changed = Signal()  # the list, or something in a row
    leaving = Signal(object)  # BundleState that is active, before another is

    def __init__(self, session: Session) -> None:
        self.session = session
        self.viewer = session.viewer
        self.bundles: list[BundleState] = [session.bundle]

    @property
    def active(self) -> BundleState:
        """The bundle that the panel shows and changes."""
        return self.session.bundle

    def of_layer(self, layer: Layer | None) -> BundleState | None:
        """Return the bundle whose streamlines a layer shows."""
        if layer is None:
            return None
        return next((b for b in self.bundles if b.streamlines_layer is layer), None)

    def is_blank(self, bundle: BundleState) -> bool:
        """Tell whether nothing was done in a bundle that is active: no seeds, regions, result."""
        session = self.session
        return (
            bundle is session.bundle
            and bundle.streamlines_layer is None
            and bundle.tractogram is None
            and not len(session.seeds)
            and not session.regions.entries
        )

    def look_of(self, bundle: BundleState) -> dict[str, Any]:
        """Return the values of the Display section of a bundle."""
        if bundle is self.active:
            self.leaving.emit(bundle)  # whoever shows them notes them
        return bundle.look

    def wanted_of(self, bundle: BundleState) -> Request | None:
        """Return what a run of a bundle would track; None where something is missing."""
        if bundle is not self.active:
            return bundle.wanted
        try:
            return self.session.request()
        except TractographyError:
            return None

    def settings_of(self, bundle: BundleState) -> tuple[dict[str, Any], SeedingParameters]:
        """Return the tracking parameters that a person set for a bundle, and its seeding."""
        if bundle is self.active:
            return self.session.tracking.by_hand, self.session.seeding
        return bundle.by_hand, bundle.seeding

    def free_name(self, wanted: str = "") -> str:
        """Return a name that no bundle has: the wanted one, with a number where it is taken."""
        return free_name({bundle.name for bundle in self.bundles}, wanted)

    def free_colour(self) -> str:
        """Return a colour that no bundle has, as long as there are some."""
        taken = [bundle.colour for bundle in self.bundles]
        free = [colour for colour in COLOURS if colour not in taken]
        return free[0] if free else COLOURS[len(taken) % len(COLOURS)]
