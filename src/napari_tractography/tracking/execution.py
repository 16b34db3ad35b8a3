"""How the work of a run is done: on which devices, with how many threads and how much memory.

Made by the public calls, the recipes and the session; read by :mod:`.backends` and by the loops of
the CPU and of CUDA. Needs nothing but the standard library, so that the CUDA backend runs where
there are only NumPy and CuPy.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict

from ..errors import InvalidParameterError
from ..runtime.scalars import as_float, is_count
from .devices import cpu_count

MEMORY_LIMIT = 0.8  # of what is free on a GPU, by default


class Runner(Protocol):
    """What tracks plans elsewhere than in this process, as a cluster does."""

    @property
    def name(self) -> str:
        """What reports call it."""

    def iter_chunks(
        self, plan: Any, execution: Execution, report: Any
    ) -> Generator[Any, None, None]:
        """Track the seeds of a plan; yield tractograms in seed order."""


@dataclass(frozen=True, slots=True)
class Execution:
    """Where and how the work is done; the streamlines do not depend on it.

    Attributes
    ----------
    backend : str or Runner
        "auto", "cpu", "cuda" for the GPU with most free memory, "cuda:1" for another, or
        "cuda:all"; with diffusion and transport the last digits may differ, see docs/gpu.md.
        "auto" takes what is likely to be done first. The environment variable
        NAPARI_TRACTOGRAPHY_BACKEND overrules it. Or a cluster, which it does not
        overrule, of :func:`~napari_tractography.tracking.cluster.connecting.cluster`.
    n_threads : int, optional
        CPU threads, by default one a processor.
    block : int, optional
        Seeds a chunk at most, by default adapted to the speed.
    memory_limit : float
        What to take of each GPU: up to 1 the fraction of its free memory, above it bytes.
    threads_a_block : int, optional
        Of a GPU's kernels; by default whatever keeps it fullest.

    Raises
    ------
    InvalidParameterError
        When `backend` is no text, or a number is none, not positive or, of those that count
        something, not whole.
    """

    backend: str | Runner = "auto"
    n_threads: int | None = None
    block: int | None = None
    memory_limit: float = MEMORY_LIMIT
    threads_a_block: int | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.backend, str) or hasattr(type(self.backend), "iter_chunks")):
            raise InvalidParameterError(
                f"backend = {self.backend!r} is no name; "
                "give one such as auto, cpu or cuda:0, or a cluster."
            )
        for name in ("n_threads", "block", "threads_a_block"):
            count = getattr(self, name)
            if count is not None and not is_count(count):
                raise InvalidParameterError(
                    f"{name} = {count!r} is impossible; give a whole number from 1."
                )
        limit = self.memory_limit
        if not 0 < as_float(limit) < math.inf:
            raise InvalidParameterError(
                f"memory_limit = {limit!r} is impossible; give a fraction such as 0.8, or bytes."
            )

    @property
    def n_workers(self) -> int:
        """Number of CPU threads: `n_threads`, or one a processor."""
        return self.n_threads or cpu_count()


class ExecutionKeywords(TypedDict, total=False):
    """The fields of :class:`Execution` as keywords of the public calls."""

    backend: str | Runner
    n_threads: int | None
    block: int | None
    memory_limit: float
    threads_a_block: int | None
