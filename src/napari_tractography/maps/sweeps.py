"""How a result depends on a parameter: one is swept, with common random numbers.

Every value starts the same seeds with the same random numbers, so that what two values have in
common adds no error to their difference. Called by the command, the plugin and scripts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidParameterError, InvalidSeedsError
from ..geometry.grid import Grid
from ..model.algorithms import users_of
from ..model.fod import Fod
from ..model.parameters import ParameterSpec, TrackingParameters, parameter_specs
from ..model.regions import Region, listed_regions
from ..model.seeds import Seeds
from ..runtime.scalars import as_float, is_number
from ..streamlines.passing import Criteria
from ..streamlines.tractogram import Tractogram
from ..tracking.engine import track_all
from ..tracking.inputs import Execution, TrackingInput, TrackKeywords, sorted_out
from .density import PassCounter

GROUPS = 20  # of seeds, of which the jackknife leaves out one after the other
CLEAR = 2.0  # standard errors, from which on a difference counts
MOST_VOXELS = 10_000_000  # of the maps that are compared; of a larger grid some are taken together
ROUNDING = 1e-9
# name of a number -> what a person reads, its unit
MEASURES = {
    "share_accepted": ("Accepted", ""),
    "mean_length_mm": ("Mean length", "mm"),
    "likeness": ("Likeness", ""),
    "share_valid": ("Valid", ""),
}

Seen = Callable[[int, float, Tractogram], object]  # number of the value, the value, what it gave


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """What each value of a parameter gave.

    The likeness is how much the visitation maps of one half of the seeds at this value and of the
    other half at the chosen value have in common, the mean of both ways: 2 sum min(p, q) / sum (p +
    q). At the chosen value it is what randomness alone leaves, below 1; a value whose streamlines
    run elsewhere has less.

    Errors are by the jackknife over :data:`GROUPS` groups of seeds, each left out at all values at
    once: paired, since the random numbers are common.
    """

    name: str  # of the parameter
    values: NDArray[np.float64]  # (n,): rising; the chosen one is among them
    chosen: int  # which of them the parameters had
    n_seeds: int  # that each value started
    n_streamlines: NDArray[np.int64]  # (n,)
    # By MEASURES, (n,): the fraction of the seeds that was accepted, the mean length, the likeness
    # and, where it was asked what is valid, the fraction of the streamlines that is. NaN where no
    # streamline came.
    measured: Mapping[str, NDArray[np.float64]]
    # Standard error of the difference to the chosen value, by the same names; 0 at that value.
    errors: Mapping[str, NDArray[np.float64]]

    @property
    def spec(self) -> ParameterSpec:
        """What is known of the parameter besides its values."""
        return next(spec for spec in parameter_specs() if spec.name == self.name)

    @property
    def is_alike(self) -> NDArray[np.bool_]:
        """(n,) bool: where no number differs from the chosen one's by more than twice its error."""
        alike = np.ones(len(self.values), bool)
        for name, found in self.measured.items():
            difference = np.abs(found - found[self.chosen])
            alike &= difference <= CLEAR * self.errors[name] + ROUNDING * np.abs(found)
        alike[self.chosen] = True
        return alike

    @property
    def flat(self) -> tuple[float, float]:
        """The range of values around the chosen one, without a gap, that are alike."""
        others = np.flatnonzero(~self.is_alike)
        low = others[others < self.chosen].max(initial=-1) + 1
        high = others[others > self.chosen].min(initial=len(self.values)) - 1
        return float(self.values[low]), float(self.values[high])

    @property
    def text(self) -> str:
        """Where the answer is flat, in words."""
        low, high = self.flat
        spec = self.spec
        unit = f" {spec.unit}" if spec.unit else ""
        now = f"{spec.label} {self.values[self.chosen]:.4g}{unit}"
        if low == high:
            return f"{now}: every other value gives another answer, with {self.n_seeds:,} seeds."
        return (
            f"{now}: flat from {low:.4g} to {high:.4g}{unit}, where no number differs by more than "
            f"twice its standard error, with {self.n_seeds:,} seeds."
        )


def sweep(
    fod: Fod,
    seeds: Seeds | ArrayLike,
    parameters: TrackingParameters | None = None,
    *,
    name: str,
    values: Iterable[float],
    valid: Sequence[Region] = (),
    **keywords: Unpack[TrackKeywords],
) -> Sweep:
    """Track with each of several values of a parameter, from the same seeds, and compare.

    Parameters
    ----------
    fod : Fod
    seeds : Seeds or (n, 3) array_like
    parameters : TrackingParameters, optional
        Whose own value of the parameter is the chosen one.
    name : str
        A field of :class:`TrackingParameters` that is a number, such as "max_angle_deg".
    values : iterable of float
        The chosen one is added where it is not among them.
    valid : sequence of Region
        What a streamline must pass to be valid, as :meth:`Tractogram.select` takes regions.
    mask, regions, backend, ...
        As :func:`~napari_tractography.tracking.engine.iter_track` takes them. With `select` so
        many seeds are started, at each value, as the chosen one needs.

    Raises
    ------
    InvalidParameterError
        When there is no such number among the parameters, or a value is impossible.
    InvalidSeedsError
        When there are fewer than 20 seeds, or it is tracked between two regions.
    TractographyError
        When something else is wrong with the input.
    """
    inputs, execution = sorted_out(fod, seeds, parameters, keywords)
    return swept(inputs, name, values, execution, valid=valid)


def swept(
    inputs: TrackingInput,
    name: str,
    values: Iterable[float],
    execution: Execution | None = None,
    *,
    valid: Sequence[Region] = (),
    include_rule: str = "all",
    seen: Seen = lambda _number, _value, _tractogram: None,
) -> Sweep:
    """Track an input with each of several values; see :func:`sweep`.

    `include_rule` is that of the valid regions. `seen` gets what each value gave, in the order of
    the values; an exception that it raises ends the work.
    """
    all_values, chosen = values_of(inputs.parameters, name, values)
    if inputs.between is not None:
        raise InvalidSeedsError(
            "Between two regions the seeds depend on what is accepted; sweep one way, with seeds "
            "in one region and the other as an end region."
        )
    criteria = Criteria(regions=listed_regions(valid), include_rule=include_rule)
    Tractogram.empty().select_numbers(**criteria)  # is wrong before long work
    inputs = replace(inputs, seeds=_started(inputs, execution), select=None, max_seeds=None)
    n_seeds = len(inputs.seeds)
    if n_seeds < GROUPS:
        raise InvalidSeedsError(
            f"{n_seeds} seeds are too few for standard errors; give at least {GROUPS}."
        )
    grid = _coarse(inputs.fod.grid)
    stats = []
    for number, value in enumerate(all_values.tolist()):
        parameters = inputs.parameters
        if number != chosen:
            parameters = parameters.replace(**{name: _typed(name, value)})
        found = track_all(replace(inputs, parameters=parameters), execution)
        stats.append(_Statistics.of(found, n_seeds, grid, criteria))
        seen(number, value, found)
    return _compared(name, all_values, chosen, stats, has_valid=bool(criteria["regions"]))


def values_of(
    parameters: TrackingParameters, name: str, values: Iterable[float]
) -> tuple[NDArray[np.float64], int]:
    """Return the values to track with, rising, the chosen one among them, and which that is.

    Raises InvalidParameterError when there is no such number among the parameters, or none that
    the algorithm uses, a value is impossible, or there is none but the chosen one.
    """
    numbers = [s.name for s in parameter_specs() if s.type in (int, float)]
    numbers.remove("random_seed")
    if name not in numbers:
        raise InvalidParameterError(
            f"{name} is no parameter that can be swept; choose one of {', '.join(numbers)}."
        )
    if not parameters.uses(name):
        users = " and ".join(row.name for row in users_of(name))
        raise InvalidParameterError(
            f"{name} has no effect with the algorithm {parameters.algorithm}, but with {users}; "
            "sweep another."
        )
    if not isinstance(values, Iterable):
        raise InvalidParameterError(
            f"The values of {name} are of type {type(values).__name__}; give a list of numbers."
        )
    given = list(values)
    for value in given:
        if not is_number(value):
            raise InvalidParameterError(f"{name} = {value!r} is no number; give numbers.")
        parameters.replace(**{name: _typed(name, as_float(value))})
    now = getattr(parameters, name)
    if now is None:
        raise InvalidParameterError(
            f"{name} is not set; give parameters with a value, around which it is swept."
        )
    others = [as_float(value) for value in given if not math.isclose(value, now, rel_tol=1e-9)]
    if not others:
        raise InvalidParameterError(
            f"There is no value of {name} besides the chosen one, {now:g}; give others."
        )
    found = np.unique([*others, float(now)])
    return found, int(np.flatnonzero(found == float(now))[0])


def _typed(name: str, value: float) -> float | int:
    whole = any(s.name == name and s.type is int for s in parameter_specs())
    return int(value) if whole and value == int(value) else value


def _started(inputs: TrackingInput, execution: Execution | None) -> Seeds:
    """Return the seeds that each value starts: those that the chosen one needs."""
    seeds = inputs.seeds
    if inputs.select is None:
        return seeds
    n = track_all(inputs, execution).n_seeds
    return seeds.more(n, 0) if seeds.can_go_on else seeds[:n]


def _coarse(grid: Grid) -> Grid:
    """Return a grid over the same volume, of voxels that are joined where there are too many."""
    factor = 1
    while math.prod(-(-n // factor) for n in grid.shape) > MOST_VOXELS:
        factor += 1
    joined = np.diag([factor, factor, factor, 1.0])
    joined[:3, 3] = (factor - 1) / 2
    return Grid([-(-n // factor) for n in grid.shape], grid.affine @ joined)


@dataclass(frozen=True, slots=True, eq=False)
class _Statistics:
    """What is kept of the streamlines of a value, by groups of seeds."""

    # (GROUPS,): how many seeds, streamlines, valid ones, and the sums of the lengths.
    n_seeds: NDArray[np.float64]
    n_accepted: NDArray[np.float64]
    n_valid: NDArray[np.float64]
    lengths: NDArray[np.float64]
    # (n_voxels,) int64 and (GROUPS, n_voxels): voxels that are visited, and by how many.
    voxels: NDArray[np.int64]
    visits: NDArray[np.float64]

    @classmethod
    def of(cls, tractogram: Tractogram, n_seeds: int, grid: Grid, valid: Criteria) -> _Statistics:
        groups = tractogram.seed_index % GROUPS

        def summed(worth: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
            return np.bincount(groups, worth, GROUPS).astype(np.float64)

        is_valid = np.zeros(len(tractogram))
        is_valid[tractogram.select_numbers(**valid)] = 1
        rows, columns, counts = [], [], []
        for group in range(GROUPS):
            counter = PassCounter(grid, np.int32)
            counter.add(tractogram[np.flatnonzero(groups == group)])
            passed = np.flatnonzero(counter.counts)
            columns.append(passed)
            counts.append(counter.counts.ravel()[passed])
            rows.append(np.full(len(passed), group))
        voxels, where = np.unique(np.concatenate(columns), return_inverse=True)
        visits = np.zeros((GROUPS, len(voxels)))
        visits[np.concatenate(rows), where] = np.concatenate(counts)
        return cls(
            np.bincount(np.arange(n_seeds) % GROUPS, minlength=GROUPS).astype(np.float64),
            summed(),
            summed(is_valid),
            summed(tractogram.lengths_mm.astype(np.float64)),
            voxels,
            visits,
        )

    def numbers(self, other: _Statistics, *, left_out: int | None = None) -> dict[str, float]:
        """Return what is measured, without a group; `other` is of the chosen value."""
        used = np.ones(GROUPS, bool)
        if left_out is not None:
            used[left_out] = False
        n_accepted = self.n_accepted[used].sum()
        even = np.arange(GROUPS) % 2 == 0
        maps = {}
        voxels = np.union1d(self.voxels, other.voxels)
        for key, stats in (("this", self), ("other", other)):
            at = np.searchsorted(voxels, stats.voxels)
            for half, is_in in (("even", even & used), ("odd", ~even & used)):
                whole = np.zeros(len(voxels))
                whole[at] = stats.visits[is_in].sum(axis=0)
                maps[key, half] = _ratio(whole, stats.n_accepted[is_in].sum())
        return {
            "share_accepted": float(_ratio(n_accepted, self.n_seeds[used].sum())),
            "mean_length_mm": float(_ratio(self.lengths[used].sum(), n_accepted)),
            "likeness": (
                _in_common(maps["this", "even"], maps["other", "odd"])
                + _in_common(maps["this", "odd"], maps["other", "even"])
            )
            / 2,
            "share_valid": float(_ratio(self.n_valid[used].sum(), n_accepted)),
        }


def _ratio(above: NDArray[np.float64], below: float) -> NDArray[np.float64]:
    """Return a ratio; NaN where there is nothing to divide by."""
    return above / below if below else np.full(np.shape(above), np.nan)


def _in_common(p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
    """Return Dice's coefficient of two maps of probabilities."""
    total = float((p + q).sum())
    return 2 * float(np.minimum(p, q).sum()) / total if total else math.nan


def _compared(
    name: str,
    values: NDArray[np.float64],
    chosen: int,
    stats: Sequence[_Statistics],
    *,
    has_valid: bool,
) -> Sweep:
    reference = stats[chosen]
    whole = [each.numbers(reference) for each in stats]
    without = [
        [each.numbers(reference, left_out=group) for group in range(GROUPS)] for each in stats
    ]
    measured, errors = {}, {}
    for measure in MEASURES:
        if measure == "share_valid" and not has_valid:
            continue
        measured[measure] = np.array([each[measure] for each in whole])
        parts = np.array([[part[measure] for part in each] for each in without])
        varied = parts - parts[chosen]
        errors[measure] = np.sqrt((GROUPS - 1) * varied.var(axis=1))
    return Sweep(
        name,
        values,
        chosen,
        int(reference.n_seeds.sum()),
        np.array([int(each.n_accepted.sum()) for each in stats]),
        measured,
        errors,
    )
