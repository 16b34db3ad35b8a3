"""What is said of algorithms names those that there are."""

from __future__ import annotations

from napari_tractography.model.algorithms import BY_NAME
from napari_tractography.model.purposes import (
    PURPOSES,
    TABLE_HEADINGS,
    measured,
    measured_table,
    reading,
)


def test_purposes_are_three_and_each_has_an_algorithm_of_its_own() -> None:
    assert [purpose.name for purpose in PURPOSES] == ["Connections", "Density", "As tckgen"]
    assert len({purpose.algorithm for purpose in PURPOSES}) == 3
    assert all(purpose.algorithm in BY_NAME for purpose in PURPOSES)


def test_each_row_of_what_was_measured_is_whole() -> None:
    rows = measured_table()
    assert all(len(cells) == len(TABLE_HEADINGS) for _, *cells in rows)
    ours = {name for name, *_ in rows} & set(BY_NAME)
    assert {"probabilistic", "transport", "sd_stream"} == ours


def test_all_was_measured_of_the_same_truths_and_the_words_say_what_the_table_says() -> None:
    truths = measured()["probabilistic"].shares.keys()
    assert all(row.shares.keys() == truths for row in measured().values())
    shares = measured()["probabilistic"].shares["crossing20, csd20"]
    assert f"{shares.valid}% and {shares.invalid}%" in reading()
    means = [row.mean for row in measured().values()]
    assert all(0 < each.valid <= 100 and 0 <= each.invalid < 100 for each in means)
