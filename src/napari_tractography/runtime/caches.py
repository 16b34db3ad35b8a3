"""Files that may be lost: where they are, that they are whole, and that there are not too many.

Called by :mod:`.machine_code`, by :mod:`..tracking.costs`, and by tests for what they build.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import time
from pathlib import Path

# Some hundreds of kernels, of 1 to 2 MB each.
MAX_BYTES, MAX_UNUSED_SECONDS = 512 << 20, 90 * 24 * 3600


def cache_folder() -> Path:
    """Return the folder for files that may be lost, by the customs of the system.

    Raises FileNotFoundError when there is no home folder to be found, as in containers of users
    without a name.
    """
    variables = {"win32": "LOCALAPPDATA", "darwin": ""}
    folder = os.environ.get(variables.get(sys.platform, "XDG_CACHE_HOME"))
    if folder:
        return Path(folder) / "napari-tractography"
    try:
        home = Path.home()
    except RuntimeError as error:
        raise FileNotFoundError(f"there is no folder for files that may be lost: {error}") from None
    if sys.platform == "win32":
        return home / "AppData" / "Local" / "napari-tractography"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "napari-tractography"
    return home / ".cache" / "napari-tractography"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file, making its folder, so that others see all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def prune(folder: Path, pattern: str, max_bytes: int = MAX_BYTES) -> None:
    """Delete files that were not used for long, and those not used for the longest time.

    Those whose names match the pattern count; together they keep to `max_bytes`.
    """
    found: list[tuple[float, int, Path]] = []
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):
            status = path.stat()
            found.append((status.st_mtime, status.st_size, path))
    oldest, total = time.time() - MAX_UNUSED_SECONDS, 0
    for used, n_bytes, path in sorted(found, reverse=True):
        total += n_bytes
        if used < oldest or total > max_bytes:
            with contextlib.suppress(OSError):  # in use, on Windows
                path.unlink()
