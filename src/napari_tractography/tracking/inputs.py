"""What is to be tracked, and how the work is to be done: the two objects that every run takes.

A :class:`TrackingInput` decides what the streamlines are; an :class:`.execution.Execution`, which
can be imported from here as well, only where and how fast they are tracked. Made by the public
calls, the recipes and the session; read by :mod:`.engine` and below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from numpy.typing import ArrayLike

from ..directions import ConeFunction
from ..errors import InvalidParameterError
from ..fod import Fod
from ..parameters import TrackingParameters
from ..regions import INCLUDE_RULES, Region
from ..seeds import Seeds
from .execution import Execution as Execution
from .execution import ExecutionKeywords as ExecutionKeywords


@dataclass(frozen=True, slots=True, eq=False)
class TrackingInput:
    """Everything that streamlines depend on.

    Attributes
    ----------
    fod : Fod
    seeds : Seeds
    parameters : TrackingParameters
    mask : (x, y, z) array_like, optional
        Non-zero where streamlines may run; on the FOD's grid.
    regions : sequence of Region
        Include, exclude, stop and end regions, each on a grid of its own.
    include_rule : str
        Whether a streamline must meet "all" include regions, "any", or all "ordered" as given,
        from one end to the other.
    cone : callable, optional
        Replaces the cone angle, see :func:`napari_tractography.directions.function_cone`.

    Raises
    ------
    InvalidParameterError
        When the include rule is unknown.
    """

    fod: Fod
    seeds: Seeds
    parameters: TrackingParameters = field(default_factory=TrackingParameters)
    mask: ArrayLike | None = None
    regions: Sequence[Region] = ()
    include_rule: str = "all"
    cone: ConeFunction | None = None

    def __post_init__(self) -> None:
        if self.include_rule not in INCLUDE_RULES:
            raise InvalidParameterError(
                f"include_rule = {self.include_rule!r} is unknown; "
                f"choose one of {', '.join(INCLUDE_RULES)}."
            )
