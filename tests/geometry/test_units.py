"""Units of length: mm inside, those of the volume to a person."""

from __future__ import annotations

import numpy as np
import pytest

from napari_tractography.errors import InvalidParameterError
from napari_tractography.geometry.grid import Grid
from napari_tractography.geometry.units import decimals_for, length_text, shown_unit


@pytest.mark.parametrize(
    ("unit", "volume", "shown", "factor"),
    [
        ("mm", "mm", "mm", 1.0),
        ("mm", "um", "µm", 1e3),
        ("mm", "nm", "nm", 1e6),
        ("mm", "voxel", "vx", 1.0),
        ("1/mm", "um", "1/µm", 1e-3),
        ("degrees", "um", "degrees", 1.0),
        ("", "nm", "", 1.0),
    ],
)
def test_lengths_go_by_the_volume_and_nothing_else_does(
    unit: str, volume: str, shown: str, factor: float
) -> None:
    text, found = shown_unit(unit, volume)
    assert text == shown
    assert found == pytest.approx(factor, rel=1e-12)


def test_a_length_is_read_in_the_unit_of_the_volume() -> None:
    assert length_text(0.0123, "um") == "12.3 µm"
    assert length_text(12.34, "mm") == "12.3 mm"
    assert length_text(9.9999, "um") == "9999.9 µm"
    assert length_text(102.5289, "um") == "102.5 mm"
    assert length_text(102.5289, "nm") == "102.5 mm"
    assert length_text(12345.6, "mm") == "12345.6 mm"
    assert length_text(12345.6, "voxel") == "12345.6 vx"


def test_a_grid_keeps_its_unit_and_its_millimetres() -> None:
    grid = Grid((2, 2, 2), np.diag([0.01, 0.01, 0.01, 1]), unit="um")
    np.testing.assert_allclose(grid.voxel_sizes_mm, 0.01)
    assert grid == Grid((2, 2, 2), grid.affine)
    with pytest.raises(InvalidParameterError, match="'inch' is no unit of a volume"):
        Grid((2, 2, 2), grid.affine, unit="inch")


def test_a_number_has_the_decimals_that_its_size_needs() -> None:
    assert [decimals_for(mm) for mm in (0.0, 250.0, 1.0, 0.1, 0.01, 0.0074)] == [1, 1, 1, 1, 2, 3]


def test_where_a_volume_of_micrometres_lies_can_be_read() -> None:
    grid = Grid((10, 20, 30), np.diag([0.002, 0.002, 0.004, 1]))
    assert grid.bounds_text() == "(-0.001, -0.001, -0.002) to (0.019, 0.039, 0.118)"
    assert grid.bounds_text(1e3) == "(-1.0, -1.0, -2.0) to (19.0, 39.0, 118.0)"
    assert Grid((4, 4, 4), np.eye(4)).bounds_text() == "(-0.5, -0.5, -0.5) to (3.5, 3.5, 3.5)"
