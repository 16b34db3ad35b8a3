"""Arrays of other libraries: NumPy's and those on the host become NumPy's, those on a GPU CuPy's.

FODs, masks and seeds may be NumPy, CuPy, PyTorch or JAX arrays; neither conversion copies.
What lies on a GPU stays there, and is copied to the host once, when something on the host asks for
it. CuPy is imported on first use, by :func:`import_cupy` alone.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ..errors import BackendError, InvalidParameterError, TractographyError

ON_GPU = (2, 13)  # DLPack's numbers of CUDA's own and of managed memory
REMEDY = "choose backend = 'cpu'"  # of messages about GPUs


def import_cupy() -> Any:
    """Return the module `cupy`. Raises BackendError when it is not installed or does not load."""
    # Queues that streams are spread over, of which a run has more than the eight of CUDA's default.
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "16")
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "cupy":
            raise BackendError(
                "CuPy is not installed, and GPUs need it: "
                f'pip install "napari-tractography[cuda12]" (or [cuda13]), or {REMEDY}.'
            ) from error
        raise BackendError(f"CuPy does not load ({error}); reinstall it or {REMEDY}.") from error


def on_gpu(array: Any) -> bool:
    """Tell whether an array lies in the memory of an NVIDIA GPU."""
    if isinstance(array, np.ndarray):
        return False
    device = getattr(array, "__dlpack_device__", None)
    if device is not None:
        return int(device()[0]) in ON_GPU
    return hasattr(array, "__cuda_array_interface__")


def gpu_of(array: Any) -> int | None:
    """Return the number of the GPU that a NumPy or CuPy array lies on, None for the host."""
    return None if isinstance(array, np.ndarray) else int(array.device.id)


def library_of(array: Any) -> Any:
    """Return the module `numpy` or `cupy` that a NumPy or CuPy array is of."""
    return np if isinstance(array, np.ndarray) else import_cupy()


def filters_of(array: Any) -> Any:
    """Return the module of SciPy, or of CuPy for one on a GPU, that filters an array."""
    if isinstance(array, np.ndarray):
        from scipy import ndimage

        return ndimage
    return importlib.import_module("cupyx.scipy.ndimage")


def to_gpu(array: Any, gpu: int) -> Any:
    """Copy an array to a GPU, by its number, unless it lies there.

    Raises BackendError when CuPy is missing, or there is no such GPU or no room on it.
    """
    cupy = import_cupy()
    try:
        with cupy.cuda.Device(gpu):
            return cupy.asarray(array)
    except Exception as error:  # of CUDA, of its driver, of memory
        raise BackendError(
            f"GPU {gpu} cannot take an array of {array.nbytes:,} bytes ({error}); {REMEDY} or "
            "another GPU."
        ) from error


def on_its_device(array: Any) -> contextlib.AbstractContextManager[Any]:
    """Make the GPU that a NumPy or CuPy array lies on, if any, the current one."""
    return contextlib.nullcontext() if isinstance(array, np.ndarray) else array.device


def as_native(array: Any) -> Any:
    """Return an array as NumPy's, or as CuPy's where it lies on a GPU, without a copy.

    It may be of NumPy, CuPy, PyTorch, JAX, anything with ``__cuda_array_interface__`` or
    ``__dlpack__``, or anything that NumPy makes an array of. Raises BackendError when it lies on a
    GPU and CuPy cannot wrap it; without CuPy it is copied to the host.
    """
    if not on_gpu(array):
        return host_array(array)
    try:
        cupy = import_cupy()
    except BackendError:
        return host_array(array)
    if isinstance(array, cupy.ndarray):
        return array
    try:
        if hasattr(array, "__dlpack__"):
            return cupy.from_dlpack(array)
        return cupy.asarray(array)
    except (BufferError, TypeError, ValueError, RuntimeError, NotImplementedError) as error:
        raise BackendError(
            f"CuPy cannot take this {type(array).__name__} on a GPU ({error}); detach it from "
            "gradients, give another dtype, or copy it to the host."
        ) from error


def host_array(array: Any) -> NDArray[Any]:
    """Return an array as NumPy's: itself, a view where it lies on the host, else a copy.

    Raises InvalidParameterError where lists have several lengths.
    """
    if on_gpu(array):
        for to_host in ("get", "cpu", "copy_to_host"):  # CuPy's, PyTorch's, Numba's name
            method = getattr(array, to_host, None)
            if method is not None:
                return np.asarray(method())
    if hasattr(array, "__dlpack__") and not hasattr(array, "__array__"):
        return np.from_dlpack(array)
    try:
        return np.asarray(array)  # JAX copies by itself
    except ValueError as error:
        if not isinstance(array, list | tuple):
            raise
        raise InvalidParameterError(
            f"A list of {len(array)} has rows of several lengths; give an array."
        ) from error


def may_be_real(array: Any) -> bool:
    """Tell whether an array holds no complex numbers, texts or dates.

    As float they would lose their imaginary parts, or raise. All else is left to the conversion:
    other libraries have types of numbers that NumPy does not know.
    """
    return array.dtype.kind not in "cSUMm"


def tells_apart(dtype: Any, whole: float) -> bool:
    """Tell whether numbers of a type tell a whole number from the next ones: 2^24 of float32."""
    return dtype.kind != "f" or not abs(whole) > 2.0 ** (np.finfo(dtype).nmant + 1)


def real_numbers(
    array: ArrayLike, dtype: DTypeLike, name: str, error: type[TractographyError]
) -> NDArray[Any]:
    """Return a contiguous array of a type; it is not copied where it is one.

    Raises TractographyError `error`, when it holds complex numbers, texts, dates or objects, has
    rows of several lengths, or numbers that integers of that type cannot hold.
    """
    try:
        values = np.asarray(array)
    except ValueError:
        raise error(f"{name} has rows of several lengths; give an array.") from None
    if not may_be_real(values):
        raise error(f"{name} holds {values.dtype} values; give real numbers.")
    try:
        # NaN as an integer is no NaN; what float32 cannot hold is infinite.
        with np.errstate(invalid="ignore", over="ignore"):
            typed = np.ascontiguousarray(values, dtype=dtype)
    except (TypeError, ValueError):  # of objects
        raise error(f"{name} holds {values.dtype} values; give real numbers.") from None
    if (
        typed.dtype.kind in "iu"
        and typed.dtype != values.dtype
        and not np.array_equal(typed, values)
    ):
        raise error(f"{name} holds numbers that {typed.dtype} has no room for; give whole numbers.")
    return typed


def points_of(points: ArrayLike, error: type[TractographyError]) -> NDArray[np.float64]:
    """Return (n, 3) float64 points; one alone becomes a row, and none at all (0, 3).

    Raises TractographyError `error` when they have another shape, or are no real numbers.
    """
    found = np.atleast_2d(real_numbers(points, np.float64, "Points", error))
    if not found.size:
        return found.reshape(0, 3)
    if found.ndim != 2 or found.shape[1] != 3:
        raise error(f"Points have shape {found.shape}; give (n, 3) RAS+ mm.")
    return found


def mapped(matrix: NDArray[np.float64], points: Any) -> list[Any]:
    """Map (n, 3) points by a (3 or 4, 4) affine matrix, where they lie; return three (n,) float64.

    Coordinates, an axis each, are added one by one, so that they are the same on all devices.
    """
    x, y, z = (points[:, axis].astype(np.float64) for axis in range(3))
    return [a * x + b * y + c * z + d for a, b, c, d in matrix[:3].tolist()]


def synchronize(array: Any) -> None:
    """Wait for the current stream, so that all streams may read an array that it computed."""
    if not isinstance(array, np.ndarray):
        with array.device:
            import_cupy().cuda.get_current_stream().synchronize()


class DeviceArray:
    """A read-only array on the host or on a GPU; copied from there to the host on demand, once.

    `native` is the array where it lies, NumPy's or CuPy's.
    """

    __slots__ = ("_host", "native")

    def __init__(self, array: Any) -> None:
        synchronize(array)
        self.native = array
        self._host: NDArray[Any] | None = None
        if isinstance(array, np.ndarray):
            self._host = array.view()  # the caller's own stays as it is
            self._host.flags.writeable = False

    @property
    def host(self) -> NDArray[Any]:
        """The array on the host."""
        if self._host is None:
            with on_its_device(self.native):
                host = host_array(self.native)
            host.flags.writeable = False
            self._host = host
        return self._host

    def __len__(self) -> int:
        return len(self.native)

    def __reduce__(self) -> tuple[type[DeviceArray], tuple[NDArray[Any]]]:
        return DeviceArray, (self.host,)  # another process may have no GPU
