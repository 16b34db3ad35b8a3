"""Which kernels there are for WebAssembly, and what ``scripts/wasm.py`` makes them of."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path

from ..codes import OF_VECTORS
from ..cuda.source import FOLDER as CUDA
from ..cuda.source import algorithms_header, codes_header, degrees

FOLDER = Path(__file__).parent
CHECKSUM = "sources.sha256"
SYMMETRIC, ASYMMETRIC = (2, 4, 6, 8, 10, 12), (4, 6, 8)
# What is defined for each, by largest degree, OF_VECTORS for peaks and tensors, and asymmetry.
MODULES: dict[tuple[int, bool], tuple[str, ...]] = {
    **{(lmax, False): degrees(lmax, False) for lmax in SYMMETRIC},
    **{(lmax, True): degrees(lmax, True) for lmax in ASYMMETRIC},
    (OF_VECTORS, False): ("-DVECTORS", "-DLMAX=2"),
}
FLAGS = (
    "--target=wasm32", "-O2", "-std=c++14", "-ffp-contract=off", "-msimd128", "-mbulk-memory",
    "-ffreestanding", "-nostdlib", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics",
    "-fvisibility=hidden", "-Wno-pass-failed", "-Wno-unused-function",
    "-Wl,--no-entry", "-Wl,--import-memory", "-Wl,--export=__heap_base", "-Wl,--strip-all",
)  # fmt: skip


def file_name(lmax: int, is_asymmetric: bool) -> str:
    """Return the name of the file of a module."""
    kind = "vectors" if lmax == OF_VECTORS else f"{lmax}{'_asymmetric' if is_asymmetric else ''}"
    return f"track_{kind}.wasm"


@cache
def code_of(lmax: int, is_asymmetric: bool = False) -> bytes:
    """Return a module, as WebAssembly."""
    return files(__package__).joinpath(file_name(lmax, is_asymmetric)).read_bytes()


def checksum() -> str:
    """Return the SHA-256 of all that modules are made of."""
    sources = [*CUDA.glob("*.h"), CUDA / "track.cu", CUDA / "tables.cu", FOLDER / "entry.cpp"]
    sources.append(CUDA.parent / "tables" / "cone_quadrature.py")  # in place of turning.h
    texts = {path.name: path.read_text("utf-8") for path in sources}
    texts |= {"codes.h": codes_header(), "algorithms.h": algorithms_header()}
    whole = "".join(f"{name}\n{text}\n" for name, text in sorted(texts.items()))
    options = " ".join([*FLAGS, *(word for defined in MODULES.values() for word in defined)])
    return hashlib.sha256((whole + options).encode()).hexdigest()


def are_up_to_date() -> bool:
    """Tell whether modules are made of the sources as they are, and of the algorithms there are."""
    return (FOLDER / CHECKSUM).read_text("utf-8").strip() == checksum()
