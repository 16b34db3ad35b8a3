"""How the work is done: numbers that make no sense are refused in one sentence, at once."""

from __future__ import annotations

import numpy as np
import pytest
from toys import random_fod

from napari_tractography.errors import InvalidParameterError
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.seeds import Seeds
from napari_tractography.tracking.devices import cpu_count
from napari_tractography.tracking.engine import iter_track, track
from napari_tractography.tracking.execution import Execution

IMPOSSIBLE = [
    *(
        pytest.param(name, value, id=f"{name} {value!r}")
        for name in ("n_threads", "block", "threads_a_block")
        for value in (0, -1, 1.5, 2.0, True, "two", float("nan"), float("inf"), [2], np.bool_(True))
    ),
    *(
        pytest.param("memory_limit", value, id=f"memory_limit {value!r}")
        for value in (0, -0.5, "much", float("nan"), float("inf"), True, None, 1j)
    ),
    *(pytest.param("backend", value, id=f"backend {value!r}") for value in (None, 3, b"cpu")),
]


@pytest.mark.parametrize(("name", "value"), IMPOSSIBLE)
def test_what_makes_no_sense_is_named_with_its_value(name, value):
    with pytest.raises(InvalidParameterError) as refused:
        Execution(**{name: value})
    assert str(refused.value).startswith(f"{name} = {value!r} is ")
    assert "; give " in str(refused.value)


@pytest.mark.parametrize(
    "given",
    [
        {"n_threads": 1, "block": 1, "threads_a_block": 32},
        {"n_threads": np.int64(3), "block": np.uint8(7)},
        {"memory_limit": 1},
        {"memory_limit": np.float32(0.5)},
        {"memory_limit": 2 * 10**9},
    ],
)
def test_numbers_of_any_kind_are_welcome(given):
    execution = Execution(**given)
    assert {name: getattr(execution, name) for name in given} == given


def test_threads_are_one_a_processor_unless_given():
    assert Execution().n_workers == cpu_count() >= 1
    assert Execution(n_threads=3).n_workers == 3


@pytest.mark.parametrize("function", [track, iter_track])
@pytest.mark.parametrize(
    ("name", "value"),
    [("n_threads", -1), ("n_threads", "two"), ("block", -3), ("memory_limit", "much")],
)
def test_the_public_calls_refuse_them_before_anything_is_tracked(function, name, value):
    fod = random_fod(6)
    with pytest.raises(InvalidParameterError, match=f"{name} = .* is impossible"):
        function(fod, Seeds.at(np.zeros(3)), TrackingParameters(), **{name: value})
