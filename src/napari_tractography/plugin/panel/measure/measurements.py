"""What can be measured of bundles in the window: for each kind, the work and what it is shown as.

Called by the Measure section, which does the work in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

from ....errors import InvalidRegionError, InvalidTractogramError
from ....geometry.grid import Grid
from ....maps import plots, spreadsheets
from ....maps.bundle_measures import measure
from ....maps.connectome import connectome
from ....maps.profiles import profile
from ....maps.resection import RESEARCH_ONLY, resection
from ....maps.scalar_maps import ScalarMap
from ....model.regions import Region
from ....streamlines.tractogram import Tractogram
from ...words import plural
from .maps import Counter
from .outputs import Shown

TABLE, PROFILE, ASYMMETRY, LENGTHS, CONNECTOME, RESECTION = KINDS = (
    "Table",
    "Profiles",
    "Asymmetry",
    "Lengths",
    "Connectome",
    "Resection",
)

Named = Sequence[tuple[str, Tractogram]]
Work = Callable[[Counter], Shown]


def work_of(
    kind: str,
    lines: Named,
    colours: Sequence[str],
    *,
    scalar: ScalarMap | None,
    labels: tuple[Any, Grid] | None,
    grid: Grid | None,
    cavity: Sequence[Region] = (),
) -> Work:
    """Return what measures bundles: one of :data:`KINDS`, of streamlines with names and colours.

    With what, scalar, labels, grid or cavity, is None, or empty, where none was chosen. Raises
    InvalidTractogramError, or of a cavity InvalidRegionError, when something was not chosen that
    the kind needs.
    """
    if kind == PROFILE:
        if scalar is None:
            raise InvalidTractogramError(
                "A profile needs a scalar map; open one, such as FA, and choose it as Scalar map."
            )
        return partial(_profiles, lines, scalar, colours)
    if kind == LENGTHS:
        return partial(_length_histograms, lines, colours)
    if kind == CONNECTOME:
        if labels is None:
            raise InvalidTractogramError(
                "A connectome needs labels; open a parcellation and choose it as Labels."
            )
        return partial(_connectome, lines, *labels)
    if kind == RESECTION:
        return partial(_resections, lines, checked_cavity(cavity))
    scalars = [] if scalar is None else [scalar]
    return partial(_asymmetry if kind == ASYMMETRY else _table, lines, scalars, grid)


def checked_cavity(cavity: Sequence[Region]) -> Sequence[Region]:
    """Return a cavity. Raises InvalidRegionError when there is none."""
    if not cavity:
        raise InvalidRegionError(
            "There is no cavity; give a region the role resect in Regions, and paint it."
        )
    return cavity


def _table(lines: Named, scalars: list[ScalarMap], grid: Grid | None, counter: Counter) -> Shown:
    found = [measure(counter.over(t), scalars, grid=grid, name=name) for name, t in lines]
    return Shown(spreadsheets.measures_table(found), "bundles", is_side_by_side=True)


def _asymmetry(
    lines: Named, scalars: list[ScalarMap], grid: Grid | None, counter: Counter
) -> Shown:
    found = [measure(counter.over(t), scalars, grid=grid, name=name) for name, t in lines]
    names = ["n_streamlines", "mean_length_mm", "volume_mm3", "surface_mm2"]
    names += [f"{each.name}_mean" for each in scalars]
    draw = partial(plots.plot_asymmetry, found, names)
    table = spreadsheets.asymmetry_table(found)
    if not table.rows:
        draw()  # says what is missing
    return Shown(table, "asymmetry", draw, is_side_by_side=True)


def _profiles(lines: Named, scalar: ScalarMap, colours: Sequence[str], counter: Counter) -> Shown:
    found = [profile(counter.over(t), scalar, name=name) for name, t in lines]
    draw = partial(plots.plot_profiles, found, colours)
    return Shown(spreadsheets.profiles_table(found), "profiles", draw)


def _length_histograms(lines: Named, colours: Sequence[str], _counter: Counter) -> Shown:
    names, lengths = [name for name, _ in lines], [t.lengths_mm for _, t in lines]
    draw = partial(plots.plot_lengths, lengths, names, colours)
    return Shown(spreadsheets.lengths_table(names, lengths), "lengths", draw)


def _resections(lines: Named, cavity: Sequence[Region], counter: Counter) -> Shown:
    found = [resection(counter.over(t), cavity, name=name) for name, t in lines]
    table = spreadsheets.resections_table(found)
    return Shown(table, "resection", is_side_by_side=True, note=RESEARCH_ONLY)


def _connectome(lines: Named, labels: Any, grid: Grid, counter: Counter) -> Shown:
    chunks = chain.from_iterable(counter.over(tractogram) for _, tractogram in lines)
    found = connectome(chunks, labels, grid)
    n = found.n_assigned + found.n_unassigned
    note = f"Labels on both sides: {found.n_assigned:,} of {plural(n, 'streamline')}."
    if not found.n_assigned:
        note += " Choose labels that lie where they end, such as those of the cortex."
    draw = partial(plots.plot_connectome, found) if found.n_assigned else None
    return Shown(found.counts_table, "connectome", draw, note=note)
