"""Connections that last as long as something is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Listening:
    """Signals or events, each with what it calls from :meth:`open` to :meth:`close`."""

    def __init__(self, *pairs: tuple[Any, Callable[..., object]]) -> None:
        self._pairs = pairs

    def open(self) -> None:
        for signal, slot in self._pairs:
            signal.connect(slot)

    def close(self) -> None:
        for signal, slot in self._pairs:
            signal.disconnect(slot)

    def switch(self, *pairs: tuple[Any, Callable[..., object]]) -> None:
        """Connect these, in place of those that are connected."""
        self.close()
        self._pairs = pairs
        self.open()
