"""Tables kept from one run to the next, so that a slider that is moved starts a run at once."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from ...model.fod import Fod
from .builders import build_table


class _NewestResults:
    """Keeps the newest result for each owner, for as long as the owner lives."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: weakref.WeakKeyDictionary[Any, tuple[Any, Any]] = weakref.WeakKeyDictionary()

    def get(self, owner: Any, key: Any, make: Callable[[], Any]) -> Any:
        """Return the owner's result where it was made for this key, else that of `make`."""
        with self._lock:
            kept = self._kept.get(owner)
            if kept is None or kept[0] != key:
                self._kept.pop(owner, None)  # frees the old one before the new one is made
                del kept
                kept = (key, make())
                self._kept[owner] = kept
            return kept[1]

    def put(self, owner: Any, key: Any, made: Any) -> None:
        """Keep a result that was made elsewhere."""
        with self._lock:
            self._kept[owner] = (key, made)


_tables = _NewestResults()


def provide_table(fod: Fod, table: Any) -> None:
    """Have the CPU read this table of an FOD from now on."""
    _tables.put(fod, build_table, table)


def fod_table(fod: Fod, build: Callable[[Fod], Any] = build_table) -> Any:
    """Return the table of an FOD, that of the last call where it fits, else what `build` makes."""

    return _tables.get(fod, build, lambda: build(fod))
