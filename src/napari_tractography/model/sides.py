"""Names of sides: left for right in what a person called something."""

from __future__ import annotations

import re

# Words for sides, in the spellings that names of bundles have.
SIDES = {"left": "right", "Left": "Right", "LEFT": "RIGHT", "lh": "rh", "L": "R", "l": "r"}
OTHER_SIDE = {**SIDES, **{right: left for left, right in SIDES.items()}}
# A word alone, or set off by anything that is no letter: "CST_left", "AF L", "L-AF", "leftCST" not.
SIDE = re.compile(
    r"(?<![A-Za-z])(" + "|".join(sorted(OTHER_SIDE, key=len, reverse=True)) + r")(?![A-Za-z])"
)


def mirrored_name(name: str) -> str:
    """Return a name with left for right, or, where it names no side, "mirrored" after it."""
    other = SIDE.sub(lambda found: OTHER_SIDE[found[0]], name)
    return other if other != name else f"{name} mirrored"
