"""What is to be tracked, and how the work is to be done: the two objects that every run takes.

A :class:`TrackingInput` decides what the streamlines are, an :class:`Execution` nothing but where
and how fast they come. Made by the public calls, the recipes and the session; read by
:mod:`.engine` and below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from numpy.typing import ArrayLike

from ..directions import ConeFunction
from ..errors import InvalidParameterError
from ..fod import Fod
from ..parameters import TrackingParameters
from ..regions import INCLUDE_RULES, Region
from ..seeds import Seeds
from .cuda.scheduler import MEMORY_LIMIT


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


@dataclass(frozen=True, slots=True)
class Execution:
    """Where and how the work is done; the streamlines do not depend on it.

    Attributes
    ----------
    backend : str
        "auto", "cpu", "cuda" for the GPU with most free memory, "cuda:1" for another, or
        "cuda:all"; with diffusion and transport the last digits may differ, see docs/gpu.md.
        "auto" takes what is likely to be done first. The environment variable
        NAPARI_TRACTOGRAPHY_BACKEND overrules it.
    n_threads : int, optional
        CPU threads, by default one a processor.
    block : int, optional
        Seeds a chunk, by default adapted to the speed.
    memory_limit : float
        What to take of each GPU: up to 1 the fraction of its free memory, above it bytes.
    threads_a_block : int, optional
        Of a GPU's kernels; by default whatever keeps it fullest.

    Raises
    ------
    InvalidParameterError
        When a number is not positive.
    """

    backend: str = "auto"
    n_threads: int | None = None
    block: int | None = None
    memory_limit: float = MEMORY_LIMIT
    threads_a_block: int | None = None

    def __post_init__(self) -> None:
        for name in ("n_threads", "block", "threads_a_block"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or value != int(value) or value < 1):
                raise InvalidParameterError(
                    f"{name} = {value!r} is impossible; give a whole number from 1."
                )
        if not self.memory_limit > 0:
            raise InvalidParameterError(
                f"memory_limit = {self.memory_limit} is impossible; give a fraction such as 0.8, "
                "or bytes."
            )


class ExecutionKeywords(TypedDict, total=False):
    """The fields of :class:`Execution` as keywords of the public calls."""

    backend: str
    n_threads: int | None
    block: int | None
    memory_limit: float
    threads_a_block: int | None
