"""Which kernels there are for WebAssembly; ``scripts/wasm.py`` compiles them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from ..codes import OF_VECTORS
from ..cuda.source import degrees

SYMMETRIC, ASYMMETRIC = (2, 4, 6, 8, 10, 12), (4, 6, 8)
# What is defined for each, by largest degree, OF_VECTORS for peaks and tensors, and asymmetry.
MODULES: dict[tuple[int, bool], tuple[str, ...]] = {
    **{(lmax, False): degrees(lmax, False) for lmax in SYMMETRIC},
    **{(lmax, True): degrees(lmax, True) for lmax in ASYMMETRIC},
    (OF_VECTORS, False): ("-DVECTORS", "-DLMAX=2"),
}


def file_name(lmax: int, is_asymmetric: bool) -> str:
    """Return the name of the file of a module."""
    kind = "vectors" if lmax == OF_VECTORS else f"{lmax}{'_asymmetric' if is_asymmetric else ''}"
    return f"track_{kind}.wasm"


@cache
def code_of(lmax: int, is_asymmetric: bool = False) -> bytes:
    """Return a module, as WebAssembly."""
    return files(__package__).joinpath(file_name(lmax, is_asymmetric)).read_bytes()
