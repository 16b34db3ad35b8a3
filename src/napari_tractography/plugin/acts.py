"""What a person does to the bundles of a window, as functions from snapshot to snapshot.

Called by whatever takes clicks, keys and values: :class:`.session.session.Session`, the list of
bundles, the control of runs. The text of an act is what Undo says.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ..model.parameters import parameter_specs
from ..model.seeding_parameters import seeding_specs
from .document import COLOURS, BundleState, PlacedSeeds, RegionState, Snapshot
from .words import plural

Act = Callable[[Snapshot], Snapshot]

SPECS = {spec.name: spec for spec in parameter_specs()}
SEEDING = {spec.name: spec for spec in seeding_specs()}
# Of these two the one that was set last counts.
INSTEAD = {"max_angle_deg": "min_radius_mm", "min_radius_mm": "max_angle_deg"}


def change(bundle: int | None = None, **values: Any) -> Act:
    """Give a bundle, by default the active one, other values."""
    return lambda now: now.replace(bundle, **values)


# -- parameters --------------------------------------------------------------------------------


def choose(values: Mapping[str, Any]) -> Act:
    """Set tracking parameters by name, as a person does; see :data:`INSTEAD`."""

    def act(now: Snapshot) -> Snapshot:
        chosen = dict(now.bundle.chosen)
        for name, value in values.items():
            other = INSTEAD.get(name)
            if other is not None and other not in values:
                chosen.pop(other, None)
            chosen[name] = value
        return now.replace(chosen=MappingProxyType(chosen))

    return act


def forget_chosen(names: Iterable[str]) -> Act:
    """Let the FOD, or the defaults, decide some tracking parameters again."""
    left_out = set(names)

    def act(now: Snapshot) -> Snapshot:
        kept = {name: value for name, value in now.bundle.chosen.items() if name not in left_out}
        return now.replace(chosen=MappingProxyType(kept))

    return act


def choice_text(values: Mapping[str, Any]) -> str:
    """Return which parameters of tracking or seeding were chosen: "Cone angle 30 degrees"."""
    if len(values) != 1:
        return "Set parameters"
    ((name, value),) = values.items()
    spec = SPECS[name] if name in SPECS else SEEDING[name]
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return " ".join(filter(None, [spec.label, shown, spec.unit]))


# -- seeds -------------------------------------------------------------------------------------


def seeds_text(before: PlacedSeeds, now: PlacedSeeds) -> str:
    """Return what became of seeds, such as "Move seed 2"."""
    n, n_before = len(now), len(before)
    if n > n_before:
        return f"Place {plural(n - n_before, 'seed')}"
    if n < n_before:
        return f"Remove {plural(n_before - n, 'seed')}"
    moved = (before.positions_mm != now.positions_mm).any(axis=1).nonzero()[0]
    if not len(moved):
        return "Radius and number of seeds"
    return f"Move seed {moved[0] + 1}" if len(moved) == 1 else f"Move {plural(len(moved), 'seed')}"


# -- regions -----------------------------------------------------------------------------------


def add_region(region: RegionState) -> Act:
    """Add a region behind the others of the active bundle."""
    return lambda now: now.replace(now.active, regions=(*now.bundle.regions, region))


def remove_regions(numbers: Iterable[int]) -> Act:
    """Remove regions by their ids, whichever bundle they are of."""
    gone = set(numbers)

    def act(now: Snapshot) -> Snapshot:
        for number, state in now.bundles.items():
            kept = tuple(region for region in state.regions if region.id not in gone)
            if len(kept) != len(state.regions):
                between = None if gone & set(state.between or ()) else state.between
                now = now.replace(number, regions=kept, between=between)
        return now

    return act


def change_regions(numbers: Iterable[int], **values: Any) -> Act:
    """Give regions other values, by their ids, whichever bundle they are of."""
    ids = set(numbers)

    def act(now: Snapshot) -> Snapshot:
        for number, state in now.bundles.items():
            regions = tuple(
                dataclasses.replace(region, **values) if region.id in ids else region
                for region in state.regions
            )
            now = now.replace(number, regions=regions)
        return now

    return act


# -- the list ----------------------------------------------------------------------------------


def activate(number: int) -> Act:
    """Make another bundle the active one."""

    def act(now: Snapshot) -> Snapshot:
        if number == now.active or number not in now.bundles:
            return now
        return Snapshot(now.bundles, number)

    return act


def insert(number: int, state: BundleState) -> Act:
    """Add a bundle, which has an id, below the active one, and make it active."""

    def act(now: Snapshot) -> Snapshot:
        bundles: dict[int, BundleState] = {}
        for known, other in now.bundles.items():
            bundles[known] = other
            if known == now.active:
                bundles[number] = state
        return Snapshot(bundles, number)

    return act


def append(number: int, state: BundleState, *, replacing: int | None = None) -> Act:
    """Add a bundle, which has an id, at the end of the list, or in place of one that is blank."""

    def act(now: Snapshot) -> Snapshot:
        left = {
            known: other
            for known, other in now.bundles.items()
            if known != replacing or not other.is_blank
        }
        active = now.active if now.active in left else number
        return Snapshot({**left, number: state}, active)

    return act


def delete(number: int, blank: tuple[int, BundleState]) -> Act:
    """Delete a bundle; a blank one comes in its place where it is the only one."""

    def act(now: Snapshot) -> Snapshot:
        if number not in now.bundles:
            return now
        order = list(now.bundles)
        index = order.index(number)
        left = {known: state for known, state in now.bundles.items() if known != number}
        if not left:
            left = {blank[0]: blank[1]}
        known = list(left)
        active = now.active if now.active in left else known[min(index, len(known) - 1)]
        return Snapshot(left, active)

    return act


def colour_each(mode: str) -> Act:
    """Colour the streamlines of every bundle in a mode; each bundle has a colour of its own.

    Of two bundles of one colour the second gets another.
    """

    def act(now: Snapshot) -> Snapshot:
        taken: list[str] = []
        for number, state in now.bundles.items():
            colour = free_colour(taken) if state.colour in taken else state.colour
            taken.append(colour)
            style = {**state.style, "colour_by": mode, "colour": colour}
            if style != state.style or colour != state.colour:
                now = now.replace(number, colour=colour, style=MappingProxyType(style))
        return now

    return act


def move(number: int, index: int) -> Act:
    """Move a bundle to another row of the list."""

    def act(now: Snapshot) -> Snapshot:
        order = [known for known in now.bundles if known != number]
        order.insert(index, number)
        if order == list(now.bundles):
            return now
        return Snapshot({known: now.bundles[known] for known in order}, now.active)

    return act


def free_name(taken: Iterable[str], wanted: str = "") -> str:
    """Return a name that is not taken: the wanted one, with a number where it is.

    A new bundle is numbered by the bundles that there are: the second one is "Bundle 2".
    """
    known = set(taken)
    if wanted and wanted not in known:
        return wanted
    stem = wanted.rstrip("0123456789").rstrip() if wanted.rpartition(" ")[2].isdecimal() else wanted
    stem = stem or "Bundle"
    number = 2 if wanted else len(known) + 1
    while f"{stem} {number}" in known:
        number += 1
    return f"{stem} {number}"


def free_colour(taken: Iterable[str]) -> str:
    """Return a colour that no bundle has, as long as there are some."""
    known = list(taken)
    free = [colour for colour in COLOURS if colour not in known]
    return free[0] if free else COLOURS[len(known) % len(COLOURS)]
