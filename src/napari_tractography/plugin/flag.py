"""Whether something is under way, to be asked by what it sets off in turn."""

from __future__ import annotations


class Flag:
    """True within ``with flag:``, also while that is entered again from within."""

    def __init__(self) -> None:
        self._depth = 0

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1

    def __bool__(self) -> bool:
        return self._depth > 0
