"""Reading gzip files in large pieces; called by :mod:`.stored_images` and readers of streamlines.

The standard library's reader inflates a few kilobytes a call. In a thread each call may wait for
the interpreter while the window is busy, which makes a volume of gigabytes take minutes.
"""

from __future__ import annotations

import contextlib
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

MAGIC = b"\x1f\x8b"
INPUT_BYTES = 1 << 20
PACKED = (".gz", ".mgz")  # endings of names
MOST_AFTER = 1 << 28  # bytes after what is read, that are unpacked for their checksum
GZIP = 31  # zlib's window bits for a gzip header and trailer, whose checksum it verifies


@contextlib.contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file for reading from its beginning, unpacked where its name says that it is packed.

    A packed one is read to its end when the block is left, up to a bound, for its checksum.
    """
    with path.open("rb") as file:
        if not path.name.lower().endswith(PACKED):
            yield file
            return
        stream = GzipStream(file)
        yield io.BufferedReader(stream, INPUT_BYTES)
        stream.verify()


class GzipStream(io.RawIOBase):
    """The content of a gzip file, of one member or several, from its beginning; it cannot seek."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._member = zlib.decompressobj(GZIP)
        self._input = b""

    def read(self, size: int = INPUT_BYTES) -> bytes:
        """Return the next bytes, at most `size` of them; none at the end.

        Raises zlib.error when the content is corrupt; EOFError when the file ends within a member.
        """
        while True:
            if self._member.eof and not self._begin_member():
                return b""
            compressed = self._input or self._stream.read(INPUT_BYTES)
            data = self._member.decompress(compressed, size)
            self._input = self._member.unconsumed_tail
            if data:
                return data
            if not compressed:
                raise EOFError("the compressed data end too early")

    def verify(self) -> None:
        """Read to the end, where zlib compares the checksum, but no more than a bound.

        Raises zlib.error when the content is corrupt; EOFError when the file ends too early.
        """
        left = MOST_AFTER
        while left > 0 and (data := self.read(min(left, INPUT_BYTES))):
            left -= len(data)

    def readable(self) -> bool:
        """Tell that it can be read, as a buffered reader asks."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the beginning of a buffer with the next bytes; return how many there were."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _begin_member(self) -> bool:
        """Go on to the next member; return whether there is one. Zeros between them are padding."""
        rest = self._member.unused_data.lstrip(b"\0")
        while not rest:
            more = self._stream.read(INPUT_BYTES)
            if not more:
                return False
            rest = more.lstrip(b"\0")
        self._member, self._input = zlib.decompressobj(GZIP), rest
        return True
