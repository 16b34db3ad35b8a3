"""The header that MRtrix3's files of tracks and of track scalars have in common."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FileError

if TYPE_CHECKING:
    import numpy as np

MAX_HEADER_BYTES = 1 << 20


def track_header(
    path: Path, stream: Any, magic: bytes
) -> tuple[np.dtype[np.floating], dict[bytes, bytes]]:
    """Read a header, skip to the numbers, and return their type and the entries.

    Raises FileError when it does not begin with the `magic`, or makes no sense.
    """
    import numpy as np

    head = stream.readline(MAX_HEADER_BYTES)
    if head.strip() != magic:
        raise FileError(
            f"{path} is no {path.suffix} file: it does not begin with '{magic.decode()}'; "
            "rename it to its true format."
        )
    n_read, entries = len(head), {b"datatype": b"float32le"}
    while (line := stream.readline(MAX_HEADER_BYTES)).strip() != b"END":
        n_read += len(line)
        if not line or n_read > MAX_HEADER_BYTES:
            raise FileError(f"{path} has a header without END: it is truncated; copy it again.")
        key, _, value = line.partition(b":")
        entries[key.strip().lower()] = value.strip()
    n_read += len(line)
    datatype = entries[b"datatype"].decode("latin-1").lower()
    match = re.fullmatch(r"float(32|64)(le|be)?", datatype)
    place = re.fullmatch(rb"\.\s+(\d{1,18})", entries.get(b"file", b". %d" % n_read))
    if match is None or place is None or int(place[1]) < n_read:
        raise FileError(
            f"{path} has datatype {datatype!r} and file {entries.get(b'file', b'')!r} in its "
            "header, which makes no sense; write it again with tckconvert."
        )
    left = int(place[1]) - n_read
    while left and (skipped := stream.read(min(left, MAX_HEADER_BYTES))):
        left -= len(skipped)
    native = "le" if sys.byteorder == "little" else "be"
    order = "<" if (match[2] or native) == "le" else ">"
    return np.dtype(f"{order}f{int(match[1]) // 8}"), entries
