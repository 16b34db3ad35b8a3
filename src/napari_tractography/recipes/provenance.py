"""On what streamlines were tracked: packages, backend and device; called by :mod:`.recipe`."""

from __future__ import annotations

import platform
import re

from ..tracking.cluster.versions import versions_of
from ..tracking.devices import model

# What can change a bit of the result, besides the recipe: the kernels are compiled by Numba and
# LLVM, tables and seeds are made with NumPy, SciPy and DIPY.
PACKAGES = ("napari-tractography", "numpy", "numba", "llvmlite", "scipy", "dipy")
# The same on a GPU, under the names that they are installed by.
GPU_PACKAGES = (
    "cupy", "cupy-cuda12x", "cupy-cuda13x", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc"
)  # fmt: skip


def present_versions(backend: str = "") -> dict[str, str]:
    """Return the versions of the packages that can change the streamlines of a backend."""
    return versions_of(PACKAGES + (GPU_PACKAGES if is_gpu(backend) else ()))


def is_gpu(backend: str) -> bool:
    """Tell whether a backend, such as "cpu" or "cuda:0 + cuda:1", is one of GPUs."""
    return backend.startswith("cuda")


def device_of(backend: str) -> str:
    """Return what a backend runs on: the kind of processor, or the models of its GPUs."""
    if not backend:
        return ""
    if not is_gpu(backend):
        return platform.machine()
    return " + ".join(model(int(index)) for index in re.findall(r"cuda:(\d+)", backend))


def same_device(backend: str, device: str, other_backend: str, other_device: str) -> bool:
    """Tell whether both are CPUs or both GPUs, of the same models; how many does not matter."""
    models, others = set(device.split(" + ")), set(other_device.split(" + "))
    return is_gpu(backend) == is_gpu(other_backend) and models == others


def changed_versions(old: dict[str, str], present: dict[str, str]) -> list[str]:
    """Return a phrase for each package whose version was another."""
    return [
        f"{name} {number} then, {present.get(name, 'absent')} now"
        for name, number in old.items()
        if present.get(name) != number
    ]
