"""The rows of an FOD's table, filled all at once on a GPU by ``tables.cu``.

Called by :mod:`napari_tractography.tracking.engine`, in place of the CPU's
:func:`~napari_tractography.tracking.tables.builders.build_table`, where the FOD lies on a GPU, and
by :mod:`.device` for one on the host. The bits are those of rows that the CPU fills.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import BackendError
from ...model.fod import Fod
from ...runtime.arrays import REMEDY, gpu_of, import_cupy
from ..tables.builders import padded_change, sphere_points, suitable_scale, to_voxel_matrix
from ..tables.data import FodTable
from . import source as kernels
from .gpu_errors import explained
from .scheduler import OutOfDeviceMemoryError

SOURCE, NAME = "tables.cu", "fill_rows"
BLOCK = 128  # threads


@cache
def load_kernel(gpu: int, lmax: int, is_asymmetric: bool) -> Any:
    """Return the kernel for a GPU and the degrees of an FOD; compiled on the first call."""
    module = import_cupy().RawModule(
        code=kernels.source(SOURCE),
        options=(*kernels.OPTIONS, *kernels.degrees(lmax, is_asymmetric)),
        backend="nvrtc",
    )
    return module.get_function(NAME)


def pack_rows(addresses: Mapping[str, int], n_rows: int, n_points: int) -> NDArray[np.void]:
    """Return the structure ``Rows`` of ``tables.cu`` for arrays at these addresses."""
    packed = np.zeros((), kernels.layout_in("Rows", kernels.source(SOURCE)))
    for name, value in {**addresses, "n_rows": n_rows, "n_points": n_points}.items():
        packed[name] = value
    return packed


def fill_rows(
    gpu: int,
    lmax: int,
    is_asymmetric: bool,
    values: Any,
    change: NDArray[np.float32],
    points: NDArray[np.float32],
) -> tuple[Any, Any]:
    """Fill all rows, in the current stream of a GPU.

    Parameters
    ----------
    gpu : int
        The current device.
    values : (n_rows, n_coefficients) float32
        The FOD's own coefficients, on that GPU or on the host.
    change : (n_coefficients, n_padded) float32
        To the basis of the table, on the host.
    points : (3, n) float32
        Directions of the half sphere, of an asymmetric FOD the whole, on the host.

    Returns
    -------
    coefficients : (n_rows + 1, n_padded) uint16 cupy.ndarray
    masses : (n_rows + 1,) float32 cupy.ndarray
        See :class:`~napari_tractography.tracking.tables.data.FodTable`.
    """
    cupy = import_cupy()
    n_rows = len(values)
    coefficients = cupy.zeros((n_rows + 1, change.shape[1]), "u2")
    masses = cupy.zeros((n_rows + 1,), "f4")
    arrays = {
        "values": values if gpu_of(values) == gpu else _copied(cupy, values),
        "change": _copied(cupy, change),
        "sphere_points": _copied(cupy, points),
        "coefficients": coefficients,
        "masses": masses,
    }
    addresses = {name: array.data.ptr for name, array in arrays.items()}
    rows = pack_rows(addresses, n_rows, points.shape[1])
    load_kernel(gpu, lmax, is_asymmetric)((-(-n_rows // BLOCK),), (BLOCK,), (rows,))
    return coefficients, masses


def _copied(cupy: Any, array: NDArray[Any]) -> Any:
    target = cupy.empty(array.shape, array.dtype)
    target.set(np.ascontiguousarray(array))
    return target


def build_table(fod: Fod) -> FodTable:
    """Make the table of an FOD on the GPU that it lies on; the arrays of its voxels stay there.

    Raises BackendError when the GPU fails, or its memory does not suffice.
    """
    values = fod.device_values.native
    gpu = gpu_of(values)
    assert gpu is not None
    cupy = import_cupy()
    change = padded_change(fod)
    try:
        with explained(f"cuda:{gpu}"), cupy.cuda.Device(gpu):
            degrees = fod.lmax, fod.is_asymmetric
            scale = suitable_scale(values, change, *degrees)
            stream = cupy.cuda.Stream(non_blocking=True)
            with stream:
                points = sphere_points(*degrees)
                coefficients, masses = fill_rows(gpu, *degrees, values, change * scale, points)
                stream.synchronize()
    except OutOfDeviceMemoryError as error:
        need = (fod.n_voxels + 1) * (2 * change.shape[1] + 4)
        raise BackendError(
            f"The table of {fod.name} needs {need / 1e9:.2g} GB, more than cuda:{gpu} has free; "
            f"crop the FOD or {REMEDY}."
        ) from error
    return FodTable(
        voxel_rows=fod.device_rows.native,
        words=np.empty((0, 2), np.uint64),
        values=values,
        change=change * scale,
        coefficients=coefficients,
        masses=masses,
        to_voxel=to_voxel_matrix(fod),
        lmax=fod.lmax,
        is_asymmetric=fod.is_asymmetric,
        scale=scale,
    )
