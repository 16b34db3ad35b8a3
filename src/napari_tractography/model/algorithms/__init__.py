"""The table of tracking algorithms: one file a row, found in this folder.

All else is derived from the rows: choices and help of
:class:`~napari_tractography.model.parameters.TrackingParameters`, the codes and the dispatch of the
CUDA source, the kernels of the CPU, the docs and the tests. A new algorithm is a new file in here
with a ``ROW``, and its two functions. Imports neither Numba nor NumPy.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable

from .row import Algorithm


def read_rows(folders: Iterable[str], package: str) -> tuple[Algorithm, ...]:
    """Return the ``ROW`` of each module of a package that has one, by code.

    Raises ValueError when two have the same code, or a row's name is not that of its file.
    """
    rows: dict[int, Algorithm] = {}
    for file in pkgutil.iter_modules(folders):
        row = getattr(importlib.import_module(f"{package}.{file.name}"), "ROW", None)
        if row is None:
            continue
        if row.name != file.name:
            raise ValueError(f"The row of algorithms/{file.name}.py is named {row.name!r}.")
        if row.code in rows:
            raise ValueError(
                f"{rows[row.code].name} and {row.name} have the same code {row.code}; "
                "give one of them another."
            )
        rows[row.code] = row
    return tuple(rows[code] for code in sorted(rows))


ALGORITHMS = read_rows(__path__, __name__)
BY_NAME = {row.name: row for row in ALGORITHMS}
BY_CODE = {row.code: row for row in ALGORITHMS}


def users_of(parameter: str) -> tuple[Algorithm, ...]:
    """Return the algorithms to which a tracking parameter means something: mostly all."""
    users = tuple(row for row in ALGORITHMS if parameter in row.own_parameters)
    return users or ALGORITHMS
