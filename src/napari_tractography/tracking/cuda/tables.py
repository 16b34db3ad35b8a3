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
from ..codes import NOT_AMONG
from ..tables.builders import padded_change, sphere_points, suitable_scale, to_voxel_matrix
from ..tables.data import FodTable
from . import source as kernels
from .gpu_errors import explained
from .scheduler import OutOfDeviceMemoryError

SOURCE, NAMES = "tables.cu", ("fill_rows", "follow_ways", "look_around")
BLOCK = 128  # threads


@cache
def load_kernels(gpu: int, lmax: int, is_asymmetric: bool) -> list[Any]:
    """Return the kernels for a GPU and the degrees of an FOD; compiled on the first call."""
    module = import_cupy().RawModule(
        code=kernels.source(SOURCE),
        options=(*kernels.OPTIONS, *kernels.degrees(lmax, is_asymmetric)),
        backend="nvrtc",
    )
    return [module.get_function(name) for name in NAMES]


def pack_rows(
    addresses: Mapping[str, int],
    shape: tuple[int, int, int],
    n_rows: int,
    n_points: int,
    to_voxel: NDArray[np.float32],
    pointer: str = kernels.POINTER,
) -> NDArray[np.void]:
    """Return the structure ``Rows`` of ``tables.cu`` for arrays at these addresses."""
    text = (kernels.FOLDER / SOURCE).read_text("utf-8")
    packed = np.zeros((), kernels.layout_in("Rows", text, pointer))
    nx, ny, nz = shape
    numbers = {"n_rows": n_rows, "n_points": n_points, "nx": nx, "ny": ny, "nz": nz}
    for name, value in {**addresses, **numbers, "to_voxel": np.ravel(to_voxel)}.items():
        packed[name] = value
    return packed


def fill_rows(
    gpu: int,
    lmax: int,
    is_asymmetric: bool,
    values: Any,
    change: NDArray[np.float32],
    points: NDArray[np.float32],
    voxel_rows: Any,
    to_voxel: NDArray[np.float32],
) -> dict[str, Any]:
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
    voxel_rows : (x, y, z) int32
        The row of each voxel, on that GPU or on the host.
    to_voxel : (3, 4) float32
        RAS+ mm to voxel coordinates, on the host.

    Returns
    -------
    dict of str to cupy.ndarray
        What is `filled` of a :class:`~napari_tractography.tracking.tables.data.FodTable`.
    """
    cupy = import_cupy()
    n_rows = len(values)
    filled = {
        "coefficients": cupy.zeros((n_rows + 1, change.shape[1]), "u2"),
        "masses": cupy.zeros((n_rows + 1,), "f4"),
        "crossings": cupy.full((n_rows + 1,), NOT_AMONG, "u4"),
    }
    arrays = {
        "values": values if gpu_of(values) == gpu else _copied(cupy, values),
        "change": _copied(cupy, change),
        "sphere_points": _copied(cupy, points),
        "voxel_rows": voxel_rows if gpu_of(voxel_rows) == gpu else _copied(cupy, voxel_rows),
        **filled,
    }
    addresses = {name: array.data.ptr for name, array in arrays.items()}
    rows = pack_rows(addresses, voxel_rows.shape, n_rows, points.shape[1], to_voxel)
    n_voxels = int(np.prod(voxel_rows.shape))
    fill, *find = load_kernels(gpu, lmax, is_asymmetric)
    fill((-(-n_rows // BLOCK),), (BLOCK,), (rows,))
    for kernel in find:
        kernel((-(-n_voxels // BLOCK),), (BLOCK,), (rows,))
    return filled


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
                voxel_rows, to_voxel = fod.device_rows.native, to_voxel_matrix(fod)
                filled = fill_rows(
                    gpu, *degrees, values, change * scale, points, voxel_rows, to_voxel
                )
                stream.synchronize()
    except OutOfDeviceMemoryError as error:
        need = (fod.n_voxels + 1) * (2 * change.shape[1] + 6)
        raise BackendError(
            f"The table of {fod.name} needs {need / 1e9:.2g} GB, more than cuda:{gpu} has free; "
            f"crop the FOD or {REMEDY}."
        ) from error
    return FodTable(
        voxel_rows=voxel_rows,
        words=np.empty((0, 2), np.uint64),
        values=values,
        change=change * scale,
        **filled,
        to_voxel=to_voxel,
        lmax=fod.lmax,
        is_asymmetric=fod.is_asymmetric,
        scale=scale,
    )
