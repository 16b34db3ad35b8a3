"""Arrays of other libraries, brought to the host.

FODs, masks and seeds may come as NumPy, CuPy, PyTorch or JAX arrays; tables are built on the CPU,
so that every backend reads the same bits, and so what lies on a GPU is copied once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

ON_HOST = (1, 3)  # DLPack's numbers of plain and of pinned host memory


def host_array(array: Any) -> NDArray[Any]:
    """Return an array as NumPy's: itself, a view where it lies on the host, else a copy.

    Parameters
    ----------
    array : array_like
        NumPy, CuPy, PyTorch, JAX or anything that NumPy takes.
    """
    device = getattr(array, "__dlpack_device__", None)
    if isinstance(array, np.ndarray) or device is None or device()[0] in ON_HOST:
        return np.asarray(array)
    for to_host in ("get", "cpu"):  # CuPy's name, PyTorch's name
        method = getattr(array, to_host, None)
        if method is not None:
            return np.asarray(method())
    return np.asarray(array)  # JAX copies by itself
