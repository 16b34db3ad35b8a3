"""As much of CuPy as the backend uses, on the host: kernels are run by the library of host.py.

Memory is counted, and an allocation beyond `limit` fails as CuPy's does.
"""

from __future__ import annotations

import threading
import types
import weakref

import numpy as np
from host import pointer

from napari_tractography.tracking.cuda import source as kernels
from napari_tractography.tracking.cuda import tables as cuda_tables

__version__ = "0"


# NumPy's functions that CuPy has, too, as far as they are used.
LIFTED = {"argwhere", "ascontiguousarray", "atleast_2d", "concatenate", "cumsum", "flatnonzero"}
LIFTED |= {"isfinite", "ones", "searchsorted", "sqrt", "where"}


class OutOfMemoryError(MemoryError):
    pass


class CUDARuntimeError(RuntimeError):
    def __init__(self, status, message="cudaErrorSomething: something happened"):
        super().__init__(message)
        self.status = status


class CUDADriverError(RuntimeError):
    def __init__(self, status, message="CUDA_ERROR_SOMETHING: something happened"):
        super().__init__(message)
        self.status = status


class CompileException(Exception):  # noqa: N818
    pass


# What a GPU without any free memory answers, by what was asked of it.
FULL = {
    "device": CUDARuntimeError(2, "cudaErrorMemoryAllocation: out of memory"),
    "stream": CUDARuntimeError(2, "cudaErrorMemoryAllocation: out of memory"),
    "kernels": CUDADriverError(2, "CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
    "mem_info": CUDARuntimeError(2, "cudaErrorMemoryAllocation: out of memory"),
    "memory": OutOfMemoryError("Out of memory allocating 512 bytes (allocated so far: 0 bytes)."),
}


class Memory:
    """A MemoryPointer."""

    def __init__(self, host, machine):
        self.host, self.machine = host, machine
        self.ptr = host.ctypes.data

    def memset_async(self, value, size, stream):
        assert stream is self.machine.stream
        self.host.view(np.uint8).reshape(-1)[:size] = value

    def copy_from_device_async(self, source, size, stream=None):
        assert stream is self.machine.stream
        assert source.host.flags.c_contiguous
        self.machine.moves.append(size)
        self.host.view(np.uint8).reshape(-1)[:size] = source.host.view(np.uint8).reshape(-1)


class Array(np.lib.mixins.NDArrayOperatorsMixin):
    """A cupy.ndarray, as far as it goes; views share the memory."""

    def __init__(self, host, machine, *, gpu=None, base=None):
        self.host, self.machine, self.base = host, machine, base
        self.data = Memory(host, machine)
        self.gpu = machine.gpu if gpu is None else gpu

    shape = property(lambda self: self.host.shape)
    ndim = property(lambda self: self.host.ndim)
    dtype = property(lambda self: self.host.dtype)
    nbytes = property(lambda self: self.host.nbytes)
    size = property(lambda self: self.host.size)
    device = property(lambda self: Device(self.machine, self.gpu))

    def __len__(self):
        return len(self.host)

    def __dlpack_device__(self):
        return 2, self.gpu

    def __getitem__(self, index):
        if isinstance(index, Array):
            return self.machine.lift(np.ndarray.__getitem__, self, index)
        if isinstance(index, tuple) and isinstance(index[-1], Array):
            return self.machine.lift(lambda a, last: a[*index[:-1], last], self, index[-1])
        base = self if self.base is None else self.base
        return Array(np.asarray(self.host[index]), self.machine, gpu=self.gpu, base=base)

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __array_ufunc__(self, ufunc, method, *inputs, **more):
        out = more.pop("out", ())
        result = self.machine.lift(getattr(ufunc, method), *inputs, **more)
        if not out:
            return result
        out[0].host[...] = result.host
        return out[0]

    def __getattr__(self, name):
        if name not in ("all", "any", "max", "min", "sum", "astype", "ravel", "reshape"):
            raise AttributeError(name)
        method = getattr(np.ndarray, name)
        return lambda *more, **named: self.machine.lift(method, self, *more, **named)

    def __int__(self):
        assert self.shape == ()  # what comes to the host is a number
        return int(self.host)

    def __float__(self):
        assert self.shape == ()
        return float(self.host)

    def __bool__(self):
        return bool(int(self))

    def set(self, array, stream=None):
        assert array.shape == self.shape
        assert array.dtype == self.dtype
        assert isinstance(array, np.ndarray)
        self.machine.uploads.append(array.nbytes)
        self.host[...] = array

    def get(self, stream=None, out=None, blocking=True):
        self.machine.downloads.append(self.nbytes)
        if out is None:
            return self.host.copy()
        assert out.shape == self.shape
        assert not blocking
        assert stream is self.machine.stream
        out[:] = self.host
        return out


class Foreign:
    """An array of another library on a GPU, of which one gets hold by one protocol only."""

    def __init__(self, host, protocol, gpu=0):
        self.host, self.gpu = host, gpu
        if protocol == "dlpack":
            self.__dlpack__ = lambda **_: self
            self.__dlpack_device__ = lambda: (2, gpu)
        else:
            self.__cuda_array_interface__ = {}

    def __array__(self, *_, **__):
        raise TypeError("can't convert a tensor on a GPU to numpy.")


class _Current:
    """Something that is entered: a device or a stream."""

    def __enter__(self):
        self.machine.current(self.kind).append(self)
        return self

    def __exit__(self, *_):
        assert self.machine.current(self.kind).pop() is self


class Stream(_Current):
    kind = "stream"

    def __init__(self, machine, non_blocking=False):
        machine.fail_where_full("stream")
        self.machine = machine

    def synchronize(self):
        self.machine.log.append("synchronize")


class Device(_Current):
    kind = "device"

    def __init__(self, machine, index=0):
        self.machine, self.id = machine, index
        self.attributes = {"MultiProcessorCount": 3, "MaxSharedMemoryPerBlockOptin": 1 << 17}

    def __enter__(self):
        self.machine.fail_where_full("device")
        return super().__enter__()

    @property
    def mem_info(self):
        self.machine.fail_where_full("mem_info")
        return self.machine.limit - self.machine.used, self.machine.limit


class Event:
    recorded = False

    def record(self, stream=None):
        self.recorded = True

    def synchronize(self):
        assert self.recorded


class Kernel:
    """A RawKernel; those of tracking get fewer threads than seeds."""

    num_regs, local_size_bytes, max_threads_per_block = 40, 136, 512

    def __init__(self, machine, name):
        self.machine, self.name = machine, name
        self.kernel = types.SimpleNamespace(ptr=hash(name))

    def __call__(self, grid, block, arguments, *, shared_mem=0):
        assert self.machine.device is not None
        assert self.machine.stream is not None or self.name in cuda_tables.NAMES
        self.machine.launches.append((self.name, grid, block))
        if self.name in cuda_tables.NAMES:
            (rows,) = arguments
            assert rows.dtype == kernels.layout_in("Rows", kernels.source(cuda_tables.SOURCE))
            which = cuda_tables.NAMES.index(self.name)
            self.machine.library.launch_rows(which, grid[0], block[0], pointer(rows))
            return
        if block[0] > self.max_threads_per_block:
            raise CUDADriverError(1, "CUDA_ERROR_INVALID_VALUE: invalid argument")
        if self.machine.fails_at == self.name:
            raise CUDARuntimeError(700, "cudaErrorIllegalAddress: an illegal memory access")
        names = ("Field", "Settings", "Regions", "Batch")[-len(arguments) :]
        if self.name == "gather_points":
            names = ("Settings", "Batch")
        assert block[0] % kernels.WARP == 0
        assert [a.dtype for a in arguments] == [kernels.layout(name) for name in names]
        pointers = [pointer(argument) for argument in arguments]
        library = self.machine.library
        if len(arguments) == 4:
            library.launch_tracking(grid[0], block[0], *pointers)
        elif len(arguments) == 2:
            library.launch_gathering(grid[0], block[0], *pointers)
        else:
            which = ("add_tiles", "scan_tiles", "place_streamlines", "write_endpoints")
            library.launch_between(which.index(self.name), grid[0], block[0], *pointers)


class Machine:
    """Stands in for the module `cupy`."""

    __version__ = "0"

    def __init__(self, library, *, limit=10**9, n_gpus=1):
        self.library, self.limit, self.n_gpus = library, limit, n_gpus
        self.ndarray = Array
        self.used = self.most = 0
        self._entered = threading.local()  # devices and streams, as CuPy has them
        self._lock = threading.RLock()  # memory is freed at any moment
        self.fails_at = ""
        self.full_at = ""  # by another program: what then fails as CUDA does, see FULL
        self.log, self.launches, self.modules = [], [], []
        # Bytes of each copy: from the host, to it, and from device to device.
        self.uploads, self.downloads, self.moves = [], [], []
        self.pinned = []  # bytes of each block of the host's memory that was locked for points
        self.host_is_full = False  # none of its memory can be locked
        errors = {"CUDARuntimeError": CUDARuntimeError}
        self.cuda = types.SimpleNamespace(
            Device=lambda index=0: Device(self, index),
            Stream=lambda non_blocking=False: Stream(self, non_blocking),
            get_current_stream=lambda: self.stream or Stream(self),
            Event=Event,
            get_elapsed_time=self._elapsed,
            alloc_pinned_memory=bytearray,
            PinnedMemory=self._lock_memory,
            PinnedMemoryPointer=lambda memory, offset: memory,
            memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
            compiler=types.SimpleNamespace(CompileException=CompileException),
            runtime=types.SimpleNamespace(
                **errors,
                hostAllocPortable=1,
                getDeviceCount=lambda: self.n_gpus,
                getDeviceProperties=lambda index: {"name": b"Fake %d" % index},
                deviceGetPCIBusId=lambda index: f"0000:0{index}:00.0",
                memGetInfo=lambda: self.device.mem_info,
            ),
            driver=types.SimpleNamespace(
                CUDADriverError=CUDADriverError,
                occupancyMaxActiveBlocksPerMultiprocessor=lambda ptr, block, shared: 256 // block,
            ),
        )

    def fail_where_full(self, place):
        if self.full_at == place:
            raise FULL[place]

    def current(self, kind):
        return self._entered.__dict__.setdefault(kind, [])

    device = property(lambda self: (self.current("device") or [None])[-1])
    stream = property(lambda self: (self.current("stream") or [None])[-1])

    @property
    def gpu(self):
        return 0 if self.device is None else self.device.id

    def lift(self, function, *arguments, **named):
        """Call NumPy; on arrays of the current GPU and numbers, as CuPy's functions ask for."""

        def lowered(argument):
            assert not isinstance(argument, np.ndarray)
            if isinstance(argument, list):
                return [lowered(one) for one in argument]
            if isinstance(argument, Array):
                assert argument.gpu == self.gpu
                return argument.host
            return argument

        held = [lowered(argument) for argument in arguments]
        return Array(np.asarray(function(*held, **named)), self)

    def __getattr__(self, name):
        if name not in LIFTED:
            raise AttributeError(name)
        return lambda *more, **named: self.lift(getattr(np, name), *more, **named)

    def from_dlpack(self, array):
        array.__dlpack__(stream=1)
        return Array(array.host, self, gpu=array.gpu)

    def asarray(self, array):
        if isinstance(array, np.ndarray):
            self.uploads.append(array.nbytes)
            return Array(array.copy(), self)
        assert array.__cuda_array_interface__ is not None
        return Array(array.host, self, gpu=array.gpu)

    def empty(self, shape, kind):
        self.fail_where_full("memory")
        host = np.full(shape, 85, kind)  # what memory holds before it is written
        if self.used + host.nbytes > self.limit:
            raise OutOfMemoryError(f"Out of memory allocating {host.nbytes} bytes (allocated so on")
        with self._lock:
            self.used += host.nbytes
            self.most = max(self.most, self.used)
        weakref.finalize(host, self._freed, host.nbytes)
        return Array(host, self)

    def zeros(self, shape, dtype):
        array = self.empty(shape, dtype)
        array.host[...] = 0
        return array

    def full(self, shape, value, dtype):
        array = self.empty(shape, dtype)
        array.host[...] = value
        return array

    def _lock_memory(self, n_bytes, flags):
        if self.host_is_full:
            raise CUDARuntimeError(2, "cudaErrorMemoryAllocation: out of memory")
        assert flags == self.cuda.runtime.hostAllocPortable
        self.pinned.append(n_bytes)
        return bytearray(n_bytes)

    def _freed(self, n_bytes):
        with self._lock:
            self.used -= n_bytes

    def _elapsed(self, begun, ended):
        assert begun.recorded
        assert ended.recorded
        return 1.0

    def RawModule(self, code, options, backend):  # noqa: N802
        self.fail_where_full("kernels")
        self.modules.append(options)
        assert code in (kernels.source(), kernels.source(cuda_tables.SOURCE))
        return types.SimpleNamespace(get_function=lambda name: Kernel(self, name))

    def get_default_memory_pool(self):
        return types.SimpleNamespace(
            free_bytes=lambda: 0, free_all_blocks=lambda: None, total_bytes=lambda: self.used
        )

    get_default_pinned_memory_pool = get_default_memory_pool
