"""SHA-256 of files, also while they are read for another purpose; called by :mod:`.stored_images`
and the recipes.
"""

from __future__ import annotations

import hashlib
from os import PathLike
from typing import IO

from .damage import readable
from .paths import existing_file

BLOCK_BYTES = 1 << 20


def sha256_of(path: str | PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes. Raises FileError when it cannot be read."""
    file = existing_file(path)
    with readable(file), open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class HashedStream:
    """A binary stream whose bytes are hashed as they are read; it cannot seek."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._sha = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        data = self._stream.read(size)
        self._sha.update(data)
        return data

    def readinto(self, buffer: memoryview) -> int:
        """Fill a buffer with the next bytes; return how many there were."""
        n: int = self._stream.readinto(buffer)  # type: ignore[attr-defined]
        self._sha.update(buffer[:n])
        return n

    def sha256(self) -> str:
        """Read what is left and return the SHA-256 of the whole."""
        while self.read(BLOCK_BYTES):
            pass
        return self._sha.hexdigest()
