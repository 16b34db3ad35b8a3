"""Making another bundle active: what the panel holds is put away, and that of the other shown.

Called by :mod:`.listing`.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

from napari.layers import Layer

from ....errors import TractographyError
from ....model.regions import Region
from ...layers.region_entries import Entry
from ..seeding import chosen_ends
from ..session import Session
from .state import BundleState, Given


def rest(session: Session) -> None:
    """Put away what the active bundle is tracked with; its seeds and regions leave the viewer."""
    bundle = session.bundle
    try:
        bundle.wanted = session.request()
    except TractographyError:  # nothing could be tracked
        bundle.wanted = None
    bundle.by_hand, bundle.seeding = dict(session.tracking.by_hand), session.seeding
    bundle.fod_layer = session.fod_layer
    bundle.mask_layer, bundle.seed_mask_layer = session.mask_layer, session.seed_mask_layer
    bundle.tissue_layer, bundle.between = session.tissue_layer, session.regions.between
    bundle.seeds_layer = session.seeds.exchange(None)
    bundle.entries, bundle.rule = session.regions.exchange([], "all")


def wake(session: Session, bundle: BundleState) -> None:
    """Show what a bundle is tracked with, and make it active."""
    resume(session, bundle)
    session.seeds.exchange(bundle.seeds_layer)
    session.regions.exchange(bundle.entries, bundle.rule)
    session.regions.between = bundle.between
    bundle.seeds_layer, bundle.entries, bundle.wanted = None, [], None
    if bundle.given is not None:
        session.seeds.fill(bundle.given.seeds_mm, bundle.given.own)
        made = [session.regions.add_made(region) for region in bundle.given.regions]
        if bundle.given.ends is not None:
            one, other = bundle.given.ends
            session.regions.between = made[one], made[other]
        bundle.given = None
    session.history.begin()  # what was done in another bundle is not undone here


def resume(session: Session, bundle: BundleState) -> None:
    """Make a bundle active; its seeds and regions are left as they are."""
    session.bundle = bundle
    fod_layer = _still_there(session, bundle.fod_layer)
    if fod_layer is not None:
        session.choose_fod(fod_layer)
    with contextlib.suppress(TractographyError):  # told when it was chosen
        session.choose_tissues(_still_there(session, bundle.tissue_layer))
    session.restore_parameters(bundle.by_hand, bundle.seeding)
    session.mask_layer = _still_there(session, bundle.mask_layer)
    session.seed_mask_layer = _still_there(session, bundle.seed_mask_layer)


def given_of(session: Session) -> Given:
    """Return seeds and regions of the active bundle as data."""
    regions: list[Region] = []
    firsts: dict[Entry, int] = {}  # the number of the first region of each entry
    for entry in (entry for entry in session.regions.entries if not entry.is_asleep):
        made = session.regions.of(entry)
        if made:
            firsts[entry] = len(regions)
        regions += [replace(region, role=entry.role) for region in made]
    one, other = chosen_ends(session.regions) or (None, None)
    ends = (firsts[one], firsts[other]) if one in firsts and other in firsts else None
    return Given(session.seed_positions_mm(), session.seeds.own, tuple(regions), ends)


def settings_of(session: Session) -> dict[str, Any]:
    """Return what else the active bundle is tracked with, as fields of a state."""
    return {
        "by_hand": dict(session.tracking.by_hand),
        "seeding": session.seeding,
        "fod_layer": session.fod_layer,
        "mask_layer": session.mask_layer,
        "seed_mask_layer": session.seed_mask_layer,
        "tissue_layer": session.tissue_layer,
    }


def _still_there(session: Session, layer: Layer | None) -> Layer | None:
    return layer if layer in session.viewer.layers else None
