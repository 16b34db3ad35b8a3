#!/usr/bin/env python3
"""Print the lowest versions that pyproject.toml allows, as constraints for pip.

For `scripts/setup.sh lowest`, which makes an environment with them; it has no package yet, so this
needs none.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# What people add on any machine; what needs a GPU, or makes the docs, is left out.
EXTRAS = ("dask", "images", "measures", "movies", "plots", "warps", "zarr")


def minima(requirements: Iterable[str]) -> dict[str, str]:
    """Return the lowest version of each requirement, by name; the first of a name counts.

    Those that follow are of other systems.

    Raises
    ------
    SystemExit
        A requirement has none.
    """
    lowest = {}
    for requirement in requirements:
        match = re.match(r"([\w.-]+)(?:\[.*?\])?\s*[^;]*?>=\s*([\w.]+)", requirement)
        if match is None:
            raise SystemExit(
                f"pyproject.toml states no lowest version for '{requirement}'; add one: >="
            )
        lowest.setdefault(match[1], match[2])
    return lowest


def main() -> None:
    """Print a line for each dependency, those of the extras too: name==version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = (project["optional-dependencies"][name] for name in EXTRAS)
    for name, version in minima(chain(project["dependencies"], *extras)).items():
        print(f"{name}=={version}")


if __name__ == "__main__":
    main()
