"""Copies of arrays on GPUs, kept there for as long as the arrays live on the host.

Used by :mod:`.device` for the tables.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any


class Uploads:
    """Arrays on GPUs, each kept for as long as the array lives that it is a copy of."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[int, int], Any] = {}

    def contains(self, gpu: int, array: Any) -> bool:
        """Tell whether there is a copy of an array on a GPU."""
        owner = _owner(array)
        return owner is not None and (gpu, id(owner)) in self._kept

    def get(self, gpu: int, array: Any, make: Callable[[], Any]) -> Any:
        """Return the copy of `array` on a GPU; the first time it is what `make` returns.

        An array that is a part of another one is copied each time.
        """
        owner = _owner(array)
        if owner is None:
            return make()
        key = gpu, id(owner)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = make()
                weakref.finalize(owner, self._kept.pop, key, None)
            return self._kept[key]


def _owner(array: Any) -> Any:
    """Return the array that owns all memory of `array`, since views live shorter; else None."""
    owner = array if array.base is None else array.base
    return owner if isinstance(owner, type(array)) and owner.nbytes == array.nbytes else None
