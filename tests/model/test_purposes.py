"""What is said of algorithms names those that there are."""

from __future__ import annotations

from napari_tractography.model.algorithms import BY_NAME
from napari_tractography.model.purposes import MEASURED, MEASURED_COLUMNS, PURPOSES


def test_purposes_are_three_and_each_has_an_algorithm_of_its_own() -> None:
    assert [purpose.name for purpose in PURPOSES] == ["Connections", "Density", "As tckgen"]
    assert len({purpose.algorithm for purpose in PURPOSES}) == 3
    assert all(purpose.algorithm in BY_NAME for purpose in PURPOSES)


def test_each_row_of_what_was_measured_is_whole() -> None:
    assert all(len(cells) == len(MEASURED_COLUMNS) for _, *cells in MEASURED)
    ours = {name for name, *_ in MEASURED} & set(BY_NAME)
    assert {"probabilistic", "transport", "sd_stream"} == ours
