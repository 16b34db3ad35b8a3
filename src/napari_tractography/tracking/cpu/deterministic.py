"""Deterministic tracking: the largest amplitude in the cone, for one lane after the other."""
# mypy: ignore-errors

from __future__ import annotations

from ...compiling import inlined
from .draw import best_direction


@inlined
def deterministic_direction(
    field, settings, scratch, rows, n, i, ux, uy, uz, limit, stream, step, purpose
):
    """Choose the direction of the largest amplitude; see the table of algorithms."""
    i = best_direction(field, settings, rows, scratch.quanta, n, i, limit)
    return i, ux, uy, uz, settings.step
