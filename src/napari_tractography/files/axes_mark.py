"""What files of streamlines say of an image whose axes are not those of the body.

Such as a TIFF, which says nothing of left and right. It stands in a field of our own of the header,
with the unit in which lengths are read, and where the header has no room for a grid, with that;
files that belong to an image of the body have none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import TractographyError
from ..geometry.units import MM

if TYPE_CHECKING:
    from ..geometry.grid import Grid

BARE = {"AXES": "xyz"}
FIELD = re.compile(r"([A-Z]+)=(\S+)")


def axes_fields(grid: Grid | None) -> dict[str, str]:
    """Return the fields of a grid; none where it is one of the body."""
    if grid is None or grid.is_anatomical:
        return {}
    return {**BARE, "UNIT": grid.unit}


def axes_text(grid: Grid | None, *, with_grid: bool = False) -> str:
    """Return the fields as one line, "" where there are none."""
    fields = axes_fields(grid)
    if grid is not None and fields and with_grid:
        numbers = ",".join(f"{x:.7g}" for x in grid.affine[:3].ravel())
        fields["GRID"] = f"{'x'.join(map(str, grid.shape))},{numbers}"
    return " ".join(f"{name}={value}" for name, value in fields.items())


def as_noted(grid: Grid | None, fields: Mapping[str, str] | str) -> Grid | None:
    """Return a grid, or that in the fields, as the fields of a header say it is."""
    from ..geometry.grid import Grid

    found = dict(FIELD.findall(fields)) if isinstance(fields, str) else fields
    if found.get("AXES") != BARE["AXES"]:
        return grid
    try:
        if grid is None:
            shape, *numbers = found["GRID"].split(",")
            rows = [[float(x) for x in numbers[4 * i : 4 * i + 4]] for i in range(3)]
            sizes = [int(n) for n in shape.split("x")]
            grid = Grid(sizes, [*rows, [0.0, 0.0, 0.0, 1.0]])
        unit = found.get("UNIT", MM)
        return Grid(grid.shape, grid.affine, unit=unit, is_anatomical=False)
    except (TractographyError, KeyError, ValueError):  # somebody else's
        return grid
