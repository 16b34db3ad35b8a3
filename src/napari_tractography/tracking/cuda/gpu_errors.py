"""CUDA's errors, turned into ours.

Used wherever the CUDA backend calls CuPy. A lack of memory is an error of its own,
because a smaller batch may do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ...errors import BackendError
from ...runtime.arrays import REMEDY, import_cupy
from .scheduler import OutOfDeviceMemoryError

OUT_OF_MEMORY = 2  # of CUDA's error numbers, both of the runtime and of the driver


@contextlib.contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn CUDA's errors into ours, where a lack of memory can be dealt with.

    Raises OutOfDeviceMemoryError when memory does not suffice; BackendError when anything else
    fails, in one sentence that names the device.
    """
    cupy = import_cupy()
    try:
        yield
    except cupy.cuda.memory.OutOfMemoryError as error:
        raise OutOfDeviceMemoryError(_size_asked_for(error)) from error
    except cupy.cuda.compiler.CompileException as error:
        raise BackendError(
            f"The kernels do not compile for {name} ({str(error).splitlines()[0]}); "
            f"update CuPy or {REMEDY}."
        ) from error
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        if getattr(error, "status", None) == OUT_OF_MEMORY:
            raise OutOfDeviceMemoryError(str(error)) from error
        raise BackendError(
            f"{name} failed ({error}); it may be lost until the program is started again: "
            f"choose another device or {REMEDY}."
        ) from error


@contextlib.contextmanager
def explained_for_good(name: str) -> Iterator[None]:
    """Turn CUDA's errors into ours, where nothing can be done about a lack of memory.

    Raises BackendError when anything fails, in one sentence.
    """
    try:
        with explained(name):
            yield
    except OutOfDeviceMemoryError as error:
        raise BackendError(
            f"{name} has too little free memory ({error}); free some, choose another device or "
            f"{REMEDY}."
        ) from error


def _size_asked_for(error: Exception) -> str:
    """Return "Out of memory allocating 1,024 bytes" of CuPy's longer message."""
    return str(error).partition("(")[0].strip() or "more memory"
