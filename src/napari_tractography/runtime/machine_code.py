"""Machine code of compiled functions, kept for all environments and checkouts of one person.

Numba keeps it beside the sources, or by their path, so that every new environment, and every clone
of the repository, compiles for minutes. Here the name of a file says all that the machine code
in it depends on: the function, the content of what is compiled into it, the versions of Python,
Numba, llvmlite and NumPy, the processor, and the types of the arguments. So neither path nor age
of the sources matter, and processes that write at once write different files, or the same. Called
by :mod:`.compiling`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from .caches import cache_folder, prune, write_whole

ENDING = ".nbc"
VERSIONS = (sys.implementation.cache_tag, platform.python_version(), numba.__version__,
            llvmlite.__version__, np.__version__)  # fmt: skip
N_DIGEST = hashlib.sha256().digest_size


def folders() -> Iterator[Path]:
    """Yield the folders with machine code: the first that can be written gets what is compiled.

    That is the person's cache folder, and otherwise beside the sources. ``NUMBA_CACHE_DIR`` names
    another, and then it is that one alone.
    """
    if numba.config.CACHE_DIR:
        yield Path(numba.config.CACHE_DIR)
        return
    with contextlib.suppress(FileNotFoundError):
        yield cache_folder() / "machine-code"
    yield Path(__file__).parent / "__pycache__"


class KeptCode:
    """What a compiled function of Numba asks for machine code, and hands it to.

    The function is without a closure, which is no part of the name; `content` is a checksum of its
    file and of all that is compiled into it.
    """

    def __init__(self, function: FunctionType, content: int) -> None:
        name = function.__qualname__.replace("<locals>.", "")
        self.prefix = f"{function.__module__.rpartition('.')[2]}.{name}-{content:08x}"
        self._bytecode = function.__code__.co_code

    @property
    def cache_path(self) -> str:
        """The folder that is looked into first."""
        return str(next(folders()))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the function compiled for types of arguments; None where it is not kept."""
        target_context.refresh()
        name = self._name(sig, target_context)
        for folder in folders():
            with contextlib.suppress(OSError):
                stored = (folder / name).read_bytes()
                if hashlib.sha256(stored[N_DIGEST:]).digest() != stored[:N_DIGEST]:
                    continue  # the machine stopped while it was written
                with contextlib.suppress(OSError):  # which may be read, and no more
                    os.utime(folder / name)
                return CompileResult._rebuild(target_context, *pickle.loads(stored[N_DIGEST:]))
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled function in the first folder that takes it, if any does."""
        if data.library.has_dynamic_globals:  # addresses in this process
            return
        content = dumps(data._reduce())
        name = self._name(sig, data.target_context)
        for folder in folders():
            with contextlib.suppress(OSError):
                write_whole(folder / name, hashlib.sha256(content).digest() + content)
                prune(folder, f"*{ENDING}*")
                return

    def has_code_for(self, first: Any, target_context: Any) -> bool:
        """Tell whether code for a type of the first argument is kept, whatever the others are."""
        start = self._start((first,), target_context)
        return any(any(folder.glob(f"{start}*{ENDING}")) for folder in folders())

    def _start(self, arguments: tuple[Any, ...], target_context: Any) -> str:
        machine = (*VERSIONS, *target_context.codegen().magic_tuple())
        return f"{self.prefix}-{_short(machine)}-{_short(arguments[:1])}-"

    def _name(self, sig: Any, target_context: Any) -> str:
        arguments = tuple(sig if isinstance(sig, tuple) else sig.args)
        key = _short((arguments, self._bytecode))
        return f"{self._start(arguments, target_context)}{key}{ENDING}"


def _short(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]
