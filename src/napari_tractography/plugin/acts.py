"""What a person does to the bundles of a window, as functions from snapshot to snapshot.

Called by whatever takes clicks, keys and values: :class:`.session.session.Session`, the list of
bundles, the control of runs. The text of an act is what Undo says.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec

from ..model.parameters import parameter_specs
from ..model.seeding_parameters import seeding_specs
from .document import COLOURS, BundleState, PlacedSeeds, RegionState, Snapshot
from .words import plural

# What of a bundle goes with its streamlines.
STREAMLINES = ("result", "edits", "tractogram", "weights", "min_weight", "summary")
Act = Callable[[Snapshot], Snapshot]
P = ParamSpec("P")

SPECS = {spec.name: spec for spec in parameter_specs()}
# Of these two the one that was set last counts.
INSTEAD = {"max_angle_deg": "min_radius_mm", "min_radius_mm": "max_angle_deg"}


def _act(function: Callable[Concatenate[Snapshot, P], Snapshot]) -> Callable[P, Act]:
    """Have a function of a snapshot and some values return the act of these values."""
    return lambda *args, **values: lambda now: function(now, *args, **values)


def change(bundle: int | None = None, **values: Any) -> Act:
    """Give a bundle, by default the active one, other values."""
    return lambda now: now.replace(bundle, **values)


# -- parameters --------------------------------------------------------------------------------


@_act
def choose(now: Snapshot, values: Mapping[str, Any]) -> Snapshot:
    """Set tracking parameters by name, as a person does; see :data:`INSTEAD`."""
    given_up = {INSTEAD.get(name) for name in values} - values.keys()
    kept = {name: value for name, value in now.bundle.chosen.items() if name not in given_up}
    return now.replace(chosen=MappingProxyType({**kept, **values}))


@_act
def forget_chosen(now: Snapshot, names: Collection[str]) -> Snapshot:
    """Let the FOD, or the defaults, decide some tracking parameters again."""
    kept = {name: value for name, value in now.bundle.chosen.items() if name not in names}
    return now.replace(chosen=MappingProxyType(kept))


def choice_text(values: Mapping[str, Any]) -> str:
    """Return which parameters of tracking or seeding were chosen: "Cone angle 30 degrees"."""
    if len(values) != 1:
        return "Set parameters"
    ((name, value),) = values.items()
    spec = next(spec for spec in (*SPECS.values(), *seeding_specs()) if spec.name == name)
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


@_act
def add_region(now: Snapshot, region: RegionState) -> Snapshot:
    """Add a region behind the others of the active bundle."""
    return now.replace(regions=(*now.bundle.regions, region))


@_act
def remove_regions(now: Snapshot, numbers: Collection[int]) -> Snapshot:
    """Remove regions by their ids, whichever bundle they are of."""
    for number, state in now.bundles.items():
        kept = tuple(region for region in state.regions if region.id not in numbers)
        if len(kept) != len(state.regions):
            between = None if {*numbers} & {*(state.between or ())} else state.between
            now = now.replace(number, regions=kept, between=between)
    return now


@_act
def change_regions(now: Snapshot, /, numbers: Collection[int], **values: Any) -> Snapshot:
    """Give regions other values, by their ids, whichever bundle they are of."""
    for number, state in now.bundles.items():
        regions = tuple(
            dataclasses.replace(region, **values) if region.id in numbers else region
            for region in state.regions
        )
        now = now.replace(number, regions=regions)
    return now


# -- the list ----------------------------------------------------------------------------------


@_act
def activate(now: Snapshot, number: int) -> Snapshot:
    """Make another bundle the active one."""
    is_other = number != now.active and number in now.bundles
    return Snapshot(now.bundles, number) if is_other else now


@_act
def insert(now: Snapshot, number: int, state: BundleState) -> Snapshot:
    """Add a bundle, which has an id, below the active one, and make it active."""
    bundles = list(now.bundles.items())
    bundles.insert(list(now.bundles).index(now.active) + 1, (number, state))
    return Snapshot(dict(bundles), number)


@_act
def append(
    now: Snapshot, number: int, state: BundleState, *, replacing: int | None = None
) -> Snapshot:
    """Add a bundle, which has an id, at the end of the list, or in place of one that is blank."""
    left = {n: each for n, each in now.bundles.items() if n != replacing or not each.is_blank}
    return Snapshot({**left, number: state}, now.active if now.active in left else number)


@_act
def delete(now: Snapshot, number: int, blank: tuple[int, BundleState]) -> Snapshot:
    """Delete a bundle; a blank one comes in its place where it is the only one."""
    if number not in now.bundles:
        return now
    index = list(now.bundles).index(number)
    left = {n: state for n, state in now.bundles.items() if n != number} or dict([blank])
    active = now.active if now.active in left else list(left)[min(index, len(left) - 1)]
    return Snapshot(left, active)


@_act
def put_back(now: Snapshot, number: int, state: BundleState, drawn: Collection[int]) -> Snapshot:
    """Bring back the streamlines of a bundle, by its id, or all of it where it was deleted.

    A blank one that came in its place goes. `drawn` are ids in the order of the layers.
    """
    if number in now.bundles:
        now = now.replace(number, **{name: getattr(state, name) for name in STREAMLINES})
    else:
        only = now.active if len(now.bundles) == 1 else None
        now = append(number, state, replacing=only)(now)
    return reorder(drawn)(now)


@_act
def colour_each(now: Snapshot, mode: str) -> Snapshot:
    """Colour the streamlines of every bundle in a mode; each bundle has a colour of its own.

    Of two bundles of one colour the second gets another.
    """
    taken: list[str] = []
    for number, state in now.bundles.items():
        colour = free_colour(taken) if state.colour in taken else state.colour
        taken.append(colour)
        style = {**state.style, "colour_by": mode, "colour": colour}
        if style != state.style or colour != state.colour:
            now = now.replace(number, colour=colour, style=MappingProxyType(style))
    return now


@_act
def reorder(now: Snapshot, numbers: Collection[int]) -> Snapshot:
    """Put these bundles in this order, in the rows that they have; the others stay in theirs."""
    in_turn = iter(numbers)
    order = [next(in_turn) if number in numbers else number for number in now.bundles]
    if order == list(now.bundles):
        return now
    return Snapshot({number: now.bundles[number] for number in order}, now.active)


@_act
def move(now: Snapshot, number: int, index: int) -> Snapshot:
    """Move a bundle to another row of the list."""
    order = [known for known in now.bundles if known != number]
    order.insert(index, number)
    return reorder(order)(now)


def free_name(taken: Iterable[str], wanted: str = "") -> str:
    """Return a name that is not taken: the wanted one, with a number where it is.

    A new bundle is numbered by the bundles that there are: the second one is "Bundle 2".
    """
    known = set(taken)
    if wanted and wanted not in known:
        return wanted
    stem = re.sub(r"(^|\s+)\d+$", "", wanted) or "Bundle"
    numbers = itertools.count(2 if wanted else len(known) + 1)
    return next(name for n in numbers if (name := f"{stem} {n}") not in known)


def free_colour(taken: Iterable[str]) -> str:
    """Return a colour that no bundle has, as long as there are some."""
    known = list(taken)
    return next((c for c in COLOURS if c not in known), COLOURS[len(known) % len(COLOURS)])
