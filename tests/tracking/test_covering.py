"""The cases of tests that have every pair of options."""

from __future__ import annotations

from itertools import combinations, product

from covering import covering, covering_params


def test_any_two_values_meet_in_few_cases() -> None:
    factors = {"a": range(8), "b": range(4), "c": range(3), "d": range(3), "e": range(2)}
    cases = covering(factors)
    for one, other in combinations(factors, 2):
        met = {(case[one], case[other]) for case in cases}
        assert met == set(product(factors[one], factors[other]))
    assert 8 * 4 <= len(cases) < 8 * 4 * 1.3  # of 576
    assert covering(factors) == cases


def test_cases_are_named_by_their_values() -> None:
    params = covering_params({"a": {"one": 1, "two": 2}, "b": {"": None, "other": 3}})
    assert {param.id: param.values for param in params} == {
        "one": (1, None),
        "one, other": (1, 3),
        "two": (2, None),
        "two, other": (2, 3),
    }
