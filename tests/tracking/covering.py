"""Few cases that have every pair of values: what breaks mostly takes one or two of them at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import pytest


def covering(factors: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return cases, of one value of each factor, in which any two values of two factors meet.

    As Cohen et al. (1997), "The AETG system", greedily: a case begins with a pair that no case has
    yet, and takes of each factor the value that meets most of what it has not met.
    """
    left = {
        frozenset({(a, i), (b, j)})
        for a, b in combinations(factors, 2)
        for i in range(len(factors[a]))
        for j in range(len(factors[b]))
    }
    cases = []
    while left:
        case = dict(sorted(min(left, key=sorted)))
        for name in factors:
            if name not in case:
                met = [
                    sum(frozenset({(name, i), other}) in left for other in case.items())
                    for i in range(len(factors[name]))
                ]
                # Of equal ones another each time, so that all are seen as often.
                order = [(i + len(cases)) % len(met) for i in range(len(met))]
                case[name] = max(order, key=met.__getitem__)
        left -= {frozenset(pair) for pair in combinations(case.items(), 2)}
        cases.append({name: factors[name][case[name]] for name in factors})
    return cases


def covering_params(factors: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    """Return such cases as parameters of a test; of each factor the values by what to call them.

    An empty name is for what goes without saying.
    """
    named = {name: list(values.items()) for name, values in factors.items()}
    return [
        pytest.param(
            *(value for _, value in case.values()),
            id=", ".join(filter(None, (said for said, _ in case.values()))),
        )
        for case in covering(named)
    ]
