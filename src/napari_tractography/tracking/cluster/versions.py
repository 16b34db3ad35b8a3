"""What a worker has installed, beside what is installed here.

Imports nothing of this package or others, so that a worker that lacks them can say so.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

# What can change a bit of the streamlines, and what carries them.
PACKAGES = ("napari-tractography", "numpy", "numba", "llvmlite", "distributed")


def installed_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that tasks depend on."""
    return {"python": platform.python_version(), **versions_of(PACKAGES)}


def versions_of(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    return {name: number for name in names if (number := _version(name))}


@cache  # what is installed is looked for on the disk
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # a source tree on the path, not installed
        return ""


def differing_versions(here: Mapping[str, str], workers: Mapping[str, Mapping[str, str]]) -> str:
    """Return which versions of workers, by their address, are not those here, "" where all are the
    same.

    As "numba 0.62 here, 0.61 on tcp://...".
    """
    others: dict[tuple[str, str], list[str]] = {}
    for address, there in workers.items():
        for name in sorted({*here, *there}):
            if there.get(name) != here.get(name):
                others.setdefault((name, there.get(name, "absent")), []).append(address)
    return "; ".join(
        f"{name} {here.get(name, 'absent')} here, {number} on {first}"
        + (f" and {len(more)} more" if more else "")
        for (name, number), (first, *more) in others.items()
    )
