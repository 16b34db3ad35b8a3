"""Positions in words: one order, one rounding, with the names of the axes and the unit.

Used wherever a person reads where something is: status bar, tables, tooltips.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ...geometry.units import MM, per_mm, symbol

AXES = ("R", "A", "S")  # to the right, to the front, up: the directions of RAS+
BARE_AXES = ("x", "y", "z")  # of an image that says nothing of left and right


def position_title(unit: str = MM, axes: Sequence[str] = AXES) -> str:
    """Return the title of a column of positions."""
    return f"{', '.join(axes)} ({symbol(unit)})"


def position_numbers(point_mm: ArrayLike, unit: str = MM) -> str:
    """Return a (3,) RAS+ position as "12.3, -4.5, 30.0", in a unit."""
    return ", ".join(_number(value) for value in _three(point_mm, unit))


def position_text(point_mm: ArrayLike, unit: str = MM, axes: Sequence[str] = AXES) -> str:
    """Return a (3,) RAS+ position as "R 12.3, A -4.5, S 30.0 mm"."""
    parts = zip(axes, _three(point_mm, unit), strict=True)
    return ", ".join(f"{axis} {_number(value)}" for axis, value in parts) + f" {symbol(unit)}"


def _number(value: float) -> str:
    return f"{value:z.1f}"


def _three(point_mm: ArrayLike, unit: str) -> list[float]:
    return [float(value) for value in per_mm(unit) * np.asarray(point_mm, dtype=float)]
