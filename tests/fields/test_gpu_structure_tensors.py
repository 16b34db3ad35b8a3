"""Images that lie on a GPU: the calls, on a stand-in for CuPy that is NumPy behind a wrapper.

An array of the stand-in refuses to become NumPy's but by ``get()``, as CuPy's do; what is worked
out of it is compared with the host's. None of this says what a GPU does.
"""

from __future__ import annotations

import contextlib
import sys
import types

import numpy as np
import pytest
import structure_tensor
from scipy import ndimage
from waves import straight

from napari_tractography import Fod
from napari_tractography.errors import BackendError
from napari_tractography.fields.structure_tensors import image_source

SHAPE = 24, 22, 20
ALL = (0, 0, 0), SHAPE
ALONG = np.array([1.0, 2.0, -0.7])


def lowered(value):
    if isinstance(value, OnGpu):
        return value.host
    if isinstance(value, list | tuple):
        return type(value)(map(lowered, value))
    return value


def lifted(value):
    if isinstance(value, np.ndarray | np.generic):
        return OnGpu(np.asarray(value))
    return tuple(map(lifted, value)) if isinstance(value, tuple) else value


def on_the_stand_in(function):
    """Return a function of host arrays as one of arrays of the stand-in; others it refuses."""

    def call(*given, **named):
        arrays = [a for a in given if isinstance(a, np.ndarray)]
        assert not arrays, "an array of the host was handed to the GPU"
        return lifted(function(*map(lowered, given), **{k: lowered(v) for k, v in named.items()}))

    return call


class OnGpu(np.lib.mixins.NDArrayOperatorsMixin):
    downloads = 0
    device = property(lambda self: contextlib.nullcontext())

    def __init__(self, host):
        self.host = host

    def __dlpack_device__(self):
        return 2, 0

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __array_ufunc__(self, ufunc, method, *inputs, **named):
        out = named.pop("out", ())
        assert not any(isinstance(x, np.ndarray) and x.ndim for x in inputs)
        made = getattr(ufunc, method)(*map(lowered, inputs), **named)
        if out:
            out[0].host[...] = made
            return out[0]
        return lifted(made)

    def __getattr__(self, name):
        if name not in ("shape", "dtype", "ndim", "nbytes", "astype", "reshape", "ravel", "sum",
                        "all", "T", "transpose"):  # fmt: skip
            raise AttributeError(name)
        found = getattr(self.host, name)
        return on_the_stand_in(found) if callable(found) else lifted(found)

    def __getitem__(self, index):
        return OnGpu(self.host[lowered(index)])

    def __setitem__(self, index, value):
        assert not isinstance(value, np.ndarray)
        self.host[lowered(index)] = lowered(value)

    def __iter__(self):
        return map(OnGpu, self.host)

    def get(self):
        OnGpu.downloads += self.host.nbytes
        return self.host.copy()


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    """Modules as CuPy's are named."""
    cupy = types.ModuleType("cupy")
    cupy.ndarray = OnGpu
    for name in ["zeros", "zeros_like", "stack", "where", "maximum", "sqrt", "clip", "isfinite"]:
        setattr(cupy, name, on_the_stand_in(getattr(np, name)))
    cupy.asarray = lambda array: OnGpu(np.array(array))
    cupy.cuda = types.SimpleNamespace(Device=lambda _number: contextlib.nullcontext())
    filters = types.ModuleType("cupyx.scipy.ndimage")
    filters.gaussian_filter = on_the_stand_in(ndimage.gaussian_filter)
    package = types.ModuleType("structure_tensor.cp")
    for name in ("structure_tensor_3d", "eig_special_3d"):
        setattr(package, name, on_the_stand_in(getattr(structure_tensor, name)))
    for module in (cupy, filters, package):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(structure_tensor, "cp", package, raising=False)
    monkeypatch.setattr(OnGpu, "downloads", 0)
    return cupy


@pytest.mark.parametrize("bright", [None, True])
@pytest.mark.parametrize("given", ["on the GPU", "on the host, by number"])
def test_structure_tensors_are_worked_out_on_the_gpu(bright, given):
    image = straight(SHAPE, ALONG)
    mask = np.ones(SHAPE, np.uint8)
    mask[:4] = 0
    expected = image_source(image, np.eye(4), bright=bright, mask=mask).vectors(*ALL)
    array, gpu = (OnGpu(image), None) if given == "on the GPU" else (image, 0)
    source = image_source(array, np.eye(4), bright=bright, mask=mask, gpu=gpu)
    found = source.vectors(*ALL)
    assert isinstance(found, np.ndarray)
    assert found.any()
    np.testing.assert_array_equal(found, expected)
    assert OnGpu.downloads == found.nbytes  # vectors alone come to the host


def test_an_fod_of_an_image_on_a_gpu_makes_its_blocks_there():
    image = straight(SHAPE, ALONG)
    fod, host = (Fod.from_image(x, np.eye(4)) for x in (OnGpu(image), image))
    np.testing.assert_array_equal(fod.vectors.numbers, host.vectors.numbers)
    assert OnGpu.downloads > 0


def test_a_gpu_that_fails_is_told_in_a_sentence(monkeypatch, stand_in):
    def fail(*_, **__):
        raise MemoryError("out of memory allocating 8 bytes")

    monkeypatch.setattr(structure_tensor.cp, "structure_tensor_3d", fail)
    with pytest.raises(BackendError, match=r"The GPU failed on scan \(out of memory"):
        image_source(OnGpu(straight(SHAPE, ALONG)), np.eye(4), name="scan").vectors(*ALL)
    stand_in.asarray = fail
    with pytest.raises(BackendError, match="GPU 1 cannot take an array"):
        image_source(straight(SHAPE, ALONG), np.eye(4), gpu=1).vectors(*ALL)
