"""Compile the kernel for WebAssembly, which needs no compiler and no GPU where it runs.

``python scripts/wasm.py`` writes it into the package, for each largest degree of the FOD and for
peaks and tensors, with a checksum of what it was made of; run it when the CUDA source has changed.
It takes clang and lld of Debian 12 (``apt-get install clang lld``). SIMD of 128 bits, bulk memory,
no fused multiply-add, no library.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from napari_tractography.tracking.cuda.source import FOLDER as CUDA
from napari_tractography.tracking.cuda.source import generated
from napari_tractography.tracking.wasm.modules import (
    CHECKSUM,
    FLAGS,
    FOLDER,
    MODULES,
    checksum,
    file_name,
)

COMPILER = "clang++"


def compile_kernels(target: Path, modules: Iterable[tuple[int, bool]] = tuple(MODULES)) -> None:
    """Write modules into a folder."""
    with tempfile.TemporaryDirectory() as headers:
        for name, text in generated().items():
            Path(headers, name).write_text(text, "utf-8")
        for module in modules:
            made = target / file_name(*module)
            includes = [f"-I{headers}", f"-I{CUDA}", str(FOLDER / "entry.cpp")]
            subprocess.run([COMPILER, *FLAGS, *MODULES[module], *includes, "-o", made], check=True)
            made.chmod(0o644)


def main() -> int:
    """Write the kernels and the checksum."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    compile_kernels(FOLDER)
    (FOLDER / CHECKSUM).write_text(checksum() + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
