"""The FOD tabulated on the GPU that its coefficients lie on, by ``tables.cu``.

Called by :mod:`napari_tractography.tracking.engine` in place of the CPU's
:func:`~napari_tractography.tracking.tables.builders.build_table`, whose bits it gives; with
softplus an amplitude may be off by one in the last place, and its quantised amplitude by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import REMEDY, gpu_of, import_cupy
from ...directions import direction_set
from ...errors import BackendError
from ...fod import Fod
from ..codes import PATCH_SIZE
from ..tables.builders import sampling_matrix, sharpness_of, to_voxel_matrix
from ..tables.data import FodTable
from . import source as kernels
from .errors import explained
from .scheduler import OutOfDeviceMemoryError

SOURCE = "tables.cu"
# The kernels, in the order in which they are launched; those with a thread for each patch of each
# voxel, the others have one for each voxel.
NAMES = ("find_largest", "keep_largest", "write_quantised", "add_masses", "fill_slots")
PER_PATCH = ("find_largest", "write_quantised", "fill_slots")
BLOCK = 128  # threads


@cache
def load_kernels(gpu: int) -> dict[str, Any]:
    """Return the kernels for a GPU, by name; compiled on the first call."""
    module = import_cupy().RawModule(
        code=kernels.source(SOURCE), options=kernels.OPTIONS, backend="nvrtc"
    )
    return {name: module.get_function(name) for name in NAMES}


def table_arrays(n_rows: int, n_directions: int) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return shape and dtype of the arrays of a table that the kernels fill, by name."""
    n_patches = -(-n_directions // 2 // PATCH_SIZE)
    n_groups = -(-n_patches // PATCH_SIZE)
    return {
        "quantised": ((n_rows, n_patches, PATCH_SIZE), "u2"),
        "alias": ((n_rows, n_patches), "u4"),
        "slot_alias": ((n_rows, n_patches, PATCH_SIZE), "u2"),
        "mass_fractions": ((n_rows, n_patches), "u2"),
        "patch_maxima": ((n_rows, n_groups, PATCH_SIZE), "u2"),
        "quanta": ((n_rows,), "f4"),
        "totals": ((n_rows,), "f4"),
    }


def pack_rows(
    addresses: Mapping[str, int], n_rows: int, n_coefficients: int, n_half: int, sharpness: float
) -> NDArray[np.void]:
    """Return the structure ``Rows`` of ``tables.cu`` for arrays at these addresses."""
    n_patches = -(-n_half // PATCH_SIZE)
    values = {
        **addresses,
        "largest": addresses["alias"],
        "n_rows": n_rows,
        "n_coefficients": n_coefficients,
        "n_half": n_half,
        "n_patches": n_patches,
        "n_groups": -(-n_patches // PATCH_SIZE),
        "sharpness": sharpness,
    }
    packed = np.zeros((), kernels.layout_in("Rows", kernels.source(SOURCE)))
    for name, value in values.items():
        packed[name] = value
    return packed


def build_table(
    fod: Fod,
    *,
    n_directions: int = 724,
    positivity: str = "clip",
    progress: Callable[[int, int], None] | None = None,
) -> FodTable:
    """Tabulate an FOD on the GPU that it lies on; the arrays of its voxels stay there.

    Parameters
    ----------
    fod : Fod
        Of an array on a GPU.
    n_directions : int
        Size of the full set, even.
    positivity : str
        "clip" or "softplus".
    progress : callable, optional
        Called once, at the end, with (rows done, rows in all).

    Raises
    ------
    BackendError
        When the GPU fails, or its memory does not suffice.
    """
    gpu = gpu_of(fod.device_values.native)
    assert gpu is not None
    cupy = import_cupy()
    shapes = table_arrays(fod.n_voxels, n_directions)
    try:
        with explained(f"cuda:{gpu}"), cupy.cuda.Device(gpu):
            stream = cupy.cuda.Stream(non_blocking=True)
            with stream:
                arrays = {name: cupy.zeros(*shape) for name, shape in shapes.items()}
                _fill(cupy, gpu, fod, n_directions, positivity, arrays)
                stream.synchronize()
    except OutOfDeviceMemoryError as error:
        need = sum(int(np.prod(shape)) * np.dtype(kind).itemsize for shape, kind in shapes.values())
        raise BackendError(
            f"The tables of {fod.name} need {need / 1e9:.2g} GB, more than cuda:{gpu} has free; "
            f"lower n_directions, crop the FOD or {REMEDY}."
        ) from error
    if progress is not None:
        progress(fod.n_voxels, fod.n_voxels)
    return FodTable(
        voxel_rows=fod.device_rows.native,
        **arrays,
        directions=direction_set(n_directions),
        to_voxel=to_voxel_matrix(fod),
    )


def _fill(
    cupy: Any, gpu: int, fod: Fod, n_directions: int, positivity: str, arrays: Mapping[str, Any]
) -> None:
    """Launch the kernels in the current stream."""
    on_host = sampling_matrix(fod, n_directions)
    matrix = cupy.empty(on_host.shape, on_host.dtype)
    matrix.set(on_host)
    given = {"values": fod.device_values.native, "matrix": matrix}
    addresses = {name: array.data.ptr for name, array in {**arrays, **given}.items()}
    n_coefficients, n_half = on_host.shape
    rows = pack_rows(addresses, fod.n_voxels, n_coefficients, n_half, sharpness_of(positivity))
    functions = load_kernels(gpu)
    for name in NAMES:
        n = fod.n_voxels * (arrays["quantised"].shape[1] if name in PER_PATCH else 1)
        functions[name]((-(-n // BLOCK),), (BLOCK,), (rows,))
