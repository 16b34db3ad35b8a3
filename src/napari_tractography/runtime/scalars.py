"""Numbers and points as callers pass them: of Python or of NumPy, but no booleans and no strings.

Callers raise with a sentence of their own where one is wrong. NumPy is loaded for points only: the
help of the command does without.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def is_number(value: Any) -> bool:
    """Tell whether a value is one real number, NaN and infinity among them."""
    value = _of_python(value)
    return isinstance(value, Real) and not isinstance(value, bool)


def is_boolean(value: Any) -> bool:
    """Tell whether a value is True or False."""
    return isinstance(_of_python(value), bool)


def is_count(value: Any) -> bool:
    """Tell whether a value is an integer from 1."""
    value = _of_python(value)
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def as_float(value: Any) -> float:
    """Return a number as float, infinite where it is too large for one; NaN of what is none."""
    if not is_number(value):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def as_whole(value: Any) -> int | None:
    """Return a whole number, such as 3 or 3.0, as int; None of what is none."""
    if not is_number(value) or value != value or abs(value) == math.inf or int(value) != value:
        return None
    return int(value)


def as_point(value: Any) -> NDArray[np.float64] | None:
    """Return three finite numbers as (3,) float64; None of what is no point."""
    import numpy as np

    try:
        point = np.asarray(value)
    except ValueError:  # lists of several lengths
        return None
    if point.shape != (3,) or point.dtype.kind not in "iuf" or not np.isfinite(point).all():
        return None
    return point.astype(np.float64)


def shown(value: Any) -> str:
    """Return a number in few digits, and what is none as Python writes it."""
    return f"{value:g}" if is_number(value) else repr(value)


def _of_python(value: Any) -> Any:
    """Return a scalar of NumPy, or an array without axes, as Python's own."""
    return value.item() if getattr(value, "ndim", None) == 0 else value
