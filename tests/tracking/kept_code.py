"""Machine code of tests that compile a function of their own around those of the kernels."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from numba import njit

from napari_tractography.runtime.compiling import checksum
from napari_tractography.runtime.machine_code import KeptCode


def kept(*modules: ModuleType, nogil: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function, anew where its file changes, or modules it calls and what they import."""

    def decorate(function: Any) -> Any:
        dispatcher = njit(nogil=nogil)(function)
        own = Path(function.__code__.co_filename).read_bytes()
        content = zlib.crc32(own, checksum(*(module.__name__ for module in modules)))
        dispatcher._cache = KeptCode(function, content)
        return dispatcher

    return decorate
