"""What tests compile, kept in the person's cache folder: once for all runs, clones and processes.

Kept by all that it depends on, so that it is never out of date, and made by one process while
others that want the same wait for it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from napari_tractography.runtime.caches import cache_folder, prune, write_whole

WAIT_SECONDS = 900


def build_folder() -> Path:
    """The folder with what was built; a temporary one where a person has no home."""
    try:
        return cache_folder() / "tests"
    except FileNotFoundError:
        return Path(tempfile.gettempdir()) / "napari-tractography-tests"


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Wait until no other process is in here by the same name; where files cannot be locked, no."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    path = Path(tempfile.gettempdir()) / f"napari-tractography-{os.getuid()}-locks" / name
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as file:
        for _ in range(10 * WAIT_SECONDS):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.1)
        yield  # the lock goes with the file, or with the process


def built(key: object, ending: str, build: Callable[[], bytes]) -> Path:
    """Return the file with what was built by a key.

    Parameters
    ----------
    key : object
        All that the content depends on; what its ``repr`` is counts.
    ending : str
        Of the file, with the dot.
    build : callable
        Returns the content.
    """
    name = hashlib.sha256(repr(key).encode()).hexdigest()[:24] + ending
    path = build_folder() / name
    with alone(name):
        if path.exists():
            os.utime(path)
        else:
            write_whole(path, build())
            prune(path.parent, "*.*")
    return path
