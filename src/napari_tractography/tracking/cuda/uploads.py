"""What lies on devices, kept there for as long as it lives on the host.

Used by :mod:`napari_tractography.tracking.cuda.device`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any


class Uploads:
    """Arrays on devices, each kept for as long as the array lives that it is a copy of."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[int, int], Any] = {}

    def holds(self, gpu: int, array: Any) -> bool:
        """Tell whether a device holds an array."""
        owner = _owner(array)
        return owner is not None and (gpu, id(owner)) in self._kept

    def get(self, gpu: int, array: Any, make: Callable[[], Any]) -> Any:
        """Return what `make` made for the memory of `array` on the current device."""
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
    """Return the array whose memory all of `array` is: views of it come and go."""
    owner = array if array.base is None else array.base
    return owner if isinstance(owner, type(array)) and owner.nbytes == array.nbytes else None
