"""Numbers of things, and what is tracked in, in words: for whatever the panel says."""

from __future__ import annotations

import re
from functools import cache

from ..model.fod import Fod
from ..model.parameters import parameter_specs
from ..model.seeding_parameters import seeding_specs

TYPES = {"of type int": "a whole number", "of type float": "a number"}


def plural(n: int, noun: str) -> str:
    """Return "1 streamline" or "2,000 streamlines"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def in_words(fod: Fod | None, text: str) -> str:
    """Return what is said of an FOD as it is said of what is tracked in, such as an image."""
    return text if fod is None else fod.input_kind.in_words(text)


def labelled(text: str) -> str:
    """Return a sentence with the labels of the panel for names of parameters in Python."""
    labels, names = _labels()
    return names.sub(lambda found: labels[found[0]], text)


@cache
def _labels() -> tuple[dict[str, str], re.Pattern[str]]:
    specs = (*parameter_specs(), *seeding_specs())
    labels = TYPES | {spec.name: spec.label for spec in specs if "_" in spec.name}
    return labels, re.compile(rf"(?<![\w./\\])({'|'.join(labels)})(?![\w/\\]|\.\w)")
