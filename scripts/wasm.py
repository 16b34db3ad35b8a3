"""Compile the kernel for WebAssembly, which needs no compiler and no GPU where it runs.

``python scripts/wasm.py`` writes it into the package, for each largest degree of the FOD and for
peaks and tensors, with a checksum of what it was made of; run it when the CUDA source has changed.
It takes clang and lld of Debian 12 (``apt-get install clang lld``). SIMD of 128 bits, bulk memory,
no fused multiply-add, no library.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from napari_tractography.tracking.cuda.source import FOLDER, generated
from napari_tractography.tracking.wasm.modules import MODULES, file_name

TARGET = FOLDER.parent / "wasm"
CHECKSUM = "sources.sha256"
COMPILER = "clang++"
FLAGS = (
    "--target=wasm32", "-O2", "-std=c++14", "-ffp-contract=off", "-msimd128", "-mbulk-memory",
    "-ffreestanding", "-nostdlib", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics",
    "-fvisibility=hidden", "-Wno-pass-failed", "-Wno-unused-function",
    "-Wl,--no-entry", "-Wl,--import-memory", "-Wl,--export=__heap_base", "-Wl,--strip-all",
)  # fmt: skip


def checksum() -> str:
    """Return the SHA-256 of all that kernels are made of."""
    paths = [*FOLDER.glob("*.h"), FOLDER / "track.cu", FOLDER / "tables.cu", TARGET / "entry.cpp"]
    texts = {path.name: path.read_text("utf-8") for path in paths} | generated()
    whole = "".join(f"{name}\n{text}\n" for name, text in sorted(texts.items()))
    options = " ".join([*FLAGS, *(word for defined in MODULES.values() for word in defined)])
    return hashlib.sha256((whole + options).encode()).hexdigest()


def compile_kernels(target: Path, modules: Iterable[tuple[int, bool]] = tuple(MODULES)) -> None:
    """Write modules into a folder."""
    with tempfile.TemporaryDirectory() as headers:
        for name, text in generated().items():
            Path(headers, name).write_text(text, "utf-8")
        for module in modules:
            made = target / file_name(*module)
            includes = [f"-I{headers}", f"-I{FOLDER}", str(TARGET / "entry.cpp")]
            subprocess.run([COMPILER, *FLAGS, *MODULES[module], *includes, "-o", made], check=True)
            made.chmod(0o644)


def main() -> int:
    """Write the kernels and the checksum."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    compile_kernels(TARGET)
    (TARGET / CHECKSUM).write_text(checksum() + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
