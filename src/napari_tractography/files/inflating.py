"""Reading gzip files in large pieces; called by :mod:`.stored_images`.

The standard library's reader inflates a few kilobytes a call. In a thread each call may wait for
the interpreter while the window is busy, which makes a volume of gigabytes take minutes.
"""

from __future__ import annotations

import zlib
from typing import IO

INPUT_BYTES = 1 << 20
GZIP = 31  # zlib's window bits for a gzip header and trailer, whose checksum it verifies


class GzipStream:
    """The content of a gzip file, of one member or several, from its beginning; it cannot seek."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._member = zlib.decompressobj(GZIP)
        self._input = b""

    def read(self, size: int) -> bytes:
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

    def readinto(self, buffer: memoryview) -> int:
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
