"""What is to be tracked, and how the work is to be done: the two objects that every run takes.

A :class:`TrackingInput` decides what the streamlines are; an :class:`.execution.Execution`, which
can be imported from here as well, only where and how fast they are tracked. Made by the public
calls, the recipes and the session; read by :mod:`.engine` and below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import (
    InvalidFodError,
    InvalidMaskError,
    InvalidParameterError,
    InvalidSeedsError,
    InvalidTissuesError,
)
from ..geometry.directions import ConeFunction
from ..geometry.grid import Grid
from ..geometry.units import per_mm, symbol
from ..model.fod import Fod
from ..model.parameters import TrackingParameters
from ..model.regions import Region, listed_regions
from ..model.roles import INCLUDE_RULES
from ..model.seeds import Seeds
from ..model.tissues import Tissues
from ..runtime.arrays import as_native, library_of, mapped, on_its_device, synchronize
from ..runtime.scalars import is_count
from .execution import Execution as Execution
from .execution import ExecutionKeywords as ExecutionKeywords

LEAST_SPACINGS = 4  # of float32 at the farthest corner, that a step takes: off by an eighth at most
STEPS_A_VOXEL = 100  # beyond, a step is too short to be meant
SAMPLE_SIZES = (1000, 100_000)  # seeds of a run that selects, before they count as all outside


class InputKeywords(TypedDict, total=False):
    """The keywords of a run besides FOD, seeds and parameters; see :class:`TrackingInput`."""

    mask: ArrayLike | None
    regions: Sequence[Region]
    include_rule: str
    cone: ConeFunction | None
    tissues: Tissues | None
    select: int | None
    max_seeds: int | None


class TrackKeywords(InputKeywords, ExecutionKeywords, total=False):
    """What :func:`.engine.track` takes by name: what is tracked, and how."""


@dataclass(frozen=True, slots=True, eq=False)
class TrackingInput:
    """Everything that streamlines depend on.

    Attributes
    ----------
    fod : Fod
    seeds : Seeds or (n, 3) array_like
        Positions in RAS+ mm become Seeds.
    parameters : TrackingParameters
    mask : (x, y, z) array_like, optional
        Non-zero where streamlines may run; on the FOD's grid.
    regions : sequence of Region
        Include, exclude, stop and end regions, each on a grid of its own; resect regions are
        recorded and change nothing.
    include_rule : str
        Whether a streamline must meet "all" include regions, "any", or all "ordered" as listed,
        from one end to the other.
    tissues : Tissues, optional
        Of the brain, on a grid of its own: streamlines then end where fibres can, and others are
        refused; see docs/tissues.md.
    cone : callable, optional
        Replaces the cone angle, see :func:`napari_tractography.geometry.directions.function_cone`.
    select : int, optional
        Draw seeds until so many streamlines are accepted; they are the first so many of the
        endless list of seeds that `seeds` begin, see :meth:`Seeds.more`. How many `seeds` there
        are does not matter then, unless they are fixed points.
    max_seeds : int, optional
        After how many seeds to give up, by default 1,000 for each streamline that is wanted.
    between : tuple of 2 Region, optional
        Track from each of these regions to the other, `select` streamlines in all, see
        :func:`.engine.track_between`; `seeds` do not matter then.
    goal : Region, optional
        Of one of its two runs: where streamlines are to end, see :meth:`halves`.

    Raises
    ------
    InvalidParameterError
        When the include rule is unknown, a number is not positive or no whole number, or `between`
        or `max_seeds` comes without `select`.
    TractographyError
        When something is of another type, such as the path of an FOD instead of the FOD.
    """

    fod: Fod
    seeds: Seeds
    parameters: TrackingParameters = field(default_factory=TrackingParameters)
    mask: ArrayLike | None = None
    regions: Sequence[Region] = ()
    include_rule: str = "all"
    cone: ConeFunction | None = None
    tissues: Tissues | None = None
    select: int | None = None
    max_seeds: int | None = None
    between: tuple[Region, Region] | None = None
    goal: Region | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.fod, Fod):
            raise InvalidFodError.of_type(self.fod)
        if not isinstance(self.seeds, Seeds):
            object.__setattr__(self, "seeds", Seeds.at(self.seeds))  # as they are now
        if not isinstance(self.parameters, TrackingParameters):
            raise InvalidParameterError(
                f"The parameters are of type {type(self.parameters).__name__}; give "
                "TrackingParameters(...)."
            )
        object.__setattr__(self, "regions", listed_regions(self.regions))
        if not (self.tissues is None or isinstance(self.tissues, Tissues)):
            raise InvalidTissuesError(
                f"The tissues are of type {type(self.tissues).__name__}; give Tissues, such as "
                "load_tissues(path) returns."
            )
        for name in ("select", "max_seeds"):
            count = getattr(self, name)
            if count is not None and not is_count(count):
                raise InvalidParameterError(
                    f"{name} = {count!r} is impossible; give a whole number from 1."
                )
        if self.max_seeds is not None and self.select is None:
            raise InvalidParameterError(
                f"max_seeds = {self.max_seeds} limits the seeds of select; give select as well, or "
                "no more seeds than that."
            )
        if self.include_rule not in INCLUDE_RULES:
            raise InvalidParameterError(
                f"include_rule = {self.include_rule!r} is unknown; "
                f"choose one of {', '.join(INCLUDE_RULES)}."
            )
        if self.between is not None and self.select is None:
            raise InvalidParameterError(
                "Tracking between two regions needs select, the number of streamlines; give it."
            )

    def halves(self) -> list[TrackingInput]:
        """Return the two runs, or the one, of which tracking between two regions consists.

        Seeds lie in one region; a streamline is accepted when it enters the other, and stops
        there. That holds besides the rule of the include regions. Seeds of the second run are
        numbered from 0 again; their key is one more.
        """
        assert self.between is not None
        assert self.select is not None
        one, other = self.between
        ways = ((one, other, self.select - self.select // 2), (other, one, self.select // 2))
        return [
            self._one_way(start, goal, n, (self.parameters.random_seed + which) % 2**63)
            for which, (start, goal, n) in enumerate(ways)
            if n
        ]

    def _one_way(self, start: Region, goal: Region, n: int, random_seed: int) -> TrackingInput:
        # Kernels know one rule. By another than "all" they leave the goal to what selects.
        to_all = self.include_rule == "all" or not any(r.role == "include" for r in self.regions)
        of_goal = ("include", "stop") if to_all else ("stop",)
        return replace(
            self,
            seeds=start.seeds(1, random_seed=random_seed),
            parameters=self.parameters.replace(random_seed=random_seed),
            regions=(*self.regions, *(replace(goal, role=role) for role in of_goal)),
            include_rule="all" if to_all else self.include_rule,
            select=n,
            between=None,
            goal=goal,
        )


def sorted_out(
    fod: Fod,
    seeds: Seeds | ArrayLike,
    parameters: TrackingParameters | None,
    keywords: Mapping[str, Any],
) -> tuple[TrackingInput, Execution]:
    """Return what is to be tracked and how, of keywords.

    Raises TypeError when a name is unknown, or one of the parameters.
    """
    of_input = {name: keywords[name] for name in InputKeywords.__annotations__ if name in keywords}
    others = {name: value for name, value in keywords.items() if name not in of_input}
    for name in sorted(set(others) - set(ExecutionKeywords.__annotations__)):
        if name in TrackingParameters.__dataclass_fields__:
            raise TypeError(f"{name} is a parameter; give TrackingParameters({name}=...).")
        raise TypeError(f"Tracking takes nothing named {name}; see help(track).")
    chosen = suited(fod, parameters, keywords.get("tissues"))
    return TrackingInput(fod, cast(Seeds, seeds), chosen, **of_input), Execution(**others)


def suited(
    fod: Fod, parameters: TrackingParameters | None, tissues: Tissues | None = None
) -> TrackingParameters:
    """Return parameters as they are, or those that suit the FOD where there are none."""
    if parameters is None:
        return TrackingParameters.for_fod(fod, with_tissues=tissues is not None)
    return parameters


def check_step(parameters: TrackingParameters, grid: Grid) -> list[str]:
    """Return a warning sentence where steps are very short for the voxels.

    Raises InvalidParameterError when they are so short that float32 positions hardly move.
    """
    farthest_mm = float(np.abs(grid.bounds_mm()).max())
    least_mm = LEAST_SPACINGS * float(np.spacing(np.float32(farthest_mm))) * parameters.parts
    if parameters.step_mm < least_mm:
        raise InvalidParameterError(
            f"step_mm = {parameters.step_mm:g} mm is lost in the rounding of positions up to "
            f"{farthest_mm:.4g} mm from the origin; take at least {least_mm:.2g} mm."
        )
    voxel_mm = float(grid.voxel_sizes_mm.min())
    if parameters.step_mm >= voxel_mm / STEPS_A_VOXEL:
        return []
    return [
        f"Steps of {parameters.step_mm:g} mm are less than a {STEPS_A_VOXEL}th of a voxel of "
        f"{voxel_mm:.3g} mm: tracking takes long, and the cone applies to each step."
    ]


def check_mask(mask: ArrayLike | None, fod: Fod) -> NDArray[np.uint8] | None:
    """Return the mask as (x, y, z) uint8, 1 inside, on the host or the GPU that it lies on.

    Raises InvalidMaskError when it has another shape than the FOD or is empty.
    """
    if mask is None:
        return None
    array = as_native(mask)
    if array.ndim == 0 or array.dtype.kind not in "biuf":
        raise InvalidMaskError(
            f"The mask is of type {type(mask).__name__}; give the numbers of an image as an array, "
            "such as nibabel.load(path).dataobj."
        )
    if array.shape != fod.grid.shape:
        raise InvalidMaskError(
            f"The mask has shape {array.shape} but {fod.name} has {fod.grid.shape}; "
            "resample the mask to the FOD's grid (mrgrid mask regrid -template fod)."
        )
    with on_its_device(array):
        library = library_of(array)
        inside = array if array.dtype.kind == "b" else array != 0
        if array.dtype.kind == "f":
            inside &= array == array  # NaN counts as outside
        n_inside = int(inside.sum())
        voxels: NDArray[np.uint8] = library.ascontiguousarray(inside, dtype=np.uint8)
    if not n_inside:
        raise InvalidMaskError(
            f"The mask of shape {array.shape} is empty; choose or paint another, or track without."
        )
    synchronize(voxels)
    return voxels


def check_backtracking(parameters: TrackingParameters) -> None:
    """Raise when streamlines cannot be taken back.

    Raises InvalidParameterError when the algorithm draws nothing, or steps differ in length.
    """
    if not parameters.backtrack:
        return
    if not parameters.row.draws:
        raise InvalidParameterError(
            f"backtrack is of no use with the algorithm {parameters.algorithm}, which would go the "
            "same way again; choose one that draws, such as probabilistic, or do without."
        )
    if parameters.adaptive and parameters.uses("adaptive"):
        raise InvalidParameterError(
            "backtrack needs steps of one length; do without adaptive, or without backtrack."
        )


def check_seeds(inputs: TrackingInput) -> None:
    """Raise when no streamline can start. Of a run that selects see :func:`check_inside` as well.

    Raises InvalidSeedsError when every seed lies outside the volume, or directions are wanted and
    missing.
    """
    seeds = inputs.seeds
    if not len(seeds):
        raise InvalidSeedsError("There are no seeds; place at least one.")
    if inputs.select is None:  # else it is a round of many
        check_inside(seeds, inputs.fod)
    if inputs.parameters.start == "given" and seeds.device_directions is None:
        raise InvalidSeedsError(
            'start = "given" needs a direction with every seed; give Seeds.at(points, directions), '
            'or a file of both, or choose start = "sampled".'
        )


def check_inside(seeds: Seeds, fod: Fod, n_most: int = 0) -> None:
    """Raise InvalidSeedsError when every seed lies outside the volume.

    Of seeds that can be continued `n_most` is the most that are tracked. A sample of them is
    tested.
    """
    sampled = seeds
    for n in (0, *SAMPLE_SIZES) if n_most and seeds.can_go_on else (0,):
        sampled = seeds.more(min(n, n_most), 0) if n else seeds
        if _any_inside(sampled.device_positions.native, fod.grid):
            return
    unit, grid = fod.grid.unit, fod.grid
    first = grid.point_text(sampled.positions_mm[0], per_mm(unit))
    raise InvalidSeedsError(
        f"All {len(sampled):,} seeds lie outside {fod.name}, the first at {first} {symbol(unit)}; "
        f"place them within its volume, which spans {grid.bounds_text(per_mm(unit))} "
        f"{symbol(unit)} (RAS+)."
    )


def _any_inside(positions: Any, grid: Grid) -> bool:
    """Tell whether any of (n, 3) RAS+ mm positions lies inside an image, on their own device."""
    with on_its_device(positions):
        inside: Any = True
        for vox, n in zip(mapped(grid.inverse, positions), grid.shape, strict=True):
            inside = inside & (vox >= -0.5) & (vox < n - 0.5)
        return bool(inside.any())
