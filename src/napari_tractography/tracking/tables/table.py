"""What all tables have in common, whatever kind of input they are of.

A plan has one, and asks it for its kernel; what reads the arrays of a table or of the field that is
made of it knows by that which they are.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Self = TypeVar("Self", bound="Table")


class Table(Protocol):
    """What a backend reads of an input."""

    kernel: ClassVar[str]
    """What follows it, see :mod:`napari_tractography.fields.input_kind`."""
    shared: ClassVar[tuple[str, ...]]
    """Names of the large arrays that a field has of it, read-only."""
    filled: ClassVar[tuple[str, ...]]
    """Names of those that kernels fill."""

    @property
    def lmax(self) -> int:
        """Largest degree, or what stands in its place."""

    @property
    def is_asymmetric(self) -> bool:
        """Whether there are odd degrees, too."""

    @property
    def scale(self) -> np.float32:
        """What amplitudes are multiplied by."""

    @property
    def values(self) -> NDArray[np.float32]:
        """What is copied to a GPU."""

    @property
    def anchor(self) -> NDArray[Any]:
        """The array that tells where the table lies."""

    @property
    def n_bytes(self) -> int:
        """Memory of the table in bytes."""

    @property
    def to_voxel(self) -> NDArray[np.float32]:
        """(3, 4) float32: RAS+ mm to voxel coordinates."""

    def unfilled(self: Self) -> Self:
        """Return it with arrays of their own that kernels are yet to fill."""
