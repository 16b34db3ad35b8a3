"""Machine code of tests that compile a function of their own around those of the kernels."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numba import njit

from napari_tractography.runtime.compiling import checksum
from napari_tractography.runtime.machine_code import KeptCode
from napari_tractography.tracking import codes
from napari_tractography.tracking.cpu import cells, crossings, memory
from napari_tractography.tracking.cpu.lanes import N_LANES


def kept(*modules: ModuleType, nogil: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function, anew where its file changes, or modules it calls and what they import."""

    def decorate(function: Any) -> Any:
        dispatcher = njit(nogil=nogil)(function)
        own = Path(function.__code__.co_filename).read_bytes()
        content = zlib.crc32(own, checksum(*(module.__name__ for module in modules)))
        dispatcher._cache = KeptCode(function, content)
        return dispatcher

    return decorate


def scratch_for(field: codes.Field) -> codes.Scratch:
    """What a thread computes in."""
    n_points, n_padded = field.sphere_points.shape[1], field.coefficients.shape[1]
    return codes.new_scratch(n_points, n_padded, N_LANES)


@kept(crossings, nogil=True)
def look_around_everywhere(field, scratch):
    """Find which voxels are among crossings; all rows are filled as they are needed.

    Returns
    -------
    (n_rows,) bool
    """
    among = np.zeros(field.values.shape[0], np.bool_)
    nx, ny, nz = field.voxel_rows.shape
    for voxel in range(nx * ny * nz):
        row = cells.row_of(field, voxel)
        if row < field.values.shape[0]:
            cells.ensure_row(field, scratch, row)
            seen = crossings.crossings_around(
                field, scratch, row, voxel // (ny * nz), voxel // nz % ny, voxel % nz
            )
            among[row] = seen >= codes.AMONG_CROSSINGS
    return among


@kept(crossings, nogil=True)
def look_around_together(field, scratch, is_here, number):
    """Do so in several threads, of which this is one, from when all are here."""
    is_here[number] = True
    for other in range(len(is_here)):
        while not is_here[other]:
            memory.acquire()
    return look_around_everywhere(field, scratch)
