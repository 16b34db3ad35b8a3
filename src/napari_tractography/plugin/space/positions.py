"""Positions in words: one order, one rounding, with the names of the axes and the unit.

Used wherever a person reads where something is: status bar, tables, tooltips.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

AXES = ("R", "A", "S")  # to the right, to the front, up: the directions of RAS+
POSITION_TITLE = f"{', '.join(AXES)} (mm)"


def position_numbers(point_mm: ArrayLike) -> str:
    """Return a (3,) RAS+ position as "12.3, -4.5, 30.0"."""
    return ", ".join(_number(value) for value in _three(point_mm))


def position_text(point_mm: ArrayLike) -> str:
    """Return a (3,) RAS+ position as "R 12.3, A -4.5, S 30.0 mm"."""
    parts = zip(AXES, _three(point_mm), strict=True)
    return ", ".join(f"{axis} {_number(value)}" for axis, value in parts) + " mm"


def _number(value: float) -> str:
    return f"{value:z.1f}"


def _three(point_mm: ArrayLike) -> list[float]:
    return [float(value) for value in np.asarray(point_mm, dtype=float)]
