"""Units of length: numbers are millimetres everywhere, and a person reads those of the volume.

A volume of 5 um voxels has an affine of 0.005 mm, and so are its streamlines, parameters, recipes
and files. What is shown, such as the panel and its scale bars, is multiplied by :func:`per_mm`.
"""

from __future__ import annotations

import math

from ..errors import InvalidParameterError

MM = "mm"
VOXEL = "voxel"  # of an image without a physical scale: one counts as one mm
MM_IN = {MM: 1.0, "um": 1e-3, "nm": 1e-6, VOXEL: 1.0}  # {unit: its length in mm}
LARGER, MOST_READ = {"nm": "um", "um": MM}, 10_000
SHORT = {"um": "µm", VOXEL: "vx"}  # what is shown


def checked_unit(unit: str) -> str:
    """Return a unit of length. Raises InvalidParameterError when it is none of :data:`MM_IN`."""
    if unit not in MM_IN:
        raise InvalidParameterError(
            f"{unit!r} is no unit of a volume; give one of {', '.join(MM_IN)}."
        )
    return unit


def per_mm(unit: str) -> float:
    """Return how many of a unit make a millimetre."""
    return 1.0 / MM_IN[unit]


def symbol(unit: str) -> str:
    """Return a unit as it is written: "µm" for "um"."""
    return SHORT.get(unit, unit)


def decimals_for(length: float) -> int:
    """Return how many decimals a number needs, one at least, so that this length can be seen."""
    return max(1, math.ceil(-math.log10(length))) if 0 < length < math.inf else 1


def readable(length_mm: float, unit: str) -> str:
    """Return in which unit a length beside a volume is read: a larger one in place of 10,000."""
    while length_mm * per_mm(unit) >= MOST_READ and unit in LARGER:
        unit = LARGER[unit]
    return unit


def length_text(length_mm: float, unit: str, *, decimals: int = 1) -> str:
    """Return a length in mm as it is read beside a volume: "12.3 µm"."""
    unit = readable(length_mm, unit)
    return f"{length_mm * per_mm(unit):.{decimals}f} {symbol(unit)}"


def shown_unit(unit: str, of_volume: str) -> tuple[str, float]:
    """Return in which unit a value is shown beside a volume, and by what it is multiplied.

    "mm" and "1/mm" go by the volume's, others stay as they are.
    """
    if unit == MM:
        return symbol(of_volume), per_mm(of_volume)
    if unit == f"1/{MM}":
        return f"1/{symbol(of_volume)}", 1.0 / per_mm(of_volume)
    return unit, 1.0
